package dpos

import (
	"container/heap"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

var genesisHash = crypto.Keccak256Hash([]byte("genesis"))

// account is producer i, 0-based.
func account(i int) (a common.Address) {
	a[0], a[19] = 0xaa, byte(i+1)
	return a
}

func scheduleOf(ids ...int) (s block.Schedule) {
	for _, i := range ids {
		p := block.Producer{Account: account(i)}
		p.Key[47] = byte(i + 1)
		s = append(s, p)
	}
	return s
}

func firstN(n int) block.Schedule {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = i
	}
	return scheduleOf(ids...)
}

func testParams() block.Parameters {
	return block.Parameters{ChainID: 7, SlotMillis: 500, TurnSlots: 1, EpochBlocks: 1 << 40, MaxReversible: 3600, MinProducers: 1}
}

// signed gives a vote a signature that genuine recognises.
func signed(v block.Vote) block.Vote {
	v.Signature = signatureOf(v.Voter, v.Link)
	return v
}

func signatureOf(a common.Address, l block.Link) (s block.BLSSignature) {
	d := block.Domain{}.VoteDigest(l)
	copy(s[:], crypto.Keccak256(a[:], d[:]))
	return s
}

func genuine(v block.Vote) bool { return v.Signature == signatureOf(v.Voter, v.Link) }

// hashOf names a block by all that a header says.
func hashOf(h *Header, salt uint64) common.Hash {
	var b []byte
	b = append(b, h.Parent[:]...)
	b = binary.BigEndian.AppendUint64(b, h.Height)
	b = binary.BigEndian.AppendUint64(b, h.Slot)
	b = append(b, h.Producer[:]...)
	for _, c := range []*block.Certificate{h.QC, h.FC} {
		if c != nil {
			b = append(b, c.Encode()...)
		}
		b = append(b, 0)
	}
	for _, p := range h.Next {
		b = append(b, p.Account[:]...)
	}
	if h.Recovery != (common.Hash{}) {
		b = append(b, h.Recovery[:]...)
	}
	b = binary.BigEndian.AppendUint64(b, salt)
	return crypto.Keccak256Hash(b)
}

// answer does the driver's work on a tally.
func answer(t Tally, self common.Address) Tallied {
	out := Tallied{ID: t.ID}
	good := make(map[common.Address]bool)
	for _, v := range t.Votes {
		if v.Voter == self && v.Signature == (block.BLSSignature{}) {
			v = signed(v)
		}
		if v.Link == t.Link && genuine(v) {
			good[v.Voter] = true
		} else {
			out.Bad = append(out.Bad, v.Voter)
		}
	}
	c := block.NewCertificate(t.Link, t.Schedules, func(a common.Address) bool { return good[a] })
	for s := range t.Schedules {
		if c.Count(s) < t.Schedules[s].Quorum() {
			return out
		}
	}
	out.Certificate = c
	return out
}

// network is machines with a minimal driver each, one clock and one queue of messages.
type network struct {
	t         *testing.T
	p         block.Parameters
	root      *Root
	at        time.Duration
	queue     messages
	seq       int
	peers     []*peer
	delay     func(from, to int, ev Event) time.Duration // negative: lost
	next      func(height uint64) block.Schedule         // content of announcements
	finalised map[uint64]common.Hash                     // checker: one final block per height
	lastFinal map[uint64]time.Duration                   // when the first peer saw a height final
	headers   map[common.Hash]Header
	born      map[common.Hash]time.Duration
}

type peer struct {
	*Machine
	net     *network
	id      int
	cfg     Config
	wal     []SignRecord
	store   []Header // reversible headers, parents first
	finals  []*Final
	waiting map[common.Hash][]Header
	down    bool
	evid    []Evidence
	dropped []common.Hash
	resent  int
	exec    bool // reports execution
}

type message struct {
	at  time.Duration
	seq int
	to  int
	ev  Event
}
type messages []message

func (q messages) Len() int { return len(q) }
func (q messages) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q messages) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *messages) Push(x any)   { *q = append(*q, x.(message)) }
func (q *messages) Pop() any {
	x := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return x
}

func newNetwork(t *testing.T, n int, p block.Parameters, schedule block.Schedule) *network {
	net := &network{t: t, p: p, root: GenesisRoot(genesisHash, schedule), finalised: map[uint64]common.Hash{}, lastFinal: map[uint64]time.Duration{},
		headers: map[common.Hash]Header{}, born: map[common.Hash]time.Duration{},
		delay: func(int, int, Event) time.Duration { return 20 * time.Millisecond },
		next:  func(uint64) block.Schedule { return schedule }}
	for i := range n {
		x := &peer{net: net, id: i, cfg: DefaultConfig(p, account(i)), exec: true}
		x.cfg.Bugs.SkipFirstSync = true // the tests of rule 11 are in firstsync_test.go
		net.peers = append(net.peers, x)
		x.start(net.root)
	}
	return net
}

func (x *peer) start(root *Root) {
	m, err := New(x.cfg, root)
	require.NoError(x.net.t, err)
	x.Machine, x.down, x.waiting = m, false, map[common.Hash][]Header{}
	x.net.send(0, x.id, Tick{x.net.at})
}

// restart crashes the peer and starts it from what was durable.
func (x *peer) restart(keepWAL bool) {
	root := x.net.root
	if len(x.finals) > 0 {
		var err error
		root, err = DecodeRoot(x.finals[len(x.finals)-1].Root.Encode())
		require.NoError(x.net.t, err)
	}
	x.cfg.Signed = nil
	if keepWAL {
		x.cfg.Signed = x.wal
	} else {
		x.wal, x.cfg.SilentUntilProven = nil, true
	}
	m, err := New(x.cfg, root)
	require.NoError(x.net.t, err)
	x.Machine, x.down, x.waiting = m, false, map[common.Hash][]Header{}
	for _, h := range x.store {
		if err := m.Step(HeaderEvent{h}); err != nil && !errors.Is(err, ErrKnown) && (len(x.cfg.Recoveries) == 0 || !errors.Is(err, ErrUnknownParent)) {
			require.ErrorIs(x.net.t, err, ErrBelowLIB)
		}
	}
	x.net.send(0, x.id, Tick{x.net.at})
}

func (net *network) send(after time.Duration, to int, ev Event) {
	net.seq++
	heap.Push(&net.queue, message{net.at + after, net.seq, to, ev})
}

func (net *network) broadcast(from int, ev Event) {
	for i := range net.peers {
		if d := net.delay(from, i, ev); i != from && d >= 0 {
			net.send(d, i, ev)
		}
	}
}

// run works off the queue up to a time.
func (net *network) run(until time.Duration) {
	for len(net.queue) > 0 && net.queue[0].at <= until {
		msg := heap.Pop(&net.queue).(message)
		net.at = msg.at
		if x := net.peers[msg.to]; !x.down {
			x.take(msg.ev)
		}
	}
	net.at = until
}

func (x *peer) take(ev Event) {
	if h, ok := ev.(HeaderEvent); ok {
		x.header(h.Header)
	} else {
		err := x.Step(ev)
		if errors.Is(err, ErrInvalid) {
			require.NoError(x.net.t, err, "%T", ev)
		}
	}
	x.work()
}

func (x *peer) header(h Header) {
	_, err := x.Check(h)
	switch {
	case errors.Is(err, ErrUnknownParent):
		if len(x.waiting[h.Parent]) == 0 { // ask for it
			if p, ok := x.net.headers[h.Parent]; ok {
				x.net.send(30*time.Millisecond, x.id, HeaderEvent{p})
			}
		}
		x.waiting[h.Parent] = append(x.waiting[h.Parent], h)
		return
	case errors.Is(err, ErrInvalid):
		require.NoError(x.net.t, err)
		return
	case err != nil:
		return
	}
	require.NoError(x.net.t, x.Step(HeaderEvent{h}))
	x.store = append(x.store, h)
	more := x.waiting[h.Hash]
	delete(x.waiting, h.Hash)
	for _, c := range more {
		x.header(c)
	}
}

// work is the driver: it does what Ready says.
func (x *peer) work() {
	for range 1000 {
		rd, ok := x.Ready()
		if !ok {
			return
		}
		again, _ := x.Ready()
		require.Equal(x.net.t, rd, again, "Ready is repeatable")
		x.wal = append(x.wal, rd.Records...)
		x.Advance()
		x.duties(rd)
	}
	x.net.t.Fatal("Ready never ends")
}

func (x *peer) duties(rd Ready) {
	net := x.net
	for _, vs := range [][]block.Vote{rd.Votes, rd.Resend} {
		if len(vs) == 0 {
			continue
		}
		out := make([]block.Vote, len(vs))
		for i, v := range vs {
			out[i] = signed(v)
		}
		net.broadcast(x.id, VotesEvent{out})
	}
	x.resent += len(rd.Resend)
	if p := rd.Produce; p != nil {
		x.build(p)
	}
	for _, t := range rd.Tallies {
		require.NoError(net.t, x.Step(answer(t, x.cfg.Self)))
	}
	if rd.Head != (common.Hash{}) && x.exec {
		branch, err := x.Branch(rd.Head)
		if err == nil {
			for _, h := range branch {
				require.NoError(net.t, x.Step(Executed{h}))
			}
		}
	}
	if f := rd.Final; f != nil {
		x.finals = append(x.finals, f)
		x.checkFinal(f)
	}
	x.evid = append(x.evid, rd.Evidence...)
	x.dropped = append(x.dropped, rd.Dropped...)
	if rd.Alarm > net.at {
		net.send(rd.Alarm-net.at, x.id, Tick{rd.Alarm})
	}
}

func (x *peer) checkFinal(f *Final) {
	for i, hash := range f.Hashes {
		h := f.Height - uint64(len(f.Hashes)-1-i)
		if was, ok := x.net.finalised[h]; ok {
			require.Equal(x.net.t, was, hash, "two final blocks at height %d", h)
			continue
		}
		x.net.finalised[h] = hash
		x.net.lastFinal[h] = x.net.at
	}
}

func (x *peer) build(p *Produce) {
	h := Header{Parent: p.Parent, Height: p.Height, Slot: p.Slot, Producer: x.cfg.Self, QC: p.QC, FC: p.FC, Empty: p.EmptyOnly, Recovery: p.Recovery}
	if p.Next {
		h.Next = x.net.next(p.Height)
	}
	h.Hash = hashOf(&h, 0)
	x.net.headers[h.Hash] = h
	x.net.born[h.Hash] = x.net.at
	_, err := x.Check(h)
	require.NoError(x.net.t, err)
	require.NoError(x.net.t, x.Step(Built{p.Slot, true}))
	require.NoError(x.net.t, x.Step(HeaderEvent{h}))
	x.store = append(x.store, h)
	x.net.broadcast(x.id, HeaderEvent{h})
}

// lib is the lowest and highest LIB among peers that run.
func (net *network) lib() (low, high uint64) {
	low = ^uint64(0)
	for _, x := range net.peers {
		if !x.down {
			low, high = min(low, x.LIB().Height), max(high, x.LIB().Height)
		}
	}
	return low, high
}
