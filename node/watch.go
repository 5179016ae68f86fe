package node

import (
	"context"
	"time"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/chain"
)

const (
	eventBuffer  = 256
	gossipBuffer = 256
	// memberRecheck is how often the gate is judged again without a final block: a node that falls behind or
	// catches up changes whom it accepts.
	memberRecheck = 5 * time.Second
)

// watchHead moves the pool with the executed head.
func (n *Node) watchHead(ctx context.Context) {
	heads := make(chan chain.HeadEvent, eventBuffer)
	reorgs := make(chan chain.ReorgEvent, eventBuffer)
	hs, rs := n.chain.SubscribeHead(heads), n.chain.SubscribeReorg(reorgs)
	defer hs.Unsubscribe()
	defer rs.Unsubscribe()
	for {
		select {
		case <-ctx.Done():
			return
		case <-heads:
			for len(heads) > 0 { // one move for all that waits
				<-heads
			}
			n.pool.HeadChanged()
		case r := <-reorgs:
			var txs types.Transactions
			for _, b := range r.Removed {
				txs = append(txs, b.Transactions...)
			}
			n.pool.Abandoned(txs)
		}
	}
}

// watchFinal keeps the gate of the network true to the Members contract at LIB.
func (n *Node) watchFinal(ctx context.Context) {
	finals := make(chan chain.FinalEvent, eventBuffer)
	sub := n.chain.SubscribeFinal(finals)
	defer sub.Unsubscribe()
	t := time.NewTicker(memberRecheck)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-finals:
			for len(finals) > 0 {
				<-finals
			}
		}
		if n.brokers != nil {
			n.brokers.mirror.Poke()
		}
		s := n.sync.Status()
		if n.members.refresh(n.chain, isBehind(s)) {
			n.sync.MembersChanged()
		}
		n.members.refusedEverywhere(s.Peers, n.chain.FinalHeader().Number.Uint64())
	}
}

// gossip tells peers of transactions that the pool took.
func (n *Node) gossip(ctx context.Context) {
	txs := make(chan types.Transactions, gossipBuffer)
	sub := n.pool.Subscribe(txs)
	defer sub.Unsubscribe()
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-txs:
			n.sync.BroadcastTransactions(t)
		}
	}
}
