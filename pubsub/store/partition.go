package store

import (
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bornode/bornode/pubsub/batch"
)

// ID names a partition: the topic's id in the contract and its number.
type ID struct {
	Topic     [32]byte
	Partition int32
}

func (id ID) String() string {
	return fmt.Sprintf("%s/%d", hex.EncodeToString(id.Topic[:4]), id.Partition)
}

// EpochStart says at which offset the batches of a leader epoch begin.
type EpochStart struct {
	Epoch int32
	Start int64
}

// Partition is the log of one partition. All methods may be called concurrently.
type Partition struct {
	s      *Store
	id     ID
	number uint32 // in this store; never used again

	committed      atomic.Int64
	savedCommitted atomic.Int64 // what the log says of it

	mu sync.Mutex
	// guarded by mu and wal.mu: see the package's text
	deleted    bool
	retention  Retention
	start, end int64
	promised   int32 // -1: none
	entered    int32 // -1: none
	epochs     []EpochStart
	runs       []*run // ascending, contiguous
	producers  map[int64]*producer
	snapped    uint32 // the snapshots of segments up to this one have the state
	// guarded by mu
	unsynced []reached
	durable  int64
	changed  chan struct{} // nil: nobody waits
}

// reached says that the log reached an offset with a record.
type reached struct {
	mark Mark
	next int64
}

func newPartition(s *Store, id ID, number uint32) *Partition {
	return &Partition{s: s, id: id, number: number, promised: -1, entered: -1, producers: make(map[int64]*producer)}
}

// ID names the partition.
func (p *Partition) ID() ID { return p.id }

// Start is the first offset that is kept.
func (p *Partition) Start() int64 { p.mu.Lock(); defer p.mu.Unlock(); return p.start }

// End is the offset that the next record will get.
func (p *Partition) End() int64 { p.mu.Lock(); defer p.mu.Unlock(); return p.end }

// DurableEnd is the end of what is durable here.
func (p *Partition) DurableEnd() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(p.s.wal.durableMark())
	return p.durable
}

// settle moves durable up to what is synced. The caller holds mu.
func (p *Partition) settle(m Mark) {
	n := 0
	for n < len(p.unsynced) && p.unsynced[n].mark <= m {
		p.durable = p.unsynced[n].next
		n++
	}
	if p.unsynced = p.unsynced[n:]; len(p.unsynced) == 0 {
		p.unsynced = nil
	}
}

// Position is the epoch last entered (-1: none) and the end of the log: what elections compare.
func (p *Partition) Position() (epoch int32, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.entered, p.end
}

// Promised is the newest epoch that was promised, -1 if none was.
func (p *Partition) Promised() int32 { p.mu.Lock(); defer p.mu.Unlock(); return p.promised }

// Epochs are the leader epochs of the batches in the log, ascending.
func (p *Partition) Epochs() []EpochStart {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.epochs)
}

// EndOf is the newest epoch of the log that is not above epoch and the offset where it ends. The records of one that is
// older than all that is kept are gone: the answer is that epoch itself and where the first one that is kept begins, so that
// who read up to there goes on. A negative one is unknown: -1, -1.
func (p *Partition) EndOf(epoch int32) (int32, int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.end
	for i := len(p.epochs) - 1; epoch >= 0 && epoch != p.entered && i >= 0; i-- {
		if p.epochs[i].Epoch <= epoch {
			return p.epochs[i].Epoch, next
		}
		next = p.epochs[i].Start
	}
	if epoch < 0 {
		return -1, -1
	}
	return epoch, next
}

// SetCommitted says how far the log is committed. It never goes back, and not beyond End.
func (p *Partition) SetCommitted(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if offset = min(offset, p.end); offset > p.committed.Load() {
		p.committed.Store(offset)
		p.signal()
	}
}

// Committed is the high watermark known here. It is written down lazily: after a restart it may be lower.
func (p *Partition) Committed() int64 { return p.committed.Load() }

// Changed is closed at the next change of End or Committed. Take it before looking at them.
func (p *Partition) Changed() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.changed == nil {
		p.changed = make(chan struct{})
		if p.deleted {
			close(p.changed)
		}
	}
	return p.changed
}

func (p *Partition) signal() {
	if p.changed != nil && !p.deleted {
		close(p.changed)
		p.changed = nil
	}
}

// The rest changes state. The caller holds mu and wal.mu.

// addBatch takes a batch at the end of the log.
func (p *Partition) addBatch(h *batch.Header, at place, now int64) {
	e := entry{base: h.BaseOffset, maxTs: h.MaxTimestamp, appended: at.appended, pos: at.pos, size: at.size}
	var r *run
	if n := len(p.runs); n > 0 {
		if l := p.runs[n-1]; l.seg == at.seg && !l.sealed() && !l.moved && l.next == e.base {
			r = l
		}
	}
	if r == nil {
		r = p.newRun(at.seg, e.base, false)
		p.runs = append(p.runs, r)
	}
	p.extend(r, e, h.NextOffset())
	p.end = h.NextOffset()
	if n := len(p.epochs); n == 0 || h.LeaderEpoch > p.epochs[n-1].Epoch {
		if n == maxEpochs {
			p.epochs = slices.Delete(p.epochs, 0, 1)
		}
		p.epochs = append(p.epochs, EpochStart{h.LeaderEpoch, h.BaseOffset})
	}
	p.sent(h, now)
}

func (p *Partition) newRun(seg uint32, base int64, moved bool) *run {
	r := &run{number: p.number, seg: seg, moved: moved, base: base, next: base, maxTs: -1, entries: make([]entry, 0, 1)}
	p.s.wal.opened = append(p.s.wal.opened, r)
	p.s.account(seg, 0, 1)
	return r
}

func (p *Partition) extend(r *run, e entry, next int64) {
	r.entries = append(r.entries, e)
	r.next = next
	r.maxTs = max(r.maxTs, e.maxTs)
	r.appended = max(r.appended, e.appended)
	r.bytes += int64(e.size)
	p.s.account(r.seg, int64(e.size), 0)
}

// addMoved takes a batch that was copied forward, in the place of what holds its offsets, as far as these are the log's: of
// one that begins below start, the rest may have been truncated. False: it is live no more.
func (p *Partition) addMoved(h *batch.Header, at place) bool {
	base, next := max(h.BaseOffset, p.start), min(h.NextOffset(), p.end)
	if base >= next {
		return false
	}
	i := p.cutOut(base, next)
	e := entry{base: h.BaseOffset, maxTs: h.MaxTimestamp, appended: at.appended, pos: at.pos, size: at.size}
	if i > 0 {
		if l := p.runs[i-1]; l.seg == at.seg && !l.sealed() && l.moved && l.next == base {
			p.extend(l, e, next)
			return true
		}
	}
	r := p.newRun(at.seg, base, true)
	p.runs = slices.Insert(p.runs, i, r)
	p.extend(r, e, next)
	return true
}

// cutOut takes [from, to) out of the runs, and returns where in them a run with these offsets belongs.
func (p *Partition) cutOut(from, to int64) int {
	i := 0
	for i < len(p.runs) && p.runs[i].next <= from {
		i++
	}
	if i < len(p.runs) && p.runs[i].base < from {
		head := p.runs[i]
		if head.next > to { // both ends stay: the tail becomes a run of its own
			tail := *head
			if !tail.sealed() && tail.seg == p.s.wal.seg {
				p.s.wal.opened = append(p.s.wal.opened, &tail)
			}
			p.s.account(tail.seg, tail.bytes, 1)
			p.runs = slices.Insert(p.runs, i+1, &tail)
		}
		p.cutRun(head, head.base, from)
		i++
	}
	j := i
	for j < len(p.runs) && p.runs[j].next <= to {
		p.dropRun(p.runs[j])
		j++
	}
	p.runs = slices.Delete(p.runs, i, j)
	if i < len(p.runs) && p.runs[i].base < to {
		p.cutRun(p.runs[i], to, p.runs[i].next)
	}
	return i
}

// cutRun leaves [base, next) of a run, which is not empty.
func (p *Partition) cutRun(r *run, base, next int64) {
	before := r.bytes
	if r.sealed() {
		r.bytes = int64(float64(r.bytes) * float64(next-base) / float64(r.next-r.base)) // an estimate: exact would need the file
	} else {
		es := r.entries
		for len(es) > 1 && es[1].base <= base {
			es = es[1:]
		}
		n := len(es)
		for n > 1 && es[n-1].base >= next {
			n--
		}
		r.entries, r.bytes = es[:n:n], 0
		for _, e := range r.entries {
			r.bytes += int64(e.size)
		}
	}
	r.base, r.next = base, next
	p.s.account(r.seg, r.bytes-before, 0)
}

func (p *Partition) dropRun(r *run) { p.s.account(r.seg, -r.bytes, -1) }

// cutTo drops everything from end on.
func (p *Partition) cutTo(end int64) {
	p.cutOut(end, maxOffset)
	p.end = end
	p.start = min(p.start, end)
	for n := len(p.epochs); n > 0 && p.epochs[n-1].Start >= end; n-- {
		p.epochs = p.epochs[:n-1]
	}
}

// cutBelow drops everything below start.
func (p *Partition) cutBelow(start int64) {
	p.cutOut(0, start)
	p.start = start
	for len(p.epochs) > 1 && p.epochs[1].Start <= start {
		p.epochs = p.epochs[1:]
	}
	if len(p.epochs) > 0 && p.epochs[0].Start < start {
		p.epochs = slices.Clone(p.epochs)
		p.epochs[0].Start = start
	}
}

// reset empties the log; it goes on at offset.
func (p *Partition) reset(offset int64) {
	p.cutOut(0, maxOffset)
	p.start, p.end, p.epochs = offset, offset, nil
	p.forgetProducers()
}

// apply makes the change that a record tells of; batches and truncations have functions of their own.
func (p *Partition) apply(k kind, payload []byte) {
	switch k {
	case kindPromise:
		p.promised = max(p.promised, toI32(payload))
	case kindEnter:
		p.entered = max(p.entered, toI32(payload))
		p.promised = max(p.promised, p.entered)
	case kindStart:
		p.cutBelow(min(max(p.start, toI64(payload)), p.end))
	case kindReset:
		p.reset(toI64(payload))
	case kindCommitted:
		if v := min(toI64(payload), p.end); v > p.committed.Load() {
			p.committed.Store(v)
		}
		p.savedCommitted.Store(p.committed.Load())
	case kindLost:
		end, found := decodeTruncate(payload)
		p.lose(end, found)
	case kindDelete:
		p.cutOut(0, maxOffset)
		p.forgetProducers()
		p.epochs, p.deleted = nil, true
	}
}
