package blockstore

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bornode/bornode/block"
)

const (
	segmentDir = "segments"
	indexDir   = "index"
	metaDir    = "meta"
	derivedDir = DerivedDir
	lockName   = "LOCK"

	newMetaDir  = "meta.new" // the primary database while it is rebuilt
	asideDir    = AsideDir
	rebuildMark = "REBUILD" // in derivedDir: its database is damaged; sorts behind all other names there

	indexFileEntries = block.IndexFileEntries // entries of one index file: 3 MiB
)

// DerivedDir is the directory, below the store's, of the database of what is made from the blocks.
const DerivedDir = "derived"

// AsideDir is the directory, below the store's, of what starts set aside: a folder for each time and reason.
const AsideDir = "aside"

func segmentName(n uint32) string { return fmt.Sprintf("%s/%08d.seg", segmentDir, n) }

// indexName is the index file that holds a height; indexOffset is where in it.
func indexName(height uint64) string {
	return fmt.Sprintf("%s/%012d.idx", indexDir, height/indexFileEntries)
}

func indexOffset(height uint64) int64 {
	return int64(height%indexFileEntries) * block.IndexEntryBytes //nolint:gosec // below 4 MiB
}

func parseSegmentName(base string) (uint32, bool) {
	n, err := strconv.ParseUint(strings.TrimSuffix(base, ".seg"), 10, 32)
	return uint32(n), err == nil && segmentDir+"/"+base == segmentName(uint32(n)) //nolint:gosec // parsed as 32 bits
}

func parseIndexName(base string) (first uint64, ok bool) {
	n, err := strconv.ParseUint(strings.TrimSuffix(base, ".idx"), 10, 48)
	first = n * indexFileEntries
	return first, err == nil && indexDir+"/"+base == indexName(first)
}

// readAt fills p from the named file. A file that ends before gives io.ErrUnexpectedEOF, a closed store os.ErrClosed.
func (s *Store) readAt(name string, p []byte, off int64) error {
	_, err := s.files.ReadAt(name, p, off)
	return err
}
