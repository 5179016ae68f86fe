package pubsub

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/group"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// replayBytes is how much of the log of groups is read at once.
const replayBytes = 1 << 20

// groupLog is the brokers' own topic as the coordinator of groups uses it.
type groupLog struct{ b *Broker }

// id is a partition of the brokers' own topic; the error says that there is none yet.
func (g groupLog) id(partition int32) (store.ID, error) {
	if v := g.b.deps.Ledger.View(); v != nil {
		if t := v.Topic(offsetsTopic); t != nil {
			return store.ID{Topic: t.ID, Partition: partition}, nil
		}
	}
	return store.ID{}, kerr.UnknownTopicOrPartition
}

// Append implements group.Log.
func (g groupLog) Append(ctx context.Context, partition int32, raw []byte) (group.Pending, error) {
	id, err := g.id(partition)
	if err != nil {
		return nil, err
	}
	p, err := g.b.deps.Replicas.Append(ctx, replica.ID(id), raw, -1)
	if err != nil {
		return nil, groupError(err)
	}
	return groupPending{p}, nil
}

type groupPending struct{ p replica.Pending }

func (p groupPending) Wait(ctx context.Context) (base, at int64, err error) {
	base, at, err = p.p.Wait(ctx)
	return base, at, groupError(err)
}

// groupError keeps Kafka's name of an error beside its text.
func groupError(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(kerr.TypedErrorForCode(code(err)), err)
}

// Replay implements group.Log: everything committed, from the start. A leader that is ready knows of all that any leader
// acknowledged.
func (g groupLog) Replay(ctx context.Context, partition int32, f func(raw []byte) error) error {
	id, err := g.id(partition)
	if err != nil {
		return err
	}
	p := g.b.deps.Store.Partition(id)
	if e, ready := g.b.deps.Replicas.Leader(replica.ID(id)); e < 0 || !ready || p == nil {
		return replica.ErrNotReady
	}
	high := g.b.deps.Replicas.HighWatermark(replica.ID(id))
	for from := p.Start(); from < high; {
		if err := ctx.Err(); err != nil {
			return err
		}
		raw, err := p.Read(from, replayBytes, high)
		if err != nil {
			return err
		}
		if err := f(raw); err != nil {
			return err
		}
		next := endOffset(raw, from)
		if next <= from {
			break
		}
		from = next
	}
	return nil
}

// Trim implements group.Log.
func (g groupLog) Trim(_ context.Context, partition int32, before int64) error {
	id, err := g.id(partition)
	if err != nil {
		return err
	}
	return g.b.deps.Replicas.DeleteBefore(replica.ID(id), min(before, g.b.deps.Replicas.HighWatermark(replica.ID(id))))
}

// groupCheck asks the ledger for the coordinator of groups.
func (b *Broker) groupCheck(c group.Client, op, resource uint8, name string) *kerr.Error {
	x, ok := c.Session.(*call)
	v := b.deps.Ledger.View()
	if !ok || v == nil {
		return kerr.CoordinatorNotAvailable
	}
	if resource == onGroup && tenantOf(name) == "" {
		return kerr.InvalidGroupID
	}
	allowed, reason := v.Authorize(x.who, x.conn.Remote(), op, resource, name)
	if resource == onTopic {
		t := v.Topic(name)
		if !allowed {
			x.refused(t, name, op, onTopic, reason)
			return kerr.TopicAuthorizationFailed
		}
		return nil
	}
	if !allowed {
		x.refused(nil, name, op, onGroup, reason)
		return kerr.GroupAuthorizationFailed
	}
	return nil
}

// groupSees is groupCheck for what a client did not ask for by name: nobody is to blame for what others have.
func (b *Broker) groupSees(c group.Client, resource uint8, name string) bool {
	x, ok := c.Session.(*call)
	v := b.deps.Ledger.View()
	if !ok || v == nil {
		return false
	}
	allowed, _ := v.Authorize(x.who, x.conn.Remote(), opDescribe, resource, name)
	return allowed
}

// topicBorn tells the coordinator of groups which topic a name means, and whether offsets of it still mean something.
func (b *Broker) topicBorn(name string) (height int64, ok bool) {
	v := b.deps.Ledger.View()
	if v == nil {
		return 0, true
	}
	t := v.Topic(name)
	if t == nil {
		return 0, false
	}
	return int64(t.Created), true //nolint:gosec // a height
}

// groupShards tells the coordinator which of its partitions this broker leads.
func (b *Broker) groupShards(v *ledger.View) {
	t := v.Topic(offsetsTopic)
	if t == nil {
		return
	}
	for p := range t.Partitions {
		if t.Partitions[p].Leader != b.deps.Account {
			b.groups.Resign(int32(p)) //nolint:gosec // few
		}
	}
}

// ledgerOffsets hands committed offsets to the ledger, by way of the evidence, until ctx ends.
func (b *Broker) ledgerOffsets(ctx context.Context) {
	for pause.For(ctx, offsetsEvery) {
		v := b.deps.Ledger.View()
		if v == nil {
			continue
		}
		for _, c := range b.groups.Changes(ctx, offsetsAtOnce) {
			t := v.Topic(c.Topic)
			if t == nil {
				continue // gone, and its offsets with it
			}
			o := evidence.Offset{Group: contracts.GroupID(c.Group), Topic: t.ID, Partition: c.Partition}
			if !b.deps.Evidence.Offset(o, c.Offset) {
				b.m.offsetsLeft.Inc()
			}
		}
	}
}
