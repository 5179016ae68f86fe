package pubsub

import (
	"cmp"
	"context"
	"slices"
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

// replacer brings the partitions that this broker leads to the brokers that are to keep them: those that the owner wants,
// and others in place of brokers that retired or are silent for too long. run's goroutine owns it.
type replacer struct {
	b         *Broker
	silent    map[common.Address]time.Time // since when; of brokers that keep or are to keep what this one leads
	newcomers map[store.ID]common.Address  // taken in, and not known to have everything yet
	refused   map[store.ID]time.Time       // when a change was; it rests for moveAgain
	declined  map[common.Address]time.Time // whom the ledger did not take in, and when: others come first for declinedFor
}

func newReplacer(b *Broker) *replacer {
	return &replacer{b: b, silent: make(map[common.Address]time.Time), newcomers: make(map[store.ID]common.Address), refused: make(map[store.ID]time.Time),
		declined: make(map[common.Address]time.Time)}
}

func (r *replacer) run(ctx context.Context) {
	for pause.For(ctx, replaceEvery) {
		if v := r.b.deps.Ledger.View(); v != nil && r.b.deps.Store.Writable() == nil {
			x := r.look(v, r.b.deps.Now())
			r.b.Lost(x.claims)
			r.send(ctx, x)
		}
	}
}

// step is the change of one partition that is to be made now.
type step struct {
	id    store.ID
	topic string
	epoch int32
	move
}

// round is one look at all partitions.
type round struct {
	r       *replacer
	v       *ledger.View
	now     time.Time
	live    bool
	brokers map[common.Address]*ledger.Broker
	loads   map[common.Address]int // replicas of all topics; made when asked for
	steps   []step
	claims  []replica.Lost // of partitions whose leader lost its role
}

// look finds what is to be done. Nothing is done to what another broker leads, but that its lease is claimed if it is no
// live broker any more: one that lost its role may go on as if it had not.
func (r *replacer) look(v *ledger.View, now time.Time) *round {
	x := &round{r: r, v: v, now: now, brokers: make(map[common.Address]*ledger.Broker)}
	for i := range v.Brokers() {
		n := &v.Brokers()[i]
		x.brokers[n.Account] = n
	}
	self := r.b.deps.Account
	if n := x.brokers[self]; n == nil {
		return x
	} else {
		x.live = n.Live
	}
	x.hear()
	r.settle(v, now)
	v.Each(func(t *ledger.Topic) bool {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			switch {
			case p.Leader == self:
				x.lead(t, i, p)
			case x.live && x.heir(p):
				x.claims = append(x.claims, replica.Lost{ID: replica.ID{Topic: t.ID, Partition: int32(i)}, Epoch: p.Epoch}) //nolint:gosec // few
			}
		}
		return true
	})
	return x
}

// hear notes which brokers are silent, of those that share what this one leads. Time counts from when that was seen, so
// that a broker which has had nothing to say before is not taken for dead.
func (x *round) hear() {
	r := x.r
	quiet := make(map[common.Address]bool)
	x.v.Each(func(t *ledger.Topic) bool {
		for i := range t.Partitions {
			p := &t.Partitions[i]
			if p.Leader != r.b.deps.Account {
				continue
			}
			for _, a := range p.Replicas {
				quiet[a] = true
			}
			for _, a := range p.Wanted {
				if !quiet[a] {
					quiet[a] = false
				}
			}
		}
		return true
	})
	for a, replica := range quiet {
		n := x.brokers[a]
		if n == nil || a == r.b.deps.Account {
			continue
		}
		linked, silence := r.b.deps.Replicas.Reach(n.PeerID)
		if linked && (!replica || silence < r.b.cfg.Replica.Lost) {
			delete(r.silent, a)
		} else if _, ok := r.silent[a]; !ok {
			r.silent[a] = x.now
		}
	}
	for a, since := range r.silent { // one that was replaced is not taken again before it was heard
		if _, ok := quiet[a]; ok {
			continue
		}
		n := x.brokers[a]
		if n == nil {
			delete(r.silent, a)
		} else if linked, silence := r.b.deps.Replicas.Reach(n.PeerID); linked && silence < x.now.Sub(since) {
			delete(r.silent, a)
		}
	}
}

// settle forgets newcomers that have everything, or are replicas no more, and what has rested.
func (r *replacer) settle(v *ledger.View, now time.Time) {
	for id, at := range r.refused {
		if now.Sub(at) >= moveAgain {
			delete(r.refused, id)
		}
	}
	for a, at := range r.declined {
		if now.Sub(at) >= declinedFor {
			delete(r.declined, a)
		}
	}
	for id, a := range r.newcomers {
		lease, ok := v.Lease(id.Topic, id.Partition)
		if !ok || lease.Leader != r.b.deps.Account || !slices.Contains(lease.Replicas, a) || slices.Contains(r.insync(v, id), a) {
			delete(r.newcomers, id)
		}
	}
}

// insync are the accounts of the replicas that have all that is committed.
func (r *replacer) insync(v *ledger.View, id store.ID) (list []common.Address) {
	peers := r.b.deps.Replicas.InSync(replica.ID(id))
	lease, _ := v.Lease(id.Topic, id.Partition)
	for _, a := range lease.Replicas {
		if n := v.BrokerByAccount(a); n != nil && slices.Contains(peers, n.PeerID) {
			list = append(list, a)
		}
	}
	return list
}

// gone tells whether a broker is to keep nothing any more.
func (x *round) gone(a common.Address) bool {
	n := x.brokers[a]
	if n == nil || !n.Live {
		return true
	}
	since, silent := x.r.silent[a]
	after := x.r.b.cfg.ReplaceAfter
	return silent && after > 0 && x.now.Sub(since) >= after
}

// heir tells whether this broker is to claim a partition: its leader is no live broker, and this is the first replica
// that is.
func (x *round) heir(p *ledger.Partition) bool {
	if n := x.brokers[p.Leader]; n != nil && n.Live {
		return false
	}
	for _, a := range p.Replicas {
		if a == x.r.b.deps.Account {
			return true
		}
		if n := x.brokers[a]; n != nil && n.Live {
			if linked, quiet := x.r.b.deps.Replicas.Reach(n.PeerID); linked && quiet < x.r.b.cfg.Replica.Lost {
				return false
			}
		}
	}
	return false
}

// lead finds the next step of a partition that this broker leads.
func (x *round) lead(t *ledger.Topic, partition int, p *ledger.Partition) {
	if len(x.steps) >= maxMoves || x.settled(t, p) {
		return
	}
	id := store.ID{Topic: t.ID, Partition: int32(partition)} //nolint:gosec // few
	if _, rests := x.r.refused[id]; rests {
		return
	}
	epoch, ready := x.r.b.deps.Replicas.Leader(replica.ID(id))
	if !ready || epoch != p.Epoch {
		return
	}
	at := placement{self: x.r.b.deps.Account, partition: partition, replicas: p.Replicas, wanted: p.Wanted, count: t.Replicas,
		insync: x.r.insync(x.v, id), spare: x.spare(), gone: x.gone}
	m := at.next()
	switch {
	case m.to == (common.Address{}) && len(m.replicas) == 0:
		return
	case !x.live && m.to == (common.Address{}):
		return // it may give leases away, nothing else
	case m.added != (common.Address{}):
		if _, ok := x.r.newcomers[id]; !ok && len(x.r.newcomers) >= maxNewcomers {
			return
		}
		x.r.newcomers[id] = m.added
		x.loads[m.added]++
	}
	x.steps = append(x.steps, step{id, t.Name, p.Epoch, m})
}

// settled tells quickly that a partition is where it should be.
func (x *round) settled(t *ledger.Topic, p *ledger.Partition) bool {
	if slices.ContainsFunc(p.Replicas, x.gone) {
		return false
	}
	if len(p.Wanted) == 0 {
		return len(p.Replicas) == t.Replicas
	}
	return len(p.Replicas) == len(p.Wanted) && !slices.ContainsFunc(p.Wanted, func(a common.Address) bool { return !slices.Contains(p.Replicas, a) })
}

// spare are the live brokers that can be reached, those with the fewest replicas first. One that the ledger does not take
// in, as it does not attend, comes last: it would be chosen again and again, and others that could help never.
func (x *round) spare() (list []common.Address) {
	if x.loads == nil {
		x.loads = make(map[common.Address]int)
		x.v.Each(func(t *ledger.Topic) bool {
			for i := range t.Partitions {
				for _, a := range t.Partitions[i].Replicas {
					x.loads[a]++
				}
			}
			return true
		})
	}
	for a, n := range x.brokers {
		if !n.Live || x.gone(a) {
			continue
		}
		if linked, _ := x.r.b.deps.Replicas.Reach(n.PeerID); linked || a == x.r.b.deps.Account {
			list = append(list, a)
		}
	}
	slices.SortFunc(list, func(a, b common.Address) int {
		return cmp.Or(x.r.declined[a].Compare(x.r.declined[b]), x.loads[a]-x.loads[b], int(x.brokers[a].ID-x.brokers[b].ID))
	})
	return list
}

// send makes the steps, each in its own transaction, and waits until all are final or failed. Each names the epoch that
// this broker is ready in, so one that comes late does nothing.
func (r *replacer) send(ctx context.Context, x *round) {
	if len(x.steps) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	var g errgroup.Group
	made := make([]bool, len(x.steps))
	for i, s := range x.steps {
		g.Go(func() error { made[i] = r.sendOne(ctx, x, s); return nil })
	}
	_ = g.Wait()
	for i, s := range x.steps {
		if !made[i] {
			r.rest(&s, r.b.deps.Now())
		}
	}
}

// rest notes that a step was not made.
func (r *replacer) rest(s *step, now time.Time) {
	r.refused[s.id] = now
	if s.added != (common.Address{}) {
		r.declined[s.added] = now
	}
}

// sendOne tells whether the step was made.
func (r *replacer) sendOne(ctx context.Context, x *round, s step) bool {
	partition, epoch := uint32(s.id.Partition), uint32(s.epoch) //nolint:gosec // not negative
	kind, data, err := "removed", []byte(nil), error(nil)
	switch {
	case s.to != (common.Address{}):
		kind = "handed over"
		data, err = contracts.HandOverCall([]contracts.Handover{{Topic: s.id.Topic, Partition: partition, Epoch: epoch, To: s.to}})
	case s.added != (common.Address{}):
		kind = "added"
		fallthrough
	default:
		data = contracts.SetReplicasCall(s.id.Topic, partition, epoch, s.replicas)
	}
	if err == nil {
		err = r.b.deps.Submit.Submit(ctx, "replicas", data)
	}
	numbers := make([]int32, 0, len(s.replicas))
	for _, a := range s.replicas {
		numbers = append(numbers, x.brokers[a].ID)
	}
	log := r.b.deps.Log.With(zap.String("topic", s.topic), zap.Int32("partition", s.id.Partition), zap.String("change", kind), zap.Int32s("replicas", numbers))
	if err != nil {
		r.b.m.moved.WithLabelValues("failed").Inc()
		log.Warn("the replicas of a partition are not changed yet; it is tried again", zap.Error(err))
		return false
	}
	r.b.m.moved.WithLabelValues(kind).Inc()
	log.Info("changed the replicas of a partition")
	return true
}
