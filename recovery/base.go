package recovery

import (
	"bytes"
	"slices"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// Choice is what reports of survivors give.
type Choice struct {
	Base       Base
	From       common.Address   // producer whose report tells Base
	Schedules  []block.Schedule // that counted for votes on it (Report.Schedules)
	Survivors  []Seat           // that reported and have a seat, in rising order of accounts
	Lost       []common.Address // the others with a seat, in rising order
	NewestSlot uint64           // highest that a survivor's log holds a vote or a seal for
	MayUndo    bool             // a quorum or more of a schedule is lost, or may have forgotten: what only they know as final may be undone
	Bears      int              // so many survivors may report less than they hold, and no final block is undone all the same
	NeedsTrust bool             // Bears is less than the f that may be faulty: no final block is undone only if the survivors are honest
	Needless   bool             // no schedule has more than f lost: the network becomes final without a recovery
}

// ChooseBase chooses the block to go on from: the block of the highest slot that any report proves justified. With fewer than a
// quorum of each schedule lost, every final block was precommitted by a survivor, which has its QC in its vote log: if it reports it, the
// base is that block or descends from it, and no final block is undone. A report cannot invent a justified block and can hide one:
// Bears says how many may. A survivor whose log may lack what it signed proves nothing of
// that kind and counts as lost here, though it keeps its seat. With more lost, MayUndo says so.
//
// Reports are checked one by one. Of two by one producer the later one counts, for a producer holds more with time. Reports of
// different chains or domains are refused, and different blocks that are told as justified in one slot, or as final at one
// height: a third or more of a schedule signed both, and no rule chooses between them. Whether the base descends from every LIB
// told is asked of a chain. Errors wrap ErrInvalid.
func ChooseBase(reports []*Report) (*Choice, error) {
	rs, err := newestReports(reports)
	if err != nil {
		return nil, err
	}
	best := rs[0]
	for _, r := range rs {
		switch {
		case r.Justified.Slot > best.Justified.Slot:
			best = r
		case r.Justified.Hash == best.Justified.Hash && r.Justified != best.Justified:
			return nil, invalid("producers %s and %s tell different heights or state roots of block %s: ask for both reports again",
				best.Producer, r.Producer, r.Justified.Hash)
		case r.Justified.Slot == best.Justified.Slot && r.Justified != best.Justified:
			return nil, invalid("producers %s and %s prove two blocks of slot %d justified, %s and %s: this is a fork, keep both reports and folders",
				best.Producer, r.Producer, r.Justified.Slot, best.Justified.Hash, r.Justified.Hash)
		}
	}
	c := &Choice{Base: Base{Block: best.Justified}, From: best.Producer, Schedules: best.Schedules}
	for _, r := range rs {
		if r.LIB.Height > c.Base.Height || r.LIB.Height == c.Base.Height && r.LIB != c.Base.Block {
			return nil, invalid("producer %s holds the final %s, which the justified %s of producer %s does not descend from: this is a fork, keep both reports and folders",
				r.Producer, r.LIB, c.Base.Block, c.From)
		}
		if fc := c.Base.FC; r.FC != nil && (fc == nil || r.FC.Target.Slot > fc.Target.Slot) {
			c.Base.FC = r.FC
		}
		c.NewestSlot = max(c.NewestSlot, r.NewestSlot)
	}
	c.countLost(rs)
	return c, nil
}

// newestReports checks the reports and keeps the newest of each producer, in rising order of producers.
func newestReports(reports []*Report) ([]*Report, error) {
	if len(reports) == 0 || len(reports) > MaxReports {
		return nil, invalid("%d reports, 1 to %d are allowed", len(reports), MaxReports)
	}
	newest := make(map[common.Address]*Report)
	finals := make(map[uint64]*Report)
	for _, r := range reports {
		if err := r.Check(); err != nil {
			return nil, err
		}
		if f := reports[0]; r.Genesis != f.Genesis || r.Recovery != f.Recovery || r.Number != f.Number {
			return nil, invalid("producer %s reports of chain %s in domain %d (%s), producer %s of chain %s in domain %d (%s)",
				f.Producer, f.Genesis, f.Number, f.Recovery, r.Producer, r.Genesis, r.Number, r.Recovery)
		}
		if o := finals[r.LIB.Height]; o != nil && o.LIB != r.LIB {
			return nil, invalid("producers %s and %s hold different final blocks of height %d, %s and %s: this is a fork, keep both reports and folders",
				o.Producer, r.Producer, r.LIB.Height, o.LIB.Hash, r.LIB.Hash)
		}
		finals[r.LIB.Height] = r
		if o := newest[r.Producer]; o == nil || r.isLater(o) {
			newest[r.Producer] = r
		}
	}
	out := make([]*Report, 0, len(newest))
	for _, r := range newest {
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b *Report) int { return a.Producer.Cmp(b.Producer) })
	return out, nil
}

// isLater orders two reports of one producer; of one second, by their bytes, so that their order in a list does not matter.
func (r *Report) isLater(o *Report) bool {
	if r.Time != o.Time {
		return r.Time > o.Time
	}
	return bytes.Compare(r.Encode(), o.Encode()) > 0
}

// countLost sorts the producers of the schedules into survivors and lost, and says what that means for final blocks.
func (c *Choice) countLost(rs []*Report) {
	reported := make(map[common.Address]*Report, len(rs))
	for _, r := range rs {
		reported[r.Producer] = r
	}
	seen := make(map[common.Address]bool)
	c.Needless, c.Bears = true, MaxSeats
	for _, s := range c.Schedules {
		lost, silent := 0, 0 // silent: lost, or what it precommitted is not fully known
		for i := range s {
			a := s[i].Account
			r := reported[a]
			if r == nil {
				lost++
			}
			if r == nil || r.Incomplete {
				silent++
			}
			switch {
			case seen[a]:
			case r == nil:
				c.Lost = append(c.Lost, a)
			default:
				c.Survivors = append(c.Survivors, Seat{Account: a, SealKey: a, VoteKey: s[i].Key, Proof: r.Proof})
			}
			seen[a] = true
		}
		c.MayUndo = c.MayUndo || silent >= s.Quorum()
		c.Bears = min(c.Bears, max(0, s.Quorum()-1-silent))
		c.NeedsTrust = c.NeedsTrust || silent+s.Faulty() >= s.Quorum()
		c.Needless = c.Needless && lost <= s.Faulty()
	}
	slices.SortFunc(c.Survivors, func(a, b Seat) int { return a.Account.Cmp(b.Account) })
	slices.SortFunc(c.Lost, common.Address.Cmp)
}
