package proof

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/recovery"
)

// recoveredBy goes on behind the base of a recovery, which the first block behind it names (DESIGN §7 rule 13): the recovery, and
// those before it that no block was made under, must be known, signed by the recovery keys of genesis, and the only ones of their
// predecessors. From there on its schedule alone counts, in its domain.
func (c *Chain) recoveredBy(s *chainState, h *block.SealedHeader, known []*recovery.Signed) error {
	list, err := c.succession(s, h, known)
	if err != nil {
		return err
	}
	r := &list[len(list)-1].Statement
	switch {
	case h.Number() != r.Base.Height+1 || h.Parent() != r.Base.Hash:
		return c.fail(h.Number(), "it names the recovery %s, and does not stand on that one's base, block %d %s", h.Record.Recovery, r.Base.Height, r.Base.Hash)
	case h.Slot() < r.FirstSlot:
		return c.fail(h.Number(), "it has slot %d, the recovery %s begins with %d", h.Slot(), h.Record.Recovery, r.FirstSlot)
	}
	c.enter(s, list)
	return nil
}

// enter has the last of these recoveries in force.
func (c *Chain) enter(s *chainState, list []*recovery.Signed) {
	r := list[len(list)-1]
	s.regime = regime{cur: r.Statement.Schedule(), domain: r.Hash()}
	s.recoveries = append(slices.Clip(s.recoveries), list...)
}

// succession is the recovery that a header names, behind those that lead to it from the domain of the headers before.
func (c *Chain) succession(s *chainState, h *block.SealedHeader, known []*recovery.Signed) (list []*recovery.Signed, err error) {
	if c.trust.NoRecovery {
		return nil, c.fail(h.Number(), "%w: the chain was recovered there, by %s", ErrRecovered, h.Record.Recovery)
	}
	for at := h.Record.Recovery; at != s.domain; {
		r := findRecovery(known, at)
		switch {
		case r == nil:
			return nil, c.fail(h.Number(), "%w: the statement of recovery %s is missing in the proof; ask a node for its file and give it", ErrRecovered, at)
		case len(list) >= MaxRecoveries:
			return nil, c.fail(h.Number(), "it stands behind more than %d recoveries", MaxRecoveries)
		}
		if err := c.checkRecovery(h, r, known); err != nil {
			return nil, err
		}
		list, at = append(list, r), r.Statement.Previous
	}
	if len(list) == 0 {
		return nil, c.fail(h.Number(), "it names the recovery %s a second time", h.Record.Recovery)
	}
	slices.Reverse(list)
	return list, nil
}

// checkRecovery checks one recovery by itself: its signatures, and that no other of the same predecessor is known.
func (c *Chain) checkRecovery(h *block.SealedHeader, r *recovery.Signed, known []*recovery.Signed) error {
	if r.Statement.Genesis != c.trust.Genesis {
		return c.fail(h.Number(), "the recovery %s is of another chain", r.Hash())
	}
	if c.own {
		return nil
	}
	if err := r.Verify(c.trust.RecoveryKeys, c.trust.RecoveryThreshold); err != nil {
		return c.fail(h.Number(), "%w: %w", ErrRecovered, err)
	}
	if err := r.Statement.CheckPossession(c.trust.Params.ChainID); err != nil {
		return c.fail(h.Number(), "%w: %w", ErrRecovered, err)
	}
	for _, o := range known {
		if rel, _ := recovery.Relate(r, o); rel == recovery.Contradict && o.Verify(c.trust.RecoveryKeys, c.trust.RecoveryThreshold) == nil {
			return c.fail(h.Number(), "%w: the recoveries %s and %s have one predecessor, and both are signed: which one counts is for operators to say", ErrRecovered, r.Hash(), o.Hash())
		}
	}
	return nil
}

func findRecovery(list []*recovery.Signed, hash common.Hash) *recovery.Signed {
	for _, r := range list {
		if r != nil && r.Hash() == hash {
			return r
		}
	}
	return nil
}

// adoptRecoveries brings a state that starts at the trusted checkpoint into the domain of the newest recovery below it. Below a
// checkpoint nothing is shown, so each is checked by itself only.
func (c *Chain) adoptRecoveries(s *chainState, h *block.SealedHeader, known []*recovery.Signed) error {
	below := recoveriesBelow(known, h.Number())
	if len(below) == 0 {
		return nil
	}
	if c.trust.NoRecovery {
		return c.fail(h.Number(), "%w: the chain was recovered below it, by %s", ErrRecovered, below[0].Hash())
	}
	for i, r := range below {
		if err := c.checkRecovery(h, r, known); err != nil {
			return err
		}
		if before := i > 0; before && r.Statement.Previous != below[i-1].Hash() || !before && r.Statement.Number != 1 {
			return c.fail(h.Number(), "%w: a recovery before %s is missing in the proof", ErrRecovered, r.Hash())
		}
	}
	schedule := s.cur
	c.enter(s, below)
	s.cur = schedule // elections have gone on since
	return nil
}

// recoveriesBelow are those with a base below a height, oldest first.
func recoveriesBelow(list []*recovery.Signed, height uint64) (out []*recovery.Signed) {
	for _, r := range list {
		if r != nil && r.Statement.Base.Height < height && findRecovery(out, r.Hash()) == nil {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *recovery.Signed) int { return cmp.Compare(a.Statement.Number, b.Statement.Number) })
	return out
}

// Recoveries are those that the chain went on by, as far as it was shown, oldest first.
func (c *Chain) Recoveries() []*recovery.Signed { return slices.Clone(c.state.recoveries) }

// checkRunRecoveries bounds what a run brings.
func checkRunRecoveries(run *Run) error {
	if len(run.Recoveries) > MaxRecoveries {
		return fmt.Errorf("%w: a run with %d recoveries, %d allowed", ErrFinality, len(run.Recoveries), MaxRecoveries)
	}
	for _, r := range run.Recoveries {
		if r == nil {
			return fmt.Errorf("%w: a recovery is missing in a run", ErrFinality)
		}
	}
	return nil
}

// advance adds what comes next of what every proof beyond a height needs: the first block behind a base, or the end of an epoch.
// more is false if there is nothing.
func (c *collector) advance(height uint64) (ended, more bool, err error) {
	end := c.endOfEpoch()
	if first, ok := c.nextRecovered(min(end, height)); ok && first < height {
		return false, true, c.add(first)
	}
	if end < height {
		return true, true, c.endEpoch(end)
	}
	return false, false, nil
}

// recoveriesOf are those that a run needs: which its headers name, with those before them that no block names, and all below a
// checkpoint that it begins at.
func (c *collector) recoveriesOf(run *Run) (out []*recovery.Signed) {
	known, domain := c.check.trust.Recoveries, c.check.state.domain
	if cp := c.check.trust.Checkpoint; cp != nil && c.check.state.start && run.Headers[0].Number() == cp.Height {
		if out = recoveriesBelow(known, cp.Height); len(out) > 0 {
			domain = out[len(out)-1].Hash()
		}
	}
	for _, h := range run.Headers {
		named := len(out)
		for at := h.Record.Recovery; at != (common.Hash{}) && at != domain; {
			r := findRecovery(known, at)
			if r == nil || len(out) >= MaxRecoveries {
				break // a Chain says what is missing
			}
			out, at = slices.Insert(out, named, r), r.Statement.Previous
		}
		if h.Record.Recovery != (common.Hash{}) {
			domain = h.Record.Recovery
		}
	}
	return out
}

// nextRecovered is the height of the first block behind a base that was not shown yet, if that is at or below a height.
func (c *collector) nextRecovered(height uint64) (first uint64, ok bool) {
	for _, r := range c.check.trust.Recoveries {
		if h := r.Statement.Base.Height + 1; h > c.check.state.height && h <= height && (!ok || h < first) {
			first, ok = h, true
		}
	}
	return first, ok
}
