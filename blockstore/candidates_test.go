package blockstore_test

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// The indexes name candidates by 8 bytes of a hash: one that shares them with another is neither taken for it nor hides it.
func TestCandidatesOfTheSamePrefix(t *testing.T) {
	s := open(t, faultfs.New())
	chain := line(nil, 3, 1, 2, 40)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	for _, b := range chain {
		require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
	}
	tx := chain[1].Transactions[1].Hash()
	twin := common.Hash(append(append([]byte(nil), tx[:8]...), make([]byte, 24)...))
	for _, other := range []*block.Block{chain[0], chain[2]} { // below and above
		require.NoError(t, s.PutReceipts(other.Hash(), other.Number(), types.Receipts{{TxHash: twin}}))
	}
	hash, height, index, err := s.Transaction(tx)
	require.NoError(t, err)
	require.Equal(t, chain[1].Hash(), hash)
	require.Equal(t, chain[1].Number(), height)
	require.EqualValues(t, 1, index)
	_, _, _, err = s.Transaction(twin)
	require.ErrorIs(t, err, blockstore.ErrNotFound)

	require.NoError(t, s.PutHash(chain[1].Hash(), chain[2].Number()))
	h, err := s.Header(chain[1].Hash())
	require.NoError(t, err)
	require.Equal(t, chain[1].Number(), h.Number())
	almost := chain[1].Hash()
	almost[31] ^= 1
	_, err = s.Header(almost)
	require.ErrorIs(t, err, blockstore.ErrNotFound)
}

// A transaction at the same place of two branches has one entry, which stays when one of them loses.
func TestTransactionAtTheSamePlaceOfALosingBranch(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	base := line(nil, 1, 1, 1, 40)
	require.NoError(t, s.AppendFinal(base, final(base...)))
	wins := child(base[0], 2, 2, 40)
	loses := &block.Block{SealedHeader: child(base[0], 3, 2, 40).SealedHeader, Transactions: wins.Transactions, Senders: wins.Senders}
	for _, b := range []*block.Block{wins, loses} {
		require.NoError(t, s.PutReversible([]*block.Block{b}))
		require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
	}
	tx := wins.Transactions[1].Hash()
	locs, err := s.TransactionLocations(tx)
	require.NoError(t, err)
	require.Len(t, locs, 2)
	f := final(wins)
	f.Drop = []common.Hash{loses.Hash()}
	require.NoError(t, s.Finalize(f))
	locs, err = s.TransactionLocations(tx)
	require.NoError(t, err)
	require.Len(t, locs, 1)
	require.Equal(t, wins.Hash(), locs[0].Block)
}

// Derived data of another form is rebuilt by the start.
func TestDerivedDataOfAnotherForm(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 5, 1, 2, 40)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	for _, b := range chain {
		require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
	}
	require.NoError(t, s.ForgetDerivedForm())
	s = reopen(t, s, disk)
	s.AwaitCompletion()
	require.Len(t, chain, askAll(t, s, chain, true), "receipts are copied")
	names, err := disk.List("aside")
	require.NoError(t, err)
	require.Len(t, names, 1)
}
