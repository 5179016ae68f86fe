package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/blockstore/faultfs"
	"github.com/bornode/bornode/pubsub/batch"
)

// modelPart is what a partition must look like. Values are never changed, only replaced.
type modelPart struct {
	start, end        int64
	promised, entered int32
	epochs            []EpochStart
	batches           [][]byte // whole log, ascending; the first may begin before start
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
	return m
}

type modelState map[int32]modelPart

func (a modelState) equal(b modelState) bool {
	return maps.EqualFunc(a, b, func(x, y modelPart) bool {
		return x.start == y.start && x.end == y.end && x.promised == y.promised && x.entered == y.entered &&
			slices.Equal(x.epochs, y.epochs) && slices.EqualFunc(x.batches, y.batches, bytes.Equal)
	})
}

// model drives a store and a picture of it through the same random operations.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	d       disk
	s       *Store
	now     modelState
	history []modelState // since the last sync; the first is durable
	seq     map[int64]int32
	seed    int
	dead    bool
}

func (m *model) view() modelState {
	out := modelState{}
	for _, x := range m.s.List() {
		p := m.s.Partition(x)
		v := modelPart{start: p.Start(), end: p.End(), promised: p.Promised(), epochs: p.Epochs(), batches: all(m.t, p)}
		v.entered, _ = p.Position()
		out[x.Partition] = v
	}
	return out
}

// step notes the state after an operation that the store took.
func (m *model) step(n int32, v modelPart) {
	m.now = maps.Clone(m.now)
	m.now[n] = v
	m.history = append(m.history, m.now)
}

// took says whether the store took an operation; after a planned crash or failure it may not.
func (m *model) took(err error) bool {
	if err == nil {
		return true
	}
	require.True(m.t, m.dead || errors.Is(err, ErrFailed) || errors.Is(err, ErrFull) || errors.Is(err, faultfs.ErrCrashed), "%v", err)
	return false
}

func (m *model) operate() {
	n := int32(m.rng.IntN(4))
	p := m.s.Partition(id(n))
	if p == nil {
		_, err := m.s.Create(id(n), Retention{})
		if m.took(err) {
			m.step(n, modelPart{promised: -1, entered: -1})
		}
		return
	}
	v := m.now[n]
	switch k := m.rng.IntN(100); {
	case k < 50:
		m.append(n, p, v)
	case k < 62:
		m.accept(n, p, v)
	case k < 68:
		m.truncate(n, p, v)
	case k < 74:
		m.deleteBefore(n, p, v)
	case k < 75:
		if _, err := p.Reset(v.end + 10); m.took(err) {
			m.step(n, modelPart{start: v.end + 10, end: v.end + 10, promised: v.promised, entered: v.entered})
		}
	case k < 78:
		e := max(v.promised, v.entered, v.epoch()) + 1
		if _, err := p.Promise(e); m.took(err) {
			v.promised = e
			m.step(n, v)
		}
	case k < 81:
		e := max(v.promised, v.entered, v.epoch(), 0)
		if _, err := p.Enter(e); m.took(err) {
			v.promised, v.entered = e, e
			m.step(n, v)
		}
	case k < 82:
		if m.took(m.s.Delete(id(n))) {
			m.now = maps.Clone(m.now)
			delete(m.now, n)
			m.history = append(m.history, m.now)
		}
	case k < 92:
		if m.took(m.s.Sync(m.t.Context())) {
			m.history = []modelState{m.now}
		}
	default:
		m.s.Tick(time.UnixMilli(1000))
	}
}

func (m *model) append(n int32, p *Partition, v modelPart) {
	m.seed++
	pid := int64(m.rng.IntN(3)) - 1
	key := pid*10 + int64(n)
	raw := made(m.seed, 1+m.rng.IntN(3), m.rng.IntN(1500), 5000, pid, 0, m.seq[key])
	epoch := max(v.promised, v.entered, v.epoch(), 0)
	a, err := p.Append(epoch, raw, time.Now().UnixMilli())
	if errors.Is(err, ErrOutOfOrder) { // some of its batches were lost by a crash or truncated: the producer begins anew
		h, _, _ := batch.Parse(raw)
		m.seq[key] = m.expected(v, h.ProducerID)
		return
	}
	if !m.took(err) {
		return
	}
	if a.Duplicate {
		require.True(m.t, slices.ContainsFunc(v.batches, func(b []byte) bool {
			h, _, _ := batch.Parse(b)
			return h.BaseOffset == a.Base && h.ProducerID == pid && h.FirstSequence == m.seq[key]
		}) || a.Base < v.start, "a batch that is not there was called a duplicate")
	} else {
		h, _, _ := batch.Parse(raw)
		require.Equal(m.t, v.end, h.BaseOffset)
		m.step(n, v.grown(raw))
	}
	if pid < 0 {
		return
	}
	h, _, _ := batch.Parse(raw)
	if !a.Duplicate {
		again, err := p.Append(epoch, slices.Clone(raw), 2000)
		if m.took(err) {
			require.True(m.t, again.Duplicate)
			require.Equal(m.t, a.Base, again.Base)
		}
	}
	m.seq[key] = h.LastSequence() + 1
}

// expected is the sequence number that a producer must send next, by the log.
func (m *model) expected(v modelPart, pid int64) (next int32) {
	for _, b := range v.batches {
		if h, _, _ := batch.Parse(b); h.ProducerID == pid {
			next = h.LastSequence() + 1
		}
	}
	return next
}

func (m *model) accept(n int32, p *Partition, v modelPart) {
	m.seed++
	raw := plain(m.seed, 1+m.rng.IntN(5), m.rng.IntN(3000))
	batch.Assign(raw, v.end, v.epoch()+int32(m.rng.IntN(2)))
	if _, err := p.Accept(raw); m.took(err) {
		m.step(n, v.grown(raw))
	}
	bad := plain(m.seed, 1, 10)
	batch.Assign(bad, p.End()+1, 1000)
	_, err := p.Accept(bad)
	require.Error(m.t, err)
}

func (m *model) truncate(n int32, p *Partition, v modelPart) {
	low := max(p.Committed(), v.start)
	if low >= v.end {
		return
	}
	to := low + m.rng.Int64N(v.end-low)
	if _, err := p.Truncate(to); errors.Is(err, ErrCommitted) || !m.took(err) {
		return // the batch that holds it begins below what is committed
	}
	k := len(v.batches)
	for k > 0 {
		h, _, _ := batch.Parse(v.batches[k-1])
		if h.NextOffset() <= to {
			break
		}
		v.end = max(h.BaseOffset, v.start)
		k--
	}
	v.batches = slices.Clip(v.batches[:k])
	require.Equal(m.t, v.end, p.End())
	for k = len(v.epochs); k > 0 && v.epochs[k-1].Start >= v.end; {
		k--
	}
	v.epochs = slices.Clip(v.epochs[:k])
	m.step(n, v)
}

func (m *model) deleteBefore(n int32, p *Partition, v modelPart) {
	if v.end > v.start {
		p.SetCommitted(v.start + m.rng.Int64N(v.end-v.start+1))
	}
	c := p.Committed()
	require.Error(m.t, p.DeleteBefore(v.end+100))
	to := v.start
	if c > v.start {
		to += m.rng.Int64N(c - v.start + 1)
	}
	if to == v.start || !m.took(p.DeleteBefore(to)) {
		return
	}
	v.start = to
	for len(v.batches) > 0 {
		if h, _, _ := batch.Parse(v.batches[0]); h.NextOffset() > to {
			break
		}
		v.batches = v.batches[1:]
	}
	for len(v.epochs) > 1 && v.epochs[1].Start <= to {
		v.epochs = v.epochs[1:]
	}
	if v.epochs = slices.Clone(v.epochs); len(v.epochs) > 0 {
		v.epochs[0].Start = max(v.epochs[0].Start, to)
	}
	m.step(n, v)
}

// crash opens what is left of the disk and finds the state among those that may be.
func (m *model) crash(left disk) {
	_ = m.s.Close()
	m.d, m.dead = left, false
	s, err := Open(testConfig(), left, nil, nil)
	require.NoError(m.t, err)
	m.s = s
	got := m.view()
	i := slices.IndexFunc(m.history, func(x modelState) bool { return x.equal(got) })
	require.GreaterOrEqual(m.t, i, 0, "the state is none since the last sync:\n%s\n%s", describe(got), describe(m.history[len(m.history)-1]))
	m.now, m.history = got, []modelState{got}
}

func describe(s modelState) (out string) {
	for _, n := range slices.Sorted(maps.Keys(s)) {
		v := s[n]
		out += fmt.Sprintf("%d: %d..%d, promised %d, entered %d, epochs %v, %d batches\n", n, v.start, v.end, v.promised, v.entered, v.epochs, len(v.batches))
	}
	return out
}

func (m *model) round() {
	switch m.rng.IntN(4) {
	case 0: // the machine stops at some change
		at := m.d.Changes() + 1 + m.rng.IntN(60)
		m.d.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == at} }, m.rng.Uint64N(20))
		m.dead = true
	case 1: // some changes fail
		from, kind := m.d.Changes()+1+m.rng.IntN(40), m.rng.IntN(3)
		m.d.SetPlan(func(c faultfs.Change) faultfs.Verdict {
			switch {
			case c.Number < from || c.Number > from+4:
				return faultfs.Verdict{}
			case c.Kind == faultfs.Write && kind == 0:
				return faultfs.Verdict{Err: syscall.ENOSPC, Short: 10}
			case kind == 1:
				return faultfs.Verdict{Err: errIO}
			}
			return faultfs.Verdict{}
		}, 1)
	}
	for range 20 + m.rng.IntN(100) {
		if m.operate(); m.d.Crashed() != nil {
			break
		}
	}
	left := m.d.Crashed()
	plan := m.d.Disk
	plan.SetPlan(nil, 0)
	switch {
	case left != nil:
	case m.rng.IntN(3) == 0:
		left = m.d.Copy() // as a killed process leaves it
	default:
		left = m.d.Crash(m.rng.Uint64N(20))
	}
	m.crash(disk{left})
}

// TestRandomOperationsAgainstAModel checks after every crash that the log is what it was after one of the operations since
// the last sync, and at that moment every batch can be read and every duplicate is known.
func TestRandomOperationsAgainstAModel(t *testing.T) {
	seeds, rounds := 12, 12
	if os.Getenv("BORNODE_LONG") == "1" {
		seeds, rounds = 300, 30
	}
	for seed := range seeds {
		m := &model{t: t, rng: rand.New(rand.NewPCG(uint64(seed), 3)), d: newDisk(), seq: make(map[int64]int32), now: modelState{}, history: []modelState{{}}} //nolint:gosec // a test
		m.s = open(t, m.d, testConfig())
		for round := range rounds {
			m.round()
			require.False(t, t.Failed(), "seed %d round %d", seed, round)
		}
		require.NoError(t, m.s.Close())
	}
}
