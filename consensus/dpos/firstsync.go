package dpos

import (
	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// startTurns is how many turns a producer waits for answers after a start before it seals blocks all the same:
// production never waits for ever.
const startTurns = 4

// firstSync is rule 11's wait after a start, whatever the vote log says: it may be an old copy, and then only others
// know what was signed since. Nothing is signed for a slot up to the line. No vote is cast before more than f of the
// other producers answered this start and the newest certified LIB that any of them showed is held here.
type firstSync struct {
	heard     map[common.Address]uint64 // producers that answered this start, with the lowest height of LIB that counts them
	certified uint64                    // slot of the newest certified LIB that was shown
	over      bool                      // enough were heard; it stays so until the next start
	line      uint64                    // nothing is signed for a slot at or below it; 0: there is no line
	alone     uint64                    // from this slot on blocks are sealed though too few answered
}

// Waiting says what keeps a machine from signing (rule 11). Its zero value means that nothing does.
type Waiting struct {
	Answers   int              // more producers must answer this start before a vote is cast
	Unheard   []common.Address // producers whose answer would count, while Answers is above 0
	Certified uint64           // slot of a certified LIB that was shown and is not held here yet; 0: none
	Line      uint64           // nothing is signed for slots up to this one; 0: the line has passed
	Floor     uint64           // no vote that rests on a source up to this slot, no block up to it; 0: no floor binds
	Overdue   bool             // answers are missing after four turns: blocks are sealed all the same, votes wait on
	Started   bool             // false before the first Tick: nothing is signed yet
}

// begin sets the line at the first Tick. slot is negative before genesis.
func (f *firstSync) begin(cfg *Config, slot int64) {
	f.alone = uint64(max(0, slot+int64(startTurns*cfg.Params.TurnSlots))) //nolint:gosec // turns are bounded, slots far below
	if cfg.NeverSigned || cfg.Bugs.SkipFirstSync {
		return
	}
	f.line = uint64(max(0, slot+int64(cfg.ClockBound+cfg.MaxAhead))) //nolint:gosec // as above
}

// hear takes another producer's answer to this start.
func (m *Machine) hear(ev *Heard) {
	m.own.recall(m, ev.Told)
	f := &m.first
	if f.over || ev.Producer == m.cfg.Self || !m.tree.root.next.knows(ev.Producer) && !m.tree.head().next.knows(ev.Producer) {
		return // who has no seat does not count; it is asked again should it get one
	}
	if f.heard == nil {
		f.heard = make(map[common.Address]uint64)
	}
	if _, known := f.heard[ev.Producer]; !known {
		f.heard[ev.Producer] = ev.Height
	}
	f.certified = max(f.certified, ev.Certified)
	m.dirty = true
}

// synced reports whether the first sync is over. The schedule that counts is that for children of the LIB: a LIB that
// changes it has the answers counted anew.
func (m *Machine) synced() bool {
	f := &m.first
	if f.over || m.bugs.SkipFirstSync {
		return true
	}
	f.over = m.tree.root.Slot >= f.certified
	for _, s := range m.counting(m.tree.root.next) {
		missing, _ := m.unheard(s)
		f.over = f.over && missing <= 0
	}
	if f.over {
		f.heard = nil
	}
	return f.over
}

// unheard counts the answers that are missing of one schedule: more than f others, all if they are fewer. An answer
// counts once the LIB that it showed is held here.
func (m *Machine) unheard(s block.Schedule) (missing int, who []common.Address) {
	others := 0
	for _, p := range s {
		if p.Account == m.cfg.Self {
			continue
		}
		others++
		if height, ok := m.first.heard[p.Account]; !ok || height > m.tree.root.Height {
			who = append(who, p.Account)
		}
	}
	return min(s.Faulty()+1, others) - (others - len(who)), who
}

// maySeal reports whether a block of the present slot may be sealed.
func (m *Machine) maySeal() bool {
	f, s := &m.first, &m.own
	return m.slot > f.line && (m.slot >= f.alone || m.synced()) && !s.waiting && !s.lost && (!s.floored || m.slot > s.floor)
}

// Waiting says what keeps the machine from signing.
func (m *Machine) Waiting() (w Waiting) {
	if m.cfg.Self == (common.Address{}) {
		return Waiting{Started: true}
	}
	w.Started = m.ticked
	if !m.synced() {
		for _, s := range m.counting(m.tree.root.next) {
			if missing, who := m.unheard(s); missing > w.Answers {
				w.Answers, w.Unheard = missing, who
			}
		}
		w.Overdue = m.ticked && m.slot >= m.first.alone
		if m.first.certified > m.tree.root.Slot {
			w.Certified = m.first.certified
		}
	}
	if m.ticked && (m.slot <= m.first.line || m.now < 0) && m.first.line > 0 {
		w.Line = m.first.line
	}
	if !m.own.mayRest(m.tree.head().source.Slot) {
		w.Floor = max(m.own.floor, 1)
	}
	return w
}

// Signs reports whether nothing keeps the machine from voting.
func (w *Waiting) Signs() bool {
	return w.Started && w.Answers <= 0 && w.Certified == 0 && w.Line == 0 && w.Floor == 0
}

// VotesBy are the newest votes of an account that the machine holds, newest first, at most limit of them: those above
// the LIB, and the newest verified one of each kind below it. Their signatures need not be verified.
func (m *Machine) VotesBy(a common.Address, limit int) []block.Vote {
	w := m.pool.index[a]
	if w == nil {
		return nil
	}
	var out []block.Vote
	for _, list := range [2][]*pooled{w.known, w.unknown} {
		for _, x := range list {
			out = append(out, x.Vote)
		}
	}
	for _, v := range w.past {
		if v.Target.Slot > 0 {
			out = append(out, v)
		}
	}
	sortVotes(out)
	return out[:min(len(out), limit)]
}
