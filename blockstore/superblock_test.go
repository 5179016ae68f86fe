package blockstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// TestShortenedJournalLosesNoFinalBlock: goleveldb takes a journal that ends between two of its records for whole, and the
// database is then an older one that nothing in it contradicts.
func TestShortenedJournalLosesNoFinalBlock(t *testing.T) {
	disk0 := faultfs.New()
	s := open(t, disk0)
	chain := line(nil, damageBlocks/2, 1, 2, 300) // few enough for one journal: what an older one says is in a table too
	for i := range chain {
		require.NoError(t, s.AppendFinal(chain[i:i+1], final(chain[i])))
	}
	killed := disk0.Killed()
	require.NoError(t, s.Close())
	var journals []string
	size := 0
	for name, data := range contents(t, killed) {
		if strings.HasPrefix(name, "meta/") && strings.HasSuffix(name, ".log") {
			journals, size = append(journals, name), len(data)
		}
	}
	require.Len(t, journals, 1)
	journal := journals[0]
	for at := 0; at < size; at += 97 {
		disk, note := killed.Copy(), fmt.Sprintf("%s cut at %d of %d", journal, at, size)
		require.NoError(t, disk.Corrupt(journal, func(b []byte) []byte { return b[:at] }))
		looked, err := blockstore.Inspect(config(disk), nil)
		require.NoError(t, err, note)
		report, err := looked.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
		require.NoError(t, err, note)
		require.NotZero(t, report.Found, "%s: to look at it finds nothing", note)
		require.NoError(t, looked.Close())
		s := open(t, disk)
		requireChain(t, s, chain)
		qc, fc := s.Certificates()
		last := chain[len(chain)-1]
		require.Equal(t, last.Hash(), qc.Target.Hash, note)
		require.Equal(t, last.Hash(), fc.Target.Hash, note)
		require.Equal(t, string(final(last).Root), string(s.Root()), note)
		s = reopen(t, s, disk)
		report, err = s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
		require.NoError(t, err, note)
		require.Zero(t, report.Found, "%s: %+v", note, report)
		require.NoError(t, s.Close())
	}
}

// TestLostMetaComesBack: the segments and the superblock are enough, after a pruning too.
func TestLostMetaComesBack(t *testing.T) {
	for _, prune := range []bool{false, true} {
		disk, chain := damaged(t)
		s := open(t, disk)
		if prune {
			first, err := s.Prune(30)
			require.NoError(t, err)
			require.NotZero(t, first)
		}
		first, generation := s.FirstHeight(), s.Generation()
		require.NoError(t, s.Close())
		disk.Lose("meta/")
		s = open(t, disk)
		require.Equal(t, first, s.FirstHeight())
		require.Equal(t, generation, s.Generation())
		requireChain(t, s, chain[first:])
		more := child(chain[len(chain)-1], 1, 1, 10)
		require.NoError(t, s.AppendFinal(slices.Clip(append(chain[:0:0], more)), final(more)))
		s = reopen(t, s, disk)
		requireChain(t, s, append(slices.Clone(chain[first:]), more))
		require.NoError(t, s.Close())
	}
}

// TestDamagedSuperblock: one copy serves when the other is damaged, and both are written again from the database.
func TestDamagedSuperblock(t *testing.T) {
	disk0, chain := damaged(t)
	copies := []string{"SUPER.0", "SUPER.1"}
	for _, bad := range [][]string{copies[:1], copies[1:], copies} {
		for at := range 3 {
			disk := disk0.Copy()
			for _, name := range bad {
				require.NoError(t, disk.Corrupt(name, flip(at*9))) // magic, length and checksum, payload
			}
			s := open(t, disk)
			requireChain(t, s, chain)
			report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
			require.NoError(t, err)
			require.Equal(t, len(bad) == 2, report.Found == 1, "%+v", report)
			require.NoError(t, s.Close())
			disk.Lose("meta/")
			disk.Lose(bad[0])
			s = open(t, disk)
			requireChain(t, s, chain)
			require.NoError(t, s.Close())
		}
	}
}

// TestSuperblockOfAnotherStore: a superblock that names another block than database or segment has come from elsewhere.
func TestSuperblockOfAnotherStore(t *testing.T) {
	other := faultfs.New()
	s := open(t, other)
	strange := line(nil, damageBlocks, 2, 2, 300)
	require.NoError(t, s.AppendFinal(strange, final(strange...)))
	require.NoError(t, s.Close())
	super := contents(t, other)["SUPER.0"]
	for _, lost := range []bool{false, true} {
		disk, chain := damaged(t)
		for _, name := range []string{"SUPER.0", "SUPER.1"} {
			require.NoError(t, disk.Corrupt(name, func([]byte) []byte { return slices.Clone(super) }))
		}
		if lost {
			disk.Lose("meta/")
		}
		before := contents(t, disk)
		_, err := blockstore.Open(config(disk), nil, nil)
		require.ErrorContains(t, err, "the superblock")
		require.Equal(t, exit.Damage, exit.Code(err))
		if !lost {
			disk.Lose("SUPER.")
			s := open(t, disk)
			requireChain(t, s, chain)
			require.NoError(t, s.Close())
		}
		for name, data := range contents(t, disk) {
			if strings.HasPrefix(name, "segments/") {
				require.Equal(t, before[name], data, name)
			}
		}
	}
}

// TestUnknownFormatIsRefused: also when there are blocks, and before anything is changed.
func TestUnknownFormatIsRefused(t *testing.T) {
	disk, _ := damaged(t)
	blockstore.PutFormat(t, config(disk), "99")
	before := contents(t, disk)
	_, err := blockstore.Open(config(disk), nil, nil)
	require.ErrorContains(t, err, `the store has format "99", this program knows "2"; use the program that wrote it`)
	for name, data := range contents(t, disk) {
		if !strings.HasPrefix(name, "meta/") { // goleveldb begins a new journal when it opens a database
			require.Equal(t, before[name], data, name)
		}
	}
	_, err = blockstore.Inspect(config(disk), nil)
	require.ErrorContains(t, err, "use the program that wrote it")
}

// TestSuperblockAfterPowerCut: of a superblock that no seal of a segment made durable a power cut takes a bounded number of
// commits, and one while a store is opened takes nothing.
func TestSuperblockAfterPowerCut(t *testing.T) {
	disk := faultfs.New()
	cfg := config(disk)
	cfg.SegmentBytes = 4 << 20
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	defer s.Close()
	chain := line(nil, 150, 1, 0, 0)
	for i := range chain {
		require.NoError(t, s.AppendFinal(chain[i:i+1], final(chain[i])))
	}
	disk.SetPlan(func(faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: true} }, 0)
	_ = s.Sync()
	require.Error(t, s.PutMeta("key", nil, true))
	cut := disk.Crashed()
	require.NotNil(t, cut)
	cut.Lose("meta/")
	cfg.FS = cut
	left, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	defer left.Close()
	height, _ := left.LIB()
	require.GreaterOrEqual(t, int(height), len(chain)-1-64) //nolint:gosec // small
	requireChain(t, left, chain[:height+1])

	disk0, chain := damaged(t)
	openWithCrashes(t, disk0, func(left *faultfs.Disk, what string) {
		left.Lose("meta/")
		s := open(t, left)
		requireChain(t, s, chain)
		require.NoError(t, s.Close(), what)
	})
}
