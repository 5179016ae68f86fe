package txpool

import (
	"sync"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/event"
)

// eventQueue stands between the owner goroutine, which never waits, and the subscribers.
type eventQueue struct {
	feed  event.FeedOf[types.Transactions]
	scope event.SubscriptionScope
	mu    struct {
		sync.Mutex
		waiting types.Transactions
	}
	ready chan struct{} // capacity 1
}

// sendEvents is the goroutine that sends to subscribers. Close of the scope frees one that waits for a subscriber.
func (p *Pool) sendEvents() {
	defer p.wg.Done()
	for {
		select {
		case <-p.events.ready:
			p.events.feed.Send(p.events.take())
		case <-p.ctx.Done():
			return
		}
	}
}

// put queues transactions, which the caller gives away, and returns how many older ones were dropped for them.
func (q *eventQueue) put(txs types.Transactions) (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.mu.waiting) == 0 {
		q.mu.waiting = txs
	} else {
		q.mu.waiting = append(q.mu.waiting, txs...)
	}
	if dropped = len(q.mu.waiting) - maxEvents; dropped > 0 {
		q.mu.waiting = append(types.Transactions(nil), q.mu.waiting[dropped:]...)
	} else {
		dropped = 0
	}
	select {
	case q.ready <- struct{}{}:
	default:
	}
	return dropped
}

func (q *eventQueue) take() types.Transactions {
	q.mu.Lock()
	defer q.mu.Unlock()
	txs := q.mu.waiting
	q.mu.waiting = nil
	return txs
}
