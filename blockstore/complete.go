package blockstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"

	"github.com/bornode/bornode/block"
)

// completeSegments lists segments again that a damaged database no longer lists. Their numbers are without gaps up to
// the active one, and so are their heights from the first one on: a file fits if its header, or else the end of its
// predecessor, says where it begins, and its successor where it ends, and if a whole one is the parent of its
// successor. A file that does not fit is left to trim.
func (s *Store) completeSegments() error {
	if !s.has {
		return nil
	}
	s.forgetPruned()
	names, err := s.fs.List(segmentDir)
	if err != nil {
		return err
	}
	there := make(map[uint32]bool, len(names))
	for _, base := range names {
		if n, ok := parseSegmentName(base); ok {
			there[n] = true
		}
	}
	listed := make(map[uint32]Segment, len(s.sealed))
	for _, seg := range s.sealed {
		listed[seg.Number] = seg
	}
	batch := new(leveldb.Batch)
	next := s.activeSegment()
	for n := next.Number - 1; n > 0 && next.First > s.lib.First; n-- {
		seg, ok := listed[n]
		if !ok {
			if seg, ok = s.segmentBetween(n, listed, next, there[n]); !ok {
				break
			}
			s.finding(ProblemSegment, seg.First, fmt.Sprintf("%s with the blocks %d to %d was missing from the list of segments and is listed again", seg.Name, seg.First, seg.Last))
			batch.Put(segmentKey(n), mustRLP(&segmentMeta{First: seg.First, Last: seg.Last, Size: uint64(seg.Size)})) //nolint:gosec // not negative
			listed[n] = seg
		}
		next = seg
	}
	if batch.Len() == 0 {
		return nil
	}
	s.sealed = s.sealed[:0]
	for _, seg := range listed {
		s.sealed = append(s.sealed, seg)
	}
	slices.SortFunc(s.sealed, func(a, b Segment) int { return int(int64(a.Number) - int64(b.Number)) })
	return s.meta.Write(batch, &opt.WriteOptions{Sync: true})
}

// forgetPruned passes over entries of pruned segments, which damage can bring back.
func (s *Store) forgetPruned() {
	kept := s.sealed[:0]
	for _, seg := range s.sealed {
		if seg.Last >= s.lib.First {
			kept = append(kept, seg)
		}
	}
	s.sealed = kept
}

// segmentBetween describes an unlisted segment from its file and its neighbours.
func (s *Store) segmentBetween(n uint32, listed map[uint32]Segment, next Segment, there bool) (Segment, bool) {
	seg := Segment{Number: n, Last: next.First - 1, Sealed: true, Name: segmentName(n)}
	first, readable := s.firstOf(n)
	if before, ok := listed[n-1]; ok && (!readable || first != before.Last+1) {
		first, readable = before.Last+1, true
	}
	if !readable && n == 1 { // the first one ever
		first, readable = s.lib.First, true
	}
	if seg.First = first; !readable || first > seg.Last || first < s.lib.First {
		return seg, false
	}
	if there {
		seg.Size = s.sizeOf(seg.Name)
	} else if e, err := s.readEntry(seg.Last); err == nil && e.Segment == n {
		seg.Size = e.End() // the file is lost: its blocks can be fetched again to where they were
	}
	if seg.Size <= segmentHeaderBytes {
		return seg, false
	}
	return seg, s.isParentOf(seg, next)
}

// firstOf is the height that the header of a segment names.
func (s *Store) firstOf(n uint32) (uint64, bool) {
	b := make([]byte, segmentHeaderBytes)
	if err := s.readAt(segmentName(n), b, 0); err != nil {
		return 0, false
	}
	first := binary.BigEndian.Uint64(b[16:])
	return first, bytes.Equal(b, encodeSegmentHeader(n, first))
}

func (s *Store) sizeOf(name string) int64 {
	f, err := s.fs.Open(name, os.O_RDONLY)
	if err != nil {
		return 0
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0
	}
	return size
}

// isParentOf reports whether the blocks of a segment lead to those of the next one. Blocks that cannot be read prove
// nothing against it.
func (s *Store) isParentOf(seg, next Segment) bool {
	fits, last := true, common.Hash{}
	err := s.walk(context.Background(), seg, func(w walked) error {
		if w.err != nil {
			return nil // reads find it, and have it fetched
		}
		if w.height == seg.Last {
			last = w.record.Hash
		}
		return nil
	})
	if err != nil || last == (common.Hash{}) {
		return err == nil
	}
	stop := errors.New("enough")
	err = s.walk(context.Background(), Segment{First: next.First, Last: next.First, Size: next.Size, Name: next.Name, Number: next.Number}, func(w walked) error {
		if w.err != nil {
			return stop
		}
		if h, err := block.DecodeBlockHeader(w.payload); err == nil {
			fits = h.Parent() == last
		}
		return stop
	})
	return fits && (err == nil || errors.Is(err, stop) || errors.Is(err, fs.ErrNotExist))
}
