package sim

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// sealed is a block of the simulation: what a header says, and what only the simulation knows.
type sealed struct {
	dpos.Header
	parent  *sealed
	invalid bool // does not execute
	maker   int
	at      time.Duration
	// By the checkers' own reckoning:
	regime *regime
	source block.Point // newest ancestor that the block's own chain proves justified
	final  uint64      // height of the newest that it proves final
}

// event is one entry of the queue: a function to run on a node that is up, or on the world.
type event struct {
	at   time.Duration
	seq  uint64
	node int // -1: the world
	life int // of the node when it was queued; an earlier life's events are void
	run  func()
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(event)) }
func (q *queue) Pop() any {
	old := *q
	x := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return x
}

// world is one run.
type world struct {
	s       *Scenario
	rand    *rand.Rand
	now     time.Duration
	seq     uint64
	queue   queue
	nodes   []*node
	blocks  map[common.Hash]*sealed
	genesis *sealed
	made    uint64
	check   *checkers
	trace   uint64 // running hash of what happened
	root    *dpos.Root
	nonces  uint64

	recovery *dpos.Recovery // once it was made
}

func accountOf(i int) (a common.Address) {
	a[0] = 0xa0
	binary.BigEndian.PutUint32(a[16:], uint32(i+1)) //nolint:gosec // small
	return a
}

func nodeOf(a common.Address) int { return int(binary.BigEndian.Uint32(a[16:])) - 1 }

func scheduleOf(ids []int) (s block.Schedule) {
	for _, i := range ids {
		p := block.Producer{Account: accountOf(i)}
		binary.BigEndian.PutUint32(p.Key[:], uint32(i+1)) //nolint:gosec // small
		s = append(s, p)
	}
	return s
}

func newWorld(s *Scenario) (*world, error) {
	w := &world{s: s, rand: rand.New(rand.NewPCG(s.Seed, 0xb0)), blocks: make(map[common.Hash]*sealed)}
	first := make([]int, s.Seats)
	for i := range first {
		first[i] = i
	}
	schedule := scheduleOf(first)
	var hash common.Hash
	copy(hash[:], "genesis")
	w.genesis = &sealed{Header: dpos.Header{Hash: hash}, maker: -1, regime: &regime{cur: schedule}, source: block.Point{Hash: hash}}
	w.blocks[hash] = w.genesis
	w.root = dpos.GenesisRoot(hash, schedule)
	w.check = newCheckers(w)
	for i := range s.Nodes {
		n := &node{w: w, id: i, skew: time.Duration(w.rand.Int64N(int64(2*s.Skew+1))) - s.Skew}
		if a, ok := s.Byzantine[i]; ok {
			n.adversary = &a
		}
		w.nodes = append(w.nodes, n)
	}
	for _, n := range w.nodes {
		if err := n.start(false); err != nil {
			return nil, err
		}
	}
	w.plan()
	return w, nil
}

// plan queues crashes and the ends of cuts.
func (w *world) plan() {
	for _, c := range w.s.Crashes {
		n := w.nodes[c.Node]
		restore := func() {}
		if c.Copied > 0 {
			w.at(c.Copied, func() { restore = n.copyDisk() })
		}
		w.at(c.From, func() { n.crash() })
		w.at(c.To, func() {
			if n.down {
				restore()
				w.fail(n.start(c.LoseWAL))
			}
		})
	}
	if r := w.s.Recovery; r != nil {
		w.at(r.At, w.recover)
	}
	for _, c := range w.s.Cuts {
		w.at(c.To+time.Millisecond, func() { // links come back: everybody says where he is
			for _, n := range w.nodes {
				if !n.down {
					n.handshake()
				}
			}
		})
	}
}

func (w *world) fail(err error) {
	if err != nil {
		w.check.violation("run", "%v", err)
	}
}

func (w *world) at(t time.Duration, run func()) {
	w.seq++
	heap.Push(&w.queue, event{at: t, seq: w.seq, node: -1, run: run})
}

// after queues something for a node's present life.
func (w *world) after(d time.Duration, n *node, run func()) {
	w.seq++
	heap.Push(&w.queue, event{at: w.now + max(d, 0), seq: w.seq, node: n.id, life: n.life, run: run})
}

// deliver queues a message; it is lost if the nodes are cut off from each other when it is sent or when it arrives.
func (w *world) deliver(from, to *node, extra time.Duration, run func()) {
	if from.recovered != to.recovered { // they send each other away
		return
	}
	if from == to || w.cut(from.id, to.id, w.now) || w.s.Loss > 0 && w.now < w.s.LossUntil && w.rand.IntN(100) < w.s.Loss {
		return
	}
	d := extra + w.s.Latency.draw(w.rand)
	if w.cut(from.id, to.id, w.now+d) {
		return
	}
	w.seq++
	heap.Push(&w.queue, event{at: w.now + d, seq: w.seq, node: to.id, life: to.life, run: run})
}

func (w *world) cut(from, to int, at time.Duration) bool {
	for i := range w.s.Cuts {
		c := &w.s.Cuts[i]
		if at < c.From || at >= c.To {
			continue
		}
		a, b := groupOf(c.Groups, from), groupOf(c.Groups, to)
		if a >= 0 && b >= 0 && a != b && (!c.OneWay || a > b) {
			return true
		}
	}
	return false
}

func groupOf(groups [][]int, id int) int {
	for g := range groups {
		for _, x := range groups[g] {
			if x == id {
				return g
			}
		}
	}
	return -1
}

// run works off the queue until the end or the first violation.
func (w *world) run() {
	for len(w.queue) > 0 && w.queue[0].at <= w.s.Length && w.check.found == nil {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		if e.node >= 0 {
			if n := w.nodes[e.node]; n.down || n.life != e.life {
				continue
			}
		}
		w.note(uint64(e.at), e.seq, uint64(e.node+1)) //nolint:gosec // for the hash
		e.run()
	}
	w.now = w.s.Length
}

// note adds to the hash of the trace.
func (w *world) note(xs ...uint64) {
	h := fnv.New64a()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], w.trace)
	_, _ = h.Write(b[:])
	for _, x := range xs {
		binary.LittleEndian.PutUint64(b[:], x)
		_, _ = h.Write(b[:])
	}
	w.trace = h.Sum64()
}

// seal makes a block; its hash is a running number.
func (w *world) seal(h dpos.Header, maker int, invalid bool) *sealed {
	w.made++
	binary.BigEndian.PutUint64(h.Hash[:], w.made*0x9e3779b97f4a7c15) // spread, so that the order of hashes is no order of time
	binary.BigEndian.PutUint64(h.Hash[8:], w.made)
	b := &sealed{Header: h, parent: w.blocks[h.Parent], invalid: invalid, maker: maker, at: w.now}
	if b.parent == nil {
		w.check.violation("run", "block on a parent %s that nobody made", h.Parent)
		return nil
	}
	b.reckon(w)
	w.blocks[h.Hash] = b
	return b
}

// elect is the content of the announcement in the last block of an epoch: a function of the height alone.
func (w *world) elect(height uint64) block.Schedule {
	ids := make([]int, w.s.Seats)
	for i := range ids {
		ids[i] = i
	}
	epoch := int(height / w.s.Params.EpochBlocks) //nolint:gosec // small
	switch w.s.Changes {
	case OneSeat:
		ids[epoch%w.s.Seats] = w.s.Seats + epoch%(w.s.Nodes-w.s.Seats)
	case SeveralSeats:
		for i := 0; i < w.s.Seats; i += 2 {
			if (epoch/(i+1))%2 == 1 {
				ids[i] = w.s.Seats + i
			}
		}
	case AllSeats:
		if epoch%2 == 1 {
			for i := range ids {
				ids[i] = w.s.Seats + i
			}
		}
	case NoChange:
	}
	return scheduleOf(ids)
}

// Result of a run.
type Result struct {
	Scenario  *Scenario
	Violation error
	Trace     uint64 // hash of all events
	Blocks    uint64 // made
	Final     uint64 // lowest LIB height of an honest node that is up
	Changes   int    // schedules that took over
	Lags      []time.Duration
	Evidence  int
}

// Run plays a scenario.
func Run(s *Scenario) *Result {
	w, err := newWorld(s)
	if err != nil {
		return &Result{Scenario: s, Violation: fmt.Errorf("start: %w", err)}
	}
	w.run()
	if w.check.found == nil {
		w.check.end()
	}
	r := &Result{Scenario: s, Violation: w.check.found, Trace: w.trace, Blocks: w.made, Changes: w.check.takeovers, Lags: w.check.lags, Evidence: w.check.evidence}
	r.Final = w.check.lowestFinal()
	return r
}
