package blockstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
)

// Why a wait for a repair ends without one.
var (
	errRepairLate  = errors.New("the repair took longer than store.repair_wait")
	errManyWaiting = fmt.Errorf("%d readers wait for repairs already", maxWaitingReaders)
)

// repairAttempt is what all readers of one damaged block wait for.
type repairAttempt struct {
	ended chan struct{} // closed when the block is whole again, or when nobody can send it
	cause error         // why nobody can; written before ended is closed
}

// ReadRepaired calls read, which reads blocks of the store, and calls it again after every repair of an irreversible
// block that it found damaged or without its receipts: the caller sees no damage that a peer can mend in time. It is the
// only place that waits for a reader: at most store.repair_wait for all repairs of one call together, until ctx ends,
// until the synchronisation says that no connected peer has what is missing, and not at all if maxWaitingReaders wait
// already. The error then wraps block.ErrCorrupt or block.ErrNoReceipts, which name the height; it stays wanted. read must
// be safe to repeat. Not for the goroutines that mend blocks or execute them.
func (s *Store) ReadRepaired(ctx context.Context, read func() error) error {
	var timer *time.Timer
	for {
		err := read()
		m := s.mendable(err)
		if m == nil || s.cfg.RepairWait <= 0 {
			return err
		}
		if timer == nil {
			timer = time.NewTimer(s.cfg.RepairWait)
			defer timer.Stop()
		}
		if cause := s.awaitRepair(ctx, m.list, m.height, timer.C); cause != nil {
			s.metrics.repairWaitsFailed.Inc()
			return m.failed(cause)
		}
	}
}

// mendable is what an error of a read says is missing and a peer can send.
type mendable struct {
	list   *damagedHeights
	height uint64
	failed func(cause error) error // the read's error, with why it was not mended in time
}

// mendable is nil for other errors, and for a reversible block: nobody fetches it while the store holds its record.
func (s *Store) mendable(err error) *mendable {
	var damage ErrCorrupt
	var without block.ErrNoReceipts
	m := new(mendable)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &damage):
		m.list, m.height = &s.damaged, damage.Height
		m.failed = func(cause error) error {
			return ErrCorrupt{Height: damage.Height, Cause: fmt.Errorf("%w (%w)", damage.Cause, cause)}
		}
	case errors.As(err, &without):
		m.list, m.height = &s.receiptless, without.Height
		m.failed = func(cause error) error {
			return block.ErrNoReceipts{Height: without.Height, Cause: fmt.Errorf("%w (%w)", without.Cause, cause)}
		}
	default:
		return nil
	}
	if last, _ := s.LIB(); m.height > last {
		return nil
	}
	return m
}

// AwaitRepair waits for a damaged irreversible block without a bound of time: for the execution at a start. nil: it may be
// read again. The error says that nobody can send the block now, or why the wait was ended; the block stays wanted,
// however many others are damaged or waited for, and the call may be repeated.
func (s *Store) AwaitRepair(ctx context.Context, height uint64) error {
	if !s.wantWithoutBound(height) {
		return nil
	}
	return s.awaitRepair(ctx, &s.damaged, height, nil)
}

// awaitRepair is nil when what a list has of a height may be read again. late nil: the wait has no bound of time.
func (s *Store) awaitRepair(ctx context.Context, list *damagedHeights, height uint64, late <-chan time.Time) error {
	a, err := list.join(height, late == nil)
	if a == nil {
		return err
	}
	defer list.leave()
	s.metrics.repairWaits.Inc()
	select {
	case <-a.ended:
		return a.cause
	case <-late:
		return errRepairLate
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.closing:
		return ErrClosed
	}
}

// join counts a reader in that waits for a block; one without a bound of time is not refused. No attempt and no error: the
// block was repaired meanwhile.
func (d *damagedHeights) join(height uint64, isUnbounded bool) (*repairAttempt, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.heights[height]
	switch {
	case b == nil && !isUnbounded && len(d.heights) >= maxDamagedHeights: // so the read could not note it
		return nil, fmt.Errorf("%d other damaged blocks are repaired first", maxDamagedHeights)
	case b == nil:
		return nil, nil //nolint:nilnil // said above
	case !isUnbounded && d.waiting >= maxWaitingReaders:
		return nil, errManyWaiting
	case b.attempt == nil:
		b.attempt, b.givenUp = &repairAttempt{ended: make(chan struct{})}, 0
	}
	d.waiting++
	d.wake() // whoever has no peer to ask says so again, also to this reader
	return b.attempt, nil
}

func (d *damagedHeights) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting--
}

func (d *damagedHeights) waitingReaders() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.waiting
}

// RepairsWanted has a value whenever Damaged or LostReceipts has grown or a reader began to wait for a repair. It is for one receiver,
// the synchronisation.
func (s *Store) RepairsWanted() <-chan struct{} { return s.damaged.wanted }

// RepairImpossible ends the waits of the readers of a damaged block: nobody can send it now. The block stays in the list
// of Damaged, as long as there is room for all, and later readers wait again. It never blocks.
func (s *Store) RepairImpossible(height uint64, cause error) {
	s.damaged.giveUp(height, cause)
}

func (d *damagedHeights) giveUp(height uint64, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	b := d.heights[height]
	if b == nil {
		return
	}
	if b.givenUp == 0 {
		d.givenUps++
		b.givenUp = d.givenUps
	}
	if b.attempt != nil {
		b.attempt.cause = cause
		close(b.attempt.ended)
		b.attempt = nil
	}
}

// Repaired is closed when the block of a height, which a read found damaged, is whole again or pruned: for who waits
// without a bound. The block stays wanted until then, however many others are damaged. nil: it is not damaged any more.
func (s *Store) Repaired(height uint64) <-chan struct{} {
	if !s.wantWithoutBound(height) {
		return nil
	}
	d := &s.damaged
	d.mu.Lock()
	defer d.mu.Unlock()
	if b := d.heights[height]; b != nil {
		return b.repaired
	}
	return nil
}
