package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
)

// Store is the log of a broker. All methods may be called concurrently.
type Store struct {
	cfg   Config
	fs    vfs.FS
	reads vfs.FS // fs, but what cannot be read is read again
	log   *zap.Logger
	m     *metrics
	files *vfs.OpenFiles
	wal   *wal
	lock  io.Closer
	clock func() time.Time // the machine's
	ages  ageClock

	mu   sync.RWMutex
	byID map[ID]*Partition

	// guarded by wal.mu
	byNumber   map[uint32]*Partition // changed with mu held too
	nextNumber uint32
	segs       map[uint32]*segment
	snaps      []uint32 // segments with a snapshot, ascending
	snapBytes  int64

	producers atomic.Int64
	hold      atomic.Pointer[func(id ID, start int64) int64]
	onDamage  atomic.Pointer[func(id ID, err error)]
	heights   atomic.Pointer[heights]                   // nil: not known
	lost      *losses                                   // while the store opens
	looks     func(file string, pos int64, cause error) // of Inspect; nil: the store is in use
	making    sync.Mutex                                // one change of heights at a time

	rebuilding sync.Mutex // one index file at a time

	ticking sync.Mutex // one Tick at a time; guards the rest
	cursor  uint32     // partition number where the next Tick goes on
	asked   uint32     // the same, for producers
	reserve bool       // the reserve file exists; flusher only
	noted   Mark       // wal.mu: the last record says that all before it is durable

	file    vfs.File // of the flusher
	fileSeg uint32

	stop chan struct{}
	done sync.WaitGroup
	once sync.Once
	fail error // of Close
}

// segment is what is known of a segment file. Guarded by wal.mu.
type segment struct {
	number  uint32
	size    int64 // of the file, when full
	live    int64 // payload bytes of live batches
	runs    int
	deadAt  Mark   // where the record ends that took the last live batch
	sealed  bool   // has an index file
	entries int64  // place of the entries in the index file
	rebuilt int    // how often the index file was rebuilt since the store was opened
	salt    uint32 // of its checksums, if salted
	salted  bool
}

// Open opens or makes the store in cfg.Dir, or in fs if that is not nil, and starts its goroutines. reg may be nil.
// Damaged files do not keep it from opening: the partitions with records there lose their copy (see damage.go). Errors say
// that another process has the store, or that its files cannot be reached or written.
func Open(cfg Config, fs vfs.FS, log *zap.Logger, reg prometheus.Registerer) (*Store, error) {
	return openStore(cfg, fs, log, reg, nil)
}

// openStore is Open; looks is told of every damaged place, nil for a store in use.
func openStore(cfg Config, fs vfs.FS, log *zap.Logger, reg prometheus.Registerer, looks func(file string, pos int64, cause error)) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if fs == nil {
		if cfg.Dir == "" {
			return nil, errors.New("topic store: dir is empty; name the directory of the topic store")
		}
		fs = vfs.OS(cfg.Dir, vfs.Public)
	}
	if cfg.retry == 0 {
		cfg.retry = retryInterval
	}
	if cfg.clock == nil {
		cfg.clock = newMachineClock()
	}
	if log == nil {
		log = zap.NewNop()
	}
	if err := format.Check(patient{fs}, cfg.Dir, format.Topics); errors.Is(err, format.ErrUnknown) || saysNothing(err) {
		return nil, err
	}
	if err := fs.Mkdir("."); err != nil {
		return nil, fmt.Errorf("make the directory of the topic store: %w", err)
	}
	lock, err := fs.Lock(lockName)
	if err != nil {
		return nil, err
	}
	if err := format.Stamp(patient{fs}, cfg.Dir, format.Topics); errors.Is(err, format.ErrUnknown) {
		return nil, errors.Join(err, lock.Close())
	} else if err != nil { // a full disk: the store begins when there is room
		log.Warn("the topic store's folder does not name its format yet; the next start tries again", zap.Error(err))
	}
	s := &Store{cfg: cfg, fs: fs, reads: patient{fs}, log: log, files: vfs.NewOpenFiles(patient{fs}, maxOpenFiles), wal: newWAL(&cfg), lock: lock, looks: looks, clock: cfg.clock.wall, ages: newAgeClock(cfg.clock),
		byID: make(map[ID]*Partition), byNumber: make(map[uint32]*Partition), nextNumber: 1,
		segs: make(map[uint32]*segment), stop: make(chan struct{}), lost: &losses{parts: make(map[uint32]struct{}), behind: make(map[uint32]struct{})}}
	s.wal.prepare, s.wal.now = s.prepareSeal, s.ages.nowMillis
	s.m = newMetrics(reg, s)
	s.fs = s.reads
	err = s.recover()
	if s.fs, s.lost = fs, nil; err != nil {
		s.files.Close()
		if s.file != nil {
			err = errors.Join(err, s.file.Close())
		}
		return nil, errors.Join(err, lock.Close())
	}
	s.done.Add(2)
	go s.flusher()
	go s.keeper()
	return s, nil
}

func (s *Store) now() int64 { return s.clock().UnixMilli() }

// Close makes everything durable and stops. Appends and waits end with ErrClosed.
func (s *Store) Close() error {
	s.once.Do(func() {
		s.saveCommitted(maxPartitions)
		w := s.wal
		ctx, cancel := context.WithTimeout(context.Background(), closeWait)
		defer cancel()
		if s.Sync(ctx) == nil {
			s.noteSynced()
		}
		w.mu.Lock()
		w.closed = true
		w.broadcast()
		w.mu.Unlock()
		close(s.stop)
		s.done.Wait()
		s.files.Close()
		if s.file != nil {
			s.fail = errors.Join(s.fail, s.file.Close())
		}
		if s.fail == nil {
			s.fail = s.saveClosed()
		}
		s.fail = errors.Join(s.fail, s.lock.Close())
	})
	return s.fail
}

// Create makes a partition, or gives an existing one its retention. It is durable when Durable of any later mark is.
func (s *Store) Create(id ID, r Retention) (*Partition, error) {
	if r.Bytes < 0 || r.Age < 0 {
		return nil, fmt.Errorf("partition %v: retention of %d bytes, %v: use 0 for ever, or more", id, r.Bytes, r.Age)
	}
	if p := s.Partition(id); p != nil && p.hasRetention(r) {
		return p, nil
	}
	if err := s.wal.admit(false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byID[id]
	w := s.wal
	if p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.put(p.number, kindCreate, encodeCreate(id, r))
		p.touch()
		p.retention = r
		return p, nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(s.byNumber) >= maxPartitions || s.nextNumber == 1<<32-1 {
		return nil, fmt.Errorf("%w: %d partitions", ErrLimit, len(s.byNumber))
	}
	w.put(s.nextNumber, kindCreate, encodeCreate(id, r))
	return s.addPartition(id, s.nextNumber, r), nil
}

// addPartition is called with mu and wal.mu held.
func (s *Store) addPartition(id ID, number uint32, r Retention) *Partition {
	p := newPartition(s, id, number)
	p.retention, p.snapped = r, s.wal.seg-1 // no older segment knows it
	s.byID[id], s.byNumber[number] = p, p
	s.nextNumber = max(s.nextNumber, number+1)
	return p
}

func (p *Partition) hasRetention(r Retention) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.retention == r
}

func encodeCreate(id ID, r Retention) []byte {
	b := append([]byte(nil), id.Topic[:]...)
	b = append(b, i32(id.Partition)...)
	b = append(b, i64(r.Bytes)...)
	return append(b, i64(int64(r.Age))...)
}

func decodeCreate(b []byte) (id ID, r Retention) {
	copy(id.Topic[:], b)
	id.Partition = toI32(b[32:])
	return id, Retention{Bytes: toI64(b[36:]), Age: time.Duration(toI64(b[44:]))}
}

// Partition is the partition of that name, nil if there is none.
func (s *Store) Partition(id ID) *Partition {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.byID[id]
}

// List names all partitions, in no order.
func (s *Store) List() []ID {
	s.mu.RLock()
	defer s.mu.RUnlock()
	ids := make([]ID, 0, len(s.byID))
	for id := range s.byID {
		ids = append(ids, id)
	}
	return ids
}

// Delete removes a partition and its records; an unknown one is fine. Create of the same name makes an empty one.
func (s *Store) Delete(id ID) error {
	if s.Partition(id) == nil {
		return nil
	}
	if err := s.wal.admit(true); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byID[id]
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signal()
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	s.wal.put(p.number, kindDelete, nil)
	p.touch()
	p.apply(kindDelete, nil)
	delete(s.byID, id)
	delete(s.byNumber, p.number)
	return nil
}

// Durable waits until everything before the mark is on disk. An error says that it may not be: nothing of it may be
// acknowledged.
func (s *Store) Durable(ctx context.Context, m Mark) error { return s.wal.wait(ctx, m) }

// Sync makes everything durable that was appended before.
func (s *Store) Sync(ctx context.Context) error { return s.wal.wait(ctx, s.wal.end()) }

// Hold sets who says up to where the records of a partition that starts at an offset may be dropped: below, all who need
// them have read them. f is called without the store's locks, and must be quick. It does not hold Reset and Delete up.
func (s *Store) Hold(f func(id ID, start int64) int64) { s.hold.Store(&f) }

// Writable is nil, or why appends are refused.
func (s *Store) Writable() error {
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	if s.wal.closed {
		return ErrClosed
	}
	return s.wal.err
}

// account changes what is live in a segment. wal.mu is held.
func (s *Store) account(seg uint32, bytes int64, runs int) {
	g := s.segs[seg]
	if g == nil {
		g = &segment{number: seg}
		s.segs[seg] = g
	}
	g.live += bytes
	if g.runs += runs; g.runs == 0 {
		g.deadAt = s.wal.tail()
	}
}

func (s *Store) diskBytes() (n int64) {
	for _, g := range s.segs {
		n += g.size
	}
	return n + int64(s.wal.off)
}

func (s *Store) liveBytes() (n int64) {
	for _, g := range s.segs {
		n += g.live
	}
	return n
}
