package blockstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

const damageBlocks = 60

func damaged(t *testing.T) (*faultfs.Disk, []*block.Block) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, damageBlocks, 1, 2, 300)
	for i := 0; i < len(chain); i += 10 {
		require.NoError(t, s.AppendFinal(chain[i:i+10], final(chain[i:i+10]...)))
	}
	for _, b := range chain {
		require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
	}
	require.NoError(t, s.Close())
	return disk, chain
}

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b[at] ^= 0x40
		return b
	}
}

// requireOnlyDamaged checks that exactly the blocks of bad are refused, each by its height, by every way in.
func requireOnlyDamaged(t *testing.T, s *blockstore.Store, chain []*block.Block, bad map[uint64]bool) {
	t.Helper()
	for _, b := range chain {
		got, err := s.BlockByHeight(b.Number())
		if !bad[b.Number()] {
			require.NoError(t, err)
			requireSame(t, b, got)
			got, err = s.Block(b.Hash())
			require.NoError(t, err)
			requireSame(t, b, got)
			continue
		}
		_, byHash := s.Block(b.Hash())
		_, header := s.HeaderByHeight(b.Number())
		for _, err := range []error{err, byHash, header, s.Range(b.Number(), b.Number()+3, 0, func(uint64, []byte) error {
			t.Fatalf("a damaged block %d was served", b.Number())
			return nil
		})} {
			var corrupt blockstore.ErrCorrupt
			if errors.As(err, &corrupt) {
				require.Equal(t, b.Number(), corrupt.Height)
			} else {
				require.ErrorIs(t, err, blockstore.ErrNotFound, "block %d", b.Number())
			}
		}
	}
	require.NoError(t, s.Failed(), "damage is no failure of the store")
}

// TestDamagedByteAnywhere flips single bytes of segments and index files. The damaged block is refused by height, all
// others are served; Fsck finds it, a good copy restores it.
func TestDamagedByteAnywhere(t *testing.T) {
	runs := seeds(1500, 500, 80)
	disk0, chain := damaged(t)
	s0 := open(t, disk0)
	segs := s0.Segments()
	entries := make([]blockstore.IndexEntry, damageBlocks)
	for h := range entries {
		var err error
		entries[h], err = s0.Entry(uint64(h))
		require.NoError(t, err)
	}
	require.NoError(t, s0.Close())
	for seed := range uint64(runs) { //nolint:gosec // positive
		rng := rand.New(rand.NewPCG(seed, 11))
		disk := disk0.Copy()
		bad := make(map[uint64]bool)
		seg := segs[rng.IntN(len(segs))]
		at := rng.IntN(int(seg.Size))
		require.NoError(t, disk.Corrupt(seg.Name, flip(at)))
		for _, e := range entries {
			if e.Segment == seg.Number && at >= int(e.Offset) && at < int(e.Offset)+block.RecordHeaderBytes+int(e.Length) {
				bad[e.Height] = true
			}
		}
		if rng.IntN(2) == 0 {
			require.NoError(t, disk.Corrupt("index/000000000000.idx", flip(rng.IntN(damageBlocks*block.IndexEntryBytes))))
		}
		s := open(t, disk)
		delete(bad, damageBlocks-1) // the start restores the LIB
		requireOnlyDamaged(t, s, chain, bad)
		report, err := s.Fsck(t.Context(), blockstore.FsckOptions{Repair: true, Transactions: true}, nil)
		require.NoError(t, err)
		found := make(map[uint64]bool)
		for _, p := range report.Problems {
			if p.Kind == blockstore.ProblemRecord && !p.Repaired {
				found[p.Height] = true
			}
		}
		require.Equal(t, bad, found, "seed %d: %+v", seed, report)
		for h := range bad {
			require.Error(t, s.Replace(h, child(chain[h-min(h, 1)], 3, 0, 0)), "another block")
			require.NoError(t, s.Replace(h, chain[h]), "seed %d", seed)
		}
		requireChain(t, s, chain)
		s = reopen(t, s, disk)
		requireChain(t, s, chain)
		report, err = s.Fsck(t.Context(), blockstore.FsckOptions{Repair: true, Transactions: true}, nil)
		require.NoError(t, err)
		for _, p := range report.Problems {
			require.Contains(t, []string{blockstore.ProblemIndex, blockstore.ProblemSegment}, p.Kind, "seed %d: %+v", seed, p)
		}
		require.NoError(t, s.Close())
	}
}

// TestSoundBytesInEachOthersPlace: neither records nor index entries hold their height, and records no hash. Sound ones that a disk
// has exchanged are found all the same, and put right.
func TestSoundBytesInEachOthersPlace(t *testing.T) {
	disk0, chain := damaged(t)
	s0 := open(t, disk0)
	seg := s0.Segments()[0]
	one, err := s0.Entry(2)
	require.NoError(t, err)
	two, err := s0.Entry(3)
	require.NoError(t, err)
	require.Equal(t, one.Length, two.Length)
	require.NoError(t, s0.Close())
	exchange := func(a, b, n int) func([]byte) []byte {
		return func(in []byte) []byte {
			out := bytes.Clone(in)
			copy(out[a:a+n], in[b:b+n])
			copy(out[b:b+n], in[a:a+n])
			return out
		}
	}
	t.Run("records", func(t *testing.T) {
		disk := disk0.Copy()
		require.NoError(t, disk.Corrupt(seg.Name, exchange(int(one.Offset), int(two.Offset), block.RecordHeaderBytes+int(one.Length)))) //nolint:gosec // small
		s := open(t, disk)
		requireOnlyDamaged(t, s, chain, map[uint64]bool{2: true, 3: true})
		report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
		require.NoError(t, err)
		require.Len(t, report.Problems, 2)
		require.NoError(t, s.Replace(2, chain[2]))
		require.NoError(t, s.Replace(3, chain[3]))
		requireChain(t, s, chain)
	})
	t.Run("index entries", func(t *testing.T) {
		disk := disk0.Copy()
		require.NoError(t, disk.Corrupt("index/000000000000.idx", exchange(2*block.IndexEntryBytes, 3*block.IndexEntryBytes, block.IndexEntryBytes)))
		s := open(t, disk)
		for _, want := range []blockstore.IndexEntry{one, two} { // from the segment
			got, err := s.Entry(want.Height)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
		requireChain(t, s, chain)
	})
}

func TestLostFiles(t *testing.T) {
	disk0, chain := damaged(t)
	s0 := open(t, disk0)
	segs := s0.Segments()
	require.NoError(t, s0.Close())
	require.Greater(t, len(segs), 4)

	t.Run("index", func(t *testing.T) {
		disk := disk0.Copy()
		disk.Lose("index/")
		s := open(t, disk)
		requireChain(t, s, chain)
		report, err := s.Fsck(t.Context(), blockstore.FsckOptions{Repair: true}, nil)
		require.NoError(t, err)
		require.True(t, report.Sound(), "%+v", report)
		s = reopen(t, s, disk)
		report, err = s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
		require.NoError(t, err)
		require.Zero(t, report.Found, "%+v", report)
	})
	for _, which := range []int{0, 2, len(segs) - 1} {
		t.Run(fmt.Sprintf("segment %d", which), func(t *testing.T) {
			disk := disk0.Copy()
			disk.Lose(segs[which].Name)
			s := open(t, disk)
			bad := make(map[uint64]bool)
			for h := segs[which].First; h <= segs[which].Last; h++ {
				bad[h] = true
			}
			delete(bad, damageBlocks-1) // the start restores the LIB
			requireOnlyDamaged(t, s, chain, bad)
			more := child(chain[damageBlocks-1], 1, 1, 10)
			require.NoError(t, s.AppendFinal([]*block.Block{more}, final(more)), "the store goes on")
			for h := segs[which].First; h <= segs[which].Last; h++ {
				require.NoError(t, s.Replace(h, chain[h]))
			}
			s = reopen(t, s, disk)
			requireChain(t, s, append(chain[:damageBlocks:damageBlocks], more))
			report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
			require.NoError(t, err)
			require.Zero(t, report.Found, "%+v", report)
		})
	}
	t.Run("segment and index", func(t *testing.T) {
		disk := disk0.Copy()
		disk.Lose(segs[1].Name)
		disk.Lose("index/")
		s := open(t, disk)
		_, err := s.BlockByHeight(segs[1].First)
		require.ErrorAs(t, err, new(blockstore.ErrCorrupt))
		require.Error(t, s.Replace(segs[1].First, chain[segs[1].First]), "nothing says what it must hash to")
		for h := segs[1].Last; h > segs[1].First; h-- { // the child names the parent: from the newest down
			require.NoError(t, s.Replace(h, chain[h]))
		}
		require.NoError(t, s.Replace(segs[1].First, chain[segs[1].First]))
		_, err = s.Fsck(t.Context(), blockstore.FsckOptions{Repair: true}, nil)
		require.NoError(t, err)
		requireChain(t, s, chain)
	})
}

func TestLostDatabases(t *testing.T) {
	disk0, chain := damaged(t)
	segs, err := disk0.List("segments")
	require.NoError(t, err)
	t.Run("derived", func(t *testing.T) {
		disk := disk0.Copy()
		disk.Lose("derived/")
		s := open(t, disk)
		requireChain(t, s, chain)
		requireIndexed(t, s)
		report, err := s.Fsck(t.Context(), blockstore.FsckOptions{Transactions: true, Repair: true}, nil)
		require.NoError(t, err)
		require.Equal(t, 1, report.Repaired, "the database itself: the start completes the index of transactions")
		require.Equal(t, 1+damageBlocks, report.Found, "receipts too, which only execution brings back")
		hash, _, index, err := s.Transaction(chain[9].Transactions[1].Hash())
		require.NoError(t, err)
		require.Equal(t, chain[9].Hash(), hash)
		require.Equal(t, uint64(1), index)
	})
	t.Run("derived entry point", func(t *testing.T) {
		disk := disk0.Copy()
		require.NoError(t, disk.Corrupt("derived/CURRENT", func([]byte) []byte { return []byte("nonsense") }))
		s := open(t, disk)
		requireChain(t, s, chain)
	})
	t.Run("meta", func(t *testing.T) {
		disk := disk0.Copy()
		disk.Lose("meta/")
		disk.Lose("SUPER.")
		_, err := blockstore.Open(config(disk), nil, nil)
		require.ErrorContains(t, err, "restore it from a backup")
		require.Equal(t, exit.Damage, exit.Code(err))
		names, err := disk.List("segments")
		require.NoError(t, err)
		require.Len(t, names, len(segs), "history must not be removed because the database is gone")
	})
	t.Run("meta entry point", func(t *testing.T) {
		disk := disk0.Copy()
		require.NoError(t, disk.Corrupt("meta/CURRENT", func([]byte) []byte { return nil }))
		s := open(t, disk)
		requireChain(t, s, chain)
	})
}

// TestDamagedDerivedTables: damage that shows only when a table is read makes reads fail, and the next start makes the
// database anew.
func TestDamagedDerivedTables(t *testing.T) {
	disk := faultfs.New()
	cfg := config(disk)
	cfg.IndexBuffer = 4 << 10
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	chain := line(nil, damageBlocks, 1, 8, 40)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	for _, b := range chain {
		require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
	}
	require.NoError(t, s.Close())
	names, err := disk.List("derived")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".ldb") {
			require.NoError(t, disk.Corrupt("derived/"+name, func(b []byte) []byte {
				for i := 0; i < len(b); i += 100 {
					b[i] ^= 0x40
				}
				return b
			}))
		}
	}
	s, err = blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	// Whether it was noticed already at the start, or only now, depends on which tables were read.
	_, err = s.Receipts(chain[0].Hash())
	require.Error(t, err)
	require.NoError(t, s.Close())
	s, err = blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	defer s.Close()
	requireChain(t, s, chain)
	requireIndexed(t, s)
	report, err := s.Fsck(t.Context(), blockstore.FsckOptions{Repair: true, Transactions: true}, nil)
	require.NoError(t, err)
	require.Zero(t, report.Repaired)
}

// requireIndexed waits until the index of transactions is complete: before that one which is not found is no answer.
func requireIndexed(t *testing.T, s *blockstore.Store) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, _, _, err := s.Transaction(common.Hash{0xee})
		require.Error(t, err)
		indexed := errors.Is(err, blockstore.ErrNotFound)
		require.True(t, indexed || errors.Is(err, blockstore.ErrIndexing), "%v", err)
		return indexed
	}, time.Minute, time.Millisecond)
}

// TestCrashWhileReplacing: whatever is left, replacing again restores the block, and its neighbours are untouched.
func TestCrashWhileReplacing(t *testing.T) {
	disk0, chain := damaged(t)
	for _, name := range []string{"blockstore.replace.write.before", "blockstore.replace.write.after"} {
		for seed := range uint64(4) {
			disk := disk0.Copy()
			s := open(t, disk)
			e, err := s.Entry(20)
			require.NoError(t, err)
			require.NoError(t, disk.Corrupt(s.Segments()[e.Segment-1].Name, flip(int(e.Offset)+100))) //nolint:gosec // small
			var left *faultfs.Disk
			disarm := failpoint.Arm(name, 1, func() { left = disk.Crash(seed) })
			require.NoError(t, s.Replace(20, chain[20]))
			disarm()
			s = open(t, left)
			if _, err := s.BlockByHeight(20); err != nil {
				requireOnlyDamaged(t, s, chain, map[uint64]bool{20: true})
				require.NotEqual(t, "blockstore.replace.write.after", name, "it was durable")
			}
			require.NoError(t, s.Replace(20, chain[20]))
			requireChain(t, s, chain)
		}
	}
}

// entryOf is where the record of a height lies on the disk of a closed store.
func entryOf(t *testing.T, disk *faultfs.Disk, height uint64) block.IndexEntry {
	t.Helper()
	s := open(t, disk)
	e, err := s.Entry(height)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	return e
}

// A block that no start could put into the index by hash, since its record and its index entry were damaged when that index
// was made, is found by its hash once it was restored.
func TestRestoredBlockIsFoundByItsHash(t *testing.T) {
	disk, chain := damaged(t)
	const lost = 20
	e := entryOf(t, disk, lost)
	require.NoError(t, disk.Corrupt(fmt.Sprintf("segments/%08d.seg", e.Segment), flip(int(e.Offset)+60))) //nolint:gosec // small
	require.NoError(t, disk.Corrupt("index/000000000000.idx", flip(lost*block.IndexEntryBytes+3)))
	disk.Lose("derived/")
	s := open(t, disk)
	require.NoError(t, s.Replace(lost, chain[lost]))
	got, err := s.Block(chain[lost].Hash())
	require.NoError(t, err)
	requireSame(t, chain[lost], got)
	requireChain(t, reopen(t, s, disk), chain)
}
