package pubsub

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// leases keep store and replicas true to the final leases. run's goroutine owns what is known of them.
type leases struct {
	b     *Broker
	known map[store.ID]kept
	prev  *ledger.View           // applied last
	spent map[store.ID]time.Time // logs that this broker is to keep no more, and since when that is seen
	wg    sync.WaitGroup         // goroutines that tell the groups of deleted topics

	mu   sync.Mutex
	lost map[store.ID]int32 // to claim, with the epoch of the lease to supersede
	woke chan struct{}
}

// kept is what a partition was set to last.
type kept struct {
	topic  string
	lease  replica.Lease
	retain store.Retention
}

func newLeases(b *Broker) *leases {
	return &leases{b: b, known: make(map[store.ID]kept), spent: make(map[store.ID]time.Time), lost: make(map[store.ID]int32), woke: make(chan struct{}, 1)}
}

// run follows the ledger until ctx ends.
func (l *leases) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer l.wg.Wait()
	defer cancel()
	for {
		changed := l.b.deps.Ledger.Changed()
		if v := l.b.deps.Ledger.View(); v != nil {
			if err := l.apply(ctx, v); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// apply makes the broker keep exactly the partitions that the view gives it. A view below the store's floor is passed
// over: what this broker promised by then it does not know any more.
func (l *leases) apply(ctx context.Context, v *ledger.View) error {
	if v.Height < l.b.deps.Store.Floor() {
		return nil
	}
	peers := make(map[common.Address]string)
	for _, n := range v.Brokers() {
		peers[n.Account] = n.PeerID
	}
	var changed []replica.Lease
	here := 0
	for _, t := range v.Topics("") {
		retain := retention(t)
		for p := range t.Partitions {
			part := &t.Partitions[p]
			id := store.ID{Topic: t.ID, Partition: int32(p)} //nolint:gosec // few
			mine := slices.Contains(part.Replicas, l.b.deps.Account)
			if _, known := l.known[id]; !mine && !known && l.b.deps.Store.Partition(id) == nil {
				continue // a former replica, though, may have something to hand over
			}
			if here++; here > maxPartitionsServed {
				l.b.deps.Log.Error("this broker is given more partitions than it can keep; add brokers", zap.Int("most", maxPartitionsServed), zap.String("topic", t.Name))
				break
			}
			if x := l.take(id, t, part, peers, retain, mine); x != nil {
				changed = append(changed, *x)
			}
		}
	}
	if len(changed) > 0 {
		if err := l.b.deps.Replicas.SetLeases(changed); err != nil {
			return fmt.Errorf("leases of %d partitions: %w", len(changed), err)
		}
	}
	for i := range changed {
		l.b.waiters.wake(store.ID(changed[i].ID())) // fetches look again who leads
	}
	l.prev = v
	l.drop(ctx, v)
	l.dropSpent(ctx, v)
	l.b.groupShards(v)
	led := 0
	for _, k := range l.known {
		if k.lease.Leader == l.b.deps.PeerID {
			led++
		}
	}
	l.b.m.partitions.Set(float64(len(l.known)))
	l.b.m.leading.Set(float64(led))
	return nil
}

// take is one partition's lease if it changed; the store learns its retention. A broker that is no replica any more is
// told once more, and keeps its log for a while.
func (l *leases) take(id store.ID, t *ledger.Topic, part *ledger.Partition, peers map[common.Address]string, retain store.Retention, mine bool) *replica.Lease {
	old, known := l.known[id]
	same := known && old.lease.Epoch == part.Epoch && callsAll(&old.lease, part, peers) && old.lease.Unclean == l.b.unclean(t)
	if same && old.retain == retain {
		return nil
	}
	if mine {
		if _, err := l.b.deps.Store.Create(id, retain); err != nil {
			l.b.deps.Log.Error("a partition is not kept: its log cannot be made; make room on the disk, or look at the store's error",
				zap.Stringer("partition", id), zap.Error(err))
			if l.b.deps.Store.Partition(id) == nil {
				return nil // the next view tries again
			}
			retain = old.retain // also tried again; the lease counts now
		}
	}
	lease := replica.Lease{Topic: id.Topic, Partition: id.Partition, Epoch: part.Epoch, Leader: peers[part.Leader], Whole: mine && l.whole(id, t), Unclean: l.b.unclean(t)}
	for _, a := range part.Replicas {
		lease.Replicas = append(lease.Replicas, peers[a])
	}
	l.known[id] = kept{t.Name, lease, retain}
	if same {
		return nil
	}
	return &lease
}

// whole tells whether this broker came to keep a partition when its store was there already: the topic is younger than
// the store, or the view before shows the partition without it.
func (l *leases) whole(id store.ID, t *ledger.Topic) bool {
	if made, ok := l.b.deps.Store.Made(); ok && t.Created > made {
		return true
	}
	if l.prev == nil {
		return false
	}
	was, ok := l.prev.Lease(id.Topic, id.Partition)
	return !ok || !slices.Contains(was.Replicas, l.b.deps.Account)
}

// callsAll reports whether a lease still calls the brokers by their peer ids: one that moved to another node key has a new one.
func callsAll(l *replica.Lease, part *ledger.Partition, peers map[common.Address]string) bool {
	if l.Leader != peers[part.Leader] || len(l.Replicas) != len(part.Replicas) {
		return false
	}
	for i, a := range part.Replicas {
		if l.Replicas[i] != peers[a] {
			return false
		}
	}
	return true
}

// drop forgets the partitions of topics that were deleted, and deletes their logs. That a view lacks a topic is not
// enough: a chain that is catching up lacks it too, and logs of batches to be salvaged have ids that no topic has.
func (l *leases) drop(ctx context.Context, v *ledger.View) {
	gone := make(map[string]struct{})
	for id, k := range l.known {
		if v.TopicByID(id.Topic) != nil || !v.TopicDeleted(id.Topic) {
			continue
		}
		if err := l.b.deps.Replicas.Drop(replica.ID(id)); err != nil {
			l.b.deps.Log.Warn("a partition of a deleted topic is not dropped yet", zap.Stringer("partition", id), zap.Error(err))
			continue
		}
		delete(l.known, id)
		gone[k.topic] = struct{}{}
		l.b.waiters.wake(id)
	}
	l.topicsGone(ctx, gone)
	for _, id := range l.b.deps.Store.List() {
		if _, ok := l.known[id]; ok || v.TopicByID(id.Topic) != nil || !v.TopicDeleted(id.Topic) {
			continue
		}
		if err := l.b.deps.Store.Delete(id); err != nil {
			l.b.deps.Log.Warn("the log of a deleted topic stays on disk", zap.Stringer("partition", id), zap.Error(err))
		}
	}
}

// topicsGone tells the groups of topics that were deleted, behind the back of run: this waits for groups that are being
// read, which may themselves wait for the next leases.
func (l *leases) topicsGone(ctx context.Context, names map[string]struct{}) {
	if len(names) == 0 {
		return
	}
	l.wg.Go(func() {
		for name := range names {
			l.b.groups.TopicGone(ctx, name)
		}
	})
}

// Lost is told by the replicas which partitions to claim. It does not block.
func (b *Broker) Lost(list []replica.Lost) {
	l := b.leases
	l.mu.Lock()
	for _, x := range list {
		if len(l.lost) < maxPartitionsServed {
			l.lost[store.ID(x.ID)] = x.Epoch
		}
	}
	l.mu.Unlock()
	select {
	case l.woke <- struct{}{}:
	default:
	}
}

// claims sends what was lost, gathered for a moment: a dead broker leads many partitions.
func (b *Broker) claims(ctx context.Context) {
	var g errgroup.Group
	g.SetLimit(claimsUnderWay)
	defer func() { _ = g.Wait() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-b.leases.woke:
		}
		if !pause.For(ctx, claimGather) {
			return
		}
		for list := b.toClaim(); len(list) > 0; list = b.toClaim() {
			g.Go(func() error { b.claim(ctx, list); return nil })
		}
	}
}

// toClaim takes one transaction's worth out of what is lost.
func (b *Broker) toClaim() (list []contracts.Claim) {
	v := b.deps.Ledger.View()
	if v == nil {
		return nil
	}
	l := b.leases
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, epoch := range l.lost {
		if len(list) >= maxClaims {
			break
		}
		delete(l.lost, id)
		if lease, ok := v.Lease(id.Topic, id.Partition); ok && lease.Epoch == epoch { // else somebody was faster
			list = append(list, contracts.Claim{Topic: id.Topic, Partition: uint32(id.Partition), Epoch: uint32(epoch)}) //nolint:gosec // not negative
		}
	}
	return list
}

// claim sends one transaction. What comes of it the leases of the next views say.
func (b *Broker) claim(ctx context.Context, list []contracts.Claim) {
	b.deps.Log.Warn("claims partitions whose leader is silent", zap.Int("partitions", len(list)))
	ctx, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	result := "sent"
	data, err := contracts.ClaimCall(list)
	if err == nil {
		err = b.deps.Submit.Submit(ctx, "claim", data)
	}
	if err != nil {
		result = "refused"
		b.deps.Log.Warn("partitions were not claimed; their replicas ask again", zap.Int("partitions", len(list)), zap.Error(err))
	}
	b.m.claimed.WithLabelValues(result).Add(float64(len(list)))
}
