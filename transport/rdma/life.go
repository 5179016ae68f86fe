package rdma

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// Close ends the channel and wakes its reader and writer. The peer is told in the background if the queue pair still
// works. It may be called more than once.
func (c *Channel) Close() error {
	c.end(fmt.Errorf("%w: the channel, here", transport.ErrClosed), stateDead)
	c.once.Do(func() { go c.leave() }) // the device waits for it
	return nil
}

// leave tells the peer, frees everything and gives the channel's place back.
func (c *Channel) leave() {
	if c.farewell() {
		timer := time.NewTimer(lingerTime)
		select {
		case <-c.said:
		case <-timer.C:
		}
		timer.Stop()
	}
	c.making.Lock() // whoever allocates or connects sees that the channel has ended
	if c.qp != nil {
		c.d.route(c.qp.Num(), nil)
	}
	if c.pair != nil {
		c.d.route(c.pair.qp.Num(), nil)
	}
	c.free()
	c.making.Unlock()
	c.d.log.Debug("channel closed", zap.String("peer", string(c.peer)), zap.Error(c.Err()))
	close(c.gone)
	c.d.forget(c)
}

// farewell posts a BYE if it can be posted.
func (c *Channel) farewell() bool {
	c.tx.Lock()
	defer c.tx.Unlock()
	if !c.open.Load() || c.broken() || c.flow.slots() < 1 {
		return false
	}
	c.flow.posted++
	c.bye.Store(c.flow.posted)
	wr := [1]fabric.SendWR{{ID: c.tag | uint64(c.flow.posted), Op: fabric.OpWriteImm, Imm: immediate(classBye, 0), Signaled: true}}
	n, _ := c.qp.Post(wr[:]) // not told, then
	return n == 1
}

// broken tells that the queue pair does not work any more, or must not.
func (c *Channel) broken() bool { return !errors.Is(c.Err(), transport.ErrClosed) }

// free gives up queue pair and memory, as far as they are there.
func (c *Channel) free() {
	c.tx.Lock()
	c.closed = true
	c.mirror, c.mailIn, c.mailOut, c.scratch = [rings][]byte{}, nil, nil, nil
	if c.qp != nil {
		if err := c.qp.Close(); err != nil {
			c.d.log.Debug("closing a queue pair", zap.Error(err))
		}
	}
	c.tx.Unlock()
	c.window.close()
	c.pair.close()
	c.reader.close()
	c.exposed.close()
	c.private.close()
}

// allocate makes memory and queue pair.
func (c *Channel) allocate(ctx context.Context) (err error) {
	d := c.d
	control, bulk := d.rings()
	c.own = side{control: uint64(control), bulk: uint64(bulk), entries: uint64(d.size.entries), start: d.cfg.FirstPosition}
	mapped := d.caps.MapsRemote
	if c.exposed, err = d.pool.get(ctx, control+bulk+mailboxBytes, mapped); err != nil {
		return err
	}
	qp, err := d.fd.NewQP(fabric.QPConfig{CQ: d.cq, SRQ: d.srq, SendDepth: d.size.send, RNRRetry: d.cfg.RNRRetry})
	if err != nil {
		return fmt.Errorf("rdma: %s: making a queue pair: %w", d.caps.Provider, err)
	}
	c.tx.Lock()
	c.qp = qp // the device knows the channel already and may break it
	c.tx.Unlock()
	mem := c.exposed.bytes()
	c.mailIn = mailboxOf(mem[control+bulk:])
	first := c.own.words()
	c.mailIn.store(&first)
	c.mailIn.setProbe(0)
	c.flow.depth, c.flow.mapped = uint32(d.size.send), mapped

	n := d.size.send*unit + fabric.MaxSendBytes
	if !mapped {
		n += control + bulk
	}
	if c.private, err = d.pool.get(ctx, n, false); err != nil {
		return err
	}
	c.scratch = c.private.bytes()[n-d.size.send*unit-fabric.MaxSendBytes : n]
	if d.size.reads > 0 {
		c.pair, err = newWindowPair(ctx, c)
	}
	return err
}
