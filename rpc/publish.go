package rpc

import (
	"context"
	"slices"
	"sync"

	"github.com/bornode/bornode/chain"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// blockEvent is what subscribers hear of a block, or of blocks that left the executed branch.
type blockEvent struct {
	head *types.Header // nil: removed
	hash common.Hash
	logs []*types.Log
}

// eventQueue takes the chain's events without ever waiting: the chain's dispatcher does not depend on what subscribers
// cost. When it is full all events in it are dropped, and lost says so.
type eventQueue struct {
	ready chan struct{} // capacity 1: something to take

	mu    sync.Mutex
	items []blockEvent
	bytes int64 // of logs
	lost  bool
}

func newEventQueue() *eventQueue { return &eventQueue{ready: make(chan struct{}, 1)} }

func (e blockEvent) bytes() (n int64) {
	for _, l := range e.logs {
		n += logBytes(l)
	}
	return n
}

func (q *eventQueue) put(ev blockEvent) {
	size := ev.bytes()
	q.mu.Lock()
	if len(q.items) >= maxEvents || len(q.items) > 0 && q.bytes+size > maxEventBytes {
		q.items, q.bytes, q.lost = nil, 0, true
	} else {
		q.items, q.bytes = append(q.items, ev), q.bytes+size
	}
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take is the oldest event; lost: events before it were dropped. ok is false if there is none.
func (q *eventQueue) take() (ev blockEvent, lost, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if lost, q.lost = q.lost, false; len(q.items) == 0 {
		return ev, lost, false
	}
	ev, q.items = q.items[0], q.items[1:]
	q.bytes -= ev.bytes()
	return ev, lost, true
}

// Run passes the chain's and the pool's events on to subscribers until ctx ends. Methods are answered without it too.
func (s *Server) Run(ctx context.Context) error {
	// Unbuffered: the chain sends both kinds from one goroutine, so nothing is reordered between the two channels.
	heads, reorgs := make(chan chain.HeadEvent), make(chan chain.ReorgEvent)
	hs, rs := s.back.Chain.SubscribeHead(heads), s.back.Chain.SubscribeReorg(reorgs)
	defer hs.Unsubscribe()
	defer rs.Unsubscribe()
	q := newEventQueue()
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { defer wg.Done(); s.publishLoop(ctx, q) }()
	defer wg.Wait()
	defer cancel()
	for {
		select {
		case ev := <-heads:
			q.put(blockEvent{head: ev.Block.Header, hash: ev.Block.Hash(), logs: ev.Logs})
		case ev := <-reorgs:
			q.put(blockEvent{logs: ev.RemovedLogs})
		case <-hs.Err():
			return nil
		case <-ctx.Done():
			return nil
		case <-s.ctx.Done():
			return nil
		}
	}
}

// publishLoop hands out what the queue has.
func (s *service) publishLoop(ctx context.Context, q *eventQueue) {
	for {
		select {
		case <-q.ready:
		case <-ctx.Done():
			return
		}
		for ctx.Err() == nil {
			ev, lost, ok := q.take()
			if lost {
				if s.hub.listeners(kindHeads)+s.hub.listeners(kindLogs) > 0 {
					s.log.Warn("subscribers cost more than this node has time for: all of them are told that they missed blocks. Lower rpc.subscriptions and rpc.filters")
				}
				s.hub.publish(kindHeads, func(sub *subscriber) { sub.lose(errMissed) })
				s.hub.publish(kindLogs, func(sub *subscriber) { sub.lose(errMissed) })
			}
			if !ok {
				break
			}
			if ev.head != nil {
				s.newBlock(ev)
			} else {
				s.removed(ev.logs)
			}
		}
	}
}

func (s *service) newBlock(ev blockEvent) {
	if s.hub.listeners(kindHeads) > 0 {
		j := headerOf(ev.head, ev.hash)
		s.hub.publish(kindHeads, func(sub *subscriber) {
			if sub.hashes {
				sub.put(j.Hash)
			} else {
				sub.put(j)
			}
		})
	}
	s.publishLogs(ev.logs)
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

// publishLogs hands logs to those that ask for them. The work for one host's subscriptions and filters is bounded for
// each event: those that would cost more are told that they miss something.
func (s *service) publishLogs(logs []*types.Log) {
	if len(logs) == 0 || s.hub.listeners(kindLogs) == 0 {
		return
	}
	sorted, work := &sortedLogs{logs: logs}, newBudget(maxPublishWork, maxHostPublishWork, minPublishWork)
	s.hub.publish(kindLogs, func(sub *subscriber) {
		if sub.full() {
			return
		}
		candidates, ok := sorted.candidates(sub.logs, func(steps int) bool { return work.take(sub.host, int64(steps)) })
		if !ok {
			sub.lose(errCostly)
			return
		}
		var items []any
		for _, i := range candidates {
			l := logs[i]
			if len(items) <= sub.limit && sub.logs.covers(l.BlockNumber) && sub.logs.match(l) { // one too many is enough to overflow
				items = append(items, l)
			}
		}
		sub.put(items...)
	})
}

// sortedLogs are a block's logs by their addresses and topics; each is sorted when the first query asks for it.
type sortedLogs struct {
	logs      []*types.Log
	byAddress map[common.Address][]int
	byTopic   [4]map[common.Hash][]int // by position
}

func (s *sortedLogs) address() map[common.Address][]int {
	if s.byAddress == nil {
		s.byAddress = make(map[common.Address][]int)
		for i, l := range s.logs {
			s.byAddress[l.Address] = append(s.byAddress[l.Address], i)
		}
	}
	return s.byAddress
}

func (s *sortedLogs) topic(position int) map[common.Hash][]int {
	if s.byTopic[position] == nil {
		m := make(map[common.Hash][]int)
		for i, l := range s.logs {
			if len(l.Topics) > position {
				m[l.Topics[position]] = append(m[l.Topics[position]], i)
			}
		}
		s.byTopic[position] = m
	}
	return s.byTopic[position]
}

// candidates are the logs, in order, that have what the query asks for in the place where the fewest have it. charge is
// asked before work is done; ok is false if it refuses.
func (s *sortedLogs) candidates(q *logQuery, charge func(steps int) bool) (ids []int, ok bool) {
	values := 1 + len(q.addresses)
	for _, ts := range q.topics {
		values += len(ts)
	}
	if !charge(values) {
		return nil, false
	}
	count := len(s.logs)
	collect := func() []int {
		ids := make([]int, len(s.logs))
		for i := range ids {
			ids[i] = i
		}
		return ids
	}
	if len(q.addresses) > 0 {
		if n := having(s.address(), q.addresses); n < count {
			count, collect = n, func() []int { return listed(s.address(), q.addresses) }
		}
	}
	for i, ts := range q.topics {
		if len(ts) == 0 {
			continue
		}
		if n := having(s.topic(i), ts); n < count {
			count, collect = n, func() []int { return listed(s.topic(i), ts) }
		}
	}
	if !charge(count) {
		return nil, false
	}
	return collect(), true
}

func having[V comparable](by map[V][]int, wanted []V) (count int) {
	for _, v := range wanted {
		count += len(by[v])
	}
	return count
}

func listed[V comparable](by map[V][]int, wanted []V) (ids []int) {
	for _, v := range wanted {
		ids = append(ids, by[v]...)
	}
	slices.Sort(ids)
	return slices.Compact(ids) // a value may be wanted twice
}
