package rpc

import (
	"context"
	"math/big"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/filters"
	"github.com/ethereum/go-ethereum/event"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
)

func query(t testing.TB, addresses []common.Address, topics ...[]common.Hash) *logQuery {
	q, err := newLogQuery(filters.FilterCriteria{Addresses: addresses, Topics: topics})
	require.NoError(t, err)
	return q
}

func publisher() *service { return &service{hub: newHub(), log: zap.NewNop()} }

// Subscribers get just the logs that match, in order, whatever they ask for.
func TestPublishedLogs(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	some := func(most, of int) (out []byte) {
		for range r.IntN(most + 1) {
			out = append(out, byte(r.IntN(of)))
		}
		return out
	}
	s := publisher()
	logs := make([]*types.Log, 300)
	for i := range logs {
		logs[i] = &types.Log{Index: uint(i), Address: common.Address{byte(r.IntN(20))}}
		for _, b := range some(4, 6) {
			logs[i].Topics = append(logs[i].Topics, common.Hash{b})
		}
	}
	for range 500 {
		var addresses []common.Address
		for _, b := range some(12, 20) {
			addresses = append(addresses, common.Address{b})
		}
		var topics [][]common.Hash
		for range r.IntN(5) {
			var ts []common.Hash
			for _, b := range some(12, 40) {
				ts = append(ts, common.Hash{b})
			}
			topics = append(topics, ts)
		}
		q := query(t, addresses, topics...)
		sub := s.hub.subscribe(want{kind: kindLogs, logs: q, limit: 1000})
		s.publishLogs(logs)
		got, err := sub.take()
		require.NoError(t, err)
		sub.close()
		plain := *q
		plain.addressSet, plain.topicSets = nil, [4]map[common.Hash]struct{}{}
		var want []any
		for _, l := range logs {
			require.Equal(t, plain.match(l), q.match(l))
			if plain.match(l) {
				want = append(want, l)
			}
		}
		require.Equal(t, want, got, "%v %v", addresses, topics)
	}
}

// The work for one host's subscriptions on one block is bounded. Those that do not fit are told; the others, and those
// of other hosts, get all.
func TestPublishWorkIsBounded(t *testing.T) {
	s := publisher()
	logs := make([]*types.Log, 20_000)
	for i := range logs {
		logs[i] = &types.Log{Address: common.Address{1}, Topics: []common.Hash{{byte(i % 2)}, {byte(1 - i%2)}}}
	}
	logs[77].Topics[1] = common.Hash{77}
	half := [][]common.Hash{{{0}}, {{0}}} // half of all logs have the one, half the other, none both
	var greedy []*subscriber
	for range 1000 {
		greedy = append(greedy, s.hub.subscribe(want{host: "greedy", kind: kindLogs, logs: query(t, nil, half...), limit: 10}))
	}
	fair := s.hub.subscribe(want{host: "fair", kind: kindLogs, logs: query(t, nil, nil, []common.Hash{{77}}), limit: 10})
	s.publishLogs(logs)
	served := 0
	for _, sub := range greedy {
		if items, err := sub.take(); err == nil {
			require.Empty(t, items)
			served++
		} else {
			require.Equal(t, errCostly, err)
			require.True(t, slow(err))
		}
	}
	require.Greater(t, served, 300)
	require.LessOrEqual(t, served, maxHostPublishWork/10_000)
	items, err := fair.take()
	require.NoError(t, err)
	require.Equal(t, []any{logs[77]}, items)
	for _, sub := range greedy { // many that are cheap are no trouble
		sub.close()
	}
	for i := range 1000 {
		greedy[i] = s.hub.subscribe(want{host: "greedy", kind: kindLogs, logs: query(t, []common.Address{{1}, {2}}, []common.Hash{{5}}), limit: 10})
	}
	s.publishLogs(logs)
	for _, sub := range greedy {
		require.False(t, sub.full())
	}
}

// What subscribers ask for is memory too: it is counted for each host and given back, on every way.
func TestStoredQueriesAreCounted(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.Filters, c.FiltersPerHost, c.Subscriptions = 100, 100, 100 })
	many := make([]common.Address, maxFilterAddresses)
	ask := map[string]any{"address": many}
	var ids []gethrpc.ID
	for {
		var id gethrpc.ID
		if err := n.call(&id, "eth_newFilter", ask); err != nil {
			requireCode(t, err, codeLimit, "too many addresses and topics")
			break
		}
		ids = append(ids, id)
	}
	require.Len(t, ids, maxHostQueryBytes/(512+maxFilterAddresses*logValueBytes))
	_, err := n.rpc.EthSubscribe(bg, make(chan types.Log), "logs", ask)
	require.Error(t, err, "HTTP has no subscriptions")
	ws, err := gethrpc.Dial(n.srv.WSURL())
	require.NoError(t, err)
	defer ws.Close()
	_, err = ws.EthSubscribe(bg, make(chan types.Log), "logs", ask)
	requireCode(t, err, codeLimit, "too many addresses and topics")
	require.Zero(t, n.srv.subscriptions.total(), "a refused subscription is not counted")
	for _, id := range ids {
		require.True(t, n.srv.filters.remove(id))
	}
	require.Zero(t, n.srv.hub.queries.total())
	sub, err := ws.EthSubscribe(bg, make(chan types.Log), "logs", ask)
	require.NoError(t, err)
	require.Positive(t, n.srv.hub.queries.total())
	sub.Unsubscribe()
	require.Eventually(t, func() bool { return n.srv.hub.queries.total() == 0 }, waitTime, pollTime)

	table := newFilterTable(1, 1, time.Minute) // one filter too many
	for range 2 {
		w := want{host: "x", kind: kindLogs, logs: query(t, many)}
		require.NoError(t, n.srv.hub.reserve(&w))
		_, err = table.add(&polledFilter{sub: n.srv.hub.subscribe(w)})
	}
	require.Error(t, err)
	require.EqualValues(t, 512+len(many)*logValueBytes, n.srv.hub.queries.total())
}

// eventChain sends what a test tells it to.
type eventChain struct {
	Chain
	heads, reorgs event.Feed
}

func (c *eventChain) SubscribeHead(ch chan<- chain.HeadEvent) event.Subscription {
	return c.heads.Subscribe(ch)
}

func (c *eventChain) SubscribeReorg(ch chan<- chain.ReorgEvent) event.Subscription {
	return c.reorgs.Subscribe(ch)
}

// The chain's dispatcher never waits for subscribers: when what they cost keeps the events waiting, all that were there
// are told that they missed some, and later ones get everything.
func TestChainNeverWaitsForSubscribers(t *testing.T) {
	c := &eventChain{}
	s := &Server{service: publisher()}
	s.back.Chain = c
	s.ctx, s.cancel = context.WithCancel(bg)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = s.Run(bg) }()
	defer func() { s.cancel(); <-ended }()
	var height atomic.Int64
	send := func() {
		h := height.Add(1)
		b := &block.Block{SealedHeader: &block.SealedHeader{Header: &types.Header{Number: big.NewInt(h), Difficulty: new(big.Int)}}}
		logs := []*types.Log{{BlockNumber: uint64(h)}}
		require.Eventually(t, func() bool { return c.heads.Send(chain.HeadEvent{Block: b, Logs: logs}) == 1 }, waitTime, pollTime)
	}
	heads, logs := s.hub.subscribe(want{kind: kindHeads, limit: 1 << 20}), s.hub.subscribe(want{kind: kindLogs, logs: query(t, nil), limit: 1 << 20})
	send()
	<-logs.ready
	<-heads.ready

	logs.mu.Lock() // the publisher is stuck
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range maxEvents + 5 {
			send()
		}
	}()
	select {
	case <-done:
	case <-time.After(waitTime):
		logs.mu.Unlock()
		t.Fatal("the chain waits")
	}
	logs.mu.Unlock()
	for _, sub := range []*subscriber{heads, logs} {
		require.Eventually(t, sub.full, waitTime, pollTime)
		items, err := sub.take()
		require.NoError(t, err)
		for i, x := range items { // no gap before it is told
			if l, ok := x.(*types.Log); ok {
				require.EqualValues(t, i+1, l.BlockNumber)
			} else {
				require.EqualValues(t, i+1, x.(*headerJSON).Number.ToInt().Int64())
			}
		}
		_, err = sub.take()
		require.Equal(t, errMissed, err)
		require.True(t, slow(err))
		sub.close()
	}
	late := s.hub.subscribe(want{kind: kindLogs, logs: query(t, nil), limit: 1 << 20})
	send()
	last := uint64(height.Load())
	require.Eventually(t, func() bool {
		items, err := late.take()
		require.NoError(t, err)
		return len(items) > 0 && items[len(items)-1].(*types.Log).BlockNumber == last
	}, waitTime, pollTime)
}

// Events are bounded by what their logs hold, but one alone always fits.
func TestEventQueueBytes(t *testing.T) {
	q := newEventQueue()
	fat := &types.Log{Data: make([]byte, maxEventBytes/2)}
	q.put(blockEvent{logs: []*types.Log{fat, fat, fat}})
	_, lost, ok := q.take()
	require.True(t, ok)
	require.False(t, lost)
	q.put(blockEvent{logs: []*types.Log{fat}})
	q.put(blockEvent{logs: []*types.Log{fat}})
	_, lost, ok = q.take()
	require.False(t, ok)
	require.True(t, lost)
	require.Zero(t, q.bytes)
	_, lost, ok = q.take()
	require.False(t, lost || ok, "told once")
}

// A block of 1,000 logs for 1,024 subscriptions with 1,000 addresses each.
func BenchmarkPublish(b *testing.B) {
	s := publisher()
	addresses := make([]common.Address, maxFilterAddresses)
	for i := range addresses {
		addresses[i] = common.Address{9, byte(i), byte(i >> 8)}
	}
	q := query(b, addresses)
	for range 1024 {
		s.hub.subscribe(want{host: "x", kind: kindLogs, logs: q, limit: 10})
	}
	logs := make([]*types.Log, 1000)
	for i := range logs {
		logs[i] = &types.Log{Address: common.Address{9, 1, 77, byte(i), byte(i >> 8)}}
	}
	for b.Loop() {
		s.publishLogs(logs)
	}
	full := 0
	s.hub.publish(kindLogs, func(s *subscriber) {
		if s.full() {
			full++
		}
	})
	b.ReportMetric(float64(full), "refused")
}
