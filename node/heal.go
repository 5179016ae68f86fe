package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
)

// repairAskAgain is the pause before peers are asked again for a damaged block that none of them had.
const repairAskAgain = time.Second

// replayHealing executes blocks again and waits, when one of them is damaged, until a peer has sent it: without it this node
// has no newest state. It waits as long as a connected peer may have the block, and store.heal_wait longer.
func (n *Node) replayHealing(ctx context.Context) error {
	told := false
	for {
		err := n.chain.Replay(ctx)
		var damage block.ErrCorrupt
		if last, _ := n.store.LIB(); err == nil || !errors.As(err, &damage) || damage.Height > last {
			return err
		}
		if !told {
			n.log.Warn("this node heals: a block that it must execute or read before it takes part is damaged on its disk, and is fetched again from a peer; check the disk, and that a peer with this block is connected",
				zap.Uint64("height", damage.Height), zap.String("dir", n.cfg.Path(n.cfg.Store.Dir)), zap.Error(damage.Cause))
		}
		told = true
		n.healing.Store(true)
		n.awaitsRepair.Set(1)
		if cause := n.awaitReplayRepair(ctx, damage.Height); cause != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w (%w for %v, store.heal_wait; or link a node that has the block, p2p.peers, and start again)", err, cause, n.cfg.Store.HealWait)
		}
		n.healing.Store(false)
		n.awaitsRepair.Set(0)
	}
}

// awaitReplayRepair is nil when the block may be read again.
func (n *Node) awaitReplayRepair(ctx context.Context, height uint64) error {
	since := time.Now()
	for {
		began := time.Now()
		err := n.store.AwaitRepair(ctx, height)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if time.Since(began) > repairAskAgain {
			since = time.Now() // a peer was asked
		}
		if time.Since(since) >= n.cfg.Store.HealWait {
			return err
		}
		select {
		case <-time.After(repairAskAgain):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
