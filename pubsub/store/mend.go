package store

import (
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/aside"
	"github.com/bornode/bornode/internal/vfs"
)

// OnDamage sets who is told of partitions of which a read met damage. f is called without the store's locks and must be
// quick; it has Mend called.
func (s *Store) OnDamage(f func(id ID, err error)) { s.onDamage.Store(&f) }

// Mend does what can be done about a DamageError that a read of the partition met. The index file of a full segment is
// rebuilt from its records. If the segment lacks some of the partition's, the log is cut at the first of these, and is not
// whole any more: Position has no epoch, and the promise stays. What is left can be read. A damaged segment that is not full
// yet is left for a new one, so that the next start need not read it. Damaged files keep a second name. lost: the log was
// cut, durably at m.
func (p *Partition) Mend(damage error) (lost bool, m Mark, err error) {
	var d *DamageError
	if !errors.As(damage, &d) {
		return false, 0, nil
	}
	seg, ok := numberOf(d.File, logSuffix)
	if !ok {
		if seg, ok = numberOf(d.File, indexSuffix); !ok {
			return false, 0, nil
		}
	}
	if !p.s.isSealed(seg) {
		end, err := p.firstUnreadable(seg, d.Pos)
		if err != nil || end < 0 {
			return false, 0, err
		}
		return p.cutDamaged(d, seg, end, nil)
	}
	p.s.rebuilding.Lock()
	defer p.s.rebuilding.Unlock()
	if d.File == indexName(seg) && p.s.countRebuilds(d.File) > d.rebuilt {
		return false, 0, nil // it was rebuilt since, for another partition: the next read tells whether more is wrong
	}
	j, end, err := p.s.rebuildIndex(seg, p)
	if err != nil {
		return false, 0, err
	}
	return p.cutDamaged(d, seg, end, j)
}

func (s *Store) isSealed(seg uint32) bool {
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	return s.segs[seg] != nil && s.segs[seg].sealed
}

// cutDamaged cuts the log at an offset, unless it ends there. j is the index of the damaged segment, nil if it has none.
func (p *Partition) cutDamaged(d *DamageError, seg uint32, end int64, j *sealJob) (lost bool, m Mark, err error) {
	w := p.s.wal
	if err := w.admit(true); err != nil {
		return false, 0, err
	}
	if d.File == logName(seg) { // an index was set aside before it was rebuilt
		p.s.setAside(d.File)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deleted || end >= p.end || end < p.start {
		return false, 0, nil // nothing is lost, or it was dropped meanwhile
	}
	behind := map[uint32]struct{}{}
	p.noteSegmentsFrom(end, behind)
	kept := p.s.setAsideSegments(behind)
	found, err := p.sentBefore(end)
	if err != nil {
		found = nil // what producers had sent before is learned again with the log
	}
	w.mu.Lock()
	w.roll = w.roll || w.seg == seg
	at := w.put(p.number, kindLost, encodeTruncate(end, found))
	p.touch()
	p.lose(end, found)
	if j != nil {
		p.placeRuns(j)
	}
	w.mu.Unlock()
	p.durable = min(p.durable, end)
	p.unsynced = slices.DeleteFunc(p.unsynced, func(r reached) bool { return r.next > end })
	p.signal()
	p.s.m.damagedFiles.Inc()
	p.s.m.lost.Inc()
	p.s.log.Warn("a partition's copy is damaged: it is copied again from another replica from the damaged place on, and counts in no election until then; if there is no other replica, its owner has to let it go on with what is left (unclean.leader.election.enable)",
		zap.Stringer("partition", p.id), zap.String("file", d.File), zap.Int64("position", d.Pos), zap.Int64("offset", end),
		zap.Strings("set_aside_as", kept), zap.NamedError("found", d.Cause))
	return true, at.mark(), nil
}

// firstUnreadable is the offset of the batch at a place of a segment that is not sealed, if it still cannot be read; -1: it
// can, or there is none.
func (p *Partition) firstUnreadable(seg uint32, pos int64) (int64, error) {
	at, offset := p.batchAt(seg, pos)
	if offset < 0 {
		return -1, nil
	}
	_, err := p.s.read(p.number, []located{at})
	switch {
	case err == nil, gone(err):
		return -1, nil
	case isDamage(err):
		return offset, nil
	}
	return -1, err
}

// batchAt is the batch whose record holds a place of a segment that is not sealed, or else the first one behind that place,
// and its first offset in the log; -1: there is none.
func (p *Partition) batchAt(seg uint32, pos int64) (at located, offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	offset = -1
	for _, r := range p.runs {
		if r.seg != seg {
			continue
		}
		for i, e := range r.entries {
			end := int64(e.pos) + recordHeaderBytes + int64(e.size)
			if isInside := int64(e.pos) <= pos && pos < end; isInside || offset < 0 && int64(e.pos) >= pos {
				at, offset = r.at(r.entries, i, r.next), max(e.base, r.base)
				if isInside {
					return at, offset
				}
			}
		}
	}
	return at, offset
}

// rebuildIndex writes the index file of a sealed segment again and tells the runs where their entries are now; those
// that lack some have no entries, and a read of them meets damage. lacks is the first offset that p lacks in the segment.
// The caller holds rebuilding.
func (s *Store) rebuildIndex(seg uint32, p *Partition) (j *sealJob, lacks int64, err error) {
	if j, err = s.scanRuns(seg); err != nil {
		return nil, 0, err
	}
	if _, err := aside.KeepLink(s.fs, indexName(seg), aside.All, s.clock()); err != nil { // a lost one has nothing to keep
		return nil, 0, fmt.Errorf("the topic store cannot rebuild an index: %w", err)
	}
	j.sort()
	s.log.Warn("the index of a full segment is rebuilt from its records", zap.String("file", indexName(seg)))
	if err := s.replaceIndex(j); err != nil {
		return nil, 0, err
	}
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	for _, r := range p.runs {
		if r.seg == seg && r.sealed() && r.count == 0 {
			return j, j.upTo(r), nil
		}
	}
	return j, p.end, nil
}

// upTo is the first offset of a run that an index does not have.
func (j *sealJob) upTo(r *run) int64 {
	at := r.base
	for i := range j.runs { // sorted
		if x := &j.runs[i]; x.number == r.number && x.moved == r.moved && x.base <= at && x.next > at {
			at = x.next
		}
	}
	return min(at, r.next)
}

// find is the run of an index that holds all that a run holds.
func (j *sealJob) find(r *run) *sealRun {
	i := slices.IndexFunc(j.runs, func(x sealRun) bool {
		return x.number == r.number && x.moved == r.moved && x.base <= r.base && x.next >= r.next
	})
	if i < 0 {
		return nil
	}
	return &j.runs[i]
}

// replaceIndex puts an index in the place of one. Readers that are between the two meet damage, and try again.
func (s *Store) replaceIndex(j *sealJob) error {
	if err := vfs.ReplaceFile(s.fs, indexName(j.seg), j.encode()); err != nil {
		return err
	}
	s.files.Forget(indexName(j.seg))
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	if g := s.segs[j.seg]; g != nil {
		g.rebuilt++
		g.entries = indexHeaderBytes + int64(len(j.runs))*indexRunBytes
	}
	for _, p := range s.byNumber {
		p.placeRuns(j)
	}
	return nil
}

// placeRuns tells the partition's runs where an index has their entries. wal.mu is held.
func (p *Partition) placeRuns(j *sealJob) {
	for _, r := range p.runs {
		if r.seg == j.seg && r.sealed() {
			r.first, r.count = 0, 0
			if x := j.find(r); x != nil {
				r.first, r.count = x.first, x.count
			}
		}
	}
}
