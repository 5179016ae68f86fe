package blockstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/syndtr/goleveldb/leveldb/storage"

	"github.com/bornode/bornode/internal/vfs"
)

// Tags of the fields of a manifest's records, by goleveldb's format.
const (
	manifestComparer       = 1
	manifestJournal        = 2
	manifestNextFile       = 3
	manifestSequence       = 4
	manifestCompactPointer = 5
	manifestDeletedTable   = 6
	manifestAddedTable     = 7
	manifestPrevJournal    = 9
)

var errManifestRecord = errors.New("a record of the manifest cannot be read")

// levelTables are the files that a database consists of, as its current manifest says. Other tables and manifests are
// what a crash left of a write that did not end, or what was about to be removed: they may be parts, and goleveldb
// passes over them.
type levelTables struct {
	manifest string // name of the current manifest in the database's directory
	tables   map[int64]bool
}

// readLevelTables reads what CURRENT and the manifest that it names say; nil if either cannot be read to its end, so
// that every file of the database counts.
func readLevelTables(fs vfs.FS, dir string, names []string) (*levelTables, error) {
	if !slices.Contains(names, levelCurrent) {
		return nil, nil
	}
	content, err := vfs.ReadFile(fs, dir+"/"+levelCurrent, maxDatabaseFileBytes)
	if err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", dir, levelCurrent, err)
	}
	t := &levelTables{manifest: strings.TrimSuffix(string(content), "\n"), tables: make(map[int64]bool)}
	if fd, ok := parseLevelName(t.manifest); !ok || fd.Type != storage.TypeManifest {
		return nil, nil
	}
	if !slices.Contains(names, t.manifest) {
		return nil, nil
	}
	inside, tail, err := readLevelLog(fs, dir+"/"+t.manifest, t.applyRecord)
	switch {
	case errors.Is(err, errManifestRecord) || err == nil && (inside || tail):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return t, nil
}

// counts reports whether a file is part of the database. Every file is if nothing is known (a nil receiver).
func (t *levelTables) counts(fd storage.FileDesc, base string) bool {
	switch {
	case t == nil:
		return true
	case fd.Type == storage.TypeTable:
		return t.tables[fd.Num]
	case fd.Type == storage.TypeManifest:
		return base == t.manifest
	}
	return true
}

// applyRecord reads one record of the manifest: fields of a tag and its values, all numbers as unsigned varints.
func (t *levelTables) applyRecord(record []byte) error {
	r := manifestRecord{in: bytes.NewReader(record)}
	for r.in.Len() > 0 && r.err == nil {
		switch r.readNumber() {
		case manifestComparer:
			r.skipBytes()
		case manifestJournal, manifestNextFile, manifestSequence, manifestPrevJournal:
			r.readNumber()
		case manifestCompactPointer:
			r.readNumber()
			r.skipBytes()
		case manifestDeletedTable:
			r.readNumber()                          // level
			delete(t.tables, int64(r.readNumber())) //nolint:gosec // goleveldb's own file numbers
		case manifestAddedTable:
			r.readNumber()                 // level
			number := r.readNumber()       // then size, least and greatest key
			t.tables[int64(number)] = true //nolint:gosec // as above
			r.readNumber()
			r.skipBytes()
			r.skipBytes()
		default:
			r.err = errManifestRecord
		}
	}
	return r.err
}

// manifestRecord reads the fields of one record; after an error it gives zeros.
type manifestRecord struct {
	in  *bytes.Reader
	err error
}

func (r *manifestRecord) readNumber() uint64 {
	if r.err != nil {
		return 0
	}
	x, err := binary.ReadUvarint(r.in)
	if err != nil {
		r.err = errManifestRecord
	}
	return x
}

func (r *manifestRecord) skipBytes() {
	n := r.readNumber()
	if r.err != nil {
		return
	}
	if n > uint64(r.in.Len()) { //nolint:gosec // not negative
		r.err = errManifestRecord
		return
	}
	_, _ = r.in.Seek(int64(n), io.SeekCurrent) // within the record
}
