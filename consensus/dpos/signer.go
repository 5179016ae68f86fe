package dpos

import (
	"cmp"
	"slices"
	"sort"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// signer is what we signed and therefore may not sign any more (rules 3 to 6 and 11). Links are in rising order of
// target slot.
type signer struct {
	prevotes   []block.Link                       // above the LIB, and the newest
	precommits []block.Link                       // above the LIB's source, and the newest
	produced   []uint64                           // slots above the LIB's, and the newest
	proofs     map[block.Point]*block.Certificate // QCs that the log holds, above the LIB, by target
	floor      uint64                             // sign nothing that rests on a source of this slot or below
	floored    bool
	accepted   bool            // the operator's word for this floor
	sessions   []block.Session // ours, newest last: begun here, or told
	due        bool            // something was signed that the log lacks, and the floor for it is not drawn yet
	lostSlot   uint64          // highest of these signatures that was shown; 0: none was
	reach      uint64          // while the floor is due: no block is sealed up to this slot; 0 before the first Tick
	drawn      bool            // the floor was drawn since the start
	domain     common.Hash     // the newest recovery; what was signed before it binds no more
	bugs       Bugs
}

func newSigner(cfg *Config, domain common.Hash) signer {
	s := signer{domain: domain, due: cfg.SilentUntilProven, bugs: cfg.Bugs, proofs: make(map[block.Point]*block.Certificate)}
	if cfg.Bugs.ForgetWAL {
		return s
	}
	for _, r := range cfg.Signed {
		if r.Recovery != domain && r.Kind != RecordSession && !cfg.Bugs.KeepOldDomain {
			continue
		}
		switch r.Kind {
		case RecordProduced:
			if !cfg.Bugs.ProduceTwice {
				s.produced = append(s.produced, r.Slot)
			}
		case RecordPrevote:
			s.prevotes = append(s.prevotes, r.Link)
		case RecordPrecommit:
			s.precommits = append(s.precommits, r.Link)
			s.prove(r.QC)
		case RecordFloor:
			s.floor, s.floored = max(s.floor, r.Slot), true
			s.due = cfg.SilentUntilProven
		case RecordForgot:
			s.due = true
		case RecordJustified:
			s.prove(r.QC)
		case RecordSession:
			s.keepSession(r.Session)
		}
	}
	for _, r := range cfg.Signed {
		s.accepted = s.accepted || r.Kind == RecordAccept && r.Slot == s.floor && s.floored && r.Recovery == domain
	}
	sort.Slice(s.produced, func(i, j int) bool { return s.produced[i] < s.produced[j] })
	s.prevotes, s.precommits = ordered(s.prevotes), ordered(s.precommits)
	return s
}

// prove keeps a QC that the log holds.
func (s *signer) prove(qc *block.Certificate) {
	if qc != nil && !s.bugs.VolatileQC {
		s.proofs[qc.Target] = qc
	}
}

// ordered sorts links and drops repeated ones.
func ordered(ls []block.Link) []block.Link {
	sort.Slice(ls, func(i, j int) bool {
		a, b := ls[i].Target, ls[j].Target
		if a.Slot != b.Slot {
			return a.Slot < b.Slot
		}
		return a.Hash.Cmp(b.Hash) < 0
	})
	out := ls[:0]
	for i, l := range ls {
		if i == 0 || l != ls[i-1] {
			out = append(out, l)
		}
	}
	return out
}

// from is the index of the first link with a target above the slot.
func from(ls []block.Link, slot uint64) int {
	return sort.Search(len(ls), func(i int) bool { return ls[i].Target.Slot > slot })
}

func newest(ls []block.Link) block.Link {
	if len(ls) == 0 {
		return block.Link{}
	}
	return ls[len(ls)-1]
}

func add(ls []block.Link, l block.Link) []block.Link {
	i := from(ls, l.Target.Slot)
	ls = append(ls, block.Link{})
	copy(ls[i+1:], ls[i:])
	ls[i] = l
	return ls
}

// on lists our votes on a block.
func (s *signer) on(p block.Point) (out []block.Link) {
	for _, ls := range [2][]block.Link{s.prevotes, s.precommits} {
		if len(ls) == 0 || newest(ls).Target.Slot < p.Slot {
			continue
		}
		i := len(ls)
		if p.Slot > 0 {
			i = from(ls, p.Slot-1)
		}
		for ; i < len(ls) && ls[i].Target.Slot == p.Slot; i++ {
			if ls[i].Target == p {
				out = append(out, ls[i])
			}
		}
	}
	return out
}

func (s *signer) votedOn(p block.Point) bool { return len(s.on(p)) > 0 }

// cast reports whether we signed this link.
func (s *signer) cast(l block.Link) bool {
	for _, o := range s.on(l.Target) {
		if o == l {
			return true
		}
	}
	return false
}

// below reports whether a signature of ours on this slot that we do not know is of no concern: the floor covers it, or will. Of a floor
// that is due only what was shown is certain: the time at which it is drawn may be before what is sealed above now.
func (s *signer) below(slot uint64) bool {
	return s.due && slot <= s.lostSlot || s.floored && slot <= s.floor
}

// older reports whether a link is older than all that the WAL still holds of its kind. It was signed and forgotten in
// order: a lost or copied log lacks the newest.
func (s *signer) older(l block.Link) bool {
	ls := s.prevotes
	if l.Kind == block.Precommit {
		ls = s.precommits
	}
	return len(ls) > 0 && l.Target.Slot < ls[0].Target.Slot
}

// Remembers reports whether a vote in this node's own name says nothing new: it is in the log, was forgotten in order, or is of an older
// domain.
func (m *Machine) Remembers(l block.Link) bool {
	return !m.inForceAt(l.Target.Slot) || m.own.cast(l) || m.own.older(l)
}

// awake is called at the first Tick.
func (s *signer) awake(m *Machine) {
	if s.due {
		s.drawReach(m)
	}
	m.again = len(s.prevotes)+len(s.precommits) > 0
}

// drawFloor draws the floor that is due, once a quorum's clocks are known and the time is that of the network.
func (s *signer) drawFloor(m *Machine) {
	if s.due && m.ticked && !m.fewClocks {
		s.due = false
		s.raiseFloor(m, max(s.floorAbove(m, s.lostSlot), s.floor)) // recorded in any case: it ends the mark in the log
	}
}

// followSetTime draws anew what was drawn at another time: where blocks are sealed while the floor is due, and, if the time was
// set forward by more than a slot, a floor that was drawn since the start.
func (s *signer) followSetTime(m *Machine, isFar bool) {
	switch {
	case s.due:
		s.drawReach(m)
		s.drawFloor(m)
	case isFar && s.drawn:
		s.silence(m, 0)
	}
}

// awaitTime has the floor drawn later. One of a wrong time would stay in the log: of a time that is behind it would leave uncovered
// what was signed since, of one that is ahead it would silence us until then. Meanwhile no vote is cast, and blocks are sealed above
// where the floor would be by our own clock, since production never waits for ever.
func (s *signer) awaitTime(m *Machine, slot uint64) {
	isNew := !s.due
	if isNew {
		m.out.Records = append(m.out.Records, SignRecord{Kind: RecordForgot, Recovery: s.domain})
	}
	s.due, s.lostSlot = true, max(s.lostSlot, slot)
	if m.ticked && (isNew || slot > s.reach) {
		s.drawReach(m)
	}
	m.dirty = true
}

// drawReach draws up to where no block is sealed while the floor is due.
func (s *signer) drawReach(m *Machine) {
	s.reach = s.floorAbove(m, s.lostSlot)
	m.first.floored, m.dirty = true, true
}

// silence raises the floor: something was signed, up to this slot or the present one, that we do not remember.
func (s *signer) silence(m *Machine, slot uint64) {
	if !m.ticked || m.fewClocks {
		s.awaitTime(m, slot)
		return
	}
	if f := s.floorAbove(m, slot); !s.floored || f > s.floor {
		s.raiseFloor(m, f)
	}
}

// floorAbove is the floor for what was signed up to a slot, or to the present one.
func (s *signer) floorAbove(m *Machine, slot uint64) uint64 {
	return max(slot, m.slot, m.first.line) + m.cfg.ClockBound + m.cfg.MaxAhead
}

func (s *signer) raiseFloor(m *Machine, f uint64) {
	s.accepted = s.accepted && f == s.floor
	s.floor, s.floored, s.drawn = f, true, true
	m.first.floored = true
	m.out.Records = append(m.out.Records, SignRecord{Kind: RecordFloor, Slot: f, Recovery: s.domain})
	m.dirty = true
}

// recallVotes enters genuine votes of ours that the log lacks, as if cast just now, and silences us: who signed them and
// does not know may have signed more.
func (s *signer) recallVotes(m *Machine, votes []block.ToldVote) {
	votes = slices.Clone(votes) // the oldest first: what is older than all that the log holds counts as forgotten in order
	slices.SortStableFunc(votes, func(a, b block.ToldVote) int { return cmp.Compare(a.Vote.Target.Slot, b.Vote.Target.Slot) })
	for i := range votes {
		l := votes[i].Vote.Link
		if !m.inForceAt(l.Target.Slot) || s.cast(l) || s.older(l) || s.bugs.IgnoreTold {
			continue
		}
		if s.bugs.ForgetWAL {
			s.silence(m, l.Target.Slot)
			continue
		}
		known := s.below(l.Target.Slot)
		switch l.Kind {
		case block.Prevote:
			s.prevotes = add(s.prevotes, l)
			m.out.Records = append(m.out.Records, s.record(RecordPrevote, l))
		case block.Precommit:
			s.precommits = add(s.precommits, l)
			s.prove(votes[i].QC)
			m.out.Records = append(m.out.Records, s.record(RecordPrecommit, l))
			if n := m.tree.nodes[l.Target.Hash]; n != nil {
				m.reprove(n)
			}
		}
		m.dirty = true
		if !known {
			s.silence(m, l.Target.Slot)
		}
	}
}

// certified looks for a vote of ours in a verified certificate on n that we do not remember. The certificate proves
// that we signed, though the vote itself is not in it.
func (s *signer) certified(m *Machine, n *node, c *block.Certificate) {
	if m.cfg.Self == (common.Address{}) || !m.inForce(n.own) || s.bugs.ForgetWAL || s.cast(c.Link) || s.below(c.Target.Slot) || s.older(c.Link) {
		return
	}
	voters, err := c.Voters(m.counting(n.own))
	if err != nil {
		return
	}
	for _, v := range voters {
		if v.Account == m.cfg.Self {
			s.silence(m, c.Target.Slot)
			return
		}
	}
}

// mayRest reports whether what rests on a source of this slot is above the floor.
func (s *signer) mayRest(source uint64) bool {
	return !s.due && (!s.floored || source > s.floor)
}

// keepSession keeps one of our sessions, in order; the oldest leaves.
func (s *signer) keepSession(x *block.Session) {
	if x == nil || slices.Contains(s.sessions, *x) {
		return
	}
	s.sessions = append(s.sessions, *x)
	slices.SortFunc(s.sessions, func(a, b block.Session) int {
		if a.Less(b) {
			return -1
		}
		return 1
	})
	s.sessions = s.sessions[max(0, len(s.sessions)-maxSessions):]
}

// newestSession is the highest number that we know of; 0: none.
func (s *signer) newestSession() uint64 {
	if len(s.sessions) == 0 {
		return 0
	}
	return s.sessions[len(s.sessions)-1].Number
}

// lacks reports whether a genuine session of ours is none that we know or have forgotten in order.
func (s *signer) lacks(x block.Session) bool {
	return !slices.Contains(s.sessions, x) && (len(s.sessions) == 0 || x.Number >= s.sessions[0].Number)
}

// sealed looks for a block of ours that we do not remember.
func (s *signer) sealed(m *Machine, n *node) {
	if n.Producer != m.cfg.Self || n.Producer == (common.Address{}) || !m.inForce(n.own) || s.below(n.Slot) || s.bugs.ForgetWAL || s.bugs.ProduceTwice {
		return
	}
	if s.sealedBefore(n.Slot) {
		return
	}
	forgot := !s.sealedIn(n.Slot)
	for o := m.tree.slots[n.Slot]; o != nil && !forgot; o = o.sibling {
		forgot = o != n && o.Producer == n.Producer
	}
	if forgot {
		s.silence(m, n.Slot)
	}
}

// sealedIn reports whether the log holds a block of the slot.
func (s *signer) sealedIn(slot uint64) bool {
	_, ok := slices.BinarySearch(s.produced, slot)
	return ok
}

// sealedBefore reports whether the log forgot the slot, if it ever held it: in order, as for votes (see older).
func (s *signer) sealedBefore(slot uint64) bool { return len(s.produced) > 0 && slot < s.produced[0] }

// trim forgets what no rule needs once n is the LIB.
func (s *signer) trim(n *node) {
	cut := func(ls []block.Link, slot uint64) []block.Link {
		if i := min(from(ls, slot), max(len(ls)-1, 0)); i > 0 {
			return append([]block.Link(nil), ls[i:]...)
		}
		return ls
	}
	s.prevotes = cut(s.prevotes, n.Slot)
	s.precommits = cut(s.precommits, n.source.Slot)
	for len(s.produced) > 1 && s.produced[0] <= n.Slot {
		s.produced = s.produced[1:]
	}
	for p := range s.proofs {
		if p.Slot <= n.Slot {
			delete(s.proofs, p)
		}
	}
}

// barsPrevote is rule 6 seen from our precommits: one of them conflicts with a prevote on d.
func (s *signer) barsPrevote(d *node) bool {
	for _, b := range s.precommits[from(s.precommits, d.source.Slot):] {
		if b.Target.Slot >= d.Slot {
			break
		}
		if !d.descends(b.Target) {
			return true
		}
	}
	return false
}

// barsPrecommit is rule 6 seen from our prevotes: one of them conflicts with a precommit on b.
func (s *signer) barsPrecommit(t *tree, b *node) bool {
	for _, d := range s.prevotes[from(s.prevotes, b.Slot):] {
		if d.Source.Slot >= b.Slot {
			continue
		}
		if n := t.nodes[d.Target.Hash]; n == nil || !n.descends(b.Point()) {
			return true
		}
	}
	return false
}

// vote casts what the rules ask for.
func (m *Machine) vote(rd *Ready) {
	if m.cfg.Self == (common.Address{}) || !m.ticked || m.now < 0 || !m.synced() || m.fewClocks || m.halted {
		return
	}
	prevoted := m.prevote(rd)
	m.precommit(rd, prevoted)
}

func (m *Machine) prevote(rd *Ready) bool {
	s := &m.own
	n := m.target4vote()
	if m.bugs.VoteBeforeExecute {
		n = m.voted()
	}
	if n == m.tree.root || !m.inForce(n.own) || !n.own.sits(m.cfg.Self) || len(s.prevotes) >= maxOwnVotes {
		return false
	}
	if last := newest(s.prevotes); n.Slot <= last.Target.Slot && !(m.bugs.SkipSlotRule && !s.votedOn(n.Point())) {
		return false
	}
	if m.future(n.Slot) || n.Slot <= m.first.line || !m.mayVoteFor(n) || s.barsPrevote(n) && !m.bugs.SkipLinkRule {
		return false
	}
	m.recordJustified(rd, n)
	l := block.Link{Kind: block.Prevote, Source: n.source, Target: n.Point()}
	s.prevotes = add(s.prevotes, l)
	m.emit(rd, RecordPrevote, l)
	return true
}

// target4vote is the newest executed block of the branch we vote for.
func (m *Machine) target4vote() *node {
	n := m.voted()
	if n == m.tree.head() {
		return m.tree.tip
	}
	for !n.executed {
		n = n.parent
	}
	return n
}

// precommit sends precommits on the blocks with a QC up to the newest prevoted one.
func (m *Machine) precommit(rd *Ready, prevoted bool) {
	s := &m.own
	v := m.tree.nodes[newest(s.prevotes).Target.Hash]
	if m.bugs.SkipNewestPrevote {
		v = m.tree.just
	}
	if v == nil || m.patient(m.slot) && v.Slot < m.slot && !prevoted {
		return
	}
	var due []*node
	last := newest(s.precommits).Target.Slot
	for n := v; n != m.tree.root && n.Slot > last && len(due) < maxPrecommits; n = n.parent {
		if n.justified || m.bugs.PrecommitWithoutQC {
			due = append(due, n)
		}
	}
	for i := len(due) - 1; i >= 0; i-- {
		n := due[i]
		if !m.inForce(n.own) || !n.own.sits(m.cfg.Self) || m.future(n.Slot) || n.Slot <= m.first.line || !s.mayRest(n.Slot) || len(s.precommits) >= maxOwnVotes {
			continue
		}
		if s.barsPrecommit(m.tree, n) && !m.bugs.SkipLinkRule {
			continue
		}
		l := block.Link{Kind: block.Precommit, Source: n.Point(), Target: n.Point()}
		s.precommits = add(s.precommits, l)
		s.prove(n.qc)
		m.emit(rd, RecordPrecommit, l)
	}
}

func (m *Machine) emit(rd *Ready, k RecordKind, l block.Link) {
	rd.Records = append(rd.Records, m.own.record(k, l))
	rd.Votes = append(rd.Votes, block.Vote{Link: l, Voter: m.cfg.Self})
}

// record is the line of the WAL for a vote.
func (s *signer) record(k RecordKind, l block.Link) SignRecord {
	r := SignRecord{Kind: k, Slot: l.Target.Slot, Link: l, Recovery: s.domain}
	if k == RecordPrecommit {
		r.QC = s.proofs[l.Target]
	}
	return r
}

// restedCertificates are the QCs in the log that belong to none of our precommits, by rising slot.
func (s *signer) restedCertificates() (out []SignRecord) {
	for p, qc := range s.proofs {
		own := slices.ContainsFunc(s.precommits, func(l block.Link) bool { return l.Target == p })
		if !own {
			out = append(out, SignRecord{Kind: RecordJustified, Slot: p.Slot, QC: qc, Recovery: s.domain})
		}
	}
	slices.SortFunc(out, func(a, b SignRecord) int {
		if a.Slot != b.Slot {
			return cmp.Compare(a.Slot, b.Slot)
		}
		return a.QC.Target.Hash.Cmp(b.QC.Target.Hash)
	})
	return out
}

// Silent reports whether rule 11 keeps us from voting.
func (m *Machine) Silent() bool {
	w := m.Waiting()
	w.Started = true
	return m.cfg.Self != (common.Address{}) && !w.Signs()
}

// OwnVotes are our newest votes above the LIB, unsigned, newest first, at most max: for handshakes.
func (m *Machine) OwnVotes(limit int) []block.Vote {
	var out []block.Vote
	a, b := m.own.prevotes, m.own.precommits
	for len(out) < limit && len(a)+len(b) > 0 {
		ls := &a
		if len(a) == 0 || len(b) > 0 && newest(b).Target.Slot >= newest(a).Target.Slot {
			ls = &b
		}
		l := newest(*ls)
		*ls = (*ls)[:len(*ls)-1]
		if l.Target.Slot > m.tree.root.Slot {
			out = append(out, block.Vote{Link: l, Voter: m.cfg.Self})
		}
	}
	return out
}

// Signed is what a WAL must still hold: a rewritten WAL of exactly these records loses nothing that a rule needs.
func (m *Machine) Signed() []SignRecord {
	var out []SignRecord
	domain := m.own.domain
	if domain != (common.Hash{}) && m.cfg.Self != (common.Address{}) {
		out = append(out, m.own.recoveryRecord())
	}
	if m.own.floored {
		out = append(out, SignRecord{Kind: RecordFloor, Slot: m.own.floor, Recovery: domain})
		if m.own.accepted {
			out = append(out, SignRecord{Kind: RecordAccept, Slot: m.own.floor, Recovery: domain})
		}
	}
	if m.own.due {
		out = append(out, SignRecord{Kind: RecordForgot, Recovery: domain}) // behind the floor that was
	}
	for i := range m.own.sessions {
		x := m.own.sessions[i]
		out = append(out, SignRecord{Kind: RecordSession, Slot: x.Number, Session: &x, Recovery: domain})
	}
	out = append(out, m.own.restedCertificates()...)
	for _, s := range m.own.produced {
		out = append(out, SignRecord{Kind: RecordProduced, Slot: s, Recovery: domain})
	}
	for _, l := range m.own.prevotes {
		out = append(out, m.own.record(RecordPrevote, l))
	}
	for _, l := range m.own.precommits {
		out = append(out, m.own.record(RecordPrecommit, l))
	}
	return out
}
