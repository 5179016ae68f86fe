package vfs

import (
	"container/list"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// OpenFiles keeps some files of a file system open for reading, those used last. A file that is being read stays open
// until its last reader is done, also when it gave its place to another or was forgotten. Its methods may be called from
// any goroutine.
type OpenFiles struct {
	fs    FS
	limit int

	mu     sync.Mutex
	closed bool
	byName map[string]*list.Element // of *openFile
	recent list.List                // front: used last
}

type openFile struct {
	name    string
	file    File
	readers int
	evicted bool // its last reader closes it
}

// NewOpenFiles keeps at most limit files open that nobody reads.
func NewOpenFiles(fs FS, limit int) *OpenFiles {
	return &OpenFiles{fs: fs, limit: limit, byName: make(map[string]*list.Element)}
}

// ReadAt fills p from the named file and tells how many bytes it got. A file that ends before gives
// io.ErrUnexpectedEOF; after Close the error is os.ErrClosed.
func (o *OpenFiles) ReadAt(name string, p []byte, off int64) (int, error) {
	f, err := o.acquire(name)
	if err != nil {
		return 0, err
	}
	defer o.release(f)
	n, err := f.file.ReadAt(p, off)
	if n == len(p) {
		return n, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, fmt.Errorf("read %d bytes of %s at %d: %w", len(p), name, off, err)
}

// Forget makes the next reader open the name anew: the file was removed or replaced.
func (o *OpenFiles) Forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if e := o.byName[name]; e != nil {
		o.evict(e)
	}
}

// Close closes the files, those that are being read when that is done.
func (o *OpenFiles) Close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for o.recent.Len() > 0 {
		o.evict(o.recent.Back())
	}
}

func (o *OpenFiles) acquire(name string) (*openFile, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, os.ErrClosed
	}
	if e := o.byName[name]; e != nil {
		o.recent.MoveToFront(e)
		f := e.Value.(*openFile)
		f.readers++
		return f, nil
	}
	file, err := o.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	f := &openFile{name: name, file: file, readers: 1}
	o.byName[name] = o.recent.PushFront(f)
	for o.recent.Len() > o.limit {
		o.evict(o.recent.Back())
	}
	return f, nil
}

func (o *OpenFiles) release(f *openFile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f.readers--; f.readers == 0 && f.evicted {
		_ = f.file.Close() // it was only read: nothing is lost
	}
}

// evict gives a file's place away; o.mu is held.
func (o *OpenFiles) evict(e *list.Element) {
	f := e.Value.(*openFile)
	o.recent.Remove(e)
	delete(o.byName, f.name)
	if f.evicted = true; f.readers == 0 {
		_ = f.file.Close()
	}
}
