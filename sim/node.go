package sim

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/clock"
	"github.com/bornode/bornode/consensus/dpos"
)

// node is a machine with the smallest driver that does its duties: durable things first, then messages.
type node struct {
	w         *world
	id        int
	skew      time.Duration // of its machine's clock
	adversary *Adversary    // nil: honest

	m    *dpos.Machine
	life int
	down bool

	// Durable.
	wal   []dpos.SignRecord
	marks *dpos.Marks // of others' signatures
	root  *dpos.Root  // of the LIB
	fc    *block.Certificate
	store map[common.Hash]*sealed // what it has, final or not

	// Lost in a crash.
	seen     *dpos.Marks  // what marks will be after the next write
	unsaved  []block.Vote // that the next write adds
	executed map[common.Hash]bool
	busy     bool        // executing
	target   common.Hash // head to execute up to
	asked    map[common.Hash]time.Duration
	plotted  map[common.Hash]bool
	shadow   map[uint64]bool // slots trespassed in
	clocks   map[common.Address]reading
	time     clock.Time
	known    clock.Consensus
	told     clock.Told
	combined time.Duration // until when it is not looked at again; 0: at once
	proven   time.Duration // a certificate on a block that is not here proves that this time has come
	lags     bool          // a certificate of a later slot would carry the time on
	sets     int           // of the time that the machine knows
	began    time.Duration // of this life
	alarm    time.Duration // that the machine asked for last

	recovered bool // it goes by the recovery
}

func (n *node) self() common.Address { return accountOf(n.id) }

func (n *node) honest() bool { return n.adversary == nil }

// ceased says that an adversary has gone silent for good.
func (n *node) ceased() bool {
	a := n.adversary
	return a != nil && a.SilentFrom > 0 && n.w.now >= a.SilentFrom
}

func (n *node) mute() bool { return n.adversary != nil && n.adversary.Mute || n.ceased() }

func (n *node) silent() bool { return n.adversary != nil && n.adversary.Silent || n.ceased() }

// start makes the machine from what is durable.
func (n *node) start(loseWAL bool) error {
	cfg := dpos.DefaultConfig(n.w.s.Params, n.self())
	if n.honest() {
		cfg.Bugs = n.w.s.Bugs
	}
	cfg.NeverSigned = n.life == 0
	if loseWAL {
		n.wal, cfg.SilentUntilProven = nil, true
	}
	cfg.Signed = slices.Clone(n.wal)
	if n.recovered {
		cfg.Recoveries = []dpos.Recovery{*n.w.recovery}
	}
	if n.root == nil {
		n.root, n.store, n.marks = n.w.root, map[common.Hash]*sealed{n.w.genesis.Hash: n.w.genesis}, dpos.NewMarks()
	}
	m, err := dpos.New(cfg, n.root)
	if err != nil {
		return err
	}
	n.m, n.down = m, false
	n.life++
	n.executed = make(map[common.Hash]bool)
	n.asked = make(map[common.Hash]time.Duration)
	n.clocks, n.time, n.sets, n.began, n.alarm = make(map[common.Address]reading), clock.Time{}, 0, n.w.now, 0
	n.combined, n.known, n.told, n.proven, n.lags = 0, clock.Consensus{}, clock.Told{}, 0, false
	n.seen, n.unsaved = copyMarks(n.marks), nil
	n.busy, n.target, n.plotted, n.shadow = false, common.Hash{}, make(map[common.Hash]bool), make(map[uint64]bool)
	var kept []*sealed
	for _, b := range n.store {
		if b.Height > m.LIB().Height {
			kept = append(kept, b)
		}
	}
	slices.SortFunc(kept, func(a, b *sealed) int { // parents first, and never in the order of a map
		if a.Height != b.Height {
			return int(a.Height) - int(b.Height) //nolint:gosec // small
		}
		return a.Hash.Cmp(b.Hash)
	})
	for _, b := range kept {
		if err := m.Step(dpos.HeaderEvent{Header: b.Header}); err != nil && errors.Is(err, dpos.ErrInvalid) {
			return err
		}
	}
	n.step(dpos.Begin{Session: n.newSession(m.NewestSession() + 1)})
	n.awaitClocks()
	n.handshake()
	n.ask4Answers()
	n.w.after(n.w.s.Handshakes+time.Duration(n.id)*time.Millisecond, n, n.greet)
	return nil
}

// newSession is a session with a nonce that no other has.
func (n *node) newSession(number uint64) (s block.Session) {
	s.Number = number
	n.w.nonces++
	binary.BigEndian.PutUint64(s.Nonce[:], n.w.nonces)
	return s
}

func (n *node) crash() { n.down = true }

// copyDisk is a copy of what is durable, to be put back later.
func (n *node) copyDisk() (restore func()) {
	wal, root, fc, store, marks := slices.Clone(n.wal), n.root, n.fc, maps.Clone(n.store), copyMarks(n.marks)
	return func() {
		n.wal, n.root, n.fc, n.store, n.marks = slices.Clone(wal), root, fc, maps.Clone(store), copyMarks(marks)
	}
}

// greet says hello from time to time, as time messages and reconnects make real nodes do.
func (n *node) greet() {
	n.handshake()
	n.w.after(n.w.s.Handshakes, n, n.greet)
}

// step feeds an event and does the duties that follow.
func (n *node) step(ev dpos.Event) {
	n.tellTime()
	if err := n.m.Step(ev); err != nil && errors.Is(err, dpos.ErrInvalid) && n.honest() {
		if _, vote := ev.(dpos.VerifiedVotesEvent); !vote {
			n.w.check.violation("machine", "node %d refuses %T: %v", n.id, ev, err)
		}
	}
	n.work()
}

const maxRounds = 10_000

func (n *node) work() {
	for range maxRounds {
		rd, ok := n.m.Ready()
		if !ok || n.down || n.w.check.found != nil {
			return
		}
		if n.wal = append(n.wal, rd.Records...); len(rd.Records) > 0 {
			n.saveMarks()
		}
		n.m.Advance()
		n.duties(&rd)
	}
	n.w.check.violation("machine", "node %d: Ready never ends", n.id)
}

func (n *node) duties(rd *dpos.Ready) {
	if len(rd.Votes) > 0 {
		n.cast(rd.Votes)
	}
	if p := rd.Produce; p != nil {
		n.produce(p)
	}
	for _, t := range rd.Tallies {
		n.tally(t)
	}
	if rd.Head != (common.Hash{}) {
		n.target = rd.Head
		n.execute()
	}
	if f := rd.Final; f != nil {
		n.root, n.fc = f.Root, f.FC
		n.seen.Trim(f.Point.Slot)
		n.marks.Trim(f.Point.Slot)
		if n.honest() {
			n.w.check.final(n, f)
		}
	}
	for _, h := range rd.Dropped {
		delete(n.store, h)
	}
	if len(rd.Evidence) > 0 && n.honest() {
		n.w.check.proof(n, rd.Evidence)
	}
	if len(rd.Resend) > 0 {
		n.sendVotes(signed(rd.Resend))
	}
	if rd.Session > 0 {
		n.step(dpos.Begin{Session: n.newSession(rd.Session)})
	}
	if rd.Alarm > 0 {
		n.alarm = rd.Alarm
		n.w.after(rd.Alarm-n.clock(), n, func() { n.wakeAt(rd.Alarm) })
	}
}

// signed gives votes a signature that counts as genuine here.
func signed(vs []block.Vote) []block.Vote {
	out := slices.Clone(vs)
	for i := range out {
		out[i].Signature[0] = 1
	}
	return out
}

func (n *node) cast(vs []block.Vote) {
	out := signed(vs)
	for i := range out {
		n.w.check.voted(n, &out[i])
	}
	if n.silent() {
		return
	}
	n.sendVotes(out)
}

func (n *node) sendVotes(vs []block.Vote) {
	n.broadcast(func(to *node) { to.votes(n, vs) })
}

// votes takes votes from a peer, as the driver does: judged first, then verified, then pooled.
func (n *node) votes(from *node, vs []block.Vote) {
	var good []dpos.VerifiedVote
	n.tellTime()
	for i, j := range n.m.JudgeVotes(vs) {
		if j.Verdict == dpos.VoteAccepted && vs[i].Signature[0] == 1 {
			good = append(good, dpos.VerifiedVote{Vote: vs[i], Key: j.Key})
		}
	}
	n.step(dpos.VerifiedVotesEvent{Votes: good})
	for i := range good {
		if v := good[i].Vote; v.Voter != n.self() && n.seen.AddVote(v, n.m.Sits) {
			n.unsaved = append(n.unsaved, v)
		}
	}
	for i := range vs {
		if b := n.w.blocks[vs[i].Target.Hash]; b != nil && n.store[b.Hash] == nil && b.Height > n.m.LIB().Height {
			n.ask(from, b.Hash)
		}
	}
}

func (n *node) tally(t dpos.Tally) {
	out := dpos.Tallied{ID: t.ID}
	good := make(map[common.Address]bool, len(t.Votes))
	for i := range t.Votes {
		v := &t.Votes[i]
		if v.Link == t.Link && (v.Signature[0] == 1 || v.Voter == n.self() && v.Signature == (block.BLSSignature{})) {
			good[v.Voter] = true
		} else {
			out.Bad = append(out.Bad, v.Voter)
		}
	}
	c := block.NewCertificate(t.Link, t.Schedules, func(a common.Address) bool { return good[a] })
	enough := true
	for s := range t.Schedules {
		q := t.Schedules[s].Quorum()
		if n.honest() && n.w.s.Bugs.QuorumMinusOne {
			q--
		}
		enough = enough && c.Count(s) >= q
	}
	if enough {
		out.Certificate = c
	}
	n.w.after(time.Millisecond, n, func() { n.step(out) })
}

// execute runs one block after the other up to the head that the machine wants.
func (n *node) execute() {
	if n.busy {
		return
	}
	b := n.nextToExecute()
	if b == nil {
		return
	}
	n.busy = true
	n.w.after(n.w.s.Execution, n, func() {
		n.busy = false
		if n.m.Has(b.Hash) {
			if n.unsound(b) {
				n.step(dpos.Failed{Hash: b.Hash})
			} else {
				n.executed[b.Hash] = true
				n.step(dpos.Executed{Hash: b.Hash})
			}
		}
		n.execute()
	})
}

// unsound says that execution refuses the block.
func (n *node) unsound(b *sealed) bool {
	return b.invalid || len(b.Next) > 0 && !b.Next.Equal(n.w.elect(b.Height))
}

func (n *node) nextToExecute() (next *sealed) {
	lib := n.m.LIB().Height
	for b := n.store[n.target]; b != nil && b.Height > lib && !n.executed[b.Hash]; b = b.parent {
		next = b
	}
	return next
}

func (n *node) produce(p *dpos.Produce) {
	// A driver executes the parent first; the simulation's execution is quick enough to build at once.
	h := dpos.Header{Parent: p.Parent, Height: p.Height, Slot: p.Slot, Producer: n.self(), QC: p.QC, FC: p.FC, Recovery: p.Recovery, Empty: p.EmptyOnly}
	if p.Next {
		h.Next = n.w.elect(p.Height)
	}
	a := n.adversary
	if n.silent() {
		n.step(dpos.Built{Slot: p.Slot})
		return
	}
	b := n.w.seal(h, n.id, a != nil && a.Invalid && n.w.rand.IntN(4) == 0)
	if b == nil {
		return
	}
	n.w.check.produced(n, b)
	if a == nil && n.w.s.Fragile > 0 && n.w.rand.IntN(100) < n.w.s.Fragile { // the power goes after the seal, before the block is stored
		n.crash()
		n.w.at(n.w.now+n.w.s.Params.Slot()/20, func() {
			if n.down {
				n.w.fail(n.start(false))
			}
		})
		return
	}
	if err := n.m.Step(dpos.Built{Slot: p.Slot, OK: true}); err != nil {
		n.w.fail(err)
		return
	}
	n.keep(b)
	var twin *sealed
	if a != nil && a.Equivocate {
		twin = n.w.seal(h, n.id, false)
	}
	n.broadcast(func(to *node) {
		if twin != nil && to.id%2 == 1 {
			to.receive(n, twin)
			return
		}
		to.receive(n, b)
	})
	if twin != nil {
		n.keep(twin)
	}
}

// keep takes a block whose parent is here.
func (n *node) keep(b *sealed) {
	err := n.m.Step(dpos.HeaderEvent{Header: b.Header})
	if err == nil {
		n.store[b.Hash] = b
	} else if errors.Is(err, dpos.ErrInvalid) && n.honest() && n.w.honestMaker(b) && !n.failedBelow(b) {
		n.w.check.violation("machine", "node %d refuses a block of honest node %d: %v", n.id, b.maker, err)
	}
	n.work()
}

// failedBelow reports whether a block rests on one that does not execute.
func (n *node) failedBelow(b *sealed) bool {
	for ; b != nil && b.Height > 0; b = b.parent {
		if n.unsound(b) {
			return true
		}
	}
	return false
}

func (w *world) honestMaker(b *sealed) bool { return b.maker >= 0 && w.nodes[b.maker].honest() }

// receive takes a block from a peer: relays it if it is new and its header is in order, asks for what lies between
// otherwise.
func (n *node) receive(from *node, b *sealed) {
	if n.store[b.Hash] != nil {
		return
	}
	if n.adversary != nil {
		n.plot(b)
	}
	n.tellTime()
	_, err := n.m.Check(b.Header)
	switch {
	case err == nil:
		n.keep(b)
		if n.store[b.Hash] != nil && !n.mute() {
			n.broadcast(func(to *node) {
				if to != from {
					to.receive(n, b)
				}
			})
		}
	case errors.Is(err, dpos.ErrUnknownParent):
		n.ask(from, b.Hash)
	case errors.Is(err, dpos.ErrFuture):
		n.w.after(n.w.s.Params.Slot(), n, func() { n.receive(from, b) })
	case errors.Is(err, dpos.ErrInvalid) && n.honest() && n.w.honestMaker(b) && !n.failedBelow(b):
		n.w.check.violation("machine", "node %d finds a block of honest node %d invalid: %v", n.id, b.maker, err)
	}
}
