package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/bornode/bornode/internal/format"
)

const (
	lockName    = "LOCK"
	reserveName = "RESERVE"
	logSuffix   = ".log"
	indexSuffix = ".idx"
	snapSuffix  = ".snap"
)

func logName(seg uint32) string   { return fmt.Sprintf("%08d%s", seg, logSuffix) }
func indexName(seg uint32) string { return fmt.Sprintf("%08d%s", seg, indexSuffix) }
func snapName(seg uint32) string  { return fmt.Sprintf("%08d%s", seg, snapSuffix) }

// numberOf reads the segment number of a file with the suffix.
func numberOf(name, suffix string) (uint32, bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok || len(digits) < 8 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	return uint32(n), err == nil && n > 0 && fmt.Sprintf("%08d", n) == digits //nolint:gosec // parsed as 32 bits
}

// readAt fills p from the file of a segment or its index. A DamageError says that the disk does not give the bytes, after
// readTries tries: it fails, the file ends before, or it is lost. os.ErrNotExist: the segment was removed since the read
// was planned. Other errors say nothing of what is on the disk. The caller does not hold wal.mu.
func (s *Store) readAt(name string, p []byte, off int64) error {
	rebuilt := s.countRebuilds(name)
	n, err := s.files.ReadAt(name, p, off)
	switch {
	case err == nil, errors.Is(err, os.ErrClosed), saysNothing(err):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the file ends here")
	case errors.Is(err, os.ErrNotExist) && !s.isLostFile(name):
		return err
	}
	return &DamageError{File: name, Pos: off + int64(n), Cause: err, rebuilt: rebuilt}
}

// countRebuilds is how often the index file of that name was rebuilt; 0 for any other name. wal.mu is not held.
func (s *Store) countRebuilds(name string) int {
	seg, isIndex := numberOf(name, indexSuffix)
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	if g := s.segs[seg]; isIndex && g != nil {
		return g.rebuilt
	}
	return 0
}

// isLostFile tells, of a file that is not there, whether the store needs it and did not remove it: a segment is removed
// only when it has no run any more, and never gets one again. If the whole folder was taken away, no file is lost.
func (s *Store) isLostFile(name string) bool {
	seg, ok := numberOf(name, logSuffix)
	if !ok {
		seg, _ = numberOf(name, indexSuffix)
	}
	s.wal.mu.Lock()
	g := s.segs[seg]
	needed := g != nil && g.runs > 0
	s.wal.mu.Unlock()
	if !needed {
		return false
	}
	names, err := s.fs.List(".")
	return err == nil && slices.Contains(names, format.FileName)
}
