package blockstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// damageManifest makes the next start rebuild the primary database, from tables and journals that are whole.
func damageManifest(t *testing.T, disk *faultfs.Disk) {
	t.Helper()
	names, err := disk.List("meta")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST-") {
			require.NoError(t, disk.Corrupt("meta/"+name, flip(8)))
		}
	}
}

// openWithCrashes opens copies of a store, crashing before the 1st, 2nd, ... change of the disk, and gives what is left.
func openWithCrashes(t *testing.T, disk0 *faultfs.Disk, check func(left *faultfs.Disk, what string)) {
	t.Helper()
	points := 0
	for seed := range uint64(4) {
		for at := 1; ; at++ {
			disk := disk0.Copy()
			base := disk.Changes()
			disk.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == base+at} }, seed*1000+uint64(at)) //nolint:gosec // small
			s, err := blockstore.Open(config(disk), nil, nil)
			if err == nil {
				err = s.Close()
			}
			left := disk.Crashed()
			if left == nil {
				require.NoError(t, err)
				break
			}
			points++
			check(left, fmt.Sprintf("crash at change %d, seed %d", at, seed))
		}
	}
	require.Greater(t, points, 20)
}

// TestRebuiltMetaHasTheNewestVersions: a table keeps old versions of an entry behind the newest one, and a rebuilt database
// must not bring them back: the LIB would be an old one.
func TestRebuiltMetaHasTheNewestVersions(t *testing.T) {
	disk := faultfs.New()
	chain := line(nil, 60, 1, 2, 300)
	s := open(t, disk)
	for i := 0; i < 40; i += 10 { // one journal has several versions of the LIB
		require.NoError(t, s.AppendFinal(chain[i:i+10], final(chain[i:i+10]...)))
	}
	s = reopen(t, s, disk) // now one table has them
	for i := 40; i < 50; i += 5 {
		require.NoError(t, s.PutReversible(chain[i:i+5]))
		require.NoError(t, s.Finalize(final(chain[i:i+5]...)))
	}
	require.NoError(t, s.PutReversible(chain[50:]))
	require.NoError(t, reopen(t, s, disk).Close()) // all is in tables
	damageManifest(t, disk)
	s = open(t, disk)
	report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
	require.NoError(t, err)
	require.Len(t, report.Moved, 1, "the damaged database is set aside")
	height, _ := s.LIB()
	require.EqualValues(t, 49, height)
	requireChain(t, s, chain[:50])
	reversible, err := s.Reversible()
	require.NoError(t, err)
	require.Len(t, reversible, 10, "what became irreversible is not reversible again")
	require.NoError(t, s.Finalize(final(chain[50:]...)))
	s = reopen(t, s, disk)
	requireChain(t, s, chain)
}

// TestCrashWhileRebuildingMeta: a rebuilding that a crash ended is begun again or finished, never taken for whole while it
// is a part.
func TestCrashWhileRebuildingMeta(t *testing.T) {
	disk0, chain, records := metaInTables(t)
	damageManifest(t, disk0)
	openWithCrashes(t, disk0, func(left *faultfs.Disk, what string) {
		s, err := blockstore.Open(config(left), nil, nil)
		require.NoError(t, err, what)
		height, _ := s.LIB()
		require.EqualValues(t, len(chain)-1, height, what)
		requireChain(t, s, chain)
		reversible, err := s.Reversible()
		require.NoError(t, err)
		require.Len(t, reversible, 5, what)
		require.NoError(t, s.Close())
		requireKept(t, left, records, what)
	})
}

// TestCrashWhileKeepingAside: the copy of whole records is durable before they are cut.
func TestCrashWhileKeepingAside(t *testing.T) {
	disk0 := faultfs.New()
	s := open(t, disk0)
	chain := line(nil, 6, 1, 1, 40)
	require.NoError(t, s.AppendFinal(chain[:5], final(chain[:5]...)))
	name := s.Segments()[0].Name
	require.NoError(t, s.Close())
	beyond := sealedRecord(5, chain[5].Hash(), chain[5].Encode())
	require.NoError(t, disk0.Corrupt(name, func(b []byte) []byte { return append(slices.Clone(b), beyond...) }))
	openWithCrashes(t, disk0, func(left *faultfs.Disk, what string) {
		requireKept(t, left, map[uint64][]byte{5: beyond}, what)
		s, err := blockstore.Open(config(left), nil, nil)
		require.NoError(t, err, what)
		requireChain(t, s, chain[:5])
		require.NoError(t, s.Close())
		requireKept(t, left, map[uint64][]byte{5: beyond}, what+", second start")
	})
}

// TestTornJournalIsKeptAside: the end of the primary database's journal that cannot be read may be damage to the newest
// commit, and goleveldb removes journals.
func TestTornJournalIsKeptAside(t *testing.T) {
	disk := faultfs.New()
	chain := line(nil, 15, 1, 2, 300)
	s := open(t, disk)
	require.NoError(t, s.AppendFinal(chain[:10], final(chain[:10]...)))
	require.NoError(t, s.PutReversible(chain[10:]))
	require.NoError(t, s.Close())
	var journal string
	var torn []byte
	for name, data := range contents(t, disk) {
		if strings.HasPrefix(name, "meta/") && strings.HasSuffix(name, ".log") && len(data) > len(torn) {
			journal, torn = name, data
		}
	}
	require.NotEmpty(t, journal)
	torn = flip(len(torn) - 5)(slices.Clone(torn))
	require.NoError(t, disk.Corrupt(journal, func([]byte) []byte { return slices.Clone(torn) }))
	require.NoError(t, open(t, disk).Close())
	kept := false
	for name, data := range contents(t, disk) {
		kept = kept || strings.HasPrefix(name, "aside/") && strings.HasSuffix(name, "/"+journal) && bytes.Equal(data, torn)
	}
	require.True(t, kept, "%s is nowhere", journal)
}

// TestEarlierLIBIsRefused: an old LIB beside a list of newer segments is damage. To go on from it would cut what is final.
// The superblock knows better; without it the store is refused.
func TestEarlierLIBIsRefused(t *testing.T) {
	disk0 := faultfs.New()
	chain := line(nil, damageBlocks, 1, 2, 300)
	type moment struct {
		segments, blocks int
		lib              []byte
	}
	var moments []moment
	records := make(map[uint64][]byte)
	for i := 0; i < len(chain); i += 5 {
		s := open(t, disk0)
		require.NoError(t, s.AppendFinal(chain[i:i+5], final(chain[i:i+5]...)))
		n := len(s.Segments())
		require.NoError(t, s.Close())
		moments = append(moments, moment{n, i + 5, blockstore.SwapLIB(t, config(disk0), nil)})
	}
	s := open(t, disk0)
	for _, b := range chain {
		e, err := s.Entry(b.Number())
		require.NoError(t, err)
		records[b.Number()] = contents(t, disk0)[s.Segments()[e.Segment-1].Name][e.Offset:e.End()]
	}
	segments := len(s.Segments())
	require.NoError(t, s.Close())
	tried := 0
	for _, m := range moments {
		if m.segments == segments {
			continue // the list has no newer segment: what lies beyond is kept aside
		}
		tried++
		disk := disk0.Copy()
		blockstore.SwapLIB(t, config(disk), m.lib)
		whole := open(t, disk.Copy())
		requireChain(t, whole, chain)
		require.NoError(t, whole.Close())
		disk.Lose("SUPER.")
		_, err := blockstore.Open(config(disk), nil, nil)
		note := fmt.Sprintf("the LIB of %d blocks in %d segments, of %d", m.blocks, m.segments, segments)
		require.ErrorContains(t, err, fmt.Sprintf("it says that block %d is the last irreversible one", m.blocks-1), note)
		requireKept(t, disk, records, note)
	}
	require.Greater(t, tried, 3)
}

// TestIndexGoesOnBehindAReplacedBlock: a damaged block holds the completion of the index of transactions up until it is
// replaced, not until the next start.
func TestIndexGoesOnBehindAReplacedBlock(t *testing.T) {
	disk, chain, journal, synced := halfSynced(t)
	require.NoError(t, disk.Corrupt(journal, func(b []byte) []byte { return b[:synced] }))
	sound := open(t, disk.Copy())
	e, err := sound.Entry(33)
	require.NoError(t, err)
	require.NoError(t, disk.Corrupt(sound.Segments()[e.Segment-1].Name, flip(int(e.Offset)+100))) //nolint:gosec // small
	s := open(t, disk)
	var damage blockstore.ErrCorrupt
	require.Eventually(t, func() bool {
		_, _, _, err := s.Transaction(chain[35].Transactions[0].Hash())
		return errors.As(err, &damage)
	}, time.Minute, time.Millisecond)
	require.EqualValues(t, 33, damage.Height)
	require.NoError(t, s.Replace(33, chain[33]))
	requireIndexed(t, s)
	requireTransactions(t, s, chain)
}

// stoppedIndex is a store whose completion of the index of transactions is held up by a damaged block.
func stoppedIndex(t *testing.T) (*blockstore.Store, []*block.Block, blockstore.Segment) {
	t.Helper()
	disk, chain, journal, synced := halfSynced(t)
	require.NoError(t, disk.Corrupt(journal, func(b []byte) []byte { return b[:synced] }))
	sound := open(t, disk.Copy())
	e, err := sound.Entry(33)
	require.NoError(t, err)
	seg := sound.Segments()[e.Segment-1]
	require.True(t, seg.Sealed)
	require.NoError(t, disk.Corrupt(seg.Name, flip(int(e.Offset)+100))) //nolint:gosec // small
	s := open(t, disk)
	requireIndexStopped(t, s, chain)
	return s, chain, seg
}

func requireIndexStopped(t *testing.T, s *blockstore.Store, chain []*block.Block) {
	t.Helper()
	var damage blockstore.ErrCorrupt
	require.Eventually(t, func() bool {
		_, _, _, err := s.Transaction(chain[len(chain)-1].Transactions[0].Hash())
		return errors.As(err, &damage) && damage.Height == 33
	}, time.Minute, time.Millisecond)
}

// The completion of the index goes on when the damaged block is pruned.
func TestIndexGoesOnBehindAPrunedBlock(t *testing.T) {
	s, chain, seg := stoppedIndex(t)
	first, err := s.Prune(seg.Last + 1)
	require.NoError(t, err)
	require.Equal(t, seg.Last+1, first)
	requireIndexed(t, s)
	requireTransactions(t, s, chain[first:])
}

// It also goes on behind a replaced block when the database was replaced while it waited: the goroutine of the database before
// ends, and takes nothing from the one of the new database.
func TestIndexGoesOnAfterItsDatabaseWasReplaced(t *testing.T) {
	s, chain, _ := stoppedIndex(t)
	require.Equal(t, []bool{true, true}, s.MeetDerivedDamageTwice(errors.New("a table is damaged")))
	requireIndexStopped(t, s, chain)
	require.NoError(t, s.Replace(33, chain[33]))
	requireIndexed(t, s)
	requireTransactions(t, s, chain)
	s.AwaitCompletion()
}
