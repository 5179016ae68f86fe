package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/vfs/faultfs"
	"github.com/bornode/bornode/pubsub/batch"
)

const tracedSteps = 200 // that a failure tells of

// model drives a store and a picture of it through the same random operations.
type model struct {
	t       *testing.T
	rng     *rand.Rand
	cfg     Config
	d       disk
	s       *Store
	now     modelState
	history []modelState // since the last sync; the first is durable
	seed    int
	dead    bool // a crash is planned
	broken  bool // failures are planned
	trace   []string
	clock   *fakeClock
	written map[string]int64 // when the store was given a batch, by its bytes; ms of the clock
	claims  map[int32]int64  // of partitions: what the store called durable and nobody dropped since
	ticking chan struct{}    // closed when the Tick beside is done; nil: none
	copied  func()           // takes what was read to be copied forward, as a Tick does that is slow
}

// newModel begins with a seed. BORNODE_SEED=n takes other ones: a run that always does the same finds little more.
func newModel(t *testing.T, seed int) *model {
	if first, err := strconv.Atoi(os.Getenv("BORNODE_SEED")); err == nil {
		seed += first
	}
	m := &model{t: t, rng: rand.New(rand.NewPCG(uint64(seed), 3)), d: newDisk(), now: modelState{}, history: []modelState{{}}, claims: make(map[int32]int64)} //nolint:gosec // a test
	m.cfg, m.clock = clockedConfig()
	m.written = make(map[string]int64)
	m.cfg.SegmentBytes = minSegmentBytes << m.rng.IntN(3)
	m.cfg.CacheBytes = int64(m.rng.IntN(3)) * minSegmentBytes
	m.s = open(t, m.d, m.cfg)
	m.note("seed %d, segments of %d bytes, %d in memory", seed, m.cfg.SegmentBytes, m.cfg.CacheBytes)
	return m
}

// note remembers what was done: goroutines are in it, so that a seed alone does not do it again.
func (m *model) note(format string, args ...any) {
	if m.trace = append(m.trace, fmt.Sprintf(format, args...)); len(m.trace) > 2*tracedSteps {
		m.trace = slices.Clone(m.trace[tracedSteps:])
	}
}

// step notes the state after an operation that the store took.
func (m *model) step(n int32, v modelPart) {
	m.now = maps.Clone(m.now)
	m.now[n] = v
	m.history = append(m.history, m.now)
	m.claims[n] = min(m.claims[n], v.end)
}

// claim notes what the store calls durable, after every operation.
func (m *model) claim(n int32) {
	if p := m.s.Partition(id(n)); p != nil {
		m.claims[n] = max(m.claims[n], p.DurableEnd())
	}
}

// took says whether the store took an operation; after a planned crash or failure it may not.
func (m *model) took(err error) bool {
	if err == nil {
		return true
	}
	m.note("    %v", err)
	require.True(m.t, m.dead || errors.Is(err, ErrFailed) || errors.Is(err, ErrFull) || errors.Is(err, faultfs.ErrCrashed), "%v", err)
	return false
}

// trouble tells of an error that says that the store cannot write now.
func (m *model) trouble(err error) bool {
	return errors.Is(err, ErrFailed) || errors.Is(err, ErrFull) || m.dead && err != nil && !errors.Is(err, ErrOutOfOrder) && !errors.Is(err, ErrProducerFenced)
}

func (m *model) operate() {
	n := int32(m.rng.IntN(4))
	m.clock.pass(time.Duration(m.rng.IntN(60)) * time.Second)
	p := m.s.Partition(id(n))
	v, k := m.now[n], m.rng.IntN(120)
	if p == nil || n >= 2 && k == 0 {
		m.create(n, v, p == nil)
		return
	}
	switch {
	case k < 46:
		m.append(n, p, v)
	case k < 58:
		m.accept(n, p, v)
	case k < 65:
		m.truncate(n, p, v)
	case k < 72:
		m.deleteBefore(n, p, v)
	case k < 74:
		to := p.Committed() + m.rng.Int64N(v.end+10-p.Committed())
		m.note("%d: begin anew at %d", n, to)
		if _, err := p.Reset(to); m.took(err) {
			m.claims[n] = 0
			m.step(n, modelPart{keep: v.keep, start: to, end: to, promised: v.promised, entered: v.entered})
		}
	case k < 76:
		e := max(v.promised, v.entered, v.epoch()) + 1
		m.note("%d: promise %d", n, e)
		if _, err := p.Promise(e); m.took(err) {
			v.promised = e
			m.step(n, v)
		}
	case k < 78:
		e := max(v.promised, v.entered, v.epoch(), 0)
		m.note("%d: enter %d", n, e)
		if _, err := p.Enter(e); m.took(err) {
			v.promised, v.entered = e, e
			m.step(n, v)
		}
	case k < 79:
		m.note("%d: delete", n)
		if m.took(m.s.Delete(id(n))) {
			m.now = maps.Clone(m.now)
			delete(m.now, n)
			delete(m.claims, n)
			m.history = append(m.history, m.now)
		}
	case k < 90:
		m.note("sync")
		if m.took(m.s.Sync(m.t.Context())) {
			m.history = []modelState{m.now}
		}
	case k < 92 && !m.dead:
		m.look()
	case k < 98:
		m.move(n, p)
	case k < 104 && m.ticking == nil && !m.broken: // else it may find to do what the first one could not
		m.tick()
		m.note("another tick, beside")
		m.ticking = make(chan struct{})
		go func(s *Store, done chan struct{}) {
			defer close(done)
			s.ticking.Lock()
			defer s.ticking.Unlock()
			s.saveCommitted(commitsPerTick) // all that Tick does but retention, which drops more of what was just copied
			s.noteSynced()
			s.removeDead()
			_ = s.compact() // fails when the disk does
		}(m.s, m.ticking)
	default:
		m.tick()
	}
}

// move reads what a Tick would copy forward, and puts what was read before: much may have happened meanwhile.
func (m *model) move(n int32, p *Partition) {
	if put := m.copied; put != nil && m.rng.IntN(3) > 0 {
		m.copied = nil
		put()
		return
	}
	m.s.wal.mu.Lock()
	var full []uint32
	for _, g := range m.s.segs {
		if g.sealed && g.runs > 0 && len(m.s.snaps) > 0 && g.number < m.s.snaps[0] {
			full = append(full, g.number)
		}
	}
	m.s.wal.mu.Unlock()
	if slices.Sort(full); len(full) == 0 {
		return
	}
	seg := full[m.rng.IntN(len(full))]
	b, err := p.firstIn(seg)
	if len(b) == 0 {
		return
	}
	require.NoError(m.t, err)
	m.note("%d: read %d bytes of segment %d", n, len(b), seg)
	m.copied = func() {
		if m.took(m.s.wal.admit(false)) {
			err := p.putMoved(seg, b)
			m.note("%d: put %d bytes of segment %d: %v", n, len(b), seg, err)
		}
	}
}

// quiet waits for a Tick beside.
func (m *model) quiet() {
	if m.ticking == nil {
		return
	}
	select {
	case <-m.ticking:
		m.ticking = nil
	case <-time.After(time.Minute):
		require.FailNow(m.t, "a Tick does not end")
	}
}

// look compares the store as it runs with its picture.
func (m *model) look() {
	m.note("look")
	got := view(m.t, m.s)
	require.True(m.t, got.equal(m.now), "the store:\n%v\nwhat it must be:\n%v", got, m.now)
}

func (m *model) create(n int32, v modelPart, fresh bool) {
	keep := Retention{}
	switch n {
	case 2:
		keep.Age = time.Duration(1+m.rng.IntN(60)) * time.Minute
	case 3:
		keep.Bytes = int64(4+m.rng.IntN(20)) << 10
	}
	m.note("%d: create, %v", n, keep)
	if _, err := m.s.Create(id(n), keep); !m.took(err) {
		return
	}
	if fresh {
		v = modelPart{promised: -1, entered: -1}
	}
	v.keep = keep
	m.step(n, v)
}

// tick also learns what the store dropped of the partition that has a retention.
func (m *model) tick() {
	m.quiet()
	m.note("tick, segments %v", m.segments())
	m.s.Tick(time.UnixMilli(1000))
	for n, v := range m.now {
		if p := m.s.Partition(id(n)); p.Start() > v.start {
			require.LessOrEqual(m.t, p.Start(), p.Committed())
			m.note("%d: starts at %d", n, p.Start())
			m.requireAged(v, p.Start())
			m.step(n, v.from(p.Start()))
		}
	}
}

// requireAged looks whether the batches below start were kept for as long as their partition promises.
func (m *model) requireAged(v modelPart, start int64) {
	for _, raw := range v.batches {
		if h, _, _ := batch.Parse(raw); v.keep.Age > 0 && h.NextOffset() <= start && h.NextOffset() > v.start {
			at, known := m.written[string(raw)]
			require.True(m.t, known)
			require.Greater(m.t, m.s.ages.nowMillis()-at, v.keep.Age.Milliseconds(), "a batch was deleted that is too young")
		}
	}
}

func (m *model) segments() []uint32 {
	m.s.wal.mu.Lock()
	defer m.s.wal.mu.Unlock()
	return slices.Sorted(maps.Keys(m.s.segs))
}

func (m *model) append(n int32, p *Partition, v modelPart) {
	m.seed++
	pid, pe, seq, count := int64(m.rng.IntN(4))-1, int16(0), int32(m.rng.IntN(5)), 1+m.rng.IntN(3)
	var again *sentBatch
	var wrong error
	if r, ok := v.producers[pid]; ok {
		pe, seq = r.epoch, r.next()
		switch m.rng.IntN(8) {
		case 0:
			b := r.sent[m.rng.IntN(len(r.sent))]
			seq, count = b.firstSeq, int(b.next-b.base)
		case 1:
			pe, seq = pe+1, 0
		case 2:
			seq, wrong = seq+1+int32(m.rng.IntN(5)), ErrOutOfOrder
		case 3:
			if pe > 0 {
				pe, wrong = pe-1, ErrProducerFenced
			}
		}
		last := int32((int64(seq) + int64(count) - 1) & 0x7fffffff) //nolint:gosec // masked
		i := slices.IndexFunc(r.sent, func(b sentBatch) bool { return b.firstSeq == seq && b.lastSeq == last })
		if i >= 0 && pe == r.epoch {
			again, wrong = &r.sent[i], nil
		}
	}
	raw := made(m.seed, count, m.rng.IntN(1500), 5000, pid, pe, seq)
	a, err := p.Append(max(v.promised, v.entered, v.epoch(), 0), raw, time.Now().UnixMilli())
	m.note("%d: append %d records of producer %d, epoch %d, number %d: %v, %v", n, count, pid, pe, seq, a, err)
	switch {
	case m.trouble(err):
		return
	case wrong != nil:
		require.ErrorIs(m.t, err, wrong)
		return
	case again != nil:
		require.NoError(m.t, err)
		require.True(m.t, a.Duplicate)
		require.Equal(m.t, *again, sentBatch{again.firstSeq, again.lastSeq, a.Base, a.Next})
		return
	}
	require.NoError(m.t, err)
	require.False(m.t, a.Duplicate, "a batch that is not there was called a duplicate")
	require.Equal(m.t, v.end, a.Base)
	m.written[string(raw)] = m.s.ages.nowMillis()
	m.step(n, v.grown(raw))
}

func (m *model) accept(n int32, p *Partition, v modelPart) {
	m.seed++
	pid := int64(m.rng.IntN(5)) - 1
	raw := made(m.seed, 1+m.rng.IntN(5), m.rng.IntN(3000), int64(m.seed), pid, int16(m.rng.IntN(2)), int32(m.rng.IntN(100)))
	batch.Assign(raw, v.end, v.epoch()+int32(m.rng.IntN(2)))
	_, err := p.Accept(raw)
	m.note("%d: accept at %d of producer %d: %v", n, v.end, pid, err)
	if m.took(err) {
		m.written[string(raw)] = m.s.ages.nowMillis()
		m.step(n, v.grown(raw))
	}
	bad := plain(m.seed, 1, 10)
	batch.Assign(bad, p.End()+1, 1000)
	_, err = p.Accept(bad)
	require.Error(m.t, err)
}

func (m *model) truncate(n int32, p *Partition, v modelPart) {
	low := max(p.Committed(), v.start)
	if low >= v.end {
		return
	}
	to := low + m.rng.Int64N(v.end-low)
	m.note("%d: truncate to %d, committed %d", n, to, p.Committed())
	if _, err := p.Truncate(to); errors.Is(err, ErrCommitted) || !m.took(err) {
		return // the batch that holds it begins below what is committed
	}
	v = v.cut(to)
	require.Equal(m.t, v.end, p.End())
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
	m.note("%d: delete before %d, committed %d", n, to, c)
	if to != v.start && m.took(p.DeleteBefore(to)) {
		m.step(n, v.from(to))
	}
}

// restart opens what is left of the disk and finds the state among those that may be. Files that can be made again give
// the same state when they are lost.
func (m *model) restart(left disk) {
	m.quiet()
	_ = m.s.Close()
	left = m.stumble(left)
	names, err := left.List(".")
	require.NoError(m.t, err)
	m.note("restart from %v", names)
	snaps := snapsOf(m.t, left)
	older, bare := disk{left.Killed()}, disk{left.Killed()}
	m.d, m.dead, m.broken, m.copied = left, false, false, nil
	m.s, err = Open(m.cfg, left, nil, nil)
	require.NoError(m.t, err)
	got := view(m.t, m.s)
	i := slices.IndexFunc(m.history, func(x modelState) bool { return x.equal(got) })
	require.GreaterOrEqual(m.t, i, 0, "the state is none since the last sync:\n%v\nthe newest of %d:\n%v", got, len(m.history), m.history[len(m.history)-1])
	for n, end := range m.claims {
		require.GreaterOrEqual(m.t, got[n].end, end, "partition %d was called durable up to %d", n, end)
	}
	m.now, m.history, m.claims = got, []modelState{got}, make(map[int32]int64)
	if n := len(snaps); n >= keptSnapshots {
		require.NoError(m.t, older.Corrupt(snapName(snaps[n-1]), func(b []byte) []byte { b[len(b)/2] ^= 1; return b }))
		m.compare("without the newest snapshot", older, got)
	}
	if n := len(snaps); n >= keptSnapshots && m.rng.IntN(2) == 0 {
		bare.Lose(snapName(snaps[n-1]))
	}
	for _, name := range names {
		if strings.HasSuffix(name, indexSuffix) && m.rng.IntN(3) > 0 {
			bare.Lose(name)
		}
	}
	m.compare("without some index files", bare, got)
}

// stumble lets starts fail or crash, some times.
func (m *model) stumble(left disk) disk {
	for m.rng.IntN(3) == 0 {
		at, crash := 1+m.rng.IntN(25), m.rng.IntN(2) == 0
		m.note("a start stumbles at change %d, crash %v", at, crash)
		left = disk{left.Killed()}
		left.SetPlan(func(c faultfs.Change) faultfs.Verdict {
			switch {
			case c.Number != at:
				return faultfs.Verdict{}
			case crash:
				return faultfs.Verdict{Crash: true}
			}
			return faultfs.Verdict{Err: errIO, Lost: true, Short: 10}
		}, m.rng.Uint64N(20))
		s, err := Open(m.cfg, left, nil, nil)
		if err == nil {
			_ = s.Close()
		} else {
			m.note("    %v", err)
			require.True(m.t, errors.Is(err, errIO) || errors.Is(err, faultfs.ErrCrashed), "%v", err)
		}
		left.SetPlan(nil, 0)
		if d := left.Crashed(); d != nil {
			left = disk{d}
		}
		left = disk{left.Killed()} // which frees the lock
	}
	return left
}

func (m *model) compare(what string, d disk, want modelState) {
	s, err := Open(m.cfg, d, nil, nil)
	require.NoError(m.t, err, what)
	got := view(m.t, s)
	require.True(m.t, got.equal(want), "%s:\n%v\nwith it:\n%v", what, got, want)
	require.NoError(m.t, s.Close())
}

// plan is what goes wrong in a round.
func (m *model) plan() {
	switch m.rng.IntN(4) {
	case 0: // the machine stops at some change
		at := m.d.Changes() + 1 + m.rng.IntN(60)
		m.note("a crash at change %d", at)
		m.d.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == at} }, m.rng.Uint64N(20))
		m.dead = true
	case 1: // some changes fail
		m.broken = true
		from, kind, most := m.d.Changes()+1+m.rng.IntN(40), m.rng.IntN(3), 5+m.rng.IntN(2)*60
		m.note("%d failures of kind %d from change %d on", most, kind, from)
		m.d.SetPlan(func(c faultfs.Change) faultfs.Verdict {
			switch {
			case c.Number < from || c.Number >= from+most:
				return faultfs.Verdict{}
			case c.Kind == faultfs.Write && kind == 0:
				return faultfs.Verdict{Err: syscall.ENOSPC, Short: 10}
			case kind == 1, c.Kind == faultfs.Sync && kind == 2:
				return faultfs.Verdict{Err: errIO, Lost: true}
			}
			return faultfs.Verdict{}
		}, 1)
	}
}

func (m *model) round() {
	m.plan()
	for range 20 + m.rng.IntN(100) {
		if m.operate(); m.d.Crashed() != nil {
			break
		}
		m.claim(int32(m.rng.IntN(4)))
	}
	left := m.d.Crashed()
	m.d.SetPlan(nil, 0)
	if m.rng.IntN(2) == 0 {
		m.quiet()
	}
	switch seed := m.rng.Uint64N(20); {
	case left != nil:
		m.note("crashed")
	case m.rng.IntN(2) == 0:
		m.note("kill")
		left = m.d.Killed()
	default:
		m.note("power cut %d", seed)
		left = m.d.Crash(seed)
	}
	m.restart(disk{left})
}

// TestRandomOperationsAgainstAModel checks after every crash that the log is what it was after one of the operations since
// the last sync, with all that it knows of producers, and that every batch can be read.
func TestRandomOperationsAgainstAModel(t *testing.T) {
	seeds, rounds := 12, 12
	if os.Getenv("BORNODE_LONG") == "1" {
		seeds, rounds = 150, 30
	}
	for seed := range seeds {
		m := newModel(t, seed)
		t.Cleanup(func() {
			if t.Failed() && m != nil {
				t.Log("the last steps:\n" + strings.Join(m.trace[max(0, len(m.trace)-tracedSteps):], "\n"))
			}
		})
		for range rounds {
			m.round()
		}
		require.NoError(t, m.s.Close())
		m = nil
	}
}
