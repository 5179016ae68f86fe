package sim

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// Violation says which checker found what.
type Violation struct {
	Checker string
	At      time.Duration
	Text    string
}

func (v *Violation) Error() string { return fmt.Sprintf("%s at %s: %s", v.Checker, v.At, v.Text) }

// checkers watch a run from outside: agreement, own votes, blocks, certificates, evidence, liveness.
type checkers struct {
	w         *world
	found     error
	byHeight  map[uint64]common.Hash // agreement
	finals    []uint64               // height of LIB by node
	prevotes  map[int][]block.Link   // honest, by slot
	precommit map[int][]block.Link
	slots     map[[2]uint64]common.Hash // node, slot: block made
	signed    map[signature]bool        // votes really signed
	takeovers int
	evidence  int
	lags      []time.Duration // production to final at the first honest node
}

type signature struct {
	link  block.Link
	voter common.Address
}

func newCheckers(w *world) *checkers {
	return &checkers{w: w, byHeight: make(map[uint64]common.Hash), finals: make([]uint64, w.s.Nodes),
		prevotes: make(map[int][]block.Link), precommit: make(map[int][]block.Link), slots: make(map[[2]uint64]common.Hash), signed: make(map[signature]bool)}
}

func (c *checkers) violation(checker, format string, args ...any) {
	if c.found == nil {
		c.found = &Violation{checker, c.w.now, fmt.Sprintf(format, args...)}
	}
}

// conflicts reports whether neither of two blocks descends from the other; an unknown block conflicts with all.
func (c *checkers) conflicts(a, b common.Hash) bool {
	x, y := c.w.blocks[a], c.w.blocks[b]
	if x == nil || y == nil {
		return true
	}
	if x.Height > y.Height {
		x, y = y, x
	}
	for y != nil && y.Height > x.Height {
		y = y.parent
	}
	return x != y
}

// rests reports whether a block is, or descends from, another.
func (c *checkers) rests(x, on common.Hash) bool {
	b, o := c.w.blocks[x], c.w.blocks[on]
	return b != nil && o != nil && b.Height >= o.Height && !c.conflicts(x, on)
}

// voted checks an honest producer's vote against all it ever cast (rule 6), and notes the signature.
func (c *checkers) voted(n *node, v *block.Vote) {
	c.signed[signature{v.Link, v.Voter}] = true
	if !n.honest() {
		return
	}
	b := c.w.blocks[v.Target.Hash]
	if v.Voter != n.self() || b == nil || b.Slot != v.Target.Slot {
		c.violation("votes", "node %d votes for a block that is not there: %v", n.id, v.Link)
		return
	}
	c.onTime(n, v.Target.Slot)
	switch v.Kind {
	case block.Prevote:
		c.prevoted(n, v.Link, b)
	case block.Precommit:
		c.precommitted(n, v.Link)
	}
}

// onTime is rule 12: nothing is signed for a slot that no right clock comes near. Clocks that are off for a time may carry
// the time of those that are right by 1 ms per second.
func (c *checkers) onTime(n *node, slot uint64) {
	p := &c.w.s.Params
	early := time.Duration(slot)*p.Slot() - c.w.now //nolint:gosec // small
	if early > p.MaxClockError()+c.w.s.Skew+c.w.now/1000 {
		c.violation("time", "node %d signs for slot %d, %s before it", n.id, slot, early)
	}
}

func (c *checkers) prevoted(n *node, l block.Link, b *sealed) {
	if !n.executed[b.Hash] && n.unsoundOrLate(b) {
		c.violation("validity", "node %d prevotes block %d of slot %d, which it has not executed", n.id, b.Height, b.Slot)
	}
	if want := b.source; l.Source != want {
		c.violation("votes", "node %d prevotes slot %d from source %d, the block's chain proves %d", n.id, b.Slot, l.Source.Slot, want.Slot)
	}
	all := c.prevotes[n.id]
	i, twice := slices.BinarySearchFunc(all, l.Target.Slot, func(x block.Link, s uint64) int { return compare(x.Target.Slot, s) })
	if twice && all[i].Target != l.Target {
		c.violation("double sign", "node %d prevotes two blocks of slot %d", n.id, l.Target.Slot)
	}
	if !twice {
		c.prevotes[n.id] = slices.Insert(all, i, l)
	}
	for _, p := range above(c.precommit[n.id], l.Source.Slot) {
		if p.Target.Slot < l.Target.Slot && c.conflicts(p.Target.Hash, l.Target.Hash) {
			c.violation("double sign", "node %d prevotes slot %d from source %d, though it precommitted slot %d on another branch", n.id, l.Target.Slot, l.Source.Slot, p.Target.Slot)
		}
	}
}

// unsoundOrLate is true for a block that this life has not executed and that no final block covers.
func (n *node) unsoundOrLate(b *sealed) bool { return b.Height > n.m.LIB().Height }

func (c *checkers) precommitted(n *node, l block.Link) {
	if !c.hasQuorum(block.Prevote, l.Target) {
		c.violation("votes", "node %d precommits slot %d without a quorum of prevotes", n.id, l.Target.Slot)
	}
	if all := c.prevotes[n.id]; len(all) == 0 || !c.rests(all[len(all)-1].Target.Hash, l.Target.Hash) {
		c.violation("votes", "node %d precommits slot %d, its newest prevote is on another branch", n.id, l.Target.Slot)
	}
	for _, d := range above(c.prevotes[n.id], l.Target.Slot) {
		if d.Source.Slot < l.Target.Slot && c.conflicts(d.Target.Hash, l.Target.Hash) {
			c.violation("double sign", "node %d precommits slot %d, though it prevoted slot %d from source %d on another branch", n.id, l.Target.Slot, d.Target.Slot, d.Source.Slot)
		}
	}
	all := c.precommit[n.id]
	i := sort.Search(len(all), func(i int) bool { return all[i].Target.Slot >= l.Target.Slot })
	if i == len(all) || all[i] != l {
		c.precommit[n.id] = slices.Insert(all, i, l)
	}
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// above are the links with a target above a slot, of a list in rising order.
func above(ls []block.Link, slot uint64) []block.Link {
	i := sort.Search(len(ls), func(i int) bool { return ls[i].Target.Slot > slot })
	return ls[i:]
}

// produced checks a block of an honest producer: one per slot, in its own slot, slow in a stall.
func (c *checkers) produced(n *node, b *sealed) {
	if !n.honest() {
		return
	}
	key := [2]uint64{uint64(n.id), b.Slot} //nolint:gosec // small
	if was, ok := c.slots[key]; ok && was != b.Hash {
		c.violation("double sign", "node %d makes two blocks of slot %d", n.id, b.Slot)
	}
	c.slots[key] = b.Hash
	p := &c.w.s.Params
	if owner := b.regime.cur.Owner(b.Slot, p.TurnSlots).Account; owner != n.self() {
		c.violation("production", "node %d makes a block in slot %d of node %d", n.id, b.Slot, nodeOf(owner))
	}
	if b.Height-b.final > p.MaxReversible && (!b.Empty || b.Slot < b.parent.Slot+p.TurnSlots+1) {
		c.violation("production", "node %d makes block %d at full speed, %d above the newest proven final one", n.id, b.Height, b.Height-b.final)
	}
}

// final checks newly final blocks of an honest node: agreement, validity, proof.
func (c *checkers) final(n *node, f *dpos.Final) {
	for i, hash := range f.Hashes {
		h := f.Height - uint64(len(f.Hashes)-1-i) //nolint:gosec // not negative
		b := c.w.blocks[hash]
		if b == nil || b.Height != h || n.unsound(b) {
			c.violation("validity", "node %d makes a block final at height %d that cannot be", n.id, h)
			return
		}
		if was, ok := c.byHeight[h]; ok {
			if was != hash {
				c.violation("agreement", "two final blocks at height %d: slots %d and %d", h, c.w.blocks[was].Slot, b.Slot)
			}
			continue
		}
		c.byHeight[h] = hash
		c.lags = append(c.lags, c.w.now-b.at)
		if h > 1 && b.parent != nil && !b.regime.cur.Equal(b.parent.regime.cur) {
			c.takeovers++
		}
	}
	c.finals[n.id] = f.Height
	if f.Recovery != (common.Hash{}) && c.isBase(n, f.Point) {
		return // the operators' word proves it
	}
	if !c.hasQuorum(block.Precommit, f.Point) {
		c.violation("certificates", "node %d makes slot %d final without a quorum of precommits", n.id, f.Point.Slot)
	}
	if !c.hasQuorum(block.Prevote, f.Point) {
		c.violation("certificates", "node %d makes slot %d final without a quorum of prevotes", n.id, f.Point.Slot)
	}
}

// hasQuorum counts the votes really signed for a block under the schedules that count for it by the checkers' own
// reckoning.
func (c *checkers) hasQuorum(kind block.VoteKind, at block.Point) bool {
	b := c.w.blocks[at.Hash]
	if b == nil {
		return false
	}
	l := block.Link{Kind: kind, Source: at, Target: at}
	if kind == block.Prevote {
		l.Source = b.source
	}
	for _, s := range b.regime.counting() {
		k := 0
		for _, p := range s {
			if c.signed[signature{l, p.Account}] {
				k++
			}
		}
		if k < len(s)-(len(s)-1)/3 {
			return false
		}
	}
	return true
}

// genuine reports whether certificates hold only votes that were signed: what a driver's pairing would say.
func (c *checkers) genuine(checks []dpos.CertCheck) bool {
	for _, x := range checks {
		voters, err := x.Certificate.Voters(x.Schedules)
		if err != nil {
			return false
		}
		for _, v := range voters {
			if !c.signed[signature{x.Certificate.Link, v.Account}] {
				return false
			}
		}
	}
	return true
}

// isQuorum reports whether a certificate has a quorum of every schedule that counts, and only votes that were signed.
func (c *checkers) isQuorum(x dpos.CertCheck) bool {
	return x.Certificate.HoldsQuorums(x.Schedules) && c.genuine([]dpos.CertCheck{x})
}

// proof checks that evidence names only the guilty.
func (c *checkers) proof(n *node, list []dpos.Evidence) {
	for _, e := range list {
		c.evidence++
		i := nodeOf(e.Guilty)
		if i < 0 || i >= len(c.w.nodes) || c.w.nodes[i].honest() {
			c.violation("evidence", "node %d has evidence of kind %d against honest node %d", n.id, e.Kind, i)
		}
	}
}

// end checks liveness: after the calm at the end everything older than it is final everywhere.
func (c *checkers) end() {
	if c.w.s.Calm == 0 {
		return
	}
	due := c.w.s.Length - c.w.s.Calm
	for _, n := range c.w.nodes {
		if !n.honest() || n.down || c.w.recovery != nil && !n.recovered {
			continue
		}
		lib := c.w.blocks[n.m.LIB().Hash]
		if lib == nil || lib.at < due {
			at := time.Duration(0)
			if lib != nil {
				at = lib.at
			}
			c.violation("liveness", "node %d: the last irreversible block is height %d of %s; the network was calm since %s", n.id, n.m.LIB().Height, at, due)
			return
		}
	}
}

func (c *checkers) lowestFinal() uint64 {
	low := ^uint64(0)
	for i, n := range c.w.nodes {
		if n.honest() && !n.down && (c.w.recovery == nil || n.recovered) {
			low = min(low, c.finals[i])
		}
	}
	return low
}
