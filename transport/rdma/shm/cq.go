//go:build linux

package shm

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// CQ is a completion queue: the receiving ends of the rings of its queue pairs, looked at in turn, and a queue of local
// completions (of sends, and of what a broken queue pair left).
type CQ struct {
	dev   *Device
	line  int
	armed *atomic.Uint32 // status word: 0, or the number of the Arm that nothing has answered yet
	epoch atomic.Uint32  // number of the last Arm, never 0 after one
	event chan uint32    // capacity 1: an armed queue had a completion, in this epoch or later
	done  chan struct{}

	waiting atomic.Int32 // queue pairs with deferred completions
	lost    atomic.Bool  // local completions overran

	mu     sync.Mutex // guards the receiving ends
	rx     []rxEnd
	next   int // where the next Poll begins
	wakes  []*QP
	broken []breakage
	closed bool

	_ [cacheLine]byte // the rest is written by posting goroutines

	localMu sync.Mutex
	local   []localCompletion // ring
	first   int
	count   atomic.Int32 // of local; written under localMu
}

// rxEnd is what an idle Poll touches of a queue pair: where the word of its next slot is, and the lap it waits for.
type rxEnd struct {
	word *atomic.Uint64
	lap  uint16
	gone bool // broken, and all it published was given out
	qp   *QP
}

type localCompletion struct {
	fabric.Completion
	qp  *QP
	seq uint64
}

// breakage is a queue pair to break after the locks are released.
type breakage struct {
	qp     *QP
	err    error
	status fabric.Status
}

var _ fabric.CQ = (*CQ)(nil)

func newCQ(d *Device, depth int) (*CQ, error) {
	line, armed, err := d.status.line()
	if err != nil {
		return nil, err
	}
	return &CQ{
		dev: d, line: line, armed: armed,
		event: make(chan uint32, 1), done: make(chan struct{}),
		local: make([]localCompletion, depth),
	}, nil
}

// Poll implements fabric.CQ.
func (c *CQ) Poll(out []fabric.Completion) (int, error) {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return 0, fabric.ErrClosed
	}
	if c.waiting.Load() != 0 {
		c.resolve()
	}
	n := 0
	if c.count.Load() != 0 {
		n = c.takeLocal(out)
	}
	n += c.scan(out[n:])
	if len(c.wakes) == 0 && len(c.broken) == 0 {
		c.mu.Unlock()
	} else {
		wakes, broken := c.wakes, c.broken
		c.wakes, c.broken = nil, nil
		c.mu.Unlock()
		for _, q := range wakes {
			q.wake()
		}
		for _, b := range broken {
			b.qp.fail(b.err, b.status)
		}
	}
	if n == 0 && c.lost.Load() {
		return 0, fmt.Errorf("%w: completion queue overran", fabric.ErrBroken)
	}
	return n, nil
}

// scan looks at the rings in turn. An idle one costs two loads.
func (c *CQ) scan(out []fabric.Completion) int {
	n, k, i := 0, len(c.rx), c.next
	gone := false
	for range k {
		if i >= k {
			i = 0
		}
		e := &c.rx[i]
		i++
		if uint16(e.word.Load()) != e.lap {
			continue
		}
		if n == len(out) {
			i--
			break
		}
		n += e.qp.take(out[n:], e)
		gone = gone || e.gone
	}
	c.next = i
	if gone {
		c.rx = slices.DeleteFunc(c.rx, func(e rxEnd) bool { return e.gone })
	}
	return n
}

// takeLocal gives out local completions and frees what they stand for in the send queues.
func (c *CQ) takeLocal(out []fabric.Completion) int {
	c.localMu.Lock()
	n := min(len(out), int(c.count.Load()))
	for i := range n {
		l := &c.local[c.first]
		out[i] = l.Completion
		l.qp.freed.Store(l.seq + 1)
		l.qp = nil
		if c.first++; c.first == len(c.local) {
			c.first = 0
		}
	}
	c.count.Add(int32(-n))
	c.localMu.Unlock()
	return n
}

// push adds a local completion. It reports false when there is no room: the queue is lost then.
func (c *CQ) push(l localCompletion) bool {
	c.localMu.Lock()
	n := int(c.count.Load())
	ok := n < len(c.local)
	if ok {
		at := c.first + n
		if at >= len(c.local) {
			at -= len(c.local)
		}
		c.local[at] = l
		c.count.Add(1)
	}
	c.localMu.Unlock()
	if !ok {
		c.overrun()
	}
	if c.armed.Load() != 0 {
		c.kick()
	}
	return ok
}

// overrun ends the queue: a completion is lost, so nothing that completes on it can go on.
func (c *CQ) overrun() {
	if c.lost.Swap(true) {
		return
	}
	c.dev.events.put(fabric.Event{Kind: fabric.EventCQFatal, Text: fmt.Sprintf("completion queue of %d overran", len(c.local))})
	c.dev.background(func() {
		for _, q := range c.dev.queuePairs(c) {
			q.fail(fmt.Errorf("%w: completion queue overran", fabric.ErrBroken), fabric.StatusFlushed)
		}
		c.kick()
	})
}

// resolve gives out the completions that waited for a peer to take their slots.
func (c *CQ) resolve() {
	for i := range c.rx {
		if q := c.rx[i].qp; q.deferred.Load() {
			if err := q.resolve(); err != nil {
				c.broken = append(c.broken, breakage{q, err, fabric.StatusOther})
			}
		}
	}
}

// Arm implements fabric.CQ.
func (c *CQ) Arm() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fabric.ErrClosed
	}
	select {
	case <-c.event: // of what came before; the Poll after this call sees it
	default:
	}
	e := c.epoch.Add(1)
	if e == 0 {
		e = c.epoch.Add(1)
	}
	c.armed.Store(e)
	return nil
}

// Wait implements fabric.CQ. It disarms the queue, so that nobody signals a queue that is awake, unless it was armed
// again since the event.
func (c *CQ) Wait() error {
	var e uint32
	select {
	case <-c.done:
		return fabric.ErrClosed
	case e = <-c.event:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed { // the status word may be gone
		return fabric.ErrClosed
	}
	c.armed.CompareAndSwap(e, 0)
	return nil
}

// kick ends Wait.
func (c *CQ) kick() {
	select {
	case c.event <- c.epoch.Load():
	default:
	}
}

// add puts a connected queue pair's ring among those that Poll looks at.
func (c *CQ) add(q *QP) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return fabric.ErrClosed
	}
	e := rxEnd{qp: q}
	e.follow(&q.rx)
	c.rx = append(c.rx, e)
	return nil
}

// seal ends what the ring of a broken queue pair gives out at what is published now.
func (c *CQ) seal(q *QP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.index(q); i >= 0 {
		q.rx.end = min(q.rx.end, q.rx.published())
		if q.rx.pos >= q.rx.end {
			c.rx = slices.Delete(c.rx, i, i+1)
		} else {
			c.kick() // the peer may have died before it could wake us for these
		}
	}
}

// remove forgets the ring: after it Poll does not touch its memory.
func (c *CQ) remove(q *QP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i := c.index(q); i >= 0 {
		c.rx = slices.Delete(c.rx, i, i+1)
	}
}

func (c *CQ) index(q *QP) int {
	return slices.IndexFunc(c.rx, func(e rxEnd) bool { return e.qp == q })
}

// Close implements fabric.CQ.
func (c *CQ) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	c.rx = nil
	c.armed.Store(0)
	close(c.done)
	c.dev.status.free(c.line)
	c.dev.forget(c)
	return nil
}

// follow points the end at the ring's next slot.
func (e *rxEnd) follow(r *rxRing) {
	e.word, e.lap = &r.slots[r.pos&r.mask], r.lap(r.pos)
	e.gone = r.pos >= r.end
}
