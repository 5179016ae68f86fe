package blockstore

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/bornode/bornode/block"
)

const (
	segmentDir = "segments"
	indexDir   = "index"
	metaDir    = "meta"
	derivedDir = "derived"
	lockName   = "LOCK"

	newMetaDir  = "meta.new" // the primary database while it is rebuilt
	asideDir    = AsideDir
	rebuildMark = "REBUILD" // in derivedDir: its database is damaged; sorts behind all other names there

	indexFileEntries = block.IndexFileEntries // entries of one index file: 4 MiB
)

// AsideDir is the directory, below the store's, of what starts set aside: a folder for each time and reason.
const AsideDir = "aside"

func segmentName(n uint32) string { return fmt.Sprintf("%s/%08d.seg", segmentDir, n) }

// indexName is the index file that holds a height; indexOffset is where in it.
func indexName(height uint64) string {
	return fmt.Sprintf("%s/%012d.idx", indexDir, height/indexFileEntries)
}

func indexOffset(height uint64) int64 {
	return int64(height%indexFileEntries) * block.IndexEntryBytes //nolint:gosec // below 4 MiB
}

func parseSegmentName(base string) (uint32, bool) {
	n, err := strconv.ParseUint(strings.TrimSuffix(base, ".seg"), 10, 32)
	return uint32(n), err == nil && segmentDir+"/"+base == segmentName(uint32(n)) //nolint:gosec // parsed as 32 bits
}

func parseIndexName(base string) (first uint64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimSuffix(base, ".idx"), 10, 48)
	first = n * indexFileEntries
	return first, err == nil && indexDir+"/"+base == indexName(first)
}

// readers keeps at most limit files open for reading. A file that is being read stays open until the last reader is
// done, also when it was evicted or removed.
type readers struct {
	fs    FS
	limit int

	mu     sync.Mutex
	closed bool
	open   map[string]*list.Element // of *handle
	recent *list.List               // front: used last
}

type handle struct {
	name string
	f    File
	refs int
	gone bool // evicted: the last user closes it
}

func newReaders(fs FS, limit int) *readers {
	return &readers{fs: fs, limit: limit, open: make(map[string]*list.Element), recent: list.New()}
}

func (r *readers) acquire(name string) (*handle, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	if e := r.open[name]; e != nil {
		h := e.Value.(*handle)
		h.refs++
		r.recent.MoveToFront(e)
		return h, nil
	}
	f, err := r.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	h := &handle{name: name, f: f, refs: 1}
	r.open[name] = r.recent.PushFront(h)
	for r.recent.Len() > r.limit {
		r.evict(r.recent.Back())
	}
	return h, nil
}

func (r *readers) release(h *handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.refs--; h.refs == 0 && h.gone {
		_ = h.f.Close() // opened for reading: nothing is lost
	}
}

func (r *readers) evict(e *list.Element) {
	h := e.Value.(*handle)
	r.recent.Remove(e)
	delete(r.open, h.name)
	if h.gone = true; h.refs == 0 {
		_ = h.f.Close()
	}
}

// forget closes the file's handle; the next reader opens the name anew.
func (r *readers) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.open[name]; e != nil {
		r.evict(e)
	}
}

func (r *readers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for r.recent.Len() > 0 {
		r.evict(r.recent.Back())
	}
}

// readAt fills p from the named file. A file that ends early gives io.ErrUnexpectedEOF.
func (r *readers) readAt(name string, p []byte, off int64) error {
	h, err := r.acquire(name)
	if err != nil {
		return err
	}
	defer r.release(h)
	n, err := h.f.ReadAt(p, off)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %d bytes of %s at %d: %w", len(p), name, off, err)
}
