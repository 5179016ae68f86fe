package store

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"sort"

	"github.com/bornode/bornode/pubsub/batch"
)

// errGone says that a segment was removed between planning and reading: plan again.
var errGone = errors.New("the records were moved")

const planAgain = 8 // times; each time the log was changed meanwhile

// located is a batch and where it is.
type located struct {
	place
	base, next int64
}

// at is where the jth of some batches of the run is, behind which next begins.
func (r *run) at(es []entry, j int, next int64) located {
	e := &es[j]
	if j+1 < len(es) {
		next = es[j+1].base
	}
	return located{place{r.seg, e.pos, e.size, r.appended}, e.base, next}
}

// holds says whether a batch has the offsets that the index says.
func (l *located) holds(h *batch.Header) bool {
	return h.BaseOffset == l.base && h.NextOffset() == l.next
}

// Read gives whole batches from the one that holds from, those below upTo, at most maxBytes of them but at least one:
// nil if there is none below upTo. The caller owns the bytes. A batch may begin below from, as a record inside it was
// asked for. Errors: ErrOutOfRange, ErrDeleted, DamageError.
func (p *Partition) Read(from int64, maxBytes int, upTo int64) ([]byte, error) {
	for try := 0; ; try++ {
		at, err := p.locate(from, maxBytes, upTo)
		if err != nil || len(at) == 0 {
			if try < planAgain && gone(err) {
				continue
			}
			return nil, p.damage(err)
		}
		b, err := p.s.read(p.number, at)
		if try < planAgain && gone(err) {
			continue
		}
		return b, p.damage(err)
	}
}

// Pieces is Read without a copy of what memory has: whole batches, in pieces that follow each other. They may be the log's
// own bytes, which the caller does not change, nor keeps for long, for they hold memory.
func (p *Partition) Pieces(from int64, maxBytes int, upTo int64) (pieces [][]byte, err error) {
	at, err := p.locate(from, maxBytes, upTo)
	if err == nil && len(at) == 0 {
		return nil, nil
	}
	sum := 0
	for i := range at { // empty if there was an error: then Read tries again
		raw := p.s.wal.cached(at[i].seg, at[i].pos+recordHeaderBytes, at[i].size)
		if raw == nil {
			break
		}
		sum += len(raw)
		pieces = append(pieces, raw)
	}
	if len(pieces) > 0 {
		p.s.m.cachedBytes.Add(float64(sum))
		return pieces, nil
	}
	b, err := p.Read(from, maxBytes, upTo) // from the files, many at once
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return [][]byte{b}, nil
}

// damage counts an error of reading if it is damage, has it told, and gives it back.
func (p *Partition) damage(err error) error {
	if isDamage(err) {
		p.s.m.damaged.Inc()
		if f := p.s.onDamage.Load(); f != nil {
			(*f)(p.id, err)
		}
	}
	return err
}

// gone tells whether an error says that a segment was removed since the read was planned.
func gone(err error) bool {
	return errors.Is(err, errGone) || errors.Is(err, os.ErrNotExist) && !isDamage(err)
}

// Batches calls f with every batch from the one that holds from, those below upTo, until f fails. raw is f's.
func (p *Partition) Batches(from, upTo int64, f func(h batch.Header, raw []byte) error) error {
	for {
		b, err := p.Read(from, chunkBytes, upTo)
		if err != nil || len(b) == 0 {
			return err
		}
		if from, err = eachOf(b, f); err != nil {
			return err
		}
	}
}

// Scan is Batches without a copy of what memory has: raw may be the log's own bytes, which f neither changes nor keeps.
func (p *Partition) Scan(from, upTo int64, f func(h batch.Header, raw []byte) error) error {
	for {
		at, err := p.locate(from, chunkBytes, upTo)
		if err != nil && !gone(err) || err == nil && len(at) == 0 {
			return p.damage(err)
		}
		n := 0
		for ; n < len(at); n++ {
			raw := p.s.wal.cached(at[n].seg, at[n].pos+recordHeaderBytes, at[n].size)
			if raw == nil {
				break
			}
			h, _, err := batch.ParseHeader(raw)
			if err != nil {
				return err
			}
			p.s.m.cachedBytes.Add(float64(len(raw)))
			if err := f(h, raw); err != nil {
				return err
			}
			from = h.NextOffset()
		}
		if n > 0 {
			continue
		}
		b, err := p.Read(from, chunkBytes, upTo) // from the files, many at once
		if err != nil || len(b) == 0 {
			return err
		}
		if from, err = eachOf(b, f); err != nil {
			return err
		}
	}
}

// eachOf calls f with the batches in b and gives the offset behind them.
func eachOf(b []byte, f func(h batch.Header, raw []byte) error) (next int64, err error) {
	for len(b) > 0 {
		h, size, err := batch.ParseHeader(b)
		if err != nil {
			return next, err
		}
		if err := f(h, b[:size:size]); err != nil {
			return next, err
		}
		b, next = b[size:], h.NextOffset()
	}
	return next, nil
}

// runsFrom copies the runs that a read needs.
func (p *Partition) runsFrom(from int64, maxBytes int, upTo int64) ([]run, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.deleted:
		return nil, ErrDeleted
	case from < p.start || from > p.end:
		return nil, fmt.Errorf("%w: %d of partition %v, which has %d to %d", ErrOutOfRange, from, p.id, p.start, p.end)
	}
	i := sort.Search(len(p.runs), func(i int) bool { return p.runs[i].next > from })
	var runs []run
	for sum := int64(0); i < len(p.runs) && len(runs) < maxRunsPerRead && sum < int64(maxBytes) && p.runs[i].base < upTo; i++ {
		if len(runs) > 0 { // the first may begin before from
			sum += p.runs[i].bytes
		}
		runs = append(runs, *p.runs[i])
	}
	return runs, nil
}

// locate finds the batches that a read gives.
func (p *Partition) locate(from int64, maxBytes int, upTo int64) ([]located, error) {
	runs, err := p.runsFrom(from, max(maxBytes, 1), upTo)
	if err != nil {
		return nil, err
	}
	var at []located
	sum := 0
	for i := range runs {
		r := &runs[i]
		for offset := max(from, r.base); offset < r.next; {
			es, next, err := p.s.entriesFrom(r, offset)
			if err != nil {
				return nil, err
			}
			for j := range es {
				l := r.at(es, j, next)
				if sum += int(l.size); l.next > upTo || len(at) > 0 && sum > maxBytes {
					return at, nil
				}
				at = append(at, l)
			}
			offset = next
		}
	}
	return at, nil
}

// read fetches batches: from memory what is new, from files in as few calls as they lie together.
func (s *Store) read(number uint32, at []located) ([]byte, error) {
	if len(at) == 1 { // as replicas and consumers ask that are up to date; a clone is not zeroed first
		if b := s.wal.cached(at[0].seg, at[0].pos+recordHeaderBytes, at[0].size); b != nil {
			s.m.cachedBytes.Add(float64(len(b)))
			return bytes.Clone(b), nil
		}
	}
	room := 0
	for i := range at {
		room += int(at[i].size) + recordHeaderBytes
	}
	out := make([]byte, 0, room)
	durable := s.wal.durableMark() // what is behind it may not be in its file yet
	for i := 0; i < len(at); {
		if b := s.wal.cached(at[i].seg, at[i].pos+recordHeaderBytes, at[i].size); b != nil {
			out = append(out, b...)
			s.m.cachedBytes.Add(float64(len(b)))
			i++
			continue
		}
		j, end := i+1, at[i].pos+recordHeaderBytes+at[i].size
		for j < len(at) && at[j].seg == at[i].seg && at[j].pos >= end && at[j].pos-end <= gapBytes && at[j].mark() <= durable {
			end = at[j].pos + recordHeaderBytes + at[j].size
			j++
		}
		var err error
		if out, err = s.readSpan(number, at[i:j], int(end-at[i].pos), out); err != nil {
			return nil, err
		}
		i = j
	}
	return out, nil
}

// readSpan appends the batches of one stretch of a segment: read whole behind out, then moved together.
func (s *Store) readSpan(number uint32, at []located, size int, out []byte) ([]byte, error) {
	n := len(out)
	if cap(out)-n < size {
		out = append(make([]byte, 0, n+size+size/4), out...)
	}
	span, name := out[n:n+size], logName(at[0].seg)
	salt, err := s.salt(at[0].seg)
	if err != nil {
		return nil, err
	}
	err = s.readAt(name, span, int64(at[0].pos))
	for i := 0; isDamage(err) && i < len(at); i++ { // one by one, to tell which: what lies between them is not needed
		if err := s.readAt(name, span[at[i].pos-at[0].pos:][:recordHeaderBytes+at[i].size], int64(at[i].pos)); err != nil {
			return nil, err
		}
	}
	if err != nil && !isDamage(err) {
		return nil, err
	}
	for i := range at {
		r, err := decodeRecord(span[at[i].pos-at[0].pos:], salt, at[i].pos)
		if err != nil && s.isCutShort(number, at[i], span[at[i].pos-at[0].pos:]) {
			return nil, s.damagedIndex(indexName(at[i].seg), 0)
		}
		if err != nil {
			return nil, &DamageError{File: name, Pos: int64(at[i].pos), Cause: err}
		}
		if !isBatch(r.kind) || r.number != number || !at[i].holds(&r.header) || len(r.payload) != int(at[i].size) {
			return nil, s.damagedIndex(indexName(at[i].seg), 0) // a whole record is here, another one
		}
		n += copy(out[n:n+len(r.payload)], r.payload)
		s.m.readBytes.Add(float64(len(r.payload)))
	}
	return out[:n], nil
}

// isCutShort tells that a record is longer than the index says, by its head, which is whole: b, read as far as the index
// says, lacks its end.
func (s *Store) isCutShort(number uint32, at located, b []byte) bool {
	if size, err := recordSize(b, at.pos); err != nil || size <= len(b) {
		return false
	}
	_, err := s.readHead(number, at)
	return err == nil
}

// salt is that of a segment's checksums.
func (s *Store) salt(seg uint32) (uint32, error) {
	w := s.wal
	w.mu.Lock()
	g := s.segs[seg]
	if seg == w.seg {
		defer w.mu.Unlock()
		return w.salt, nil
	}
	if g != nil && g.salted {
		defer w.mu.Unlock()
		return g.salt, nil
	}
	w.mu.Unlock()
	var b [segmentHeaderBytes]byte
	if err := s.readAt(logName(seg), b[:], 0); err != nil {
		return 0, err
	}
	salt, err := decodeSegmentHeader(b[:], seg)
	if err != nil {
		return 0, &DamageError{File: logName(seg), Cause: err}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if g != nil {
		g.salt, g.salted = salt, true
	}
	return salt, nil
}

// readHead reads the header of one batch.
func (s *Store) readHead(number uint32, at located) (h batch.Header, err error) {
	if b := s.wal.cached(at.seg, at.pos+recordHeaderBytes, batch.HeaderBytes); b != nil {
		if h, _, err = batch.ParseHeader(b); err == nil && !at.holds(&h) {
			err = s.damagedIndex(indexName(at.seg), 0)
		}
		return h, err
	}
	salt, err := s.salt(at.seg)
	if err != nil {
		return h, err
	}
	var b [recordHeaderBytes + batch.HeaderBytes]byte
	if err := s.readAt(logName(at.seg), b[:], int64(at.pos)); err != nil {
		return h, err
	}
	_, err = recordSize(b[:], at.pos)
	if err == nil && (recordSum(salt, b[:], b[recordHeaderBytes:]) != be.Uint32(b[:]) || be.Uint32(b[16:]) != number) {
		err = fmt.Errorf("%w: the head of a batch of partition %d", errRecord, number)
	}
	if err == nil {
		h, _, err = batch.ParseHeader(b[recordHeaderBytes:])
	}
	if err != nil {
		return h, &DamageError{File: logName(at.seg), Pos: int64(at.pos), Cause: err}
	}
	if !at.holds(&h) {
		return h, s.damagedIndex(indexName(at.seg), 0)
	}
	return h, nil
}

// entriesBefore are the last n entries of a run whose batches begin below end, which is above the run's base.
func (s *Store) entriesBefore(r *run, end int64, n int) ([]entry, error) {
	if !r.sealed() {
		es := r.entries[:search(r.entries, end-1)+1]
		return es[max(0, len(es)-n):], nil
	}
	at, err := s.indexEntries(r.seg)
	if err != nil {
		return nil, err
	}
	var fail error
	get := func(i, count int) []entry {
		b := make([]byte, count*indexEntryBytes)
		if err := s.readAt(indexName(r.seg), b, at+(int64(r.first)+int64(i))*indexEntryBytes); err != nil {
			fail = err
		}
		es := make([]entry, count)
		for i := range es {
			es[i] = decodeEntry(b[i*indexEntryBytes:])
		}
		return es
	}
	k := sort.Search(int(r.count), func(i int) bool { return fail != nil || get(i, 1)[0].base >= end })
	if fail != nil {
		return nil, fail
	}
	es := get(max(0, k-n), min(n, k))
	for len(es) > 1 && es[1].base <= r.base {
		es = es[1:]
	}
	return es, fail
}

// everything is above all offsets: an upTo that leaves nothing out.
const everything = int64(math.MaxInt64)
