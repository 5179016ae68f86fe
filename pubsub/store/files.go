package store

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
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

// readAt fills p from the named file. A file that ends before is damaged.
func (s *Store) readAt(name string, p []byte, off int64) error {
	n, err := s.files.ReadAt(name, p, off)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return damaged(name, off+int64(n), "the file ends here")
	}
	return err
}
