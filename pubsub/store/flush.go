package store

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/internal/vfs"
)

// flusher makes records durable in groups: at once when somebody waits, and whatever came meanwhile with the next sync.
func (s *Store) flusher() {
	defer s.done.Done()
	var lazy, retry <-chan time.Time
	for {
		select {
		case <-s.wal.dirty:
			if lazy == nil && s.cfg.FsyncInterval > 0 {
				lazy = time.After(s.cfg.FsyncInterval)
				continue
			}
			if lazy != nil {
				continue
			}
		case <-s.wal.urgent:
		case <-lazy:
		case <-retry:
		case <-s.stop:
			s.fail = s.flush()
			return
		}
		lazy = nil
		err := s.flush()
		if err == nil {
			err = s.makeReserve()
		}
		if retry = nil; err != nil {
			retry = time.After(s.cfg.retry)
		}
	}
}

// flush writes and syncs everything that is pending.
func (s *Store) flush() error {
	for {
		p, ok := s.wal.pendingPart()
		if !ok {
			return nil
		}
		began := time.Now()
		reopen, err := s.write(p)
		if err != nil && isFull(err) && s.reserve {
			s.log.Warn("the disk of the topic store is full: the reserve is given up and no appends are taken until there is room", zap.Error(err))
			s.wal.refuse(ErrFull)
			if s.dropReserve() == nil {
				reopen, err = s.write(p)
			}
		}
		if err != nil {
			s.m.failures.Inc()
			err = s.failure(err)
			s.log.Error("records could not be made durable; nothing of them is acknowledged", zap.Uint32("segment", p.seg), zap.Error(err))
			s.wal.failed(err, reopen)
			return err
		}
		s.m.syncs.Inc()
		s.m.synced.Add(float64(p.to - p.from))
		s.m.syncSeconds.Observe(time.Since(began).Seconds())
		s.wal.done(p)
	}
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// failure is what callers get for a failed write.
func (s *Store) failure(err error) error {
	if isFull(err) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

// write makes a part durable. unsure: a sync failed, so that what the file holds behind the durable end is not known.
func (s *Store) write(p part) (unsure bool, err error) {
	name := logName(p.seg)
	defer func() {
		if err != nil && s.file != nil { // the next try begins with a new descriptor
			_ = s.file.Close()
			s.file = nil
		}
	}()
	if s.file == nil || s.fileSeg != p.seg {
		if err := s.openSegment(p); err != nil {
			return true, err
		}
	}
	failpoint.Hit("store.write.before")
	pos := int64(p.from)
	for _, b := range p.pieces {
		if err := vfs.WriteAll(s.file, b, pos); err != nil {
			return false, fmt.Errorf("write %s: %w", name, err)
		}
		pos += int64(len(b))
	}
	failpoint.Hit("store.sync.before")
	if err := s.file.Sync(); err != nil {
		return true, fmt.Errorf("sync %s: %w", name, err)
	}
	failpoint.Hit("store.sync.after")
	return false, nil
}

// openSegment opens the file of a part; a new one gets its durable header and name first.
func (s *Store) openSegment(p part) error {
	if s.file != nil {
		if err := s.file.Close(); err != nil {
			s.log.Warn("a full segment did not close well; its bytes are synced", zap.Uint32("segment", s.fileSeg), zap.Error(err))
		}
		s.file = nil
	}
	name, flag := logName(p.seg), os.O_RDWR|os.O_CREATE
	if p.from == 0 {
		flag |= os.O_TRUNC
	}
	f, err := s.fs.Open(name, flag)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	s.file, s.fileSeg = f, p.seg
	if p.from > 0 {
		return nil
	}
	failpoint.Hit("store.create.before")
	if err = vfs.WriteAll(f, p.pieces[0][:segmentHeaderBytes], 0); err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = s.fs.SyncDir(".")
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	failpoint.Hit("store.create.after")
	return nil
}

// makeReserve makes the reserve file if it is not there and takes appends again.
func (s *Store) makeReserve() error {
	if !s.reserve && s.cfg.ReserveBytes > 0 {
		if err := s.writeReserve(); err != nil {
			_ = s.fs.Remove(reserveName) // a part of it is no reserve
			return err
		}
		s.reserve = true
	}
	if s.Writable() != nil {
		s.wal.mu.Lock()
		closed := s.wal.closed
		s.wal.mu.Unlock()
		if !closed {
			s.log.Info("the topic store writes again")
			s.wal.refuse(nil)
		}
	}
	return nil
}

func (s *Store) writeReserve() error {
	f, err := s.fs.Open(reserveName, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	size, err := f.Size()
	zeros := make([]byte, min(chunkBytes, s.cfg.ReserveBytes))
	for at := size; err == nil && at < s.cfg.ReserveBytes; at += int64(len(zeros)) {
		err = vfs.WriteAll(f, zeros, at)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// useReserve does what a start must write. On a full disk it gives up the reserve for that.
func (s *Store) useReserve(f func() error) error {
	err := f()
	if err == nil || !isFull(err) || s.dropReserve() != nil {
		return err
	}
	s.log.Warn("the disk of the topic store is full: the reserve is given up for what the start must write", zap.Error(err))
	return f()
}

func (s *Store) dropReserve() error {
	s.reserve = false
	if err := s.fs.Remove(reserveName); err != nil {
		return err
	}
	return s.fs.SyncDir(".")
}
