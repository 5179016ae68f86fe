package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/bornode/bornode/pubsub/batch"
)

// memStore is a Store in memory. What is not durable is lost by crash, from some point on.
type memStore struct {
	mu      sync.Mutex
	ops     []memOp
	durable Mark // ops below are on disk
	failing error
	logs    map[ID]*memLog
	auto    bool // Durable makes durable
}

type memOp struct {
	id   ID
	kind string
	raw  []byte
	n    int64
}

type memLog struct {
	s                  *memStore
	id                 ID
	start, end         int64
	batches            []memBatch
	promised, accepted int32
	committed          int64
}

type memBatch struct {
	h   batch.Header
	raw []byte
}

func newMemStore() *memStore { return &memStore{logs: map[ID]*memLog{}} }

var errOutOfOrder = errors.New("out of order")

// crash gives the store as it would be found after a crash that kept the first n of the operations that are not durable.
func (s *memStore) crash(keep func(unsynced int) int) *memStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int(s.durable) + keep(len(s.ops)-int(s.durable))
	c := newMemStore()
	c.auto = s.auto
	c.durable = Mark(n)
	for _, op := range s.ops[:n] {
		if _, err := c.apply(op); err != nil {
			panic(err)
		}
	}
	return c
}

func (s *memStore) apply(op memOp) (Mark, error) {
	l := s.logs[op.id]
	switch op.kind {
	case "create":
		s.logs[op.id] = &memLog{s: s, id: op.id, promised: -1, accepted: -1}
	case "delete":
		delete(s.logs, op.id)
	case "batch":
		h, _, err := batch.Parse(op.raw)
		if err != nil {
			return 0, err
		}
		l.batches = append(l.batches, memBatch{h, op.raw})
		l.end = h.NextOffset()
	case "promise":
		l.promised = int32(op.n)
	case "enter":
		l.accepted = int32(op.n)
		l.promised = max(l.promised, l.accepted)
	case "truncate":
		i := slices.IndexFunc(l.batches, func(b memBatch) bool { return b.h.NextOffset() > op.n })
		if i >= 0 {
			if l.batches[i].h.BaseOffset < op.n {
				return 0, fmt.Errorf("cut inside a batch at %d", op.n)
			}
			l.batches = l.batches[:i:i]
		}
		l.end = op.n
	case "lost":
		l.batches = slices.DeleteFunc(slices.Clone(l.batches), func(b memBatch) bool { return b.h.NextOffset() > op.n })
		if l.end = l.start; len(l.batches) > 0 {
			l.end = l.batches[len(l.batches)-1].h.NextOffset()
		}
		l.accepted, l.committed = -1, min(l.committed, l.end)
	case "unpromised":
		l.promised = -1
	case "reset":
		l.batches, l.start, l.end = nil, op.n, op.n
		l.committed = max(l.committed, op.n)
	case "start":
		for len(l.batches) > 0 && l.batches[0].h.NextOffset() <= op.n {
			l.batches = l.batches[1:]
		}
		l.start = op.n
	case "committed":
		l.committed = op.n
	}
	s.ops = append(s.ops, op)
	return Mark(len(s.ops)), nil
}

func (s *memStore) Open(id ID, create bool) (Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logs[id] == nil {
		if !create {
			return nil, nil
		}
		if _, err := s.apply(memOp{id: id, kind: "create"}); err != nil {
			return nil, err
		}
	}
	return s.logs[id], nil
}

func (s *memStore) Delete(id ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.apply(memOp{id: id, kind: "delete"})
	return err
}

func (s *memStore) Durable(_ context.Context, m Mark) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failing != nil {
		return s.failing
	}
	s.durable = max(s.durable, m)
	return nil
}

func (l *memLog) do(kind string, n int64, raw []byte) (Mark, error) {
	return l.s.apply(memOp{id: l.id, kind: kind, n: n, raw: raw})
}

func (l *memLog) Append(epoch int32, raw []byte, now int64) (Appended, error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	h, _, err := batch.Parse(raw)
	if err != nil {
		return Appended{}, err
	}
	if epoch < l.promised {
		return Appended{}, errors.New("fenced")
	}
	if h.ProducerID >= 0 {
		next := int32(0)
		if l.start > 0 { // its batches may have been dropped
			next = h.FirstSequence
		}
		for _, b := range l.batches {
			if b.h.ProducerID == h.ProducerID {
				if b.h.FirstSequence == h.FirstSequence {
					return Appended{Base: b.h.BaseOffset, Next: b.h.NextOffset(), Mark: Mark(len(l.s.ops)), Duplicate: true}, nil
				}
				next = b.h.LastSequence() + 1
			}
		}
		if h.FirstSequence != next {
			return Appended{}, errOutOfOrder
		}
	}
	batch.Assign(raw, l.end, epoch)
	base := l.end
	m, err := l.do("batch", 0, raw)
	return Appended{Base: base, Next: l.end, Mark: m, Time: now}, err
}

func (l *memLog) Accept(raw []byte) (Mark, error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	h, _, err := batch.Parse(raw)
	if err != nil {
		return 0, err
	}
	if h.BaseOffset != l.end {
		return 0, fmt.Errorf("gap: %d after %d", h.BaseOffset, l.end)
	}
	return l.do("batch", 0, slices.Clone(raw))
}

func (l *memLog) Read(from int64, maxBytes int, upTo int64) ([]byte, error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if from < l.start || from > l.end {
		return nil, fmt.Errorf("out of range: %d of %d-%d", from, l.start, l.end)
	}
	var out []byte
	for _, b := range l.batches {
		if b.h.NextOffset() <= from {
			continue
		}
		if b.h.NextOffset() > upTo || len(out) > 0 && len(out)+len(b.raw) > maxBytes {
			break
		}
		out = append(out, b.raw...)
	}
	return out, nil
}

// Pieces gives the bytes in two pieces where it can.
func (l *memLog) Pieces(from int64, maxBytes int, upTo int64) ([][]byte, error) {
	data, err := l.Read(from, maxBytes, upTo)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	_, n, err := batch.ParseHeader(data)
	if err != nil || n >= len(data) {
		return [][]byte{data}, err
	}
	return [][]byte{data[:n], data[n:]}, nil
}

func (l *memLog) Batches(from, upTo int64, f func(h batch.Header, raw []byte) error) error {
	l.s.mu.Lock()
	list := slices.Clone(l.batches)
	l.s.mu.Unlock()
	for _, b := range list {
		h, _, _ := batch.Parse(b.raw)
		if h.NextOffset() > from && h.BaseOffset < upTo {
			if err := f(h, b.raw); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *memLog) get(f func() int64) int64 {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return f()
}

func (l *memLog) Start() int64     { return l.get(func() int64 { return l.start }) }
func (l *memLog) End() int64       { return l.get(func() int64 { return l.end }) }
func (l *memLog) Committed() int64 { return l.get(func() int64 { return l.committed }) }
func (l *memLog) Promised() int32  { return int32(l.get(func() int64 { return int64(l.promised) })) }
func (l *memLog) Position() (int32, int64) {
	return int32(l.get(func() int64 { return int64(l.accepted) })), l.End()
}

func (l *memLog) Epochs() []EpochStart {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	var list []EpochStart
	for _, b := range l.batches {
		h, _, _ := batch.ParseHeader(b.raw)
		if n := len(list); n == 0 || list[n-1].Epoch != h.LeaderEpoch {
			list = append(list, EpochStart{Epoch: h.LeaderEpoch, Start: h.BaseOffset})
		}
	}
	return list
}

func (l *memLog) change(kind string, n int64) (Mark, error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.do(kind, n, nil)
}

func (l *memLog) Promise(e int32) (Mark, error)    { return l.change("promise", int64(e)) }
func (l *memLog) Enter(e int32) (Mark, error)      { return l.change("enter", int64(e)) }
func (l *memLog) Truncate(end int64) (Mark, error) { return l.change("truncate", end) }
func (l *memLog) Reset(start int64) (Mark, error)  { return l.change("reset", start) }
func (l *memLog) DeleteBefore(o int64) error       { _, err := l.change("start", o); return err }
func (l *memLog) SetCommitted(o int64)             { _, _ = l.change("committed", o) }

// damagedAt is damage of a batch in memory.
type damagedAt int64

func (d damagedAt) Error() string { return fmt.Sprint("damage at ", int64(d)) }

func (l *memLog) Mend(damage error) (bool, Mark, error) {
	var at damagedAt
	if !errors.As(damage, &at) || int64(at) >= l.End() {
		return false, 0, nil
	}
	m, err := l.change("lost", int64(at))
	return true, m, err
}
