package dpos

import (
	"fmt"
	"math/bits"

	"github.com/bornode/bornode/block"
)

func popcount(b []byte) int {
	n := 0
	for _, x := range b {
		n += bits.OnesCount8(x)
	}
	return n
}

// extend checks a header against its parent's chain and gives its node, attached to nothing but the parent. It is a
// function of the chain alone: neither clock nor tree matter.
func (u *rules) extend(parent *node, h *Header) (*node, error) {
	if h.Height != parent.Height+1 || h.Slot <= parent.Slot {
		return nil, fmt.Errorf("%w: block %s has height %d and slot %d on a parent with %d and %d", ErrInvalid, h.Hash, h.Height, h.Slot, parent.Height, parent.Slot)
	}
	if err := u.checkRecovered(parent, h); err != nil {
		return nil, err
	}
	if o := parent.next.cur.Owner(h.Slot, u.p.TurnSlots); o.Account != h.Producer {
		return nil, fmt.Errorf("%w: block %d %s by %s, slot %d belongs to %s", ErrInvalid, h.Height, h.Hash, h.Producer, h.Slot, o.Account)
	}
	source, final := u.provenBelow(parent)
	n := &node{Header: *h, parent: parent, jump: jumpOf(parent), source: source, final: final, own: parent.next, leaf: -1}
	if h.QC != nil {
		if _, err := u.certify(h.QC, block.Prevote, parent, source.Slot); err != nil {
			return nil, err
		}
		n.source = h.QC.Target
	}
	if h.FC != nil {
		a, err := u.certify(h.FC, block.Precommit, parent, final.Slot)
		if err != nil {
			return nil, err
		}
		n.final = proven{a.Height, h.FC.Target}
		if h.FC.Target.Slot > n.source.Slot {
			n.source = h.FC.Target
		}
	}
	if u.slow(n.Height, n.final.Height) && !u.bugs.IgnoreStall {
		if !h.Empty || h.Slot-parent.Slot < u.p.TurnSlots+1 {
			return nil, fmt.Errorf("%w: block %d %s is %d above the newest proven final block: it must be empty and at least %d slots above its parent",
				ErrInvalid, h.Height, h.Hash, h.Height-n.final.Height, u.p.TurnSlots+1)
		}
	}
	if must := u.announces(n.own, h.Height); must != (len(h.Next) > 0) {
		return nil, fmt.Errorf("%w: block %d %s: next schedule present: %t, expected: %t", ErrInvalid, h.Height, h.Hash, len(h.Next) > 0, must)
	} else if must {
		if err := checkSchedule(h.Next); err != nil {
			return nil, err
		}
	}
	n.next = u.regimeBehind(n.Point(), n.own.after(&u.p, h, n.final.Height))
	return n, nil
}

// slow reports whether rule 10 binds a block of this height.
func (u *rules) slow(height, finalHeight uint64) bool { return height-finalHeight > u.p.MaxReversible }

// announces reports whether a block of this height and regime must carry the next schedule.
func (u *rules) announces(own *regime, height uint64) bool {
	return u.p.EpochEnd(height) && own.stage == settled
}

// certify checks a certificate carried by a child of parent, whose chain proves everything up to the slot provenSlot
// already, and gives its target.
func (u *rules) certify(c *block.Certificate, kind block.VoteKind, parent *node, provenSlot uint64) (*node, error) {
	if c.Kind != kind {
		return nil, fmt.Errorf("%w: certificate of kind %s where a %s belongs", ErrInvalid, c.Kind, kind)
	}
	if c.Target.Slot <= provenSlot {
		return nil, fmt.Errorf("%w: certificate on slot %d, the chain proves slot %d already", ErrInvalid, c.Target.Slot, provenSlot)
	}
	a := parent.ancestor(c.Target)
	if a == nil {
		return nil, fmt.Errorf("%w: certificate on slot %d %s, which is no ancestor", ErrInvalid, c.Target.Slot, c.Target.Hash)
	}
	if err := u.linked(c.Link, a); err != nil {
		return nil, err
	}
	return a, u.quorate(c, u.counting(a.own))
}

// linked checks that a link on the block n is the one link that votes of its kind can have.
func (u *rules) linked(l block.Link, n *node) error {
	want := n.source
	if l.Kind == block.Precommit {
		want = l.Target
	}
	if l.Target != n.Point() || l.Source != want {
		return fmt.Errorf("%w: %s on slot %d %s from source %d %s, expected %d %s", ErrInvalid,
			l.Kind, l.Target.Slot, l.Target.Hash, l.Source.Slot, l.Source.Hash, want.Slot, want.Hash)
	}
	return nil
}
