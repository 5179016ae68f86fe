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

// inDamagedStore runs f on a store in which one block is damaged, in virtual time.
func inDamagedStore(t *testing.T, bad uint64, f func(t *testing.T, s *blockstore.Store, chain []*block.Block)) {
	synctest.Test(t, func(t *testing.T) {
		disk, chain := damaged(t)
		s := open(t, disk)
		e, err := s.Entry(bad)
		require.NoError(t, err)
		name := s.Segments()[e.Segment-1].Name
		require.NoError(t, s.Close())
		require.NoError(t, disk.Corrupt(name, flip(int(e.Offset)+block.RecordHeaderBytes+20)))
		s = open(t, disk)
		f(t, s, chain)
		require.NoError(t, s.Close())
		time.Sleep(5 * time.Second) // goleveldb's goroutines end
	})
}

// readRepaired reads a block as all readers of final data do.
func readRepaired(ctx context.Context, s *blockstore.Store, height uint64) (b *block.Block, err error) {
	err = s.ReadRepaired(ctx, func() error {
		b, err = s.BlockByHeight(height)
		return err
	})
	return b, err
}

type readAnswer struct {
	block *block.Block
	err   error
	after time.Duration
}

func startReaders(t *testing.T, s *blockstore.Store, height uint64, count int) <-chan readAnswer {
	out := make(chan readAnswer, count)
	start := time.Now()
	for range count {
		go func() {
			b, err := readRepaired(t.Context(), s, height)
			out <- readAnswer{b, err, time.Since(start)}
		}()
	}
	synctest.Wait()
	return out
}

// requireDamage checks that an error names the damaged height.
func requireDamage(t *testing.T, err error, height uint64) {
	t.Helper()
	var damage blockstore.ErrCorrupt
	require.ErrorAs(t, err, &damage)
	require.Equal(t, height, damage.Height)
	require.ErrorContains(t, err, "damaged")
}

// All readers of one damaged block wait for one repair, and are answered when it is there.
func TestReadersOfADamagedBlockShareItsRepair(t *testing.T) {
	const bad, readers = 17, 30
	inDamagedStore(t, bad, func(t *testing.T, s *blockstore.Store, chain []*block.Block) {
		answers := startReaders(t, s, bad, readers)
		require.Empty(t, answers, "nobody is told of the damage yet")
		require.Len(t, s.RepairsWanted(), 1, "the synchronisation is told at once")
		require.Equal(t, []uint64{bad}, s.Damaged())
		repaired := s.Repaired(bad)
		require.NotNil(t, repaired)
		time.Sleep(time.Second)
		require.NoError(t, s.Replace(bad, chain[bad]))
		for range readers {
			a := <-answers
			require.NoError(t, a.err)
			requireSame(t, chain[bad], a.block)
			require.Equal(t, time.Second, a.after)
		}
		<-repaired
		require.Nil(t, s.Repaired(bad))
		require.Empty(t, s.Damaged())
	})
}

// A read that meets one damaged block after another waits for all repairs together no longer than the bound.
func TestTheWaitForRepairsIsBounded(t *testing.T) {
	const bad = 17
	inDamagedStore(t, bad, func(t *testing.T, s *blockstore.Store, _ []*block.Block) {
		bound := config(nil).RepairWait
		require.NotZero(t, bound)
		a := <-startReaders(t, s, bad, 1)
		requireDamage(t, a.err, bad)
		require.ErrorContains(t, a.err, "store.repair_wait")
		require.Equal(t, bound, a.after)

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := readRepaired(ctx, s, bad)
		requireDamage(t, err, bad)
		require.ErrorIs(t, err, context.DeadlineExceeded, "the caller's context ends the wait")
		require.Equal(t, time.Second, time.Since(start))
	})
}

// The wait ends early if nobody can send the block, and when the store closes; later readers wait again.
func TestTheWaitEndsWhenNobodyCanSendTheBlock(t *testing.T) {
	const bad = 17
	inDamagedStore(t, bad, func(t *testing.T, s *blockstore.Store, _ []*block.Block) {
		nobody := errors.New("no peer has it")
		for range 2 {
			answers := startReaders(t, s, bad, 3)
			<-s.RepairsWanted() // every reader asks again
			s.RepairImpossible(bad, nobody)
			for range 3 {
				a := <-answers
				requireDamage(t, a.err, bad)
				require.ErrorIs(t, a.err, nobody)
				require.Zero(t, a.after)
			}
			require.Equal(t, []uint64{bad}, s.Damaged(), "it stays wanted")
		}
		answers := startReaders(t, s, bad, 1)
		require.NoError(t, s.Close())
		require.ErrorIs(t, (<-answers).err, blockstore.ErrClosed)
	})
}

// More readers than the limit are told at once; those before them still wait.
func TestTooManyReadersOfDamageAreToldAtOnce(t *testing.T) {
	const bad, most = 17, 1024
	inDamagedStore(t, bad, func(t *testing.T, s *blockstore.Store, chain []*block.Block) {
		answers := startReaders(t, s, bad, most)
		require.Empty(t, answers)
		_, err := readRepaired(t.Context(), s, bad)
		requireDamage(t, err, bad)
		require.ErrorContains(t, err, "1024 readers wait")
		require.NoError(t, s.Replace(bad, chain[bad]))
		for range most {
			require.NoError(t, (<-answers).err)
		}
		b, err := readRepaired(t.Context(), s, bad)
		require.NoError(t, err)
		requireSame(t, chain[bad], b)
	})
}

// With the setting 0, and of a block that nobody fetches because it is reversible, a reader is told at once.
func TestNoWaitWhereNoRepairComes(t *testing.T) {
	disk := faultfs.New()
	cfg := config(disk)
	cfg.RepairWait = 0
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	chain := line(nil, 5, 1, 2, 300)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	calls := 0
	read := func(height uint64) func() error {
		return func() error {
			calls++
			return blockstore.ErrCorrupt{Height: height, Cause: errors.New("checksum differs")}
		}
	}
	requireDamage(t, s.ReadRepaired(t.Context(), read(3)), 3)
	require.NoError(t, s.Close())
	s = open(t, disk)
	requireDamage(t, s.ReadRepaired(t.Context(), read(9)), 9)
	require.Equal(t, 2, calls, "nothing is read again")
}
