package replica

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/bornode/bornode/pubsub/batch"
)

// sim is a world of brokers with one partition, a chain that leases it, links that lose what is under way when they
// break, disks that lose what is not synced, and clients. One seed is one run.
type sim struct {
	t      testing.TB
	r      *rand.Rand
	nodes  []*simNode
	chain  []Lease // by epoch - 1
	links  map[[2]int]*simLink
	log    *zap.Logger
	quiet  bool    // no more faults
	faults float64 // in each step
	disk   int     // of 10: how quick disks are
	trace  []string
	steps  int
	client simClients

	committed map[int64][]byte // offset -> covered bytes and epoch of the batch that begins there
	kept      int64            // highest start of a log
	high      int64            // highest watermark any broker gave out
	ledBy     map[int32]*simNode
}

type simLink struct {
	up     bool
	queues [2][][]byte // from the lower, from the higher node
}

type simNode struct {
	s       *sim
	n       int
	alive   bool
	life    int
	store   *memStore
	floor   int  // leases that had been given when its store was made; it sees no older state
	damaged bool // a log of it was found damaged once
	core    *core
	view    int // leases of the chain it has seen
	want    map[string]bool
	toSync  []simSync
	claim   bool
	restive bool
	hw      int64 // of this life
}

type simSync struct {
	mark Mark
	snap snapshot
}

var simID = ID{Topic: [32]byte{1}, Partition: 3}

func nodeName(n int) string { return fmt.Sprintf("b%d", n) }

func (s *sim) number(name string) int {
	for _, n := range s.nodes {
		if nodeName(n.n) == name {
			return n.n
		}
	}
	return -1
}

// Effects of a node's core.
func (n *simNode) send(peer string) {
	if peer != nodeName(n.n) && n.want != nil {
		n.want[peer] = true
	}
}
func (n *simNode) persist(m Mark, s snapshot) { n.toSync = append(n.toSync, simSync{m, s}) }
func (n *simNode) busy()                      { n.restive = true }
func (n *simNode) lost()                      { n.claim = true }
func (n *simNode) now() int64                 { return int64(n.s.steps) }
func (n *simNode) ledOver()                   {}
func (n *simNode) count(event, int)           {}
func (n *simNode) linked(peer string) bool    { return n.s.link(n.n, n.s.number(peer)).up }
func (n *simNode) openStash(create bool) (Log, error) {
	l, err := n.store.Open(stashID(simID), create)
	return l, err
}
func (n *simNode) dropStash() error { return n.store.Delete(stashID(simID)) }

// commit checks that what a broker takes for committed is what all others take for it.
func (n *simNode) commit(from, to int64) {
	s := n.s
	require.LessOrEqual(s.t, n.hw, from, "seed: watermark of b%d falls: %s", n.n, s.story())
	n.hw = to
	err := n.core.data.Batches(from, to, func(h batch.Header, raw []byte) error {
		if h.BaseOffset < from || h.NextOffset() > to {
			return fmt.Errorf("batch %d-%d crosses %d-%d", h.BaseOffset, h.NextOffset(), from, to)
		}
		what := append(binary.BigEndian.AppendUint32(nil, uint32(h.LeaderEpoch)), batch.Covered(raw)...)
		if was, ok := s.committed[h.BaseOffset]; ok {
			require.Equal(s.t, was, what, "offset %d was committed as another batch: %s", h.BaseOffset, s.story())
		}
		s.committed[h.BaseOffset] = what
		s.client.safe[string(batch.Records(raw))] = true
		return nil
	})
	require.NoError(s.t, err)
	if c := n.core; c.role == leading {
		s.high = max(s.high, to)
	}
}

// ledNow checks that a new leader has everything that was committed, and that it alone leads its epoch.
func (n *simNode) ledNow(epoch int32) {
	s := n.s
	n.say("leads epoch %d, log to %d, watermark %d", epoch, n.core.data.End(), n.core.hw)
	require.Nil(s.t, s.ledBy[epoch], "epoch %d is led twice: %s", epoch, s.story())
	s.ledBy[epoch] = n
	require.GreaterOrEqual(s.t, n.core.hw, s.high, "watermark of a new leader is lower than one given out: %s", s.story())
	for o, want := range s.committed {
		if o < n.core.data.Start() {
			continue
		}
		got, err := n.core.data.Read(o, 1, n.core.data.End())
		require.NoError(s.t, err, s.story())
		h, _, err := batch.Parse(got)
		require.NoError(s.t, err, "offset %d is missing: %s", o, s.story())
		require.Equal(s.t, o, h.BaseOffset)
		what := append(binary.BigEndian.AppendUint32(nil, uint32(h.LeaderEpoch)), batch.Covered(got)...)
		require.True(s.t, bytes.Equal(want, what), "offset %d of the new leader is not what was committed: %s", o, s.story())
	}
}

func (n *simNode) say(f string, args ...any) {
	n.s.trace = append(n.s.trace, fmt.Sprintf("%d b%d ", n.s.steps, n.n)+fmt.Sprintf(f, args...))
}

func (s *sim) story() string {
	from := max(0, len(s.trace)-120)
	out := "\n"
	for _, l := range s.trace[from:] {
		out += l + "\n"
	}
	return out
}

func (s *sim) link(a, b int) *simLink {
	k := [2]int{min(a, b), max(a, b)}
	l := s.links[k]
	if l == nil {
		l = &simLink{}
		s.links[k] = l
	}
	return l
}

func newSim(t testing.TB, seed uint64, brokers, replicas int) *sim {
	s := &sim{t: t, r: rand.New(rand.NewPCG(seed, 7)), links: map[[2]int]*simLink{}, log: zap.NewNop(),
		committed: map[int64][]byte{}, ledBy: map[int32]*simNode{}}
	if os.Getenv("BORNODE_TEST_LOG") != "" {
		s.log = zaptest.NewLogger(t)
	}
	s.client.init()
	s.faults = []float64{0.003, 0.008, 0.02}[s.r.IntN(3)]
	s.disk = 2 + s.r.IntN(9)
	for i := range brokers {
		n := &simNode{s: s, n: i, store: newMemStore()}
		s.nodes = append(s.nodes, n)
	}
	var names []string
	for i := range replicas {
		names = append(names, nodeName(i))
	}
	s.chain = []Lease{{Topic: simID.Topic, Partition: simID.Partition, Epoch: 1, Leader: names[0], Replicas: names}}
	for _, n := range s.nodes {
		n.start()
	}
	for a := range s.nodes {
		for b := range a {
			s.connect(a, b)
		}
	}
	return s
}

func (n *simNode) start() {
	n.alive, n.want, n.toSync, n.claim, n.restive, n.hw = true, map[string]bool{}, nil, false, false, 0
	n.life++
	data, err := n.store.Open(simID, true)
	require.NoError(n.s.t, err)
	n.core, err = newCore(nodeName(n.n), simID, data, n, n.s.log.Named(nodeName(n.n)))
	require.NoError(n.s.t, err)
	n.hw = n.core.hw
	n.view = 0
	n.say("starts, promised %d, end %d", data.Promised(), data.End())
}

func (n *simNode) crash() {
	n.say("crashes")
	n.alive = false
	n.s.client.lose(n.s, n)
	n.store = n.store.crash(func(unsynced int) int { return n.s.r.IntN(unsynced + 1) })
	for _, o := range n.s.nodes {
		n.s.cut(n.n, o.n)
	}
	n.core = nil
}

// loseDisk is a crash after which the broker begins with an empty store, as far as the replicas that are left can elect a
// leader.
func (n *simNode) loseDisk() {
	s := n.s
	if len(s.whole(s.chain[len(s.chain)-1].Replicas, n)) < len(s.chain[len(s.chain)-1].Replicas)/2+1 {
		return
	}
	n.crash()
	s.client.loseDisk(s, n.store)
	n.store, n.floor = newMemStore(), len(s.chain)
	n.say("has lost its disk")
}

// damageLog is a crash after which a part of the log cannot be read; the start keeps what is before it. What it had promised
// may be gone with it. It leaves as many whole replicas as loseDisk does.
func (n *simNode) damageLog() {
	s := n.s
	if len(s.whole(s.chain[len(s.chain)-1].Replicas, n)) < len(s.chain[len(s.chain)-1].Replicas)/2+1 {
		return
	}
	n.crash()
	s.client.loseDisk(s, n.store) // what it alone had may be in the damaged place
	l := n.store.logs[simID]
	if l == nil {
		return
	}
	at := l.start + s.r.Int64N(l.end-l.start+1)
	_, err := l.change("lost", at)
	require.NoError(s.t, err)
	if s.r.IntN(2) == 0 {
		_, err = l.change("unpromised", 0)
		require.NoError(s.t, err)
		n.floor = len(s.chain)
	}
	n.store.durable, n.damaged = Mark(len(n.store.ops)), true
	n.say("has a damaged log from %d on, and promised %d", l.end, l.promised)
}

// whole are those of the replicas but one that count in elections, whatever crashes.
func (s *sim) whole(replicas []string, but *simNode) (list []string) {
	for _, name := range replicas {
		n := s.nodes[s.number(name)]
		l := n.store.crash(func(int) int { return 0 }).logs[simID]
		if n != but && (n.floor == 0 && !n.damaged || l != nil && l.accepted >= 0) {
			list = append(list, name)
		}
	}
	return list
}

func (s *sim) connect(a, b int) {
	l := s.link(a, b)
	if a == b || l.up || !s.nodes[a].alive || !s.nodes[b].alive {
		return
	}
	l.up = true
	s.nodes[a].core.linkUp(nodeName(b))
	s.nodes[b].core.linkUp(nodeName(a))
}

func (s *sim) cut(a, b int) {
	l := s.link(a, b)
	if a == b || !l.up {
		return
	}
	*l = simLink{}
	for _, p := range [][2]int{{a, b}, {b, a}} {
		if n := s.nodes[p[0]]; n.core != nil {
			n.core.linkDown(nodeName(p[1]))
			delete(n.want, nodeName(p[1]))
		}
	}
}

// transmit has a node say one thing to a peer that it has something for.
func (n *simNode) transmit() bool {
	names := make([]string, 0, len(n.want))
	for p := range n.want {
		names = append(names, p)
	}
	if len(names) == 0 {
		return false
	}
	slices.Sort(names)
	peer := names[n.s.r.IntN(len(names))]
	to := n.s.number(peer)
	l := n.s.link(n.n, to)
	if !l.up {
		delete(n.want, peer)
		return true
	}
	it, ok := n.core.next(peer)
	if !ok {
		delete(n.want, peer)
		return true
	}
	if it.max > 0 {
		if it.max > 400 {
			it.max = 1 + n.s.r.IntN(400)
		}
		err := fill(n.core.logOf(&it), &it)
		if !n.core.filled(peer, &it, err) {
			return true
		}
	}
	side := 0
	if n.n > to {
		side = 1
	}
	l.queues[side] = append(l.queues[side], appendItem([]byte{wireVersion}, &it))
	return true
}

// deliver takes the oldest message of one direction of one link.
func (s *sim) deliver() bool {
	count := len(s.nodes)
	first := s.r.IntN(count * count)
	for i := range count * count {
		a, b := (first+i)%(count*count)/count, (first+i)%count
		l := s.link(a, b)
		side := 0
		if a > b {
			side = 1
		}
		if a == b || !l.up || len(l.queues[side]) == 0 {
			continue
		}
		msg := l.queues[side][0]
		l.queues[side] = l.queues[side][1:]
		items, err := decodeItems(msg)
		require.NoError(s.t, err)
		for i := range items {
			s.nodes[b].core.receive(nodeName(a), &items[i])
		}
		return true
	}
	return false
}

func (n *simNode) sync() bool {
	if len(n.toSync) == 0 {
		return false
	}
	k := 1 + n.s.r.IntN(len(n.toSync))
	done := n.toSync[:k]
	n.toSync = slices.Clone(n.toSync[k:])
	last := done[k-1]
	n.store.durable = max(n.store.durable, last.mark)
	for _, d := range done {
		n.core.synced(d.snap)
	}
	return true
}

func (n *simNode) learn() bool {
	if n.view >= len(n.s.chain) {
		return false
	}
	was := n.view
	n.view = max(n.floor, n.view+1+n.s.r.IntN(len(n.s.chain)-n.view))
	n.claim = false
	l := n.s.chain[n.view-1]
	l.Whole = n.floor == 0 || was >= n.floor && !slices.Contains(n.s.chain[was-1].Replicas, nodeName(n.n))
	require.NoError(n.s.t, n.core.setLease(l))
	n.say("sees lease %d of %s %v: %s", n.view, n.core.lease.Leader, n.core.lease.Replicas, n.core.role)
	return true
}

// claimNow is the contract's claim with the epoch that the node has seen.
func (n *simNode) claimNow() {
	last := n.s.chain[len(n.s.chain)-1]
	if n.view != len(n.s.chain) || !slices.Contains(last.Replicas, nodeName(n.n)) {
		return
	}
	last.Epoch, last.Leader = last.Epoch+1, nodeName(n.n)
	n.s.chain = append(n.s.chain, last)
	n.say("claims epoch %d", last.Epoch)
}

// reshape is the contract's setReplicas.
func (n *simNode) reshape() {
	last := n.s.chain[len(n.s.chain)-1]
	if n.view != len(n.s.chain) || !n.core.ready || last.Leader != nodeName(n.n) {
		return
	}
	who := nodeName(n.s.r.IntN(len(n.s.nodes)))
	set := slices.Clone(last.Replicas)
	if i := slices.Index(set, who); i >= 0 {
		if who == last.Leader || len(set) < 3 {
			return
		}
		set = slices.Delete(set, i, i+1)
	} else {
		set = append(set, who)
	}
	if len(n.s.whole(set, nil)) < len(set)/2+1 { // a leader changes them only so far as a majority is in sync
		return
	}
	last.Epoch, last.Replicas = last.Epoch+1, set
	n.s.chain = append(n.s.chain, last)
	n.say("has replicas %v from epoch %d on", set, last.Epoch)
}

// step does one thing.
func (s *sim) step() {
	s.steps++
	n := s.nodes[s.r.IntN(len(s.nodes))]
	if !s.quiet && s.r.Float64() < s.faults {
		s.fault(n)
	} else if n.alive {
		s.work(n)
	} else if s.quiet {
		n.start()
	}
	s.client.poll(s)
}

func (s *sim) work(n *simNode) {
	switch k := s.r.IntN(100); {
	case k < 40:
		s.deliver()
	case k < 65:
		for i := range s.nodes {
			if o := s.nodes[(n.n+i)%len(s.nodes)]; o.alive && o.transmit() {
				return
			}
		}
	case k < 78:
		if s.r.IntN(10) < s.disk {
			n.sync()
		}
	case k < 83:
		n.learn()
	case k < 85:
		if n.restive {
			n.core.retry()
		}
	case k < 95 || !s.quiet:
		s.client.act(s, n)
	default:
		for _, o := range s.nodes {
			s.connect(n.n, o.n)
		}
		l := s.chain[len(s.chain)-1]
		if lead := s.nodes[s.number(l.Leader)]; lead.alive && lead.view == len(s.chain) && lead.core.role == retired && k == 99 {
			n.claimNow()
		}
	}
}

func (s *sim) fault(n *simNode) {
	switch k := s.r.IntN(100); {
	case k < 6: // the power fails
		for _, o := range s.nodes {
			if o.alive && s.r.IntN(4) > 0 {
				o.crash()
			}
		}
	case k < 30:
		for _, o := range s.nodes {
			if !o.alive && s.r.IntN(4) > 0 {
				o.start()
			}
			s.connect(n.n, o.n)
		}
	case !n.alive:
		n.start()
	case k < 45:
		s.cut(n.n, s.r.IntN(len(s.nodes)))
	case k < 55:
		for _, o := range s.nodes {
			s.cut(n.n, o.n)
		}
	case k < 66:
		n.crash()
	case k < 69:
		n.damageLog()
	case k < 72:
		n.loseDisk()
	case k < 92:
		n.claimNow()
	case k < 97:
		n.reshape()
	default:
		n.forget()
	}
}

// forget is retention: it drops a part of what is committed.
func (n *simNode) forget() {
	s := n.s
	d := n.core.data
	to := d.Start() + (n.core.hw-d.Start())/2
	if to <= d.Start() {
		return
	}
	require.NoError(s.t, d.Batches(d.Start(), to, func(h batch.Header, raw []byte) error {
		s.client.gone[string(batch.Records(raw))] = true
		return nil
	}))
	require.NoError(s.t, d.DeleteBefore(to))
	s.kept = max(s.kept, to)
	for p, base := range s.client.bases {
		if base < to {
			s.client.gone[p] = true
		}
	}
	n.say("keeps %d-%d", d.Start(), d.End())
}

func runSim(t testing.TB, seed uint64, brokers, replicas, steps int) {
	s := newSim(t, seed, brokers, replicas)
	defer func() {
		if t.Failed() {
			t.Logf("seed %d, %d brokers", seed, brokers)
		}
	}()
	for range steps {
		s.step()
	}
	s.quiet = true
	for range 200_000 {
		s.step()
		if s.steps%50 == 0 && s.settled() {
			break
		}
	}
	require.True(t, s.settled(), "seed %d: the brokers do not come to rest: %s%s", seed, s.story(), s.where())
	s.client.check(s)
}

func (s *sim) where() string {
	out := ""
	for _, n := range s.nodes {
		if c := n.core; c != nil {
			out += fmt.Sprintf("b%d view %d/%d %s ready %v end %d hw %d durable %+v promised %d stash %v broken %v aligned %v\n", n.n, n.view, len(s.chain), c.role, c.ready,
				c.data.End(), c.hw, c.durable, c.data.Promised(), c.stash != nil, c.broken, c.aligned)
			for name, m := range c.members {
				st := m.state
				m.state = nil
				out += fmt.Sprintf("   %s: %+v state %v\n", name, *m, st != nil)
				m.state = st
			}
		}
	}
	return out
}

// settled: everyone is there, the log is the same everywhere and committed, and nothing is set aside.
func (s *sim) settled() bool {
	l := s.chain[len(s.chain)-1]
	lead := s.nodes[s.number(l.Leader)]
	if !lead.alive || !lead.core.ready || len(s.client.open) > 0 || !s.client.satisfied() {
		return false
	}
	for _, n := range s.nodes {
		if !n.alive || n.view != len(s.chain) || n.core.stash != nil {
			return false
		}
		if slices.Contains(l.Replicas, nodeName(n.n)) && (n.core.hw != lead.core.data.End() || n.core.data.End() != lead.core.data.End()) {
			return false
		}
	}
	return true
}

func TestSimulation(t *testing.T) {
	seeds := uint64(100)
	switch {
	case os.Getenv("BORNODE_STORMS") != "":
		seeds = 4000
	case os.Getenv("BORNODE_LONG") != "":
		seeds = 1200
	}
	for seed := range seeds {
		runSim(t, seed, 3, 3, 5000)
		runSim(t, seed, 5, 3+2*int(seed%2), 5000)
	}
}
