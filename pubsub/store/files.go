package store

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

const (
	lockName    = "LOCK"
	reserveName = "RESERVE"
	logSuffix   = ".log"
	indexSuffix = ".idx"
	snapSuffix  = ".snap"
	tempSuffix  = ".tmp"
)

func logName(seg uint32) string   { return fmt.Sprintf("%08d%s", seg, logSuffix) }
func indexName(seg uint32) string { return fmt.Sprintf("%08d%s", seg, indexSuffix) }
func snapName(seg uint32) string  { return fmt.Sprintf("%08d%s", seg, snapSuffix) }

// numberOf reads the segment number of a file with the suffix.
func numberOf(name, suffix string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) < 8 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil && n > 0 && fmt.Sprintf("%08d", n) == digits //nolint:gosec // parsed as 32 bits
}

// readers keeps some files open for reading. A file in use stays open until its last user is done, also when it was let
// go or removed.
type readers struct {
	fs FS

	mu     sync.Mutex
	open   map[string]*list.Element // of *handle
	recent list.List                // front: used last
}

type handle struct {
	name string
	f    File
	uses int
	gone bool
}

func newReaders(fs FS) *readers { return &readers{fs: fs, open: make(map[string]*list.Element)} }

func (r *readers) acquire(name string) (*handle, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.open[name]; e != nil {
		r.recent.MoveToFront(e)
		h := e.Value.(*handle)
		h.uses++
		return h, nil
	}
	f, err := r.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	h := &handle{name: name, f: f, uses: 1}
	r.open[name] = r.recent.PushFront(h)
	for r.recent.Len() > maxOpenFiles {
		r.drop(r.recent.Back())
	}
	return h, nil
}

func (r *readers) release(h *handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h.uses--; h.gone && h.uses == 0 {
		_ = h.f.Close() // was only read
	}
}

func (r *readers) drop(e *list.Element) {
	h := e.Value.(*handle)
	r.recent.Remove(e)
	delete(r.open, h.name)
	if h.gone = true; h.uses == 0 {
		_ = h.f.Close()
	}
}

// forget makes the next reader open the name anew.
func (r *readers) forget(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.open[name]; e != nil {
		r.drop(e)
	}
}

func (r *readers) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.recent.Len() > 0 {
		r.drop(r.recent.Back())
	}
}

// readAt fills p. A file that ends before is damaged.
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
		return damaged(name, off+int64(n), "the file ends here")
	}
	return fmt.Errorf("read %s at %d: %w", name, off, err)
}

// writeFile makes a file durable under its name, whole or not at all; the caller syncs the directory.
func writeFile(fs FS, name string, data []byte) error {
	temp := name + tempSuffix
	f, err := fs.Open(temp, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return fmt.Errorf("create %s: %w", temp, err)
	}
	err = writeAll(f, data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fs.Rename(temp, name)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func writeAll(f File, data []byte, off int64) error {
	n, err := f.WriteAt(data, off)
	if err == nil && n != len(data) {
		err = io.ErrShortWrite
	}
	return err
}

// readFile reads a whole file of at most limit bytes.
func readFile(fs FS, name string, limit int64) ([]byte, error) {
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // was only read
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", name, size, limit)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}
	return b, nil
}
