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
// block share its repair (repairs.go). A second list of this kind has the blocks whose receipts must come from peers
// (receipts.go).
//
// The list is bounded. When it is full, a new block takes the place of one that no peer could send and that nobody waits
// for: blocks that all peers have pruned must not keep out those that can be fetched. Without such a one the new block is
// noted by a later read; one that execution needs gets in at once (insist). What was dropped is noted again by the next
// reader that meets it, the scrub at the latest.
type damagedHeights struct {
	wanted chan struct{} // capacity 1, shared by both lists: a block was noted, or a reader began to wait for one

	mu       sync.Mutex
	heights  map[uint64]*damagedBlock
	waiting  int    // readers that wait
	givenUps uint64 // counts the blocks that were given up
}

// damagedBlock is one of them.
type damagedBlock struct {
	attempt   *repairAttempt // that readers wait for; nil: none do
	repaired  chan struct{}  // closed when the block is whole again, or pruned
	isAwaited bool           // somebody waits without a bound of time
	givenUp   uint64         // which block that nobody could send it was, by the list's count; 0: it may come
}

// note reports whether the height is new in the list. In a full one it takes the place of a block that nobody can send.
func (d *damagedHeights) note(height uint64) (isNew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.heights[height] != nil || len(d.heights) >= maxDamagedHeights && !d.dropGivenUpLocked() {
		return false
	}
	d.addLocked(height)
	return true
}

// insist notes a height for somebody who waits for it without a bound of time: it stays until the block is whole or
// pruned. In a full list it takes the place of any block that nobody waits for; if all are waited for it is one more.
func (d *damagedHeights) insist(height uint64) (isNew bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if isNew = d.heights[height] == nil; isNew {
		if len(d.heights) >= maxDamagedHeights && !d.dropGivenUpLocked() {
			d.dropUnawaitedLocked()
		}
		d.addLocked(height)
	}
	d.heights[height].isAwaited = true
	return isNew
}

// isListed reports whether the list has a height, and isFull whether damage may be missing from it.
func (d *damagedHeights) isListed(height uint64) (isListed, isFull bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heights[height] != nil, len(d.heights) >= maxDamagedHeights
}

func (d *damagedHeights) addLocked(height uint64) {
	if d.heights == nil {
		d.heights = make(map[uint64]*damagedBlock)
	}
	d.heights[height] = &damagedBlock{repaired: make(chan struct{})}
	d.wake()
}

// dropGivenUpLocked makes room: of the blocks that nobody can send and nobody waits for it drops the one that was given
// up first. false: there is none.
func (d *damagedHeights) dropGivenUpLocked() bool {
	var first *damagedBlock
	var height uint64
	for h, b := range d.heights {
		if b.givenUp > 0 && !b.isWaitedFor() && (first == nil || b.givenUp < first.givenUp) {
			first, height = b, h
		}
	}
	if first != nil {
		d.forgetLocked(height)
	}
	return first != nil
}

// dropUnawaitedLocked drops the highest block that nobody waits for: the synchronisation fetches the lowest first.
func (d *damagedHeights) dropUnawaitedLocked() {
	var found bool
	var height uint64
	for h, b := range d.heights {
		if !b.isWaitedFor() && (!found || h > height) {
			found, height = true, h
		}
	}
	if found {
		d.forgetLocked(height)
	}
}

func (b *damagedBlock) isWaitedFor() bool { return b.attempt != nil || b.isAwaited }

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

// forgetBelow ends the waits for blocks that were pruned.
func (d *damagedHeights) forgetBelow(first uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for h := range d.heights {
		if h < first {
			d.forgetLocked(h)
		}
	}
}

// rememberDamaged keeps the heights of blocks that a repair found damaged and did not restore, over the restart that
// follows it: a block that nobody reads would else never be noted, and so never be fetched. Of more than the list holds
// they are the newest, which a start may need and which peers keep longest; the scrub notes the others.
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
	for _, h := range heights[max(0, len(heights)-maxDamagedHeights):] {
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
	d.forgetBelow(first) // a reader that raced with a pruning notes what is gone
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.heights) == 0 {
		return nil
	}
	out := make([]uint64, 0, len(d.heights))
	for h := range d.heights {
		out = append(out, h)
	}
	slices.Sort(out)
	return out
}

// wantWithoutBound has an irreversible block that a read found damaged listed until it is whole or pruned, whatever else
// the list holds. false: it is not damaged any more. If the read could not note it, the block is read again.
func (s *Store) wantWithoutBound(height uint64) bool {
	if isListed, isFull := s.damaged.isListed(height); !isListed {
		var damage ErrCorrupt
		if !isFull || !errors.As(s.CheckStored(height), &damage) || damage.Height != height {
			return false
		}
		s.log.Error("a stored block is damaged, and what waits for it cannot go on without it; the running node fetches it from a peer before others", zap.Uint64("height", height), zap.Error(damage.Cause))
	}
	s.damaged.insist(height)
	return true
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
