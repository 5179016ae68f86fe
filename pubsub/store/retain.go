package store

import (
	"cmp"
	"errors"
	"os"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/failpoint"
)

// Tick does what time asks for, a bounded piece of it: drops records whose retention is over, forgets old producers,
// writes down high watermarks, removes dead segments and copies the rest of mostly dead ones forward. The broker calls
// it every second or so. What fails is logged and tried again. now is the clock of Append's callers, by which producers
// are forgotten; ages are counted by the store's own (see age.go).
func (s *Store) Tick(now time.Time) {
	s.ticking.Lock()
	defer s.ticking.Unlock()
	aged := s.tickPartitions(now)
	s.saveCommitted(commitsPerTick)
	if aged {
		s.rollAged()
	}
	s.noteSynced()
	s.removeDead()
	if err := s.compact(); err != nil && !errors.Is(err, ErrClosed) {
		s.log.Warn("a mostly dead segment could not be emptied; it is tried again", zap.Error(err))
	}
}

// partitionsAfter are up to n partitions behind a number, by number.
func (s *Store) partitionsAfter(number uint32, n int) []*Partition {
	s.wal.mu.Lock()
	all := make([]*Partition, 0, len(s.byNumber))
	for _, p := range s.byNumber {
		if p.number > number {
			all = append(all, p)
		}
	}
	s.wal.mu.Unlock()
	slices.SortFunc(all, func(a, b *Partition) int { return cmp.Compare(a.number, b.number) })
	return all[:min(n, len(all))]
}

// tickPartitions looks at some partitions. aged: one of them has retention by time.
func (s *Store) tickPartitions(now time.Time) (aged bool) {
	parts := s.partitionsAfter(s.cursor, partitionsPerTick)
	s.cursor = 0
	if len(parts) == partitionsPerTick {
		s.cursor = parts[len(parts)-1].number
	}
	looked, idle := 0, producerExpiry
	if s.producers.Load() >= maxAllProducers/4*3 {
		idle = producerIdle
	}
	for _, p := range parts {
		p.mu.Lock()
		aged = aged || p.retention.Age > 0
		start := p.retained()
		if len(p.producers) > 0 && p.number > s.asked && looked < producersPerTick {
			if looked += len(p.producers); looked >= producersPerTick {
				s.asked = p.number // the next Tick goes on behind it
			}
			s.wal.mu.Lock()
			p.touch()
			p.expireProducers(now.Add(-idle).UnixMilli())
			s.wal.mu.Unlock()
		}
		p.mu.Unlock()
		if start > 0 {
			if err := p.DeleteBefore(start); err != nil && !errors.Is(err, ErrDeleted) {
				s.log.Warn("retention could not be written down; it is tried again", zap.Stringer("partition", p.id), zap.Error(err))
				return aged
			}
		}
	}
	if looked < producersPerTick && s.cursor == 0 {
		s.asked = 0
	}
	return aged
}

// retained is where the log of a partition should start for its retention; 0: where it does. The caller holds mu.
func (p *Partition) retained() int64 {
	committed := p.committed.Load()
	oldest := p.s.ages.nowMillis() - p.retention.Age.Milliseconds()
	total := int64(0)
	for _, r := range p.runs {
		total += r.bytes
	}
	start := int64(0)
	for _, r := range p.runs {
		tooOld := p.retention.Age > 0 && r.appended < oldest
		tooMuch := p.retention.Bytes > 0 && total-r.bytes >= p.retention.Bytes
		if tooOld || tooMuch {
			if r.next > committed {
				break
			}
			start, total = r.next, total-r.bytes
			continue
		}
		for i, e := range r.entries { // of a run in memory a part may go
			end := r.next
			if i+1 < len(r.entries) {
				end = r.entries[i+1].base
			}
			drop := p.retention.Age > 0 && e.appended < oldest || p.retention.Bytes > 0 && total-int64(e.size) >= p.retention.Bytes
			if !drop || end > committed {
				break
			}
			start, total = end, total-int64(e.size)
		}
		break
	}
	return start
}

// saveCommitted writes down high watermarks that have moved, of at most n partitions.
func (s *Store) saveCommitted(n int) {
	s.wal.mu.Lock()
	var parts []*Partition
	for _, p := range s.byNumber {
		if len(parts) < n && p.committed.Load() > p.savedCommitted.Load() {
			parts = append(parts, p)
		}
	}
	s.wal.mu.Unlock()
	for _, p := range parts {
		if s.wal.admit(true) != nil {
			return
		}
		p.mu.Lock()
		if v := p.committed.Load(); !p.deleted {
			p.change(kindCommitted, i64(v))
		}
		p.mu.Unlock()
	}
}

// rollAged seals a segment that is older than it may be, so that retention by time can remove it.
func (s *Store) rollAged() {
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	if s.wal.since > 0 && s.ages.nowMillis()-s.wal.since > s.cfg.SegmentAge.Milliseconds() && s.wal.stuck == nil {
		s.wal.next()
	}
}

// noteSynced appends a record that says that all before it is durable, if that is so and no record says it: it proves
// later that a damaged end of the log is damage, not a torn tail.
func (s *Store) noteSynced() {
	w := s.wal
	w.mu.Lock()
	defer w.mu.Unlock()
	if tail := w.tail(); w.closed || w.stuck != nil || w.durable != tail || s.noted == tail || w.off == segmentHeaderBytes {
		return
	}
	w.add(0, kindSynced, nil, 0)
	s.noted = w.tail()
}

// removeDead removes segments that nothing needs.
func (s *Store) removeDead() {
	s.wal.mu.Lock()
	var dead []uint32
	if len(s.snaps) >= keptSnapshots {
		for _, g := range s.segs {
			if g.sealed && g.runs == 0 && g.number < s.snaps[0] && g.deadAt <= s.wal.durable {
				dead = append(dead, g.number)
			}
		}
	}
	s.wal.mu.Unlock()
	slices.Sort(dead)
	removed := 0
	for _, seg := range dead[:min(len(dead), removalsPerTick)] {
		failpoint.Hit("store.remove.before")
		if err := s.fs.Remove(logName(seg)); err != nil && !errors.Is(err, os.ErrNotExist) { // a lost file is gone already
			s.log.Warn("a dead segment could not be removed; it is tried again", zap.String("file", logName(seg)), zap.Error(err))
			continue
		}
		failpoint.Hit("store.remove.between")
		if err := s.fs.Remove(indexName(seg)); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.log.Warn("an index file could not be removed; the next start does it", zap.String("file", indexName(seg)), zap.Error(err))
		}
		s.wal.mu.Lock()
		delete(s.segs, seg)
		s.wal.mu.Unlock()
		s.files.Forget(logName(seg))
		s.files.Forget(indexName(seg))
		removed++
	}
	if removed > 0 {
		s.m.removed.Add(float64(removed))
		if err := s.fs.SyncDir("."); err != nil {
			s.log.Warn("removed segments may come back after a crash; they are removed again then", zap.Error(err))
		}
	}
}
