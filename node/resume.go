package node

import (
	"context"

	"go.uber.org/zap"

	"github.com/bornode/bornode/chain"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/txpool"
)

// A node that was not stopped in order executes again the blocks whose states were not on disk. Meanwhile it answers
// JSON-RPC from its stored blocks and serves final history to members, and nothing else: it signs nothing, takes no
// transaction, block or vote, and offers no topics. What needs the newest state starts when ready is closed.

// openPool opens the pool at the chain's head.
func (n *Node) openPool() error {
	cfg := n.cfg.Pool
	cfg.Journal = n.cfg.Path(cfg.Journal)
	p, err := txpool.New(cfg, n.chain, txpool.Deps{Allowed: (&allowed{chain: n.chain}).check, Senders: n.chain.Senders(), Log: n.log.Named("pool"), Registry: n.reg})
	if err != nil {
		return err
	}
	n.pool.open(p)
	return nil
}

// resume ends the replay and lets everything begin that waits for it.
func (n *Node) resume(ctx context.Context) error {
	if n.isReady() {
		return nil
	}
	if err := n.replayHealing(ctx); err != nil {
		return storeFault(n.cfg.Path(n.cfg.Store.Dir), err)
	}
	if err := n.openPool(); err != nil {
		return err
	}
	n.members.refresh(n.chain, true)
	n.sync.MembersChanged()
	n.log.Info("the newest state is there: the node takes part again", zap.Uint64("height", n.chain.CurrentHeader().Number.Uint64()))
	close(n.ready)
	return nil
}

func (n *Node) isReady() bool {
	select {
	case <-n.ready:
		return true
	default:
		return false
	}
}

// waitReady reports false if one of the contexts ends first.
func (n *Node) waitReady(ctx, other context.Context) bool {
	select {
	case <-n.ready:
		return true
	case <-ctx.Done():
	case <-other.Done():
	}
	return false
}

// notReady is why what depends on the newest state is refused; nil when it is there.
func (n *Node) notReady() error {
	if n.isReady() {
		return nil
	}
	replay, _ := n.chain.Replaying()
	return replay
}

// replayStatus is the progress of the replay, as a synchronisation with the own disk.
func (n *Node) replayStatus() (at chain.ErrReplaying, replaying bool) {
	at, _ = n.chain.Replaying()
	return at, !n.isReady()
}

// isBehind reports whether what this node knows of the members may be old.
func isBehind(s blocksync.SyncStatus) bool { return s.State != blocksync.InSync || s.Peers == 0 }
