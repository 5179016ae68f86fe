package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"
)

// SetHeadResult says what SetHead did. Executed lists the blocks that joined the executed branch, oldest first, also
// when their states were still there. Failed is the first invalid block on the way, with the reason; the head is then
// the last good block below it.
type SetHeadResult struct {
	Executed []common.Hash
	Failed   common.Hash
	Reason   error
}

// Add makes blocks durable and enters them into the tree. CheckBody must have passed. Parents come before children; a
// block whose parent is neither known nor among those before it is an error wrapping ErrUnknownBlock, and then none
// is added. Known blocks are skipped. A parent in a run that ImportFinal is storing is waited for.
func (c *Chain) Add(blocks []*block.Block) error {
	fresh, err := c.fresh(blocks)
	if err != nil || len(fresh) == 0 {
		return err
	}
	failpoint.Hit("chain/add-before")
	if err := c.store.PutReversible(fresh); err != nil {
		if _, gone := c.fresh(fresh); gone != nil { // the parent went while this one was on its way
			return gone
		}
		return fmt.Errorf("store %d blocks from %d on: %w", len(fresh), fresh[0].Number(), err)
	}
	failpoint.Hit("chain/add-after")
	return c.enter(fresh, nil)
}

// fresh lists the blocks that are not known, when the store has the parents of all.
func (c *Chain) fresh(blocks []*block.Block) ([]*block.Block, error) {
	for {
		fresh, wait, err := c.unknown(blocks)
		if wait == nil {
			return fresh, err
		}
		<-wait // closed when the store has answered
	}
}

func (c *Chain) unknown(blocks []*block.Block) (fresh []*block.Block, wait <-chan struct{}, err error) {
	final, _ := c.store.LIB()
	coming := make(map[common.Hash]bool, len(blocks))
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, b := range blocks {
		h := b.Hash()
		if c.tree.nodes[h] != nil || coming[h] {
			continue
		}
		p := c.tree.nodes[b.Parent()]
		switch {
		case coming[b.Parent()]:
		case p == nil:
			return nil, nil, fmt.Errorf("parent of block %d %s: %w", b.Number(), h, unknownBlock(b.Parent()))
		case p.durable != nil && !isClosed(p.durable):
			return nil, p.durable, nil
		case p.height < final: // LIB has moved in the store, not yet here
			return nil, nil, fmt.Errorf("parent of block %d %s, which is below the last irreversible block: %w", b.Number(), h, unknownBlock(b.Parent()))
		}
		coming[h] = true
		fresh = append(fresh, b)
	}
	return fresh, nil, nil
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// enter puts blocks into the tree that the store has, or will have when durable is closed.
func (c *Chain) enter(blocks []*block.Block, durable <-chan struct{}) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range blocks {
		known := c.tree.nodes[b.Hash()] != nil
		n, err := c.tree.add(b.SealedHeader)
		if err != nil {
			return err
		}
		if !known {
			n.durable = durable
		}
		c.bodies.put(b)
	}
	return nil
}

// SetHead makes the branch that ends with hash the executed one. It goes on block by block: what readers see moves
// with it. An invalid block is no error but SetHeadResult.Failed; an error is trouble of this node (or ctx), and the
// head is then the last block executed.
func (c *Chain) SetHead(ctx context.Context, hash common.Hash) (SetHeadResult, error) {
	if err := c.acquire(ctx); err != nil {
		return SetHeadResult{}, err
	}
	defer c.release()
	return c.setHead(ctx, hash)
}

func (c *Chain) setHead(ctx context.Context, hash common.Hash) (SetHeadResult, error) {
	var res SetHeadResult
	c.mu.RLock()
	n := c.tree.nodes[hash]
	if n == nil {
		c.mu.RUnlock()
		return res, fmt.Errorf("set head: %w", unknownBlock(hash))
	}
	fork, up, err := c.tree.path(n)
	head := c.tree.head()
	c.mu.RUnlock()
	if err != nil {
		return res, fmt.Errorf("set head: %w", err)
	}
	for i, x := range up { // stop below what is known to be invalid
		if x.status == failed {
			res.Failed, res.Reason = x.hash, x.reason
			up = up[:i]
			break
		}
	}
	if fork != head && (len(up) > 0 || res.Failed == common.Hash{}) {
		if err := c.abandon(fork); err != nil {
			return res, err
		}
	}
	ready, err := c.prepare(ctx, fork, up)
	if err != nil {
		return res, err
	}
	for i, x := range up {
		if err := ctx.Err(); err != nil {
			return res, err
		}
		if i < ready {
			if err := c.takeOver(x); err != nil {
				return res, err
			}
			res.Executed = append(res.Executed, x.hash)
			continue
		}
		b, err := c.body(x.hash)
		if err != nil {
			return res, err
		}
		reason, err := c.advance(x, b)
		if err != nil {
			return res, err
		}
		if reason != nil {
			res.Failed, res.Reason = x.hash, reason
			return res, nil
		}
		res.Executed = append(res.Executed, x.hash)
	}
	return res, c.maybeFlush()
}

// abandon takes the blocks above fork off the executed branch and tells subscribers.
func (c *Chain) abandon(fork *node) error {
	var ev ReorgEvent
	for {
		c.mu.RLock()
		n := c.tree.head()
		c.mu.RUnlock()
		if n == fork {
			break
		}
		b, err := c.body(n.hash)
		if err != nil {
			return err
		}
		rs, err := c.Receipts(n.hash)
		if err != nil {
			c.log.Warn("logs of an abandoned block are lost", zapHeight(n.height), zapError(err))
		}
		ev.Removed = append(ev.Removed, b)
		var logs []*types.Log
		for _, l := range logsOf(rs) {
			x := *l
			x.Removed = true
			logs = append(logs, &x)
		}
		ev.RemovedLogs = append(logs, ev.RemovedLogs...)
		c.mu.Lock()
		c.tree.canon = slices.Clip(c.tree.canon[:len(c.tree.canon)-1]) // an append must not write into what readers hold
		c.mu.Unlock()
		failpoint.Hit("chain/switch-abandoned")
	}
	c.m.reorgs.Inc()
	c.log.Info("switching branch", zapHeight(fork.height), zap.Int("abandoned", len(ev.Removed)))
	c.emit(ev)
	return nil
}

// prepare sees to it that execution can go on: it returns how many of up need no execution since they were executed
// and a state at or above the last of them is there. If neither the fork nor any of those has its state, the one on
// disk is rolled back to the fork.
func (c *Chain) prepare(ctx context.Context, fork *node, up []*node) (ready int, err error) {
	for i, x := range up {
		if x.status != executed || x.track == nil {
			break
		}
		if c.states.has(x.sealed.Header.Root) {
			ready = i + 1
		}
	}
	if ready > 0 || c.states.has(fork.sealed.Header.Root) {
		return ready, nil
	}
	return 0, c.rollback(ctx, fork.sealed, c.anyLayer())
}

// takeOver makes a block the head that was executed before.
func (c *Chain) takeOver(n *node) error {
	b, err := c.body(n.hash)
	if err != nil {
		return err
	}
	rs, err := c.Receipts(n.hash)
	if err != nil {
		return err
	}
	c.adopt(n, b, rs, logsOf(rs), n.track)
	failpoint.Hit("chain/switch-adopted")
	return nil
}

// advance executes one block on top of the head and makes it the head. reason is why the block is invalid.
func (c *Chain) advance(n *node, b *block.Block) (reason, err error) {
	c.mu.RLock()
	parent := c.tree.head()
	c.mu.RUnlock()
	o, err := c.result(b, parent)
	if err == nil {
		err = c.commit(o)
	}
	switch {
	case errors.Is(err, ErrInvalidBlock):
		c.mu.Lock()
		c.tree.fail(n, err)
		c.mu.Unlock()
		c.m.failedBlocks.Inc()
		c.log.Error("block is invalid", zapHeight(n.height), zapError(err))
		return err, nil
	case err != nil:
		return nil, err
	}
	c.adopt(n, b, o.receipts, o.logs, o.track)
	c.watch(b.Header)
	failpoint.Hit("chain/switch-executed")
	return nil, nil
}

// result is the kept execution of a block built here, or a fresh one.
func (c *Chain) result(b *block.Block, parent *node) (*outcome, error) {
	if o := c.built[b.Hash()]; o != nil {
		delete(c.built, b.Hash())
		if c.states.has(parent.sealed.Header.Root) {
			return o, nil
		}
	}
	return c.execute(b, parent.sealed, parent.track)
}

// adopt makes an executed block the head.
func (c *Chain) adopt(n *node, b *block.Block, rs types.Receipts, logs []*types.Log, t *track) {
	c.keepReceipts(b, rs)
	c.mu.Lock()
	n.status, n.track = executed, t
	c.tree.canon = append(c.tree.canon, n)
	c.mu.Unlock()
	c.m.head.Set(float64(n.height))
	c.emit(HeadEvent{Block: b, Receipts: rs, Logs: logs})
}

// keepReceipts hands receipts to the writer, again when a block joins the executed branch again: the last writer of a
// transaction's place wins.
func (c *Chain) keepReceipts(b *block.Block, rs types.Receipts) {
	if len(rs) == 0 {
		return
	}
	c.receiptCache.Add(b.Hash(), rs)
	c.receipts.put(receiptJob{b.Hash(), b.Number(), rs})
}

// body is a block of the tree with its transactions.
func (c *Chain) body(h common.Hash) (*block.Block, error) {
	if b := c.bodies.get(h); b != nil {
		return b, nil
	}
	if h == c.genesis.Hash() {
		return c.genesis, nil
	}
	b, err := c.store.Block(h)
	if err != nil {
		return nil, fmt.Errorf("read block %s: %w", h, err)
	}
	c.bodies.put(b)
	return b, nil
}

func (c *Chain) node(h common.Hash) *node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tree.nodes[h]
}
