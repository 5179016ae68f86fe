package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// FS is the file system below the store: one flat directory; names are base names. All methods may be called
// concurrently. Contents are durable after File.Sync, names (created, renamed, removed) after SyncDir(".").
type FS interface {
	Open(name string, flag int) (File, error) // os.O_RDONLY, or os.O_RDWR with os.O_CREATE and os.O_TRUNC
	Remove(name string) error
	Rename(from, to string) error
	Link(from, to string) error // a second name for the same file
	List(dir string) ([]string, error)
	Modified(name string) (time.Time, error) // when the contents were changed last
	Mkdir(dir string) error                  // with parents; fine if it exists
	SyncDir(dir string) error
	Lock(name string) (io.Closer, error) // exclusive between processes, until closed
}

// File is an open file. ReadAt may be called concurrently with everything.
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
}

// OS is the operating system's file system below root.
func OS(root string) FS { return osFS{root} }

type osFS struct{ root string }

type osFile struct{ *os.File }

func (f osFile) Sync() error { return syncData(f.File) }

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (o osFS) Open(name string, flag int) (File, error) {
	f, err := os.OpenFile(filepath.Join(o.root, name), flag, 0o640)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (o osFS) Remove(name string) error { return os.Remove(filepath.Join(o.root, name)) }

func (o osFS) Rename(from, to string) error {
	return os.Rename(filepath.Join(o.root, from), filepath.Join(o.root, to))
}

func (o osFS) Link(from, to string) error {
	return os.Link(filepath.Join(o.root, from), filepath.Join(o.root, to))
}

func (o osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(o.root, dir))
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (o osFS) Modified(name string) (time.Time, error) {
	st, err := os.Stat(filepath.Join(o.root, name))
	if err != nil {
		return time.Time{}, err
	}
	return st.ModTime(), nil
}

func (o osFS) Mkdir(dir string) error { return os.MkdirAll(filepath.Join(o.root, dir), 0o750) }

func (o osFS) SyncDir(dir string) error {
	d, err := os.Open(filepath.Join(o.root, dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (o osFS) Lock(name string) (io.Closer, error) {
	l := flock.New(filepath.Join(o.root, name))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", l.Path(), err)
	}
	if !ok {
		return nil, fmt.Errorf("%s is locked: another process uses this topic store; stop it first", l.Path())
	}
	return l, nil
}
