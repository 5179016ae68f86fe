package dpos

import (
	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// offence is told once.
type offence struct {
	kind EvidenceKind
	slot uint64
}

// suspicion is a pair of one voter's votes that no honest producer casts. It becomes evidence when both signatures
// are verified, each by itself: anyone may send votes in another's name, or two whose wrongs cancel out in a sum.
type suspicion struct {
	kind EvidenceKind
	pair [2]*pooled
}

// witness tells of a second block of one slot by one producer.
func (m *Machine) witness(n *node) {
	s := seat{n.Slot, n.Producer}
	if m.reported[s] {
		return
	}
	for o := m.tree.slots[n.Slot]; o != nil; o = o.sibling {
		if o != n && o.Producer == n.Producer {
			m.reported[s] = true
			m.tell(Evidence{Kind: DoubleSeal, Guilty: n.Producer, Slot: n.Slot, Headers: [2]Header{o.Header, n.Header}})
			return
		}
	}
}

func (m *Machine) tell(e Evidence) {
	if len(m.out.Evidence) < maxEvidence {
		m.out.Evidence = append(m.out.Evidence, e)
	}
}

// spend takes from the Step's work; false if that is used up. Signatures are verified only once there is a quorum, so
// that the votes that make us search cost their sender nothing.
func (m *Machine) spend(n int) bool {
	if m.pool.work >= maxEvidenceWork {
		return false
	}
	m.pool.work += n
	return true
}

// suspect compares a vote with the voter's others.
func (m *Machine) suspect(w *voter, x *pooled) {
	if w.account == m.cfg.Self {
		return
	}
	if x.Kind == block.Prevote {
		for _, list := range [2][]*pooled{w.known, w.unknown} {
			for _, o := range list {
				if !m.spend(1) {
					x.unsought = true
					return
				}
				if o.Kind == block.Prevote && o.Target.Slot == x.Target.Slot && o.Target != x.Target {
					m.charge(w, &suspicion{kind: DoubleVote, pair: [2]*pooled{o, x}})
				}
			}
		}
	}
	if x.node != nil {
		m.crossed(w, x)
	}
}

// crossed looks for a breach of rule 6's second between a vote on a known block and the voter's others.
func (m *Machine) crossed(w *voter, x *pooled) {
	if w.account == m.cfg.Self {
		return
	}
	for _, o := range w.known {
		if !m.spend(1) {
			x.unsought = true
			return
		}
		b, d := o, x
		if x.Kind == block.Precommit {
			b, d = x, o
		}
		if b.Kind != block.Precommit || d.Kind != block.Prevote || b.node == nil || d.node == nil {
			continue
		}
		if d.Source.Slot >= b.Target.Slot || b.Target.Slot >= d.Target.Slot {
			continue
		}
		a, steps := d.node.climb(b.Target.Slot)
		m.spend(steps)
		if a == nil || a.Point() != b.Target {
			m.charge(w, &suspicion{kind: CrossVote, pair: [2]*pooled{b, d}})
		}
	}
}

// charge has the signatures of a suspicious pair verified, each by itself.
func (m *Machine) charge(w *voter, s *suspicion) {
	if w.caught[s.offence()] || len(m.pool.suspects) >= maxSuspects {
		return
	}
	m.pool.suspects = append(m.pool.suspects, s)
	for _, x := range s.pair {
		if !x.alone {
			m.ask(&question{link: x.Link, picks: []*pooled{x}}, m.schedulesOf(x))
		}
	}
	m.convict()
}

// path is a CrossVote's: from D down to the first at or below B's slot. It is nil if finality has passed meanwhile and
// the blocks that far down are forgotten.
func (s *suspicion) path() (path []common.Hash) {
	b, d := s.pair[0], s.pair[1]
	for n := d.node; n != nil; n = n.parent {
		path = append(path, n.Hash)
		if n.Slot <= b.Target.Slot {
			return path
		}
	}
	return nil
}

func (s *suspicion) offence() offence {
	return offence{s.kind, max(s.pair[0].Target.Slot, s.pair[1].Target.Slot)}
}

// schedulesOf are schedules that hold the voter's key.
func (m *Machine) schedulesOf(x *pooled) []block.Schedule {
	if x.node != nil {
		return x.node.own.count
	}
	for _, r := range m.comingRegimes() {
		if r.cur.Index(x.Voter) >= 0 {
			return []block.Schedule{r.cur}
		}
		if r.other.Index(x.Voter) >= 0 {
			return []block.Schedule{r.other}
		}
	}
	return nil
}

// convict turns suspicions whose votes are verified into evidence and drops those with a forged vote.
func (m *Machine) convict() {
	keep := m.pool.suspects[:0]
	for _, s := range m.pool.suspects {
		a, b := s.pair[0], s.pair[1]
		switch w := m.pool.index[a.Voter]; {
		case a.bad || b.bad || w == nil:
		case a.alone && b.alone:
			if w.caught[s.offence()] || a.key != b.key { // guilt of two keys is not provable
				break
			}
			var path []common.Hash
			if s.kind == CrossVote {
				if path = s.path(); path == nil {
					break
				}
			}
			if w.caught == nil {
				w.caught = make(map[offence]bool)
			}
			w.caught[s.offence()] = true
			m.tell(Evidence{Kind: s.kind, Guilty: a.Voter, Slot: s.offence().slot, Votes: [2]block.Vote{a.Vote, b.Vote}, Key: a.key, Path: path})
		default:
			keep = append(keep, s)
		}
	}
	clear(m.pool.suspects[len(keep):])
	m.pool.suspects = keep
}

// doubt has a vote in our own name verified that we do not know, unless it is already.
func (m *Machine) doubt(x *pooled) {
	if !m.inForceAt(x.Target.Slot) || m.own.older(x.Link) || x.node != nil && !x.node.own.sits(x.Voter) {
		return
	}
	if x.alone {
		m.own.recallVotes(m, []block.ToldVote{{Vote: x.Vote}})
		return
	}
	s := m.schedulesOf(x)
	if s == nil || m.pool.ownCheck {
		return
	}
	m.pool.ownCheck = true
	m.ask(&question{link: x.Link, picks: []*pooled{x}}, s)
}

// recognise ends doubt: a genuine vote of ours that our WAL lacks silences us.
func (m *Machine) recognise(x *pooled) {
	if x.Voter != m.cfg.Self {
		return
	}
	m.pool.ownCheck = false
	if x.good {
		m.own.recallVotes(m, []block.ToldVote{{Vote: x.Vote}})
	}
}
