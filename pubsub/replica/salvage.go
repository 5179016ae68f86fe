package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/bornode/bornode/pubsub/batch"
	"go.uber.org/zap"
)

// origin names a batch for ever: the epoch and offset under which it was appended first.
type origin struct {
	epoch  int32
	offset int64
}

// A copy of a salvaged batch carries its origin where a producer's id would be: ids below -1 mean no producer to every
// client, and Append takes none from producers.
func originOf(h *batch.Header) origin {
	if h.ProducerID < -1 {
		return origin{epoch: h.FirstSequence, offset: -2 - h.ProducerID}
	}
	return origin{epoch: h.LeaderEpoch, offset: h.BaseOffset}
}

// marked is a copy of a batch that names its origin. It wraps nothing: the records stay as they are.
func marked(h batch.Header, raw []byte, o origin) []byte {
	h.ProducerID, h.ProducerEpoch, h.FirstSequence = -2-o.offset, -1, o.epoch
	return batch.Encode(h, batch.Records(raw))
}

const setAsideHead = 8 + 4 + 8

// wrap makes an entry of a stash of a batch: cut is where the log that it was cut off parted from the leader's.
func wrap(raw []byte, o origin, cut, at int64) []byte {
	b := make([]byte, 0, setAsideHead+len(raw))
	b = binary.BigEndian.AppendUint64(b, uint64(cut))
	b = binary.BigEndian.AppendUint32(b, uint32(o.epoch))
	b = binary.BigEndian.AppendUint64(b, uint64(o.offset))
	h := batch.Header{BaseOffset: at, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, Count: 1}
	return batch.Encode(h, append(b, raw...))
}

// unwrap reads an entry of a stash, which may come from a peer.
func unwrap(entry []byte) (h batch.Header, raw []byte, o origin, cut int64, err error) {
	r := reader{b: batch.Records(entry)}
	cut, o.epoch, o.offset = r.offset(), r.count(), r.offset()
	if r.bad {
		return h, nil, o, 0, fmt.Errorf("%w: salvaged batch without its origin", errMessage)
	}
	h, n, err := batch.Parse(r.b)
	if err != nil {
		return h, nil, o, 0, err
	}
	if n != len(r.b) || n > MaxBatchBytes || h.ProducerID >= 0 {
		return h, nil, o, 0, fmt.Errorf("%w: salvaged batch of %d bytes, producer %d", errMessage, n, h.ProducerID)
	}
	return h, r.b, o, cut, nil
}

// setAside copies what is about to be cut off to the stash, so that the leader can append it: what producers without an
// id were told is safe here. Batches with a producer's id are acknowledged only when a majority has them, so these never
// were; their producers send them again.
func (c *core) setAside(from, end int64) error {
	if from >= end {
		return nil
	}
	n := 0
	var last Mark
	err := c.data.Batches(from, end, func(h batch.Header, raw []byte) error {
		if h.ProducerID >= 0 || h.BaseOffset < from {
			return nil
		}
		if c.stash == nil {
			var err error
			if c.stash, err = c.out.openStash(true); err != nil {
				return err
			}
		}
		var err error
		last, err = c.stash.Accept(wrap(raw, originOf(&h), from, c.stash.End()))
		n++
		return err
	})
	if n > 0 {
		c.out.persist(last, c.snapshot())
		c.out.count(eventSetAside, n)
		c.out.busy()
	}
	return err
}

// handOver has the stash sent to the leader.
func (c *core) handOver() {
	if c.stash == nil || c.stashSent || c.lease.Leader == "" {
		return
	}
	switch {
	case c.role == leading && c.ready:
		c.ownSalvage()
	case c.lease.Leader != c.self:
		c.out.send(c.lease.Leader)
	}
	c.out.busy()
}

// nextSalvage is next for the leader as far as the stash goes.
func (c *core) nextSalvage(it item) (item, bool) {
	if c.stash == nil || c.stashSent || c.role == following && !c.aligned {
		return it, false
	}
	c.stashSent = true
	it.Kind, it.From, it.UpTo, it.max = kindSalvage, c.stash.Start(), c.stash.End(), readBytes
	return it, it.From < it.UpTo
}

// onSalvaged is told that the leader's log has the stash up to an offset, committed.
func (c *core) onSalvaged(upTo int64) {
	if c.stash == nil || upTo <= c.stash.Start() || upTo > c.stash.End() {
		return
	}
	var err error
	if upTo == c.stash.End() {
		err = c.out.dropStash()
		c.stash = nil
	} else {
		c.stash.SetCommitted(upTo)
		err = c.stash.DeleteBefore(upTo)
	}
	if err != nil {
		c.log.Warn("a partition's salvaged batches cannot be removed; they are handed over again, and known then", zap.Error(err))
		return
	}
	c.stashSent = false
	c.handOver()
}

// salvage is a leader's memory of the copies of salvaged batches in its log.
type salvage struct {
	from, next int64            // the part of the log that was looked through
	copies     map[origin]int64 // offset after each copy
	pending    []handed
}

// handed is a piece of a replica's stash whose batches are in the log, up to next.
type handed struct {
	peer string
	upTo int64 // in the stash
	next int64
}

// onSalvage appends the batches of a replica's stash that the log does not have.
func (c *core) onSalvage(peer string, it *item) {
	if c.role != leading || !c.ready || c.salvage != nil && len(c.salvage.pending) >= maxSalvaged {
		return
	}
	h := handed{peer: peer, upTo: it.From}
	err := batch.Each(it.Data, func(e batch.Header, entry []byte) error {
		b, raw, o, cut, err := unwrap(entry)
		if err != nil {
			return err
		}
		next, err := c.adopt(b, raw, o, cut)
		if err != nil {
			return err
		}
		h.next, h.upTo = max(h.next, next), e.NextOffset()
		return nil
	})
	if err != nil {
		c.out.count(eventRefused, 1)
		c.log.Warn("salvaged batches of a replica are not taken", zap.String("peer", peer), zap.Binary("topic", c.id.Topic[:]),
			zap.Int32("partition", c.id.Partition), zap.Error(err))
	}
	if h.upTo > it.From && c.salvage != nil {
		c.salvage.pending = append(c.salvage.pending, h)
		c.settleSalvage()
	}
}

// adopt appends one salvaged batch unless it is there, or retention has passed its place; it gives the offset after it.
func (c *core) adopt(h batch.Header, raw []byte, o origin, cut int64) (int64, error) {
	if next, ok := c.has(o, h); ok {
		return next, c.look(cut)
	}
	if err := c.look(cut); err != nil {
		return 0, err
	}
	if next, ok := c.salvage.copies[o]; ok {
		return next, nil
	}
	if o.offset < c.data.Start() {
		return 0, nil
	}
	a, err := c.data.Append(c.lease.Epoch, marked(h, raw, o), c.out.now())
	if err != nil {
		return 0, err
	}
	c.salvage.copies[o] = a.Next
	c.out.count(eventSalvaged, 1)
	c.appended(a.Mark)
	return a.Next, nil
}

// has tells whether the log holds the batch in its first place: an epoch has one log, so an offset of an epoch is one
// batch.
func (c *core) has(o origin, h batch.Header) (next int64, ok bool) {
	epochs := c.data.Epochs()
	for i, e := range epochs {
		end := c.data.End()
		if i+1 < len(epochs) {
			end = epochs[i+1].Start
		}
		if e.Epoch == o.epoch {
			return o.offset + int64(h.LastOffsetDelta) + 1, o.offset >= e.Start && o.offset < end
		}
	}
	return 0, false
}

// look searches the log from an offset on for copies of salvaged batches. A copy cannot lie before the place where the
// log that held the first one parted from this one.
func (c *core) look(from int64) error {
	from = max(from, c.data.Start())
	if c.salvage == nil || from < c.salvage.from {
		var pending []handed
		if c.salvage != nil {
			pending = c.salvage.pending
		}
		c.salvage = &salvage{from: from, next: from, copies: map[origin]int64{}, pending: pending}
	}
	s := c.salvage
	end := c.data.End()
	if s.next >= end {
		return nil
	}
	err := c.data.Batches(s.next, end, func(h batch.Header, _ []byte) error {
		if h.ProducerID < -1 {
			if len(s.copies) >= maxSalvageMarks {
				return fmt.Errorf("replica: more than %d salvaged batches behind offset %d", maxSalvageMarks, s.from)
			}
			s.copies[originOf(&h)] = h.NextOffset()
		}
		return nil
	})
	if err == nil {
		s.next = end
	}
	return err
}

// settleSalvage tells replicas whose batches are committed now.
func (c *core) settleSalvage() {
	s := c.salvage
	if s == nil || len(s.pending) == 0 {
		return
	}
	rest := s.pending[:0]
	own := int64(0)
	for _, h := range s.pending {
		m := c.members[h.peer]
		switch {
		case h.next > c.hw:
			rest = append(rest, h)
		case h.peer == c.self:
			own = max(own, h.upTo)
		case m != nil:
			m.salvaged, m.tellSalvaged = h.upTo, true
			c.out.send(h.peer)
		default:
			c.guests[h.peer] = h.upTo
			c.out.send(h.peer)
		}
	}
	s.pending = rest
	if own > 0 {
		c.onSalvaged(own)
	}
}

// ownSalvage is onSalvage for what this broker itself had to cut off before it took office.
func (c *core) ownSalvage() {
	c.stashSent = true
	it := item{From: c.stash.Start()}
	data, err := c.stash.Read(it.From, readBytes, c.stash.End())
	if err != nil {
		c.log.Warn("salvaged batches of this broker cannot be read; they are tried again", zap.Error(err))
		return
	}
	it.Data = data
	c.onSalvage(c.self, &it)
}
