package kafka

import (
	"container/list"
	"context"
	"sync"
)

// budget is memory shared by all connections. Who asks first gets first; one holder, a principal, has at most a share
// of it, and one at its share does not hold up the others.
type budget struct {
	mu      sync.Mutex
	free    int64
	share   int64
	held    map[string]int64
	waiting list.List // of *waiter
}

type waiter struct {
	who   string
	n     int64
	ready chan struct{}
}

func newBudget(total, share int64) *budget {
	return &budget{free: total, share: share, held: make(map[string]int64)}
}

// take waits until there is room for n more of who, at most its share; waits is called if it has to. Its error is that
// of ctx.
func (b *budget) take(ctx context.Context, who string, n int64, waits func()) error {
	b.mu.Lock()
	if !b.queuedBefore(who) && b.fits(who, n) {
		b.give(who, n)
		b.mu.Unlock()
		return nil
	}
	w := &waiter{who: who, n: n, ready: make(chan struct{})}
	e := b.waiting.PushBack(w)
	b.mu.Unlock()
	waits()
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-w.ready: // it came in between
		return nil
	default:
		b.waiting.Remove(e)
		b.wake() // one behind it may fit
		return ctx.Err()
	}
}

// queuedBefore says whether somebody waits whom who must not overtake: anyone below his own share.
func (b *budget) queuedBefore(who string) bool {
	for e := b.waiting.Front(); e != nil; e = e.Next() {
		if w := e.Value.(*waiter); w.who == who || b.held[w.who]+w.n <= b.share {
			return true
		}
	}
	return false
}

func (b *budget) fits(who string, n int64) bool { return n <= b.free && b.held[who]+n <= b.share }

func (b *budget) give(who string, n int64) {
	b.free -= n
	b.held[who] += n
}

func (b *budget) put(who string, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	if b.held[who] -= n; b.held[who] == 0 {
		delete(b.held, who)
	}
	b.wake()
}

// wake serves those that wait, in order; one who waits for his own share only is passed over.
func (b *budget) wake() {
	for e := b.waiting.Front(); e != nil; {
		w, next := e.Value.(*waiter), e.Next()
		switch {
		case b.fits(w.who, w.n):
			b.give(w.who, w.n)
			b.waiting.Remove(e)
			close(w.ready)
		case b.held[w.who]+w.n <= b.share:
			return // he waits for the others, and those behind him for him
		}
		e = next
	}
}

// upTo takes what there is, at most n and at least least, even if that is not there.
func (b *budget) upTo(who string, n, least int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = max(min(n, b.free, b.share-b.held[who]), min(n, least))
	b.give(who, n)
	return n
}

// try takes n more of who, if that fits now and nobody is waiting before him.
func (b *budget) try(who string, n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queuedBefore(who) || !b.fits(who, n) {
		return false
	}
	b.give(who, n)
	return true
}

// inUse is for metrics.
func (b *budget) inUse(total int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return total - b.free
}
