package blockstore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// contents reads all files of a disk.
func contents(t *testing.T, disk *faultfs.Disk) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	disk.Each(func(name string, data []byte) { files[name] = data })
	return files
}

// requireKept checks that the bytes of every record of these blocks are still in a segment file, in place or aside.
func requireKept(t *testing.T, disk *faultfs.Disk, records map[uint64][]byte, note string) {
	t.Helper()
	var all [][]byte
	for name, data := range contents(t, disk) {
		if strings.HasSuffix(name, ".seg") {
			all = append(all, data)
		}
	}
	for height, rec := range records {
		require.True(t, slices.ContainsFunc(all, func(data []byte) bool { return bytes.Contains(data, rec) }), "%s: the record of block %d is gone", note, height)
	}
}

// metaInTables makes a store whose primary database has tables, a manifest with history and a journal, several sealed
// segments and reversible blocks.
func metaInTables(t *testing.T) (disk *faultfs.Disk, done []*block.Block, records map[uint64][]byte) {
	t.Helper()
	disk = faultfs.New()
	chain := line(nil, damageBlocks, 1, 2, 300)
	for i := 0; i < len(chain); i += 10 {
		s := open(t, disk) // each start writes the journal to a table
		require.NoError(t, s.PutReversible(chain[i:i+10]))
		up := chain[i : i+10]
		if i+10 == len(chain) {
			up = chain[i : i+5]
		}
		require.NoError(t, s.Finalize(final(up...)))
		require.NoError(t, s.Close())
	}
	s := open(t, disk)
	defer s.Close()
	records = make(map[uint64][]byte)
	done = chain[:damageBlocks-5]
	files := contents(t, disk)
	for _, b := range done {
		e, err := s.Entry(b.Number())
		require.NoError(t, err)
		seg := s.Segments()[e.Segment-1]
		records[b.Number()] = files[seg.Name][e.Offset:e.End()]
	}
	require.Greater(t, len(s.Segments()), 3)
	return disk, done, records
}

// damageMeta damages a file of the primary database: one bit, a cut end, a page of zeros, or the file is gone.
func damageMeta(t *testing.T, disk *faultfs.Disk, rng *rand.Rand) (what string) {
	t.Helper()
	names, err := disk.List("meta")
	require.NoError(t, err)
	name := "meta/" + names[rng.IntN(len(names))]
	kind := []string{"bit", "bit", "bit", "cut", "zeros", "gone"}[rng.IntN(6)]
	if kind == "gone" {
		disk.Lose(name)
		return kind + " " + name
	}
	require.NoError(t, disk.Corrupt(name, func(b []byte) []byte {
		if len(b) == 0 {
			return b
		}
		at := rng.IntN(len(b))
		switch kind {
		case "bit":
			b[at] ^= 1 << rng.IntN(8)
		case "cut":
			return b[:at]
		case "zeros":
			clear(b[at:min(at+4096, len(b))])
		}
		return b
	}))
	return kind + " " + name
}

// TestDamagedMeta damages the primary database anywhere. To look at the store changes nothing; to open it never takes a
// whole record away and brings every final block back, from the segments and the superblock. Without the superblock an
// error says what to do, or every block that the LIB covers is there.
func TestDamagedMeta(t *testing.T) {
	disk0, chain, records := metaInTables(t)
	runs := seeds(2000, 600, 120)
	opened, refused, whole := 0, 0, 0
	for seed := range uint64(runs) { //nolint:gosec // positive
		rng := rand.New(rand.NewPCG(seed, 5))
		disk := disk0.Copy()
		note := fmt.Sprintf("seed %d, %s", seed, damageMeta(t, disk, rng))
		without := seed%4 == 0
		if without {
			disk.Lose("SUPER.")
		}
		before, changes := contents(t, disk), disk.Changes()
		if s, err := blockstore.Inspect(config(disk), nil); err == nil {
			_, err := s.Fsck(t.Context(), blockstore.FsckOptions{Transactions: true}, nil)
			require.NoError(t, err, note)
			require.NoError(t, s.Close(), note)
		}
		require.Equal(t, changes, disk.Changes(), "%s: looking at the store changes it", note)
		require.Equal(t, before, contents(t, disk), note)

		s, err := blockstore.Open(config(disk), nil, nil)
		requireKept(t, disk, records, note)
		if err != nil {
			require.True(t, without, "%s: %v", note, err)
			require.Contains(t, err.Error(), "away and start the node, which synchronises again", note)
			refused++
			continue
		}
		height, _ := s.LIB()
		require.False(t, s.Empty(), note)
		requireChain(t, s, chain[:height+1])
		if without {
			opened++
		} else {
			require.Len(t, chain, int(height)+1, note) //nolint:gosec // small
			whole++
		}
		// What comes again from a peer, or is built on, finds its place.
		rest := append(slices.Clone(chain[height+1:]), child(chain[len(chain)-1], 1, 2, 300))
		require.NoError(t, s.AppendFinal(rest, final(rest...)), note)
		s = reopen(t, s, disk)
		requireChain(t, s, append(slices.Clone(chain), rest[len(rest)-1]))
		require.NoError(t, s.Close())
		requireKept(t, disk, records, note)
	}
	t.Logf("%d whole; without a superblock %d opened, %d refused", whole, opened, refused)
	require.Greater(t, whole, runs/2)
	require.NotZero(t, opened)
}

// TestLookingChangesNothing: neither a crashed nor a sound store changes when it is looked at, and what a start would
// repair is part of the report.
func TestLookingChangesNothing(t *testing.T) {
	disk, chain := damaged(t)
	s := open(t, disk)
	more := line(chain[len(chain)-1], 30, 1, 2, 300)
	var crashed *faultfs.Disk
	disk.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if strings.HasPrefix(c.Name, "meta/") { // records are durable, the commit is not
			return faultfs.Verdict{Crash: true}
		}
		return faultfs.Verdict{}
	}, 1)
	require.Error(t, s.AppendFinal(more, final(more...)))
	crashed = disk.Crashed()
	require.NotNil(t, crashed)
	_ = s.Close()

	before, changes := contents(t, crashed), crashed.Changes()
	looked, err := blockstore.Inspect(config(crashed), nil)
	require.NoError(t, err)
	requireChain(t, looked, chain)
	report, err := looked.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
	require.NoError(t, err)
	require.NotEmpty(t, report.Moved, "it says what a start sets aside")
	require.NoError(t, looked.AppendFinal(more[:3], final(more[:3]...)), "changes stay in memory")
	requireChain(t, looked, append(slices.Clone(chain), more[:3]...))
	require.NoError(t, looked.Close())
	require.Equal(t, changes, crashed.Changes())
	require.Equal(t, before, contents(t, crashed))

	s = open(t, crashed)
	requireChain(t, s, chain)
	require.NoError(t, s.AppendFinal(more, final(more...)))
	report, err = s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
	require.NoError(t, err)
	require.Len(t, report.Asides, 1)
	_, err = blockstore.Inspect(config(crashed), nil)
	require.ErrorContains(t, err, "locked", "a store in use is not looked at")
}

// TestUnlistedSegments: segments that the database does not list are listed again when they fit, and are never removed.
func TestUnlistedSegments(t *testing.T) {
	for _, lose := range [][]int{{0}, {1}, {2, 3}, {0, 1, 2}} {
		disk, chain := damaged(t)
		blockstore.ForgetSegments(t, config(disk), lose...)
		s := open(t, disk)
		requireChain(t, s, chain)
		for i, seg := range s.Segments() {
			require.EqualValues(t, i+1, seg.Number)
		}
		report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
		require.NoError(t, err)
		require.True(t, report.Sound(), "%+v", report)
		require.Equal(t, len(lose), report.Found)
		s = reopen(t, s, disk)
		report, err = s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
		require.NoError(t, err)
		require.Zero(t, report.Found, "%+v", report)
		require.NoError(t, s.Close())
	}
}

// A file with the number and the heights of a segment that is not listed, but with blocks of another branch, is not listed:
// it stays as it is, and is told.
func TestUnlistedSegmentOfAnotherBranchIsNotListed(t *testing.T) {
	disk, chain := damaged(t)
	s := open(t, disk)
	seg := s.Segments()[2]
	require.NoError(t, s.Close())
	blockstore.ForgetSegments(t, config(disk), 2)
	other := slices.Clone(contents(t, disk)[seg.Name][:block.SegmentHeaderBytes])
	for _, b := range line(chain[seg.First-1], int(seg.Last-seg.First)+1, 2, 2, 300) { //nolint:gosec // small
		other = append(other, sealedRecord(b.Number(), b.Hash(), b.Encode())...)
	}
	require.NoError(t, disk.Corrupt(seg.Name, func([]byte) []byte { return slices.Clone(other) }))
	s = open(t, disk)
	for _, x := range s.Segments() {
		require.NotEqual(t, seg.Number, x.Number)
	}
	require.Equal(t, other, contents(t, disk)[seg.Name])
	report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
	require.NoError(t, err)
	require.NotZero(t, report.Found)
}

// withUnknownRecord is the disk of a store of five blocks whose segment, which is named, holds a sixth one behind them that the store
// does not know: a start keeps a copy of it and cuts it.
func withUnknownRecord(t *testing.T) (disk *faultfs.Disk, chain []*block.Block, segment string) {
	t.Helper()
	disk = faultfs.New()
	s := open(t, disk)
	chain = line(nil, 6, 1, 1, 40)
	require.NoError(t, s.AppendFinal(chain[:5], final(chain[:5]...)))
	segment = s.Segments()[0].Name
	require.NoError(t, s.Close())
	require.NoError(t, disk.Corrupt(segment, func(b []byte) []byte {
		return append(slices.Clone(b), sealedRecord(5, chain[5].Hash(), chain[5].Encode())...)
	}))
	return disk, chain, segment
}

// TestFullDiskKeepsNoPiecesAside: a start that cannot keep a copy leaves nothing of it, so starts do not fill a full disk.
func TestFullDiskKeepsNoPiecesAside(t *testing.T) {
	disk, chain, _ := withUnknownRecord(t)
	disk.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Kind == faultfs.Write && strings.HasPrefix(c.Name, "aside/") {
			return faultfs.Verdict{Err: syscall.ENOSPC, Short: 10}
		}
		return faultfs.Verdict{}
	}, 1)
	_, err := blockstore.Open(config(disk), nil, nil)
	require.ErrorIs(t, err, syscall.ENOSPC)
	for name := range contents(t, disk) {
		require.False(t, strings.HasPrefix(name, "aside/"), name)
	}
	disk.SetPlan(nil, 1)
	requireChain(t, open(t, disk), chain[:5])
}

// TestRepeatedStartsKeepOneCopy: a supervisor repeats a start that fails behind its copy; the same bytes are kept once.
func TestRepeatedStartsKeepOneCopy(t *testing.T) {
	disk, chain, name := withUnknownRecord(t)
	disk.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Kind == faultfs.Truncate && c.Name == name {
			return faultfs.Verdict{Err: syscall.EIO}
		}
		return faultfs.Verdict{}
	}, 1)
	for range 3 {
		_, err := blockstore.Open(config(disk), nil, nil)
		require.ErrorIs(t, err, syscall.EIO)
	}
	disk.SetPlan(nil, 1)
	requireChain(t, open(t, disk), chain[:5])
	copies := 0
	for name := range contents(t, disk) {
		if strings.HasPrefix(name, "aside/") {
			copies++
		}
	}
	require.Equal(t, 1, copies)
}
