package store

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/bornode/bornode/internal/vfs"
)

// closedName is the file that says where the log ended when the store was closed; it is there only while the store is not
// open. The end of a log that is cut short looks like one that was never written: this tells them apart.
//
//	magic 8 | segment u32 | position u32 | crc32c u32 of the 16 bytes before
const (
	closedName  = "CLOSED"
	closedMagic = "BORNCLSD"
	closedBytes = 20
)

// saveClosed writes down where the log ends, all of which is durable.
func (s *Store) saveClosed() error {
	end := s.wal.end()
	if s.wal.durableMark() < end {
		return nil
	}
	b := append(make([]byte, 0, closedBytes), closedMagic...)
	b = be.AppendUint32(be.AppendUint32(b, end.segment()), end.end())
	b = be.AppendUint32(b, crc32.Checksum(b, castagnoli))
	return vfs.ReplaceFile(s.fs, closedName, b)
}

// checkClosed compares the log that was found with what the file says. One that is damaged says nothing.
func (s *Store) checkClosed() error {
	b, err := vfs.ReadFile(s.fs, closedName, closedBytes)
	if saysNothing(err) {
		return fmt.Errorf("read %s of the topic store: %w", closedName, err)
	}
	if err != nil || len(b) != closedBytes || string(b[:8]) != closedMagic || crc32.Checksum(b[:16], castagnoli) != be.Uint32(b[16:]) {
		return nil //nolint:nilerr // as after a crash
	}
	seg, pos := be.Uint32(b[8:]), be.Uint32(b[12:])
	if end := s.wal.end(); end >= markOf(seg, pos) || pos == segmentHeaderBytes && end.segment()+1 == seg {
		return nil
	}
	s.foundDamage(logName(seg), int64(s.wal.end().end()), fmt.Errorf("the log ended at byte %d of %s when the store was closed, and is shorter", pos, logName(seg)))
	return s.loseHistory()
}

// dropClosed is called before anything is appended.
func (s *Store) dropClosed() error {
	err := s.fs.Remove(closedName)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = s.fs.SyncDir(".")
	}
	if err != nil {
		return fmt.Errorf("remove %s of the topic store: %w", closedName, err)
	}
	return nil
}
