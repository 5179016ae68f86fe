package consensus

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/clock"
	"github.com/bornode/bornode/consensus/dpos"
)

// networkTime is the time of rule 12 as this node knows it. It is read by the machine's goroutine and by that of
// execution; a mutex guards it.
type networkTime struct {
	own      func() time.Time       // the machine's own clock; its wall part is used
	peers    func() []clock.Reading // of the other producers' clocks and times; nil: the own clock is the network's
	self     common.Address
	observer bool
	maxError time.Duration
	wait     time.Duration // a start waits so long for others' clocks and times, from began on
	base     time.Time     // origin of the monotonic clock

	mu        sync.Mutex
	time      clock.Time
	schedules []block.Schedule
	certified time.Duration // a certificate proves that this time has come
	began     time.Duration // of the start, on the monotonic clock
	running   bool
}

// timeReading is one reading of the network's time.
type timeReading struct {
	Now    time.Duration // since 1970
	Wall   time.Duration // the machine's own clock at that instant
	Clocks clock.Consensus
	Told   time.Duration // Now if others may go by it, else 0
	State  clock.State
	Sets   int
	Lags   bool                             // a certificate of a later slot would carry the time on
	Peers  map[common.Address]time.Duration // other producers' clocks minus the monotonic one
	Mono   time.Duration
}

// clockWaitTurns is how many turns a start waits for the clocks of a quorum, and for the times of producers that may run; the start
// of rule 11 begins behind that.
const clockWaitTurns = 4

func newNetworkTime(d *Deps, self common.Address) *networkTime {
	turn := d.Params.Slot() * time.Duration(d.Params.TurnSlots) //nolint:gosec // bounded by genesis
	return &networkTime{
		own: d.Now, peers: d.Clocks, self: self, observer: self == (common.Address{}), maxError: d.Params.MaxClockError(),
		wait: clockWaitTurns * turn, base: time.Now(),
	}
}

// readTime gives the network's time.
func (n *networkTime) readTime() timeReading {
	n.mu.Lock()
	defer n.mu.Unlock()
	mono := time.Since(n.base)
	r := timeReading{Mono: mono, Wall: time.Duration(n.own().UnixNano())}
	in := clock.Input{
		Mono: mono, Wall: r.Wall, MaxError: n.maxError, Waited: n.running && mono-n.began >= n.wait, Alone: !n.observer, Certified: n.certified,
	}
	if n.peers == nil {
		in.Clocks = clock.Consensus{Known: 1, Needed: 1, Enough: true, Offset: r.Wall - mono}
	} else {
		var told map[common.Address]time.Duration
		r.Peers, told = n.peerOffsets(mono)
		in.Clocks = clock.Combine(n.schedules, n.self, r.Wall-mono, r.Peers)
		in.Told = clock.CombineTold(n.schedules, n.self, told, r.Peers)
	}
	r.Clocks = in.Clocks
	r.Now = n.time.Advance(in)
	r.Told, r.State, r.Sets, r.Lags = n.time.Told(), n.time.State(), n.time.Sets(), n.time.Lags(in)
	return r
}

// peerOffsets are the clocks of others that were read less than a minute ago, and the times that those tell who tell one, minus the
// monotonic clock.
func (n *networkTime) peerOffsets(mono time.Duration) (clocks, told map[common.Address]time.Duration) {
	clocks, told = make(map[common.Address]time.Duration), make(map[common.Address]time.Duration)
	for _, r := range n.peers() {
		at := r.At.Sub(n.base)
		if mono-at > clock.MaxAge {
			continue
		}
		clocks[r.Account] = r.Wall - at
		if r.Told > 0 {
			told[r.Account] = r.Told - at
		}
	}
	return clocks, told
}

// currentTime is the network's time.
func (n *networkTime) currentTime() time.Time { return time.Unix(0, int64(n.readTime().Now)) }

// beginWait begins the wait for other clocks.
func (n *networkTime) beginWait() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.began, n.running = time.Since(n.base), true
}

// follow tells which schedules' clocks count and which time a certificate proves.
func (n *networkTime) follow(schedules []block.Schedule, certified time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.schedules, n.certified = schedules, max(n.certified, certified)
}

// certify tells that a verified certificate proves that a time has come.
func (n *networkTime) certify(proven time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.certified = max(n.certified, proven)
}

// NetworkTime is the network's time as this node knows it (rule 12 of consensus/dpos).
func (d *Driver) NetworkTime() time.Time { return d.time.currentTime() }

// ToldTime is the network's time since 1970 as this node tells it to others, which may start by it; 0 while they should not.
// It may be called at any time.
func (d *Driver) ToldTime() time.Duration { return d.time.readTime().Told }

// tellTime tells the machine what time it is.
func (c *core) tellTime() {
	r := c.d.time.readTime()
	c.time = r
	now := r.Now - time.Duration(c.d.deps.Params.SlotStart(0).UnixNano())
	c.unset = r.State == clock.Unset && c.d.self != (common.Address{})
	_ = c.step(dpos.Clocks{Enough: r.Clocks.Enough})
	if r.State == clock.Unset || r.Sets != c.timeSets {
		c.timeSets, c.wake = r.Sets, 0
		_ = c.step(dpos.TimeSet{Now: now})
	}
	if !c.unset {
		_ = c.step(dpos.Tick{Now: now})
	}
}

// followTime tells the clock what the machine knows: whose clocks count, and what certificates prove. A quorum votes for
// no block before max_clock_error before its slot, so one that is certified proves that this time has come.
func (c *core) followTime() {
	p := &c.d.deps.Params
	slot := max(c.machine.Justified().Slot, c.machine.LIB().Slot)
	var certified time.Duration
	if slot > 0 {
		certified = provenTime(p, slot)
	}
	c.d.time.follow(c.machine.ChildSchedules(), certified)
}

// provenTime is the time, since 1970, that a certificate on a block of this slot proves to have come.
func provenTime(p *block.Parameters, slot uint64) time.Duration {
	return time.Duration(p.SlotStart(slot).Add(-p.MaxClockError()).UnixNano())
}

// followCertificate has the time follow a certificate on a block that is not known here. The machine takes no block ahead of the
// time, so a node whose machine stood still learns only in this way that a quorum has gone on. Signatures are verified only while
// the clocks of others say that this node is behind, so certificates that prove nothing cost a node with the right time nothing.
func (d *Driver) followCertificate(ctx context.Context, x *block.Certificate) {
	r := d.time.readTime()
	proven := provenTime(&d.deps.Params, x.Target.Slot)
	if !r.Lags || proven <= r.Now {
		return
	}
	if ok, _, err := d.provesNewer(ctx, x); err == nil && ok {
		d.time.certify(proven)
	}
}

// reachCertified has the time follow a verified certificate on a block of this slot. The error wraps ErrFuture if the slot is ahead
// of the time all the same.
func (d *Driver) reachCertified(ctx context.Context, slot uint64) error {
	d.time.certify(provenTime(&d.deps.Params, slot))
	var ahead bool
	if err := d.do(ctx, true, func(c *core) { ahead = c.machine.IsAhead(slot) }); err != nil {
		return err
	}
	if ahead {
		return fmt.Errorf("%w: certified slot %d", ErrFuture, slot)
	}
	return nil
}

// timeSilence is why a signer casts no vote for reasons of time, in the form of silence; "" if time is no reason.
func (d *Driver) timeSilence(w dpos.TimeWait, r *timeReading) (cause, text string) {
	switch {
	case w.FewClocks:
		cause = "clocks"
		if r.State != clock.Unset {
			cause = "lost clocks"
		}
		return cause, fmt.Sprintf("it knows the clocks of %d producers and needs those of %d, its own included; connect it to more producers", r.Clocks.Known, r.Clocks.Needed)
	case w.Ahead > 0:
		at := d.deps.Params.SlotStart(w.Ahead)
		return "ahead", fmt.Sprintf("a vote of slot %d was signed when clocks were wrong, and that slot begins at %s; it seals blocks meanwhile and votes from then on", w.Ahead, at.UTC().Format(time.RFC3339))
	}
	return "", ""
}

// clockAlarms tells of clocks that are off: the machine's own, other producers', and the network's time (rule 12).
type clockAlarms struct {
	next map[judgedClock]time.Duration // of those that were told as off: when they may be told again, on the monotonic clock
}

// judgedClock is a clock that may be off; the producer is of peerClock alone.
type judgedClock struct {
	text     clockText
	producer common.Address
}

// clockAlarmEvery is how often a clock that stays off is told.
const clockAlarmEvery = time.Minute

// check logs what is off, each clock at most once a minute, and once that it is right again.
func (a *clockAlarms) check(r *timeReading, limit time.Duration, log *zap.Logger) {
	if !r.Clocks.Enough {
		return
	}
	if a.next == nil {
		a.next = make(map[judgedClock]time.Duration)
	}
	log = log.With(zap.Duration("max_clock_error", limit))
	median := r.Mono + r.Clocks.Offset
	a.judge(judgedClock{text: networkClock}, r.Now-median, r.Mono, limit, log)
	a.judge(judgedClock{text: ownClock}, r.Wall-median, r.Mono, limit, log)
	for who, offset := range r.Peers {
		a.judge(judgedClock{peerClock, who}, offset-r.Clocks.Offset, r.Mono, limit, log.With(zap.Stringer("producer", who)))
	}
	for c := range a.next {
		if _, known := r.Peers[c.producer]; !known && c.text == peerClock {
			delete(a.next, c) // gone: nothing is known of its clock
		}
	}
}

// clockText is what is said of a clock that is off, and of one that is right again.
type clockText struct{ off, right string }

var (
	networkClock = clockText{
		"the network's time is off by more than max_clock_error from the producers' clocks: they were wrong when it was set, or jumped since; it follows by 1 ms per second (docs/operations.md, Clocks)",
		"the network's time is right again",
	}
	ownClock = clockText{
		"this machine's clock is off by more than max_clock_error from those of the producers: this node goes on by their median; set the clock right (chrony, NTP)",
		"this machine's clock is right again",
	}
	peerClock = clockText{
		"a producer's clock is off by more than max_clock_error from the median: its operator must set it right",
		"a producer's clock is right again",
	}
)

// judge tells of one clock.
func (a *clockAlarms) judge(c judgedClock, off, mono, limit time.Duration, log *zap.Logger) {
	log = log.With(zap.Duration("offset", off))
	again, told := a.next[c]
	switch {
	case off.Abs() <= limit && told:
		delete(a.next, c)
		log.Info(c.text.right)
	case off.Abs() > limit && (!told || mono >= again):
		a.next[c] = mono + clockAlarmEvery
		log.Warn(c.text.off)
	}
}

// clockCheckEvery is how often the node looks at the clocks.
const clockCheckEvery = time.Second

// watchClocks looks at the clocks until ctx ends.
func (d *Driver) watchClocks(ctx context.Context) {
	t := time.NewTicker(clockCheckEvery)
	defer t.Stop()
	var alarms clockAlarms
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			r := d.time.readTime()
			d.m.showClocks(&r)
			alarms.check(&r, d.deps.Params.MaxClockError(), d.log)
		}
	}
}
