package sim_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

const (
	walkDepth  = 12
	walkSRQ    = 48
	walkSlots  = 64 // of 8 bytes, in the sources
	walkTarget = 64
)

// walker posts, polls, breaks, closes and connects at random on two devices of a Manual network, and holds every
// completion against a model of what the fabric promises.
type walker struct {
	t     *testing.T
	seed  uint64
	r     *rand.Rand
	net   *sim.Network
	sides [2]*walkSide
	pairs []*walkPair
	trace interface{ Write([]byte) (int, error) }
	sum   func() uint64
	stats walkStats
}

type walkStats struct {
	requests, completions, received, full, broken, flushed int
}

type walkSide struct {
	*node
	buffers  fabric.Region
	posted   map[uint64]int // receive entries by id
	entries  int            // posted and not seen used
	byNumber map[uint32]*walkEnd
}

type walkPair struct{ ends [2]*walkEnd }

// walkEnd is one direction of a connection: what it posted, and what its peer saw of that.
type walkEnd struct {
	side     *walkSide
	peer     *walkEnd
	qp       fabric.QP
	retry    bool
	source   fabric.Region
	target   fabric.Region // written by the peer
	far      fabric.Remote
	mapped   []byte
	requests []walkRequest
	freed    int // requests whose slots are free
	next     int // the first request of which no completion was polled, nor of a later one
	failed   bool
	seen     int // requests that the peer received are below; of those with an entry
	closed   bool
}

type walkRequest struct {
	op       fabric.Opcode
	signaled bool
	value    uint64 // the last value written before or by it
}

func newWalker(t *testing.T, seed uint64, f sim.Faults) *walker {
	f.Manual = true
	h := fnv.New64a()
	w := &walker{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 3)), net: sim.NewNetwork(seed, f), trace: h, sum: h.Sum64}
	for i := range w.sides {
		s := &walkSide{node: &node{dev: w.net.NewDevice(fmt.Sprint("side ", i))}, posted: make(map[uint64]int), byNumber: make(map[uint32]*walkEnd)}
		var err error
		s.cq, err = s.dev.NewCQ(4096)
		require.NoError(t, err)
		s.srq, err = s.dev.NewSRQ(walkSRQ)
		require.NoError(t, err)
		s.buffers, err = s.dev.NewRegion(fabric.MaxSendBytes)
		require.NoError(t, err)
		w.sides[i] = s
	}
	return w
}

func (w *walker) connect() {
	retry := w.r.IntN(2) == 0
	p := &walkPair{}
	for i, s := range w.sides {
		e := &walkEnd{side: s, retry: retry}
		var err error
		e.qp, err = s.dev.NewQP(fabric.QPConfig{CQ: s.cq, SRQ: s.srq, SendDepth: walkDepth, RNRRetry: retry})
		require.NoError(w.t, err)
		e.source, err = s.dev.NewRegion(8 * walkSlots)
		require.NoError(w.t, err)
		e.target, err = s.dev.NewRegion(walkTarget)
		require.NoError(w.t, err)
		s.byNumber[e.qp.Num()] = e
		p.ends[i] = e
	}
	x, y := p.ends[0], p.ends[1]
	x.peer, y.peer = y, x
	for _, e := range p.ends {
		require.NoError(w.t, e.qp.Connect(context.Background(), e.peer.qp.Info(), e == x))
	}
	for _, e := range p.ends {
		var err error
		e.far, err = e.peer.qp.Expose(e.peer.target, 0, walkTarget, fabric.RemoteWrite)
		require.NoError(w.t, err)
		if w.net.Faults().MapsRemote {
			e.mapped, err = e.qp.Map(context.Background(), e.far)
			require.NoError(w.t, err)
		}
	}
	w.pairs = append(w.pairs, p)
}

// post posts some requests: writes of growing values, immediates with and without them, SENDs.
func (w *walker) post(e *walkEnd) {
	var wrs []fabric.SendWR
	list := make([]walkRequest, 0, 6)
	for range 1 + w.r.IntN(6) {
		k := len(e.requests) + len(list)
		wr := fabric.SendWR{ID: uint64(k), Signaled: w.r.IntN(3) == 0, Imm: uint32(k)}
		req := walkRequest{signaled: wr.Signaled}
		slot := e.source.Bytes()[8*(k%walkSlots):][:8] // as many as 5 send queues: a slot is done when it is used again
		switch wr.Op = []fabric.Opcode{fabric.OpWrite, fabric.OpWriteImm, fabric.OpSend}[w.r.IntN(3)]; {
		case wr.Op == fabric.OpSend:
			wr.Local, wr.Key = slot, e.source.LocalKey()
		case e.mapped != nil:
			wr.Op = fabric.OpWriteImm
		default:
			wr.Local, wr.Key, wr.Remote, wr.RKey = slot, e.source.LocalKey(), e.far.Addr, e.far.Key
			req.value = uint64(k)
		}
		req.op = wr.Op
		wrs, list = append(wrs, wr), append(list, req)
	}
	room := walkDepth - (len(e.requests) - e.freed)
	for i := range min(room, len(wrs)) {
		if len(wrs[i].Local) > 0 {
			binary.BigEndian.PutUint64(wrs[i].Local, wrs[i].ID)
		}
	}
	n, err := e.qp.Post(wrs)
	switch {
	case err == nil:
		require.Equal(w.t, len(wrs), n)
	case !errors.Is(err, fabric.ErrFull):
		require.ErrorIs(w.t, err, fabric.ErrBroken)
		w.stats.broken++
		return
	default:
		require.ErrorIs(w.t, err, fabric.ErrFull)
		w.stats.full++
	}
	require.Equal(w.t, min(room, len(wrs)), n, "the queue of %d holds %d", walkDepth, walkDepth-room)
	e.requests = append(e.requests, list[:n]...)
	w.stats.requests += n
}

func (w *walker) poll(s *walkSide) {
	out := make([]fabric.Completion, 1+w.r.IntN(20))
	n, err := s.cq.Poll(out)
	require.NoError(w.t, err)
	for _, c := range out[:n] {
		fmt.Fprintf(w.trace, "%v", c)
		w.stats.completions++
		e := s.byNumber[c.QP]
		require.NotNil(w.t, e, "no queue pair %d here", c.QP)
		if c.ID&recvBit != 0 {
			w.received(e, c)
		} else {
			w.sent(e, c)
		}
	}
}

// sent: completions come in order, signalled or failed, and nothing succeeds after a failure.
func (w *walker) sent(e *walkEnd, c fabric.Completion) {
	k := int(c.ID)
	require.Less(w.t, k, len(e.requests))
	require.GreaterOrEqual(w.t, k, e.next, "completions of one queue pair keep their order")
	for i := e.next; i < k; i++ {
		require.False(w.t, e.requests[i].signaled, "request %d was signalled and has no completion", i)
	}
	if c.Status == fabric.StatusOK {
		require.False(w.t, e.failed, "request %d succeeds after a failure", k)
		require.True(w.t, e.requests[k].signaled)
		require.Equal(w.t, e.requests[k].op, c.Op)
	} else {
		require.True(w.t, !e.failed || k == e.next, "after a failure every request fails")
		w.stats.flushed++
		e.failed = true
	}
	e.next, e.freed = k+1, k+1
}

// received: what the peer sent comes in order and without a gap, and what was written before it is there.
func (w *walker) received(e *walkEnd, c fabric.Completion) {
	s := e.side
	require.Positive(w.t, s.posted[c.ID], "entry %d was not posted", c.ID&^recvBit)
	s.posted[c.ID]--
	s.entries--
	if c.Status != fabric.StatusOK {
		return
	}
	from := e.peer
	for from.seen < len(from.requests) && from.requests[from.seen].op == fabric.OpWrite {
		from.seen++
	}
	require.Less(w.t, from.seen, len(from.requests), "nothing was sent that could arrive")
	req := from.requests[from.seen]
	if req.op == fabric.OpWriteImm {
		require.Equal(w.t, fabric.OpRecvImm, c.Op)
		require.EqualValues(w.t, from.seen, c.Imm)
	} else {
		require.Equal(w.t, fabric.OpRecv, c.Op)
		require.EqualValues(w.t, 8, c.Bytes)
	}
	if from.mapped == nil && !e.closed {
		want := uint64(0)
		for i := from.seen; i >= 0 && want == 0; i-- {
			want = from.requests[i].value
		}
		require.GreaterOrEqual(w.t, binary.BigEndian.Uint64(e.target.Bytes()), want, "bytes land before what tells of them")
	}
	from.seen++
	w.stats.received++
}

func (w *walker) entries(s *walkSide) {
	n := 1 + w.r.IntN(8)
	var wrs []fabric.RecvWR
	for range n {
		wrs = append(wrs, fabric.RecvWR{ID: recvBit | uint64(w.r.IntN(100)), Local: s.buffers.Bytes(), Key: s.buffers.LocalKey()})
	}
	took, err := s.srq.Post(wrs)
	if took < n {
		require.ErrorIs(w.t, err, fabric.ErrFull)
	}
	for _, wr := range wrs[:took] {
		s.posted[wr.ID]++
	}
	s.entries += took
}

func (w *walker) close(i int) {
	p := w.pairs[i]
	w.pairs = append(w.pairs[:i], w.pairs[i+1:]...)
	for _, k := range w.r.Perm(2) {
		require.NoError(w.t, p.ends[k].qp.Close())
		p.ends[k].closed = true
	}
	for _, e := range p.ends {
		require.NoError(w.t, e.source.Close())
		require.NoError(w.t, e.target.Close())
	}
}

// walk does steps at random, then closes all; it returns a digest of all completions.
func (w *walker) walk(steps int) uint64 {
	for range steps {
		if len(w.pairs) == 0 {
			w.connect()
		}
		s, i := w.sides[w.r.IntN(2)], w.r.IntN(len(w.pairs))
		e := w.pairs[i].ends[w.r.IntN(2)]
		switch k := w.r.IntN(100); {
		case k < 30:
			w.post(e)
		case k < 60:
			for range w.r.IntN(10) {
				w.net.Step()
			}
		case k < 80:
			w.poll(s)
		case k < 95:
			w.entries(s)
		case k < 97:
			e.qp.Break()
		case k < 98:
			w.close(i)
		case len(w.pairs) < 4:
			w.connect()
		}
	}
	settle(w.net)
	for len(w.pairs) > 0 {
		w.close(len(w.pairs) - 1)
	}
	for _, s := range w.sides {
		for before := -1; before != w.stats.completions; {
			before = w.stats.completions
			w.poll(s)
		}
		require.NoError(w.t, s.srq.Close())
		require.NoError(w.t, s.cq.Close())
		require.NoError(w.t, s.buffers.Close())
		require.NoError(w.t, s.dev.Close())
	}
	require.Zero(w.t, w.net.Counters().Misuses)
	require.False(w.t, w.net.Step(), "nothing is left to be done")
	return w.sum()
}

func walkFaults(seed uint64) sim.Faults {
	f := sim.RandomFaults(seed)
	f.PurgeOnClose = false // numbers that are used again need a user who drains first
	if seed%5 == 0 {
		f.MissedEntries = 0.05
	}
	return f
}

// TestWalk: thousands of seeds of random use keep what the fabric promises.
func TestWalk(t *testing.T) {
	seeds := uint64(2000)
	if long {
		seeds = 20_000
	}
	var total walkStats
	for seed := range seeds {
		w := newWalker(t, seed, walkFaults(seed))
		func() {
			defer func() {
				if t.Failed() {
					t.Log("seed", seed, w.net.Faults())
				}
			}()
			w.walk(150)
		}()
		total.requests += w.stats.requests
		total.received += w.stats.received
		total.full += w.stats.full
		total.broken += w.stats.broken
		total.flushed += w.stats.flushed
	}
	t.Logf("%+v", total)
	for _, n := range []int{total.requests, total.received, total.full, total.broken, total.flushed} {
		require.Greater(t, n, int(seeds), "%+v", total)
	}
}

// TestReplay: a seed gives the same run, another seed another.
func TestReplay(t *testing.T) {
	sums := make(map[uint64]bool)
	for seed := range uint64(100) {
		first := newWalker(t, seed, walkFaults(seed))
		again := newWalker(t, seed, walkFaults(seed))
		sum := first.walk(300)
		require.Equal(t, sum, again.walk(300))
		require.Equal(t, first.net.Counters(), again.net.Counters())
		require.Equal(t, first.net.Now(), again.net.Now())
		sums[sum] = true
	}
	require.Greater(t, len(sums), 95)
}

func BenchmarkManual(b *testing.B) {
	r := newRig(b, 1, sim.Faults{})
	r.b.entries(b, 1)
	out := make([]fabric.Completion, 4)
	wrs := []fabric.SendWR{imm(1)}
	entry := []fabric.RecvWR{{ID: recvBit}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.a.qp.Post(wrs); err != nil {
			b.Fatal(err)
		}
		settle(r.net)
		_, _ = r.a.cq.Poll(out)
		_, _ = r.b.cq.Poll(out)
		_, _ = r.b.srq.Post(entry)
	}
}
