package pubsub

import (
	"sync"

	"github.com/bornode/bornode/pubsub/store"
)

// waiters are the fetches that wait for records. A fetch of many partitions is one waiter with one channel: waiting
// costs no goroutine beside the connection's own.
type waiters struct {
	mu sync.Mutex
	of map[store.ID]map[*waiter]struct{}
}

type waiter struct {
	woken chan struct{} // of capacity 1
	ids   []store.ID
}

func newWaiters() *waiters { return &waiters{of: make(map[store.ID]map[*waiter]struct{})} }

// add lets a fetch hear of changes of these partitions until remove.
func (w *waiters) add(ids []store.ID) *waiter {
	x := &waiter{woken: make(chan struct{}, 1), ids: ids}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range ids {
		set := w.of[id]
		if set == nil {
			set = make(map[*waiter]struct{})
			w.of[id] = set
		}
		set[x] = struct{}{}
	}
	return x
}

func (w *waiters) remove(x *waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, id := range x.ids {
		set := w.of[id]
		if delete(set, x); len(set) == 0 {
			delete(w.of, id)
		}
	}
}

// wake is told of a partition with new committed records, a new leader or an end.
func (w *waiters) wake(id store.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for x := range w.of[id] {
		select {
		case x.woken <- struct{}{}:
		default:
		}
	}
}
