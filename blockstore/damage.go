package blockstore

import (
	"errors"
	"slices"
	"sync"

	"go.uber.org/zap"
)

// damagedHeights are the irreversible blocks that a reader could not read and that nobody has restored yet. Every read
// of the store that meets damage notes it, whoever reads: the synchronisation asks for the list (Damaged), fetches the
// blocks from peers and calls Replace. What does not fit is noted by a later read.
type damagedHeights struct {
	mu      sync.Mutex
	heights map[uint64]struct{}
}

// note reports whether the height is new.
func (d *damagedHeights) note(height uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.heights[height]; known || len(d.heights) >= maxDamagedHeights {
		return false
	}
	if d.heights == nil {
		d.heights = make(map[uint64]struct{})
	}
	d.heights[height] = struct{}{}
	return true
}

func (d *damagedHeights) forget(height uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.heights, height)
}

// Damaged lists the irreversible blocks, lowest first, that reads found damaged or missing and that were not replaced
// since; at most maxDamagedHeights. Safe for concurrent use and cheap while there are none.
func (s *Store) Damaged() []uint64 {
	first := s.FirstHeight()
	s.damaged.mu.Lock()
	defer s.damaged.mu.Unlock()
	if len(s.damaged.heights) == 0 {
		return nil
	}
	out := make([]uint64, 0, len(s.damaged.heights))
	for h := range s.damaged.heights {
		if h < first { // pruned since
			delete(s.damaged.heights, h)
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
	} else if s.damaged.note(height) {
		s.log.Error("a stored block is damaged; it is fetched again from a peer", zap.Uint64("height", height), zap.Error(cause))
	}
	return ErrCorrupt{Height: height, Cause: cause}
}
