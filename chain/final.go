package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// Finalize moves the last irreversible block to the last of f.Hashes, durably, and forgets losing branches and, with
// their descendants, the blocks of f.Drop. A block that was not executed yet is executed first. Without hashes it only
// drops. A dropped block may be added again, but only after Finalize has returned.
func (c *Chain) Finalize(f block.FinalUpdate) error {
	ctx := context.Background()
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	if len(f.Hashes) == 0 {
		return c.dropOnly(f)
	}
	last := f.Hashes[len(f.Hashes)-1]
	n, err := c.finalNode(last)
	if err != nil {
		return err
	}
	c.mu.RLock()
	done := c.tree.onCanon(n)
	c.mu.RUnlock()
	if !done {
		res, err := c.setHead(ctx, last)
		if err != nil {
			return err
		}
		if res.Reason != nil {
			return fmt.Errorf("final block %d %s does not execute: this node's software or state is wrong, or more than f producers are: %w", n.height, last, res.Reason)
		}
	}
	if f.Drop, err = c.forget(f, n); err != nil {
		return err
	}
	failpoint.Hit("chain/finalize-before")
	if err := c.store.Finalize(f); err != nil {
		return err // the caller's sentence names the block
	}
	failpoint.Hit("chain/finalize-after")
	c.setFinal(n)
	return nil
}

// dropOnly drops blocks and moves nothing; those of f.Hashes stay.
func (c *Chain) dropOnly(f block.FinalUpdate) (err error) {
	if f.Drop, err = c.forget(f, c.tree.lib); err != nil { // only the executor moves lib
		return err
	}
	f.Hashes = nil
	if err := c.store.Finalize(f); err != nil {
		return fmt.Errorf("delete %d blocks: %w", len(f.Drop), err)
	}
	return nil
}

// forget takes the blocks of f.Drop and all that stand on them out of everything that would take them for stored, and
// returns what the store must delete. What is or becomes final, up to lib, stays. A head among them moves back first.
func (c *Chain) forget(f block.FinalUpdate, lib *node) ([]common.Hash, error) {
	if len(f.Drop) == 0 {
		return nil, nil
	}
	keep := make(map[common.Hash]bool, len(f.Hashes))
	for _, h := range f.Hashes {
		keep[h] = true
	}
	c.mu.RLock()
	gone := c.tree.branches(f.Drop, func(n *node) bool {
		return keep[n.hash] || n == c.tree.lib || (n.height <= lib.height && c.tree.onCanon(n))
	})
	fork := c.tree.head()
	for _, n := range c.tree.canon {
		if gone[n.hash] {
			fork = c.tree.nodes[n.parent]
			break
		}
	}
	moved := fork != c.tree.head()
	c.mu.RUnlock()
	if moved {
		if err := c.abandon(fork); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for h := range gone {
		delete(c.tree.nodes, h)
		delete(c.built, h)
		c.bodies.remove(h)
	}
	if gone[c.tree.safe.hash] {
		c.tree.safe = c.tree.lib
	}
	drop := make([]common.Hash, 0, len(gone))
	for _, h := range f.Drop {
		if c.tree.nodes[h] == nil && !keep[h] { // the store may hold what the tree does not
			gone[h] = true
		}
	}
	for h := range gone {
		drop = append(drop, h)
	}
	return drop, nil
}

func (c *Chain) finalNode(h common.Hash) (*node, error) {
	n := c.node(h)
	if n == nil {
		return nil, fmt.Errorf("finalize: %w", unknownBlock(h))
	}
	if n.height == c.tree.lib.height && n != c.tree.lib { // only the executor moves lib
		return nil, fmt.Errorf("finalize block %d %s: %w", n.height, h, ErrNotOnLIB)
	}
	return n, nil
}

func (c *Chain) setFinal(n *node) {
	c.mu.Lock()
	c.tree.finalize(n)
	ev := FinalEvent{Safe: c.tree.safe.sealed.Header, Final: n.sealed.Header}
	c.mu.Unlock()
	c.m.final.Set(float64(n.height))
	c.emit(ev)
}

// SetSafe names the justified block that readers see under "safe". An unknown block is ignored. It never waits for
// execution.
func (c *Chain) SetSafe(h common.Hash) {
	c.mu.Lock()
	n := c.tree.nodes[h]
	if n == nil || n == c.tree.safe {
		c.mu.Unlock()
		return
	}
	c.tree.safe = n
	ev := FinalEvent{Safe: n.sealed.Header, Final: c.tree.lib.sealed.Header}
	c.mu.Unlock()
	c.ending.RLock()
	defer c.ending.RUnlock()
	if c.closed.Load() {
		return
	}
	select {
	case c.events <- ev:
	default: // the queue is full; the next FinalEvent tells
	}
}

// ImportFinal takes a run of blocks on top of the last irreversible block that a certificate proves final: it
// executes them while the store makes them durable, and moves the last irreversible block to the end of the run.
// CheckBody must have passed. The certificate alone makes the blocks final, so the store's last irreversible block may
// move although one of them does not execute here, which then is an error wrapping ErrInvalidBlock and means that
// this node's software or state is wrong; readers see the last good block as head, and Open says what to do. After an
// error that wraps block.ErrCorrupt the same call may be made again once the block that it names is readable.
func (c *Chain) ImportFinal(ctx context.Context, blocks []*block.Block, fin block.FinalUpdate) error {
	if err := c.acquire(ctx); err != nil {
		return err
	}
	defer c.release()
	if err := c.checkRun(blocks, fin); err != nil {
		return err
	}
	last := blocks[len(blocks)-1]
	if len(fin.Drop) > 0 { // first, so that the store forgets what it derived from them too
		if err := c.dropOnly(block.FinalUpdate{Hashes: fin.Hashes, Drop: fin.Drop}); err != nil {
			return err
		}
		fin.Drop = nil
	}
	stored := make(chan struct{})
	var failure error // read when stored is closed
	go func() {
		defer close(stored)
		failpoint.Hit("chain/import-before")
		failure = c.store.AppendFinal(blocks, fin)
		failpoint.Hit("chain/import-after")
	}()
	wait := sync.OnceValue(func() error {
		if <-stored; failure != nil {
			return fmt.Errorf("store %d final blocks up to %d: %w", len(blocks), last.Number(), failure)
		}
		return nil
	})
	if err := errors.Join(c.executeRun(ctx, blocks, stored, wait), wait()); err != nil {
		return err
	}
	c.setFinal(c.node(last.Hash()))
	return c.maybeFlush()
}

// checkRun checks that the blocks are the ones of the update and stand on the last irreversible block.
func (c *Chain) checkRun(blocks []*block.Block, fin block.FinalUpdate) error {
	if len(blocks) == 0 || len(blocks) != len(fin.Hashes) {
		return fmt.Errorf("%d blocks for a final update of %d", len(blocks), len(fin.Hashes))
	}
	parent := c.tree.lib.hash
	for i, b := range blocks {
		if b.Hash() != fin.Hashes[i] {
			return fmt.Errorf("block %d of the run is %s, the final update names %s", i, b.Hash(), fin.Hashes[i])
		}
		if b.Parent() != parent {
			return fmt.Errorf("block %d %s: %w", b.Number(), b.Hash(), ErrNotOnLIB)
		}
		parent = b.Hash()
	}
	return nil
}

// executeRun executes what of the run was not executed. It stays less than the layers that pathdb keeps ahead of what
// is known to be durable.
func (c *Chain) executeRun(ctx context.Context, blocks []*block.Block, stored <-chan struct{}, wait func() error) error {
	if err := c.enter(blocks, stored); err != nil {
		return err
	}
	byHash := make(map[common.Hash]*block.Block, len(blocks))
	for _, b := range blocks {
		byHash[b.Hash()] = b
	}
	c.mu.RLock()
	n := c.tree.nodes[blocks[len(blocks)-1].Hash()]
	fork, up, err := c.tree.path(n)
	head := c.tree.head()
	c.mu.RUnlock()
	if err != nil {
		return err
	}
	if fork != head && len(up) > 0 {
		if err := c.abandon(fork); err != nil {
			return err
		}
	}
	ready, err := c.prepare(ctx, fork, up)
	if err != nil {
		return err
	}
	for i, x := range up {
		if err := ctx.Err(); err != nil {
			return err
		}
		if i == layersKept/2 {
			if err := wait(); err != nil {
				return err
			}
		}
		if i < ready {
			if err := c.takeOver(x); err != nil {
				return err
			}
			continue
		}
		reason, err := c.advance(x, byHash[x.hash])
		if errors.As(err, new(ErrUnknownUpgrade)) {
			return err
		}
		if errors.As(err, new(block.ErrCorrupt)) { // another block, which the execution asked for: it says nothing about this one
			return fmt.Errorf("certified block %d cannot be executed yet: %w", x.height, err)
		}
		if err := errors.Join(reason, err); err != nil {
			return fmt.Errorf("certified block does not execute: this node's software or state is wrong, or more than f producers are: %w", err)
		}
	}
	return nil
}

// flushed is what was executed since the state was written last.
type flushed struct {
	id, blocks, gas uint64
	at              time.Time
}

// isDue reports whether that is enough to write it again.
func (s *flushed) isDue(cfg *Config, now time.Time) bool {
	return s.blocks >= cfg.FlushBlocks || s.gas >= cfg.FlushGas && s.blocks >= 2*layersKept ||
		s.blocks > 0 && cfg.FlushInterval > 0 && now.Sub(s.at) >= cfg.FlushInterval
}

// maybeFlush writes the state to disk when enough was executed since the last time it got there.
func (c *Chain) maybeFlush() error {
	c.mu.RLock()
	root := c.tree.head().sealed.Header.Root
	c.mu.RUnlock()
	return c.flushIfDue(root)
}

func (c *Chain) flushIfDue(root common.Hash) error {
	s, now := &c.sinceFlush, time.Now()
	if !s.isDue(&c.cfg, now) {
		return nil
	}
	id := c.states.persistentID()
	due := id == s.id
	*s = flushed{id: id, at: now}
	c.flushes.Add(1)
	c.m.flushes.Inc()
	if !due { // pathdb's buffer was full meanwhile
		return nil
	}
	c.receipts.drain()
	if err := c.store.SyncDerived(); err != nil { // blocks whose state is on disk are not executed again
		return fmt.Errorf("make receipts durable: %w", err)
	}
	failpoint.Hit("chain/flush-before")
	if err := c.states.trie().Commit(root, false); err != nil {
		return fmt.Errorf("write the state to disk: %w", err)
	}
	failpoint.Hit("chain/flush-after")
	return nil
}

// CurrentHeader is the executed head, SafeHeader the justified and FinalHeader the last irreversible block.
func (c *Chain) CurrentHeader() *types.Header { return c.Head().Header }
func (c *Chain) SafeHeader() *types.Header    { return c.Safe().Header }
func (c *Chain) FinalHeader() *types.Header   { return c.Final().Header }

// Head, Safe and Final are the same with record and seal.
func (c *Chain) Head() *block.SealedHeader {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tree.head().sealed
}

func (c *Chain) Safe() *block.SealedHeader {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tree.safe.sealed
}

func (c *Chain) Final() *block.SealedHeader {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tree.lib.sealed
}

// NextSchedule is the schedule that the record of an executed epoch-ending block carries; nil for other blocks and
// while a change is under way.
func (c *Chain) NextSchedule(h common.Hash) (block.Schedule, error) {
	s, err := c.Sealed(h)
	if s == nil || err != nil {
		return nil, err
	}
	return slices.Clone(s.Record.Next), nil
}
