package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// NewOverlay is an FS that shows another one and keeps every change in memory: whoever opens a store over it can recover
// it as a start would and sees what a start would do, while not one byte of the files below changes. Tools that look at a
// store use it. Changes of more than maxOverlayBytes fail.
func NewOverlay(base FS) FS {
	return &overlay{base: base, files: make(map[string]*overlayInode), dirs: make(map[string]bool)}
}

// overlay is NewOverlay's FS.
type overlay struct {
	base FS

	mu    sync.Mutex
	files map[string]*overlayInode // nil: removed
	dirs  map[string]bool          // made here; false: renamed away
	bytes int64                    // of all pages
}

// overlayInode is a file as the overlay shows it: pages that were written over a prefix of a file below. A file that
// was never written has no pages.
type overlayInode struct {
	below string // name of the file below, empty if there is none
	limit int64  // bytes of it that count
	size  int64
	pages map[int64][]byte // by offset/overlayPage
}

// inode finds a file. The caller holds mu.
func (o *overlay) inode(name string) (*overlayInode, error) {
	name = path.Clean(name)
	if n, ok := o.files[name]; ok {
		if n == nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
		}
		return n, nil
	}
	if gone, ok := o.dirs[path.Dir(name)]; ok && !gone {
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
	}
	f, err := o.base.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	n := &overlayInode{below: name, limit: size, size: size, pages: make(map[int64][]byte)}
	o.files[name] = n
	return n, nil
}

// Open implements FS.
func (o *overlay) Open(name string, flag int) (File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.inode(name)
	switch {
	case err == nil && flag&os.O_EXCL != 0:
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrExist}
	case err == nil && flag&os.O_TRUNC != 0:
		o.truncate(n, 0)
	case os.IsNotExist(err) && flag&os.O_CREATE != 0:
		n = &overlayInode{pages: make(map[int64][]byte)}
		o.files[path.Clean(name)] = n
	case err != nil:
		return nil, err
	}
	f := &overlayFile{o: o, n: n}
	if n.below != "" {
		if f.below, err = o.base.Open(n.below, os.O_RDONLY); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// truncate changes the size. The caller holds mu.
func (o *overlay) truncate(n *overlayInode, size int64) {
	if size < n.size {
		for at, p := range n.pages {
			if start := at * overlayPage; start >= size {
				delete(n.pages, at)
				o.bytes -= overlayPage
			} else if start+overlayPage > size {
				clear(p[size-start:])
			}
		}
		n.limit = min(n.limit, size)
	}
	n.size = size
}

// Remove implements FS.
func (o *overlay) Remove(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.inode(name)
	if err != nil {
		return err
	}
	o.files[path.Clean(name)] = nil
	for _, other := range o.files {
		if other == n { // it has a second name
			return nil
		}
	}
	o.bytes -= int64(len(n.pages)) * overlayPage
	return nil
}

// Rename implements FS, for files and for folders that hold files alone.
func (o *overlay) Rename(from, to string) error {
	from, to = path.Clean(from), path.Clean(to)
	names, err := o.List(from)
	if err != nil || len(names) == 0 { // no folder, or nothing in it
		o.mu.Lock()
		defer o.mu.Unlock()
		n, err := o.inode(from)
		if err == nil && o.files[to] != n { // POSIX: two names of one file stay
			o.files[from], o.files[to] = nil, n
		}
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, name := range names {
		n, err := o.inode(path.Join(from, name))
		if err != nil {
			return err
		}
		o.files[path.Join(from, name)], o.files[path.Join(to, name)] = nil, n
	}
	o.dirs[from], o.dirs[to] = false, true
	return nil
}

// Link implements FS.
func (o *overlay) Link(from, to string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.inode(from)
	if err != nil {
		return err
	}
	if _, err := o.inode(to); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(err, &os.PathError{Op: "link", Path: to, Err: os.ErrExist})
	}
	o.files[path.Clean(to)] = n
	return nil
}

// Modified implements FS. What was changed here was changed now.
func (o *overlay) Modified(name string) (time.Time, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, err := o.inode(name)
	if err != nil {
		return time.Time{}, err
	}
	if n.below == "" || len(n.pages) > 0 {
		return time.Now(), nil
	}
	return o.base.Modified(n.below)
}

// List implements FS.
func (o *overlay) List(dir string) ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	dir = path.Clean(dir)
	seen := make(map[string]bool)
	if there, changed := o.dirs[dir]; !changed || there {
		names, err := o.base.List(dir)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			seen[name] = true
		}
	}
	for name := range seen {
		if n, ok := o.files[path.Join(dir, name)]; ok && n == nil || o.hasLeft(path.Join(dir, name)) {
			delete(seen, name)
		}
	}
	below := dir + "/"
	if dir == "." {
		below = ""
	}
	for name, n := range o.files {
		if rest, ok := strings.CutPrefix(name, below); ok && n != nil {
			first, _, _ := strings.Cut(rest, "/")
			seen[first] = true
		}
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// hasLeft reports whether a directory was renamed away. The caller holds mu.
func (o *overlay) hasLeft(dir string) bool {
	there, changed := o.dirs[dir]
	return changed && !there
}

// Mkdir implements FS.
func (o *overlay) Mkdir(dir string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.hasLeft(path.Clean(dir)) {
		o.dirs[path.Clean(dir)] = true
	}
	return nil
}

// SyncDir implements FS.
func (o *overlay) SyncDir(string) error { return nil }

// Lock implements FS. It takes the lock below if that exists: a process that uses the store has made it.
func (o *overlay) Lock(name string) (io.Closer, error) {
	f, err := o.base.Open(name, os.O_RDONLY)
	if os.IsNotExist(err) {
		return io.NopCloser(nil), nil
	}
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return o.base.Lock(name)
}

// overlayFile is an open file of an overlay.
type overlayFile struct {
	o     *overlay
	n     *overlayInode
	below File // nil: the overlay's alone
}

// IsSameFile is for SameFile.
func (f *overlayFile) IsSameFile(other File) bool {
	o, ok := other.(*overlayFile)
	return !ok || f.n == o.n
}

func (f *overlayFile) ReadAt(p []byte, off int64) (int, error) {
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	if off >= f.n.size {
		return 0, io.EOF
	}
	want := int64(len(p))
	p = p[:min(want, f.n.size-off)]
	if err := f.readBelow(p, off); err != nil {
		return 0, err
	}
	if len(f.n.pages) > 0 {
		for at := off / overlayPage; at*overlayPage < off+int64(len(p)); at++ {
			if page := f.n.pages[at]; page != nil {
				start := at * overlayPage
				copy(p[max(start-off, 0):], page[max(off-start, 0):])
			}
		}
	}
	if int64(len(p)) < want {
		return len(p), io.EOF
	}
	return len(p), nil
}

// readBelow fills p from the file below, with zeros where that does not reach.
func (f *overlayFile) readBelow(p []byte, off int64) error {
	clear(p)
	if f.below == nil || off >= f.n.limit {
		return nil
	}
	_, err := f.below.ReadAt(p[:min(int64(len(p)), f.n.limit-off)], off)
	if err == io.EOF {
		err = nil
	}
	return err
}

func (f *overlayFile) WriteAt(p []byte, off int64) (int, error) {
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	for done := int64(0); done < int64(len(p)); {
		at := (off + done) / overlayPage
		page := f.n.pages[at]
		if page == nil {
			if f.o.bytes+overlayPage > maxOverlayBytes {
				return int(done), fmt.Errorf("looking at the store takes more than %d MiB of changes in memory: use bornode fsck --repair, which writes them to the disk", maxOverlayBytes>>20)
			}
			page = make([]byte, overlayPage)
			if err := f.readBelow(page, at*overlayPage); err != nil {
				return int(done), err
			}
			f.n.pages[at] = page
			f.o.bytes += overlayPage
		}
		done += int64(copy(page[off+done-at*overlayPage:], p[done:]))
	}
	f.n.size = max(f.n.size, off+int64(len(p)))
	return len(p), nil
}

func (f *overlayFile) Truncate(size int64) error {
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	f.o.truncate(f.n, size)
	return nil
}

func (f *overlayFile) Size() (int64, error) {
	f.o.mu.Lock()
	defer f.o.mu.Unlock()
	return f.n.size, nil
}

func (f *overlayFile) Sync() error { return nil }

func (f *overlayFile) Close() error {
	if f.below != nil {
		return f.below.Close()
	}
	return nil
}
