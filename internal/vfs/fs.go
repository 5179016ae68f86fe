package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// ErrLocked means that another process has the lock of a folder.
var ErrLocked = errors.New("another process uses this folder; stop it first")

// FS is a file system below one folder; names are slash-separated and relative to it. All methods may be called
// concurrently. Errors wrap those of package os (os.ErrNotExist, os.ErrExist) and the cause.
type FS interface {
	// Open opens a file: flag is os.O_RDONLY, or os.O_RDWR with os.O_CREATE, os.O_EXCL and os.O_TRUNC.
	Open(name string, flag int) (File, error)
	// Remove removes a name of a file, or an empty folder.
	Remove(name string) error
	// Rename is atomic; of a file or a folder, also into another folder.
	Rename(from, to string) error
	// Link gives a file a second name; os.ErrExist if that is taken.
	Link(from, to string) error
	// List is the base names in a folder; an absent folder is empty.
	List(dir string) ([]string, error)
	// Modified is when the contents of a file were changed last.
	Modified(name string) (time.Time, error)
	// Mkdir makes a folder with its parents, all durable when it returns; fine if it exists. "." is the root itself.
	Mkdir(dir string) error
	SyncDir(dir string) error
	// Lock locks a file, made if needed, against other processes until it is closed; ErrLocked if another has it.
	Lock(name string) (io.Closer, error)
}

// File is an open file. ReadAt may be called concurrently with everything.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	// Sync makes contents and size durable; times need not be.
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
}

// SameFile reports whether two open files of one file system are one file, whatever names it has. Files that cannot tell
// count as one.
func SameFile(a, b File) bool {
	t, ok := a.(interface{ IsSameFile(other File) bool })
	return !ok || t.IsSameFile(b)
}

// Modes of what a file system makes: Public for blocks and records, which other accounts of the machine may be given by
// group; Private for keys, votes and whatever else belongs to the node's account alone.
var (
	Public  = Modes{File: 0o640, Dir: 0o750}
	Private = Modes{File: 0o600, Dir: 0o700}
)

// Modes are the permissions of new files and folders.
type Modes struct{ File, Dir os.FileMode }

// OS is the operating system's file system below root.
func OS(root string, modes Modes) FS { return osFS{root, modes} }

type osFS struct {
	root  string
	modes Modes
}

type osFile struct{ *os.File }

func (f osFile) Sync() error { return syncData(f.File) }

func (f osFile) IsSameFile(other File) bool {
	o, ok := other.(osFile)
	if !ok {
		return true
	}
	a, err := f.Stat()
	b, otherErr := o.Stat()
	return err != nil || otherErr != nil || os.SameFile(a, b)
}

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (o osFS) path(name string) string { return filepath.Join(o.root, filepath.FromSlash(name)) }

func (o osFS) Open(name string, flag int) (File, error) {
	path := o.path(name)
	f, err := os.OpenFile(path, flag, o.modes.File)
	if err != nil {
		return nil, explainKind(path, err)
	}
	if err := refuseFolder(path, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return osFile{f}, nil
}

func (o osFS) Remove(name string) error     { return os.Remove(o.path(name)) }
func (o osFS) Rename(from, to string) error { return os.Rename(o.path(from), o.path(to)) }
func (o osFS) Link(from, to string) error   { return os.Link(o.path(from), o.path(to)) }

func (o osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(o.path(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (o osFS) Modified(name string) (time.Time, error) {
	st, err := os.Stat(o.path(name))
	if err != nil {
		return time.Time{}, err
	}
	return st.ModTime(), nil
}

func (o osFS) Mkdir(dir string) error { return makeFolder(o.path(dir), o.modes.Dir, SyncDirAt) }

// makeFolder makes a folder and what lacks above it, each durable in its parent: a power cut must not take a file away
// with its folder. The parent is synced also if the folder is there, since a power cut may have ended the start that made
// it before its sync.
func makeFolder(dir string, mode os.FileMode, sync func(string) error) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	toSync := []string{filepath.Dir(dir)}
	for at := filepath.Dir(dir); at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil {
			break
		}
		toSync = append(toSync, filepath.Dir(at))
	}
	_, err = os.Stat(dir)
	there := err == nil
	if err := os.MkdirAll(dir, mode); err != nil {
		return explainKind(dir, err)
	}
	for i := len(toSync) - 1; i >= 0; i-- {
		if err := sync(toSync[i]); err != nil && !(there && errors.Is(err, os.ErrPermission)) { // of a parent that belongs to others
			return err
		}
	}
	return nil
}

func (o osFS) SyncDir(dir string) error { return SyncDirAt(o.path(dir)) }

// SyncDirAt makes the names in the operating system's folder with this path durable.
func SyncDirAt(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (o osFS) Lock(name string) (io.Closer, error) {
	l := flock.New(o.path(name))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", l.Path(), err)
	}
	if !ok {
		return nil, fmt.Errorf("%s is locked: %w", l.Path(), ErrLocked)
	}
	return l, nil
}

// Path is where a file of an operating system's file system lies; false for any other.
func Path(fs FS, name string) (string, bool) {
	o, ok := fs.(osFS)
	if !ok {
		return "", false
	}
	return o.path(name), true
}
