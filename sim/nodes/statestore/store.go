package statestore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/ethereum/go-ethereum/ethdb"

	"github.com/bornode/bornode/internal/vfs"
)

// FileName is the log in the store's folder.
const FileName = "STATE.log"

const (
	magic        = "BORSSTA1"
	headerBytes  = 16      // of a record
	maxFileBytes = 1 << 30 // of the log; a simulated state is small
	compactBytes = 4 << 20 // a start rewrites a log of this size of which less than half counts
)

// Errors of the store.
var (
	ErrNotFound = errors.New("statestore: the key is not there")
	ErrClosed   = errors.New("statestore: closed")
	ErrDamaged  = errors.New("statestore: damaged")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Options of a store.
type Options struct {
	// Fail is told the first failure of the disk, or damage, with the file, while a lock of the store may be held: it must
	// not use the store. May be nil.
	Fail func(file string, err error)
}

// value is where a value lies, and what it is.
type value struct {
	off  int64
	sum  uint32
	data []byte
}

// Store is an open store.
type Store struct {
	fs   vfs.FS
	fail func(file string, err error)

	mu     sync.Mutex
	file   vfs.File
	values map[string]value
	size   int64
	synced int64
	failed error // nothing is written or read from the file any more
	closed bool
}

var _ ethdb.KeyValueStore = (*Store)(nil)

// Open opens or creates the store in the root of a file system. Damage is an error that wraps ErrDamaged; neither that nor
// a failing disk is told to Options.Fail.
func Open(fs vfs.FS, o Options) (*Store, error) {
	s := &Store{fs: fs, fail: o.Fail, values: make(map[string]value)}
	if err := fs.Mkdir("."); err != nil {
		return nil, err
	}
	raw, err := vfs.ReadFile(fs, FileName, maxFileBytes)
	if errors.Is(err, os.ErrNotExist) {
		raw, err = []byte(magic), vfs.ReplaceFile(fs, FileName, []byte(magic))
	}
	if err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(raw, []byte(magic)) {
		return nil, fmt.Errorf("%w: %s begins with %x", ErrDamaged, FileName, raw[:min(len(raw), len(magic))])
	}
	end, err := s.load(raw)
	if err != nil {
		return nil, err
	}
	if s.file, err = fs.Open(FileName, os.O_RDWR); err != nil {
		return nil, err
	}
	if err := s.begin(end, int64(len(raw))); err != nil {
		return nil, errors.Join(err, s.file.Close())
	}
	return s, nil
}

// begin cuts the torn end off and makes what is left durable.
func (s *Store) begin(end, size int64) error {
	if end < size {
		if err := s.file.Truncate(end); err != nil {
			return err
		}
	}
	if err := s.file.Sync(); err != nil {
		return err
	}
	s.size, s.synced = end, end
	if end >= compactBytes && s.live() < end/2 {
		return s.compact()
	}
	return nil
}

// load reads the records; end is where the last whole one ends.
func (s *Store) load(raw []byte) (end int64, err error) {
	at := len(magic)
	for {
		payload, _, ok := recordAt(raw, at)
		if !ok {
			break
		}
		if err := s.apply(payload, int64(at+headerBytes)); err != nil {
			return 0, err
		}
		at += headerBytes + len(payload)
	}
	for later := at + 1; later+headerBytes <= len(raw); later++ {
		if _, synced, ok := recordAt(raw, later); ok && synced > uint64(at) { //nolint:gosec // not negative
			return 0, fmt.Errorf("%w: %s cannot be read at %d, which was synced", ErrDamaged, FileName, at)
		}
	}
	return int64(at), nil
}

// recordAt reads the record at a place.
func recordAt(raw []byte, at int) (payload []byte, synced uint64, ok bool) {
	if at+headerBytes > len(raw) {
		return nil, 0, false
	}
	n := int(binary.BigEndian.Uint32(raw[at:]))
	if n == 0 || n > len(raw)-at-headerBytes {
		return nil, 0, false
	}
	payload = raw[at+headerBytes : at+headerBytes+n]
	synced = binary.BigEndian.Uint64(raw[at+8:])
	return payload, synced, synced <= uint64(at) && binary.BigEndian.Uint32(raw[at+4:]) == checksum(raw[at:], payload) //nolint:gosec // not negative
}

func checksum(header, payload []byte) uint32 {
	sum := crc32.Checksum(header[:4], castagnoli)
	sum = crc32.Update(sum, castagnoli, header[8:headerBytes])
	return crc32.Update(sum, castagnoli, payload)
}

// apply takes the operations of a payload that lies at off in the file.
func (s *Store) apply(payload []byte, off int64) error {
	for at := 0; at < len(payload); {
		kind, key, rest, next, ok := operationAt(payload, at)
		if !ok {
			return fmt.Errorf("%w: an operation of %s cannot be read", ErrDamaged, FileName)
		}
		switch kind {
		case opPut:
			s.values[string(key)] = value{off + int64(next-len(rest)), crc32.Checksum(rest, castagnoli), slices.Clone(rest)}
		case opDelete:
			delete(s.values, string(key))
		case opDeleteRange:
			for k := range s.values {
				if k >= string(key) && (rest == nil || k < string(rest)) {
					delete(s.values, k)
				}
			}
		}
		at = next
	}
	return nil
}

// live is how many bytes of the file count.
func (s *Store) live() (n int64) {
	for k, v := range s.values {
		n += int64(len(k) + len(v.data) + 9)
	}
	return n
}

// compact replaces the log by one that holds what counts, as one record.
func (s *Store) compact() error {
	var payload []byte
	for _, k := range sortedKeys(s.values, nil, nil) {
		payload = appendOperation(payload, opPut, []byte(k), s.values[k].data)
	}
	whole := append([]byte(magic), record(payload, 0)...)
	if err := vfs.ReplaceFile(s.fs, FileName, whole); err != nil {
		return err
	}
	f, err := s.fs.Open(FileName, os.O_RDWR)
	if err != nil {
		return err
	}
	old := s.file
	s.file, s.size, s.synced = f, int64(len(whole)), int64(len(whole))
	clear(s.values)
	return errors.Join(s.apply(payload, int64(len(magic)+headerBytes)), old.Close())
}

func record(payload []byte, synced int64) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))) //nolint:gosec // a state is small
	b = append(b, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, uint64(synced)) //nolint:gosec // not negative
	binary.BigEndian.PutUint32(b[4:], checksum(b, payload))
	return append(b, payload...)
}

// end notes the first failure and tells it. The caller holds mu.
func (s *Store) end(err error) {
	if s.failed != nil {
		return
	}
	s.failed = err
	if s.fail != nil {
		s.fail(FileName, err)
	}
}

// write appends one record. After a failure the write is in memory only.
func (s *Store) write(payload []byte) error {
	if len(payload) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.failed == nil {
		if err := vfs.WriteAll(s.file, record(payload, s.synced), s.size); err != nil {
			s.end(err)
		}
	}
	off := s.size + headerBytes
	s.size = off + int64(len(payload))
	return s.apply(payload, off)
}

// read gives the value as the file has it. The caller holds mu.
func (s *Store) read(key string) ([]byte, error) {
	v, ok := s.values[key]
	if !ok {
		return nil, ErrNotFound
	}
	if s.failed != nil || len(v.data) == 0 {
		return slices.Clone(v.data), nil
	}
	b := make([]byte, len(v.data))
	n, err := s.file.ReadAt(b, v.off)
	switch {
	case n < len(b):
		s.end(fmt.Errorf("read %s at %d: %w", FileName, v.off, err))
	case crc32.Checksum(b, castagnoli) != v.sum:
		s.end(fmt.Errorf("%w: the value at %d of %s has another checksum", ErrDamaged, v.off, FileName))
	}
	return slices.Clone(v.data), nil
}

// Has reports whether the key is there.
func (s *Store) Has(key []byte) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false, ErrClosed
	}
	_, ok := s.values[string(key)]
	return ok, nil
}

// Get returns a copy of the value. A missing key is ErrNotFound.
func (s *Store) Get(key []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrClosed
	}
	return s.read(string(key))
}

// Put sets a value. It is durable after the next SyncKeyValue.
func (s *Store) Put(key, v []byte) error { return s.write(appendOperation(nil, opPut, key, v)) }

// Delete removes a key; one that is not there is no error.
func (s *Store) Delete(key []byte) error { return s.write(appendOperation(nil, opDelete, key, nil)) }

// DeleteRange removes the keys from start up to, and without, end; a nil end is behind every key.
func (s *Store) DeleteRange(start, end []byte) error {
	return s.write(appendOperation(nil, opDeleteRange, start, end))
}

// SyncKeyValue makes every write before it durable.
func (s *Store) SyncKeyValue() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if s.failed != nil {
		return nil
	}
	if err := s.file.Sync(); err != nil {
		s.end(fmt.Errorf("sync %s: %w", FileName, err))
		return nil
	}
	s.synced = s.size
	return nil
}

// Stat describes the store for a person who debugs it.
func (s *Store) Stat() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Sprintf("%d keys, %d bytes, %d synced", len(s.values), s.size, s.synced), nil
}

// Compact does nothing: a start does what is needed.
func (s *Store) Compact(_, _ []byte) error { return nil }

// Close syncs and closes the file. A second call does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.failed != nil {
		return s.file.Close()
	}
	return errors.Join(s.file.Sync(), s.file.Close())
}

// sortedKeys are the keys with a prefix, from prefix followed by start on.
func sortedKeys(values map[string]value, prefix, start []byte) []string {
	from := string(prefix) + string(start)
	var keys []string
	for k := range values {
		if strings.HasPrefix(k, string(prefix)) && k >= from {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// NewIterator walks the keys with this prefix in their order, from prefix followed by start on.
func (s *Store) NewIterator(prefix, start []byte) ethdb.Iterator {
	s.mu.Lock()
	defer s.mu.Unlock()
	it := &iterator{at: -1}
	if s.closed {
		it.err = ErrClosed
		return it
	}
	for _, k := range sortedKeys(s.values, prefix, start) {
		v, _ := s.read(k) // it is there; damage was told
		it.keys, it.values = append(it.keys, k), append(it.values, v)
	}
	return it
}

// iterator belongs to one goroutine.
type iterator struct {
	keys   []string
	values [][]byte
	at     int
	err    error
}

func (it *iterator) Next() bool {
	if it.at < len(it.keys) {
		it.at++
	}
	return it.at < len(it.keys)
}

func (it *iterator) Error() error { return it.err }

func (it *iterator) Key() []byte {
	if it.at < 0 || it.at >= len(it.keys) {
		return nil
	}
	return []byte(it.keys[it.at])
}

func (it *iterator) Value() []byte {
	if it.at < 0 || it.at >= len(it.keys) {
		return nil
	}
	return it.values[it.at]
}

func (it *iterator) Release() { it.keys, it.values = nil, nil }
