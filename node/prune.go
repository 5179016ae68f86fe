package node

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/config"
)

// historyPruner deletes whole segments of irreversible blocks that the settings do not keep, when LIB moves. It never
// deletes a block that a start of this node may read again, nor one whose events a part of this node has not read yet.
// One goroutine of Node.Run uses it, but for readUpTo.
type historyPruner struct {
	keepBlocks, keepDays uint64
	least                uint64 // blocks below LIB that always stay
	store                *blockstore.Store
	replayFloor          func() (uint64, error)
	log                  *zap.Logger
	told                 time.Time // when an error was told last

	// readUpTo is the height up to which the broker has compared checkpoints; noReader without a broker.
	readUpTo atomic.Uint64
}

const (
	noReader          = ^uint64(0)
	maxPrunedSegments = 16          // segments that go in one step; the node can end between two
	pruneToldEvery    = time.Minute // between log lines about pruning that does not go on
	day               = 24 * time.Hour
)

// leastKept is how many blocks below the last irreversible one a node needs: what a start executes and reads again, and
// max_reversible blocks for evidence and for peers that come back from a short outage.
func leastKept(cfg *config.Config, p block.Parameters) uint64 {
	return chain.ReplayBlocks(&cfg.Chain, p.EpochBlocks) + p.MaxReversible
}

// newHistoryPruner checks the settings; nil without an error: all history is kept.
func newHistoryPruner(cfg *config.Config, p block.Parameters, store *blockstore.Store, c *chain.Chain, log *zap.Logger) (*historyPruner, error) {
	if cfg.Store.KeepBlocks == 0 && cfg.Store.KeepDays == 0 {
		return nil, nil //nolint:nilnil // nothing is pruned
	}
	least := leastKept(cfg, p)
	if n := cfg.Store.KeepBlocks; n > 0 && n < least {
		return nil, fmt.Errorf("store.keep_blocks is %d: this node needs the newest %d irreversible blocks to start again after a crash, for evidence and for peers that were away (2 x chain.flush_blocks %d, 128 state layers, an epoch of %d or the 256 block hashes of contracts, max_reversible %d); set at least that, a smaller chain.flush_blocks, or 0 to keep all",
			n, least, cfg.Chain.FlushBlocks, p.EpochBlocks, p.MaxReversible)
	}
	h := &historyPruner{keepBlocks: cfg.Store.KeepBlocks, keepDays: cfg.Store.KeepDays, least: least, store: store, replayFloor: c.ReplayFloor, log: log}
	h.readUpTo.Store(noReader)
	return h, nil
}

// watchPruning prunes when LIB moves.
func (n *Node) watchPruning(ctx context.Context) {
	finals := make(chan chain.FinalEvent, eventBuffer)
	sub := n.chain.SubscribeFinal(finals)
	defer sub.Unsubscribe()
	for {
		more, err := n.pruner.prune()
		if more && ctx.Err() == nil {
			continue
		}
		if err != nil && ctx.Err() == nil && time.Since(n.pruner.told) >= pruneToldEvery {
			n.pruner.told = time.Now()
			n.log.Error("history is not pruned now; it is tried again with the next irreversible block", zap.Error(err))
		}
		select {
		case <-ctx.Done():
			return
		case <-finals:
			for len(finals) > 0 {
				<-finals
			}
		}
	}
}

// prune deletes the segments that are due, or maxPrunedSegments of them: more says that there are others. What is due is
// looked up only if the oldest segment may be.
func (h *historyPruner) prune() (more bool, err error) {
	segments := h.store.Segments()
	if len(segments) < 2 { // the active segment always stays
		return false, nil
	}
	oldest := segments[0]
	below, err := h.unwantedBelow(oldest)
	if err != nil || oldest.Last >= below {
		return false, err
	}
	floor, err := h.replayFloor()
	if err != nil {
		return false, err
	}
	if below = min(below, floor); oldest.Last >= below {
		return false, nil
	}
	if len(segments) > maxPrunedSegments && segments[maxPrunedSegments].First < below {
		below, more = segments[maxPrunedSegments].First, true
	}
	first, err := h.store.Prune(below)
	if err != nil {
		return false, err
	}
	h.log.Info("pruned history", zap.Uint64("from", oldest.First), zap.Uint64("first", first))
	return more, nil
}

// unwantedBelow is the height below which neither setting wants blocks, nor a part of this node.
func (h *historyPruner) unwantedBelow(oldest blockstore.Segment) (uint64, error) {
	lib, _ := h.store.LIB()
	below := uint64(0)
	if lib+1 > h.least {
		below = lib + 1 - h.least
	}
	if h.keepBlocks > 0 {
		below = min(below, lib+1-min(lib+1, h.keepBlocks))
	}
	if up := h.readUpTo.Load(); up != noReader {
		below = min(below, up+1)
	}
	if h.keepDays == 0 || oldest.Last >= below {
		return below, nil
	}
	young, err := h.firstYoung(oldest.First, lib)
	return min(below, young), err
}

// firstYoung is the first block of from..lib that is at most keepDays older than block lib. The chain's own time counts:
// a clock of the machine that is set wrong must not delete history.
func (h *historyPruner) firstYoung(from, lib uint64) (uint64, error) {
	newest, err := h.store.HeaderByHeight(lib)
	if err != nil {
		return 0, fmt.Errorf("read the time of block %d: %w", lib, err)
	}
	span := h.keepDays * uint64(day/time.Second)
	if newest.Header.Time <= span {
		return from, nil
	}
	limit := newest.Header.Time - span
	var failed error
	n := sort.Search(int(lib-from), func(i int) bool { //nolint:gosec // blocks that are stored
		x, err := h.store.HeaderByHeight(from + uint64(i)) //nolint:gosec // likewise
		if err != nil {
			failed = errors.Join(failed, err)
			return true // what is not known stays
		}
		return x.Header.Time >= limit
	})
	if failed != nil {
		return 0, fmt.Errorf("look for the first block that store.keep_days keeps: %w", failed)
	}
	return from + uint64(n), nil //nolint:gosec // likewise
}
