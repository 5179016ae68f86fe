package sim

import (
	"fmt"
	"sync"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// CQ is a completion queue: see fabric.CQ.
type CQ struct {
	dev   *Device
	depth int

	// Guarded by the network's mutex.
	entries fifo[entry]
	armed   bool
	events  int // not yet taken by Wait
	woken   sync.Cond
	changed broadcast
	users   int // open queue pairs
	overrun bool
	closed  bool
}

// entry is a completion, and what polling it frees.
type entry struct {
	completion fabric.Completion
	qp         *QP
	seq        uint64 // of the request, if it is of the send queue
	send       bool
}

// NewCQ implements fabric.Device.
func (d *Device) NewCQ(depth int) (fabric.CQ, error) {
	if depth < 1 || depth > MaxCQ {
		return nil, fmt.Errorf("sim: a completion queue of %d: want 1 to %d", depth, MaxCQ)
	}
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if err := d.making(); err != nil {
		return nil, err
	}
	c := &CQ{dev: d, depth: depth}
	c.woken.L = &d.net.mu
	d.cqs++
	return c, nil
}

// show adds a completion. A full queue is lost, and everything on it.
func (c *CQ) show(e entry) {
	n := c.dev.net
	if c.closed || c.overrun {
		return
	}
	if c.entries.len() == c.depth {
		c.overrun = true
		n.counters.Overruns++
		c.dev.lost = true
		c.dev.event(fabric.Event{Kind: fabric.EventCQFatal, Text: fmt.Sprintf("a completion queue of %d overran", c.depth)})
		for _, q := range c.dev.qps {
			q.fail(breakNow, true)
		}
		c.events++
		c.wake()
		return
	}
	*c.entries.push() = e
	n.counters.Completions++
	switch e.completion.Status {
	case fabric.StatusOK:
	case fabric.StatusFlushed:
		n.counters.Flushed++
	default:
		n.counters.Errors++
	}
	if c.armed {
		c.armed = false
		c.events++
		c.wake()
	}
}

func (c *CQ) wake() {
	c.woken.Broadcast()
	c.changed.notify()
}

// Poll implements fabric.CQ.
func (c *CQ) Poll(out []fabric.Completion) (int, error) {
	c.dev.net.mu.Lock()
	defer c.dev.net.mu.Unlock()
	if c.closed {
		return 0, fabric.ErrClosed
	}
	k := min(len(out), c.entries.len())
	for i := range k {
		e := c.entries.at(0)
		out[i] = e.completion
		if e.send {
			e.qp.freed = e.seq + 1
		}
		e.qp = nil
		c.entries.pop()
	}
	if k == 0 && c.overrun {
		return 0, fmt.Errorf("%w: the completion queue overran", fabric.ErrBroken)
	}
	return k, nil
}

// Arm implements fabric.CQ.
func (c *CQ) Arm() error {
	c.dev.net.mu.Lock()
	defer c.dev.net.mu.Unlock()
	if c.closed {
		return fabric.ErrClosed
	}
	c.armed = true
	return nil
}

// Wait implements fabric.CQ. On a Manual network it steps; ErrIdle says that a real one would sleep for ever.
func (c *CQ) Wait() error {
	n := c.dev.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if !c.closed && n.chance(n.faults.EarlyWakes) {
		n.counters.EarlyWakes++
		return nil
	}
	for !c.closed && c.events == 0 && !c.overrun {
		if !n.faults.Manual {
			c.woken.Wait()
			continue
		}
		n.mu.Unlock()
		moved := n.Step()
		n.mu.Lock()
		if !moved {
			return ErrIdle
		}
	}
	if c.closed {
		return fabric.ErrClosed
	}
	c.events = max(0, c.events-1)
	n.counters.Wakes++
	return nil
}

// Close implements fabric.CQ. It fails while queue pairs use the queue.
func (c *CQ) Close() error {
	n := c.dev.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.closed {
		return nil
	}
	if c.users > 0 {
		return n.misuse("a completion queue is closed before its %d queue pairs", c.users)
	}
	c.closed = true
	c.dev.cqs--
	c.wake()
	return nil
}

// purge takes the completions of a queue pair out.
func (c *CQ) purge(q *QP) {
	before := c.entries.len()
	c.entries.keep(func(e *entry) bool { return e.qp != q })
	c.dev.net.counters.Purged += uint64(before - c.entries.len())
}
