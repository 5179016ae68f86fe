package txpool

import (
	"sync"

	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/event"
)

// eventQueue stands between legacypool, which sends events while it holds up admission, and the subscribers.
type eventQueue struct {
	feed  event.FeedOf[types.Transactions]
	scope event.SubscriptionScope
	mu    struct {
		sync.Mutex
		waiting types.Transactions
	}
	ready chan struct{} // capacity 1
}

// startEvents runs two goroutines: one takes events from legacypool and never blocks, one sends to subscribers.
func (p *Pool) startEvents() {
	q := &p.events
	q.ready = make(chan struct{}, 1)
	in := make(chan core.NewTxsEvent, 64)
	sub := p.legacy.SubscribeTransactions(in, true)
	p.wg.Add(2)
	go func() {
		defer p.wg.Done()
		defer sub.Unsubscribe()
		for {
			select {
			case ev := <-in:
				p.metrics.lost.Add(float64(q.put(ev.Txs)))
			case <-p.ctx.Done():
				return
			}
		}
	}()
	go func() {
		defer p.wg.Done()
		for {
			select {
			case <-q.ready:
				p.send(q.take())
			case <-p.ctx.Done():
				return
			}
		}
	}()
}

// send waits for the slowest subscriber, but not beyond Close.
func (p *Pool) send(txs types.Transactions) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		p.events.feed.Send(txs)
	}()
	select {
	case <-done:
	case <-p.ctx.Done():
		p.events.scope.Close() // frees a Send that waits for a subscriber
		<-done
	}
}

func (q *eventQueue) put(txs types.Transactions) (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mu.waiting = append(q.mu.waiting, txs...)
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
