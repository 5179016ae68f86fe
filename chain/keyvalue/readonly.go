package keyvalue

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// errReadOnly answers whatever would change a file of a store that is only looked at.
var errReadOnly = errors.New("the store is opened to look at it, and nothing of it is changed")

// OpenReadOnly opens the store in a folder without changing a byte of it, also where the disk takes no writes. What a
// crash left in the write-ahead log is read into memory. Writes fail. Damage is told to Options.Fail once, and is the
// error of the call that met it. The caller keeps other processes off the folder: no lock is taken.
func OpenReadOnly(dir string, o Options) (*Store, error) {
	var once sync.Once
	s := &Store{}
	s.fail = func(file string, err error) {
		if o.Fail != nil {
			once.Do(func() { o.Fail(file, err) })
		}
	}
	opt := s.options(o)
	opt.ReadOnly, opt.FS = true, unchanging{vfs.Default}
	db, err := openPebble(dir, opt)
	if err != nil {
		return nil, err
	}
	s.db = db
	if err := s.findOrder(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// unchanging is a file system of which nothing changes. The lock is none, so that no lock file is made.
type unchanging struct{ vfs.FS }

var _ vfs.FS = unchanging{}

func refuse(op, name string) error { return fmt.Errorf("%s %s: %w", op, name, errReadOnly) }

func (unchanging) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuse("create", name)
}

func (unchanging) Link(_, name string) error { return refuse("link", name) }

func (unchanging) OpenReadWrite(name string, _ vfs.DiskWriteCategory, _ ...vfs.OpenOption) (vfs.File, error) {
	return nil, refuse("open for writing", name)
}

func (unchanging) Remove(name string) error    { return refuse("remove", name) }
func (unchanging) RemoveAll(name string) error { return refuse("remove", name) }

func (unchanging) Rename(from, _ string) error { return refuse("rename", from) }

func (unchanging) ReuseForWrite(_, name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, refuse("reuse", name)
}

func (unchanging) MkdirAll(dir string, _ os.FileMode) error { return refuse("make folder", dir) }

func (unchanging) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }
