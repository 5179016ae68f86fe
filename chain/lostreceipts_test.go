package chain

import (
	"errors"
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// Receipts that are lost together with the state before their block are asked for elsewhere, if the block is irreversible:
// its header is what proves them.
func TestReceiptsThatCannotBeMadeAgain(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	require.NoError(t, n.Close())
	n.cfg.StateIndex, n.cfg.FlushBlocks = false, layersKept
	n.open()
	to := common.Address{9}
	b := n.build(0, n.tx(0, &to, 1, nil, 21_000))
	n.branch(n.Head(), 2*layersKept, 0, 0)
	lose := func() {
		n.receipts.drain()
		n.receiptCache.Purge()
		n.store.mu.Lock()
		defer n.store.mu.Unlock()
		delete(n.store.receipts, b.Hash())
	}
	lose()
	_, err := n.Receipts(b.Hash())
	require.ErrorIs(t, err, ErrStateUnavailable)
	require.NotErrorAs(t, err, new(block.ErrNoReceipts), "it is reversible")

	n.finalize(b)
	lose()
	_, err = n.Receipts(b.Hash())
	var without block.ErrNoReceipts
	require.ErrorAs(t, err, &without)
	require.Equal(t, b.Number(), without.Height)
	require.ErrorIs(t, err, ErrStateUnavailable)
}

// Receipts of an execution on an old state that is not what it was are not believed.
func TestRemadeReceiptsAreComparedWithTheHeader(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	to := common.Address{9}
	b := n.build(0, n.tx(0, &to, 1, nil, 21_000))
	want, err := n.Receipts(b.Hash())
	require.NoError(t, err)
	got, err := n.remake(b)
	require.NoError(t, err)
	require.Equal(t, want[0].Bloom, got[0].Bloom)
	other := copyOf(b)
	other.Header.ReceiptHash = common.Hash{1}
	_, err = n.remake(other)
	require.ErrorIs(t, err, block.ErrWrongReceipts)
}

// What keeps a node from making receipts again for a moment after a start is told as that, and not as a state that is too old.
func TestReceiptsOfAnUnreadyNode(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	to := common.Address{9}
	b := n.build(0, n.tx(0, &to, 1, nil, 21_000))
	n.finalize(b)
	for _, cause := range []error{
		fmt.Errorf("%w for block 7 yet: %w", ErrStateUnavailable, ErrReplaying{1, 5, 9}),
		errors.New("state histories haven't been fully indexed yet"),
		fmt.Errorf("read: %w", errors.New("state history hasn't been indexed yet")),
	} {
		var without block.ErrNoReceipts
		err := n.receiptsLost(b, cause)
		require.ErrorAs(t, err, &without)
		require.True(t, without.Soon())
		require.ErrorIs(t, err, cause)
		require.ErrorContains(t, err, "cannot be made again yet")
	}
	var without block.ErrNoReceipts
	require.ErrorAs(t, n.receiptsLost(b, fmt.Errorf("%w for block 7; kept are the states of the last 90 blocks", ErrStateUnavailable)), &without)
	require.False(t, without.Soon())

	require.True(t, n.keepsStateOf(8, 9))
	n.Chain.cfg.StateHistory = 2 * n.Chain.params.MaxReversible
	kept, _ := n.Kept()
	require.True(t, n.keepsStateOf(1001, 1000+kept))
	require.False(t, n.keepsStateOf(1000, 1000+kept))
}
