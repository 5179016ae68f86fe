package store

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/internal/vfs"
)

// prepareSeal takes what a full segment's index file and snapshot hold. wal.mu is held.
func (s *Store) prepareSeal(seg, size uint32) *sealJob {
	j := &sealJob{seg: seg, size: size}
	for _, r := range s.wal.opened {
		if r.next > r.base && len(r.entries) > 0 && s.holds(r) {
			j.runs = append(j.runs, sealRun{run: *r, live: r})
		}
	}
	s.beginSnapshot(j)
	s.account(seg, 0, 0)
	s.segs[seg].size = int64(size)
	return j
}

// holds says whether a run of the open segment is still its partition's. wal.mu is held.
func (s *Store) holds(r *run) bool {
	p := s.byNumber[r.number]
	if p == nil {
		return false
	}
	for i := len(p.runs) - 1; i >= 0; i-- {
		if p.runs[i] == r {
			return true
		}
		if p.runs[i].next < r.base {
			return false
		}
	}
	return false
}

// keeper writes index files and snapshots of full segments, oldest first.
func (s *Store) keeper() {
	defer s.done.Done()
	var retry <-chan time.Time
	for {
		select {
		case <-s.wal.sealable:
		case <-retry:
		case <-s.stop:
			return
		}
		for retry = nil; ; {
			j := s.nextJob()
			if j == nil {
				break
			}
			if err := s.seal(j); err != nil {
				s.m.failures.Inc()
				s.log.Error("a full segment could not be sealed; it is tried again", zap.Uint32("segment", j.seg), zap.Error(err))
				s.wal.mu.Lock()
				s.wal.unkept = s.failure(err)
				s.wal.broadcast()
				s.wal.mu.Unlock()
				retry = time.After(s.cfg.retry)
				break
			}
		}
	}
}

func (s *Store) nextJob() *sealJob {
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	if len(s.wal.jobs) == 0 || !s.wal.jobs[0].flushed {
		return nil
	}
	return s.wal.jobs[0]
}

// seal writes the files of a durable full segment and lets go of its index in memory.
func (s *Store) seal(j *sealJob) error {
	if err := s.writeSeal(j); err != nil {
		return err
	}
	for i := range j.runs {
		r := &j.runs[i]
		s.wal.mu.Lock()
		p := s.byNumber[r.number]
		s.wal.mu.Unlock()
		if p == nil {
			continue
		}
		p.mu.Lock()
		s.wal.mu.Lock()
		r.live.entries, r.live.first, r.live.count = nil, r.first, r.count
		s.wal.mu.Unlock()
		p.mu.Unlock()
	}
	w := s.wal
	w.mu.Lock()
	w.jobs, w.unkept = w.jobs[1:], nil
	s.snaps = append(s.snaps, j.seg)
	var old []uint32
	if n := len(s.snaps) - keptSnapshots; n > 0 {
		old = append(old, s.snaps[:n]...)
		s.snaps = append([]uint32(nil), s.snaps[n:]...)
	}
	w.broadcast()
	w.mu.Unlock()
	for _, seg := range old {
		if err := s.fs.Remove(snapName(seg)); err != nil {
			s.log.Warn("an old snapshot could not be removed; the next start does it", zap.String("file", snapName(seg)), zap.Error(err))
		}
	}
	s.m.sealed.Inc()
	return nil
}

func (s *Store) writeSeal(j *sealJob) error {
	failpoint.Hit("store.seal.before")
	if err := s.writeIndex(j); err != nil {
		return err
	}
	failpoint.Hit("store.seal.between")
	if !j.filled {
		s.fillSnapshot(j)
		j.filled = true
	}
	if err := vfs.ReplaceFile(s.fs, snapName(j.seg), j.snap); err != nil {
		return err
	}
	failpoint.Hit("store.seal.after")
	return nil
}

// writeIndex writes an index file and notes where its entries are.
func (s *Store) writeIndex(j *sealJob) error {
	j.sort()
	if err := vfs.ReplaceFile(s.fs, indexName(j.seg), j.encode()); err != nil {
		return err
	}
	s.files.Forget(indexName(j.seg))
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	s.account(j.seg, 0, 0)
	g := s.segs[j.seg]
	g.size, g.sealed, g.entries = int64(j.size), true, indexHeaderBytes+int64(len(j.runs))*indexRunBytes
	return nil
}

// indexEntries is where the entries begin in the index file of a segment.
func (s *Store) indexEntries(seg uint32) (int64, error) {
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	if g := s.segs[seg]; g != nil && g.sealed {
		return g.entries, nil
	}
	return 0, fmt.Errorf("%w: segment %d was removed", errGone, seg)
}
