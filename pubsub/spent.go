package pubsub

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// dropSpent deletes the logs of partitions that this broker keeps no more, some time after others took its place and once
// what it alone had is with them. With a log goes what the broker promised: from then on no older state of the chain
// counts here, which the store is told before.
func (l *leases) dropSpent(ctx context.Context, v *ledger.View) {
	now := l.b.deps.Now()
	var due []store.ID
	for id := range l.known {
		p, ok := v.Lease(id.Topic, id.Partition)
		if !ok || slices.Contains(p.Replicas, l.b.deps.Account) || !l.b.deps.Replicas.Spent(replica.ID(id)) {
			delete(l.spent, id)
			continue
		}
		if since, ok := l.spent[id]; !ok {
			l.spent[id] = now
		} else if now.Sub(since) >= spentKept && len(due) < maxSpentAtOnce {
			due = append(due, id)
		}
	}
	if len(due) == 0 {
		return
	}
	err := l.b.deps.Store.Sync(ctx) // what the others were told of their place among the replicas
	if err == nil {
		err = l.b.deps.Store.RaiseFloor(v.Height)
	}
	if err != nil {
		l.b.deps.Log.Warn("logs of partitions that others keep now stay on disk; it is tried again", zap.Int("partitions", len(due)), zap.Error(err))
		return
	}
	for _, id := range due {
		err := l.b.deps.Replicas.Drop(replica.ID(id))
		if err == nil {
			err = l.b.deps.Store.Delete(id)
		}
		if err != nil {
			l.b.deps.Log.Warn("the log of a partition that others keep now stays on disk; it is tried again", zap.Stringer("partition", id), zap.Error(err))
			continue
		}
		l.b.deps.Log.Info("deleted the log of a partition that others keep now", zap.String("topic", l.known[id].topic), zap.Int32("partition", id.Partition))
		delete(l.known, id)
		delete(l.spent, id)
	}
}
