package rpc

import (
	"context"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/eth/filters"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// filterTable holds the polled filters of all clients. A filter nobody polls is dropped after Config.FilterTimeout.
type filterTable struct {
	count   *budget
	timeout time.Duration
	now     func() time.Time

	mu      sync.Mutex
	filters map[gethrpc.ID]*polledFilter
}

type polledFilter struct {
	sub    *subscriber
	query  *logQuery
	polled time.Time
}

func newFilterTable(limit, perHost int, timeout time.Duration) *filterTable {
	return &filterTable{count: newBudget(int64(limit), int64(perHost), 1), timeout: timeout, now: time.Now, filters: make(map[gethrpc.ID]*polledFilter)}
}

func (t *filterTable) add(f *polledFilter) (gethrpc.ID, error) {
	if !t.count.take(f.sub.host, 1) {
		f.sub.close()
		return "", limitExceeded("%d filters of this address are in use, or %d of all, as many as this node allows; uninstall some with eth_uninstallFilter or subscribe over WebSocket", t.count.perHost, t.count.most)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	id := gethrpc.NewID()
	f.polled = t.now()
	t.filters[id] = f
	return id, nil
}

func (t *filterTable) get(id gethrpc.ID) *polledFilter {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.filters[id]
	if f != nil {
		f.polled = t.now()
	}
	return f
}

func (t *filterTable) remove(id gethrpc.ID) bool {
	t.mu.Lock()
	f, ok := t.filters[id]
	delete(t.filters, id)
	t.mu.Unlock()
	if ok {
		t.drop(f)
	}
	return ok
}

func (t *filterTable) drop(f *polledFilter) {
	f.sub.close()
	t.count.give(f.sub.host, 1)
}

// expire drops the filters that were not polled for the time-out.
func (t *filterTable) expire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, f := range t.filters {
		if t.now().Sub(f.polled) > t.timeout {
			delete(t.filters, id)
			t.drop(f)
		}
	}
}

func (s *service) expireLoop() {
	defer s.wg.Done()
	t := time.NewTicker(max(s.cfg.FilterTimeout/4, time.Millisecond))
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.filters.expire()
		case <-s.ctx.Done():
			return
		}
	}
}

var errNoFilter = &Error{Code: codeServer, Message: "filter not found: it was uninstalled, or not polled for too long"}

func (a *ethAPI) NewFilter(ctx context.Context, c filters.FilterCriteria) (gethrpc.ID, error) {
	q, err := newLogQuery(c)
	if err != nil {
		return "", err
	}
	if err := q.checkStream(); err != nil {
		return "", err
	}
	w := want{host: a.host(ctx), kind: kindLogs, logs: q, limit: maxFilterItems}
	if err := a.hub.reserve(&w); err != nil {
		return "", err
	}
	return a.filters.add(&polledFilter{sub: a.hub.subscribe(w), query: q})
}

func (a *ethAPI) NewBlockFilter(ctx context.Context) (gethrpc.ID, error) {
	return a.filters.add(&polledFilter{sub: a.hub.subscribe(want{host: a.host(ctx), kind: kindHeads, hashes: true, limit: maxFilterItems})})
}

func (a *ethAPI) NewPendingTransactionFilter(ctx context.Context, full *bool) (gethrpc.ID, error) {
	return a.filters.add(&polledFilter{sub: a.hub.subscribe(want{host: a.host(ctx), kind: kindPending, hashes: full == nil || !*full, limit: maxFilterItems})})
}

func (a *ethAPI) UninstallFilter(id gethrpc.ID) bool { return a.filters.remove(id) }

// GetFilterChanges is what happened since the last call. A filter that fell too far behind is dropped and says so.
func (a *ethAPI) GetFilterChanges(id gethrpc.ID) (any, error) {
	f := a.filters.get(id)
	if f == nil {
		return nil, errNoFilter
	}
	items, err := f.sub.take()
	if err != nil {
		a.filters.remove(id)
		if err != errOverflow {
			return nil, limitExceeded("filter dropped: %s", err)
		}
		return nil, limitExceeded("filter dropped: more than %d changes or %d MiB were waiting, or all filters together held too much; create a new one and poll more often", maxFilterItems, maxQueueBytes>>20)
	}
	switch {
	case f.sub.kind == kindHeads:
		out := make([]common.Hash, len(items))
		for i, x := range items {
			out[i] = x.(common.Hash)
		}
		return out, nil
	case f.sub.kind == kindLogs:
		out := make([]*types.Log, len(items))
		for i, x := range items {
			out[i] = x.(*types.Log)
		}
		return out, nil
	}
	out := make([]any, len(items))
	for i, x := range items {
		if out[i], err = a.pendingItem(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// pendingItem shows a transaction as its subscriber asked for it.
func (s *service) pendingItem(x any) (any, error) {
	tx, whole := x.(*types.Transaction)
	if !whole {
		return x, nil
	}
	from, err := types.Sender(s.signer, tx)
	return transactionOf(tx, from), err
}

// GetFilterLogs is all logs that the filter's query matches now.
func (a *ethAPI) GetFilterLogs(ctx context.Context, id gethrpc.ID) ([]*types.Log, error) {
	f := a.filters.get(id)
	if f == nil || f.query == nil {
		return nil, errNoFilter
	}
	return a.getLogs(ctx, f.query)
}

func (a *ethAPI) GetLogs(ctx context.Context, c filters.FilterCriteria) ([]*types.Log, error) {
	q, err := newLogQuery(c)
	if err != nil {
		return nil, err
	}
	return a.getLogs(ctx, q)
}
