package clock

import (
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// MaxAge is how long a reading of another machine's clock counts, and how far a time may be from a certificate that confirms it.
const MaxAge = time.Minute

// slewDivisor bounds how fast a set time follows the median: 1 ms per second. A clock that all machines share, and that
// jumps, carries the network no faster.
const slewDivisor = 1000

// Reading is what the machine of another producer showed as its own, uncorrected clock, and what its node told as the time
// that it goes by.
type Reading struct {
	Account common.Address // whom the machine signs for, as its handshake proved
	Wall    time.Duration  // its clock, since 1970
	Told    time.Duration  // the time that it goes by (Time.Told), since 1970; 0: it tells none
	At      time.Time      // the instant at which it showed that; only the monotonic part counts
}

// Consensus is what the clocks of a schedule's producers say together.
type Consensus struct {
	Known  int           // clocks of the schedule that lacks most, the own included
	Needed int           // its quorum
	Enough bool          // a quorum of every schedule is known
	Offset time.Duration // the network's time minus the monotonic clock; of use if Enough
}

// Combine takes the lower median of the clocks of each schedule that counts, and of several schedules the earlier one.
// own is this machine's clock minus its monotonic clock, and counts if self has a seat; clocks holds the others' in the
// same form. An account with two seats has one clock.
//
// The lower median of c clocks is the latest time that more than half of them have reached. With c of a quorum at least
// and at most f that lie, more than half is more than f, so an honest clock has reached it; and all honest ones are more
// than half, so nobody holds it back behind the slowest honest one.
func Combine(schedules []block.Schedule, self common.Address, own time.Duration, clocks map[common.Address]time.Duration) Consensus {
	c := Consensus{Enough: len(schedules) > 0}
	for i, s := range schedules {
		var known []time.Duration
		counted := make(map[common.Address]bool, len(s))
		for _, p := range s {
			if counted[p.Account] {
				continue
			}
			counted[p.Account] = true
			if p.Account == self {
				known = append(known, own)
			} else if offset, ok := clocks[p.Account]; ok {
				known = append(known, offset)
			}
		}
		q := s.Quorum()
		if i == 0 || len(known)-q < c.Known-c.Needed {
			c.Known, c.Needed = len(known), q
		}
		if len(known) < q || len(known) == 0 {
			c.Enough = false
			continue
		}
		if m := LowerMedian(known); i == 0 || m < c.Offset {
			c.Offset = m
		}
	}
	return c
}

// LowerMedian is the largest value that more than half of the values reach; values must not be empty, and is sorted.
func LowerMedian(values []time.Duration) time.Duration {
	slices.Sort(values)
	return values[(len(values)-1)/2]
}

// State says where the time comes from.
type State uint8

const (
	// Unset: too few clocks are known since the start. The time is the machine's own clock, which may jump.
	Unset State = iota
	// Alone: the wait for other clocks is over and they are still missing. The time runs on the monotonic clock and
	// follows the machine's own.
	Alone
	// Set: a quorum's clocks set the time. It runs on the monotonic clock, follows their median, and never goes back.
	Set
)

// Input is all that a reading of the time depends on.
type Input struct {
	Mono      time.Duration // the machine's monotonic clock
	Wall      time.Duration // its own wall clock, since 1970
	Clocks    Consensus
	Told      Told
	MaxError  time.Duration // times that differ by no more agree
	Waited    bool          // others' clocks and times were waited for long enough: what is there must do
	Alone     bool          // after that wait the own clock does if a quorum's are missing
	Certified time.Duration // a quorum's certificate proves that this time has come; 0: none does
}

// Time is the network's time as one node knows it. The zero value is Unset.
type Time struct {
	state     State
	now       time.Duration
	mono      time.Duration // when now was read
	sets      int           // how often the time was set and did not just run
	fromTold  bool          // running producers set it, or agreed with it
	since     time.Duration // what it was set to at the start
	confirmed bool          // a quorum has certified a block of a time after since, less than a minute before now
	behind    bool          // a quorum has certified a block of a time that has not come
}

// Advance reads the time, since 1970. Calls must come in the order of Input.Mono.
func (t *Time) Advance(in Input) time.Duration {
	passed := max(0, in.Mono-t.mono)
	t.mono = max(t.mono, in.Mono)
	switch {
	case t.state != Set && in.toldDecide():
		t.setAtStart(in.Mono+in.Told.Offset, true)
	case t.state != Set && in.clocksDecide():
		t.setAtStart(in.Mono+in.Clocks.Offset, false)
	case t.state == Unset && in.Waited && in.Alone:
		t.setTo(Alone, in.Wall)
	case t.state == Unset:
		t.now = in.Wall
	case t.state == Alone:
		t.runTowards(passed, in.Wall)
	case !in.Clocks.Enough:
		t.now += passed // the others' clocks are gone: the monotonic one goes on
	default:
		t.runTowards(passed, in.Mono+in.Clocks.Offset)
	}
	if t.state == Set {
		t.hearTold(&in)
		t.takeCertified(&in)
	}
	return t.now
}

// toldDecide reports whether a start takes the time that running producers tell. Of as few as Told.Needed some that lie might
// hold it back, so they must agree with the clocks, or have been waited for.
func (in *Input) toldDecide() bool {
	if !in.Told.Enough {
		return false
	}
	agrees := in.Clocks.Enough && (in.Told.Offset-in.Clocks.Offset).Abs() <= in.MaxError
	return in.Told.Sure || agrees || in.Waited
}

// clocksDecide reports whether a start takes the time of the producers' clocks: too few producers run, as when a whole network
// starts.
func (in *Input) clocksDecide() bool {
	return in.Clocks.Enough && !in.Told.Enough && (in.Waited || !in.Told.Awaited)
}

// setAtStart sets the time at the start of a node.
func (t *Time) setAtStart(now time.Duration, told bool) {
	t.setTo(Set, now)
	t.fromTold, t.since, t.confirmed = told, now, false
}

// hearTold sets a time that was set by clocks right, also back, once running producers are heard of that cannot be outvoted. It
// does so once: a time that others' times set again and again would walk.
func (t *Time) hearTold(in *Input) {
	if t.fromTold || !in.Told.Sure {
		return
	}
	t.fromTold = true
	if told := in.Mono + in.Told.Offset; (told - t.now).Abs() > in.MaxError {
		t.setAtStart(told, true)
	}
}

// takeCertified follows at once what a quorum has signed for: a machine that stood still is behind that. It goes no further than
// the producers' clocks, or the times that running ones tell, since neither those nor a certificate alone move the time.
func (t *Time) takeCertified(in *Input) {
	if in.Certified <= 0 {
		return
	}
	bound := in.bound(t.now)
	t.confirmed = t.confirmed || in.Certified >= t.since && t.now-in.Certified <= MaxAge
	if proven := min(in.Certified, bound); proven > t.now {
		t.setTo(Set, proven)
	}
	t.behind = in.Certified > t.now+in.MaxError
}

// bound is how far a certificate may carry a time: to the later of the producers' clocks and the times that running ones tell.
func (in *Input) bound(now time.Duration) time.Duration {
	if in.Clocks.Enough {
		now = max(now, in.Mono+in.Clocks.Offset)
	}
	if in.Told.Enough {
		now = max(now, in.Mono+in.Told.Offset)
	}
	return now
}

// Lags reports whether the time, last read with this input, is behind the clocks of others, or the times that they tell, by more
// than MaxError: a certificate of a later slot would carry it on.
func (t *Time) Lags(in Input) bool { return t.state == Set && in.bound(t.now) > t.now+in.MaxError }

// Told is the time at the last reading if others may go by it, else 0: it is set, a quorum has certified a block of a time since
// that was the present then, and none of one to come. So a node tells none that has set its time ahead of a running network's, or is
// behind it.
func (t *Time) Told() time.Duration {
	if t.state != Set || !t.confirmed || t.behind {
		return 0
	}
	return t.now
}

func (t *Time) setTo(s State, now time.Duration) {
	t.state, t.now = s, now
	t.sets++
}

// runTowards moves the time by what has passed, and towards the target by at most 1 ms per second.
func (t *Time) runTowards(passed, target time.Duration) {
	slew := passed / slewDivisor
	t.now += passed
	t.now += min(max(target-t.now, -slew), slew)
}

// State says where the time comes from.
func (t *Time) State() State { return t.state }

// Sets counts the instants at which the time was set: it may have jumped then, and at the start also back.
func (t *Time) Sets() int { return t.sets }
