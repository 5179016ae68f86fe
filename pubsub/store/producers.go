package store

import (
	"fmt"

	"github.com/bornode/bornode/pubsub/batch"
)

// sentBatch is a batch that a producer has sent.
type sentBatch struct {
	firstSeq, lastSeq int32
	base, next        int64
}

// producer is what a partition remembers of an idempotent producer: its epoch and its newest batches.
type producer struct {
	epoch int16
	n     uint8
	seen  int64                      // ms
	sent  [producerBatches]sentBatch // oldest first
}

func (r *producer) last() *sentBatch { return &r.sent[r.n-1] }

func (r *producer) add(b sentBatch) {
	if r.n == producerBatches {
		copy(r.sent[:], r.sent[1:])
		r.n--
	}
	r.sent[r.n] = b
	r.n++
}

// checkSequence says whether a batch of an idempotent producer is the next one (nil, nil) or one that is in the log. A new
// producer is refused where one that may still repeat a batch would have to be forgotten for it. The caller holds mu.
func (p *Partition) checkSequence(h *batch.Header, now int64) (*sentBatch, error) {
	if h.ProducerID < 0 {
		return nil, nil
	}
	r := p.producers[h.ProducerID]
	switch {
	case h.FirstSequence < 0 || h.ProducerEpoch < 0:
		return nil, fmt.Errorf("%w: producer %d sent epoch %d, sequence %d", ErrOutOfOrder, h.ProducerID, h.ProducerEpoch, h.FirstSequence)
	case r == nil: // never seen, or forgotten: its first word is believed, as Kafka does
		if p.crowded(1) {
			if _, seen := p.oldest(); seen <= now && seen > now-producerIdle.Milliseconds() { // a clock that went back locks nobody out
				return nil, fmt.Errorf("%w: producer %d", ErrProducers, h.ProducerID)
			}
		}
		return nil, nil
	case h.ProducerEpoch < r.epoch:
		return nil, fmt.Errorf("%w: producer %d has epoch %d, the batch %d", ErrProducerFenced, h.ProducerID, r.epoch, h.ProducerEpoch)
	case h.ProducerEpoch > r.epoch:
		if h.FirstSequence != 0 {
			return nil, fmt.Errorf("%w: producer %d begins epoch %d with %d", ErrOutOfOrder, h.ProducerID, h.ProducerEpoch, h.FirstSequence)
		}
		return nil, nil
	case r.n == 0:
		return nil, nil
	}
	for i := range r.sent[:r.n] {
		if b := &r.sent[i]; b.firstSeq == h.FirstSequence && b.lastSeq == h.LastSequence() {
			return b, nil
		}
	}
	if want := int32((int64(r.last().lastSeq) + 1) & 0x7fffffff); h.FirstSequence != want { //nolint:gosec // masked
		return nil, fmt.Errorf("%w: producer %d sent %d, %d is next", ErrOutOfOrder, h.ProducerID, h.FirstSequence, want)
	}
	return nil, nil
}

// sent remembers a batch that was added. The caller holds mu and wal.mu.
func (p *Partition) sent(h *batch.Header, now int64) {
	if h.ProducerID < 0 || h.FirstSequence < 0 || h.ProducerEpoch < 0 { // the last two only by Accept
		return
	}
	r := p.producers[h.ProducerID]
	if r == nil {
		// What a leader took its replicas take too: they have more room, and forget an active one only beyond that.
		if p.crowded(1) {
			if id, seen := p.oldest(); p.crowded(2) || seen <= now-producerIdle.Milliseconds() {
				delete(p.producers, id)
				p.s.producers.Add(-1)
			}
		}
		r = &producer{epoch: h.ProducerEpoch}
		p.producers[h.ProducerID] = r
		p.s.producers.Add(1)
	}
	if r.epoch != h.ProducerEpoch {
		r.epoch, r.n = h.ProducerEpoch, 0
	}
	r.seen = now
	r.add(sentBatch{h.FirstSequence, h.LastSequence(), h.BaseOffset, h.NextOffset()})
}

// crowded tells whether another producer is one too many, with times as much room as a leader has.
func (p *Partition) crowded(times int) bool {
	n := len(p.producers)
	return n >= times*maxProducers || n >= fewProducers && p.s.producers.Load() >= int64(times*maxAllProducers)
}

// oldest is the producer that was not seen for longest, and when it was; -1: there is none.
func (p *Partition) oldest() (id, seen int64) {
	id = -1
	for i, r := range p.producers {
		if id < 0 || r.seen < seen {
			id, seen = i, r.seen
		}
	}
	return id, seen
}

func (p *Partition) forgetProducers() {
	p.s.producers.Add(-int64(len(p.producers)))
	clear(p.producers)
}

// expireProducers forgets producers not seen since. The caller holds mu and wal.mu.
func (p *Partition) expireProducers(since int64) {
	for id, r := range p.producers {
		if r.seen < since {
			delete(p.producers, id)
			p.s.producers.Add(-1)
		}
	}
}

// sentBefore is what producers that lose all remembered batches at a truncation to end had sent before it, as far as
// the newest maxRebuildHeads batches tell: without it a batch from before the cut could be taken twice. The caller holds
// mu.
func (p *Partition) sentBefore(end int64) (map[int64]*producer, error) {
	lost := make(map[int64]*producer)
	for id, r := range p.producers {
		if r.n > 0 && r.sent[0].next > end {
			lost[id] = &producer{epoch: -1}
		}
	}
	if len(lost) == 0 {
		return nil, nil
	}
	var heads []batch.Header // newest first
	for i := len(p.runs) - 1; i >= 0 && len(heads) < maxRebuildHeads; i-- {
		r := p.runs[i]
		if r.base >= end {
			continue
		}
		next := min(end, r.next)
		es, err := p.s.entriesBefore(r, next, maxRebuildHeads-len(heads))
		if err != nil {
			return nil, err
		}
		for j := len(es) - 1; j >= 0; j-- {
			h, err := p.s.readHead(p.number, r.at(es, j, next))
			if err != nil {
				return nil, err
			}
			heads = append(heads, h)
		}
	}
	for i := len(heads) - 1; i >= 0; i-- {
		h := &heads[i]
		r := lost[h.ProducerID]
		if r == nil || h.FirstSequence < 0 || h.ProducerEpoch < 0 {
			continue
		}
		if r.epoch != h.ProducerEpoch {
			r.epoch, r.n = h.ProducerEpoch, 0
		}
		r.add(sentBatch{h.FirstSequence, h.LastSequence(), h.BaseOffset, h.NextOffset()})
	}
	return lost, nil
}

// The record of a truncation has the new end, i64, and what sentBefore found: a start could not find it again, for the
// segments that held it may be gone by then. Per batch, integers big-endian:
//
//	producer i64 | epoch i16 | first sequence i32 | last sequence i32 | base i64 | next i64
const (
	truncateBytes = 8
	sentBytes     = 34
)

func encodeTruncate(end int64, found map[int64]*producer) []byte {
	b := i64(end)
	for id, r := range found {
		for _, x := range r.sent[:r.n] {
			b = append(b, i64(id)...)
			b = be.AppendUint16(b, uint16(r.epoch)) //nolint:gosec // two's complement, read back the same way
			b = append(append(b, i32(x.firstSeq)...), i32(x.lastSeq)...)
			b = append(append(b, i64(x.base)...), i64(x.next)...)
		}
	}
	return b
}

func decodeTruncate(b []byte) (end int64, found map[int64]*producer) {
	end, found = toI64(b), make(map[int64]*producer)
	for b = b[truncateBytes:]; len(b) > 0; b = b[sentBytes:] {
		r := found[toI64(b)]
		if r == nil {
			r = new(producer)
			found[toI64(b)] = r
		}
		r.epoch = int16(be.Uint16(b[8:])) //nolint:gosec // as above
		r.add(sentBatch{toI32(b[10:]), toI32(b[14:]), toI64(b[18:]), toI64(b[26:])})
	}
	return end, found
}

// unsend forgets the batches from end on; found is what sentBefore said. The caller holds mu and wal.mu.
func (p *Partition) unsend(end int64, found map[int64]*producer) {
	for id, r := range p.producers {
		for r.n > 0 && r.last().next > end { // one that begins below the log's start may begin below end
			r.n--
		}
		if r.n > 0 {
			continue
		}
		if f := found[id]; f != nil && f.n > 0 {
			f.seen = r.seen
			p.producers[id] = f
			continue
		}
		delete(p.producers, id)
		p.s.producers.Add(-1)
	}
}
