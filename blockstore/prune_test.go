package blockstore_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/blockstore"
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
