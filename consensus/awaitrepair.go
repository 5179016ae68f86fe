package consensus

import (
	"errors"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
)

// awaitedRepair is the executor's wait for an irreversible block that is damaged on this node's disk. Execution needs such
// a block for its hash (BLOCKHASH) or to roll the state back. The store that met the damage has noted the block for the
// synchronisation, which fetches it from a peer and replaces it; then the work is tried again, and from time to time before
// that. Nothing else is executed meanwhile, and there is no bound, unlike for other readers (blockstore.ReadRepaired):
// without the block this node can say nothing. The machine's goroutine owns it.
type awaitedRepair struct {
	damaged  bool // the last work met damage
	height   uint64
	pause    time.Duration
	retry    <-chan time.Time // nil: work may be handed to the executor
	repaired <-chan struct{}  // ends the pause early
}

// tryAgain ends a pause.
func (r *awaitedRepair) tryAgain() { r.retry, r.repaired = nil, nil }

// awaitRepair puts work back that failed for a damaged irreversible block and has it tried again; false if that is not
// why it failed, or if it did not fail. A reversible block is fetched by nobody while the store holds its record. Our own
// block is not waited for either: its slot is given up.
func (c *core) awaitRepair(o outcome) bool {
	r := &c.repair
	var corrupt block.ErrCorrupt
	waits := o.imp != nil || o.head != (common.Hash{}) || o.fin != nil
	if !waits || !errors.As(o.err, &corrupt) || corrupt.Height > c.stored {
		if r.damaged && waits && o.err == nil {
			c.d.log.Info("the damaged block is readable again: execution goes on", zap.Uint64("height", r.height))
			*r = awaitedRepair{}
			c.d.m.awaitsRepair.Set(0)
		}
		return false
	}
	c.tellExecuted(o.result.Executed) // a retry does not list them again
	if !r.damaged || r.height != corrupt.Height {
		c.d.log.Error("execution waits for a block that is damaged in this node's store, until it was fetched again from a peer; check the disk, and that a peer with this block is connected",
			zap.Uint64("height", corrupt.Height), zap.Error(o.err))
		r.pause = repairRetryLeast
	} else {
		r.pause = min(2*r.pause, repairRetryMost)
	}
	r.damaged, r.height, r.retry = true, corrupt.Height, time.After(r.pause)
	if c.d.deps.Repaired != nil {
		r.repaired = c.d.deps.Repaired(corrupt.Height)
	}
	c.d.m.awaitsRepair.Set(1)
	c.work.putBack(o.work)
	return true
}
