package replica

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/store"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/mem"
)

// benchBrokers are three brokers on real disks.
func benchBrokers(b *testing.B) (*Manager, ID) {
	net := mem.NewNetwork()
	names := []string{"b0", "b1", "b2"}
	lease := Lease{Topic: [32]byte{1}, Epoch: 1, Leader: "b0", Replicas: names, Whole: true}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, len(names))
	var lead *Manager
	var hosts []*mem.Host
	for _, name := range names {
		cfg := store.DefaultConfig()
		cfg.Dir = b.TempDir()
		s, err := store.Open(cfg, nil, zap.NewNop(), nil)
		require.NoError(b, err)
		b.Cleanup(func() { _ = s.Close() })
		h, err := net.NewHost(transport.PeerID(name), link.DefaultConfig(), nil, nil)
		require.NoError(b, err)
		m, err := New(DefaultConfig(), Deps{Self: name, Store: Disk(s)})
		require.NoError(b, err)
		go func() { ended <- m.Run(ctx) }()
		go func() {
			for l := range h.Links() {
				m.AddLink(l)
			}
		}()
		for _, o := range hosts {
			require.NoError(b, h.Dial(ctx, mem.Addr(o.ID())))
		}
		hosts = append(hosts, h)
		require.NoError(b, m.SetLeases([]Lease{lease}))
		if lead == nil {
			lead = m
		}
	}
	b.Cleanup(func() {
		cancel()
		for range names {
			require.NoError(b, <-ended)
		}
		for _, h := range hosts {
			require.NoError(b, h.Close())
		}
	})
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 60_000 {
		if _, ready := lead.Leader(lease.ID()); ready {
			break
		}
		<-tick.C
	}
	return lead, lease.ID()
}

// BenchmarkAll is one producer after the other's acknowledgement by a majority; BenchmarkAllPipelined keeps 64 under way.
func BenchmarkAll(b *testing.B)          { benchAppend(b, 1, -1) }
func BenchmarkAllPipelined(b *testing.B) { benchAppend(b, 64, -1) }
func BenchmarkOne(b *testing.B)          { benchAppend(b, 64, 1) }

func benchAppend(b *testing.B, under int, acks int16) {
	m, id := benchBrokers(b)
	payload := string(make([]byte, 16<<10))
	b.SetBytes(16 << 10)
	ctx := context.Background()
	waits := make(chan Pending, under)
	done := make(chan error, 1)
	go func() {
		for w := range waits {
			if _, _, err := w.Wait(ctx); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	b.ResetTimer()
	for range b.N {
		w, err := m.Append(ctx, id, record(payload, -1, -1), acks)
		require.NoError(b, err)
		if under == 1 {
			_, _, err := w.Wait(ctx)
			require.NoError(b, err)
		} else {
			waits <- w
		}
	}
	close(waits)
	require.NoError(b, <-done)
}
