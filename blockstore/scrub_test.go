package blockstore_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
)

// scrubAll reads everything in small steps and returns the kinds of what it found.
func scrubAll(t *testing.T, s *blockstore.Store, makeReceipts func(common.Hash) (types.Receipts, error)) (found []string, steps int) {
	t.Helper()
	from, last := uint64(0), uint64(0)
	for {
		r, err := s.Scrub(t.Context(), from, 2000, makeReceipts)
		require.NoError(t, err)
		found = append(found, r.Problems...)
		if steps++; r.End {
			slices.Sort(found)
			return found, steps
		}
		require.Greater(t, r.Next, last, "it goes on")
		require.NotZero(t, r.Bytes)
		from, last = r.Next, r.Next
	}
}

// What is damaged in segments, height index and derived data is found without a reader, noted or put right.
func TestScrubFindsWhatNobodyReads(t *testing.T) {
	disk, chain := damaged(t)
	s := open(t, disk)
	found, steps := scrubAll(t, s, nil)
	require.Empty(t, found, "a sound store")
	require.Greater(t, steps, 5, "in steps")
	entryOf := func(h uint64) (string, blockstore.IndexEntry) {
		e, err := s.Entry(h)
		require.NoError(t, err)
		return s.Segments()[e.Segment-1].Name, e
	}
	const bad, unindexed, lost = 17, 23, 31
	name, e := entryOf(bad)
	first := s.Segments()[1]
	hashesOf := func(b *block.Block) (out []common.Hash) {
		for _, tx := range b.Transactions {
			out = append(out, tx.Hash())
		}
		return out
	}
	require.NoError(t, s.LoseDerived(chain[lost].Hash(), lost, hashesOf(chain[lost])))
	require.NoError(t, s.Close())
	require.NoError(t, disk.Corrupt(name, flip(int(e.Offset)+block.RecordHeaderBytes+20)))
	require.NoError(t, disk.Corrupt("index/000000000000.idx", flip(unindexed*block.IndexEntryBytes+40)))
	require.NoError(t, disk.Corrupt(first.Name, flip(2)))

	s = open(t, disk)
	require.Empty(t, s.Damaged())
	broken := func(common.Hash) (types.Receipts, error) { return nil, errors.New("its state is not kept") }
	found, _ = scrubAll(t, s, broken)
	require.Equal(t, []string{blockstore.ProblemHash, blockstore.ProblemIndex, blockstore.ProblemReceipts, blockstore.ProblemRecord, blockstore.ProblemSegment, blockstore.ProblemTransactions}, found)
	require.Equal(t, []uint64{bad}, s.Damaged(), "noted as by a reader")
	require.Len(t, s.RepairsWanted(), 1, "and wanted from peers")
	_, err := s.Receipts(chain[lost].Hash())
	require.ErrorIs(t, err, blockstore.ErrNotFound)

	require.NoError(t, s.Replace(bad, chain[bad]))
	found, _ = scrubAll(t, s, func(hash common.Hash) (types.Receipts, error) {
		require.Equal(t, chain[lost].Hash(), hash)
		return receiptsOf(chain[lost]), nil
	})
	require.Equal(t, []string{blockstore.ProblemReceipts}, found, "the rest was put right")
	found, _ = scrubAll(t, s, nil)
	require.Empty(t, found)
	requireChain(t, s, chain)
	for _, tx := range chain[lost].Transactions {
		_, height, _, err := s.Transaction(tx.Hash())
		require.NoError(t, err)
		require.EqualValues(t, lost, height)
	}
	report, err := s.Fsck(t.Context(), blockstore.FsckOptions{Transactions: true}, nil)
	require.NoError(t, err)
	require.True(t, report.Sound(), report.Problems)
}

// A lost segment is found as a whole; pruning under the reading is no problem; an empty store has nothing.
func TestScrubOfALostSegmentAndUnderPruning(t *testing.T) {
	disk, chain := damaged(t)
	s := open(t, disk)
	segs := s.Segments()
	require.Greater(t, len(segs), 4)
	require.NoError(t, s.Close())
	disk.Lose(segs[3].Name)
	s = open(t, disk)
	_, _ = scrubAll(t, s, nil)
	var want []uint64
	for h := segs[3].First; h <= segs[3].Last; h++ {
		want = append(want, h)
	}
	require.Equal(t, want, s.Damaged())
	for i := 0; len(s.Damaged()) > 0; i++ {
		require.Less(t, i, 100)
		for _, h := range s.Damaged() {
			_ = s.Replace(h, chain[h])
		}
	}
	r, err := s.Scrub(t.Context(), 0, 1, nil)
	require.NoError(t, err)
	_, err = s.Prune(segs[2].First)
	require.NoError(t, err)
	for !r.End {
		r, err = s.Scrub(t.Context(), r.Next, 5000, nil)
		require.NoError(t, err)
		require.Empty(t, r.Problems)
	}
	require.NoError(t, s.Close())
	_, err = s.Scrub(t.Context(), 0, 5000, nil)
	require.ErrorIs(t, err, blockstore.ErrClosed)
}
