package consensus

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// drops are the stored blocks that the machine's tree has let go and the chain must delete. They go to the executor in
// batches, behind every head that was wanted before, and whether or not LIB moves. The machine's goroutine owns them.
//
// A block may come back. Until its batch is handed over it only has to enter the machine again; afterwards it waits
// until it is deleted, and is stored anew. So from the moment that Chain.Add is called for a block until its header
// has entered, neither it nor its parent may be handed over: they are held.
type drops struct {
	queue   []common.Hash
	queued  map[common.Hash]struct{}
	held    map[common.Hash]int
	leaving map[common.Hash]struct{} // with the executor
	left    chan struct{}            // closed when those are deleted
}

func newDrops() drops {
	return drops{queued: make(map[common.Hash]struct{}), held: make(map[common.Hash]int)}
}

func (d *drops) add(hashes ...common.Hash) {
	for _, h := range hashes {
		if _, ok := d.queued[h]; !ok {
			d.queued[h] = struct{}{}
			d.queue = append(d.queue, h)
		}
	}
}

// batch takes off the queue what came back, and lists the oldest of what may go now.
func (d *drops) batch(back func(common.Hash) bool) (batch []common.Hash) {
	rest := d.queue[:0]
	for _, h := range d.queue {
		if back(h) {
			delete(d.queued, h)
			continue
		}
		rest = append(rest, h)
		if d.held[h] == 0 && len(batch) < maxDropBatch {
			batch = append(batch, h)
		}
	}
	clear(d.queue[len(rest):])
	d.queue = rest
	return batch
}

// handed says that the executor has taken a batch.
func (d *drops) handed(batch []common.Hash) {
	d.leaving, d.left = make(map[common.Hash]struct{}, len(batch)), make(chan struct{})
	for _, h := range batch {
		d.leaving[h] = struct{}{}
		delete(d.queued, h)
	}
	rest := d.queue[:0]
	for _, h := range d.queue {
		if _, gone := d.leaving[h]; !gone {
			rest = append(rest, h)
		}
	}
	d.queue = rest
}

func (d *drops) done() {
	close(d.left)
	d.leaving, d.left = nil, nil
}

func (d *drops) hold(h common.Hash) { d.held[h]++ }

func (d *drops) release(h common.Hash) {
	if d.held[h]--; d.held[h] <= 0 {
		delete(d.held, h)
	}
}

// next is the next piece of work for the executor. Deleting comes when no head or update of LIB waits: those may still
// stand on what is to be deleted.
func (c *core) next() (work, bool) {
	w, ok := c.work.peek()
	if !ok || w.safe != (common.Hash{}) {
		if batch := c.drops.batch(c.machine.Has); len(batch) > 0 {
			return work{drop: batch}, true
		}
	}
	return w, ok
}

// handed says that the executor has taken this work.
func (c *core) handed(w work) {
	c.busy = true
	if len(w.drop) > 0 {
		c.drops.handed(w.drop)
		return
	}
	c.work.drop(w)
}

// hold sees to it that the chain deletes none of these blocks, nor what they stand on, until release. Blocks that it
// is deleting right now are waited for.
func (d *Driver) hold(ctx context.Context, blocks []*block.Block) error {
	for {
		var wait chan struct{}
		var err error
		if e := d.do(context.WithoutCancel(ctx), true, func(c *core) { wait, err = c.hold(blocks) }); e != nil {
			return e
		}
		if wait == nil {
			return err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		case <-d.done:
			return ErrStopped
		}
	}
}

func (c *core) hold(blocks []*block.Block) (wait chan struct{}, err error) {
	coming := make(map[common.Hash]bool, len(blocks))
	for _, b := range blocks {
		h, parent := b.Hash(), b.Parent()
		if _, ok := c.drops.leaving[h]; ok {
			return c.drops.left, nil
		}
		if !coming[parent] && !c.machine.Has(parent) { // it went since the header was checked
			return nil, fmt.Errorf("%w: block %d %s", ErrUnknownParent, b.Number(), h)
		}
		coming[h] = true
	}
	for _, b := range blocks {
		c.drops.hold(b.Hash())
		c.drops.hold(b.Parent())
	}
	return nil, nil
}

func (c *core) release(blocks []*block.Block) {
	for _, b := range blocks {
		c.drops.release(b.Hash())
		c.drops.release(b.Parent())
	}
}

// enterAll puts the headers of stored blocks into the tree, parents first. The error is that of the first refused.
func (c *core) enterAll(headers []dpos.Header) (err error) {
	for _, h := range headers {
		if e := c.enter(h); e != nil && err == nil {
			err = e
		}
	}
	return err
}

// abandoned has deleted what the chain may have stored of blocks that it refused.
func (c *core) abandoned(blocks []*block.Block, err error) {
	if errors.Is(err, ErrUnknownParent) {
		for _, b := range blocks {
			if !c.machine.Has(b.Hash()) {
				c.drops.add(b.Hash())
			}
		}
	}
}
