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
	kindHeads   kind = iota // *types.Header with its hash, *headerJSON
	kindLogs                // *types.Log, removed ones too
	kindPending             // *types.Transaction
	kindSyncing             // SyncStatus
	kinds
)

var errOverflow = errors.New("too many notifications are waiting: the subscriber does not keep up; subscribe again and read what was missed with eth_getLogs or eth_getBlockByNumber")

// hub hands events to subscribers. Publishing never waits: a subscriber whose queue is full is marked as overflown and
// gets nothing more, so that it can be told; it never misses an event silently. The order of events is that of the
// calls of publish.
type hub struct {
	mu   sync.RWMutex
	subs [kinds]map[*subscriber]struct{}
}

func newHub() *hub {
	h := new(hub)
	for k := range h.subs {
		h.subs[k] = make(map[*subscriber]struct{})
	}
	return h
}

// subscriber is one bounded queue of events.
type subscriber struct {
	hub   *hub
	kind  kind
	logs  *logQuery // only kindLogs
	limit int
	ready chan struct{} // capacity 1: something to take

	mu       sync.Mutex
	items    []any
	overflow bool
}

func (h *hub) subscribe(k kind, q *logQuery, limit int) *subscriber {
	s := &subscriber{hub: h, kind: k, logs: q, limit: limit, ready: make(chan struct{}, 1)}
	h.mu.Lock()
	h.subs[k][s] = struct{}{}
	h.mu.Unlock()
	return s
}

func (s *subscriber) close() {
	s.hub.mu.Lock()
	delete(s.hub.subs[s.kind], s)
	s.hub.mu.Unlock()
}

// take empties the queue. After an overflow it says so, once what came before was taken.
func (s *subscriber) take() ([]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	items := s.items
	s.items = nil
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
	if !s.overflow {
		if len(s.items)+len(items) > s.limit {
			s.overflow = true
		} else {
			s.items = append(s.items, items...)
		}
	}
	s.mu.Unlock()
	s.wake()
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
		s.hub.publish(kindHeads, func(sub *subscriber) { sub.put(j) })
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
		var items []any
		for _, l := range logs {
			if sub.logs.covers(l.BlockNumber) && sub.logs.match(l) {
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
			items := make([]any, len(txs))
			for i, tx := range txs {
				items[i] = tx
			}
			s.hub.publish(kindPending, func(sub *subscriber) { sub.put(items...) })
		case <-sub.Err():
			return
		case <-s.ctx.Done():
			return
		}
	}
}
