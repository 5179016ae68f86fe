package store

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
)

// found is what lies in the directory.
type found struct {
	logs, indexes, snaps []uint32 // ascending
}

func (s *Store) look() (found, error) {
	var f found
	names, err := s.fs.List(".")
	if err != nil {
		return f, fmt.Errorf("list the topic store's files: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, vfs.TemporarySuffix) {
			if err := s.fs.Remove(name); err != nil {
				return f, err
			}
		}
		if n, ok := numberOf(name, logSuffix); ok {
			f.logs = append(f.logs, n)
		}
		if n, ok := numberOf(name, indexSuffix); ok {
			f.indexes = append(f.indexes, n)
		}
		if n, ok := numberOf(name, snapSuffix); ok {
			f.snaps = append(f.snaps, n)
		}
	}
	for _, x := range [][]uint32{f.logs, f.indexes, f.snaps} {
		slices.Sort(x)
	}
	return f, nil
}

// recover rebuilds the state from the files. Nothing runs yet, but the locks are held where the functions ask for it.
func (s *Store) recover() error {
	began := s.clock()
	f, err := s.look()
	if err != nil {
		return err
	}
	if err := s.loadHeights(f); err != nil {
		return err
	}
	base, err := s.loadSnapshot(&f)
	if err != nil {
		return err
	}
	if err := s.loadIndexes(f, base); err != nil {
		return err
	}
	if err := s.replay(f, base); err != nil {
		return err
	}
	if err := s.checkClosed(); err != nil {
		return err
	}
	s.check(f)
	aside := s.setAsideSegments(s.lost.behind) // before a cut is written down: the segments may be dead after it
	if err := s.sealDamaged(); err != nil {
		return err
	}
	if err := s.dropClosed(); err != nil {
		return err
	}
	s.tellLosses(aside)
	s.sweep(f)
	if err := s.makeReserve(); err != nil {
		s.log.Warn("there is no room for the topic store's reserve; no appends are taken until there is", zap.Error(err))
		s.wal.refuse(s.failure(err))
		poke(s.wal.urgent) // the flusher tries again
	}
	s.log.Info("topic store is open", zap.Int("partitions", len(s.byID)), zap.Int("segments", len(s.segs)),
		zap.Uint32("segment", s.wal.seg), zap.Duration("took", s.clock().Sub(began)))
	return nil
}

// loadSnapshot loads the newest readable snapshot and says of which segment it is; 0: none is needed.
func (s *Store) loadSnapshot(f *found) (uint32, error) {
	file, why := "", errors.New("there is none")
	for i := len(f.snaps) - 1; i >= 0; i-- {
		seg := f.snaps[i]
		var parts []*Partition
		var next uint32
		b, err := vfs.ReadFile(s.fs, snapName(seg), maxSnapBytes)
		if err == nil {
			parts, next, err = s.decodeSnapshot(b, seg)
		}
		if err != nil {
			if saysNothing(err) {
				return 0, err
			}
			s.foundDamage(snapName(seg), 0, fmt.Errorf("the snapshot before and the log serve: %w", err))
			file, why = snapName(seg), err
			continue
		}
		s.mu.Lock()
		s.wal.mu.Lock()
		for _, p := range parts {
			s.byID[p.id], s.byNumber[p.number] = p, p
			s.producers.Add(int64(len(p.producers)))
		}
		s.nextNumber = next
		s.wal.mu.Unlock()
		s.mu.Unlock()
		s.snaps = slices.Clone(f.snaps[:i+1])
		return seg, nil
	}
	if n := len(f.logs); n > 0 && (f.logs[0] != 1 || file != "" && f.logs[n-1] != uint32(n)) { //nolint:gosec // few files
		err := s.startAnew(*f, damaged(cmp.Or(file, snapName(f.logs[0])), 0, "no snapshot is readable, and the log is not whole from segment 1 on: %w", why))
		*f = found{}
		return 0, err
	}
	return 0, nil
}

// loadIndexes takes the runs of the segments up to the snapshot's.
func (s *Store) loadIndexes(f found, base uint32) error {
	for _, seg := range f.logs {
		if seg > base {
			break
		}
		runs, err := s.loadIndex(seg)
		if err != nil {
			return err
		}
		s.wal.mu.Lock()
		s.wal.seg = seg
		for _, r := range runs {
			if p := s.byNumber[r.number]; p != nil {
				p.adopt(r)
			}
		}
		s.wal.mu.Unlock()
	}
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	for _, p := range s.byNumber {
		p.cutOut(0, p.start)
		p.cutOut(p.end, maxOffset)
	}
	return nil
}

// check looks whether every offset is there, and has the partitions lose what is behind the first that is not. It comes
// after the replay: what a removed segment had may be dead, or moved, by a record behind the snapshot.
func (s *Store) check(f found) {
	told := false
	for _, p := range s.partitionsAfter(0, maxPartitions) {
		s.wal.mu.Lock()
		p.cutOut(0, p.start)
		at := p.firstGap()
		lacks := at < p.end
		if lacks { // written down: the next start must not read what comes behind this as a contradiction
			s.wal.put(p.number, kindLost, encodeTruncate(at, nil))
			p.touch()
			s.loseAtStart(p, at)
		}
		p.durable = p.end
		p.committed.Store(min(p.committed.Load(), p.end))
		s.wal.mu.Unlock()
		if absent := f.absent(); lacks && !told {
			told = true
			for _, name := range absent {
				s.foundDamage(name, 0, errors.New("the file is lost"))
			}
		}
	}
}

// adopt takes a run of a sealed segment that is newer than all before. wal.mu is held.
func (p *Partition) adopt(r *run) {
	if r.moved {
		r.base, r.next = max(r.base, p.start), min(r.next, p.end)
		if r.base >= r.next {
			return
		}
		i := p.cutOut(r.base, r.next)
		p.runs = slices.Insert(p.runs, i, r)
	} else {
		i := len(p.runs) // what other runs of this segment hold is not older
		for j, l := range p.runs {
			if l.seg != r.seg && l.next > r.base {
				i = j
				break
			}
		}
		if i < len(p.runs) {
			p.cutOlder(r)
		}
		i = 0
		for i < len(p.runs) && p.runs[i].base < r.base {
			i++
		}
		p.runs = slices.Insert(p.runs, i, r)
	}
	p.s.account(r.seg, r.bytes, 1)
}

// cutOlder drops what older segments have from r's base on: the log was truncated before r was written.
func (p *Partition) cutOlder(r *run) {
	var same []*run
	p.runs = slices.DeleteFunc(p.runs, func(l *run) bool {
		if l.seg == r.seg {
			same = append(same, l)
			return true
		}
		return false
	})
	p.cutOut(r.base, maxOffset)
	p.runs = append(p.runs, same...)
	slices.SortFunc(p.runs, func(a, b *run) int {
		if a.base < b.base {
			return -1
		}
		return 1
	})
}

// firstGap is the first offset of the partition that no run holds; its end if there is none.
func (p *Partition) firstGap() int64 {
	at := p.start
	for _, r := range p.runs {
		if r.base != at {
			break
		}
		at = r.next
	}
	return min(at, p.end)
}

// absent names segments that are not there though older ones are. They may have been removed.
func (f *found) absent() (names []string) {
	for i := 1; i < len(f.logs); i++ {
		for n := f.logs[i-1] + 1; n < f.logs[i] && len(names) < toldLost; n++ {
			names = append(names, logName(n))
		}
	}
	return names
}

// loadIndex is the directory of a sealed segment's index file, made anew if it is lost or damaged.
func (s *Store) loadIndex(seg uint32) ([]*run, error) {
	runs, h, err := s.readDirectory(seg)
	if err == nil {
		s.completeAppendTimes(seg, runs)
		s.wal.mu.Lock()
		defer s.wal.mu.Unlock()
		s.segs[seg] = &segment{number: seg, size: int64(h.size), sealed: true, entries: h.entriesPos()}
		return runs, nil
	}
	if saysNothing(err) {
		return nil, err
	}
	s.log.Warn("an index file is lost or damaged; it is rebuilt from its segment", zap.String("file", indexName(seg)), zap.Error(err))
	if s.looks != nil && !errors.Is(err, os.ErrNotExist) { // a crash may leave a full segment without its index
		s.looks(indexName(seg), 0, err)
	}
	j, err := s.scanRuns(seg)
	if err != nil {
		return nil, err
	}
	if err := s.useReserve(func() error { return s.writeIndex(j) }); err != nil {
		return nil, err
	}
	for i := range j.runs {
		r := j.runs[i].run
		r.entries = nil
		runs = append(runs, &r)
	}
	return runs, nil
}

func (s *Store) readDirectory(seg uint32) ([]*run, indexHeader, error) {
	var h indexHeader
	f, err := s.fs.Open(indexName(seg), os.O_RDONLY)
	if err != nil {
		return nil, h, err
	}
	defer func() { _ = f.Close() }() // was only read
	b := make([]byte, indexHeaderBytes)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return nil, h, fmt.Errorf("%w: %d bytes: %w", errIndex, n, err)
	}
	if h, err = decodeIndexHeader(b, seg); err != nil {
		return nil, h, err
	}
	size, err := f.Size()
	if err != nil {
		return nil, h, err
	}
	if want := h.entriesPos() + int64(h.entries)*indexEntryBytes; size != want {
		return nil, h, fmt.Errorf("%w: %d bytes, it says %d", errIndex, size, want)
	}
	b = make([]byte, int(h.runs)*indexRunBytes)
	if n, err := f.ReadAt(b, indexHeaderBytes); n < len(b) {
		return nil, h, fmt.Errorf("%w: %w", errIndex, err)
	}
	runs, err := decodeDirectory(h, b)
	if err != nil {
		return nil, h, err
	}
	return runs, h, s.checkSize(seg, h)
}

// checkSize says whether a segment is as long as its index file says.
func (s *Store) checkSize(seg uint32, h indexHeader) error {
	f, err := s.fs.Open(logName(seg), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // was only read
	if size, err := f.Size(); err != nil || size != int64(h.size) {
		return fmt.Errorf("%w: the segment has %d bytes, the index says %d: %w", errIndex, size, h.size, errors.Join(err))
	}
	return nil
}

// sweep removes what an interrupted removal left: files of segments that are no more, and old snapshots.
func (s *Store) sweep(f found) {
	s.wal.mu.Lock()
	var names []string
	for _, n := range f.indexes {
		if g := s.segs[n]; g == nil || !slices.Contains(f.logs, n) {
			names = append(names, indexName(n))
		}
	}
	if n := len(s.snaps) - keptSnapshots; n > 0 {
		s.snaps = s.snaps[n:]
	}
	for _, n := range f.snaps {
		if !slices.Contains(s.snaps, n) {
			names = append(names, snapName(n))
		}
	}
	s.wal.mu.Unlock()
	for _, name := range names {
		if s.lost.files > 0 || len(s.lost.parts) > 0 { // the segment may be among what is lost
			s.setAside(name)
		}
		if err := s.fs.Remove(name); err != nil {
			s.log.Warn("a file that is needed no more could not be removed", zap.String("file", name), zap.Error(err))
		}
	}
}
