package rpc

import (
	"maps"
	"slices"
	"sync"

	"github.com/ethereum/go-ethereum/core/types"
)

// kind is what a subscriber hears of.
type kind uint8

const (
	kindHeads   kind = iota // *headerJSON, or its hash
	kindLogs                // *types.Log, removed ones too
	kindPending             // *types.Transaction, or its hash
	kindSyncing             // SyncStatus
	kinds
)

// missed is why a subscriber gets nothing more; a WebSocket shows its first 120 bytes.
type missed string

func (m missed) Error() string { return string(m) }

const (
	errOverflow missed = "too many notifications are waiting: the subscriber does not keep up; subscribe again and read what was missed with eth_getLogs or eth_getBlockByNumber"
	errCostly   missed = "the log subscriptions and filters of this address cost too much: use fewer, each for fewer addresses; read what was missed with eth_getLogs"
	errMissed   missed = "the node has no time for all its subscribers; subscribe again and read what was missed with eth_getLogs or eth_getBlockByNumber"
)

// hub hands events to subscribers. Publishing never waits: a subscriber whose queue is full is marked as overflown and
// gets nothing more, so that it can be told; it never misses an event silently. The order of events is that of the
// calls of publish.
type hub struct {
	waiting *budget // bytes in all queues
	queries *budget // bytes of the queries that subscribers have

	mu   sync.RWMutex
	subs [kinds]map[*subscriber]struct{}
}

func newHub() *hub {
	h := &hub{waiting: newBudget(maxAllQueueBytes, maxHostQueueBytes, 0), queries: newBudget(maxQueryBytes, maxHostQueryBytes, minQueryBytes)}
	for k := range h.subs {
		h.subs[k] = make(map[*subscriber]struct{})
	}
	return h
}

// subscriber is one queue of events, bounded by count and bytes.
type subscriber struct {
	hub    *hub
	host   string
	kind   kind
	logs   *logQuery // only kindLogs
	hashes bool      // heads and transactions: only hashes are kept
	limit  int
	stored int64         // bytes of logs, counted in hub.queries
	ready  chan struct{} // capacity 1: something to take

	mu     sync.Mutex
	items  []any
	bytes  int64
	lost   error // missed: it gets nothing more
	closed bool
}

// want is what a subscriber asks for.
type want struct {
	host   string // whose quotas it uses
	kind   kind
	logs   *logQuery // only kindLogs
	hashes bool      // of heads and transactions the hashes alone
	limit  int       // most items that may wait
	stored int64     // set by reserve
}

// reserve counts the query in; the subscriber's close counts it out.
func (h *hub) reserve(w *want) error {
	if w.logs == nil {
		return nil
	}
	n := w.logs.bytes()
	if !h.queries.take(w.host, n) {
		return limitExceeded("the log subscriptions and filters of this address have too many addresses and topics, or those of all clients: %d MiB and %d MiB are allowed; end some, or ask for fewer values", maxHostQueryBytes>>20, maxQueryBytes>>20)
	}
	w.stored = n
	return nil
}

func (h *hub) subscribe(w want) *subscriber {
	k := w.kind
	s := &subscriber{hub: h, host: w.host, kind: k, logs: w.logs, hashes: w.hashes, limit: w.limit, stored: w.stored, ready: make(chan struct{}, 1)}
	h.mu.Lock()
	h.subs[k][s] = struct{}{}
	h.mu.Unlock()
	return s
}

func (s *subscriber) close() {
	s.hub.mu.Lock()
	delete(s.hub.subs[s.kind], s)
	s.hub.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	s.hub.queries.give(s.host, s.stored)
	s.empty()
}

// empty hands out the queue; s.mu is held.
func (s *subscriber) empty() []any {
	items := s.items
	s.hub.waiting.give(s.host, s.bytes)
	s.items, s.bytes = nil, 0
	return items
}

// sizeOf is about the memory that an event holds, in bytes.
func sizeOf(x any) int64 {
	switch x := x.(type) {
	case *types.Log:
		return logBytes(x)
	case *types.Transaction:
		return int64(x.Size()) + 512 //nolint:gosec // bounded by the pool
	case *headerJSON:
		return 1536
	default:
		return 64
	}
}

func logBytes(l *types.Log) int64 { return int64(len(l.Data)) + int64(len(l.Topics))*32 + 256 }

// take empties the queue. After an overflow it says so, once what came before was taken.
func (s *subscriber) take() ([]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := s.empty()
	if s.lost != nil && len(items) == 0 {
		return nil, s.lost
	}
	if s.lost != nil {
		s.wake()
	}
	return items, nil
}

func (s *subscriber) put(items ...any) {
	if len(items) == 0 {
		return
	}
	s.mu.Lock()
	if s.lost == nil && !s.closed && !s.fits(items) {
		s.lost = errOverflow
	}
	s.mu.Unlock()
	s.wake()
}

// lose ends what the subscriber gets: it misses something.
func (s *subscriber) lose(why missed) {
	s.mu.Lock()
	if s.lost == nil {
		s.lost = why
	}
	s.mu.Unlock()
	s.wake()
}

// fits takes all items or none; s.mu is held.
func (s *subscriber) fits(items []any) bool {
	if len(s.items)+len(items) > s.limit {
		return false
	}
	var size int64
	for _, x := range items {
		size += sizeOf(x)
	}
	if s.bytes+size > maxQueueBytes {
		return false
	}
	// A little is always granted: others that hold much must not close this one.
	if !s.hub.waiting.take(s.host, size) {
		if s.bytes+size > minQueueBytes {
			return false
		}
		s.hub.waiting.force(s.host, size)
	}
	s.items, s.bytes = append(s.items, items...), s.bytes+size
	return true
}

// full reports whether the subscriber gets nothing more, and why tells the reason.
func (s *subscriber) full() bool { return s.why() != nil }

func (s *subscriber) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

func (s *subscriber) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (h *hub) publish(k kind, f func(*subscriber)) {
	h.mu.RLock()
	subs := slices.Collect(maps.Keys(h.subs[k])) // f may take long, and who comes or goes meanwhile must not wait
	h.mu.RUnlock()
	for _, s := range subs {
		f(s)
	}
}

func (h *hub) listeners(k kind) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.subs[k])
}

// pendingLoop passes the pool's events on.
func (s *service) pendingLoop() {
	defer s.wg.Done()
	ch := make(chan types.Transactions, 16)
	sub := s.back.Pool.Subscribe(ch)
	defer sub.Unsubscribe()
	for {
		select {
		case txs := <-ch:
			items, hashes := make([]any, len(txs)), make([]any, len(txs))
			for i, tx := range txs {
				items[i], hashes[i] = tx, tx.Hash()
			}
			s.hub.publish(kindPending, func(sub *subscriber) {
				if sub.hashes {
					sub.put(hashes...)
				} else {
					sub.put(items...)
				}
			})
		case <-sub.Err():
			return
		case <-s.ctx.Done():
			return
		}
	}
}
