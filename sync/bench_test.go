package blocksync

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/tcp"
)

// BenchmarkRangeSyncTCP is a whole join over loopback tcp, model chain: transfer, decoding and digests, no execution.
func BenchmarkRangeSyncTCP(b *testing.B) {
	chain := newChain(1000, chainShape{size: 128 << 10})
	host := func() transport.Host {
		id, err := tcp.GenerateIdentity()
		require.NoError(b, err)
		cfg := tcp.DefaultConfig()
		cfg.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
		h, err := tcp.New(cfg, id, nil, nil)
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, h.Close()) })
		return h
	}
	run := func(h transport.Host, n *modelNode) *Manager {
		m, err := New(DefaultConfig(), Deps{Host: h, Driver: n, Blocks: n, Params: modelParams, Genesis: modelGenesis.Hash(), Classify: modelClassify})
		require.NoError(b, err)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- m.Run(ctx) }()
		b.Cleanup(func() { cancel(); require.NoError(b, <-ended) })
		return m
	}
	server := host()
	run(server, newModel(chain))
	for b.Loop() {
		n := newModel(nil)
		h := host()
		m := run(h, n)
		require.NoError(b, h.Dial(context.Background(), server.Addrs()[0]))
		tick := time.NewTicker(time.Millisecond)
		for n.Status().Head.Height < 1000 {
			<-tick.C
		}
		tick.Stop()
		b.SetBytes(int64(m.Status().Bytes)) //nolint:gosec // small
	}
}
