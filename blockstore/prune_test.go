package blockstore_test

import (
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

func TestPrune(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 200, 1, 1, 200)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	for _, b := range chain {
		require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
	}
	generation := s.Generation()
	segments := s.Segments()
	below := segments[3].First + 1
	first, err := s.Prune(below)
	require.NoError(t, err)
	require.Equal(t, segments[3].First, first, "only whole segments go")
	require.Equal(t, generation+1, s.Generation())
	again, err := s.Prune(below)
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Equal(t, generation+1, s.Generation(), "nothing was deleted")
	for range 2 {
		require.Equal(t, first, s.FirstHeight())
		requireChain(t, s, chain[first:])
		for _, b := range chain[:first] {
			_, err := s.BlockByHeight(b.Number())
			require.ErrorIs(t, err, blockstore.ErrPruned)
			_, err = s.Block(b.Hash())
			require.ErrorIs(t, err, blockstore.ErrNotFound)
			_, _, _, err = s.Transaction(b.Transactions[0].Hash())
			require.ErrorIs(t, err, blockstore.ErrNotFound)
			_, err = s.ReceiptsAt(b.Number(), b.Hash())
			require.ErrorIs(t, err, blockstore.ErrNotFound)
		}
		names, err := disk.List("segments")
		require.NoError(t, err)
		require.Len(t, names, len(segments)-3)
		s = reopen(t, s, disk)
	}
	last, err := s.Prune(1 << 40)
	require.NoError(t, err)
	require.Equal(t, segments[len(segments)-1].First, last, "the active segment stays")
	requireChain(t, s, chain[last:])
	report, err := s.Fsck(t.Context(), blockstore.FsckOptions{Transactions: true}, nil)
	require.NoError(t, err)
	require.Zero(t, report.Found, "%+v", report)
}

func TestReadersDuringPruning(t *testing.T) {
	cfg := config(faultfs.New())
	cfg.CacheBytes = 0
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	defer s.Close()
	chain := line(nil, 400, 1, 1, 200)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := 0; ; i = (i + 7) % len(chain) {
				select {
				case <-done:
					return
				default:
				}
				b, err := s.BlockByHeight(uint64(i)) //nolint:gosec // small
				if err == nil && b.Hash() != chain[i].Hash() {
					t.Errorf("block %d is %v", i, b)
				}
				if err != nil && !isPruned(err) {
					t.Errorf("block %d: %v", i, err)
				}
			}
		})
	}
	for below := uint64(10); below < 400; below += 10 {
		_, err := s.Prune(below)
		require.NoError(t, err)
	}
	close(done)
	wg.Wait()
}

// A segment goes when all of its blocks are below the height, and stays when its last one is that block. What was read
// before is not served from memory after it went; what is kept from the first height on may be offered again.
func TestPruneAtTheEdgeOfASegment(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 200, 1, 1, 200)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	requireChain(t, s, chain)
	segments := s.Segments()
	first, err := s.Prune(segments[2].Last)
	require.NoError(t, err)
	require.Equal(t, segments[2].First, first, "block %d is not below itself", segments[2].Last)
	first, err = s.Prune(segments[2].Last + 1)
	require.NoError(t, err)
	require.Equal(t, segments[3].First, first)
	for _, b := range chain[:first] {
		_, err := s.Block(b.Hash())
		require.ErrorIs(t, err, blockstore.ErrNotFound, "block %d", b.Number())
		_, err = s.Header(b.Hash())
		require.ErrorIs(t, err, blockstore.ErrNotFound, "block %d", b.Number())
	}
	require.NoError(t, s.AppendFinal(chain[first:], final(chain...)), "they are irreversible already")
	require.NoError(t, s.PutReversible(chain[first:first+1]))
	reversible, err := s.Reversible()
	require.NoError(t, err)
	require.Empty(t, reversible)
	requireChain(t, reopen(t, s, disk), chain[first:])
}

// Where every segment holds one block, the first that is kept begins and ends with the first height.
func TestPruneToASegmentOfOneBlock(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 12, 1, 1, 9<<10)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	require.Len(t, s.Segments(), len(chain))
	first, err := s.Prune(5)
	require.NoError(t, err)
	require.EqualValues(t, 5, first)
	s = reopen(t, s, disk)
	requireChain(t, s, chain[first:])
	report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
	require.NoError(t, err)
	require.Zero(t, report.Found, "%+v", report)
}

// A file under the number of a pruned segment that holds blocks which are kept is not what a pruning left: it stays.
func TestAPrunedNumberWithKeptBlocksStays(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 200, 1, 1, 200)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	segments := s.Segments()
	first, err := s.Prune(segments[2].First)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	kept := contents(t, disk)[segments[3].Name]
	f, err := disk.Open(segments[0].Name, os.O_RDWR|os.O_CREATE)
	require.NoError(t, err)
	require.NoError(t, vfs.WriteAll(f, kept, 0))
	require.NoError(t, f.Close())
	s = open(t, disk)
	requireChain(t, s, chain[first:])
	require.Equal(t, kept, contents(t, disk)[segments[0].Name])
	report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
	require.NoError(t, err)
	require.NotZero(t, report.Found, "it is told")
}

// The oldest block that is kept is noted when a read finds it damaged, as any other.
func TestDamageOfTheFirstHeightIsNoted(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 200, 1, 1, 200)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	first, err := s.Prune(s.Segments()[2].First)
	require.NoError(t, err)
	name := s.Segments()[0].Name
	require.NoError(t, s.Close())
	require.NoError(t, disk.Corrupt(name, flip(36+60))) // behind the header of the segment, in the first record
	s = open(t, disk)
	_, err = s.BlockByHeight(first)
	require.ErrorAs(t, err, new(blockstore.ErrCorrupt))
	require.Equal(t, []uint64{first}, s.Damaged())
	require.NoError(t, s.Replace(first, chain[first]))
	require.Empty(t, s.Damaged())
	requireChain(t, s, chain[first:])
}
