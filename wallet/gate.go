package wallet

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// gate lets one password operation through at a time and bounds how many wait.
type gate struct {
	turn    chan struct{}
	waiting atomic.Int32
}

func newGate() *gate { return &gate{turn: make(chan struct{}, 1)} }

// enter waits for its turn; leave ends it.
func (g *gate) enter(ctx context.Context) error {
	if g.waiting.Add(1) > MaxHashQueue {
		g.waiting.Add(-1)
		return fail(CodeTooMany, "%d requests already wait for their password to be checked: try again in 5s", MaxHashQueue)
	}
	defer g.waiting.Add(-1)
	select {
	case g.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fail(CodeInternal, "the request was given up before its password was checked")
	}
}

// leave also gives the memory of the hashing back to the system (256 MB each time, with what was derived from the
// password), before the next one asks for as much.
func (g *gate) leave() {
	debug.FreeOSMemory()
	<-g.turn
}

// throttle slows down who guesses the password of one wallet: over all connections, until the process ends.
type throttle struct {
	failures int
	next     time.Time // no attempt before it
}

// wait is how long no attempt is allowed.
func (t *throttle) wait(now time.Time) time.Duration { return max(0, t.next.Sub(now)) }

// fail counts a wrong password and returns the delay that follows.
func (t *throttle) fail(now time.Time) time.Duration {
	delay := maxDelay
	if t.failures < 16 {
		delay = min(maxDelay, minDelay<<t.failures)
	}
	t.failures++
	t.next = now.Add(delay)
	return delay
}

func (t *throttle) reset() { *t = throttle{} }
