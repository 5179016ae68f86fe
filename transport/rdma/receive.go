package rdma

import (
	"fmt"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// complete implements consumer.
func (c *Channel) complete(done *fabric.Completion, sent []byte) bool {
	if done.ID&recvID == 0 && done.ID&^(1<<32-1) != c.tag {
		return false // of an older queue pair with the same number
	}
	if done.Status != fabric.StatusOK {
		c.fault(statusError(c.d.caps.Provider, done.Status))
		return false
	}
	switch done.Op {
	case fabric.OpRecvImm:
		return c.arrive(done.Imm)
	case fabric.OpRecv:
		return c.describe(sent[:min(int(done.Bytes), len(sent))])
	}
	number := uint32(done.ID)
	c.flow.done(number)
	if bye := c.bye.Load(); bye != 0 && number == bye {
		c.hush()
	}
	return c.wants(false, c.flow.blocked.Load())
}

// arrive takes an immediate.
func (c *Channel) arrive(imm uint32) bool {
	switch imm >> valueBits {
	case classProbe:
		return c.probedBy(imm & valueMask)
	case classBye:
		c.fault(fmt.Errorf("%w: %s: closed by the peer", ErrBroken, c.d.caps.Provider))
		return false
	}
	if !c.open.Load() {
		c.breach(fmt.Errorf("%w: immediate %#x before the set-up", transport.ErrProtocol, imm))
		return false
	}
	a, err := c.flow.arrive(imm)
	if err != nil {
		c.breach(err)
		return false
	}
	return c.wants(a.published && c.readWait.parked.Load(), a.owes || c.flow.blocked.Load())
}

// breach ends the channel of a peer that broke the protocol: nothing more of it is read, and the queue pair breaks, so
// that it cannot go on using receive entries.
func (c *Channel) breach(err error) {
	if c.end(err, stateDead) {
		c.d.note(c, err)
		c.d.background(func() { c.snap(err) })
	}
}

// wants notes what settle shall do, and whether it is needed.
func (c *Channel) wants(wake, pump bool) bool {
	var bits uint32
	if wake {
		bits |= todoWake
	}
	if pump {
		bits |= todoPump
	}
	if bits == 0 {
		return false
	}
	c.todo.Or(bits)
	return true
}

// settle implements consumer.
func (c *Channel) settle() (woke bool) {
	bits := c.todo.Swap(0)
	if bits&todoWake != 0 {
		woke = c.readWait.wake()
	}
	if bits&todoPump != 0 && c.kick() {
		woke = true
	}
	return woke
}

// ReadHeader implements transport.Provider. Frames of the control ring come first. After the channel has broken, what
// had arrived before is given out, then the error.
func (c *Channel) ReadHeader() (transport.Header, error) {
	for {
		state := c.state.Load() // before looking: what arrived before the end is seen
		if state != stateDead && c.open.Load() {
			// Bulk is looked at before control and given out after it, so what the peer published first, a hello
			// above all, is never passed by.
			bulk := c.reader.has(ringBulk)
			switch {
			case c.reader.has(ringControl):
				return c.readHeader(ringControl)
			case bulk:
				return c.readHeader(ringBulk)
			}
		}
		if state != stateLive {
			return transport.Header{}, c.Err()
		}
		c.d.poller.await(&c.readWait, c.readable)
	}
}

func (c *Channel) readable() bool {
	return c.state.Load() != stateLive || c.open.Load() && c.reader.available()
}

func (c *Channel) readHeader(ring ringKind) (transport.Header, error) {
	h, err := c.reader.header(ring)
	if err != nil {
		return h, c.readError(err)
	}
	if ring == ringBulk && c.reader.tired() {
		c.d.poller.help() // so that what arrived for lane 0 meanwhile is seen before the next slice
	}
	c.credit()
	return h, nil
}

// ReadPayload implements transport.Provider.
func (c *Channel) ReadPayload(dst []byte) error {
	if err := c.reader.payload(dst); err != nil {
		return c.readError(err)
	}
	c.credit()
	return nil
}

// credit announces what was consumed if it is time.
func (c *Channel) credit() {
	r := c.reader.current
	if c.flow.readerOwes(r, c.reader.in[r].next) {
		c.kick()
	}
}

func (c *Channel) readError(err error) error {
	if isProtocol(err) {
		c.breach(err)
		return err
	}
	if ended := c.Err(); ended != nil {
		return ended
	}
	return err
}

// received is how many bytes of rings the peer has told of.
func (c *Channel) received() uint64 {
	if !c.open.Load() {
		return 0
	}
	return c.flow.published[ringControl].Load() + c.flow.published[ringBulk].Load() - 2*c.setup.peer.start
}
