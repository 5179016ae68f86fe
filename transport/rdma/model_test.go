package rdma

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

var long = os.Getenv("BORNODE_LONG") != ""

func pick(short, whenLong int) int {
	if long {
		return whenLong
	}
	return short
}

// model is two ends of a channel over wires that carry requests one by one, in order, whenever the test says so.
// Everything of the ends is the real thing but the queue pairs: flow, pump, rings, reader.
type model struct {
	t    testing.TB
	rng  *rand.Rand
	ends [2]*modelEnd
}

// modelSize describes a model. Both ends have the same sizes.
type modelSize struct {
	control, bulk, entries uint64
	depth                  int
	start                  [2]uint64
	mapped                 bool
}

// modelEnd is one end and the device under it.
type modelEnd struct {
	m      *model
	name   string
	peer   *modelEnd
	flow   flow
	reader reader

	mem    [rings][]byte // its rings; the peer writes them
	mail   words         // the peer writes it
	mirror [rings][]byte

	queue   []op // posted, not yet carried
	numbers []uint32
	cq      []modelCompletion
	srq     int // receive entries left
	refuse  int // of the next requests so many are refused as if the queue were full
	refused bool
	sent    [rings]int // frames written
	got     [rings]int
	want    [rings]int
	dirty   bool // frames were written and not pumped: the end of WriteFrames is still to come
	sizes   [rings]func(int) int
}

type modelCompletion struct {
	imm    uint32
	number uint32
	send   bool
}

func newModel(t testing.TB, seed uint64, size modelSize) *model {
	m := &model{t: t, rng: rand.New(rand.NewPCG(seed, 7))}
	var own [2]side
	for i := range m.ends {
		own[i] = side{control: size.control, bulk: size.bulk, entries: size.entries, start: size.start[i]}
		m.ends[i] = &modelEnd{m: m, name: string(rune('a' + i)), srq: int(size.entries) + reservedEntries}
	}
	for i, e := range m.ends {
		e.peer = m.ends[1-i]
		e.mem = [rings][]byte{make([]byte, size.control), make([]byte, size.bulk)}
		e.mail = own[i].words()
		e.flow.depth, e.flow.mapped = uint32(size.depth), size.mapped
		e.flow.init(own[i], own[1-i])
		e.flow.posted = m.rng.Uint32() // it wraps
		e.flow.completed.Store(e.flow.posted)
		e.reader.init(&e.flow, e.mem[ringControl], e.mem[ringBulk], own[1-i].start)
	}
	for _, e := range m.ends {
		e.mirror = [rings][]byte{make([]byte, size.control), make([]byte, size.bulk)}
		if size.mapped {
			e.mirror = e.peer.mem
		}
	}
	return m
}

// post implements wire.
func (e *modelEnd) post(ops []op) (int, error) {
	for i := range ops {
		o := &ops[i]
		if o.kind == opMail && e.flow.mapped {
			e.peer.mail = o.mail
			continue
		}
		if e.refuse > 0 {
			e.refuse--
			e.refused = true
			return i, nil
		}
		number := e.flow.posted + uint32(i) + 1
		if e.flow.mapped && ops[0].kind == opMail {
			number--
		}
		require.LessOrEqual(e.m.t, number-e.flow.completed.Load(), e.flow.depth, "send queue overrun")
		require.Equal(e.m.t, number%signalEvery == 0, o.signal)
		e.queue = append(e.queue, *o)
		e.numbers = append(e.numbers, number)
	}
	return len(ops), nil
}

// mailbox implements wire.
func (e *modelEnd) mailbox() words { return e.mail }

// carry does the first request that was posted, as a NIC does: it reads the mirror only now.
func (e *modelEnd) carry() bool {
	if len(e.queue) == 0 {
		return false
	}
	o, number := e.queue[0], e.numbers[0]
	e.queue, e.numbers = e.queue[1:], e.numbers[1:]
	p := e.peer
	switch {
	case o.kind == opMail:
		p.mail = o.mail
	case o.from < o.to && !e.flow.mapped:
		at := o.from & uint64(len(p.mem[o.ring])-1)
		require.LessOrEqual(e.m.t, at+o.to-o.from, uint64(len(p.mem[o.ring])), "a request beyond the end of the ring")
		copy(p.mem[o.ring][at:], e.mirror[o.ring][at:at+o.to-o.from])
	}
	if o.kind == opImm {
		p.srq--
		require.GreaterOrEqual(e.m.t, p.srq, 0, "receiver not ready")
		p.cq = append(p.cq, modelCompletion{imm: o.imm})
	}
	if o.signal {
		e.cq = append(e.cq, modelCompletion{number: number, send: true})
	}
	return true
}

// poll takes one completion, as the poller does.
func (e *modelEnd) poll() bool {
	if len(e.cq) == 0 {
		return false
	}
	c := e.cq[0]
	e.cq = e.cq[1:]
	owes := false
	if c.send {
		e.flow.done(c.number)
	} else {
		e.srq++
		a, err := e.flow.arrive(c.imm)
		require.NoError(e.m.t, err)
		owes = a.owes
	}
	if owes || e.flow.blocked.Load() {
		e.pump()
	}
	return true
}

func (e *modelEnd) pump() {
	roomy, err := e.flow.pump(e)
	require.NoError(e.m.t, err)
	if roomy {
		require.Zero(e.m.t, e.flow.wanted)
	}
}

// write writes the next frame of a ring, if there is one to write and room for it. Otherwise it waits, as WriteFrames
// does: it does nothing by itself until a pump found room.
func (e *modelEnd) write(r ringKind) bool {
	if e.sent[r] == e.want[r] || e.flow.wanted > 0 {
		return false
	}
	n := e.sizes[r](e.sent[r])
	need, o := recordBytes(n), &e.flow.out[r]
	if o.room() < need {
		e.flow.wanted, e.flow.wantRing = need, r
		e.dirty = false
		e.pump()
		return true
	}
	e.dirty = true
	h := transport.Header{Lane: transport.Lane(2 * r), Flags: transport.FlagFirst | transport.FlagLast, Length: uint32(n), Total: uint32(n), Sequence: uint32(e.sent[r])}
	transport.PutHeader(e.mirror[r][o.written&(o.size-1):], &h)
	put(e.mirror[r], o.written+transport.HeaderBytes, modelPayload(e.name, r, e.sent[r], n))
	o.written += need
	e.sent[r]++
	return true
}

// read reads one frame, control first, and checks it.
func (e *modelEnd) read() bool {
	for r := range rings {
		if !e.reader.has(r) {
			continue
		}
		h, err := e.reader.header(r)
		require.NoError(e.m.t, err)
		require.Equal(e.m.t, uint32(e.got[r]), h.Sequence, "%s, %s ring", e.name, r)
		n := e.peer.sizes[r](e.got[r])
		require.Equal(e.m.t, n, int(h.Length))
		if n > 0 {
			b := make([]byte, n)
			require.NoError(e.m.t, e.reader.payload(b))
			require.Equal(e.m.t, modelPayload(e.peer.name, r, e.got[r], n), b)
		}
		e.got[r]++
		if e.flow.readerOwes(r, e.reader.in[r].next) {
			e.pump()
		}
		return true
	}
	return false
}

// modelPayload says whose it is, and has a byte of its own at each end.
func modelPayload(name string, r ringKind, number, n int) []byte {
	b := make([]byte, n)
	for i := 0; i+8 <= n; i += 8 {
		binary.BigEndian.PutUint64(b[i:], uint64(number)<<32|uint64(i)<<2|uint64(r)<<1|uint64(name[0]&1))
	}
	if n > 0 {
		b[n-1] ^= byte(number)
	}
	return b
}

// flush is the end of WriteFrames. Nobody else pumps without an event: what an event fails to cause never happens.
func (e *modelEnd) flush() bool {
	if !e.dirty {
		return false
	}
	e.dirty = false
	if e.m.rng.IntN(20) == 0 {
		e.refuse = e.m.rng.IntN(3)
	}
	e.pump()
	e.refuse = 0
	return true
}

// retry is the guard, after a post that was refused.
func (e *modelEnd) retry() bool {
	if !e.refused {
		return false
	}
	e.refused = false
	e.pump()
	return true
}

// step does one random thing; false if it was not possible.
func (m *model) step(weights []int) bool {
	e := m.ends[m.rng.IntN(2)]
	switch k := m.rng.IntN(weights[0] + weights[1] + weights[2] + weights[3] + weights[4]); {
	case k < weights[0]:
		return e.write(ringKind(m.rng.IntN(2)))
	case k < weights[0]+weights[1]:
		return e.flush() || e.retry()
	case k < weights[0]+weights[1]+weights[2]:
		return e.carry()
	case k < weights[0]+weights[1]+weights[2]+weights[3]:
		return e.poll()
	}
	return e.read()
}

// settle does everything that is possible without a new write or a call of anybody, until nothing is: what is left
// then is stuck for ever.
func (m *model) settle() {
	for moved := true; moved; {
		moved = false
		for _, e := range m.ends {
			for e.flush() || e.retry() || e.carry() || e.poll() || e.read() {
				moved = true
			}
		}
	}
}

func (m *model) done() bool {
	for _, e := range m.ends {
		for r := range rings {
			if e.sent[r] < e.want[r] || e.got[r] < e.peer.want[r] {
				return false
			}
		}
	}
	return true
}

// run exchanges the frames in random order until they have arrived, or nothing can happen any more.
func (m *model) run() {
	weights := make([]int, 5)
	for i, idle := 0, 0; !m.done(); i++ {
		if i%500 == 0 {
			for j := range weights { // phases in which one thing hardly happens
				weights[j] = []int{1, 10, 100}[m.rng.IntN(3)]
			}
		}
		if m.step(weights) {
			idle = 0
		} else if idle++; idle > 1000 {
			m.finish()
		}
	}
	m.settle()
	m.check()
}

// finish does whatever is possible, the writes too, until nothing is.
func (m *model) finish() {
	for moved := true; moved; {
		m.settle()
		moved = false
		for _, e := range m.ends {
			for r := range rings {
				moved = e.write(r) || moved
			}
		}
	}
	require.True(m.t, m.done(), "stuck: %s", m.describe())
}

func (m *model) describe() string {
	s := ""
	for _, e := range m.ends {
		s += fmt.Sprintf("%s: sent %v of %v, got %v, out %+v, used %d returned %d granted %d, wanted %d, blocked %v; ",
			e.name, e.sent, e.want, e.got, e.flow.out, e.flow.used, e.flow.returned, e.flow.granted, e.flow.wanted, e.flow.blocked.Load())
	}
	return s
}

// check looks at what must be true when everything has arrived.
func (m *model) check() {
	for _, e := range m.ends {
		for r := range rings {
			require.Equal(m.t, e.peer.want[r], e.got[r])
			require.Equal(m.t, e.flow.out[r].written, e.peer.flow.consumed[r].Load())
		}
		require.Equal(m.t, e.flow.creditsSent.Load(), e.flow.acks.Load(), "an unanswered CREDIT")
		require.LessOrEqual(m.t, e.flow.used-e.flow.returned, e.flow.granted)
		require.False(m.t, e.flow.stuck())
	}
}

// fill decides what each end sends.
func (m *model) fill(frames int) {
	kinds := []func(r *rand.Rand) int{
		func(*rand.Rand) int { return 0 },
		func(r *rand.Rand) int { return 1 + r.IntN(40) },
		func(r *rand.Rand) int { return 32 + 64*r.IntN(3) }, // records without padding
		func(r *rand.Rand) int { return r.IntN(3000) },
		func(r *rand.Rand) int { return directBytes - 1 + r.IntN(3) },
		func(r *rand.Rand) int { return stageBytes - 40 + r.IntN(80) },
		func(r *rand.Rand) int { return r.IntN(transport.MaxSliceBytes + 1) },
		func(r *rand.Rand) int { return transport.MaxSliceBytes },
	}
	for _, e := range m.ends {
		for r := range rings {
			sizes := make([]int, m.rng.IntN(2*frames))
			few := m.rng.Perm(len(kinds))[:1+m.rng.IntN(len(kinds))]
			for i := range sizes {
				sizes[i] = kinds[few[m.rng.IntN(len(few))]](m.rng)
			}
			e.want[r], e.sizes[r] = len(sizes), func(i int) int { return sizes[i] }
		}
	}
}

func randomSize(rng *rand.Rand) modelSize {
	s := modelSize{
		control: MinRingBytes << rng.IntN(2), bulk: MinRingBytes << rng.IntN(3),
		entries: []uint64{1, 2, 4, 5, 16, 64, 512}[rng.IntN(7)],
		depth:   minSendDepth + rng.IntN(3)*50,
		mapped:  rng.IntN(2) == 0,
	}
	const wrap = (valueMask + 1) * unit // where the value of an immediate starts again
	for i := range s.start {
		s.start[i] = []uint64{0, wrap - 64*uint64(1+rng.IntN(2000)), 1<<32 - 64, maxStart - 64*uint64(rng.IntN(100))}[rng.IntN(4)]
	}
	return s
}

// TestModel: nothing is lost, doubled, overtaken or stuck, no receive entry is missing, and no queue overruns, whatever
// order things happen in.
func TestModel(t *testing.T) {
	for seed := range uint64(pick(300, 2500)) {
		rng := rand.New(rand.NewPCG(seed, 1))
		size := randomSize(rng)
		m := newModel(t, seed, size)
		m.fill(30)
		m.run()
		if t.Failed() {
			t.Fatalf("seed %d, %+v", seed, size)
		}
	}
}

// TestStarved: both ends out of entries and of room at once come out of it.
func TestStarved(t *testing.T) {
	for _, mapped := range []bool{false, true} {
		m := newModel(t, 1, modelSize{control: MinRingBytes, bulk: MinRingBytes, entries: 2, depth: minSendDepth, mapped: mapped})
		for _, e := range m.ends {
			e.want = [rings]int{500, 500}
			e.sizes = [rings]func(int) int{func(int) int { return 1000 }, func(i int) int { return 60_000 + i%3000 }}
		}
		// Each frame goes out by itself, until nobody may send: no entry, no room, and nothing has been read.
		for moved := true; moved; {
			moved = false
			for _, e := range m.ends {
				for r := range rings {
					if e.write(r) {
						moved = true
					}
					e.flush()
				}
				for e.carry() {
				}
			}
		}
		for _, e := range m.ends {
			require.Equal(t, e.flow.granted, e.flow.used-e.flow.returned)
			require.NotZero(t, e.flow.wanted)
			require.NotEmpty(t, e.cq)
		}
		m.finish()
		m.settle()
		m.check()
		for _, e := range m.ends {
			require.NotZero(t, e.flow.creditsSent.Load())
		}
	}
}

// FuzzModel explores orders and sizes.
func FuzzModel(f *testing.F) {
	f.Add(uint64(1), uint64(2), uint8(10))
	f.Add(uint64(99), uint64(1<<40), uint8(60))
	f.Fuzz(func(t *testing.T, seed, shape uint64, frames uint8) {
		m := newModel(t, seed, randomSize(rand.New(rand.NewPCG(shape, 2))))
		m.fill(1 + int(frames)%64)
		m.run()
	})
}
