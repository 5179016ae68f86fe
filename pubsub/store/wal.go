package store

import (
	"context"
	"crypto/rand"
	"sort"
	"sync"
)

// Mark is a position in the log: everything before it is durable when Durable(mark) returns. Marks grow with every
// record; they mean nothing after the store was closed.
type Mark uint64

func markOf(seg, end uint32) Mark { return Mark(seg)<<32 | Mark(end) }

func (m Mark) segment() uint32 { return uint32(m >> 32) }
func (m Mark) end() uint32     { return uint32(m) } //nolint:gosec // the low half

// place is where a record is.
type place struct {
	seg, pos, size uint32 // size of the payload
	appended       int64  // ms; of a batch: when this broker appended it first
}

func (p place) mark() Mark { return markOf(p.seg, p.pos+recordHeaderBytes+p.size) }

// chunk is a piece of the newest part of the log. Bytes below len(buf) never change; len grows under wal.mu.
type chunk struct {
	seg, start uint32
	buf        []byte
}

func (c *chunk) end() uint32 { return c.start + uint32(len(c.buf)) } //nolint:gosec // below the segment's size

// wal is the appending end of the log.
type wal struct {
	segmentBytes int64
	cacheBytes   int64
	prepare      func(seg, size uint32) *sealJob // called with mu held when a segment is full
	now          func() int64                    // ms; the clock that ages are counted by

	mu      sync.Mutex
	seg     uint32
	off     uint32
	salt    uint32
	records int
	since   int64 // ms; when the first record of the segment was appended, 0: none yet
	roll    bool  // the next record begins a segment
	chunks  []*chunk
	held    int64 // bytes in chunks
	pending int64 // of them not durable
	durable Mark
	jobs    []*sealJob // full segments without an index file, ascending
	opened  []*run     // runs of the open segment
	err     error      // why appends are refused
	stuck   error      // why the last write failed
	unkept  error      // why the oldest job could not be done
	closed  bool
	flushed chan struct{} // closed when any of durable, jobs, err, stuck, closed has changed

	dirty    chan struct{} // something is pending
	urgent   chan struct{} // somebody waits for it
	sealable chan struct{} // a job may be ready for the keeper
}

func newWAL(cfg *Config) *wal {
	return &wal{segmentBytes: cfg.SegmentBytes, cacheBytes: cfg.CacheBytes, flushed: make(chan struct{}),
		dirty: make(chan struct{}, 1), urgent: make(chan struct{}, 1), sealable: make(chan struct{}, 1)}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// admit waits until there is room for an append. housekeeping records are also taken while the disk is full, as long as
// the reserve lets them be written.
func (w *wal) admit(housekeeping bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.closed:
			return ErrClosed
		case w.stuck != nil:
			return w.stuck
		case w.err != nil && !housekeeping:
			return w.err
		case w.unkept != nil && len(w.jobs) > maxUnsealed:
			return w.unkept
		case w.pending <= maxPendingBytes && len(w.jobs) <= maxUnsealed:
			return nil
		}
		ch := w.flushed
		w.mu.Unlock()
		poke(w.urgent)
		<-ch
		w.mu.Lock()
	}
}

// put appends a record that is no batch. The caller holds mu and changes the state that the record tells of before it
// lets go.
func (w *wal) put(number uint32, k kind, payload []byte) place {
	w.makeRoom(payload)
	return w.add(number, k, payload, 0)
}

// putBatch is put of a batch that this broker appended first at a time in ms.
func (w *wal) putBatch(number uint32, k kind, raw []byte, appended int64) place {
	w.makeRoom(raw)
	return w.add(number, k, raw, appended)
}

// makeRoom ends the segment if a payload has no room in it.
func (w *wal) makeRoom(payload []byte) {
	n := recordHeaderBytes + len(payload)
	if full := int64(w.off)+int64(n)+recordHeaderBytes > w.segmentBytes || w.records >= maxSegmentRecords; w.off > segmentHeaderBytes && (full || w.roll) {
		w.next()
	}
}

// add writes a record at the end of the segment. appended is in ms, 0 of what is no batch.
func (w *wal) add(number uint32, k kind, payload []byte, appended int64) place {
	at := place{w.seg, w.off, uint32(len(payload)), appended} //nolint:gosec // bounded by maxPayloadBytes
	durable := uint32(0)
	if w.durable.segment() == w.seg {
		durable = w.durable.end()
	}
	n := recordHeaderBytes + len(payload)
	c := w.chunk(n)
	step := uint32(0)
	if isBatch(k) {
		step = stepOf(appended)
	}
	c.buf = putRecord(c.buf, w.salt, at.pos, durable, number, k, step, payload)
	w.off += uint32(n) //nolint:gosec // as above
	w.held += int64(n)
	w.pending += int64(n)
	w.records++
	if w.since == 0 {
		w.since = w.now()
	}
	poke(w.dirty)
	return at
}

// chunk is the newest chunk, with room for n bytes.
func (w *wal) chunk(n int) *chunk {
	if len(w.chunks) > 0 {
		if c := w.chunks[len(w.chunks)-1]; c.seg == w.seg && c.end() == w.off && len(c.buf)+n <= cap(c.buf) {
			return c
		}
	}
	c := &chunk{seg: w.seg, start: w.off, buf: make([]byte, 0, max(n, int(min(chunkBytes, w.segmentBytes))))}
	w.chunks = append(w.chunks, c)
	return c
}

// next ends the segment and begins another.
func (w *wal) next() {
	w.add(0, kindEnd, nil, 0)
	w.jobs = append(w.jobs, w.prepare(w.seg, w.off))
	w.begin(w.seg + 1)
}

func (w *wal) begin(seg uint32) {
	var salt [4]byte
	_, _ = rand.Read(salt[:]) // never fails
	w.seg, w.off, w.salt, w.records, w.since, w.roll, w.opened = seg, 0, be.Uint32(salt[:]), 0, 0, false, nil
	c := w.chunk(segmentHeaderBytes)
	c.buf = append(c.buf, encodeSegmentHeader(seg, w.salt)...)
	w.off = segmentHeaderBytes
	w.held += segmentHeaderBytes
	w.pending += segmentHeaderBytes
}

func (w *wal) tail() Mark { return markOf(w.seg, w.off) }

func (w *wal) end() Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tail()
}

func (w *wal) durableMark() Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.durable
}

func (w *wal) broadcast() {
	close(w.flushed)
	w.flushed = make(chan struct{})
}

// wait returns when everything before m is durable, or with the reason why that cannot be said.
func (w *wal) wait(ctx context.Context, m Mark) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.durable >= m:
			return nil
		case w.stuck != nil:
			return w.stuck
		case w.closed:
			return ErrClosed
		}
		ch := w.flushed
		w.mu.Unlock()
		poke(w.urgent)
		select {
		case <-ch:
			w.mu.Lock()
		case <-ctx.Done():
			w.mu.Lock()
			return ctx.Err()
		}
	}
}

// part is what is pending of one segment.
type part struct {
	seg, from, to uint32
	pieces        [][]byte
	full          bool // nothing more comes
}

// pendingPart is the oldest part that is not durable; false: none.
func (w *wal) pendingPart() (part, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := sort.Search(len(w.chunks), func(i int) bool { return markOf(w.chunks[i].seg, w.chunks[i].end()) > w.durable })
	if i == len(w.chunks) {
		return part{}, false
	}
	p := part{seg: w.chunks[i].seg, from: w.chunks[i].start}
	if w.durable.segment() == p.seg {
		p.from = max(p.from, w.durable.end())
	}
	for skip := p.from - w.chunks[i].start; i < len(w.chunks) && w.chunks[i].seg == p.seg; i++ {
		p.pieces = append(p.pieces, w.chunks[i].buf[skip:])
		p.to, skip = w.chunks[i].end(), 0
	}
	p.full = w.seg > p.seg
	return p, true
}

// done says that a part is durable.
func (w *wal) done(p part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.durable = markOf(p.seg, p.to)
	w.pending -= int64(p.to - p.from)
	w.stuck = nil
	w.trim()
	w.broadcast()
	if p.full {
		for _, j := range w.jobs {
			j.flushed = j.flushed || j.seg == p.seg
		}
		poke(w.sealable)
	}
}

// trim lets go of the oldest durable chunks above the size of the cache.
func (w *wal) trim() {
	n := 0
	for n < len(w.chunks)-1 && w.held > w.cacheBytes && markOf(w.chunks[n].seg, w.chunks[n].end()) <= w.durable {
		w.held -= int64(len(w.chunks[n].buf))
		w.chunks[n] = nil
		n++
	}
	if w.chunks = w.chunks[n:]; n > 0 && cap(w.chunks) > 2*len(w.chunks)+64 {
		w.chunks = append([]*chunk(nil), w.chunks...)
	}
}

// failed says that a part could not be made durable. reopen: what the file holds is not known; the segment is left as
// soon as its bytes were written again.
func (w *wal) failed(err error, reopen bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stuck, w.err = err, err
	w.roll = w.roll || reopen
	w.broadcast()
}

// refuse sets why appends are refused; nil takes them again.
func (w *wal) refuse(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
	w.broadcast()
}

// cached is the part of the log from pos of seg if memory has all n bytes of it. The bytes never change.
func (w *wal) cached(seg, pos, n uint32) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := sort.Search(len(w.chunks), func(i int) bool {
		c := w.chunks[i]
		return markOf(c.seg, c.end()) > markOf(seg, pos)
	})
	if i == len(w.chunks) {
		return nil
	}
	c := w.chunks[i]
	if c.seg != seg || pos < c.start || pos+n > c.end() {
		return nil
	}
	return c.buf[pos-c.start : pos-c.start+n : pos-c.start+n]
}
