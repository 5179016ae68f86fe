package chain

import (
	"context"
	"testing"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
)

func TestTransfersOnTwoNodes(t *testing.T) {
	gen := newTestGenesis(t, nil)
	a, b := newTestNode(t, gen), newTestNode(t, gen)
	var blocks []*block.Block
	for i := range 5 {
		blocks = append(blocks, a.build(uint64(i%2), a.transfer(0, 100), a.transfer(1, 101), a.transfer(0, 102)))
	}
	b.give(blocks...)
	require.Equal(t, a.Head().Hash(), b.Head().Hash())
	require.EqualValues(t, 15, b.SenderRecoveries())
	require.EqualValues(t, 0, a.SenderRecoveries(), "the builder never recovers")
	for _, n := range []*testNode{a, b} {
		db, err := n.StateAt(n.CurrentHeader())
		require.NoError(t, err)
		require.EqualValues(t, 5, db.GetBalance(testAccount(100)).Uint64())
		require.EqualValues(t, 10, db.GetNonce(testAccount(0)))
		rs, err := n.Receipts(blocks[2].Hash())
		require.NoError(t, err)
		require.Len(t, rs, 3)
		require.Equal(t, blocks[2].Transactions[1].Hash(), rs[1].TxHash)
		require.Equal(t, blocks[2].Hash(), rs[1].BlockHash)
		require.Equal(t, types.ReceiptStatusSuccessful, rs[1].Status)
		require.EqualValues(t, 42_000, rs[1].CumulativeGasUsed)
		tx, h, height, index, ok := n.Transaction(blocks[3].Transactions[2].Hash())
		require.True(t, ok)
		require.Equal(t, blocks[3].Hash(), h)
		require.EqualValues(t, 4, height)
		require.EqualValues(t, 2, index)
		require.Equal(t, blocks[3].Transactions[2].Hash(), tx.Hash())
	}
	b.finalize(blocks[:3]...)
	require.EqualValues(t, 3, b.FinalHeader().Number.Uint64())
	require.Equal(t, blocks[0].Hash(), b.CanonicalHash(1))
	require.Equal(t, blocks[4].Hash(), b.CanonicalHash(5))
	require.NotNil(t, b.BlockByNumber(1))

	c := newTestNode(t, gen)
	var run []*block.Block
	for _, x := range blocks {
		y := copyOf(x)
		require.NoError(t, c.CheckBody(y, true))
		run = append(run, y)
	}
	require.NoError(t, c.ImportFinal(context.Background(), run, finalOf(run)))
	require.Zero(t, c.SenderRecoveries())
	require.Equal(t, a.Head().Header.Root, c.Head().Header.Root)
	require.EqualValues(t, 5, c.FinalHeader().Number.Uint64())
}
