package blockstore_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/leaks"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

func TestMain(m *testing.M) {
	// goleveldb's pool goroutine outlives Close by up to a second.
	leaks.Main(m, goleak.IgnoreTopFunction("github.com/syndtr/goleveldb/leveldb.(*DB).mpoolDrain"))
}

func TestLifeOfABlock(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	require.True(t, s.Empty())
	chain := line(nil, 6, 1, 2, 40)
	fork := line(chain[2], 3, 2, 1, 40)

	require.NoError(t, s.PutReversible(chain[:1]))
	require.NoError(t, s.Finalize(block.FinalUpdate{Hashes: hashes(chain[0])}))
	require.NoError(t, s.PutReversible(append(append([]*block.Block{}, chain[1:]...), fork...)))
	require.NoError(t, s.PutReversible(chain[1:3]), "again: passed over")
	for _, b := range append(chain, fork...) {
		require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
	}
	got, err := s.Reversible()
	require.NoError(t, err)
	require.Len(t, got, 8)
	for i := 1; i < len(got); i++ {
		require.LessOrEqual(t, got[i-1].Number(), got[i].Number())
	}

	up := final(chain[1:5]...)
	up.Drop = hashes(fork...)
	require.NoError(t, s.Finalize(up))
	for range 2 {
		requireChain(t, s, chain[:5])
		require.Equal(t, up.Root, s.Root())
		qc, fc := s.Certificates()
		require.Equal(t, up.QC.Encode(), qc.Encode())
		require.Equal(t, up.FC.Encode(), fc.Encode())
		got, err = s.Reversible()
		require.NoError(t, err)
		require.Len(t, got, 1)
		requireSame(t, chain[5], got[0])
		for _, b := range fork {
			_, err = s.Block(b.Hash())
			require.ErrorIs(t, err, blockstore.ErrNotFound)
			_, err = s.Receipts(b.Hash())
			require.ErrorIs(t, err, blockstore.ErrNotFound)
			_, _, _, err = s.Transaction(b.Transactions[0].Hash())
			require.ErrorIs(t, err, blockstore.ErrNotFound)
		}
		r, err := s.Receipts(chain[3].Hash())
		require.NoError(t, err)
		require.Len(t, r, 2)
		require.Equal(t, uint64(42000), r[1].CumulativeGasUsed)
		require.Equal(t, []byte("log"), r[1].Logs[0].Data)
		hash, height, index, err := s.Transaction(chain[5].Transactions[1].Hash())
		require.NoError(t, err)
		require.Equal(t, chain[5].Hash(), hash)
		require.Equal(t, uint64(5), height)
		require.Equal(t, uint64(1), index)
		s = reopen(t, s, disk)
	}
	require.NoError(t, s.Finalize(final(chain[1:]...)), "hashes that are irreversible already are passed over")
	requireChain(t, s, chain)
}

func TestAppendFinalRollsSegments(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 300, 1, 1, 200)
	var waits []func() error
	for i := 0; i < len(chain); i += 7 {
		part := chain[i:min(i+7, len(chain))]
		waits = append(waits, s.AppendFinalAsync(part, final(part...)))
	}
	require.NoError(t, s.Sync())
	for _, wait := range waits {
		require.NoError(t, wait())
	}
	require.Greater(t, len(s.Segments()), 10)
	requireChain(t, s, chain)
	s = reopen(t, s, disk)
	requireChain(t, s, chain)
	segs := s.Segments()
	for i, seg := range segs {
		require.Equal(t, i < len(segs)-1, seg.Sealed)
		require.LessOrEqual(t, seg.Size, int64(8<<10))
		if i > 0 {
			require.Equal(t, segs[i-1].Last+1, seg.First)
		}
	}
	require.NoError(t, s.AppendFinal(chain[290:], final(chain[290:]...)), "known blocks are passed over")
}

func TestAppendFinalTakesBlocksOutOfTheReversibleOnes(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 6, 1, 1, 40)
	require.NoError(t, s.AppendFinal(chain[:2], final(chain[:2]...)))
	require.NoError(t, s.PutReversible(chain[2:]))
	require.NoError(t, s.AppendFinal(chain[2:4], final(chain[2:4]...)))
	for range 2 {
		requireChain(t, s, chain[:4])
		got, err := s.Reversible()
		require.NoError(t, err)
		require.Len(t, got, 2)
		s = reopen(t, s, disk)
	}
}

func TestWhatDoesNotLinkIsRefusedWhole(t *testing.T) {
	s := open(t, faultfs.New())
	chain := line(nil, 5, 1, 1, 40)
	other := line(nil, 5, 2, 1, 40)
	require.NoError(t, s.AppendFinal(chain[:3], final(chain[:3]...)))

	require.ErrorIs(t, s.PutReversible([]*block.Block{chain[3], other[4]}), blockstore.ErrUnlinked)
	require.ErrorIs(t, s.PutReversible([]*block.Block{child(chain[1], 9, 0, 0)}), blockstore.ErrUnlinked, "parent below the LIB")
	require.ErrorIs(t, s.AppendFinal(chain[4:], final(chain[4:]...)), blockstore.ErrUnlinked, "a gap")
	require.ErrorIs(t, s.AppendFinal(other[2:4], final(other[2:4]...)), blockstore.ErrUnlinked, "another chain")
	require.ErrorIs(t, s.Finalize(final(chain[3])), blockstore.ErrNotFound)
	require.Error(t, s.AppendFinal(chain[3:4], final(chain[4])), "the proof is for another block")
	got, err := s.Reversible()
	require.NoError(t, err)
	require.Empty(t, got, "nothing of a refused call is kept")
	requireChain(t, s, chain[:3])
	require.NoError(t, s.Failed())
}

func TestFirstBlockNeedNotBeGenesis(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 20, 1, 1, 40)
	require.NoError(t, s.AppendFinal(chain[10:], final(chain[10:]...)))
	s = reopen(t, s, disk)
	require.Equal(t, uint64(10), s.FirstHeight())
	requireChain(t, s, chain[10:])
	_, err := s.BlockByHeight(9)
	require.ErrorIs(t, err, blockstore.ErrPruned)
	require.ErrorIs(t, s.Range(5, 12, 0, func(uint64, []byte) error { return nil }), blockstore.ErrPruned)
}

func TestRangeStopsAtItsBounds(t *testing.T) {
	s := open(t, faultfs.New())
	chain := line(nil, 50, 1, 1, 500)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	size := len(chain[10].Encode())
	count := func(from, to uint64, maxBytes int) (n int) {
		require.NoError(t, s.Range(from, to, maxBytes, func(uint64, []byte) error { n++; return nil }))
		return n
	}
	require.Equal(t, 1, count(10, 40, 1), "one block even if it is larger")
	require.Equal(t, 3, count(10, 40, 3*size+10))
	require.Equal(t, 31, count(10, 40, 0))
	require.Equal(t, 5, count(45, 1000, 0))
	require.Equal(t, 0, count(60, 70, 0))
	stop := errors.New("stop")
	require.ErrorIs(t, s.Range(0, 9, 0, func(h uint64, _ []byte) error {
		if h == 3 {
			return stop
		}
		return nil
	}), stop)
}

func TestTransactionOnTwoBranches(t *testing.T) {
	s := open(t, faultfs.New())
	base := line(nil, 2, 1, 0, 0)
	require.NoError(t, s.AppendFinal(base, final(base...)))
	a := child(base[1], 1, 1, 10)
	b := child(base[1], 2, 0, 0)
	c := child(b, 2, 0, 0)
	c.Transactions = a.Transactions // the same transaction, a block later, on the other branch
	c.Senders = a.Senders
	require.NoError(t, s.PutReversible([]*block.Block{a, b, c}))
	for _, x := range []*block.Block{c, a} {
		require.NoError(t, s.PutReceipts(x.Hash(), x.Number(), receiptsOf(x)))
	}
	tx := a.Transactions[0].Hash()
	locs, err := s.TransactionLocations(tx)
	require.NoError(t, err)
	require.Equal(t, []blockstore.TxLocation{{Block: c.Hash(), Height: 3}, {Block: a.Hash(), Height: 2}}, locs)
	up := final(a)
	require.NoError(t, s.Finalize(up))
	hash, _, _, err := s.Transaction(tx)
	require.NoError(t, err)
	require.Equal(t, a.Hash(), hash, "the irreversible block goes before any other")
	require.NoError(t, s.Finalize(block.FinalUpdate{Drop: hashes(b, c)}))
	locs, err = s.TransactionLocations(tx)
	require.NoError(t, err)
	require.Len(t, locs, 1)
}

func TestWhatWaitsSharesOneSync(t *testing.T) {
	disk := faultfs.New()
	cfg := config(disk)
	cfg.SegmentBytes = 1 << 20
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	defer s.Close()
	chain := line(nil, 31, 1, 1, 100)
	require.NoError(t, s.AppendFinal(chain[:1], final(chain[0])))

	// The first sync waits until the other operations are queued behind it.
	started, goOn := make(chan struct{}), make(chan struct{})
	syncs := 0
	disk.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Kind == faultfs.Sync {
			if syncs++; syncs == 1 {
				close(started)
				<-goOn
			}
		}
		return faultfs.Verdict{}
	}, 0)
	waits := []func() error{s.AppendFinalAsync(chain[1:2], final(chain[1]))}
	<-started
	for _, b := range chain[2:] {
		waits = append(waits, s.AppendFinalAsync([]*block.Block{b}, final(b)))
	}
	close(goOn)
	for _, wait := range waits {
		require.NoError(t, wait())
	}
	disk.SetPlan(nil, 0)
	require.Equal(t, 4, syncs, "two groups, each one sync of the segment and one of the database")
	requireChain(t, open(t, disk.Crash(0)), chain)
}

func TestMeta(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	v, err := s.Meta("a")
	require.NoError(t, err)
	require.Nil(t, v)
	require.NoError(t, s.PutMeta("a", []byte("1"), true))
	require.NoError(t, s.PutMeta("b", []byte("2"), false))
	require.Error(t, s.PutMeta("", nil, true))
	v, err = s.Meta("b")
	require.NoError(t, err)
	require.Equal(t, []byte("2"), v)
	after := open(t, disk.Crash(0))
	v, err = after.Meta("a")
	require.NoError(t, err)
	require.Equal(t, []byte("1"), v)
}

func TestClosedStore(t *testing.T) {
	s := open(t, faultfs.New())
	chain := line(nil, 3, 1, 0, 0)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	require.NoError(t, s.Close())
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.PutReversible(chain), blockstore.ErrClosed)
	require.ErrorIs(t, s.Sync(), blockstore.ErrClosed)
	_, err := s.BlockByHeight(1)
	require.ErrorIs(t, err, blockstore.ErrClosed)
	_, err = s.Block(common.Hash{1})
	require.ErrorIs(t, err, blockstore.ErrClosed)
	_, err = s.Meta("a")
	require.ErrorIs(t, err, blockstore.ErrClosed)
	require.ErrorIs(t, s.PutReceipts(common.Hash{}, 1, nil), blockstore.ErrClosed)
}

func TestSecondOpenIsRefused(t *testing.T) {
	cfg := blockstore.DefaultConfig()
	cfg.Dir = t.TempDir()
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	chain := line(nil, 30, 1, 3, 100)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	_, err = blockstore.Open(cfg, nil, nil)
	require.ErrorContains(t, err, "another process uses this folder")
	require.NoError(t, s.Close())
	s, err = blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	requireChain(t, s, chain)
	require.NoError(t, s.Close())
}

func TestReadersSeeEveryBlockWhileItBecomesIrreversible(t *testing.T) {
	cfg := config(faultfs.New())
	cfg.CacheBytes = 0
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	defer s.Close()
	chain := line(nil, 120, 1, 1, 30)
	require.NoError(t, s.AppendFinal(chain[:1], final(chain[0])))
	require.NoError(t, s.PutReversible(chain[1:]))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for i := 1; ; i = i%119 + 1 {
				select {
				case <-done:
					return
				default:
				}
				b, err := s.Block(chain[i].Hash())
				if err != nil || b.Number() != uint64(i) {
					t.Errorf("block %d: %v", i, err)
					return
				}
			}
		})
	}
	for i := 1; i < 120; i++ {
		require.NoError(t, s.Finalize(final(chain[i])))
	}
	close(done)
	wg.Wait()
}
