package chain

import (
	"context"
	"testing"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// branch makes n blocks on p, which must be executed, and adopts them.
func (n *testNode) branch(p *block.SealedHeader, length int, skip uint64, to int) []*block.Block {
	n.t.Helper()
	_, err := n.SetHead(context.Background(), p.Hash())
	require.NoError(n.t, err)
	db, err := n.StateAt(n.CurrentHeader())
	require.NoError(n.t, err)
	n.nonce = map[int]uint64{0: db.GetNonce(testAccount(0))}
	var out []*block.Block
	for range length {
		out = append(out, n.build(skip, n.transfer(0, to)))
		skip = 0
	}
	return out
}

type recorder struct {
	heads  chan HeadEvent
	reorgs chan ReorgEvent
}

func record(n *testNode) *recorder {
	r := &recorder{make(chan HeadEvent, 4096), make(chan ReorgEvent, 64)}
	n.SubscribeHead(r.heads)
	n.SubscribeReorg(r.reorgs)
	return r
}

func hashes(bs []*block.Block) (hs []common.Hash) {
	for _, b := range bs {
		hs = append(hs, b.Hash())
	}
	return hs
}

func TestShortSwitch(t *testing.T) { testSwitch(t, 3, 4) }

// TestDeepSwitch goes below the 128 layers: the state on disk must be rolled back.
func TestDeepSwitch(t *testing.T) {
	depth := 200
	if long() {
		depth = 500
	}
	testSwitch(t, depth, depth+1)
}

func testSwitch(t *testing.T, a, b int) {
	gen := newTestGenesis(t, nil)
	maker, n := newTestNode(t, gen), newTestNode(t, gen)
	common1 := maker.branch(maker.Head(), 2, 0, 50)
	left := maker.branch(common1[1].SealedHeader, a, 0, 51)
	right := maker.branch(common1[1].SealedHeader, b, 1, 52)

	rec := record(n)
	n.give(common1...)
	n.give(left...)
	for _, x := range right {
		x = copyOf(x)
		require.NoError(t, n.CheckBody(x, false))
		require.NoError(t, n.Add([]*block.Block{x}))
	}
	last := right[len(right)-1]
	res, err := n.SetHead(context.Background(), last.Hash())
	require.NoError(t, err)
	require.NoError(t, res.Reason)
	require.Equal(t, hashes(right), res.Executed)
	require.Equal(t, last.Hash(), n.Head().Hash())
	require.Equal(t, right[0].Hash(), n.CanonicalHash(3))

	ev := <-rec.reorgs
	require.Len(t, ev.Removed, a)
	require.Equal(t, left[a-1].Hash(), ev.Removed[0].Hash(), "newest first")
	require.Len(t, ev.Removed[0].Transactions, 1, "the abandoned transactions are told")
	for _, x := range append(append(append([]*block.Block{}, common1...), left...), right...) {
		if got := <-rec.heads; x.Number() > common1[1].Number() {
			require.Equal(t, x.Hash(), got.Block.Hash())
		}
	}
	db, err := n.StateAt(n.CurrentHeader())
	require.NoError(t, err)
	require.Zero(t, db.GetBalance(testAccount(51)).Sign())
	require.EqualValues(t, b, db.GetBalance(testAccount(52)).Uint64())
	_, _, _, _, ok := n.Transaction(left[0].Transactions[0].Hash())
	require.False(t, ok, "a transaction of the losing branch is not on the executed chain")

	// And back: within the layers nothing is executed again, the events come all the same.
	res, err = n.SetHead(context.Background(), left[a-1].Hash())
	require.NoError(t, err)
	require.NoError(t, res.Reason)
	require.Len(t, res.Executed, a)
	require.Equal(t, left[a-1].Hash(), n.Head().Hash())
	_, h, _, _, ok := n.Transaction(left[0].Transactions[0].Hash())
	require.True(t, ok)
	require.Equal(t, left[0].Hash(), h)
	n.finalize(append(append([]*block.Block{}, common1...), left[0])...)
	_, err = n.SetHead(context.Background(), last.Hash())
	require.ErrorIs(t, err, ErrUnknownBlock, "the losing branch left the tree")
}
