package store

import (
	"fmt"
	"slices"

	"github.com/bornode/bornode/pubsub/batch"
)

// Appended says where a batch is. Offsets are [Base, Next); Time is the append time in ms. Duplicate: the producer had
// sent the batch before, and it is where it was then.
type Appended struct {
	Base, Next int64
	Mark       Mark
	Duplicate  bool
	Time       int64
}

// parseOne reads the one batch that raw is.
func parseOne(raw []byte) (batch.Header, error) {
	h, n, err := batch.Parse(raw)
	if err == nil && n != len(raw) {
		err = fmt.Errorf("%w: %d bytes behind it", batch.ErrCorrupt, len(raw)-n)
	}
	return h, err
}

// Append takes a producer's batch as the leader of an epoch. raw is exactly one batch; it belongs to the store, which
// stamps offset and epoch into it, and may be read by the caller afterwards, not changed. now is in ms. What is returned
// counts once Durable(Mark) is nil. Errors: those of batch.Parse, ErrOutOfOrder, ErrProducerFenced, ErrProducers, ErrFenced,
// ErrFull, ErrFailed, ErrDeleted, ErrClosed.
func (p *Partition) Append(epoch int32, raw []byte, now int64) (Appended, error) {
	h, err := parseOne(raw)
	if err != nil {
		return Appended{}, err
	}
	w := p.s.wal
	if err := w.admit(false); err != nil {
		return Appended{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.may(epoch); err != nil {
		return Appended{}, err
	}
	dup, err := p.checkSequence(&h, now)
	if err != nil {
		return Appended{}, fmt.Errorf("partition %v: %w", p.id, err)
	}
	if dup != nil {
		p.s.m.duplicates.Inc()
		return Appended{Base: dup.base, Next: dup.next, Mark: w.end(), Duplicate: true, Time: now}, nil
	}
	if p.end > maxOffset-batch.MaxRecords-1 {
		return Appended{}, fmt.Errorf("%w: partition %v has come to offset %d", ErrLimit, p.id, p.end)
	}
	batch.Assign(raw, p.end, epoch)
	h.BaseOffset, h.LeaderEpoch = p.end, epoch
	a := Appended{Base: h.BaseOffset, Next: h.NextOffset(), Time: now}
	a.Mark = p.add(&h, raw, now)
	return a, nil
}

// may says whether the leader of an epoch may append. The caller holds mu.
func (p *Partition) may(epoch int32) error {
	if p.deleted {
		return ErrDeleted
	}
	if least := max(p.promised, p.entered); epoch < least || epoch < 0 {
		return fmt.Errorf("%w: partition %v, epoch %d after %d", ErrFenced, p.id, epoch, least)
	}
	if n := len(p.epochs); n > 0 && epoch < p.epochs[n-1].Epoch {
		return fmt.Errorf("%w: partition %v, epoch %d after %d", ErrFenced, p.id, epoch, p.epochs[n-1].Epoch)
	}
	return nil
}

// add puts a checked batch at the end. The caller holds mu.
func (p *Partition) add(h *batch.Header, raw []byte, now int64) Mark {
	w := p.s.wal
	w.mu.Lock()
	at := w.putBatch(p.number, kindBatch, raw, w.now())
	p.touch()
	p.addBatch(h, at, now)
	durable := w.durable
	w.mu.Unlock()
	p.settle(durable)
	p.unsynced = append(p.unsynced, reached{at.mark(), p.end})
	p.s.m.batches.Inc()
	p.s.m.appended.Add(float64(len(raw)))
	p.signal()
	return at.mark()
}

// Accept takes a batch with the offset and epoch that the leader gave it. It must continue the log, else ErrGap. It may
// be of an older epoch than the one promised, as a new leader sends what old ones wrote. raw belongs to the store.
func (p *Partition) Accept(raw []byte) (Mark, error) {
	h, err := parseOne(raw)
	if err != nil {
		return 0, err
	}
	if err := p.s.wal.admit(false); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch n := len(p.epochs); {
	case p.deleted:
		return 0, ErrDeleted
	case h.BaseOffset != p.end:
		return 0, fmt.Errorf("%w: partition %v ends at %d, the batch begins at %d", ErrGap, p.id, p.end, h.BaseOffset)
	case h.LeaderEpoch < 0 || n > 0 && h.LeaderEpoch < p.epochs[n-1].Epoch:
		return 0, fmt.Errorf("%w: partition %v is at epoch %d, the batch of epoch %d", ErrGap, p.id, p.epochs[n-1].Epoch, h.LeaderEpoch)
	case h.NextOffset() > maxOffset:
		return 0, fmt.Errorf("%w: partition %v at offset %d", ErrLimit, p.id, h.NextOffset())
	}
	return p.add(&h, raw, p.s.now()), nil
}

// change puts a record and makes its change. The caller holds mu.
func (p *Partition) change(k kind, payload []byte) Mark {
	w := p.s.wal
	w.mu.Lock()
	defer w.mu.Unlock()
	at := w.put(p.number, k, payload)
	p.touch()
	p.apply(k, payload)
	return at.mark()
}

// Promise remembers that no leader of an older epoch may append here. It counts once it is durable.
func (p *Partition) Promise(epoch int32) (Mark, error) {
	return p.turn(kindPromise, epoch)
}

// Enter says that this log now agrees with the leader of the epoch.
func (p *Partition) Enter(epoch int32) (Mark, error) {
	return p.turn(kindEnter, epoch)
}

func (p *Partition) turn(k kind, epoch int32) (Mark, error) {
	if err := p.s.wal.admit(true); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch least := max(p.promised, p.entered); {
	case p.deleted:
		return 0, ErrDeleted
	case epoch < least || epoch < 0:
		return 0, fmt.Errorf("%w: partition %v, epoch %d after %d", ErrFenced, p.id, epoch, least)
	case k == kindPromise && epoch == p.promised, k == kindEnter && epoch == p.entered:
		return p.s.wal.end(), nil
	}
	return p.change(k, i32(epoch)), nil
}

// Truncate drops the batches from end on; one that holds end is dropped whole. Below Committed it is refused. Errors are
// also those of Read: the batch where the log is to end is looked at, and damage there is told as that of any read.
func (p *Partition) Truncate(end int64) (Mark, error) {
	m, err := p.truncateAt(end)
	return m, p.damage(err) // without the locks
}

func (p *Partition) truncateAt(end int64) (Mark, error) {
	w := p.s.wal
	if err := w.admit(true); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.deleted:
		return 0, ErrDeleted
	case end >= p.end:
		return w.end(), nil
	case end < p.committed.Load() || end < p.start:
		return 0, fmt.Errorf("%w: partition %v has committed %d and starts at %d; asked to truncate to %d", ErrCommitted, p.id, p.committed.Load(), p.start, end)
	}
	end, err := p.batchStart(end)
	if err != nil {
		return 0, err
	}
	if end < p.committed.Load() {
		return 0, fmt.Errorf("%w: partition %v has committed %d, the batch begins at %d", ErrCommitted, p.id, p.committed.Load(), end)
	}
	found, err := p.sentBefore(end)
	if err != nil {
		return 0, err
	}
	w.mu.Lock()
	at := w.put(p.number, kindTruncate, encodeTruncate(end, found))
	p.touch()
	p.truncate(end, found)
	w.mu.Unlock()
	p.durable = min(p.durable, end)
	p.unsynced = slices.DeleteFunc(p.unsynced, func(r reached) bool { return r.next > end })
	p.signal()
	return at.mark(), nil
}

// truncate drops what is from end on. The caller holds mu and wal.mu.
func (p *Partition) truncate(end int64, found map[int64]*producer) {
	p.unsend(end, found)
	p.cutTo(end)
}

// batchStart is the base offset of the batch that holds offset, which is in [start, end). The caller holds mu.
func (p *Partition) batchStart(offset int64) (int64, error) {
	for _, r := range p.runs {
		if offset >= r.base && offset < r.next {
			es, next, err := p.s.entriesFrom(r, offset)
			if err != nil {
				return 0, err
			}
			if _, err := p.s.readHead(p.number, r.at(es, 0, next)); err != nil { // the index alone is not believed
				return 0, err
			}
			return max(es[0].base, p.start), nil
		}
	}
	return 0, fmt.Errorf("%w: %d of partition %v", ErrOutOfRange, offset, p.id)
}

// DeleteBefore drops the records below offset, which is at most Committed: DeleteRecords. Whole pieces of the log are
// freed as they die. What Hold keeps stays for now, without an error.
func (p *Partition) DeleteBefore(offset int64) error {
	if f := p.s.hold.Load(); f != nil {
		if kept := (*f)(p.id, p.Start()); kept < offset {
			offset = kept
		}
	}
	if err := p.s.wal.admit(true); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.deleted:
		return ErrDeleted
	case offset <= p.start:
		return nil
	case offset > p.committed.Load():
		return fmt.Errorf("%w: %d is above the high watermark %d of partition %v", ErrOutOfRange, offset, p.committed.Load(), p.id)
	}
	p.change(kindStart, i64(offset))
	return nil
}

// Reset empties the log, which goes on at offset: for a replica whose leader has dropped what comes next here. Below
// Committed it is refused.
func (p *Partition) Reset(offset int64) (Mark, error) {
	if err := p.s.wal.admit(true); err != nil {
		return 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.deleted:
		return 0, ErrDeleted
	case offset < p.committed.Load() || offset > maxOffset:
		return 0, fmt.Errorf("%w: partition %v has committed %d; asked to begin anew at %d", ErrCommitted, p.id, p.committed.Load(), offset)
	}
	p.settle(p.s.wal.durableMark())
	m := p.change(kindReset, i64(offset))
	p.unsynced, p.durable = []reached{{m, offset}}, min(p.durable, offset)
	p.signal()
	return m, nil
}
