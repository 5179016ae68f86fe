package chain

import (
	"context"
	"testing"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
)

// The accounts that differ between two executed blocks are known on one branch, in both directions, and across a switch;
// those of blocks that were executed long ago are not.
func TestChangedAccounts(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	root := n.Head()
	left := n.branch(root, 3, 0, 51)
	right := n.branch(root, 2, 1, 52)
	_, err := n.SetHead(context.Background(), left[2].Hash())
	require.NoError(t, err)

	changed := func(from, to *types.Header) []common.Address {
		t.Helper()
		got, known := n.ChangedAccounts(from, to)
		require.True(t, known)
		return got
	}
	require.Empty(t, changed(left[1].Header, left[1].Header))
	for _, got := range [][]common.Address{changed(left[0].Header, left[2].Header), changed(left[2].Header, left[0].Header)} {
		require.Contains(t, got, testAccount(0), "the sender")
		require.Contains(t, got, testAccount(51), "the recipient")
		require.NotContains(t, got, testAccount(52))
	}
	across := changed(left[2].Header, right[1].Header)
	require.Contains(t, across, testAccount(51))
	require.Contains(t, across, testAccount(52))

	at := left[2].Header
	for range changedBlocks {
		n.build(0)
	}
	_, known := n.ChangedAccounts(at, n.CurrentHeader())
	require.True(t, known)
	_, known = n.ChangedAccounts(left[1].Header, n.CurrentHeader())
	require.False(t, known, "forgotten")
	require.Len(t, n.changes.blocks, changedBlocks)
}

// A block that changed very many accounts does not stay in memory with others.
func TestChangeLogIsBoundedByAccounts(t *testing.T) {
	l := newChangeLog()
	many := &state.StateUpdate{AccountsOrigin: make(map[common.Address]*types.StateAccount)}
	for i := range changedAccounts/2 + 1 {
		many.AccountsOrigin[common.Address{byte(i), byte(i >> 8), byte(i >> 16)}] = nil
	}
	for i := range 3 {
		l.note(&block.Block{SealedHeader: &block.SealedHeader{Header: &types.Header{GasUsed: uint64(i)}}}, many) //nolint:gosec // small
		require.Len(t, l.blocks, 1)
		require.Len(t, many.AccountsOrigin, l.accounts)
	}
}
