package keyvalue

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/ethereum/go-ethereum/ethdb"
)

// batch gathers writes; it belongs to one goroutine.
type batch struct {
	store  *Store
	writes *pebble.Batch
	size   int
}

// NewBatch gathers writes until its Write.
func (s *Store) NewBatch() ethdb.Batch { return &batch{store: s, writes: s.db.NewBatch()} }

// NewBatchWithSize is NewBatch with room for so many bytes.
func (s *Store) NewBatchWithSize(size int) ethdb.Batch {
	return &batch{store: s, writes: s.db.NewBatchWithSize(size)}
}

func (b *batch) Put(key, value []byte) error {
	b.size += len(key) + len(value)
	return b.writes.Set(key, value, nil)
}

func (b *batch) Delete(key []byte) error {
	b.size += len(key)
	return b.writes.Delete(key, nil)
}

func (b *batch) DeleteRange(start, end []byte) error {
	b.size += len(start) + len(end)
	return b.writes.DeleteRange(start, lastKey(end), nil)
}

// ValueSize is how many bytes of keys and values wait.
func (b *batch) ValueSize() int { return b.size }

// Write applies the writes at once: after a crash all of them are there or none.
func (b *batch) Write() error {
	return b.store.use(func(*pebble.DB) error { return b.store.commit(b.writes) })
}

func (b *batch) Reset() {
	b.writes.Reset()
	b.size = 0
}

func (b *batch) Close() { _ = b.writes.Close() }

// Replay repeats the writes on w.
func (b *batch) Replay(w ethdb.KeyValueWriter) error {
	for reader := b.writes.Reader(); ; {
		kind, key, value, more, err := reader.Next()
		if err != nil || !more {
			return err
		}
		if bytes.HasPrefix(key, slotPrefix) { // the number of a write that was made
			continue
		}
		switch kind {
		case pebble.InternalKeyKindSet:
			err = w.Put(key, value)
		case pebble.InternalKeyKindDelete:
			err = w.Delete(key)
		case pebble.InternalKeyKindRangeDelete:
			ranges, ok := w.(ethdb.KeyValueRangeDeleter)
			if !ok {
				return errors.New("replay a batch: the target cannot delete a range of keys")
			}
			err = ranges.DeleteRange(key, value)
		default:
			return fmt.Errorf("replay a batch: a write of kind %v", kind)
		}
		if err != nil {
			return err
		}
	}
}
