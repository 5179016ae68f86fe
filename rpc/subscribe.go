package rpc

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/ethereum/go-ethereum/eth/filters"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"go.uber.org/zap"
)

// The methods below are eth_subscribe's: their first word in lower case is the subscription's name.

func (a *ethAPI) NewHeads(ctx context.Context) (*gethrpc.Subscription, error) {
	return a.stream(ctx, want{kind: kindHeads}, func(x any) (any, error) { return x, nil })
}

func (a *ethAPI) Logs(ctx context.Context, c filters.FilterCriteria) (*gethrpc.Subscription, error) {
	q, err := newLogQuery(c)
	if err != nil {
		return nil, err
	}
	if err := q.checkStream(); err != nil {
		return nil, err
	}
	return a.stream(ctx, want{kind: kindLogs, logs: q}, func(x any) (any, error) { return x, nil })
}

func (a *ethAPI) NewPendingTransactions(ctx context.Context, full *bool) (*gethrpc.Subscription, error) {
	return a.stream(ctx, want{kind: kindPending, hashes: full == nil || !*full}, a.pendingItem)
}

// syncAPI holds eth_subscribe "syncing": on ethAPI it would collide with the method eth_syncing.
type syncAPI struct{ *service }

func (a *syncAPI) Syncing(ctx context.Context) (*gethrpc.Subscription, error) {
	return a.stream(ctx, want{kind: kindSyncing}, func(x any) (any, error) {
		st := x.(SyncStatus)
		if !st.Syncing {
			return false, nil
		}
		return map[string]any{"syncing": true, "status": syncingJSON(st)}, nil
	})
}

// stream starts a goroutine that sends the events of one subscription until the client or the server ends it.
func (s *service) stream(ctx context.Context, w want, show func(any) (any, error)) (*gethrpc.Subscription, error) {
	n, ok := gethrpc.NotifierFromContext(ctx)
	if !ok {
		return nil, gethrpc.ErrNotificationsUnsupported
	}
	c := s.caller(ctx)
	if c != nil {
		if err := c.subscribe(); err != nil {
			return nil, err
		}
	}
	w.host, w.limit = s.host(ctx), maxSubscriberItems
	if err := s.hub.reserve(&w); err != nil {
		if c != nil {
			c.unsubscribe()
		}
		return nil, err
	}
	sub, out := s.hub.subscribe(w), n.CreateSubscription()
	var known <-chan struct{}
	if c != nil {
		known = c.announced(out.ID)
	}
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer sub.close()
		if c != nil {
			defer c.unsubscribe()
			defer c.forget(out.ID)
		}
		if err := s.pump(sub, out, n, known, show); err != nil {
			s.endSlow(c, err)
		}
	}()
	return out, nil
}

// pump sends what comes until the subscription ends; an error means that the connection must end too. It begins when
// known is closed: go-ethereum would keep without bound what comes before the client knows the subscription.
func (s *service) pump(sub *subscriber, out *gethrpc.Subscription, n *gethrpc.Notifier, known <-chan struct{}, show func(any) (any, error)) error {
	for {
		select {
		case <-known:
			known = nil
		case <-sub.ready:
		case <-out.Err():
			return nil
		case <-s.ctx.Done():
			return nil
		}
		if known != nil {
			if why := sub.why(); why != nil {
				return why
			}
			continue
		}
		items, err := sub.take()
		if err != nil {
			return err
		}
		for _, x := range items {
			v, err := show(x)
			if err == nil {
				err = n.Notify(out.ID, v)
			}
			if err != nil {
				return err
			}
		}
	}
}

// endSlow closes the connection of a subscriber that misses events, or that has gone.
func (s *service) endSlow(c *caller, err error) {
	if slow(err) {
		s.metrics.overflows.Inc()
	}
	if c == nil {
		return
	}
	if !slow(err) {
		c.end("a notification could not be sent")
		return
	}
	var why missed
	if !errors.As(err, &why) {
		why = errOverflow
	}
	s.log.Info("closed the connection of a slow subscriber", zap.String("peer", c.id), zap.Error(err))
	c.end(why.Error())
}

// slow reports whether a subscription ended because its client missed something (it did not keep up, it asked for too
// much), or took nothing until the write deadline.
func slow(err error) bool {
	var (
		ne  net.Error
		why missed
	)
	return errors.As(err, &why) || errors.As(err, &ne) && ne.Timeout()
}

// syncLoop tells subscribers when syncing starts, moves and ends.
func (s *service) syncLoop() {
	defer s.wg.Done()
	t := time.NewTicker(time.Second)
	defer t.Stop()
	var last SyncStatus
	for {
		select {
		case <-t.C:
			now := s.back.Sync.SyncStatus()
			if now != last && (now.Syncing || last.Syncing) {
				s.hub.publish(kindSyncing, func(sub *subscriber) { sub.put(now) })
			}
			last = now
		case <-s.ctx.Done():
			return
		}
	}
}
