package dpos

import (
	"slices"
	"sort"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// Ready gives the duties that have gathered, if any. It gives the same until Advance.
func (m *Machine) Ready() (Ready, bool) {
	if m.ready != nil {
		return *m.ready, true
	}
	rd := m.out
	m.out = Ready{}
	if m.dirty {
		m.dirty = false
		m.vote(&rd)
		m.produce(&rd)
		if h := m.voted().Hash; h != m.told {
			rd.Head, m.told = h, h
		}
	}
	m.resend(&rd)
	m.askSession(&rd)
	if a := m.alarm(); a != m.toldAlarm {
		rd.Alarm, m.toldAlarm = a, a
	}
	if rd.empty() {
		return Ready{}, false
	}
	if rd.Alarm == 0 {
		rd.Alarm = m.toldAlarm
	}
	m.ready = &rd
	return rd, true
}

func (rd *Ready) empty() bool {
	return len(rd.Records)+len(rd.Votes)+len(rd.Tallies)+len(rd.Dropped)+len(rd.Evidence)+len(rd.Resend) == 0 &&
		rd.Session == 0 && rd.Produce == nil && rd.Head == (common.Hash{}) && rd.Final == nil && rd.Alarm == 0
}

// Advance says that the last Ready's records are durable and its other duties are taken care of.
func (m *Machine) Advance() {
	if m.ready == nil {
		return
	}
	votes := m.ready.Votes
	m.ready = nil
	for i := range votes {
		m.pool1(votes[i].Link)
	}
}

// alarm is the start of the next slot.
func (m *Machine) alarm() time.Duration {
	if !m.ticked {
		return 0
	}
	return time.Duration(m.slot+1) * m.p.Slot()
}

// produce asks for a block when our slot has begun.
func (m *Machine) produce(rd *Ready) {
	s := &m.own
	h := m.tree.head()
	if m.cfg.Self == (common.Address{}) || !m.ticked || m.now < 0 || m.slot <= h.Slot || !m.maySeal() || !m.maySealNow() {
		return
	}
	r := m.recoveryAt(h.Point())
	if !m.inForce(h.next) || r != nil && m.slot < r.FirstSlot {
		return
	}
	at, done := slices.BinarySearch(s.produced, m.slot)
	if done { // the log holds every slot above the LIB's that was sealed, in whatever order
		return
	}
	if h.next.cur.Owner(m.slot, m.p.TurnSlots).Account != m.cfg.Self {
		return
	}
	p := &Produce{Slot: m.slot, Parent: h.Hash, Height: h.Height + 1, Next: m.announces(h.next, h.Height+1)}
	source, proven := m.provenBelow(h)
	final := proven.Height
	if r != nil {
		p.Recovery = r.Hash
	}
	if lib := m.tree.root; lib.fc != nil && lib.Slot > proven.Slot {
		p.FC, final = lib.fc, lib.Height
		if lib.Slot > source.Slot {
			source = lib.Point()
		}
	}
	for n := h; n != nil && n.Slot > source.Slot; n = n.parent {
		if n.qc != nil {
			p.QC, source = n.qc, n.Point()
			break
		}
	}
	if p.EmptyOnly = m.slow(p.Height, final) && !m.bugs.IgnoreStall; p.EmptyOnly && m.slot-h.Slot < m.p.TurnSlots+1 {
		return
	}
	s.produced = slices.Insert(s.produced, at, m.slot)
	rd.Records = append(rd.Records, SignRecord{Kind: RecordProduced, Slot: m.slot, Recovery: s.domain})
	rd.Produce = p
}

// resend sends our votes above the LIB again when it stands still.
func (m *Machine) resend(rd *Ready) {
	if m.cfg.Self == (common.Address{}) || !m.ticked || !m.again && m.slot-m.quietFrom < resendSlots {
		return
	}
	m.quietFrom, m.again = m.slot, false
	rd.Resend = m.OwnVotes(maxResend)
}

// patient reports whether rule 8's patience binds in this slot.
func (m *Machine) patient(slot uint64) bool {
	return m.p.Patience && slot/patienceWindowSlots%2 == 1
}

// snap is the newest justified block known when a slot began.
func (m *Machine) snap(slot uint64) block.Point {
	n := uint64(len(m.snaps))
	switch {
	case !m.ticked || slot > m.slot:
		return m.tree.just.Point()
	case m.slot-slot >= n:
		slot = m.slot - n + 1
	}
	return m.snaps[slot%n]
}

// judged reports whether a leaf is preferred by its own chain and what was certified before the slot before its own
// began (rule 8, patience).
func (m *Machine) judged(l *node) bool {
	j := m.tree.root
	if n := m.tree.nodes[m.snap(max(l.Slot, 1)-1).Hash]; n != nil && n.outranks(j) {
		j = n
	}
	if n := m.tree.nodes[l.source.Hash]; n != nil && n.outranks(j) {
		j = n
	}
	return !m.tree.beaten(l, j)
}

// voted is the head of the branch that we vote for and execute: the preferred one, but for rule 8's patience.
func (m *Machine) voted() *node {
	h := m.tree.head()
	if !m.p.Patience {
		return h
	}
	if l := m.firstJudged(func(l *node) bool { return l.Slot > h.Slot }); l != nil {
		return l
	}
	if h == m.tree.root || !m.patient(h.Slot) || m.judged(h) {
		return h
	}
	if l := m.firstJudged(func(l *node) bool { return l != h && l.Slot+uint64(len(m.snaps)) > m.slot }); l != nil {
		return l
	}
	return h
}

// firstJudged is the first, by falling slot, of the candidates among leaves of patient slots that patience prefers.
func (m *Machine) firstJudged(candidate func(*node) bool) *node {
	var ls []*node
	for _, l := range m.tree.leaves {
		if l.Slot <= m.tree.limit && m.patient(l.Slot) && candidate(l) {
			ls = append(ls, l)
		}
	}
	sort.Slice(ls, func(i, j int) bool { return ls[i].Slot > ls[j].Slot || ls[i].Slot == ls[j].Slot && ls[i].better(ls[j]) })
	for _, l := range ls[:min(len(ls), maxPatientLeaves)] {
		if l != m.tree.root && m.judged(l) {
			return l
		}
	}
	return nil
}
