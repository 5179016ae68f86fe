package dpos

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// Check verifies every rule a header must meet but signatures, against the tree and clock as they stand, and says
// which signatures remain to be verified. It changes nothing.
func (m *Machine) Check(h Header) (Checks, error) {
	n, err := m.check(&h)
	if err != nil {
		return Checks{}, err
	}
	c := Checks{Producer: n.own.cur.Owner(h.Slot, m.p.TurnSlots)}
	for _, x := range []*block.Certificate{h.QC, h.FC} {
		if x != nil {
			c.Certificates = append(c.Certificates, m.certCheck(x, n.ancestor(x.Target)))
		}
	}
	return c, nil
}

func (m *Machine) certCheck(c *block.Certificate, target *node) CertCheck {
	return CertCheck{c, m.counting(target.own)}
}

// CertificateSchedules gives the schedules for which a certificate's signatures must be verified. The certificate's
// target must be known; its link and quorum are checked.
func (m *Machine) CertificateSchedules(c *block.Certificate) ([]block.Schedule, error) {
	n, err := m.target(c)
	if err != nil {
		return nil, err
	}
	return m.counting(n.own), nil
}

func (m *Machine) known(hash common.Hash) (*node, error) {
	if n := m.tree.nodes[hash]; n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrUnknownParent, hash)
}

// ScheduleFor is who produces children of this block, which must be the LIB or above it.
func (m *Machine) ScheduleFor(parent common.Hash) (block.Schedule, error) {
	n, err := m.known(parent)
	if err != nil {
		return nil, err
	}
	return n.next.cur, nil
}

// VoteSchedules are the schedules that votes on this block are counted for.
func (m *Machine) VoteSchedules(hash common.Hash) ([]block.Schedule, error) {
	n, err := m.known(hash)
	if err != nil {
		return nil, err
	}
	return m.counting(n.own), nil
}

// SurvivorSchedules are the schedules whose producers count as survivors or as lost if the chain is to go on from this block (rule 13): those
// that votes on it are counted for. The base of a recovery is final by that recovery. What is final above it is so by the votes that
// its children are counted for, so for a base these are the schedules.
func (m *Machine) SurvivorSchedules(hash common.Hash) ([]block.Schedule, error) {
	n, err := m.known(hash)
	if err != nil {
		return nil, err
	}
	if m.recoveryAt(n.Point()) != nil {
		return m.counting(n.next), nil
	}
	return m.counting(n.own), nil
}

// Seats is how many seats vote on children of the head: those of both schedules while both count.
func (m *Machine) Seats() (n int) {
	for _, s := range m.tree.head().next.count {
		n += len(s)
	}
	return n
}

// ChildSchedules are the schedules that votes on children of the LIB are counted for.
func (m *Machine) ChildSchedules() []block.Schedule { return m.counting(m.tree.root.next) }

// Announces reports whether a child of this block must carry the next schedule.
func (m *Machine) Announces(parent common.Hash) (bool, error) {
	n, err := m.known(parent)
	if err != nil {
		return false, err
	}
	return m.announces(n.next, n.Height+1), nil
}

// Elects reports whether the last block of the epoch that a child of this block lies in will carry a schedule: no change
// of schedule is under way there.
func (m *Machine) Elects(parent common.Hash) (bool, error) {
	n, err := m.known(parent)
	if err != nil {
		return false, err
	}
	return n.next.stage == settled, nil
}

// Source is source(B): the newest ancestor that the block's own chain proves justified.
func (m *Machine) Source(hash common.Hash) (block.Point, error) {
	n, err := m.known(hash)
	if err != nil {
		return block.Point{}, err
	}
	return n.source, nil
}

// Head is the preferred block (rule 8, by all that is known).
func (m *Machine) Head() Header { return m.tree.head().Header }

// LIB is the last irreversible block.
func (m *Machine) LIB() Header { return m.tree.root.Header }

// Justified is the block of the highest slot known to have a QC, or the LIB.
func (m *Machine) Justified() block.Point { return m.tree.just.Point() }

// BestQC is the newest prevote certificate known; nil if the newest justified block has none that we saw.
func (m *Machine) BestQC() *block.Certificate { return m.tree.just.qc }

// QCOf is the prevote certificate of a block; nil if it is not known.
func (m *Machine) QCOf(p block.Point) *block.Certificate {
	if n := m.tree.nodes[p.Hash]; n != nil && n.qc != nil {
		return n.qc
	}
	return m.own.proofs[p]
}

// NewestBy is the block of the highest slot above the LIB that an account sealed.
func (m *Machine) NewestBy(a common.Address) (newest Header, ok bool) {
	for _, n := range m.tree.nodes {
		if n != m.tree.root && n.Producer == a && (!ok || n.Slot > newest.Slot || n.Slot == newest.Slot && n.Hash.Cmp(newest.Hash) < 0) {
			newest, ok = n.Header, true
		}
	}
	return newest, ok
}

// Sits reports whether an account has a seat in a schedule at the head or at the LIB, or will have one.
func (m *Machine) Sits(a common.Address) bool {
	for _, r := range m.comingRegimes() {
		if r.knows(a) {
			return true
		}
	}
	return false
}

// BestFC proves the LIB; nil at genesis.
func (m *Machine) BestFC() *block.Certificate { return m.tree.root.fc }

// Has reports whether a block is in the tree: the LIB or above it.
func (m *Machine) Has(hash common.Hash) bool { return m.tree.nodes[hash] != nil }

// Get is a block of the tree.
func (m *Machine) Get(hash common.Hash) (Header, bool) {
	n := m.tree.nodes[hash]
	if n == nil {
		return Header{}, false
	}
	return n.Header, true
}

// Path leads from one block of the tree to another: blocks to undo, newest first, then blocks to do, oldest first.
func (m *Machine) Path(from, to common.Hash) (undo, redo []common.Hash, err error) {
	a, err := m.known(from)
	if err != nil {
		return nil, nil, err
	}
	b, err := m.known(to)
	if err != nil {
		return nil, nil, err
	}
	for a != b {
		if a.Height >= b.Height {
			undo = append(undo, a.Hash)
			a = a.parent
		} else {
			redo = append(redo, b.Hash)
			b = b.parent
		}
	}
	for i, j := 0, len(redo)-1; i < j; i, j = i+1, j-1 {
		redo[i], redo[j] = redo[j], redo[i]
	}
	return undo, redo, nil
}

// Branch are the blocks above the LIB up to this one, oldest first.
func (m *Machine) Branch(hash common.Hash) ([]common.Hash, error) {
	_, redo, err := m.Path(m.tree.root.Hash, hash)
	return redo, err
}

// Slot is the current slot; false before the first Tick.
func (m *Machine) Slot() (uint64, bool) { return m.slot, m.ticked }
