package dpos

import (
	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

const (
	// startTurns is how many turns a producer waits for answers after a start before it seals blocks all the same:
	// production never waits for ever.
	startTurns = 4
	// furtherTurns is how many turns further answers are waited for once enough are there.
	furtherTurns = 2
	// forgetfulSlots is how many slots above its floor a forgetful producer may rest on what others answered.
	forgetfulSlots = 64
)

// firstSync is rule 11's wait after a start, whatever the vote log says: it may be an old copy, and then only others
// know what was signed since. Nothing is signed for a slot up to the line. No vote is cast before so many others answered
// the session that with this producer they are a quorum of every schedule that counts, the newest certified LIB that any
// of them showed is held here, and all further ones have answered or had time to.
type firstSync struct {
	session   block.Session             // that answers must name
	wanted    uint64                    // number of a session to begin; nothing is signed before
	asked     bool                      // Ready told it
	heard     map[common.Address]uint64 // producers that answered, with the lowest height of LIB that counts them
	certified uint64                    // slot of the newest certified LIB that was shown
	justified uint64                    // J*: slot of the newest justified block that was shown
	enough    bool                      // answers, since slot
	since     uint64
	over      bool   // it stays so until the next session
	floored   bool   // the floor was raised in this session, so it covers all earlier ones
	line      uint64 // nothing is signed for a slot at or below it; 0: there is no line
	alone     uint64 // from this slot on blocks are sealed though too few answered
}

// Waiting says what keeps a machine from signing (rule 11). Its zero value means that nothing does.
type Waiting struct {
	Answers   int              // more producers must answer this start before a vote is cast
	Unheard   []common.Address // producers whose answer would count, while Answers is above 0, Further or Floor binds
	Certified uint64           // slot of a certified LIB that was shown and is not held here yet; 0: none
	Further   uint64           // enough have answered; votes wait for the others up to this slot; 0: not
	Line      uint64           // nothing is signed for slots up to this one; 0: the line has passed
	Floor     uint64           // no vote that rests on a source up to this slot, no block up to it; 1: it is drawn once the time is set; 0: no floor binds
	Rest      Rest             // the other way back from a floor that binds
	Overdue   bool             // answers are missing after four turns: blocks are sealed all the same, votes wait on
	Renewing  bool             // a further session begins
	Base      uint64           // height of the block that the newest recovery goes on from, which is not here yet; 0: it is (rule 13)
	Started   bool             // false before the first Tick: nothing is signed yet
}

// Rest is how far a forgetful producer is from resting on what others answered to its start, rather than on a source
// above its floor.
type Rest struct {
	Missing   int    // answers; 0: enough
	From      uint64 // slot, not before
	Justified uint64 // slot of the newest justified block that was shown: the least that may be rested on
	Held      bool   // that block is held here
	Accepted  bool   // the operator's word stands for one answer
}

// drawLine draws the line at the start of a session. slot is negative before genesis.
func (f *firstSync) drawLine(cfg *Config, slot int64) {
	f.alone = uint64(max(0, slot+int64(startTurns*cfg.Params.TurnSlots))) //nolint:gosec // turns are bounded, slots far below
	f.since = min(f.since, uint64(max(0, slot)))                          //nolint:gosec // answers that came before the time was set
	if cfg.NeverSigned || cfg.Bugs.SkipFirstSync || cfg.Bugs.SkipLine {
		return
	}
	f.line = uint64(max(0, slot+int64(cfg.ClockBound+cfg.MaxAhead))) //nolint:gosec // as above
}

// setBack has the waits of a session end as if it had begun at the present slot: they were counted from a time that was wrong, and an
// earlier run signed for no slot that is further ahead of the right one.
func (f *firstSync) setBack(cfg *Config, slot uint64) {
	f.line = min(f.line, slot+cfg.ClockBound+cfg.MaxAhead)
	f.alone = min(f.alone, slot+startTurns*cfg.Params.TurnSlots)
	f.since = min(f.since, slot)
}

// setForward has the line of a session that has not signed yet drawn as if it had begun at that slot: it was drawn at a time that was
// behind, and an earlier run may have signed since.
func (f *firstSync) setForward(cfg *Config, slot uint64) {
	if f.line > 0 {
		f.line = max(f.line, slot+cfg.ClockBound+cfg.MaxAhead)
	}
}

// beginSession begins a session, the first or a further one.
func (m *Machine) beginSession(s block.Session) {
	if m.cfg.Self == (common.Address{}) {
		return
	}
	if m.first.session != (block.Session{}) {
		m.cfg.NeverSigned = false // of this key from here on
	}
	m.first = firstSync{session: s, line: m.first.line, alone: m.first.alone}
	if m.ticked {
		m.first.drawLine(&m.cfg, int64(m.slot)) //nolint:gosec // far below
	}
	m.own.keepSession(&s)
	m.out.Records = append(m.out.Records, SignRecord{Kind: RecordSession, Slot: s.Number, Session: &s, Recovery: m.own.domain})
	m.dirty = true
}

// renewSession has a further session begun before anything is signed. A sole producer has nobody to ask.
func (m *Machine) renewSession() {
	if m.first.session == (block.Session{}) || !m.hasOthers() {
		return
	}
	m.first.wanted, m.first.over, m.first.enough = m.own.newestSession()+1, false, false
	m.dirty = true
}

func (m *Machine) hasOthers() bool {
	for _, s := range m.counting(m.tree.root.next) {
		for i := range s {
			if s[i].Account != m.cfg.Self {
				return true
			}
		}
	}
	return false
}

// askSession asks for the session that is wanted, once.
func (m *Machine) askSession(rd *Ready) {
	if f := &m.first; f.wanted > 0 && !f.asked && m.ticked {
		rd.Session, f.asked = f.wanted, true
	}
}

// meetSession takes a genuine session of ours. One that the log lacks was begun by an instance that knew more, or knows
// more now: we may have signed what we do not remember.
func (m *Machine) meetSession(s block.Session) {
	if m.cfg.Self == (common.Address{}) || m.bugs.IgnoreSessions || m.bugs.ForgetWAL || !m.own.lacks(s) {
		return
	}
	m.own.keepSession(&s)
	m.out.Records = append(m.out.Records, SignRecord{Kind: RecordSession, Slot: s.Number, Session: &s, Recovery: m.own.domain})
	if !m.first.floored {
		m.own.silence(m, 0)
	}
	if f := &m.first; s.Number >= max(f.session.Number, f.wanted) {
		f.wanted, f.asked, f.over, f.enough = s.Number+1, false, false, false
	}
	m.dirty = true
}

// hearAnswer takes another node's answer to a session.
func (m *Machine) hearAnswer(ev *Heard) {
	if m.cfg.Self == (common.Address{}) {
		return
	}
	m.own.recallVotes(m, ev.Told)
	m.own.recallSeal(m, ev.Sealed)
	for _, s := range ev.Sessions {
		m.meetSession(s)
	}
	f := &m.first
	if ev.Session != f.session || f.wanted > 0 || ev.Producer == m.cfg.Self || !m.Sits(ev.Producer) {
		return // who has no seat does not count; it is asked again should it get one
	}
	if f.heard == nil {
		f.heard = make(map[common.Address]uint64)
	}
	if _, known := f.heard[ev.Producer]; !known {
		f.heard[ev.Producer] = ev.Height
	}
	f.certified, f.justified = max(f.certified, ev.Certified), max(f.justified, ev.Justified, ev.Certified)
	m.dirty = true
}

// recallSeal takes a genuine seal of ours.
func (s *signer) recallSeal(m *Machine, slot uint64) {
	if slot == 0 || !m.inForceAt(slot) || s.below(slot) || s.bugs.ForgetWAL || s.bugs.ProduceTwice || s.bugs.IgnoreTold || s.sealedIn(slot) || s.sealedBefore(slot) {
		return
	}
	s.silence(m, slot)
}

// synced reports whether the first sync is over. The schedule that counts is that for children of the LIB: a LIB that
// changes it has the answers counted anew.
func (m *Machine) synced() bool {
	f := &m.first
	if f.over || m.bugs.SkipFirstSync {
		return true
	}
	if f.wanted > 0 || m.awaitsBase() != nil {
		return false
	}
	enough, all := m.tree.root.Slot >= f.certified, true
	for _, s := range m.counting(m.tree.root.next) {
		missing, who := m.countUnheard(s, m.answersNeeded(s))
		enough, all = enough && missing <= 0, all && len(who) == 0
	}
	if !enough {
		f.enough = false
		return false
	}
	if !f.enough {
		f.enough, f.since = true, m.slot
	}
	f.over = all || m.ticked && m.slot >= f.since+furtherTurns*m.p.TurnSlots
	return f.over
}

// answersNeeded is how many others must have answered: with this producer a quorum.
func (m *Machine) answersNeeded(s block.Schedule) int {
	if m.bugs.FewAnswers {
		return min(s.Faulty()+1, len(s)-1)
	}
	if s.Index(m.cfg.Self) >= 0 {
		return s.Quorum() - 1
	}
	return s.Quorum()
}

// countUnheard counts the answers that are missing of one schedule. An answer counts once the LIB that it showed is held here.
func (m *Machine) countUnheard(s block.Schedule, needed int) (missing int, who []common.Address) {
	others := 0
	for i := range s {
		a := s[i].Account
		if a == m.cfg.Self {
			continue
		}
		others++
		if height, ok := m.first.heard[a]; !ok || height > m.tree.root.Height {
			who = append(who, a)
		}
	}
	return needed - (others - len(who)), who
}

// maySeal reports whether a block of the present slot may be sealed.
func (m *Machine) maySeal() bool {
	f, s := &m.first, &m.own
	return f.wanted == 0 && m.awaitsBase() == nil && m.slot > f.line && (m.slot >= f.alone || m.synced()) && (!s.due || m.slot > s.reach) && (!s.floored || m.slot > s.floor)
}

// mayVoteFor reports whether the floor leaves us a prevote on n: by a source above it, or by what others answered.
func (m *Machine) mayVoteFor(n *node) bool {
	s := &m.own
	if s.mayRest(n.source.Slot) {
		return true
	}
	if s.due || n.Slot <= s.floor || m.bugs.FloorOnly {
		return false
	}
	r := m.measureRest()
	return r.Missing <= 0 && m.slot >= r.From && (m.bugs.IgnoreJustified || r.Held && n.source.Slot >= r.Justified)
}

// measureRest is how far the second way back from the floor is open: a quorum of others answered this start, so that one of them is
// honest and remembers, whatever we precommitted and forgot; what it rests on is at or above that.
func (m *Machine) measureRest() Rest {
	r := Rest{From: m.own.floor + forgetfulSlots, Justified: m.first.justified, Accepted: m.own.accepted}
	for _, s := range m.counting(m.tree.root.next) {
		missing, _ := m.countUnheard(s, m.answersToRest(s))
		r.Missing = max(r.Missing, missing)
	}
	r.Held = m.tree.just.Slot >= r.Justified && m.tree.root.Slot >= m.first.certified
	return r
}

// answersToRest is how many others must have answered for the second way back: a quorum, all if they are no more, and one
// fewer by the operator's word.
func (m *Machine) answersToRest(s block.Schedule) int {
	others := len(s)
	if s.Index(m.cfg.Self) >= 0 {
		others--
	}
	if m.own.accepted {
		return min(s.Quorum()-1, others)
	}
	return min(s.Quorum(), others)
}

// acceptAnswers takes the operator's word.
func (m *Machine) acceptAnswers() {
	if s := &m.own; s.floored && !s.due && !s.accepted && !s.mayRest(m.tree.head().source.Slot) {
		s.accepted = true
		m.out.Records = append(m.out.Records, SignRecord{Kind: RecordAccept, Slot: s.floor, Recovery: s.domain})
		m.dirty = true
	}
}

// recordJustified writes the certificate of J* to the log before a vote rests on it: were it lost in a crash with all who hold it, what
// was voted on it would bar us from all else.
func (m *Machine) recordJustified(rd *Ready, n *node) {
	j := m.tree.just
	if m.own.mayRest(n.source.Slot) || j.qc == nil || m.own.proofs[j.Point()] != nil {
		return
	}
	m.own.prove(j.qc)
	rd.Records = append(rd.Records, SignRecord{Kind: RecordJustified, Slot: j.Slot, QC: j.qc, Recovery: m.own.domain})
}

// Session is what answers must name; the zero one while a further one is to begin.
func (m *Machine) Session() block.Session {
	if m.first.wanted > 0 {
		return block.Session{}
	}
	return m.first.session
}

// Asks reports whether further answers to this session are of use.
func (m *Machine) Asks() bool {
	if m.cfg.Self == (common.Address{}) || m.first.wanted > 0 || !m.hasOthers() {
		return false
	}
	w := m.Waiting()
	return !w.Signs() && (!m.first.over || w.Line > 0 || w.Floor > 0 && len(w.Unheard) > 0)
}

// NewestSession is the highest number of our sessions that the log knows; 0: none.
func (m *Machine) NewestSession() uint64 { return m.own.newestSession() }

// Waiting says what keeps the machine from signing.
func (m *Machine) Waiting() (w Waiting) {
	if m.cfg.Self == (common.Address{}) {
		return Waiting{Started: true}
	}
	f := &m.first
	w.Started, w.Renewing = m.ticked, f.wanted > 0
	if r := m.awaitsBase(); r != nil {
		w.Base = max(r.Height, 1)
	}
	if !m.own.mayRest(m.tree.head().source.Slot) && !m.mayVoteFor(m.tree.head()) {
		w.Floor, w.Rest = max(m.own.floor, 1), m.measureRest()
		if m.own.due {
			w.Floor, w.Rest.Accepted = 1, false // a word of the operator was for the floor before
		}
	}
	if synced := m.synced(); !synced || w.Floor > 0 {
		for _, s := range m.counting(m.tree.root.next) {
			missing, who := m.countUnheard(s, m.answersNeeded(s))
			if len(who) > len(w.Unheard) {
				w.Unheard = who
			}
			if !synced {
				w.Answers = max(w.Answers, missing)
			}
		}
		w.Overdue = !synced && w.Answers > 0 && m.ticked && m.slot >= f.alone
		if !synced && f.certified > m.tree.root.Slot {
			w.Certified = f.certified
		}
		if !synced && f.enough {
			w.Further = f.since + furtherTurns*m.p.TurnSlots
		}
	}
	if m.ticked && (m.slot <= f.line || m.now < 0) && f.line > 0 {
		w.Line = f.line
	}
	return w
}

// Signs reports whether nothing keeps the machine from voting.
func (w *Waiting) Signs() bool {
	return w.Started && w.Answers <= 0 && w.Certified == 0 && w.Further == 0 && w.Line == 0 && w.Floor == 0 && !w.Renewing && w.Base == 0
}
