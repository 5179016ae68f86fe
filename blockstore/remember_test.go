package blockstore_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/blockstore"
)

// TestRepairRemembersDamage: a block that a repair cannot restore is noted again by the next start, which fetches it
// although nobody reads it; the list goes when the blocks are whole.
func TestRepairRemembersDamage(t *testing.T) {
	disk, chain := damaged(t)
	s := open(t, disk)
	seg := s.Segments()[1]
	require.NoError(t, s.Close())
	disk.Lose(seg.Name)
	s = open(t, disk)
	report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
	require.NoError(t, err)
	require.False(t, report.Sound())
	s = reopen(t, s, disk)
	require.Empty(t, s.Damaged(), "to look leaves no trace")

	report, err = s.Fsck(t.Context(), blockstore.FsckOptions{Repair: true}, nil)
	require.NoError(t, err)
	require.False(t, report.Sound())
	var want []uint64
	for h := seg.First; h <= seg.Last; h++ {
		want = append(want, h)
	}
	for range 2 { // as long as they are damaged
		s = reopen(t, s, disk)
		require.Equal(t, want, s.Damaged())
	}
	for _, h := range want {
		require.NoError(t, s.Replace(h, chain[h]))
	}
	s = reopen(t, s, disk)
	require.Empty(t, s.Damaged())
	s = reopen(t, s, disk)
	requireChain(t, s, chain)
}

// TestRepairRestoresHeaders: a damaged header of a segment, which no reader of blocks needs and no fetched block
// restores, is mended by a repair, and the records stay.
func TestRepairRestoresHeaders(t *testing.T) {
	disk0, chain := damaged(t)
	s := open(t, disk0)
	segs := s.Segments()
	require.NoError(t, s.Close())
	for _, seg := range []blockstore.Segment{segs[0], segs[2], segs[len(segs)-1]} {
		t.Run(fmt.Sprintf("segment %d", seg.Number), func(t *testing.T) {
			disk := disk0.Copy()
			require.NoError(t, disk.Corrupt(seg.Name, func(data []byte) []byte {
				data[3] ^= 1
				return data
			}))
			s := open(t, disk)
			report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
			require.NoError(t, err)
			require.Equal(t, 1, report.Found, "%+v", report)
			report, err = s.Fsck(t.Context(), blockstore.FsckOptions{Repair: true}, nil)
			require.NoError(t, err)
			require.True(t, report.Sound(), "%+v", report)
			s = reopen(t, s, disk)
			report, err = s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
			require.NoError(t, err)
			require.Zero(t, report.Found, "%+v", report)
			requireChain(t, s, chain)
		})
	}
}
