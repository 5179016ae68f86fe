package blockstore

import (
	"errors"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/rlp"
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
		s.log.Error("a stored block is damaged; the running node fetches it again from a peer", zap.Uint64("height", height), zap.Error(cause))
	}
	return ErrCorrupt{Height: height, Cause: cause}
}
