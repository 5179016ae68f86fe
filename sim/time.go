package sim

import (
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/clock"
	"github.com/bornode/bornode/consensus/dpos"
)

// ClockFault sets the own clocks of machines off for a time.
type ClockFault struct {
	From, To time.Duration
	Nodes    []int
	Jump     time.Duration
}

// reading is what a node saw of another's own clock, and of the time that the other goes by. Both are minus the monotonic clock,
// which is the world's time.
type reading struct {
	offset time.Duration
	told   time.Duration
	tells  bool // told holds a time
	at     time.Duration
}

// ownClock is what the machine's own clock shows; an adversary says what it likes.
func (n *node) ownClock() time.Duration {
	own := n.w.now + n.skew
	for _, f := range n.w.s.Clocks {
		if n.w.now < f.From || n.w.now >= f.To {
			continue
		}
		for _, id := range f.Nodes {
			if id == n.id {
				own += f.Jump
			}
		}
	}
	return own
}

// tellClocks is what a node tells of its clock and of its time; an adversary says what it likes.
func (n *node) tellClocks() reading {
	if n.adversary != nil && n.w.s.LyingClocks {
		lie := func() time.Duration { return time.Duration(n.w.rand.Int64N(int64(48*time.Hour))) - 24*time.Hour }
		return reading{offset: lie(), told: lie(), tells: n.w.rand.IntN(2) == 0}
	}
	n.clock()
	told := n.time.Told()
	return reading{offset: n.ownClock() - n.w.now, told: told - n.w.now, tells: told > 0}
}

// seeClocks takes what another told.
func (n *node) seeClocks(from *node, r reading) {
	r.at = n.w.now
	n.clocks[from.self()] = r
	n.combined = 0
}

// clock is the network's time as the node knows it (rule 12).
func (n *node) clock() time.Duration {
	own := n.ownClock()
	p := &n.w.s.Params
	if n.w.s.Bugs.SkipFirstSync { // bugs of a start show only in one that waits for nobody, as a node's that exchanges no clocks
		n.known = clock.Consensus{Known: 1, Needed: 1, Enough: true, Offset: own - n.w.now}
	} else if n.combined == 0 || n.w.now >= n.combined { // else nothing can have changed but a clock, which is seen soon enough
		offsets, told := make(map[common.Address]time.Duration, len(n.clocks)), make(map[common.Address]time.Duration)
		for a, r := range n.clocks {
			if n.w.now-r.at > clock.MaxAge {
				continue
			}
			offsets[a] = r.offset
			if r.tells {
				told[a] = r.told
			}
		}
		n.known = clock.Combine(n.m.ChildSchedules(), n.self(), own-n.w.now, offsets)
		n.told = clock.CombineTold(n.m.ChildSchedules(), n.self(), told, offsets)
		n.combined = n.w.now + p.Slot()/4
	}
	certified := n.proven
	if slot := max(n.m.Justified().Slot, n.m.LIB().Slot); slot > 0 {
		certified = max(certified, provenTime(p, slot))
	}
	wait := 4 * p.Slot() * time.Duration(p.TurnSlots) //nolint:gosec // small
	in := clock.Input{
		Mono: n.w.now, Wall: own, Clocks: n.known, Told: n.told, MaxError: p.MaxClockError(), Waited: n.w.now-n.began >= wait, Alone: true,
		Certified: certified,
	}
	now := n.time.Advance(in)
	n.lags = n.time.Lags(in)
	return now
}

// provenTime is the time that a certificate on a block of this slot proves to have come.
func provenTime(p *block.Parameters, slot uint64) time.Duration {
	return time.Duration(slot)*p.Slot() - p.MaxClockError() //nolint:gosec // small
}

// followCertificate has the time follow a certificate on a block that is not here, as the driver does: the machine takes no block
// ahead of the time.
func (n *node) followCertificate(c *block.Certificate) {
	proven := provenTime(&n.w.s.Params, c.Target.Slot)
	now := n.clock()
	if schedules := n.m.ChildSchedules(); n.lags && proven > now && n.w.check.isQuorum(dpos.CertCheck{Certificate: c, Schedules: schedules}) {
		n.reachCertified(proven)
	}
}

// reachCertified has the time follow what a verified certificate proves.
func (n *node) reachCertified(proven time.Duration) {
	n.proven = max(n.proven, proven)
	n.tellTime()
}

// tellTime tells the machine what time it is, as the driver does before each event.
func (n *node) tellTime() {
	now := n.clock()
	n.apply(dpos.Clocks{Enough: n.known.Enough})
	if n.time.State() == clock.Unset || n.time.Sets() != n.sets {
		n.sets = n.time.Sets()
		n.apply(dpos.TimeSet{Now: now})
	}
	if n.time.State() != clock.Unset {
		n.apply(dpos.Tick{Now: now})
	}
}

func (n *node) apply(ev dpos.Event) {
	if err := n.m.Step(ev); err != nil {
		n.w.check.violation("machine", "node %d refuses %T: %v", n.id, ev, err)
	}
}

// timePoll is how often a node looks at the time while it is not set.
const timePoll = 50 * time.Millisecond

// wakeAt tells the machine the time at an alarm, and again until the alarm's time has come: the time may run slower than
// the world's.
func (n *node) wakeAt(alarm time.Duration) {
	n.tellTime()
	n.work()
	if n.down || n.alarm != alarm {
		return // another alarm took its place
	}
	if left := alarm - n.clock(); left > 0 {
		n.w.after(max(left, time.Millisecond), n, func() { n.wakeAt(alarm) })
	}
}

// awaitClocks looks at the time until it is set.
func (n *node) awaitClocks() {
	n.tellTime()
	n.work()
	if n.time.State() == clock.Unset {
		n.w.after(timePoll, n, n.awaitClocks)
	}
}
