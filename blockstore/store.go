package blockstore

import (
	"context"
	"errors"
	"io"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"
	"github.com/syndtr/goleveldb/leveldb"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/vfs"
)

// Store is the block store. All methods are safe for concurrent use.
type Store struct {
	cfg     Config
	fs      vfs.FS
	log     *zap.Logger
	metrics *metrics
	gate    *gate
	looking bool // changes stay in memory (Inspect)
	lock    io.Closer
	meta    *leveldb.DB
	derived derivedDatabase
	files   *vfs.OpenFiles
	blocks  *blockCache
	headers *lru.Cache[common.Hash, *block.SealedHeader]

	ops      chan *op
	closing  chan struct{}  // closed first: no new operations
	stopped  chan struct{}  // the writer has ended
	wg       sync.WaitGroup // goroutines beside the writer
	closeOne sync.Once
	closeErr error

	told     sync.Mutex        // held while these are used
	asides   map[string]string // folder of what was set aside, by reason
	moved    []Aside
	findings []Problem

	damaged       damagedHeights
	receiptless   damagedHeights              // whose receipts are missing and cannot be made again
	derivedMarked atomic.Bool                 // a start will rebuild the derived database, which was told
	filling       atomic.Pointer[txFilling]   // nil: the index of transactions is whole
	hashing       atomic.Pointer[hashFilling] // nil: hash -> height is whole
	indexed       atomic.Uint64               // the transactions of blocks below are in the index; moved by the writer, while filling by its goroutine

	mu sync.RWMutex
	state

	hashed bool           // Open completed hash -> height; owned by run
	w      writer         // owned by run
	super  superblocks    // owned by run
	page   *directoryPage // written by run; nil: the store has no window
}

// state is what readers see. Only the writer changes it, under mu; slices and maps reachable from a copy are not
// changed, but for rev, which is read under mu.
type state struct {
	has        bool // there is a LIB
	lib        libMeta
	sealed     []Segment // ascending; without the active one
	qc, fc     *block.Certificate
	root       []byte
	rev        map[common.Hash]*reversible
	finalising map[common.Hash][]byte // encoded blocks on their way from the meta database to a segment
}

type reversible struct {
	height       uint64
	hash, parent common.Hash
}

// Segment describes one segment file.
type Segment struct {
	Number      uint32
	First, Last uint64 // heights
	Size        int64  // bytes that are durable
	Sealed      bool   // never changes any more
	Name        string // path below the store's directory
}

// LIB is the last irreversible block; height 0 and the zero hash while the store is empty.
func (s *Store) LIB() (height uint64, hash common.Hash) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lib.Height, s.lib.Hash
}

// Empty reports that no block is irreversible yet, not even genesis.
func (s *Store) Empty() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return !s.has
}

// FirstHeight is the lowest height that is kept (0 in an empty store). Pruning raises it.
func (s *Store) FirstHeight() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lib.First
}

// Generation grows with every pruning; index entries carry the generation they were written in.
func (s *Store) Generation() uint32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.lib.Generation
}

// Root is the consensus root that belongs to the LIB, nil if none was given. The caller must not change it.
func (s *Store) Root() []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.root
}

// Certificates are the newest proof given that the LIB, or a block before it, is final; nil where none was given.
func (s *Store) Certificates() (qc, fc *block.Certificate) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.qc, s.fc
}

// Segments lists the segment files in order of height, the active one last.
func (s *Store) Segments() []Segment {
	s.mu.RLock()
	defer s.mu.RUnlock()
	out := slices.Clone(s.sealed)
	if s.has {
		out = append(out, s.activeSegment())
	}
	return out
}

func (st *state) activeSegment() Segment {
	return Segment{
		Number: st.lib.Segment, First: st.lib.SegmentFirst, Last: st.lib.Height,
		Size: int64(st.lib.End), Name: segmentName(st.lib.Segment), //nolint:gosec // bounded by maxSegmentBytes
	}
}

// segmentOf is the segment that holds a height between First and LIB.
func (s *Store) segmentOf(height uint64) (Segment, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.has || height > s.lib.Height {
		return Segment{}, false
	}
	if height >= s.lib.SegmentFirst {
		return s.activeSegment(), true
	}
	i := sort.Search(len(s.sealed), func(i int) bool { return s.sealed[i].Last >= height })
	if i == len(s.sealed) || s.sealed[i].First > height {
		return Segment{}, false
	}
	return s.sealed[i], true
}

// Failed is nil while the store takes writes, else why it does not (wraps ErrFailed and the cause).
func (s *Store) Failed() error { return s.gate.check() }

// AwaitFailure waits until the store takes no more writes, and says why as Failed does; nil when ctx ends before. Whoever
// owns the store ends by it: who only offers it blocks from peers would be refused each for good.
func (s *Store) AwaitFailure(ctx context.Context) error {
	select {
	case <-s.gate.closed:
		return s.Failed()
	case <-ctx.Done():
		return nil
	}
}

// Close waits for the operations in progress, ends the writer and closes all files. Later calls give ErrClosed.
func (s *Store) Close() error {
	s.closeOne.Do(func() {
		close(s.closing)
		<-s.stopped
		s.derived.mu.Lock()
		s.derived.open = false // nothing is begun any more
		s.derived.mu.Unlock()
		s.wg.Wait()
		s.closeErr = s.release()
	})
	return s.closeErr
}

// release closes whatever is open; used by Close and by an Open that fails half way.
func (s *Store) release() error {
	var errs []error
	if s.gate.check() == nil && s.derived.db != nil && s.has {
		errs = append(errs, s.keepActiveName(), s.markHashed(s.lib.Height))
	}
	errs = append(errs, s.w.close(s.gate), s.super.close(), s.page.close())
	if s.files != nil {
		s.files.Close()
	}
	s.derived.mu.Lock()
	defer s.derived.mu.Unlock()
	if db := s.derived.db; db != nil {
		err := db.Close()
		if isDamage(err) && s.gate.check() == nil { // which a compaction has met
			s.markDerived(damagedForNextStart, err)
			err = nil
		}
		errs = append(errs, err)
		s.derived.db = nil
	}
	if s.meta != nil {
		errs = append(errs, s.meta.Close())
	}
	if s.lock != nil {
		errs = append(errs, s.lock.Close())
	}
	return errors.Join(errs...)
}
