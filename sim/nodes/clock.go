package nodes

import (
	"sync"
	"time"
)

// clock is a node's clock: the bubble's, moved by an offset, and faster or slower by a share of what has passed.
type clock struct {
	mu     sync.Mutex
	offset time.Duration
	drift  float64
	since  time.Time // of the drift
}

// Now is what the node takes for the time.
func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	return now.Add(c.offset + time.Duration(c.drift*float64(now.Sub(c.since))))
}

// set moves the clock to an offset, with a drift from now on.
func (c *clock) set(offset time.Duration, drift float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset, c.drift, c.since = offset, drift, time.Now()
}
