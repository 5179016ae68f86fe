package node

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/exit"
)

// damageBlocks flips a byte in the records of blocks of a stopped node, which the start needs: no state is on disk.
func damageBlocks(t *testing.T, c *config.Config, heights ...uint64) {
	t.Helper()
	cfg := c.Store
	cfg.Dir = c.Path(cfg.Dir)
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	var entries []blockstore.IndexEntry
	for _, h := range heights {
		e, err := s.Entry(h)
		require.NoError(t, err)
		entries = append(entries, e)
	}
	require.NoError(t, s.Close())
	for _, e := range entries {
		flipByte(t, filepath.Join(cfg.Dir, "segments", fmt.Sprintf("%08d.seg", e.Segment)), int64(e.Offset)+block.RecordHeaderBytes+20)
	}
}

// A node whose start needs damaged blocks, of which it must execute some again and reads another to know where to begin,
// comes up, says that it heals, has them fetched from its peer and takes part. Its last irreversible block it restores by
// itself.
func TestReplayWaitsForDamagedBlocks(t *testing.T) {
	p := newPair(t)
	a, _ := p.run(p.producer)
	p.observer.P2P.Peers = []string{a.host.Addrs()[0]}
	b, leave := p.run(p.observer)
	p.until("blocks are final", func() bool { return b.chain.FinalHeader().Number.Uint64() > 30 })
	leave()
	killed := killedCopy(t, p.observer)
	lib, _ := b.store.LIB()
	damageBlocks(t, killed, 3, 17, 18, lib-1, lib)

	killed.P2P.Peers = nil // it has a peer when it waits
	core, logs := observer.New(zap.WarnLevel)
	b, _ = p.runWith(killed, zap.New(core))
	p.until("it waits", func() bool { return b.healing.Load() })
	client := b.rpc.Client()
	defer client.Close()
	var syncing map[string]any
	require.NoError(t, client.Call(&syncing, "eth_syncing"))
	require.Equal(t, "healing", syncing["state"])
	var at map[string]any
	require.NoError(t, client.Call(&at, "eth_getBlockByNumber", "0x5", true), "what is sound is served")
	require.NotEmpty(t, at["hash"])
	require.NoError(t, b.host.Dial(t.Context(), a.host.Addrs()[0]))
	p.until("it follows the chain", func() bool { return b.isReady() && b.chain.FinalHeader().Number.Uint64() > lib+2 })
	require.Equal(t, 1, logs.FilterMessageSnippet("this node heals").Len())
	require.Empty(t, b.store.Damaged())
	require.NoError(t, client.Call(new(string), "eth_getBalance", addressOf(p.admin), "latest"))
}

// Without a peer the node ends, after store.heal_wait, with one sentence that names the folder, the block and what to do.
func TestReplayWithoutPeersEndsWithARemedy(t *testing.T) {
	p := newPair(t)
	n, stop := p.run(p.producer)
	p.until("blocks are final", func() bool { return n.chain.FinalHeader().Number.Uint64() > 20 })
	stop()
	killed := killedCopy(t, p.producer)
	damageBlocks(t, killed, 9)
	killed.Store.HealWait = time.Millisecond
	n, _ = open(t, killed)
	err := n.Run(t.Context())
	var fault *exit.Fault
	require.ErrorAs(t, err, &fault)
	require.Equal(t, killed.Path(killed.Store.Dir), fault.File)
	for _, part := range []string{"block 9", "no connected peer can send it now", "bornode fsck --repair --blocks FILE", "p2p.peers"} {
		require.ErrorContains(t, err, part)
	}
}
