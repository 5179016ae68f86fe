package chain

import (
	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/event"
)

// HeadEvent: a block became part of the executed branch. One per block, parents first.
type HeadEvent struct {
	Block    *block.Block
	Receipts types.Receipts
	Logs     []*types.Log
}

// ReorgEvent: blocks left the executed branch. It comes before the HeadEvents of the branch that replaces them. The
// transactions of Removed are the abandoned ones.
type ReorgEvent struct {
	Removed     []*block.Block // newest first
	RemovedLogs []*types.Log   // of Removed, oldest first, with Removed set
}

// FinalEvent: the safe (justified) or the final (last irreversible) block moved.
type FinalEvent struct{ Safe, Final *types.Header }

// SubscribeHead and its two sisters: see the package comment for what a subscriber owes.
func (c *Chain) SubscribeHead(ch chan<- HeadEvent) event.Subscription {
	return c.scope.Track(c.headFeed.Subscribe(ch))
}

func (c *Chain) SubscribeReorg(ch chan<- ReorgEvent) event.Subscription {
	return c.scope.Track(c.reorgFeed.Subscribe(ch))
}

func (c *Chain) SubscribeFinal(ch chan<- FinalEvent) event.Subscription {
	return c.scope.Track(c.finalFeed.Subscribe(ch))
}

// emit queues an event; it waits while the queue is full. Called by the executor only.
func (c *Chain) emit(ev any) { c.events <- ev }

// dispatch is the goroutine that sends events until the queue is closed.
func (c *Chain) dispatch() {
	defer c.wg.Done()
	for ev := range c.events {
		switch ev := ev.(type) {
		case HeadEvent:
			c.headFeed.Send(ev)
		case ReorgEvent:
			c.reorgFeed.Send(ev)
		case FinalEvent:
			c.finalFeed.Send(ev)
		}
	}
}
