package statestore

import (
	"encoding/binary"
	"errors"

	"github.com/ethereum/go-ethereum/ethdb"
)

// Kinds of operations in a record.
const (
	opPut byte = iota + 1
	opDelete
	opDeleteRange
)

// noEnd is the length that stands for the end of the key space.
const noEnd = ^uint32(0)

func appendOperation(b []byte, kind byte, key, rest []byte) []byte {
	b = append(b, kind)
	b = binary.BigEndian.AppendUint32(b, uint32(len(key))) //nolint:gosec // keys are short
	b = append(b, key...)
	if rest == nil && kind == opDeleteRange {
		return binary.BigEndian.AppendUint32(b, noEnd)
	}
	b = binary.BigEndian.AppendUint32(b, uint32(len(rest))) //nolint:gosec // values are short
	return append(b, rest...)
}

// operationAt reads the operation at a place of a payload; next is behind it.
func operationAt(b []byte, at int) (kind byte, key, rest []byte, next int, ok bool) {
	field := func() (f []byte, whole bool) {
		if len(b)-at < 4 {
			return nil, false
		}
		n := binary.BigEndian.Uint32(b[at:])
		at += 4
		if n == noEnd {
			return nil, true
		}
		if uint64(n) > uint64(len(b)-at) { //nolint:gosec // not negative
			return nil, false
		}
		f = b[at : at+int(n)]
		at += int(n)
		return f, true
	}
	if at >= len(b) {
		return 0, nil, nil, 0, false
	}
	kind = b[at]
	at++
	key, ok = field()
	if ok {
		rest, ok = field()
	}
	return kind, key, rest, at, ok && kind >= opPut && kind <= opDeleteRange
}

// batch gathers writes; it belongs to one goroutine.
type batch struct {
	store   *Store
	payload []byte
	size    int
}

// NewBatch gathers writes until its Write.
func (s *Store) NewBatch() ethdb.Batch { return &batch{store: s} }

// NewBatchWithSize is NewBatch with room for so many bytes.
func (s *Store) NewBatchWithSize(size int) ethdb.Batch {
	return &batch{store: s, payload: make([]byte, 0, size)}
}

func (b *batch) add(kind byte, key, rest []byte) error {
	b.payload = appendOperation(b.payload, kind, key, rest)
	b.size += len(key) + len(rest)
	return nil
}

func (b *batch) Put(key, v []byte) error             { return b.add(opPut, key, v) }
func (b *batch) Delete(key []byte) error             { return b.add(opDelete, key, nil) }
func (b *batch) DeleteRange(start, end []byte) error { return b.add(opDeleteRange, start, end) }

// ValueSize is how many bytes of keys and values wait.
func (b *batch) ValueSize() int { return b.size }

// Write applies the writes at once: after a crash all of them are there or none.
func (b *batch) Write() error { return b.store.write(b.payload) }

func (b *batch) Reset() { b.payload, b.size = b.payload[:0], 0 }
func (b *batch) Close() {}

// Replay repeats the writes on w.
func (b *batch) Replay(w ethdb.KeyValueWriter) error {
	for at := 0; at < len(b.payload); {
		kind, key, rest, next, ok := operationAt(b.payload, at)
		if !ok {
			return errors.New("statestore: a batch cannot be read")
		}
		var err error
		switch kind {
		case opPut:
			err = w.Put(key, rest)
		case opDelete:
			err = w.Delete(key)
		case opDeleteRange:
			ranges, can := w.(ethdb.KeyValueRangeDeleter)
			if !can {
				return errors.New("statestore: the target of a replay cannot delete a range of keys")
			}
			err = ranges.DeleteRange(key, rest)
		}
		if err != nil {
			return err
		}
		at = next
	}
	return nil
}
