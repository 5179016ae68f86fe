package keyvalue

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/ethereum/go-ethereum/ethdb"
)

// Pebble takes a file of its write-ahead log that is gone, or a list of tables that lost its end, for the end of what was
// written, and goes on with what was written later: writes are missing in the middle, and the state that was put together
// from them fits no root. So every write carries its number. The newest numbers stand in the store, each in the slot of
// its remainder, and no more writes than half of the slots are ever outside of tables: a gap below the newest write shows
// as a slot whose number is too old. Writes that are missing at the end are no gap: the state is an older one then.

// writeSlots is how many of the newest writes' numbers are kept.
const writeSlots = 1 << 16

// slotPrefix is behind every key of the callers, and behind what a range without an end deletes.
var slotPrefix = append(bytes.Clone(ethdb.MaximumKey), "bornode-write-"...)

func slotKey(number uint64) []byte {
	return binary.BigEndian.AppendUint16(bytes.Clone(slotPrefix), uint16(number%writeSlots)) //nolint:gosec // below 1<<16
}

// writeOrder numbers the writes in the order in which they are applied.
type writeOrder struct {
	mu         sync.Mutex
	last       uint64          // number of the newest write
	flushed    uint64          // what was written up to here is in tables
	flushing   <-chan struct{} // closed when that holds up to flushingTo; nil: no flush was asked for
	flushingTo uint64
}

// commit applies a batch with its number.
func (s *Store) commit(b *pebble.Batch) error {
	if b.Empty() {
		return nil
	}
	o := &s.order
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.boundUnflushed(s.db); err != nil {
		return err
	}
	if err := b.Set(slotKey(o.last+1), binary.BigEndian.AppendUint64(nil, o.last+1), nil); err != nil {
		return err
	}
	if err := b.Commit(pebble.NoSync); err != nil {
		return err
	}
	o.last++
	return nil
}

// boundUnflushed asks for a flush after a quarter of the slots and waits for it after half.
func (o *writeOrder) boundUnflushed(db *pebble.DB) (err error) {
	if o.flushing == nil && o.last-o.flushed >= writeSlots/4 {
		if o.flushing, err = db.AsyncFlush(); err != nil {
			return err
		}
		o.flushingTo = o.last
	}
	if o.flushing == nil {
		return nil
	}
	if o.last-o.flushed < writeSlots/2 {
		select {
		case <-o.flushing:
		default:
			return nil
		}
	}
	<-o.flushing
	o.flushed, o.flushing = o.flushingTo, nil
	return nil
}

// ErrLostWrites says that a store lost writes that were made before others which it has: what it holds fits nothing any
// more. Test with errors.As.
type ErrLostWrites struct{ First, Newest uint64 } // numbers of writes: the first that is known to be missing, and the newest

func (e ErrLostWrites) Error() string {
	return fmt.Sprintf("write %d is missing although write %d is there: a file of the write-ahead log or a part of the list of tables was lost", e.First, e.Newest)
}

// findOrder reads the numbers of the newest writes. Those of a store without any begin with 1.
func (s *Store) findOrder() error {
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: slotPrefix, UpperBound: boundOf(slotPrefix)})
	if err != nil {
		return err
	}
	numbers := make(map[uint64]bool)
	for ok := it.First(); ok; ok = it.Next() {
		if value := it.Value(); len(value) == 8 {
			n := binary.BigEndian.Uint64(value)
			numbers[n] = true
			s.order.last = max(s.order.last, n)
		}
	}
	if err := it.Close(); err != nil {
		return err
	}
	last := s.order.last
	s.order.flushed = last // opening for use writes what the log held to tables
	for n := last - min(last, writeSlots) + 1; n <= last; n++ {
		if !numbers[n] {
			s.lost = ErrLostWrites{First: n, Newest: last}
			return nil
		}
	}
	return nil
}

// LostWrites is ErrLostWrites if the store was opened with a gap in what was written to it, else nil.
func (s *Store) LostWrites() error { return s.lost }
