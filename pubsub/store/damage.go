package store

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/aside"
	"github.com/bornode/bornode/pubsub/batch"
)

// Damage never keeps the store from opening: it costs the partitions that are in the damaged place their copy. Such a
// partition keeps what lies before the damage and has entered no epoch (Partition.Position), so that replicas know that its log
// is not whole and copy it again. Where it cannot be known what the damaged bytes held, every partition may have promised
// or entered an epoch there: all forget what they promised, and Made is not known any more, so that the broker does
// nothing before the chain is newer than anything that it may have forgotten.

const (
	pageBytes     = 4 << 10 // a disk that cannot read a byte cannot read so many
	identifyBytes = 600     // longest record that a flipped bit is looked for in: CRC-32C tells up to five of them apart there
	toldLost      = 20      // partitions named in a log entry
)

// losses is what a start found. Only recover's goroutine uses it.
type losses struct {
	parts   map[uint32]struct{} // whose copy is not whole; later records of them are passed over
	history bool                // some records of unknown partitions cannot be read
	files   int                 // with damage
	behind  map[uint32]struct{} // segments with records of these behind their damage: nothing proved them useless
}

// foundDamage tells of damage before anything is written: the file gets a second name, so that nothing of it is ever removed.
func (s *Store) foundDamage(file string, pos int64, cause error) {
	if s.lost != nil {
		s.lost.files++
	}
	s.m.damagedFiles.Inc()
	if s.looks != nil {
		s.looks(file, pos, cause)
	}
	s.log.Warn("a file of the topic store is damaged; the partitions with records there are copied again from other replicas",
		zap.String("file", file), zap.Int64("position", pos), zap.String("set_aside_as", s.setAside(file)), zap.NamedError("found", cause))
}

// setAside gives a file a second, dated name, once, and returns it; empty: there is no such file, or no room for a name.
func (s *Store) setAside(file string) string {
	name, err := aside.KeepLink(s.fs, file, aside.All, s.clock())
	if err != nil {
		s.log.Error("a damaged file of the topic store could not be set aside; copy it before its segment is removed", zap.String("file", file), zap.Error(err))
		return ""
	}
	return name
}

// lose drops a log from end on, whose bytes are damaged, and forgets that it was whole. The caller holds mu and wal.mu.
func (p *Partition) lose(end int64, found map[int64]*producer) {
	end = min(max(end, p.start), p.end)
	p.unsend(end, found)
	p.cutTo(end)
	p.entered = -1
	p.committed.Store(min(p.committed.Load(), end))
	p.savedCommitted.Store(min(p.savedCommitted.Load(), end))
}

// setAsideSegments gives segments a second name each, so that healthy records behind a damaged place outlive the cut.
func (s *Store) setAsideSegments(segs map[uint32]struct{}) (names []string) {
	for _, seg := range slices.Sorted(maps.Keys(segs)) {
		if name := s.setAside(logName(seg)); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// noteSegmentsFrom adds the segments that have records of the partition from an offset on. The caller holds mu or wal.mu.
func (p *Partition) noteSegmentsFrom(offset int64, segs map[uint32]struct{}) {
	for _, r := range p.runs {
		if r.next > offset {
			segs[r.seg] = struct{}{}
		}
	}
}

// loseAtStart is lose while the store opens. wal.mu is held.
func (s *Store) loseAtStart(p *Partition, end int64) {
	p.noteSegmentsFrom(end, s.lost.behind)
	p.lose(end, nil)
	s.lost.parts[p.number] = struct{}{}
}

// loseHistory is called where records cannot be read and nothing tells whose they were. What the chain's heights said goes
// first, durably: a snapshot that lacks the promises must never stand beside it.
func (s *Store) loseHistory() error {
	if !s.lost.history {
		if s.setAside(madeName); s.heights.Load() != nil {
			if err := s.dropHeights(); err != nil {
				return err
			}
		}
		s.lost.history = true
	}
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	for _, p := range s.byNumber {
		p.promised = -1
		s.loseAtStart(p, p.end)
	}
	s.nextNumber += maxNumbersLost // records of partitions that were created there must not be another's
	return nil
}

// dropHeights forgets when the store was made, durably.
func (s *Store) dropHeights() error {
	s.heights.Store(nil)
	if err := s.fs.Remove(madeName); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("set %s of the topic store aside: %w", madeName, err)
	}
	return s.fs.SyncDir(".")
}

// passOver deals with the damaged bytes at the scanner's place. If it is known which record they are, the scanner goes on
// right behind that record, since the damage may cover what follows too, which is then damage of its own. Otherwise every
// partition pays, and the scanner goes on at the next record that can be read, or at the end. ended: the damaged record is
// the one that ends the segment.
func (s *Store) passOver(sc *scanner, cause error) (ended bool, err error) {
	r, known := sc.identify()
	if sc.failed != nil {
		return false, sc.failed
	}
	s.foundDamage(sc.name, sc.pos, cause)
	switch {
	case !known:
		if err := s.loseHistory(); err != nil {
			return false, err
		}
		sc.resync()
		return false, sc.failed
	case r.kind == kindBatch:
		s.wal.mu.Lock()
		if p := s.byNumber[r.number]; p != nil && !s.isLost(r.number) {
			s.loseAtStart(p, r.header.BaseOffset)
		}
		s.wal.mu.Unlock()
	case r.kind == kindMoved: // where it came from may have it still: check tells
	case r.kind == kindEnd:
	default: // one bit was wrong, and nothing is lost
		if s.replayRecord(sc.seg, &r) != nil {
			if err := s.loseHistory(); err != nil {
				return false, err
			}
		}
	}
	sc.pos += int64(r.recordLen)
	return r.kind == kindEnd, nil
}

func (s *Store) isLost(number uint32) bool {
	_, lost := s.lost.parts[number]
	return lost
}

// tellLosses says, once everything was read, what damage has cost, and what is done about it.
func (s *Store) tellLosses(aside []string) {
	if len(s.lost.parts) == 0 {
		return
	}
	var names []string
	s.wal.mu.Lock()
	for number := range s.lost.parts {
		if p := s.byNumber[number]; p != nil {
			names = append(names, p.id.String())
		}
	}
	s.wal.mu.Unlock()
	slices.Sort(names)
	s.m.lost.Add(float64(len(names)))
	s.log.Warn("copies of partitions are damaged: they count in no election until they were copied from another replica; a partition that has no other waits until its owner lets it go on with what is left (unclean.leader.election.enable)",
		zap.Strings("set_aside_as", aside), zap.Int("partitions", len(names)), zap.Strings("first", names[:min(len(names), toldLost)]), zap.Bool("promises_lost", s.lost.history))
}

// sealDamaged ends the segment in which damage was found, with a snapshot: no start has to read it again.
func (s *Store) sealDamaged() error {
	if s.lost.files == 0 && len(s.lost.parts) == 0 {
		return nil
	}
	w := s.wal
	w.mu.Lock()
	if w.off == segmentHeaderBytes { // a snapshot is of a segment that has something
		w.add(0, kindSynced, nil, 0)
	}
	w.next()
	w.mu.Unlock()
	if err := s.useReserve(s.flush); err != nil {
		return err
	}
	for j := s.nextJob(); j != nil; j = s.nextJob() {
		if err := s.useReserve(func() error { return s.seal(j) }); err != nil {
			return err
		}
	}
	return nil
}

// identify tells what a damaged record is if its head is whole, or whole again with one bit turned.
func (sc *scanner) identify() (record, bool) {
	b, err := sc.peek(identifyBytes)
	if err != nil || len(b) < recordHeaderBytes {
		return record{}, false
	}
	b = slices.Clone(b)
	if r, ok := sc.head(b); ok {
		return r, true
	}
	for bit := range 8 * min(len(b), recordHeaderBytes+batch.HeaderBytes) {
		b[bit/8] ^= 1 << (bit % 8)
		if r, ok := sc.head(b); ok {
			return r, true
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
	return record{}, false
}

// head is the record that begins b if what the record's checksum covers is whole.
func (sc *scanner) head(b []byte) (r record, ok bool) {
	pos := uint32(sc.pos) //nolint:gosec // below maxSegmentBytes and a record
	n, err := recordSize(b, pos)
	if err != nil {
		return r, false
	}
	r = record{kind: kind(b[20]), number: be.Uint32(b[16:]), pos: pos, durable: be.Uint32(b[12:]), recordLen: n}
	covered := n - recordHeaderBytes
	if isBatch(r.kind) {
		covered = batch.HeaderBytes
	}
	if len(b) < recordHeaderBytes+covered || sc.pos+int64(n) > sc.size {
		return r, false
	}
	r.payload = b[recordHeaderBytes : recordHeaderBytes+covered]
	if recordSum(sc.salt, b, r.payload) != be.Uint32(b) {
		return r, false
	}
	if isBatch(r.kind) {
		r.header, _, err = batch.ParseHeader(r.payload)
	}
	return r, err == nil
}

// resync moves the scanner behind its place to the next whole record; false: there is none, and it is at the end.
func (sc *scanner) resync() (found bool) {
	for sc.pos++; sc.pos < sc.size; {
		b, err := sc.peek(recordHeaderBytes)
		if err != nil {
			sc.pos = min(sc.size, (sc.pos/pageBytes+1)*pageBytes)
			continue
		}
		pos := uint32(sc.pos) //nolint:gosec // as above
		if _, err := recordSize(b, pos); err == nil {
			at := sc.pos
			_, err = sc.next()
			sc.pos = at
			if err == nil {
				return true
			}
		}
		sc.pos++
	}
	sc.pos = sc.size
	return false
}

// startAnew sets all files of a log aside that cannot be made sense of: the store is then one that is new.
func (s *Store) startAnew(f found, cause error) error {
	s.log.Warn("the topic store cannot be read; its files are set aside, and everything is copied again from other replicas", zap.NamedError("found", cause))
	s.setAside(madeName)
	if err := s.dropHeights(); err != nil {
		return err
	}
	for _, x := range []struct {
		numbers []uint32
		name    func(uint32) string
	}{{f.logs, logName}, {f.indexes, indexName}, {f.snaps, snapName}} {
		for _, n := range x.numbers {
			if _, err := aside.KeepMoved(s.fs, x.name(n), aside.All, s.clock()); err != nil {
				return fmt.Errorf("the topic store cannot begin anew: %w", err)
			}
		}
	}
	s.lost.files++
	return s.fs.SyncDir(".")
}

// endOfFile reports whether a scanner has come to the end of its file.
func endOfFile(err error) bool { return errors.Is(err, io.EOF) && !errors.Is(err, errRead) }
