package chain

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/failpoint"
)

// replay is the execution of the blocks whose states a kill or a power cut left unwritten. Its channels are made by Open
// and closed once; what it is about to do belongs to whoever holds the execution slot.
type replay struct {
	done    chan struct{} // closed when the head has its state
	closing chan struct{} // closed when the chain ends

	alloc types.GenesisAlloc  // of block 0's state
	base  *block.SealedHeader // newest block whose state is there or can be rolled back to; nil: it is to be looked for

	began, at, to atomic.Uint64                      // heights: executed before, by now, and in the end
	newest        atomic.Pointer[block.SealedHeader] // executed by catchUp last
}

func (r *replay) from(height, to uint64) {
	r.began.Store(height)
	r.at.Store(height)
	r.to.Store(to)
}

func (r *replay) reached(h *block.SealedHeader) {
	r.newest.Store(h)
	r.at.Store(h.Number())
}

func (r *replay) pending() bool { return r.done != nil && !isClosed(r.done) }

// ErrReplaying says that this node executes blocks again after its last stop, and that what was asked for depends on
// a block whose state is not there yet. Nobody is to blame: ask again later. Test with errors.As.
type ErrReplaying struct{ From, At, To uint64 } // heights: where the replay began, is, and ends

func (e ErrReplaying) Error() string {
	return fmt.Sprintf("this node was not stopped in order and executes blocks again before it knows the newest state: it is at block %d of %d; ask again later, or another node", e.At, e.To)
}

// Replaying reports whether blocks are still to be executed again before the head has its state, and how far that is.
func (c *Chain) Replaying() (ErrReplaying, bool) {
	return ErrReplaying{c.replay.began.Load(), c.replay.at.Load(), c.replay.to.Load()}, c.replay.pending()
}

// notYet is ErrReplaying while the replay goes on.
func (c *Chain) notYet() error {
	if e, ok := c.Replaying(); ok {
		return e
	}
	return nil
}

// newestState is the root of the newest executed block.
func (c *Chain) newestState() common.Hash {
	if h := c.replay.newest.Load(); h != nil && c.replay.pending() {
		return h.Header.Root // what was executed again is not lost to the next start
	}
	return c.tree.head().sealed.Header.Root
}

// planReplay finds the newest block whose state is there. If that is the last irreversible one, the rest costs little
// and is done at once. A damaged block on the way ends nothing: Replay meets it again, when peers can be asked for it.
func (c *Chain) planReplay(ctx context.Context) error {
	c.replay.from(0, c.tree.lib.height)
	err := c.findReplayBase()
	if base := c.replay.base; err == nil && base.Hash() == c.tree.lib.hash && c.states.has(base.Header.Root) {
		err = c.Replay(ctx)
	}
	if c.canBeRepaired(err) {
		return nil
	}
	return err
}

// canBeRepaired reports whether an error is damage of an irreversible block. Nobody fetches a reversible one while the
// store holds it.
func (c *Chain) canBeRepaired(err error) bool {
	var damage block.ErrCorrupt
	return errors.As(err, &damage) && damage.Height <= c.tree.lib.height
}

func (c *Chain) findReplayBase() error {
	base, err := c.base(c.tree.lib.sealed)
	if errors.Is(err, ErrStateUnavailable) || err == nil && c.isOfLostBlocks() {
		base, err = c.beginStates(err)
	}
	if err != nil {
		return err
	}
	c.replay.base = base
	c.replay.from(base.Number(), c.tree.lib.height)
	return nil
}

// isOfLostBlocks reports whether the state on disk is of blocks that a store which begins anew does not have: to roll it back
// to block 0 would cut all of its history without a word.
func (c *Chain) isOfLostBlocks() bool {
	const ofGenesis = 1 // a state's number: genesis makes the first transition
	return c.tree.lib.height == 0 && c.states.persistentID() > ofGenesis && c.anyLayer() == (common.Hash{})
}

// Replay brings state and head to where Open leaves them; without anything to do it returns nil. One call at a time. After
// an error that wraps block.ErrCorrupt the call may be repeated when the irreversible block that it names is whole again;
// after another error only Close is left. What was executed is kept in both cases.
func (c *Chain) Replay(ctx context.Context) error {
	if err := c.acquireSlot(ctx); err != nil {
		return err
	}
	defer c.release()
	if !c.replay.pending() {
		return nil
	}
	if c.replay.base == nil {
		if err := c.findReplayBase(); err != nil {
			return err
		}
	}
	base := c.replay.base
	c.replay.base = nil // an attempt that fails moves the state
	if err := c.recover(ctx, base); err != nil {
		return err
	}
	close(c.replay.done)
	return nil
}

// recover rolls the state back if it lies on no ancestor of the last irreversible block, executes what is missing, and
// chooses the head. base is the newest block down from there whose state exists or can be rolled back to.
func (c *Chain) recover(ctx context.Context, base *block.SealedHeader) error {
	// The blocks up to best are executed again to be sure of them (a state of the root that a header names proves
	// nothing about the header), which costs little: their states are there, or few.
	best := c.bestWithState()
	if !c.states.has(base.Header.Root) {
		if err := c.rollback(ctx, base, c.anyLayer()); err != nil {
			return err
		}
	}
	if err := c.states.dropJournal(); err != nil {
		return err
	}
	c.sinceFlush.id, c.sinceFlush.at = c.states.persistentID(), time.Now()
	if err := c.catchUp(ctx, base, c.tree.lib.sealed); err != nil {
		return err
	}
	t, err := c.trackAt(c.tree.lib.sealed)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.tree.lib.track = t
	c.mu.Unlock()
	// Who may connect is read while the state at LIB is the newest: the blocks above may push it out of the layers, and
	// the index of older states is not there at once.
	if _, err := c.Members(); err != nil {
		c.log.Error("the members at the last irreversible block cannot be read; nobody is admitted until they can", zapHeight(c.tree.lib.height), zapError(err))
	}
	res, err := c.setHead(ctx, best.hash)
	if err != nil {
		return err
	}
	c.watch(c.tree.head().sealed.Header)
	if res.Reason != nil {
		c.log.Error("a stored reversible block does not execute", zap.Error(res.Reason))
	}
	h := c.tree.head()
	c.log.Info("chain is open", zapHeight(h.height), zap.Uint64("final", c.tree.lib.height), zap.Stringer("hash", h.hash))
	return nil
}

// bestWithState is the highest block of the tree whose state survived, else the last irreversible one.
func (c *Chain) bestWithState() *node {
	c.mu.RLock()
	defer c.mu.RUnlock()
	best := c.tree.lib
	for _, n := range c.tree.nodes {
		if n.height > best.height && c.states.has(n.sealed.Header.Root) {
			best = n
		}
	}
	return best
}

// replayedBlock reads a block to be executed again. An irreversible one is found by its height, which needs no derived data.
func (c *Chain) replayedBlock(height uint64, hash common.Hash) (*block.Block, error) {
	if height > c.tree.lib.height {
		return c.store.Block(hash)
	}
	b, err := c.store.BlockByHeight(height)
	if err == nil && b.Hash() != hash {
		err = fmt.Errorf("the stored block %d is %s, its child names %s", height, b.Hash(), hash)
	}
	return b, err
}

// catchUp executes the blocks above base up to and including top, of which nothing but the state is wanted: their
// states were lost in a crash.
func (c *Chain) catchUp(ctx context.Context, base, top *block.SealedHeader) error {
	if base.Hash() == top.Hash() {
		return nil
	}
	c.log.Info("executing blocks again whose states were not yet on disk", zap.Uint64("from", base.Number()+1), zap.Uint64("to", top.Number()))
	path := make([]common.Hash, 0, top.Number()-base.Number())
	for h := top; h.Hash() != base.Hash(); {
		path = append(path, h.Hash())
		p, err := c.parentOf(h)
		if err != nil {
			return fmt.Errorf("execute blocks %d to %d again: %w", base.Number()+1, top.Number(), unreadable(err))
		}
		h = p
	}
	t, err := c.trackAt(base)
	if err != nil {
		return err
	}
	c.replay.from(base.Number(), top.Number())
	c.m.replayLeft.Set(float64(len(path)))
	parent, told := base, time.Now()
	for i := len(path) - 1; i >= 0; i-- {
		if err := ctx.Err(); err != nil {
			return err
		}
		failpoint.Hit("chain/replay-block")
		if time.Since(told) > progressEvery {
			told = time.Now()
			c.log.Info("executing blocks again", zapHeight(parent.Number()), zap.Int("left", i+1))
		}
		b, err := c.replayedBlock(parent.Number()+1, path[i])
		if err != nil {
			return fmt.Errorf("execute blocks %d to %d again: read block %d: %w", base.Number()+1, top.Number(), parent.Number()+1, unreadable(err))
		}
		o, err := c.execute(b, parent, t)
		if err == nil {
			err = c.commit(o)
		}
		if errors.As(err, new(ErrUnknownUpgrade)) {
			return err
		}
		if errors.As(err, new(block.ErrCorrupt)) { // another block's, which the execution asked for: the state is not to blame
			return fmt.Errorf("execute block %d again: %w", b.Number(), unreadable(err))
		}
		if err != nil {
			return fmt.Errorf("block %d does not execute again on this node's state; move the state directory %s away and it is made again: %w", b.Number(), c.cfg.Dir, err)
		}
		c.keepReceipts(o.block, o.receipts)
		if err := c.flushIfDue(b.Header.Root); err != nil {
			return err
		}
		parent, t = b.SealedHeader, o.track
		c.replay.reached(parent)
		c.m.replayLeft.Set(float64(i))
	}
	return nil
}
