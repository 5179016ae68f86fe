package rpc

import (
	"context"
	"errors"
	"sync"

	"github.com/bornode/bornode/chain"
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

var errOverflow = errors.New("too many notifications are waiting: the subscriber does not keep up; subscribe again and read what was missed with eth_getLogs or eth_getBlockByNumber")

// hub hands events to subscribers. Publishing never waits: a subscriber whose queue is full is marked as overflown and
// gets nothing more, so that it can be told; it never misses an event silently. The order of events is that of the
// calls of publish.
type hub struct {
	waiting *budget // bytes in all queues

	mu   sync.RWMutex
	subs [kinds]map[*subscriber]struct{}
}

func newHub() *hub {
	h := &hub{waiting: newBudget(maxAllQueueBytes, maxHostQueueBytes, 0)}
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
	ready  chan struct{} // capacity 1: something to take

	mu       sync.Mutex
	items    []any
	bytes    int64
	overflow bool
	closed   bool
}

// want is what a subscriber asks for.
type want struct {
	host   string // whose quotas it uses
	kind   kind
	logs   *logQuery // only kindLogs
	hashes bool      // of heads and transactions the hashes alone
	limit  int       // most items that may wait
}

func (h *hub) subscribe(w want) *subscriber {
	k := w.kind
	s := &subscriber{hub: h, host: w.host, kind: k, logs: w.logs, hashes: w.hashes, limit: w.limit, ready: make(chan struct{}, 1)}
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
	s.closed = true
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
	if s.overflow && len(items) == 0 {
		return nil, errOverflow
	}
	if s.overflow {
		s.wake()
	}
	return items, nil
}

func (s *subscriber) put(items ...any) {
	if len(items) == 0 {
		return
	}
	s.mu.Lock()
	if !s.overflow && !s.closed {
		s.overflow = !s.fits(items)
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

// full reports whether the subscriber gets nothing more.
func (s *subscriber) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overflow
}

func (s *subscriber) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (h *hub) publish(k kind, f func(*subscriber)) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for s := range h.subs[k] {
		f(s)
	}
}

func (h *hub) listeners(k kind) int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return len(h.subs[k])
}

// Run passes the chain's and the pool's events on to subscribers until ctx ends. Methods are answered without it too.
func (s *Server) Run(ctx context.Context) error {
	// Unbuffered: the chain sends both kinds from one goroutine, so nothing is reordered between the two channels.
	heads, reorgs := make(chan chain.HeadEvent), make(chan chain.ReorgEvent)
	hs, rs := s.back.Chain.SubscribeHead(heads), s.back.Chain.SubscribeReorg(reorgs)
	defer hs.Unsubscribe()
	defer rs.Unsubscribe()
	for {
		select {
		case ev := <-heads:
			s.newBlock(ev)
		case ev := <-reorgs:
			s.removed(ev.RemovedLogs)
		case <-hs.Err():
			return nil
		case <-ctx.Done():
			return nil
		case <-s.ctx.Done():
			return nil
		}
	}
}

func (s *service) newBlock(ev chain.HeadEvent) {
	if s.hub.listeners(kindHeads) > 0 {
		j := headerOf(ev.Block.Header, ev.Block.Hash())
		s.hub.publish(kindHeads, func(sub *subscriber) {
			if sub.hashes {
				sub.put(j.Hash)
			} else {
				sub.put(j)
			}
		})
	}
	s.publishLogs(ev.Logs)
}

// removed sends logs whose blocks left the executed branch once more, marked as removed.
func (s *service) removed(logs []*types.Log) {
	out := make([]*types.Log, len(logs))
	for i, l := range logs {
		c := *l
		c.Removed = true
		out[i] = &c
	}
	s.publishLogs(out)
}

func (s *service) publishLogs(logs []*types.Log) {
	if len(logs) == 0 {
		return
	}
	s.hub.publish(kindLogs, func(sub *subscriber) {
		if sub.full() {
			return
		}
		var items []any
		for _, l := range logs {
			if len(items) <= sub.limit && sub.logs.covers(l.BlockNumber) && sub.logs.match(l) { // one too many is enough to overflow
				items = append(items, l)
			}
		}
		sub.put(items...)
	})
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
