package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
)

// replay takes the records of the segments behind the snapshot's and makes the log ready to append to.
func (s *Store) replay(f found, base uint32) error {
	i, has := slices.BinarySearch(f.logs, base+1)
	logs := f.logs[i:]
	next := base + 1
	if base > 0 && !has && !slices.Contains(f.logs, base) { // no segment is removed that a kept snapshot is as old as
		s.foundDamage(logName(base), 0, errors.New("the file is lost, and what followed it"))
		if err := s.loseHistory(); err != nil {
			return err
		}
	}
	for i, seg := range logs {
		if seg != next {
			s.foundDamage(logName(next), 0, fmt.Errorf("the file is lost; %s follows", logName(seg)))
			if err := s.loseHistory(); err != nil {
				return err
			}
		}
		open, err := s.replaySegment(seg, i == len(logs)-1)
		if err != nil || open {
			return err
		}
		next = seg + 1
	}
	w := s.wal
	w.mu.Lock()
	w.begin(next)
	w.durable = markOf(w.seg-1, 1<<32-1)
	w.mu.Unlock()
	return nil
}

// replaySegment takes the records of a segment. open: the log goes on in it; only the last one may be.
func (s *Store) replaySegment(seg uint32, last bool) (open bool, err error) {
	sc, err := s.scan(seg)
	if saysNothing(err) {
		return false, err
	}
	if err != nil && last && errors.Is(err, errNoHeader) { // the process died while it made the segment; nothing was in it
		s.log.Info("the newest segment had not been begun", zap.String("file", logName(seg)))
		s.wal.mu.Lock()
		defer s.wal.mu.Unlock()
		s.wal.begin(seg)
		s.wal.durable = markOf(seg-1, 1<<32-1)
		return true, nil
	}
	if err != nil {
		return false, s.loseSegment(seg, err)
	}
	defer func() {
		if !open {
			err = errors.Join(err, sc.f.Close())
		}
	}()
	w := s.wal
	w.mu.Lock()
	w.seg, w.off, w.salt, w.records, w.since, w.opened = seg, segmentHeaderBytes, sc.salt, 0, 0, nil
	s.account(seg, 0, 0)
	w.mu.Unlock()
	var synced uint32
	for {
		r, err := sc.next()
		if err != nil {
			goesOn, open, err := s.replayEnd(sc, synced, err, last)
			if !goesOn {
				return open, err
			}
			synced = max(synced, uint32(sc.pos)) //nolint:gosec // below the segment's size
			continue
		}
		synced, r.appended = max(synced, r.durable), s.appendTime(millisOf(r.step), sc.changed)
		s.replayedTo(r.pos + uint32(r.recordLen)) //nolint:gosec // below the segment's size
		if r.kind == kindEnd {
			if last && sc.pos == sc.size { // nothing says that it was synced
				if err := s.rewrite(sc, synced); err != nil {
					return false, err
				}
			}
			return false, s.sealReplayed(sc)
		}
		if err := s.replayRecord(seg, &r); err != nil { // also of a partition that was created behind damage: it is not lost yet
			s.foundDamage(sc.name, int64(r.pos), err)
			if err := s.loseHistory(); err != nil {
				return false, err
			}
		}
	}
}

func (s *Store) replayedTo(off uint32) {
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	s.wal.off = off
	s.wal.records++
}

// replayEnd is called where a segment has no further record: at its end, at a tail that was torn, or at damage, behind
// which it goes on.
func (s *Store) replayEnd(sc *scanner, synced uint32, why error, last bool) (goesOn, open bool, err error) {
	switch {
	case errors.Is(why, errRead):
	case last && (endOfFile(why) || !s.wasSynced(sc, synced)):
		err = s.reopen(sc, synced, why)
		return false, err == nil, err
	case endOfFile(why):
		s.foundDamage(sc.name, sc.pos, fmt.Errorf("the segment ends before its end was written, but %s follows", logName(sc.seg+1)))
		if err := s.loseHistory(); err != nil {
			return false, false, err
		}
		return false, false, s.sealReplayed(sc)
	}
	ended, err := s.passOver(sc, why)
	if err != nil {
		return false, false, err
	}
	s.replayedTo(uint32(sc.pos)) //nolint:gosec // below maxSegmentBytes and a record
	if ended && sc.pos == sc.size {
		return false, false, s.sealReplayed(sc)
	}
	return true, false, nil
}

// wasSynced tells whether bytes at the scanner's place are damaged: something says that they were on the disk.
func (s *Store) wasSynced(sc *scanner, synced uint32) bool {
	if sc.pos < int64(synced) {
		return true
	}
	at, err := sc.proof()
	return at > 0 || err != nil
}

// loseSegment gives a segment up whose records cannot be read.
func (s *Store) loseSegment(seg uint32, cause error) error {
	s.foundDamage(logName(seg), 0, cause)
	if err := s.loseHistory(); err != nil {
		return err
	}
	s.wal.mu.Lock()
	s.wal.seg, s.wal.off, s.wal.opened = seg, segmentHeaderBytes, nil
	s.account(seg, 0, 0)
	s.wal.mu.Unlock()
	return s.sealHere()
}

// replayRecord makes the change that a record tells of.
func (s *Store) replayRecord(seg uint32, r *record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.byNumber[r.number]
	switch {
	case r.kind == kindSynced:
		return nil
	case r.kind == kindCreate:
		id, keep := decodeCreate(r.payload)
		s.wal.mu.Lock()
		defer s.wal.mu.Unlock()
		if p == nil {
			p = s.addPartition(id, r.number, keep)
		}
		p.retention = keep
		return nil
	case p == nil && s.lost.history: // created in the damaged bytes
		s.nextNumber = max(s.nextNumber, r.number+1)
		return nil
	case p == nil:
		return fmt.Errorf("a record of kind %d is of partition number %d, which does not exist", r.kind, r.number)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	if s.isLost(r.number) && r.kind != kindDelete { // of a log that is not known to have been as it is here now
		if r.kind == kindPromise || r.kind == kindEnter {
			p.apply(kindPromise, r.payload)
		}
		if isBatch(r.kind) {
			s.lost.behind[seg] = struct{}{}
		}
		return nil
	}
	at := place{seg, r.pos, uint32(len(r.payload)), r.appended} //nolint:gosec // bounded
	switch r.kind {
	case kindBatch:
		if r.header.BaseOffset != p.end {
			return fmt.Errorf("partition %v ends at %d, the batch begins at %d", p.id, p.end, r.header.BaseOffset)
		}
		p.addBatch(&r.header, at, s.now())
		if s.wal.since == 0 {
			s.wal.since = at.appended
		}
	case kindMoved:
		p.addMoved(&r.header, at)
	case kindTruncate:
		end, found := decodeTruncate(r.payload)
		if end < p.start || end > p.end {
			return fmt.Errorf("partition %v has %d to %d, it was truncated to %d", p.id, p.start, p.end, end)
		}
		p.truncate(end, found)
	default:
		p.apply(r.kind, r.payload)
		if r.kind == kindDelete {
			delete(s.byID, p.id)
			delete(s.byNumber, p.number)
			delete(s.lost.parts, p.number)
		}
	}
	return nil
}

// sealReplayed seals a segment that ends as a full one does, or is not to be gone on with.
func (s *Store) sealReplayed(sc *scanner) error {
	if sc.pos != sc.size {
		s.foundDamage(sc.name, sc.pos, fmt.Errorf("%d bytes behind the segment's end", sc.size-sc.pos))
	}
	return s.sealHere()
}

// sealHere seals the segment that was replayed last.
func (s *Store) sealHere() error {
	w := s.wal
	w.mu.Lock()
	w.durable = w.tail()
	j := s.prepareSeal(w.seg, w.off)
	w.jobs, w.opened = []*sealJob{j}, nil
	w.mu.Unlock()
	return s.useReserve(func() error { return s.seal(j) })
}

// rewrite makes the last segment end durably at the scanner's place. Bytes that no record says were synced are written
// again: the kernel may hold them though the disk never got them, and would not write them for a new sync.
func (s *Store) rewrite(sc *scanner, synced uint32) (err error) {
	if sc.size > sc.pos {
		err = sc.f.Truncate(sc.pos)
	}
	buf := make([]byte, chunkBytes)
	for at := int64(synced); at < sc.pos && err == nil; {
		b := buf[:min(int64(len(buf)), sc.pos-at)]
		if _, err = sc.f.ReadAt(b, at); err == nil || errors.Is(err, io.EOF) {
			err = s.useReserve(func() error { return vfs.WriteAll(sc.f, b, at) })
		}
		at += int64(len(b))
	}
	if err == nil {
		err = errors.Join(sc.f.Sync(), s.fs.SyncDir("."))
	}
	if err != nil {
		return fmt.Errorf("repair the end of %s: %w", sc.name, err)
	}
	return nil
}

// reopen makes the last segment ready to be appended to. why says what is wrong with the bytes at the scanner's place;
// io.EOF: they are the end.
func (s *Store) reopen(sc *scanner, synced uint32, why error) error {
	if !errors.Is(why, io.EOF) {
		s.log.Warn("the end of the log had not been synced and is cut; nothing in it was acknowledged",
			zap.String("file", sc.name), zap.Int64("at", sc.pos), zap.Int64("bytes", sc.size-sc.pos), zap.NamedError("found", why))
	}
	if err := s.rewrite(sc, synced); err != nil {
		return err
	}
	s.file, s.fileSeg = sc.f, sc.seg
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	s.wal.durable = s.wal.tail()
	if s.wal.records > 0 && s.wal.since == 0 { // it has no batch that tells
		s.wal.since = s.ages.nowMillis()
	}
	return nil
}

var (
	errNoHeader = errors.New("the segment has no header")
	errRead     = errors.New("the file cannot be read") // which says nothing of what is in it
)

// scanner reads the records of a segment in order.
type scanner struct {
	f    vfs.File
	name string
	seg  uint32
	salt uint32
	size int64
	pos  int64
	buf  []byte
	at   int64 // of buf in the file

	pagewiseTo int64 // below it the file is read page by page: a larger piece could not be read

	changed int64 // ms; when the file was changed last before it was opened
	failed  error // a read failed, which says nothing of what is in the file
}

func (s *Store) scan(seg uint32) (*scanner, error) {
	name := logName(seg)
	f, err := s.reads.Open(name, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	sc := &scanner{f: f, name: name, seg: seg, pos: segmentHeaderBytes, changed: s.changedAt(seg)}
	if sc.size, err = f.Size(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	b := make([]byte, segmentHeaderBytes)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.Join(fmt.Errorf("read %s: %w", name, err), f.Close())
	}
	if sc.salt, err = decodeSegmentHeader(b[:n], seg); err != nil {
		if sc.size <= segmentHeaderBytes {
			err = errNoHeader
		}
		return nil, errors.Join(&DamageError{File: name, Cause: err}, f.Close())
	}
	return sc, nil
}

// peek is n bytes from pos, fewer at the end of the file. They are good until the next call.
func (sc *scanner) peek(n int) ([]byte, error) {
	if have := sc.at + int64(len(sc.buf)) - sc.pos; sc.pos < sc.at || have < int64(n) && sc.at+int64(len(sc.buf)) < sc.size {
		if err := sc.fill(n); err != nil {
			return nil, err
		}
	}
	return sc.buf[sc.pos-sc.at : min(sc.pos-sc.at+int64(n), int64(len(sc.buf)))], nil
}

// fill reads from pos on into buf: n bytes, unless the file ends before, and what else comes with them. Where a large piece
// cannot be read it goes on page by page, so that a bad page costs the records in it and no others.
func (sc *scanner) fill(n int) error {
	rest := sc.size - sc.pos
	need := min(int64(n), rest)
	page := min(max(need, pageBytes-sc.pos%pageBytes), rest)
	want := min(max(need, scanBytes), rest)
	if sc.pos < sc.pagewiseTo {
		want = page
	}
	m, err := sc.readPiece(want)
	if m < need && want > page && !saysNothing(err) {
		sc.pagewiseTo = sc.pos + want
		m, err = sc.readPiece(page)
	}
	if m >= need {
		return nil
	}
	sc.buf = sc.buf[:0]
	if saysNothing(err) {
		sc.failed = fmt.Errorf("read %s: %w", sc.name, err)
	}
	return fmt.Errorf("%w: %s at %d: %w", errRead, sc.name, sc.at, err)
}

// readPiece reads up to want bytes from pos on into buf.
func (sc *scanner) readPiece(want int64) (int64, error) {
	if int64(cap(sc.buf)) < want {
		sc.buf = make([]byte, want)
	}
	m, err := sc.f.ReadAt(sc.buf[:want], sc.pos)
	sc.buf, sc.at = sc.buf[:m], sc.pos
	return int64(m), err
}

// next is the next record; its payload is good until the next call. io.EOF: the file ends here.
func (sc *scanner) next() (record, error) {
	if sc.pos == sc.size {
		return record{}, io.EOF
	}
	b, err := sc.peek(recordHeaderBytes)
	if err != nil {
		return record{}, err
	}
	n, err := recordSize(b, uint32(sc.pos)) //nolint:gosec // below maxSegmentBytes and a record
	if err != nil {
		return record{}, err
	}
	if b, err = sc.peek(n); err != nil {
		return record{}, err
	}
	r, err := decodeRecord(b, sc.salt, uint32(sc.pos)) //nolint:gosec // as above
	if err == nil {
		sc.pos += int64(n)
	}
	return r, err
}

// proof looks behind pos for a record that says that the bytes at pos had been synced, and gives its place; 0: none.
func (sc *scanner) proof() (int64, error) {
	bad := sc.pos
	defer func() { sc.pos = bad }()
	for sc.pos = bad + 1; sc.pos < sc.size; sc.pos++ {
		b, err := sc.peek(recordHeaderBytes)
		if err != nil {
			return 0, err
		}
		pos := uint32(sc.pos) //nolint:gosec // as above
		n, err := recordSize(b, pos)
		if err != nil || int64(be.Uint32(b[12:])) <= bad {
			continue
		}
		k := kind(b[20])
		if b, err = sc.peek(n); err != nil {
			return 0, err
		}
		if recordSum(sc.salt, b, checked(k, b[recordHeaderBytes:])) == be.Uint32(b) {
			return sc.pos, nil
		}
	}
	return 0, nil
}

// scanRuns makes the index of a full segment from its records alone. What is damaged is not in it.
func (s *Store) scanRuns(seg uint32) (*sealJob, error) {
	scratch := &Store{wal: newWAL(&s.cfg), byNumber: make(map[uint32]*Partition), segs: make(map[uint32]*segment)}
	scratch.wal.seg = seg
	sc, err := s.scan(seg)
	if saysNothing(err) {
		return nil, err
	}
	if err != nil {
		s.foundDamage(logName(seg), 0, err)
		return scratch.prepareSeal(seg, segmentHeaderBytes), nil
	}
	defer func() { _ = sc.f.Close() }() // was only read
	for {
		r, err := sc.next()
		if err != nil && sc.failed == nil {
			s.foundDamage(sc.name, sc.pos, err)
			if !endOfFile(err) && sc.resync() && sc.failed == nil {
				continue
			}
		}
		if sc.failed != nil {
			return nil, sc.failed
		}
		if err != nil || r.kind == kindEnd {
			return scratch.prepareSeal(seg, uint32(sc.size)), nil //nolint:gosec // as above
		}
		if isBatch(r.kind) && !s.wrote(&r) {
			continue
		}
		r.appended = s.appendTime(millisOf(r.step), sc.changed)
		scratch.index(seg, &r)
	}
}

// wrote tells whether a batch can be one of its partition's log: what was truncated is of an older epoch than what is there
// now, and its truncation may be among the damaged records.
func (s *Store) wrote(r *record) bool {
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	p := s.byNumber[r.number]
	if p == nil {
		return true
	}
	i := sort.Search(len(p.epochs), func(i int) bool { return p.epochs[i].Start > r.header.BaseOffset }) - 1
	return i < 0 || p.epochs[i].Epoch == r.header.LeaderEpoch
}

// index takes a record into the index of its segment. s is scratch.
func (s *Store) index(seg uint32, r *record) {
	p := s.byNumber[r.number]
	if p == nil {
		p = newPartition(s, ID{}, r.number)
		s.byNumber[r.number] = p
	}
	at := place{seg, r.pos, uint32(len(r.payload)), r.appended} //nolint:gosec // bounded
	switch h := r.header; r.kind {
	case kindBatch:
		p.cutOut(h.BaseOffset, maxOffset)
		h.ProducerID = -1 // states are not needed
		p.addBatch(&h, at, 0)
	case kindMoved:
		p.end = max(p.end, h.NextOffset())
		p.addMoved(&h, at)
	case kindTruncate, kindLost:
		p.cutOut(toI64(r.payload), maxOffset)
	case kindReset, kindDelete:
		p.cutOut(0, maxOffset)
	}
}
