package consensus

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// A damaged irreversible block that execution asks for holds execution up; it does not end the node. When the block
// was replaced the same work is done, and the node votes and produces as before.
func TestExecutionWaitsForADamagedBlock(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		var damaged atomic.Bool
		hurt := l.nodes[3]
		hurt.chain.damaged = func() error {
			if damaged.Load() {
				return block.ErrCorrupt{Height: 1, Cause: errors.New("checksum differs")}
			}
			return nil
		}
		l.start()
		l.slots(12)
		damaged.Store(true)
		l.slots(1)
		held := hurt.driver.Status().Executed
		l.slots(12)
		require.False(t, hurt.dead(), "the node stays up")
		require.Equal(t, held, hurt.driver.Status().Executed)
		require.Equal(t, 1, level(hurt.driver.m.awaitsRepair))
		require.Zero(t, count(hurt.driver.m.failed), "no block is to blame")
		others := l.nodes[0].driver.Status().LIB.Height
		require.Greater(t, others, held.Height, "the other three are a quorum")

		damaged.Store(false)
		time.Sleep(repairRetryMost)
		l.slots(8)
		s := hurt.driver.Status()
		require.Equal(t, s.Head, s.Executed)
		require.Greater(t, s.LIB.Height, others)
		require.LessOrEqual(t, s.Head.Height-s.LIB.Height, uint64(2))
		require.Zero(t, level(hurt.driver.m.awaitsRepair))
	})
}

// A range of catch-up waits in the same way: its caller has no answer before the blocks are imported.
func TestImportWaitsForADamagedBlock(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		blocks, _ := l.history(60)
		var damaged atomic.Bool
		m := l.observer()
		m.chain.damaged = func() error {
			if damaged.Load() {
				return block.ErrCorrupt{Height: 1, Cause: errors.New("checksum differs")}
			}
			return nil
		}
		m.start(nil)
		_, err := m.driver.AddRange(m.ctx, blocks[:30], Full)
		require.NoError(t, err)
		damaged.Store(true)
		before := m.driver.Status().LIB.Height
		require.NotZero(t, before)
		took := make(chan error, 1)
		go func() {
			_, err := m.driver.AddRange(m.ctx, blocks[before:], Full)
			took <- err
		}()
		l.slots(10)
		require.Empty(t, took)
		require.False(t, m.dead())
		damaged.Store(false)
		require.NoError(t, <-took)
		require.Greater(t, m.chain.lib(), before)
	})
}

// Execution goes on when the block is repaired, not when the pause between two tries ends.
func TestARepairEndsThePause(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		blocks, _ := l.history(60)
		var damaged atomic.Bool
		whole := make(chan struct{})
		m := l.observer()
		m.chain.damaged = func() error {
			if damaged.Load() {
				return block.ErrCorrupt{Height: 1, Cause: errors.New("checksum differs")}
			}
			return nil
		}
		m.start(func(_ *Config, d *Deps) {
			d.Repaired = func(height uint64) <-chan struct{} {
				require.EqualValues(l.t, 1, height)
				return whole
			}
		})
		_, err := m.driver.AddRange(m.ctx, blocks[:30], Full)
		require.NoError(l.t, err)
		damaged.Store(true)
		took := make(chan error, 1)
		go func() {
			_, err := m.driver.AddRange(m.ctx, blocks[m.driver.Status().LIB.Height:], Full)
			took <- err
		}()
		l.slots(60) // so that the pause is at its longest
		synctest.Wait()
		require.Empty(l.t, took)
		damaged.Store(false)
		at := time.Now()
		close(whole)
		require.NoError(l.t, <-took)
		require.Less(l.t, time.Since(at), repairRetryLeast)
	})
}

// A damaged reversible block comes from no peer while it is stored: work that needs it is not tried for ever.
func TestNoWaitForAReversibleBlock(t *testing.T) {
	inBubble(t, 1, func(l *lab) {
		m := l.nodes[0]
		m.start(nil)
		l.slots(4)
		var c core
		c.d, c.stored = m.driver, 5
		head := outcome{work: work{head: common.Hash{1}}, err: block.ErrCorrupt{Height: 6, Cause: errors.New("checksum differs")}}
		require.False(t, c.awaitRepair(head))
		build := outcome{work: work{build: &dpos.Produce{Slot: 9}}, err: block.ErrCorrupt{Height: 5, Cause: errors.New("checksum differs")}}
		require.False(t, c.awaitRepair(build), "a slot is given up")
		require.Nil(t, c.repair.retry)
	})
}

// Work that is put back keeps its place; a head gives way to a newer one that nothing separates it from.
func TestWorkPutBack(t *testing.T) {
	old, newer := common.Hash{1}, common.Hash{2}
	imp := &importWork{}
	fin := &finalWork{}
	var b backlog
	b.putBack(work{head: old})
	w, _ := b.peek()
	require.Equal(t, work{head: old}, w)
	b.drop(w)
	b.addHead(newer)
	b.putBack(work{head: old})
	w, _ = b.peek()
	require.Equal(t, work{head: newer}, w)
	b.addFinal(*fin)
	b.putBack(work{imp: imp})
	var order []work
	for {
		w, ok := b.peek()
		if !ok {
			break
		}
		b.drop(w)
		order = append(order, w)
	}
	require.Len(t, order, 3)
	require.Same(t, imp, order[0].imp)
	require.Equal(t, newer, order[1].head)
	require.NotNil(t, order[2].fin)
}
