package blockstore

import (
	"errors"
	"fmt"
	"math"
	"os"

	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
)

// trim takes away what lies beyond the LIB (a commit that did not end, docs/storage.md "Commit") and below the first
// height (a pruning that did not end). Nobody was told that the former is durable, but a database that damage has set
// back looks the same from here; so whole records go to the aside folder, and only bytes that are no record are cut.
func (s *Store) trim() error {
	names, err := s.fs.List(segmentDir)
	if err != nil {
		return err
	}
	listed := make(map[uint32]bool)
	for _, seg := range s.Segments() {
		listed[seg.Number] = true
	}
	for _, base := range names {
		n, ok := parseSegmentName(base)
		switch {
		case !ok || listed[n]:
		case !s.has:
			err = s.setAside(asideNoLIB, segmentDir+"/"+base, "a segment of a store without a last irreversible block: a first commit that did not end, or history whose database was lost")
		case n > s.lib.Segment:
			err = s.trimBeyond(n)
		default:
			err = s.trimPruned(n)
		}
		if err != nil {
			return err
		}
	}
	if err := s.trimIndex(); err != nil || !s.has {
		return err
	}
	if err := s.cutActive(); err != nil {
		return err
	}
	_, err = s.cut(indexName(s.lib.Height), indexOffset(s.lib.Height)+block.IndexEntryBytes, nil)
	return err
}

// trimBeyond takes away a segment behind the active one.
func (s *Store) trimBeyond(n uint32) error {
	name := segmentName(n)
	records, err := s.wholeRecords(name, segmentHeaderBytes, s.lib.Height+1)
	switch {
	case err != nil:
		return err
	case records.none():
		s.log.Info("removing a segment without a whole record: a commit that did not end", zap.String("file", name))
		return s.fs.Remove(name)
	case records.low <= s.lib.Height:
		return s.lostMeta("%s holds block %d although it lies behind %s, which ends in the last irreversible block %d", name, records.low, segmentName(s.lib.Segment), s.lib.Height)
	}
	return s.setAside(asideBeyond, name, s.describeBeyond(records))
}

// trimPruned takes away a segment below the first height: Prune makes that height durable, removes the entries and then
// the files. The proof is that the segment which begins with the first height is there and this one lies before it and
// holds no record from that height on. What cannot be proven stays where it is.
func (s *Store) trimPruned(n uint32) error {
	name := segmentName(n)
	segs := s.Segments()
	if oldest := segs[0]; n < oldest.Number && oldest.First == s.lib.First && s.headerFits(oldest) {
		records, err := s.wholeRecords(name, segmentHeaderBytes, 0)
		if err != nil {
			return err
		}
		if !records.partly && records.high < s.lib.First {
			s.log.Info("removing a segment whose pruning did not end", zap.String("file", name), zap.Uint64("first", s.lib.First))
			return s.fs.Remove(name)
		}
	}
	s.finding(ProblemSegment, 0, fmt.Sprintf("%s is not in the list of segments and does not fit between its neighbours; it stays where it is", name))
	return nil
}

// headerFits reports whether the header of a segment can be read and is the right one.
func (s *Store) headerFits(seg Segment) bool {
	b := make([]byte, segmentHeaderBytes)
	return s.readAt(seg.Name, b, 0) == nil && checkSegmentHeader(b, seg.Number, seg.First) == nil
}

// trimIndex takes away index files without any height of the store.
func (s *Store) trimIndex() error {
	names, err := s.fs.List(indexDir)
	if err != nil {
		return err
	}
	for _, base := range names {
		first, ok := parseIndexName(base)
		switch {
		case !ok:
		case !s.has || first > s.lib.Height:
			err = s.setAside(asideIndex, indexDir+"/"+base, "an index file of heights above the last irreversible block")
		case first+indexFileEntries <= s.lib.First: // what it says of pruned blocks is of no use, and segments say the same
			s.log.Info("removing an index file whose pruning did not end", zap.String("file", base), zap.Uint64("first", s.lib.First))
			err = s.fs.Remove(indexDir + "/" + base)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cutActive cuts what the active segment holds beyond the LIB. Whole records of it are kept as a segment file of their
// own.
func (s *Store) cutActive() error {
	name, end := segmentName(s.lib.Segment), int64(s.lib.End) //nolint:gosec // bounded
	_, err := s.cut(name, end, func(size int64) error {
		records, err := s.wholeRecords(name, end, s.lib.Height+1)
		if err != nil || records.none() {
			return err
		}
		tail := make([]byte, size-end)
		if err := s.readAt(name, tail, end); err != nil {
			return err
		}
		if records.low <= s.lib.Height {
			return s.lostMeta("%s holds block %d behind the place where the last irreversible block %d ends", name, records.low, s.lib.Height)
		}
		first := records.low
		if !records.found {
			first = s.lib.Height + 1
		}
		data := append(encodeSegmentHeader(s.lib.Segment, first), tail...)
		return s.keepAside(asideBeyond, name, data, s.describeBeyond(records))
	})
	return err
}

// cut shortens a file to size after before (may be nil) has seen its size; a shorter or absent one is left for others
// to report.
func (s *Store) cut(name string, size int64, before func(was int64) error) (done bool, err error) {
	f, err := s.fs.Open(name, os.O_RDWR)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, err := f.Size()
	if err == nil && n > size {
		if before != nil {
			err = before(n)
		}
		if err == nil {
			s.log.Info("cutting what was written beyond the last irreversible block", zap.String("file", name), zap.Int64("bytes", n-size), zap.Uint64("height", s.lib.Height))
			err, done = f.Truncate(size), true
		}
	}
	return done, errors.Join(err, f.Close())
}

// recordsFound are the whole records of a part of a segment file.
type recordsFound struct {
	low, high uint64 // heights
	found     bool
	partly    bool // not all was searched (maxVainHashBytes)
}

func (r recordsFound) none() bool { return !r.found && !r.partly }

func (s *Store) describeBeyond(r recordsFound) string {
	if !r.found {
		return fmt.Sprintf("bytes above the last irreversible block %d, not all of which could be searched for blocks", s.lib.Height)
	}
	return fmt.Sprintf("blocks %d to %d lie above the last irreversible block %d: a commit that did not end, or one that a damaged database has lost", r.low, r.high, s.lib.Height)
}

// wholeRecords looks for records of sound blocks from an offset of a segment file on, also behind bytes that are none.
// The one at the offset itself was written there by a commit, and counts whatever its height. What looks like a record
// elsewhere may be the data of a transaction in a block that is torn, made by anybody: it counts only from a lowest height
// on, and is never a reason to refuse the store.
func (s *Store) wholeRecords(name string, from int64, lowest uint64) (r recordsFound, err error) {
	f, err := s.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return r, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return r, err
	}
	w := &window{f: f}
	r.low = math.MaxUint64
	vain := int64(0) // bytes whose checksum was made for nothing
	for off := from; off+recordHeadBytes <= size; {
		least := lowest
		if off == from {
			least = 0
		}
		h, hashed, ok, err := s.recordIn(w, off, size, least)
		if err != nil {
			return r, fmt.Errorf("read %s: %w", name, err)
		}
		if !ok {
			off++
			if vain += hashed; vain > maxVainHashBytes {
				r.partly = true
				break
			}
			continue
		}
		r.low, r.high, r.found = min(r.low, h.Height), max(r.high, h.Height), true
		off += recordHeaderBytes + int64(h.Length)
	}
	return r, nil
}

// recordIn checks whether the whole record of a sound block of at least a height begins at off, and says of how many bytes
// it made the checksum. The length is looked at first, which record and encoding both say: most bytes that are no record need
// no checksum.
func (s *Store) recordIn(w *window, off, size int64, least uint64) (r block.RecordOf, hashed int64, ok bool, err error) {
	b, err := w.at(off, recordHeadBytes)
	if err != nil {
		return r, 0, false, err
	}
	length, err := block.DecodeRecordHead(b)
	end := off + recordHeaderBytes + int64(length)
	if err != nil || end > size {
		return r, 0, false, nil //nolint:nilerr // no record
	}
	if b, err = w.at(off, int(end-off)); err != nil {
		return r, 0, false, err
	}
	r, _, err = block.DecodeRecord(b)
	return r, end - off, err == nil && r.Height >= least && r.Height <= s.lib.Height+maxSegmentBytes, nil
}
