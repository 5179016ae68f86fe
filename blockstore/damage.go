package blockstore

import (
	"errors"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/rlp"
	"go.uber.org/zap"
)

// damagedHeights are the irreversible blocks that a reader could not read and that nobody has restored yet: the one
// place that says so. Every read of the store that meets damage notes it, whoever reads, and tells the synchronisation
// at once (wanted), which asks for the list (Damaged), fetches the blocks from peers and calls Replace. Readers of one
// block share its repair (repairs.go). What does not fit is noted by a later read. A second list of this kind has the
// blocks whose receipts must come from peers (receipts.go).
type damagedHeights struct {
	wanted chan struct{} // capacity 1, shared by both lists: a block was noted, or a reader began to wait for one

	mu      sync.Mutex
	heights map[uint64]*damagedBlock
	waiting int // readers that wait
}

// damagedBlock is one of them.
type damagedBlock struct {
	attempt  *repairAttempt // that readers wait for; nil: none do
	repaired chan struct{}  // closed when the block is whole again, or pruned
}

// note reports whether the height is new, and known whether it is in the list now.
func (d *damagedHeights) note(height uint64) (isNew, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.heights[height]; known || len(d.heights) >= maxDamagedHeights {
		return false, known
	}
	if d.heights == nil {
		d.heights = make(map[uint64]*damagedBlock)
	}
	d.heights[height] = &damagedBlock{repaired: make(chan struct{})}
	d.wake()
	return true, true
}

// wake tells the synchronisation that there is something to do.
func (d *damagedHeights) wake() {
	select {
	case d.wanted <- struct{}{}:
	default:
	}
}

// forget ends the waits for a block that is whole again, or that was pruned.
func (d *damagedHeights) forget(height uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forgetLocked(height)
}

func (d *damagedHeights) forgetLocked(height uint64) {
	b := d.heights[height]
	if b == nil {
		return
	}
	delete(d.heights, height)
	close(b.repaired)
	if b.attempt != nil {
		close(b.attempt.ended)
	}
}

// rememberDamaged keeps the heights of blocks that a repair found damaged and did not restore, over the restart that
// follows it: a block that nobody reads would else never be noted, and so never be fetched.
func (s *Store) rememberDamaged(heights []uint64) error {
	known, err := get(s.meta, []byte(keyDamaged))
	if err != nil || known == nil && len(heights) == 0 {
		return err
	}
	return s.submit(&op{bytes: 8 * len(heights), stage: func(st *stage) error {
		if len(heights) == 0 {
			st.batch.Delete([]byte(keyDamaged))
		} else {
			st.batch.Put([]byte(keyDamaged), mustRLP(heights))
		}
		return nil
	}})()
}

// readRemembered reads the blocks of the last repair's list at a start, which notes those that are still damaged. A list
// without any goes; one that cannot be decoded is worth no more than a hint.
func (s *Store) readRemembered() error {
	v, err := get(s.meta, []byte(keyDamaged))
	if err != nil || v == nil {
		return err
	}
	var heights []uint64
	if rlp.DecodeBytes(v, &heights) != nil {
		heights = nil
	}
	for _, h := range heights[:min(len(heights), maxDamagedHeights)] {
		if h >= s.lib.First && h <= s.lib.Height {
			_, _ = s.BlockByHeight(h)
		}
	}
	if len(s.Damaged()) > 0 {
		return nil
	}
	return s.meta.Delete([]byte(keyDamaged), nil) // not synced: a list that comes back is read once more
}

// Damaged lists the irreversible blocks, lowest first, that reads found damaged or missing and that were not replaced
// since; at most maxDamagedHeights. Safe for concurrent use and cheap while there are none.
func (s *Store) Damaged() []uint64 {
	return s.damaged.list(s.FirstHeight())
}

// list gives the heights, lowest first, and forgets those below the first one that is kept.
func (d *damagedHeights) list(first uint64) []uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.heights) == 0 {
		return nil
	}
	out := make([]uint64, 0, len(d.heights))
	for h := range d.heights {
		if h < first { // pruned since
			d.forgetLocked(h)
			continue
		}
		out = append(out, h)
	}
	slices.Sort(out)
	return out
}

// corrupt notes damage and makes the error that names the height. It logs a height once until it is replaced.
func (s *Store) corrupt(height uint64, cause error) error {
	if err := s.closedError(cause); err != nil {
		return err
	}
	var inner ErrCorrupt
	if errors.As(cause, &inner) {
		if inner.Height != height { // of another block, which was needed to find this one
			return cause
		}
		cause = inner.Cause
	}
	if s.metrics != nil {
		s.metrics.corrupt.Inc()
	}
	if last, _ := s.LIB(); height > last {
		s.log.Error("a stored reversible block is damaged", zap.Uint64("height", height), zap.Error(cause))
	} else if isNew, _ := s.damaged.note(height); isNew {
		s.log.Error("a stored block is damaged; the running node fetches it again from a peer", zap.Uint64("height", height), zap.Error(cause))
	}
	return ErrCorrupt{Height: height, Cause: cause}
}
