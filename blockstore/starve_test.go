package blockstore_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

const mostDamaged = 1024 // heights that the store's list of damaged blocks holds

var errNoPeer = errors.New("no connected peer can send it now")

// withLostSegments is a disk whose sealed segments are lost, all but the first, and the heights that were in them: more than the list of damaged
// blocks holds.
func withLostSegments(t *testing.T) (*faultfs.Disk, []*block.Block, []uint64) {
	t.Helper()
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 1400, 1, 0, 0)
	for i := 0; i < len(chain); i += 100 {
		require.NoError(t, s.AppendFinal(chain[i:i+100], final(chain[i:i+100]...)))
	}
	var bad []uint64
	for _, seg := range s.Segments()[1:] {
		if seg.Sealed {
			disk.Lose(seg.Name)
			for h := seg.First; h <= seg.Last; h++ {
				bad = append(bad, h)
			}
		}
	}
	require.Greater(t, len(bad), mostDamaged+10)
	require.NoError(t, s.Close())
	return disk, chain, bad
}

// noteDamage reads damaged blocks.
func noteDamage(t *testing.T, s *blockstore.Store, heights []uint64) {
	t.Helper()
	for _, h := range heights {
		_, err := s.BlockByHeight(h)
		requireDamage(t, err, h)
	}
}

// A full list of damaged blocks takes a new one in the place of one that nobody can send, the one that was given up first; not in
// the place of one that is being fetched, or that somebody waits for.
func TestAFullListOfDamageTakesWhatCanBeFetched(t *testing.T) {
	disk, chain, bad := withLostSegments(t)
	s := open(t, disk)
	listed, later := bad[:mostDamaged], bad[mostDamaged:]
	noteDamage(t, s, listed)
	require.Equal(t, listed, s.Damaged())
	noteDamage(t, s, later[:1])
	require.Equal(t, listed, s.Damaged(), "all of them may still come")

	require.NotNil(t, s.Repaired(listed[7]))
	for _, i := range []int{7, 5, 3} {
		s.RepairImpossible(listed[i], errNoPeer)
	}
	noteDamage(t, s, later[:1])
	require.NotContains(t, s.Damaged(), listed[5])
	noteDamage(t, s, later[1:3])
	list := s.Damaged()
	require.Len(t, list, mostDamaged)
	require.NotContains(t, list, listed[3])
	require.Contains(t, list, listed[7], "somebody waits for it without a bound")
	require.Subset(t, list, later[:2])
	require.NotContains(t, list, later[2], "the list is full of what may come")

	require.NoError(t, s.Replace(later[0], chain[later[0]]))
	noteDamage(t, s, listed[5:6])
	require.Contains(t, s.Damaged(), listed[5], "a later read notes it again")
}

// The same of blocks whose receipts are missing.
func TestAFullListOfLostReceiptsTakesWhatCanBeFetched(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, mostDamaged+2, 1, 0, 0)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	for _, b := range chain[:mostDamaged] {
		require.ErrorAs(t, s.ReceiptsLost(b.Number(), b.Hash(), errNoPeer), new(block.ErrNoReceipts))
	}
	s.ReceiptsImpossible(9, errNoPeer)
	last := chain[mostDamaged]
	require.ErrorAs(t, s.ReceiptsLost(last.Number(), last.Hash(), errNoPeer), new(block.ErrNoReceipts))
	list := s.LostReceipts()
	require.Len(t, list, mostDamaged)
	require.Contains(t, list, last.Number())
	require.NotContains(t, list, uint64(9))
}

// Execution, which cannot go on without a block, has it fetched whatever the list holds.
func TestExecutionAwaitsABlockThatAFullListLacks(t *testing.T) {
	disk, chain, bad := withLostSegments(t)
	synctest.Test(t, func(t *testing.T) {
		s := open(t, disk)
		needed, second := bad[len(bad)-1], bad[len(bad)-2]
		noteDamage(t, s, bad[:mostDamaged])
		noteDamage(t, s, []uint64{needed, second})
		require.NotContains(t, s.Damaged(), needed)
		ended := make(chan error, 1)
		go func() { ended <- s.AwaitRepair(t.Context(), needed) }()
		synctest.Wait()
		require.Empty(t, ended)
		require.Contains(t, s.Damaged(), needed)
		require.NoError(t, s.Replace(needed, chain[needed]))
		require.NoError(t, <-ended)

		noteDamage(t, s, bad[mostDamaged:mostDamaged+1])
		repaired := s.Repaired(second)
		require.NotNil(t, repaired, "the running node's execution waits by this")
		require.Contains(t, s.Damaged(), second)
		require.NoError(t, s.Replace(second, chain[second]))
		<-repaired
		ctx, stop := context.WithCancel(t.Context())
		stop()
		require.NoError(t, s.AwaitRepair(ctx, second), "it is whole")
		require.Nil(t, s.Repaired(second))
		require.NoError(t, s.Close())
		time.Sleep(5 * time.Second) // goleveldb's goroutines end
	})
}

// A repair that finds more damage than the list holds remembers the newest blocks.
func TestRepairRemembersTheNewestDamage(t *testing.T) {
	disk, _, bad := withLostSegments(t)
	s := open(t, disk)
	report, err := s.Fsck(t.Context(), blockstore.FsckOptions{Repair: true}, nil)
	require.NoError(t, err)
	require.False(t, report.Sound())
	s = reopen(t, s, disk)
	require.Equal(t, bad[len(bad)-mostDamaged:], s.Damaged())
}
