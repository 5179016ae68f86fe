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
	peer := gethrpc.PeerInfoFromContext(ctx).RemoteAddr
	if !s.conns.enter(peer, s.cfg.Subscriptions) {
		return nil, limitExceeded("this connection has %d subscriptions, as many as this node allows", s.cfg.Subscriptions)
	}
	w.limit = maxSubscriberItems
	sub, out := s.hub.subscribe(w), n.CreateSubscription()
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		defer s.conns.leave(peer)
		defer sub.close()
		for {
			select {
			case <-sub.ready:
			case <-out.Err():
				return
			case <-s.ctx.Done():
				return
			}
			items, err := sub.take()
			for _, x := range items {
				if err != nil {
					break
				}
				var v any
				if v, err = show(x); err == nil {
					err = n.Notify(out.ID, v)
				}
			}
			if err != nil {
				if !slow(err) { // the client went away
					s.conns.close(peer, "a notification could not be sent")
					return
				}
				s.metrics.overflows.Inc()
				s.log.Info("closed the connection of a slow subscriber", zap.String("peer", peer), zap.Error(err))
				s.conns.close(peer, errOverflow.Error())
				return
			}
		}
	}()
	return out, nil
}

// slow reports whether a subscription ended because its client did not keep up: its queue was full, or it took nothing
// until the write deadline.
func slow(err error) bool {
	var ne net.Error
	return errors.Is(err, errOverflow) || errors.As(err, &ne) && ne.Timeout()
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
