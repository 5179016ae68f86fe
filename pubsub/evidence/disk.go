package evidence

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/syndtr/goleveldb/leveldb"
	lerrors "github.com/syndtr/goleveldb/leveldb/errors"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"github.com/syndtr/goleveldb/leveldb/storage"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/aside"
	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
)

// patient is a storage whose writes wait while the disk is full. goleveldb never writes to a journal or manifest again
// that it failed to write to once, so that a disk that was full for a moment would end all evidence until a restart.
type patient struct {
	storage.Storage
	log  *zap.Logger
	wait time.Duration
	on   atomic.Bool // not while the database is opened: that is to fail
	quit func()
	stop chan struct{}
}

func newPatient(s storage.Storage, log *zap.Logger) *patient {
	p := &patient{Storage: s, log: log, wait: retryLeast, stop: make(chan struct{})}
	p.quit = sync.OnceFunc(func() { close(p.stop) })
	return p
}

// Create implements storage.Storage.
func (p *patient) Create(fd storage.FileDesc) (storage.Writer, error) {
	w, err := p.Storage.Create(fd)
	if err != nil {
		return nil, err
	}
	return &patientWriter{Writer: w, p: p}, nil
}

type patientWriter struct {
	storage.Writer
	p *patient
}

// Write goes on where a full disk stopped it, once there is room.
func (w *patientWriter) Write(b []byte) (n int, err error) {
	for told := false; ; told = true {
		m, err := w.Writer.Write(b[n:])
		n += m
		if err == nil || !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) || !w.p.on.Load() {
			return n, err
		}
		if !told {
			w.p.log.Error("the disk is full: evidence waits; make room", zap.Error(err))
		}
		t := time.NewTimer(w.p.wait)
		select {
		case <-t.C:
		case <-w.p.stop:
			t.Stop()
			return n, err
		}
	}
}

// database is the database of evidence. It is closed once.
type database struct {
	*leveldb.DB
	disk *patient
}

// Close implements io.Closer.
func (d *database) Close() error {
	d.disk.quit()
	return errors.Join(d.DB.Close(), d.disk.Storage.Close())
}

// keepDatabase keeps a copy of the database's folder beside it.
func keepDatabase(dir string, now time.Time) (to string, err error) {
	to, err = aside.KeepFolder(vfs.OS(filepath.Dir(dir), vfs.Private), filepath.Base(dir), maxDamagedDatabases, now)
	return filepath.Join(filepath.Dir(dir), to), err
}

// openDatabase opens the database in a folder.
func openDatabase(dir string, log *zap.Logger) (*database, error) {
	if err := format.StampFolder(dir, format.Evidence, vfs.Private); err != nil {
		return nil, fmt.Errorf("open the database of evidence: %w", err)
	}
	s, err := storage.OpenFile(dir, false)
	if err == nil {
		var d *database
		if d, err = openOn(s, dir, log); err == nil {
			return d, nil
		}
		err = errors.Join(err, s.Close())
	}
	return nil, fmt.Errorf("open the database of evidence in %s: %w", dir, err)
}

// openOn opens the database on a storage. Of a damaged one the folder is kept before it is repaired: the repair drops what
// it cannot read. dir is "" for a storage that lies in none.
func openOn(s storage.Storage, dir string, log *zap.Logger) (*database, error) {
	p := newPatient(s, log)
	db, err := leveldb.Open(p, &opt.Options{BlockCacheCapacity: 8 << 20, WriteBuffer: 4 << 20})
	if lerrors.IsCorrupted(err) {
		to, keepErr := "", error(nil)
		if dir != "" {
			to, keepErr = keepDatabase(dir, time.Now())
		}
		if keepErr != nil {
			return nil, errors.Join(err, keepErr)
		}
		log.Warn("the database of evidence is damaged and is repaired; a copy of it as it was is set aside", zap.String("file", dir), zap.String("to", to), zap.Error(err))
		db, err = leveldb.Recover(p, nil)
	}
	if err != nil {
		return nil, err
	}
	p.on.Store(true)
	return &database{DB: db, disk: p}, nil
}

// of binds the database to a chain. What another chain counted, proved and numbered means nothing on this one.
func (d *database) of(chain common.Hash) error {
	was, err := d.Get([]byte{keyChain}, nil)
	switch {
	case errors.Is(err, leveldb.ErrNotFound):
		return d.Put([]byte{keyChain}, chain[:], &opt.WriteOptions{Sync: true})
	case err == nil && common.BytesToHash(was) != chain:
		return fmt.Errorf("the broker's folder is of the chain with genesis %x, this is %s: give it another folder, or move the old one away", was, chain)
	}
	return err
}
