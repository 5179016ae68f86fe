package store

import (
	"cmp"
	"errors"
	"slices"

	"github.com/bornode/bornode/pubsub/batch"
)

// compact copies what is live in mostly dead segments forward, oldest first, at most moveBytesPerTick.
func (s *Store) compact() error {
	left := int64(moveBytesPerTick)
	var errs []error
	for _, seg := range s.sparse() {
		if left <= 0 {
			break
		}
		n, err := s.moveSegment(seg, left)
		s.m.moved.Add(float64(n))
		if errs = append(errs, err); err != nil && !isDamage(err) {
			break
		}
		left -= n
	}
	return errors.Join(errs...)
}

// sparse are the segments that are worth emptying.
func (s *Store) sparse() []uint32 {
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	if len(s.snaps) < keptSnapshots || s.wal.err != nil {
		return nil
	}
	var list, small []uint32
	for _, g := range s.segs {
		switch {
		case !g.sealed || g.runs == 0 || g.number >= s.snaps[0]:
		case g.live < g.size/liveShare:
			list = append(list, g.number)
		case g.live < s.cfg.SegmentBytes/liveShare:
			small = append(small, g.number)
		}
	}
	if len(small) >= smallSegments {
		list = append(list, small...)
	}
	slices.SortFunc(list, cmp.Compare[uint32])
	return list
}

// moveSegment copies live batches of a segment forward until about limit bytes are copied. What is damaged stays.
func (s *Store) moveSegment(seg uint32, limit int64) (moved int64, damage error) {
	for _, p := range s.partitionsAfter(0, maxPartitions) {
		for moved < limit {
			n, err := p.moveOnce(seg)
			moved += n
			if errors.Is(err, ErrDeleted) || gone(err) || err == nil && n == 0 {
				break
			}
			if isDamage(err) { // the others may be fine
				damage = errors.Join(damage, p.damage(err))
				break
			}
			if err != nil {
				return moved, err
			}
		}
	}
	return moved, damage
}

// moveOnce copies some batches of the first run that the partition has in the segment; 0: it has none there.
func (p *Partition) moveOnce(seg uint32) (int64, error) {
	b, err := p.firstIn(seg)
	if err != nil || len(b) == 0 {
		return 0, err
	}
	if err := p.s.wal.admit(false); err != nil {
		return 0, err
	}
	return int64(len(b)), p.putMoved(seg, b)
}

// firstIn reads what one moveOnce copies.
func (p *Partition) firstIn(seg uint32) ([]byte, error) {
	p.mu.Lock()
	i := slices.IndexFunc(p.runs, func(r *run) bool { return r.seg == seg })
	if i < 0 || p.deleted {
		p.mu.Unlock()
		return nil, nil
	}
	r := *p.runs[i]
	p.mu.Unlock()
	es, next, err := p.s.entriesFrom(&r, r.base)
	if err != nil {
		return nil, err
	}
	var at []located
	size := int64(0)
	for j, e := range es {
		if size += int64(e.size); j > 0 && size > chunkBytes {
			break
		}
		at = append(at, r.at(es, j, next))
	}
	return p.s.read(p.number, at)
}

// putMoved appends copies of batches that are still live in the segment.
func (p *Partition) putMoved(seg uint32, b []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deleted {
		return ErrDeleted
	}
	return batch.Each(b, func(h batch.Header, raw []byte) error {
		i := slices.IndexFunc(p.runs, func(r *run) bool { return r.seg == seg && r.base < h.NextOffset() && r.next > h.BaseOffset })
		if i < 0 {
			return nil // dropped meanwhile
		}
		appended := p.runs[i].appended // a copy is as old as what it is copied from
		w := p.s.wal
		w.mu.Lock()
		defer w.mu.Unlock()
		at := w.putBatch(p.number, kindMoved, raw, appended)
		p.touch()
		p.addMoved(&h, at)
		return nil
	})
}
