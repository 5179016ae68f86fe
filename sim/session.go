package sim

import (
	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// everybody has a seat as far as the bounds of marks go: a simulation has few accounts.
func everybody(common.Address) bool { return true }

func copyMarks(from *dpos.Marks) *dpos.Marks {
	to := dpos.NewMarks()
	for _, a := range from.Accounts() {
		for _, s := range from.Sessions(a, block.Session{}) {
			to.AddSession(s, everybody)
		}
		for _, v := range from.Votes(a) {
			to.AddVote(v, everybody)
		}
	}
	return to
}

// saveMarks makes what was seen of others durable: it rides on a write of the node's own.
func (n *node) saveMarks() {
	for _, v := range n.unsaved {
		n.marks.AddVote(v, everybody)
	}
	n.unsaved = n.unsaved[:0]
}

// ask4Answers asks the others, slot after slot, what they hold of this node's signatures while that is of use.
func (n *node) ask4Answers() {
	if n.m.Asks() {
		s := n.m.Session()
		n.broadcast(func(to *node) { to.answer(n, s) })
	}
	n.w.after(n.w.s.Params.Slot(), n, n.ask4Answers)
}

// answer tells a node that has started where this one is and what it holds of the other's signatures (rule 11), once the
// session is on its disk.
func (n *node) answer(to *node, s block.Session) {
	if n.mute() {
		return
	}
	lib := n.m.LIB()
	ev := dpos.Heard{Producer: n.self(), Session: s, Height: lib.Height}
	qc, fc := n.m.BestQC(), n.fc
	if n.adversary != nil && n.adversary.Lies {
		ev.Height, qc, fc = 0, nil, nil
	} else {
		n.seen.AddSession(block.SignedSession{Producer: to.self(), Session: s}, everybody)
		if n.marks.AddSession(block.SignedSession{Producer: to.self(), Session: s}, everybody) {
			n.saveMarks()
		}
		for _, x := range n.seen.Sessions(to.self(), s) {
			ev.Sessions = append(ev.Sessions, x.Session)
		}
		for _, v := range n.seen.Votes(to.self()) {
			told := block.ToldVote{Vote: v}
			if v.Kind == block.Precommit {
				told.QC = n.m.QCOf(v.Target)
			}
			ev.Told = append(ev.Told, told)
		}
		for _, b := range n.store {
			if b.maker == to.id && b.Height > lib.Height {
				ev.Sealed = max(ev.Sealed, b.Slot)
			}
		}
	}
	n.w.deliver(n, to, 0, func() { to.heard(ev, qc, fc) })
}

// heard takes an answer: what it proves is verified as a driver would.
func (n *node) heard(ev dpos.Heard, qc, fc *block.Certificate) {
	if fc != nil && fc.Target.Slot > n.m.LIB().Slot && n.w.check.hasQuorum(block.Precommit, fc.Target) {
		ev.Certified = fc.Target.Slot
	}
	if qc != nil && qc.Target.Slot > n.m.LIB().Slot && n.w.check.hasQuorum(block.Prevote, qc.Target) {
		ev.Justified = qc.Target.Slot
	}
	n.step(ev)
	n.certificate(qc)
	n.certificate(fc)
}
