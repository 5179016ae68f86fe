package pubsub

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/internal/format"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/group"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// producersFile keeps the end of the producer ids given out, in the broker's folder.
const producersFile = "producer_ids"

// Broker answers Kafka's requests. New makes it, Run runs it until its context ends.
type Broker struct {
	cfg       Config
	deps      Deps
	m         *metrics
	quotas    *quotas
	conns     *conns
	waiters   *waiters
	topics    *topicIndex
	producers *producerIDs
	leases    *leases
	groups    *group.Coordinator
	admins    chan struct{} // room for administrative requests under way
	batches   *batch.Checker

	life context.Context // ends when the broker stops
	stop context.CancelFunc
}

// New makes a broker over its parts.
func New(cfg Config, deps Deps) (*Broker, error) {
	if deps.Ledger == nil || deps.Store == nil || deps.Replicas == nil || deps.Submit == nil || deps.Final == nil {
		return nil, errors.New("a broker needs a ledger, a store, replicas, a submitter and the chain's final height")
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	m, err := newMetrics(deps.Registry)
	if err != nil {
		return nil, err
	}
	if err := format.StampFolder(cfg.Dir, format.Broker, vfs.Private); err != nil {
		return nil, fmt.Errorf("the broker's folder: %w", err)
	}
	producers, err := openProducerIDs(filepath.Join(cfg.Dir, producersFile), deps.Now())
	if err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, deps: deps, m: m, quotas: newQuotas(), conns: newConns(), waiters: newWaiters(), topics: new(topicIndex),
		producers: producers, admins: make(chan struct{}, maxAdmins), batches: batch.NewChecker(min(unpackedAtOnce, runtime.GOMAXPROCS(0)-1))}
	b.leases = newLeases(b)
	b.groups = group.New(cfg.Group, group.Deps{Log: groupLog{b}, Check: b.groupCheck, Sees: b.groupSees, Born: b.topicBorn,
		Logger: deps.Log.Named("groups"), Registry: deps.Registry})
	b.life, b.stop = context.WithCancel(context.Background())
	return b, nil
}

// Run keeps store and replicas true to the ledger until ctx ends. Requests are served meanwhile by whoever calls Serve.
func (b *Broker) Run(ctx context.Context) error {
	defer b.groups.Close()
	defer b.stop()
	stop := context.AfterFunc(ctx, b.stop)
	defer stop()
	if !b.tie(ctx) {
		return nil
	}
	g, run := errgroup.WithContext(ctx)
	g.Go(func() error { return b.leases.run(run) })
	g.Go(func() error { b.claims(run); return nil })
	g.Go(func() error { b.register(run); return nil })
	g.Go(func() error { b.attend(run); return nil })
	g.Go(func() error { newReplacer(b).run(run); return nil })
	g.Go(func() error { b.tick(run); return nil })
	if b.deps.Evidence != nil {
		g.Go(func() error { b.ledgerOffsets(run); return nil })
	}
	err := g.Wait()
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// tick applies retention and forgets what is not used any more.
func (b *Broker) tick(ctx context.Context) {
	balanced := b.deps.Now()
	var failing time.Time // when it was tried last to give up what is led
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := b.deps.Now()
		b.deps.Store.Tick(now)
		if err := b.deps.Store.Writable(); err == nil {
			failing = time.Time{}
		} else if failing.IsZero() || now.Sub(failing) > yieldAgain { // others have room: they lead
			failing = now
			b.deps.Log.Error("this broker cannot write its log and gives up what it leads", zap.Error(err))
			b.HandOver(ctx)
		}
		b.quotas.sweep(now)
		if now.Sub(balanced) > balanceEvery && failing.IsZero() {
			balanced = now
			b.balance(ctx)
		}
	}
}

// Committed is told by the replicas that records of a partition are committed up to an offset.
func (b *Broker) Committed(id replica.ID, _, _ int64) {
	b.waiters.wake(store.ID(id))
	if b.deps.Evidence != nil {
		b.deps.Evidence.Committed(evidence.ID(id))
	}
}

// Led is told by the replicas that this broker leads a partition from now on.
func (b *Broker) Led(id replica.ID, epoch int32) {
	b.deps.Log.Debug("leads a partition", zap.Int32("partition", id.Partition), zap.Int32("epoch", epoch))
	b.waiters.wake(store.ID(id))
	if v := b.deps.Ledger.View(); v != nil {
		if t := v.TopicByID(id.Topic); t != nil && t.Name == offsetsTopic {
			b.groups.Lead(id.Partition, epoch)
		}
	}
}

// Serve implements kafka.Handler.
func (b *Broker) Serve(ctx context.Context, c *kafka.Conn, req kmsg.Request) kafka.Reply {
	s, v := c.Session(), b.deps.Ledger.View()
	if s == nil || v == nil {
		return nil
	}
	x := &call{b: b, conn: c, s: s, who: principalOf(s), v: v, now: b.deps.Now()}
	start := time.Now()
	reply := b.dispatch(ctx, x, req)
	b.m.handled.WithLabelValues(kmsg.NameForKey(req.Key())).Observe(time.Since(start).Seconds())
	return reply
}

// Closed implements kafka.Handler.
func (b *Broker) Closed(c *kafka.Conn) { b.conns.closed(b.quotas, c) }

// refuse answers a request as a whole. A producer that wants no answers is cut off, since nothing else could tell it.
func (x *call) refuse(req kmsg.Request, k *kerr.Error, why error) kafka.Reply {
	x.throttle(refusedPause) // the answer has an entry for each of the request's
	if p, ok := req.(*kmsg.ProduceRequest); ok && p.Acks == 0 {
		x.conn.Close()
		return nil
	}
	return kafka.Now(kafka.Refuse(req, k, why.Error()))
}

// dispatch is the table of requests.
func (b *Broker) dispatch(ctx context.Context, x *call, req kmsg.Request) kafka.Reply {
	if age := b.deps.Ledger.StaleFor(); age > b.cfg.LedgerAge {
		return kafka.Now(kafka.Refuse(req, kerr.BrokerNotAvailable, errStale.Error()))
	}
	err := refusal(x.v, x.s)
	if err == nil {
		err = outOfScope(x.s, req)
	}
	if err != nil {
		return x.refuse(req, kerr.ClusterAuthorizationFailed, err)
	}
	if b.deps.Evidence != nil && b.deps.Evidence.Spare(ctx, x.stranger) != nil {
		return nil // the connection has ended
	}
	if reply, ok := b.dispatchGroups(ctx, x, req); ok {
		return reply
	}
	if b.deps.Evidence != nil && b.deps.Evidence.Ready(ctx) != nil {
		return nil // the connection has ended
	}
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		return b.produce(x, r)
	case *kmsg.FetchRequest:
		return b.fetch(x, r)
	case *kmsg.MetadataRequest:
		return b.metadata(x, r)
	case *kmsg.ListOffsetsRequest:
		return b.listOffsets(x, r)
	case *kmsg.OffsetForLeaderEpochRequest:
		return b.offsetForLeaderEpoch(x, r)
	case *kmsg.InitProducerIDRequest:
		return b.initProducerID(x, r)
	case *kmsg.DescribeClusterRequest:
		return b.describeCluster(x, r)
	case *kmsg.DescribeConfigsRequest:
		return b.describeConfigs(x, r)
	case *kmsg.DescribeACLsRequest:
		return b.describeACLs(x, r)
	}
	if reply, ok := b.dispatchAdmin(x, req); ok {
		return reply
	}
	return kafka.Now(kafka.Refuse(req, kerr.UnsupportedVersion, "this request is not served"))
}
