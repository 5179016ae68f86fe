package blockstore_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
)

// requireFirst checks that a block cannot be replaced before another one.
func requireFirst(t *testing.T, err error, height, first uint64) {
	t.Helper()
	var order blockstore.ErrNeighbourFirst
	require.ErrorAs(t, err, &order)
	require.Equal(t, height, order.Height)
	require.Equal(t, first, order.First)
}

// Of a run of blocks without records and index entries the store names the one that can be placed now, over the bounds of
// segments; the others follow from there down, without a refusal.
func TestARunWithoutIndexIsReplacedFromItsEnd(t *testing.T) {
	for name, indexed := range map[string]uint64{"no entry": 0, "entries of the last two": 2} {
		t.Run(name, func(t *testing.T) {
			disk, chain := damaged(t)
			s := open(t, disk)
			segs := s.Segments()
			low, high := segs[1].First, segs[2].Last
			require.NoError(t, s.Close())
			disk.Lose(segs[1].Name)
			disk.Lose(segs[2].Name)
			require.NoError(t, disk.Corrupt("index/000000000000.idx", func(b []byte) []byte {
				clear(b[low*block.IndexEntryBytes : (high+1-indexed)*block.IndexEntryBytes])
				return b
			}))
			s = open(t, disk)
			first := high
			if indexed > 0 {
				first = high - indexed + 1
			}
			for h := low; h < first; h++ {
				requireFirst(t, s.Replace(h, chain[h]), h, first)
			}
			require.NoError(t, s.Replace(first, chain[first]))
			for h := low; h+1 < first; h++ {
				requireFirst(t, s.Replace(h, chain[h]), h, first-1)
			}
			for h := first - 1; h >= low; h-- {
				require.NoError(t, s.Replace(h, chain[h]))
			}
			for h := first + 1; h <= high; h++ {
				require.NoError(t, s.Replace(h, chain[h]))
			}
			requireChain(t, reopen(t, s, disk), chain)
		})
	}
}
