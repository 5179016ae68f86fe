package node

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/genesis"
)

// loseReceipts leaves a stopped node without its database of derived data and without the index of its state history, so
// that it can neither read receipts nor execute old blocks again for them.
func loseReceipts(t *testing.T, c *config.Config) {
	t.Helper()
	require.NoError(t, os.RemoveAll(filepath.Join(c.Path(c.Store.Dir), "derived")))
	require.NoError(t, os.Remove(filepath.Join(c.Path(c.Chain.Dir), "ancient", "state", "account.index.cidx")))
}

// blockReceipts is eth_getBlockReceipts.
func blockReceipts(t *testing.T, n *Node, height uint64) (got []map[string]any, err error) {
	t.Helper()
	return got, dialNode(t, n).Call(&got, "eth_getBlockReceipts", hexutil.EncodeUint64(height))
}

// Receipts that a node has lost, together with the old states that they could be made from, come from its peer: the read
// that meets it waits for them.
func TestLostReceiptsAreFetchedFromAPeer(t *testing.T) {
	p := newPair(t, func(o *genesis.Options) { o.Slot = 20 * time.Millisecond })
	b, _ := p.run(p.producer)
	p.observer.P2P.Peers = b.host.Addrs()
	to := hashContract
	height := p.send(b, &to, nil)
	a, stop := p.run(p.observer)
	p.until("the state before it is no longer in memory", func() bool { return a.chain.FinalHeader().Number.Uint64() > height+160 })
	want, err := blockReceipts(t, b, height)
	require.NoError(t, err)
	require.Len(t, want, 1)
	stop()
	loseReceipts(t, p.observer)

	p.observer.Scrub.MegabytesPerSecond = 0   // nobody but the reader meets it
	p.observer.Store.RepairWait = time.Minute // a busy machine may need longer than the usual
	a, _ = p.run(p.observer)
	p.until("it is linked with its peer", func() bool { return a.sync.Status().Peers == 1 })
	header, err := a.chain.HeaderByNumber(height - 1)
	require.NoError(t, err)
	_, err = a.chain.StateAt(header)
	require.Error(t, err, "the block cannot be executed again")
	got, err := blockReceipts(t, a, height)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Empty(t, a.store.LostReceipts(), "they were stored again")
	require.Empty(t, a.store.Damaged())
}

// Without a peer that has them the reader is told at once, with the remedy; and the remedy works.
func TestLostReceiptsWithoutPeers(t *testing.T) {
	p := newPair(t, func(o *genesis.Options) { o.Slot = 20 * time.Millisecond })
	b, stop := p.run(p.producer)
	to := hashContract
	height := p.send(b, &to, nil)
	want, err := blockReceipts(t, b, height)
	require.NoError(t, err)
	p.until("the state before it is no longer in memory", func() bool { return b.chain.FinalHeader().Number.Uint64() > height+160 })
	stop()
	loseReceipts(t, p.producer)

	p.producer.Store.RepairWait = time.Minute // the wait does not end by itself before the test
	b, stop = p.run(p.producer)
	start := time.Now()
	_, err = blockReceipts(t, b, height)
	require.ErrorContains(t, err, fmt.Sprintf("receipts of block %d are missing in this node's store", height))
	require.ErrorContains(t, err, "no connected peer can send it now")
	require.ErrorContains(t, err, "bornode rebuild state")
	require.Less(t, time.Since(start), time.Minute)
	var data gethrpc.DataError
	require.ErrorAs(t, err, &data)
	require.Equal(t, map[string]any{"missingReceipts": hexutil.EncodeUint64(height)}, data.ErrorData())
	stop()

	_, _, err = RebuildState(p.producer, zap.NewNop())
	require.NoError(t, err)
	b, _ = p.run(p.producer)
	p.until("the blocks are executed again", func() bool { _, pending := b.chain.Replaying(); return !pending })
	got, err := blockReceipts(t, b, height)
	require.NoError(t, err)
	require.Equal(t, want, got)
}
