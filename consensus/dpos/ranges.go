package dpos

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// run checks consecutive headers above the LIB up to the target, as functions of their own chain. It gives their nodes
// (those of the tree where a block is known) and the precommit certificates that moved a change of schedule on.
func (m *Machine) run(headers []Header, target common.Hash) (nodes []*node, moved []CertCheck, err error) {
	if len(headers) > MaxRangeHeaders {
		return nil, nil, fmt.Errorf("%w: range of %d headers, %d allowed", ErrInvalid, len(headers), MaxRangeHeaders)
	}
	prev := m.tree.root
	for len(headers) > 0 && headers[0].Height <= prev.Height {
		if h := &headers[0]; h.Height == prev.Height && h.Hash != prev.Hash || h.Hash == target {
			return nil, nil, fmt.Errorf("%w: block %d %s of a range", ErrBelowLIB, h.Height, h.Hash)
		}
		headers = headers[1:]
	}
	var fc *block.Certificate
	for i := range headers {
		h := &headers[i]
		switch {
		case h.Parent != prev.Hash && i == 0 && h.Height == prev.Height+1:
			return nil, nil, fmt.Errorf("%w: range starts at block %d %s, which branches off below the LIB", ErrBelowLIB, h.Height, h.Hash)
		case h.Parent != prev.Hash && i == 0:
			return nil, nil, fmt.Errorf("%w: parent %s of a range's first block %d", ErrUnknownParent, h.Parent, h.Height)
		case h.Parent != prev.Hash:
			return nil, nil, fmt.Errorf("%w: block %d %s of a range does not follow its predecessor", ErrInvalid, h.Height, h.Hash)
		case m.failed.has(h.Hash):
			return nil, nil, fmt.Errorf("%w: block %d %s failed in execution", ErrInvalid, h.Height, h.Hash)
		}
		n := m.tree.nodes[h.Hash]
		if n == nil {
			if n, err = m.extend(prev, h); err != nil {
				return nil, nil, err
			}
		}
		if n.FC != nil {
			fc = n.FC
		}
		nodes = append(nodes, n)
		if h.Hash == target {
			return nodes, moved, nil
		}
		// The block's children live under another regime because fc proves something final. What was proven before
		// the range began was verified then.
		if was := n.own.stage; n.next != n.own && was != settled && fc != nil {
			moved = append(moved, m.certCheck(fc, n.ancestor(fc.Target)))
		}
		prev = n
	}
	return nil, nil, fmt.Errorf("%w: target %s is not among the range's headers", ErrInvalid, target)
}

// RangeSchedules gives the schedules that votes on the target, one of the consecutive headers above the LIB, are
// counted for, as the range itself makes them. They are trustworthy only once RangeChecks' certificates are verified.
func (m *Machine) RangeSchedules(headers []Header, target common.Hash) ([]block.Schedule, error) {
	nodes, _, err := m.run(headers, target)
	if err != nil {
		return nil, err
	}
	return m.counting(nodes[len(nodes)-1].own), nil
}

// RangeChecks checks a range as RangeEvent will, but for the time, and gives the certificates whose signatures must be verified before:
// for each step of a change of schedule the one that proves it, and c itself. Each is counted for schedules that the
// ones before it make trustworthy, beginning with the LIB's. A range ahead of the time is refused by RangeEvent alone: once these
// certificates are verified they prove that its slots have come, which a machine that stood still learns in no other way.
func (m *Machine) RangeChecks(headers []Header, c *block.Certificate) ([]CertCheck, error) {
	nodes, moved, err := m.ranged(headers, c)
	if err != nil {
		return nil, err
	}
	return append(moved, m.certCheck(c, nodes[len(nodes)-1])), nil
}

func (m *Machine) ranged(headers []Header, c *block.Certificate) ([]*node, []CertCheck, error) {
	if c == nil || c.Kind != block.Precommit {
		return nil, nil, fmt.Errorf("%w: a range needs a precommit certificate", ErrInvalid)
	}
	nodes, moved, err := m.run(headers, c.Target.Hash)
	if err != nil {
		return nil, nil, err
	}
	n := nodes[len(nodes)-1]
	if err := m.linked(c.Link, n); err != nil {
		return nil, nil, err
	}
	return nodes, moved, m.quorate(c, m.counting(n.own))
}

func (m *Machine) enterRange(headers []Header, c *block.Certificate) error {
	nodes, _, err := m.ranged(headers, c)
	if err != nil {
		return err
	}
	if n := nodes[len(nodes)-1]; m.future(n.Slot) { // slots rise in a range
		return fmt.Errorf("%w: block %d %s is of slot %d, the clock shows %d", ErrFuture, n.Height, n.Hash, n.Slot, m.slot)
	}
	for _, n := range nodes {
		if m.tree.nodes[n.Hash] == n {
			continue
		}
		m.attach(n)
	}
	m.apply(nodes[len(nodes)-1], c)
	return nil
}
