package keyvalue

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/ethereum/go-ethereum/ethdb"
)

// Options of a store.
type Options struct {
	CacheMiB int // block cache and memory tables together
	Handles  int // open files
	// Fail is told the first error of the disk or of the files, with the file it is about ("" if that is unknown). It
	// should not return: what follows is not to be trusted. It is called at most once, from any goroutine.
	Fail func(file string, err error)

	fs vfs.FS // of tests; nil: the operating system's
}

// Store is an open store.
type Store struct {
	db    *pebble.DB
	fail  func(file string, err error)
	order writeOrder
	lost  error // ErrLostWrites; written by Open

	mu     sync.RWMutex // held for reading while the database is used
	closed bool
}

var _ ethdb.KeyValueStore = (*Store)(nil)

// Open opens or creates the store in a folder. Damage that shows while it opens is an error, and is not told to
// Options.Fail.
func Open(dir string, o Options) (*Store, error) {
	var once sync.Once
	var opened atomic.Bool
	s := &Store{}
	s.fail = func(file string, err error) {
		if opened.Load() && o.Fail != nil {
			once.Do(func() { o.Fail(file, err) })
		}
	}
	db, err := openPebble(dir, s.options(o))
	if err != nil {
		return nil, err
	}
	s.db = db
	if err := s.findOrder(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	opened.Store(true)
	return s, nil
}

// openPebble is pebble.Open whose panics are errors: it panics over some kinds of damage.
func openPebble(dir string, o *pebble.Options) (db *pebble.DB, err error) {
	defer func() {
		if x := recover(); x != nil {
			db, err = nil, fmt.Errorf("pebble gave up: %v", x)
		}
	}()
	return pebble.Open(dir, o)
}

const (
	// memoryTables are how many memory tables share half of the cache. At twice their number writes wait.
	memoryTables = 4
	// maxTableBytes is below the largest memory table that Pebble takes (4 GiB).
	maxTableBytes = 1<<32 - 2
)

// options are those of go-ethereum's wrapper (ethdb/pebble), but for loggers and listeners.
func (s *Store) options(o Options) *pebble.Options {
	cache := int64(o.CacheMiB) << 20
	opt := &pebble.Options{
		FS:                          o.fs,
		Cache:                       pebble.NewCache(cache),
		MaxOpenFiles:                o.Handles,
		MemTableSize:                min(uint64(cache)/2/memoryTables, maxTableBytes), //nolint:gosec // a validated setting
		MemTableStopWritesThreshold: 2 * memoryTables,
		CompactionConcurrencyRange:  func() (int, int) { return 1, runtime.NumCPU() },
		TargetFileSizes:             [7]int64{16 << 20, 4 << 20, 8 << 20, 16 << 20, 32 << 20, 64 << 20, 128 << 20},
		WALBytesPerSync:             5 * ethdb.IdealBatchSize,
		L0CompactionThreshold:       2,
		FormatMajorVersion:          pebble.FormatFlushableIngest,
		Logger:                      logger{s},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { s.fail("", err) },
			DataCorruption:  func(info pebble.DataCorruptionInfo) { s.fail(info.Path, info.Details) },
		},
	}
	for i := range 6 { // the last level has no filter
		opt.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	opt.Experimental.ReadSamplingMultiplier = -1
	opt.Experimental.L0CompactionConcurrency = 1
	opt.Experimental.CompactionDebtConcurrency = 256 << 20
	return opt
}

// logger hands Pebble's fatal errors to Fail. What else Pebble logs is noise: errors that matter are returned or told
// by the listener.
type logger struct{ s *Store }

func (logger) Infof(string, ...any)  {}
func (logger) Errorf(string, ...any) {}

// Fatalf must not return: Pebble goes on as if nothing happened.
func (l logger) Fatalf(format string, args ...any) {
	var cause error
	for _, x := range args {
		if err, ok := x.(error); ok {
			cause = err
		}
	}
	err := fmt.Errorf(format, args...)
	if cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%s)", cause, err)
	}
	l.s.fail("", err)
	panic(fmt.Errorf("pebble: %w", err))
}

// use holds the database open while run works with it. An error other than a missing key is told to Fail.
func (s *Store) use(run func(db *pebble.DB) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return pebble.ErrClosed
	}
	err := run(s.db)
	if err != nil && !errors.Is(err, pebble.ErrNotFound) {
		s.fail("", err)
	}
	return err
}

// Close writes what waits in memory to the disk and closes the files. A second call does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.db.Close()
}

// Has reports whether the key is there.
func (s *Store) Has(key []byte) (bool, error) {
	_, err := s.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Get returns a copy of the value. A missing key is an error wrapping pebble.ErrNotFound.
func (s *Store) Get(key []byte) (value []byte, err error) {
	err = s.use(func(db *pebble.DB) error {
		held, closer, err := db.Get(key)
		if err != nil {
			return err
		}
		value = append(make([]byte, 0, len(held)), held...)
		return closer.Close()
	})
	return value, err
}

// Put sets a value. It is durable after the next SyncKeyValue.
func (s *Store) Put(key, value []byte) error {
	return s.writeOne(func(b *pebble.Batch) error { return b.Set(key, value, nil) })
}

// writeOne applies a write of its own.
func (s *Store) writeOne(write func(b *pebble.Batch) error) error {
	return s.use(func(db *pebble.DB) error {
		b := db.NewBatch()
		if err := write(b); err != nil {
			return err
		}
		return errors.Join(s.commit(b), b.Close())
	})
}

// Delete removes a key; one that is not there is no error.
func (s *Store) Delete(key []byte) error {
	return s.writeOne(func(b *pebble.Batch) error { return b.Delete(key, nil) })
}

// DeleteRange removes the keys from start up to, and without, end; a nil end is behind every key.
func (s *Store) DeleteRange(start, end []byte) error {
	return s.writeOne(func(b *pebble.Batch) error { return b.DeleteRange(start, lastKey(end), nil) })
}

// lastKey stands for the end of the key space where Pebble wants a key.
func lastKey(end []byte) []byte {
	if end == nil {
		return ethdb.MaximumKey
	}
	return end
}

// Stat describes the store for a person who debugs it.
func (s *Store) Stat() (text string, err error) {
	err = s.use(func(db *pebble.DB) error { text = db.Metrics().String(); return nil })
	return text, err
}

// SyncKeyValue makes every write before it durable.
func (s *Store) SyncKeyValue() error {
	return s.use(func(db *pebble.DB) error { return db.LogData(nil, pebble.Sync) })
}

// Compact rewrites the tables of a range of keys; nil bounds are the ends of the key space.
func (s *Store) Compact(start, limit []byte) error {
	return s.use(func(db *pebble.DB) error { return db.Compact(context.Background(), start, lastKey(limit), true) })
}

// NewIterator walks the keys with this prefix in their order, from prefix followed by start on.
func (s *Store) NewIterator(prefix, start []byte) ethdb.Iterator {
	it := &iterator{store: s}
	it.failure = s.use(func(db *pebble.DB) (err error) {
		it.keys, err = db.NewIter(&pebble.IterOptions{LowerBound: slices.Concat(prefix, start), UpperBound: lastKey(boundOf(prefix))})
		return err
	})
	return it
}

// boundOf is the first key behind those with this prefix; nil: there is none.
func boundOf(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] != 0xff {
			bound := slices.Clone(prefix[:i+1])
			bound[i]++
			return bound
		}
	}
	return nil
}

// iterator belongs to one goroutine.
type iterator struct {
	store   *Store
	keys    *pebble.Iterator // nil: it could not be made, or is released
	started bool
	failure error
}

// Next moves to the next key; false at the end and after an error.
func (it *iterator) Next() bool {
	if it.keys == nil {
		return false
	}
	more := false
	if it.started {
		more = it.keys.Next()
	} else {
		it.started, more = true, it.keys.First()
	}
	if err := it.Error(); err != nil {
		it.store.fail("", err)
		return false
	}
	return more
}

func (it *iterator) Error() error {
	if it.keys == nil {
		return it.failure
	}
	return it.keys.Error()
}

func (it *iterator) Key() []byte   { return it.at((*pebble.Iterator).Key) }
func (it *iterator) Value() []byte { return it.at((*pebble.Iterator).Value) }

// at is nil before the first key and behind the last one.
func (it *iterator) at(part func(*pebble.Iterator) []byte) []byte {
	if it.keys == nil || !it.started || !it.keys.Valid() {
		return nil
	}
	return part(it.keys)
}

// Release ends the iterator; it may be called more than once.
func (it *iterator) Release() {
	if it.keys != nil {
		it.failure = it.keys.Error()
		_ = it.keys.Close() // its error is the one above
		it.keys = nil
	}
}
