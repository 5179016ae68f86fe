package store

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
)

// pictured is what a partition must remember of a producer.
type pictured struct {
	epoch int16
	sent  []sentBatch
}

// next is the sequence number that must follow.
func (r pictured) next() int32 {
	return int32((int64(r.sent[len(r.sent)-1].lastSeq) + 1) & 0x7fffffff) //nolint:gosec // masked
}

func (r pictured) with(h *batch.Header) pictured {
	if r.epoch != h.ProducerEpoch {
		r = pictured{epoch: h.ProducerEpoch}
	}
	r.sent = append(slices.Clip(r.sent), sentBatch{h.FirstSequence, h.LastSequence(), h.BaseOffset, h.NextOffset()})
	r.sent = r.sent[max(0, len(r.sent)-producerBatches):]
	return r
}

// modelPart is what a partition must look like. Values are never changed, only replaced.
type modelPart struct {
	keep              Retention
	start, end        int64
	promised, entered int32
	epochs            []EpochStart
	batches           [][]byte // whole log, ascending; the first may begin before start
	producers         map[int64]pictured
}

func (m modelPart) epoch() int32 {
	if n := len(m.epochs); n > 0 {
		return m.epochs[n-1].Epoch
	}
	return 0
}

// grown is the part with one more batch.
func (m modelPart) grown(raw []byte) modelPart {
	h, _, _ := batch.Parse(raw)
	m.batches, m.end = append(slices.Clip(m.batches), slices.Clone(raw)), h.NextOffset()
	if len(m.epochs) == 0 || m.epoch() < h.LeaderEpoch {
		m.epochs = append(slices.Clip(m.epochs), EpochStart{h.LeaderEpoch, h.BaseOffset})
	}
	if h.ProducerID < 0 {
		return m
	}
	r, ok := m.producers[h.ProducerID]
	if !ok {
		r.epoch = h.ProducerEpoch
	}
	m.producers = maps.Clone(m.producers)
	if m.producers == nil {
		m.producers = make(map[int64]pictured)
	}
	m.producers[h.ProducerID] = r.with(&h)
	return m
}

// cut is the part without the batch that holds to and all behind it.
func (m modelPart) cut(to int64) modelPart {
	k := len(m.batches)
	for k > 0 {
		h, _, _ := batch.Parse(m.batches[k-1])
		if h.NextOffset() <= to {
			break
		}
		m.end = max(h.BaseOffset, m.start)
		k--
	}
	m.batches = slices.Clip(m.batches[:k])
	for k = len(m.epochs); k > 0 && m.epochs[k-1].Start >= m.end; {
		k--
	}
	m.epochs = slices.Clip(m.epochs[:k])
	left := make(map[int64]pictured)
	for id, r := range m.producers {
		for k = len(r.sent); k > 0 && r.sent[k-1].next > m.end; {
			k--
		}
		if r.sent = r.sent[:k]; k == 0 {
			r = m.told(id)
		}
		if len(r.sent) > 0 {
			left[id] = r
		}
	}
	m.producers = left
	return m
}

// told is what the log alone says of a producer.
func (m modelPart) told(id int64) (r pictured) {
	for _, b := range m.batches {
		if h, _, _ := batch.Parse(b); h.ProducerID == id {
			r = r.with(&h)
		}
	}
	return r
}

// from is the part without what lies below to.
func (m modelPart) from(to int64) modelPart {
	m.start = to
	for len(m.batches) > 0 {
		if h, _, _ := batch.Parse(m.batches[0]); h.NextOffset() > to {
			break
		}
		m.batches = m.batches[1:]
	}
	for len(m.epochs) > 1 && m.epochs[1].Start <= to {
		m.epochs = m.epochs[1:]
	}
	if m.epochs = slices.Clone(m.epochs); len(m.epochs) > 0 {
		m.epochs[0].Start = max(m.epochs[0].Start, to)
	}
	return m
}

func (m modelPart) equal(y modelPart) bool {
	return m.keep == y.keep && m.start == y.start && m.end == y.end && m.promised == y.promised && m.entered == y.entered &&
		slices.Equal(m.epochs, y.epochs) && slices.EqualFunc(m.batches, y.batches, bytes.Equal) &&
		maps.EqualFunc(m.producers, y.producers, func(a, b pictured) bool { return a.epoch == b.epoch && slices.Equal(a.sent, b.sent) })
}

type modelState map[int32]modelPart

func (a modelState) equal(b modelState) bool { return maps.EqualFunc(a, b, modelPart.equal) }

func (a modelState) String() (out string) {
	for _, n := range slices.Sorted(maps.Keys(a)) {
		v := a[n]
		out += fmt.Sprintf("%d: %d..%d, keeps %v, promised %d, entered %d, epochs %v, batches [", n, v.start, v.end, v.keep, v.promised, v.entered, v.epochs)
		for _, b := range v.batches {
			h, _, _ := batch.Parse(b)
			out += fmt.Sprintf("%d-%d/%08x ", h.BaseOffset, h.NextOffset(), h.CRC)
		}
		out += "] producers ["
		for _, id := range slices.Sorted(maps.Keys(v.producers)) {
			out += fmt.Sprintf("%d: %v ", id, v.producers[id])
		}
		out += "]\n"
	}
	return out
}

// view is the picture of a store.
func view(t *testing.T, s *Store) modelState {
	t.Helper()
	audit(t, s)
	out := modelState{}
	for _, x := range s.List() {
		p := s.Partition(x)
		v := modelPart{start: p.Start(), end: p.End(), promised: p.Promised(), epochs: p.Epochs(), batches: all(t, p), producers: make(map[int64]pictured)}
		v.entered, _ = p.Position()
		p.mu.Lock()
		v.keep = p.retention
		for id, r := range p.producers {
			v.producers[id] = pictured{r.epoch, slices.Clone(r.sent[:r.n])}
		}
		p.mu.Unlock()
		require.LessOrEqual(t, p.Committed(), v.end)
		out[x.Partition] = v
	}
	return out
}

// audit checks what a store says of its segments against the runs of its partitions.
func audit(t *testing.T, s *Store) {
	t.Helper()
	s.wal.mu.Lock()
	defer s.wal.mu.Unlock()
	type sum struct {
		live int64
		runs int
	}
	want, producers := make(map[uint32]sum), 0
	for _, p := range s.byNumber {
		at := p.start
		for _, r := range p.runs {
			require.Equal(t, at, r.base, "partition %v", p.id)
			require.Greater(t, r.next, r.base)
			at = r.next
			x := want[r.seg]
			want[r.seg] = sum{x.live + r.bytes, x.runs + 1}
			require.Equal(t, p.number, r.number)
			require.True(t, r.sealed() || r.entries[0].base <= r.base && r.entries[len(r.entries)-1].base < r.next)
			require.True(t, r.seg != s.wal.seg || slices.Contains(s.wal.opened, r), "a run of the open segment would be forgotten")
			require.NotNil(t, s.segs[r.seg])
		}
		require.Equal(t, p.end, at, "partition %v", p.id)
		producers += len(p.producers)
	}
	require.Equal(t, int64(producers), s.producers.Load())
	for seg, g := range s.segs {
		require.Equal(t, want[seg], sum{g.live, g.runs}, "segment %d", seg)
	}
}
