package faultfs

import (
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bornode/bornode/internal/vfs"
)

var _ vfs.FS = (*Disk)(nil)

// Open implements vfs.FS.
func (d *Disk) Open(name string, flag int) (vfs.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.alive(); err != nil {
		return nil, err
	}
	p, base, err := d.parent(name)
	if err != nil {
		return nil, err
	}
	f := p.now[base]
	if f != nil && flag&os.O_EXCL != 0 {
		return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrExist}
	}
	if f == nil {
		if flag&os.O_CREATE == 0 {
			return nil, &os.PathError{Op: "open", Path: name, Err: os.ErrNotExist}
		}
		if _, err := d.change(Create, name); err != nil {
			return nil, err
		}
		f = newInode(nil)
		p.set(base, f)
	} else if flag&os.O_TRUNC != 0 {
		if _, err := d.change(Truncate, name); err != nil {
			return nil, err
		}
		f.data, f.pending = nil, append(f.pending, write{})
	}
	return &file{d: d, f: f, name: name, writable: flag&os.O_RDWR != 0}, nil
}

// Remove implements vfs.FS.
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if folder := d.dirs[path.Clean(name)]; folder != nil { // goes at once and durably, as Mkdir makes it
		if len(folder.now) > 0 {
			return &os.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
		}
		if _, err := d.change(Remove, name); err != nil {
			return err
		}
		delete(d.dirs, path.Clean(name))
		return nil
	}
	p, base, err := d.parent(name)
	if err != nil {
		return err
	}
	if p.now[base] == nil {
		return &os.PathError{Op: "remove", Path: name, Err: os.ErrNotExist}
	}
	if _, err := d.change(Remove, name); err != nil {
		return err
	}
	p.set(base, nil)
	return nil
}

// Rename implements vfs.FS. Within one directory it is a change of names like any other. A directory, or a file
// that goes to another directory, moves at once and durably, as in the journal of a file system: never to both names
// or to none.
func (d *Disk) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dirs[path.Clean(from)] != nil {
		if _, err := d.change(Rename, from); err != nil {
			return err
		}
		d.moveDir(path.Clean(from), path.Clean(to))
		return nil
	}
	p, base, q, target, err := d.parents(from, to)
	if err != nil {
		return err
	}
	f := p.now[base]
	if f == nil {
		return &os.PathError{Op: "rename", Path: from, Err: os.ErrNotExist}
	}
	if _, err := d.change(Rename, from); err != nil || q.now[target] == f { // POSIX: two names of one file stay
		return err
	}
	if p != q {
		p.forget(base)
		q.forget(target)
		q.now[target], q.durable[target] = f, f
		return nil
	}
	p.set(target, f) // a crash between the two leaves both names, as a journaling file system may not; harmless
	p.set(base, nil)
	return nil
}

// moveDir gives a directory and those below it other names.
func (d *Disk) moveDir(from, to string) {
	for _, name := range sortedKeys(d.dirs) {
		if rest, below := strings.CutPrefix(name, from); below && (rest == "" || rest[0] == '/') {
			d.dirs[to+rest] = d.dirs[name]
			delete(d.dirs, name)
		}
	}
}

// Info is what Stat says of a name.
type Info struct {
	Number uint64 // two names with one number are one file
	Size   int64
	Dir    bool
}

// Stat describes a file or a directory.
func (d *Disk) Stat(name string) (Info, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.alive(); err != nil {
		return Info{}, err
	}
	if p := d.dirs[path.Clean(name)]; p != nil {
		return Info{Number: p.number, Dir: true}, nil
	}
	p, base, err := d.parent(name)
	if err != nil {
		return Info{}, err
	}
	f := p.now[base]
	if f == nil {
		return Info{}, &os.PathError{Op: "stat", Path: name, Err: os.ErrNotExist}
	}
	return Info{Number: f.number, Size: int64(len(f.data))}, nil
}

// RemoveDir removes an empty directory, at once and durably.
func (d *Disk) RemoveDir(name string) error {
	names, err := d.List(name)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		return &os.PathError{Op: "remove", Path: name, Err: syscall.ENOTEMPTY}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dirs[path.Clean(name)] == nil {
		return &os.PathError{Op: "remove", Path: name, Err: os.ErrNotExist}
	}
	delete(d.dirs, path.Clean(name))
	return nil
}

// Link implements vfs.FS, within one directory.
func (d *Disk) Link(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, base, q, target, err := d.parents(from, to)
	if err != nil {
		return err
	}
	f := p.now[base]
	if f == nil || p != q {
		return &os.PathError{Op: "link", Path: from, Err: os.ErrNotExist}
	}
	if p.now[target] != nil {
		return &os.PathError{Op: "link", Path: to, Err: os.ErrExist}
	}
	if _, err := d.change(Create, to); err != nil {
		return err
	}
	p.set(target, f)
	return nil
}

// Modified implements vfs.FS. The disk has no clock: all was changed at the beginning of Unix time.
func (d *Disk) Modified(name string) (time.Time, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, base, err := d.parent(name)
	if err == nil && p.now[base] == nil {
		err = &os.PathError{Op: "stat", Path: name, Err: os.ErrNotExist}
	}
	return time.Unix(0, 0), err
}

// List implements vfs.FS.
func (d *Disk) List(name string) ([]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.alive(); err != nil {
		return nil, err
	}
	name = path.Clean(name)
	names := make(map[string]bool)
	if p := d.dirs[name]; p != nil {
		for base := range p.now {
			names[base] = true
		}
	}
	below := name + "/"
	if name == "." {
		below = ""
	}
	for dir := range d.dirs { // those below, by their first part
		if rest, ok := strings.CutPrefix(dir, below); ok && dir != "." {
			first, _, _ := strings.Cut(rest, "/")
			names[first] = true
		}
	}
	return sortedKeys(names), nil
}

// Mkdir implements vfs.FS.
func (d *Disk) Mkdir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.alive(); err != nil {
		return err
	}
	if name = path.Clean(name); d.dirs[name] == nil {
		d.dirs[name] = newDir()
	}
	return nil
}

// SyncDir implements vfs.FS.
func (d *Disk) SyncDir(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.change(SyncDir, name); err != nil {
		return err
	}
	p := d.dirs[path.Clean(name)]
	if p == nil {
		return &os.PathError{Op: "sync", Path: name, Err: os.ErrNotExist}
	}
	p.pending = nil
	p.durable = make(map[string]*inode, len(p.now))
	for base, f := range p.now {
		p.durable[base] = f
	}
	return nil
}

type file struct {
	d        *Disk
	f        *inode
	name     string
	writable bool
	closed   bool
}

func (f *file) check(op string, write bool) error {
	if f.closed || write && !f.writable {
		return &os.PathError{Op: op, Path: f.name, Err: os.ErrClosed}
	}
	return f.d.alive()
}

// IsSameFile is for vfs.SameFile.
func (f *file) IsSameFile(other vfs.File) bool {
	o, ok := other.(*file)
	return !ok || f.f == o.f
}

func (f *file) ReadAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("read", false); err != nil {
		return 0, err
	}
	if off >= int64(len(f.f.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.f.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, off int64) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("write", true); err != nil {
		return 0, err
	}
	v, err := f.d.change(Write, f.name)
	if err != nil && (v.Crash || v.Err == nil) {
		return 0, err
	}
	if err != nil {
		p = p[:min(v.Short, len(p))]
	}
	if len(p) > 0 {
		f.f.apply(write{off, append([]byte(nil), p...)})
	}
	return len(p), err
}

// apply changes contents in place: readers hold no reference, they copy under the disk's lock.
func (n *inode) apply(w write) {
	if end := w.off + int64(len(w.data)); end > int64(len(n.data)) {
		n.data = resize(n.data, end)
	}
	copy(n.data[w.off:], w.data)
	n.pending = append(n.pending, w)
}

func (f *file) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("sync", false); err != nil {
		return err
	}
	if v, err := f.d.change(Sync, f.name); err != nil {
		if v.Lost && !v.Crash {
			f.f.pending = slices.DeleteFunc(f.f.pending, func(w write) bool { return w.data != nil }) // sizes are the journal's
		}
		return err
	}
	for _, w := range f.f.pending {
		if w.data == nil {
			f.f.durable = resize(f.f.durable, w.off)
			continue
		}
		if end := w.off + int64(len(w.data)); end > int64(len(f.f.durable)) {
			f.f.durable = resize(f.f.durable, end)
		}
		copy(f.f.durable[w.off:], w.data)
	}
	f.f.pending = nil
	return nil
}

func (f *file) Truncate(size int64) error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("truncate", true); err != nil {
		return err
	}
	if _, err := f.d.change(Truncate, f.name); err != nil {
		return err
	}
	f.f.data = resize(f.f.data, size)
	f.f.pending = append(f.f.pending, write{off: size})
	return nil
}

func (f *file) Size() (int64, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.check("stat", false); err != nil {
		return 0, err
	}
	return int64(len(f.f.data)), nil
}

func (f *file) Close() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if f.closed {
		return os.ErrClosed
	}
	f.closed = true
	return nil
}
