package blockstore_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// The name of the active segment is lost while the store is open. Nothing is: the file that is open gets its name again when a
// block is replaced in it, when blocks are appended, when a reader misses it, and at the latest when the store closes.
func TestLostNameOfTheActiveSegmentCostsNothing(t *testing.T) {
	for name, meet := range map[string]func(t *testing.T, s *blockstore.Store, chain []*block.Block){
		"replace": func(t *testing.T, s *blockstore.Store, chain []*block.Block) {
			require.NoError(t, s.Replace(3, chain[3]))
		},
		"append": func(*testing.T, *blockstore.Store, []*block.Block) {},
		"read": func(t *testing.T, s *blockstore.Store, chain []*block.Block) {
			_, err := s.BlockByHeight(3)
			requireDamage(t, err, 3)
			require.NoError(t, s.SyncDerived(), "the writer did what the reader asked for")
			require.Empty(t, s.Damaged())
			b, err := s.BlockByHeight(3)
			require.NoError(t, err)
			requireSame(t, chain[3], b)
		},
		"close": nil,
	} {
		for _, another := range []bool{false, true} {
			if another && name == "read" {
				continue // what it reads there it cannot tell from damage
			}
			t.Run(name, func(t *testing.T) {
				disk := faultfs.New()
				s := open(t, disk)
				chain := line(nil, 60, 1, 1, 10)
				require.NoError(t, s.AppendFinal(chain[:6], final(chain[:6]...)))
				active := s.Segments()[len(s.Segments())-1]
				require.EqualValues(t, 0, active.First)
				disk.Lose(active.Name)
				if another {
					require.NoError(t, vfs.ReplaceFile(disk, active.Name, make([]byte, 100)))
				}
				kept := chain[:6]
				if meet != nil {
					meet(t, s, chain)
					for _, b := range chain[6:] {
						require.NoError(t, s.AppendFinal([]*block.Block{b}, final(b)))
					}
					kept = chain
					require.Greater(t, len(s.Segments()), 1, "also when it is sealed")
				}
				s = reopen(t, s, disk)
				requireChain(t, s, kept)
				report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
				require.NoError(t, err)
				require.Zero(t, report.Found, "%+v", report)
				if another {
					require.Len(t, report.Asides, 1, "what took the name is kept")
				}
			})
		}
	}
}

// The same on the operating system's files.
func TestLostNameOfTheActiveSegmentOnRealFiles(t *testing.T) {
	dir := t.TempDir()
	cfg := config(nil)
	cfg.Dir = dir
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	chain := line(nil, 8, 1, 1, 10)
	require.NoError(t, s.AppendFinal(chain[:4], final(chain[:4]...)))
	file := filepath.Join(dir, s.Segments()[0].Name)
	require.NoError(t, os.Remove(file))
	require.NoError(t, s.AppendFinal(chain[4:6], final(chain[4:6]...)))
	require.NoError(t, os.Remove(file))
	require.NoError(t, os.WriteFile(file, []byte("another file"), 0o600))
	require.NoError(t, s.AppendFinal(chain[6:], final(chain[6:]...)))
	require.NoError(t, s.Close())
	s, err = blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	requireChain(t, s, chain)
	require.NoError(t, s.Close())
}

// If the file cannot be written again, the store takes no more writes: they would go where no start looks.
func TestActiveSegmentThatCannotGetItsNameClosesTheStore(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 8, 1, 1, 10)
	require.NoError(t, s.AppendFinal(chain[:4], final(chain[:4]...)))
	name := s.Segments()[0].Name
	disk.Lose(name)
	disk.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Name == name+vfs.TemporarySuffix {
			return faultfs.Verdict{Err: syscall.ENOSPC}
		}
		return faultfs.Verdict{}
	}, 0)
	err := s.AppendFinal(chain[4:], final(chain[4:]...))
	require.ErrorIs(t, err, blockstore.ErrFailed)
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorIs(t, s.Failed(), blockstore.ErrFailed)
	last, _ := s.LIB()
	require.EqualValues(t, 3, last)
}
