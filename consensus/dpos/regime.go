package dpos

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// stage says how far a change of schedule has come (rule 9).
type stage uint8

const (
	settled   stage = 0 // one schedule
	announced stage = 1 // the next one is in a record; the old one still produces and counts alone
	joint     stage = 2 // (i): the new one produces, both count
)

// regime is what rule 9 makes of a chain: who produces and whose votes count. Immutable; blocks of one regime share it.
type regime struct {
	stage stage
	cur   block.Schedule // produces
	other block.Schedule // announced: the next one; joint: the old one
	mark  uint64         // height; announced: of the announcing block; joint: of the first block counted under both
	count []block.Schedule

	domain common.Hash      // the recovery that blocks of this regime are bound to; zero: none
	before []block.Schedule // that counted behind the recovery's base in the domain that the base was made in; nil if there is none
}

func newRegime(s stage, cur, other block.Schedule, mark uint64) *regime {
	r := &regime{stage: s, cur: cur, other: other, mark: mark, count: []block.Schedule{cur}}
	if s == joint {
		r.count = []block.Schedule{other, cur}
	}
	return r
}

// after is the regime of a block's children, where r is the block's own and finalHeight that of the newest block its
// chain, its own record included, proves final.
func (r *regime) after(p *block.Parameters, h *Header, finalHeight uint64) *regime {
	if !p.EpochEnd(h.Height) {
		return r
	}
	next := r
	switch {
	case r.stage == settled && len(h.Next) > 0 && !h.Next.Equal(r.cur):
		next = newRegime(announced, r.cur, h.Next, h.Height)
	case r.stage == announced && finalHeight >= r.mark:
		next = newRegime(joint, r.other, r.cur, h.Height+1)
	case r.stage == joint && finalHeight >= r.mark:
		next = newRegime(settled, r.cur, nil, 0)
	}
	if next != r {
		next.domain, next.before = r.domain, r.before
	}
	return next
}

// sits reports whether the account's votes on a block of this regime count.
func (r *regime) sits(a common.Address) bool {
	for _, s := range r.count {
		if s.Index(a) >= 0 {
			return true
		}
	}
	return false
}

// knows reports whether the account is in any schedule of the regime.
func (r *regime) knows(a common.Address) bool { return r.cur.Index(a) >= 0 || r.other.Index(a) >= 0 }

func checkSchedule(s block.Schedule) error {
	if len(s) == 0 || len(s) > block.MaxProducers {
		return fmt.Errorf("%w: schedule of %d producers, 1 to %d allowed", ErrInvalid, len(s), block.MaxProducers)
	}
	seen := make(map[common.Address]bool, len(s))
	for i := range s {
		if seen[s[i].Account] {
			return fmt.Errorf("%w: schedule names producer %s twice", ErrInvalid, s[i].Account)
		}
		seen[s[i].Account] = true
	}
	return nil
}

// rules are the pure checks that need parameters but no tree.
type rules struct {
	p    block.Parameters
	bugs Bugs

	recoveries []Recovery
}

func (u *rules) quorum(s block.Schedule) int {
	if u.bugs.QuorumMinusOne {
		return s.Quorum() - 1
	}
	return s.Quorum()
}

func (u *rules) counting(r *regime) []block.Schedule {
	if u.bugs.SingleQuorum && r.stage == joint {
		return r.count[1:]
	}
	return r.count
}

// quorate checks that the bitmaps fit the schedules and hold a quorum of each.
func (u *rules) quorate(c *block.Certificate, schedules []block.Schedule) error {
	if len(c.Bitmaps) != len(schedules) {
		return fmt.Errorf("%w: certificate on slot %d has %d bitmaps, %d schedules count", ErrInvalid, c.Target.Slot, len(c.Bitmaps), len(schedules))
	}
	for i, s := range schedules {
		bm := c.Bitmaps[i]
		if len(bm) != (len(s)+7)/8 || (len(s)%8 != 0 && bm[len(bm)-1]>>(len(s)%8) != 0) {
			return fmt.Errorf("%w: certificate on slot %d: bitmap %d does not fit %d seats", ErrInvalid, c.Target.Slot, i, len(s))
		}
		if n, q := popcount(bm), u.quorum(s); n < q {
			return fmt.Errorf("%w: certificate on slot %d has %d votes of schedule %d, %d are a quorum", ErrInvalid, c.Target.Slot, n, i, q)
		}
	}
	return nil
}
