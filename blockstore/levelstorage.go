package blockstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/syndtr/goleveldb/leveldb/storage"

	"github.com/bornode/bornode/internal/vfs"
)

// levelStorage is goleveldb's storage on an FS, with the usual file names. It keeps three promises that goleveldb
// needs for "synced means durable" and does not see to itself:
//
//   - the first Sync of a new file also syncs its directory, so the file cannot vanish;
//   - a journal is synced when goleveldb closes it to go on with the next one, so journals survive as a prefix: no
//     later write is durable while an earlier one is lost;
//   - after a failed write everything fails (gate).
type levelStorage struct {
	fs   vfs.FS
	dir  string
	gate *gate

	retired  atomic.Bool // the files belong to another database now, or lie elsewhere: nothing is changed any more
	unlisted atomic.Bool // goleveldb has passed over damage in the list of tables: entries may be lost

	mu     sync.Mutex
	locked bool
}

func newLevelStorage(fs vfs.FS, dir string, g *gate) (*levelStorage, error) {
	if err := fs.Mkdir(dir); err != nil {
		return nil, fmt.Errorf("create %s: %w", dir, err)
	}
	return &levelStorage{fs: fs, dir: dir, gate: g}, nil
}

const levelCurrent = "CURRENT"

func (l *levelStorage) name(fd storage.FileDesc) string { return l.dir + "/" + fd.String() }

// parseLevelName reads the names of storage.FileDesc.String.
func parseLevelName(name string) (fd storage.FileDesc, ok bool) {
	num, kind := "", storage.FileType(0)
	if rest, found := strings.CutPrefix(name, "MANIFEST-"); found {
		num, kind = rest, storage.TypeManifest
	} else if base, ext, found := strings.Cut(name, "."); found {
		num = base
		switch ext {
		case "log":
			kind = storage.TypeJournal
		case "ldb":
			kind = storage.TypeTable
		case "tmp":
			kind = storage.TypeTemp
		}
	}
	n, err := strconv.ParseInt(num, 10, 64)
	fd = storage.FileDesc{Type: kind, Num: n}
	return fd, err == nil && storage.FileDescOk(fd) && fd.String() == name
}

type levelLock struct {
	l    *levelStorage
	once sync.Once
}

func (k *levelLock) Unlock() {
	k.once.Do(func() {
		k.l.mu.Lock()
		k.l.locked = false
		k.l.mu.Unlock()
	})
}

// Lock guards against a second use inside the process; the store's own lock file keeps other processes out.
func (l *levelStorage) Lock() (storage.Locker, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.locked {
		return nil, storage.ErrLocked
	}
	l.locked = true
	return &levelLock{l: l}, nil
}

// Log looks for what goleveldb tells in no other way: that it has passed over damaged parts of the list of tables when it
// opened the database. Journals are read before (marksDoubtful): what was not synced may be torn without damage.
func (l *levelStorage) Log(line string) {
	if strings.Contains(line, "journal@drop manifest") {
		l.unlisted.Store(true)
	}
}

func (l *levelStorage) SetMeta(fd storage.FileDesc) error {
	if !storage.FileDescOk(fd) {
		return storage.ErrInvalidFile
	}
	if err := l.gate.check(); err != nil {
		return err
	}
	err := vfs.ReplaceFile(l.fs, l.dir+"/"+levelCurrent, []byte(fd.String()+"\n"))
	if err != nil {
		return l.gate.fail("write "+l.dir+"/"+levelCurrent, err)
	}
	return nil
}

func (l *levelStorage) GetMeta() (storage.FileDesc, error) {
	f, err := l.fs.Open(l.dir+"/"+levelCurrent, os.O_RDONLY)
	if err != nil {
		return storage.FileDesc{}, err
	}
	defer f.Close()
	b := make([]byte, 64)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return storage.FileDesc{}, err
	}
	fd, ok := parseLevelName(strings.TrimSuffix(string(b[:n]), "\n"))
	if !ok || fd.Type != storage.TypeManifest {
		return storage.FileDesc{}, &storage.ErrCorrupted{Err: fmt.Errorf("%s/%s holds %q", l.dir, levelCurrent, b[:n])}
	}
	return fd, nil
}

func (l *levelStorage) List(ft storage.FileType) ([]storage.FileDesc, error) {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return nil, err
	}
	var fds []storage.FileDesc
	for _, name := range names {
		if fd, ok := parseLevelName(name); ok && fd.Type&ft != 0 {
			fds = append(fds, fd)
		}
	}
	return fds, nil
}

// checkTableFooter refuses a table whose footer, which has no checksum, names places that are not in the file: goleveldb would take memory for
// whatever it says.
func checkTableFooter(f vfs.File, size int64, fd storage.FileDesc) error {
	const footerBytes, trailerBytes = 48, 5 // of the table; of a block
	b := make([]byte, footerBytes)
	if size < footerBytes {
		return &storage.ErrCorrupted{Fd: fd, Err: fmt.Errorf("the table has %d bytes", size)}
	}
	if _, err := f.ReadAt(b, size-footerBytes); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for range 2 { // of the block of filters and of the index: offset, length
		var place [2]uint64
		for i := range place {
			x, n := binary.Uvarint(b)
			if n <= 0 || x > uint64(size) {
				return &storage.ErrCorrupted{Fd: fd, Err: errors.New("the footer of the table is damaged")}
			}
			place[i], b = x, b[n:]
		}
		if place[0]+place[1]+trailerBytes > uint64(size)-footerBytes {
			return &storage.ErrCorrupted{Fd: fd, Err: errors.New("the footer of the table is damaged")}
		}
	}
	return nil
}

type levelReader struct {
	*io.SectionReader
	f vfs.File
}

func (r levelReader) Close() error { return r.f.Close() }

func (l *levelStorage) Open(fd storage.FileDesc) (storage.Reader, error) {
	if !storage.FileDescOk(fd) {
		return nil, storage.ErrInvalidFile
	}
	f, err := l.fs.Open(l.name(fd), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	if err == nil && fd.Type == storage.TypeTable {
		err = checkTableFooter(f, size, fd)
	}
	if err != nil {
		_ = f.Close()   // was only read
		return nil, err // as it is: goleveldb knows damage by the error's type
	}
	return levelReader{io.NewSectionReader(f, 0, size), f}, nil
}

func (l *levelStorage) Create(fd storage.FileDesc) (storage.Writer, error) {
	if !storage.FileDescOk(fd) {
		return nil, storage.ErrInvalidFile
	}
	if err := l.gate.check(); err != nil {
		return nil, err
	}
	if l.retired.Load() {
		return nil, storage.ErrClosed
	}
	f, err := l.fs.Open(l.name(fd), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return nil, l.gate.fail("create "+l.name(fd), err)
	}
	return &levelWriter{l: l, f: f, name: l.name(fd), syncOnClose: fd.Type == storage.TypeJournal}, nil
}

func (l *levelStorage) Remove(fd storage.FileDesc) error {
	if !storage.FileDescOk(fd) {
		return storage.ErrInvalidFile
	}
	if err := l.gate.check(); err != nil {
		return err
	}
	if l.retired.Load() {
		return storage.ErrClosed
	}
	return l.fs.Remove(l.name(fd))
}

func (l *levelStorage) Rename(from, to storage.FileDesc) error {
	if !storage.FileDescOk(from) || !storage.FileDescOk(to) {
		return storage.ErrInvalidFile
	}
	if from == to {
		return nil
	}
	if err := l.gate.check(); err != nil {
		return err
	}
	if err := l.fs.Rename(l.name(from), l.name(to)); err != nil {
		return l.gate.fail("rename "+l.name(from), err)
	}
	return nil
}

func (l *levelStorage) Close() error { return nil }

// levelWriter appends. goleveldb uses one writer from one goroutine at a time.
type levelWriter struct {
	l           *levelStorage
	f           vfs.File
	name        string
	size        int64
	dirty       bool // written since the last sync
	named       bool // the directory entry is durable
	syncOnClose bool
}

func (w *levelWriter) Write(p []byte) (int, error) {
	if err := w.l.gate.check(); err != nil {
		return 0, err
	}
	n, err := w.f.WriteAt(p, w.size)
	w.size += int64(n)
	w.dirty = true
	if err != nil {
		return n, w.l.gate.fail("write "+w.name, err)
	}
	return n, nil
}

func (w *levelWriter) Sync() error {
	if err := w.l.gate.check(); err != nil {
		return err
	}
	err := w.f.Sync()
	if err == nil && !w.named {
		err = w.l.fs.SyncDir(w.l.dir)
	}
	if err != nil {
		return w.l.gate.fail("sync "+w.name, err)
	}
	w.dirty, w.named = false, true
	return nil
}

func (w *levelWriter) Close() error {
	var err error
	if w.syncOnClose && w.dirty {
		err = w.Sync()
	}
	return errors.Join(err, w.f.Close())
}
