package blockstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
)

// FS is the file system below the store; names are slash-separated and relative to the store's directory. All methods
// may be called concurrently. Durability is that of POSIX: file contents are durable after File.Sync, names (created,
// renamed, removed) after SyncDir of their directory.
type FS interface {
	Open(name string, flag int) (File, error) // os.O_RDONLY, or os.O_RDWR with os.O_CREATE and os.O_TRUNC
	Remove(name string) error
	Rename(from, to string) error      // atomic; of a file or a directory, also into another directory
	List(dir string) ([]string, error) // base names; an absent directory is empty
	Mkdir(dir string) error            // with parents; fine if it exists; durable when it returns
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

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

func (o osFS) path(name string) string { return filepath.Join(o.root, filepath.FromSlash(name)) }

func (o osFS) Open(name string, flag int) (File, error) {
	f, err := os.OpenFile(o.path(name), flag, 0o640)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (o osFS) Remove(name string) error     { return os.Remove(o.path(name)) }
func (o osFS) Rename(from, to string) error { return os.Rename(o.path(from), o.path(to)) }

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

func (o osFS) Mkdir(dir string) error {
	if err := os.MkdirAll(o.path(dir), 0o750); err != nil {
		return err
	}
	return o.SyncDir(filepath.Dir(dir))
}

func (o osFS) SyncDir(dir string) error {
	d, err := os.Open(o.path(dir))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (o osFS) Lock(name string) (io.Closer, error) {
	l := flock.New(o.path(name))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", o.path(name), err)
	}
	if !ok {
		return nil, fmt.Errorf("%s is locked: another process uses this block store; stop it first", o.path(name))
	}
	return l, nil
}
