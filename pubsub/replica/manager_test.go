package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/mem"
)

// lab is a few brokers on the in-memory network, on virtual time, with a chain that gives leases 500 ms after a claim.
type lab struct {
	t       *testing.T
	net     *mem.Network
	mu      sync.Mutex
	brokers map[string]*broker
	leases  map[ID]Lease
	chain   bool // claims are taken
	wg      sync.WaitGroup
}

type broker struct {
	l     *lab
	name  string
	store *memStore
	reg   *prometheus.Registry
	host  *mem.Host
	m     *Manager
	stop  func()

	mu        sync.Mutex
	committed map[ID]int64
	claims    int
}

func onLab(t *testing.T, names int, f func(l *lab)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, net: mem.NewNetwork(), brokers: map[string]*broker{}, leases: map[ID]Lease{}, chain: true}
		for i := range names {
			l.start(nodeName(i), newMemStore())
		}
		f(l)
		for _, b := range l.brokers {
			b.stop()
		}
		l.wg.Wait()
	})
}

func (l *lab) start(name string, store *memStore) *broker {
	b := &broker{l: l, name: name, store: store, reg: prometheus.NewRegistry(), committed: map[ID]int64{}}
	var err error
	b.host, err = l.net.NewHost(transport.PeerID(name), link.DefaultConfig(), nil, nil)
	require.NoError(l.t, err)
	b.m, err = New(DefaultConfig(), Deps{Self: name, Store: store, Log: testLog(l.t).Named(name), Registry: b.reg, Lost: b.lost, OnCommitted: b.onCommitted})
	require.NoError(l.t, err)
	b.m.Answer(1, func(_ context.Context, peer string, q []byte) ([]byte, error) {
		if len(q) == 0 {
			return nil, errors.New("nothing was asked")
		}
		return fmt.Appendf(nil, "%s asks %s", peer, q), nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { require.NoError(l.t, b.m.Run(ctx)) })
	wg.Go(func() {
		for k := range b.host.Links() {
			b.m.AddLink(k)
		}
	})
	b.stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(l.t, b.host.Close())
		wg.Wait()
	})
	l.mu.Lock()
	l.brokers[name] = b
	list := make([]Lease, 0, len(l.leases))
	for _, le := range l.leases {
		list = append(list, le)
	}
	l.mu.Unlock()
	for _, o := range l.brokers {
		if o != b && o.host != nil {
			require.NoError(l.t, b.host.Dial(ctx, mem.Addr(o.host.ID())))
		}
	}
	require.NoError(l.t, b.m.SetLeases(list))
	return b
}

func testLog(t *testing.T) *zap.Logger {
	if testing.Verbose() {
		return zaptest.NewLogger(t)
	}
	return zap.NewNop()
}

// kill ends a broker like a crash: what is not synced is gone.
func (b *broker) kill() *memStore {
	b.stop()
	b.l.mu.Lock()
	delete(b.l.brokers, b.name)
	b.l.mu.Unlock()
	return b.store.crash(func(int) int { return 0 })
}

func (b *broker) onCommitted(id ID, from, to int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was, ok := b.committed[id]; ok && was != from { // after a start it goes on where the log says
		b.l.t.Errorf("%s: committed goes from %d to %d-%d", b.name, was, from, to)
	}
	b.committed[id] = to
}

// lost claims at the chain, which takes the first claim of an epoch and makes it final later.
func (b *broker) lost(list []Lost) {
	b.mu.Lock()
	b.claims += len(list)
	b.mu.Unlock()
	l := b.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.chain {
		return
	}
	var won []Lease
	for _, c := range list {
		le := l.leases[c.ID]
		if le.Epoch != c.Epoch {
			continue
		}
		le.Epoch, le.Leader = le.Epoch+1, b.name
		l.leases[c.ID] = le
		won = append(won, le)
	}
	l.wg.Go(func() {
		tm := time.NewTimer(500 * time.Millisecond)
		defer tm.Stop()
		<-tm.C
		l.tell(won)
	})
}

func (l *lab) tell(list []Lease) {
	l.mu.Lock()
	all := make([]*broker, 0, len(l.brokers))
	for _, b := range l.brokers {
		all = append(all, b)
	}
	l.mu.Unlock()
	for _, b := range all {
		if err := b.m.SetLeases(list); err != nil {
			l.t.Errorf("leases: %v", err)
		}
	}
}

func (l *lab) lease(id ID, epoch int32, leader string, replicas ...string) {
	le := Lease{Topic: id.Topic, Partition: id.Partition, Epoch: epoch, Leader: leader, Replicas: replicas, Whole: true}
	l.mu.Lock()
	l.leases[id] = le
	l.mu.Unlock()
	l.tell([]Lease{le})
}

func (l *lab) eventually(cond func() bool, what string, args ...any) {
	l.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range 90 * 200 {
		if cond() {
			return
		}
		<-tick.C
	}
	require.FailNow(l.t, "did not happen: "+fmt.Sprintf(what, args...))
}

// leads waits until some broker leads the partition, and gives it.
func (l *lab) leads(id ID) *broker {
	l.t.Helper()
	var found *broker
	l.eventually(func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, b := range l.brokers {
			if e, ok := b.m.Leader(id); ok && e == l.leases[id].Epoch {
				found = b
				return true
			}
		}
		return false
	}, "somebody leads")
	return found
}

func (b *broker) write(id ID, payload string, acks int16) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	w, err := b.m.Append(ctx, id, record(payload, -1, -1), acks)
	if err != nil {
		return err
	}
	_, _, err = w.Wait(ctx)
	return err
}

func (b *broker) payloads(id ID) []string {
	var list []string
	d, err := b.store.Open(id, true)
	require.NoError(b.l.t, err)
	require.NoError(b.l.t, d.Batches(0, b.m.HighWatermark(id), func(_ batch.Header, raw []byte) error {
		list = append(list, string(batch.Records(raw)))
		return nil
	}))
	return list
}

func partitionN(n int) ID { return ID{Topic: [32]byte{byte(n), byte(n >> 8)}, Partition: int32(n)} }

// gauge is the value of a metric of replication.
func (b *broker) gauge(name string) float64 {
	families, err := b.reg.Gather()
	require.NoError(b.l.t, err)
	for _, f := range families {
		if f.GetName() == "bornode_topics_replica_"+name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	require.FailNow(b.l.t, "no metric "+name)
	return 0
}

func TestBatchesReachAllReplicas(t *testing.T) {
	onLab(t, 3, func(l *lab) {
		id := partitionN(1)
		l.lease(id, 1, "b0", "b0", "b1", "b2")
		b := l.leads(id)
		var want []string
		for i := range 50 {
			want = append(want, fmt.Sprint("batch ", i))
			require.NoError(t, b.write(id, want[i], []int16{-1, 1, 0}[i%3]))
		}
		for _, o := range l.brokers {
			l.eventually(func() bool { return slices.Equal(o.payloads(id), want) }, "%s has all", o.name)
		}
		l.eventually(func() bool { return len(b.m.InSync(id)) == 3 }, "all in sync")
		l.eventually(func() bool { return b.gauge("under_replicated_partitions") == 0 }, "the metric says so")
		require.InDelta(t, 1, b.gauge("leading_partitions"), 0)
		require.ErrorIs(t, l.brokers["b1"].write(id, "x", -1), ErrNotLeader)
	})
}

func TestLeaderDies(t *testing.T) {
	onLab(t, 3, func(l *lab) {
		id := partitionN(1)
		l.lease(id, 1, "b0", "b0", "b1", "b2")
		first := l.leads(id)
		require.NoError(t, first.write(id, "all 1", -1))
		store := first.kill()
		began := time.Now()
		second := l.leads(id)
		require.NoError(t, second.write(id, "all 2", -1))
		require.Less(t, time.Since(began), 3*time.Second, "virtual time from the kill to the next acknowledgement")
		require.Equal(t, []string{"all 1", "all 2"}, second.payloads(id))
		back := l.start("b0", store)
		l.eventually(func() bool { return slices.Equal(back.payloads(id), []string{"all 1", "all 2"}) }, "the first leader has all")
		require.Less(t, second.claims+l.brokers["b2"].claims, 4, "claims are not repeated without need")
	})
}

// What a leader acknowledged alone comes back with it.
func TestAcknowledgedByTheLeaderAlone(t *testing.T) {
	onLab(t, 3, func(l *lab) {
		id := partitionN(1)
		l.lease(id, 1, "b0", "b0", "b1", "b2")
		first := l.leads(id)
		require.NoError(t, first.write(id, "all", -1))
		cut := mem.Faults{Silent: true, Refuse: true}
		l.net.SetFaults("b0", "b1", cut)
		l.net.SetFaults("b0", "b2", cut)
		require.NoError(t, first.write(id, "alone", 1))
		store := first.kill()
		l.net.SetFaults("b0", "b1", mem.Faults{})
		l.net.SetFaults("b0", "b2", mem.Faults{})
		second := l.leads(id)
		require.NoError(t, second.write(id, "later", -1))
		l.start("b0", store)
		for _, b := range l.brokers {
			l.eventually(func() bool { return slices.Equal(b.payloads(id), []string{"all", "later", "alone"}) }, "%s has what one broker acknowledged", b.name)
		}
	})
}

func TestAllRestart(t *testing.T) {
	onLab(t, 3, func(l *lab) {
		id := partitionN(1)
		l.lease(id, 1, "b0", "b0", "b1", "b2")
		b := l.leads(id)
		for i := range 20 {
			require.NoError(t, b.write(id, fmt.Sprint(i), int16(1-2*(i%2))))
		}
		stores := map[string]*memStore{}
		for _, b := range []*broker{l.brokers["b0"], l.brokers["b1"], l.brokers["b2"]} {
			stores[b.name] = b.kill()
		}
		for name, s := range stores {
			l.start(name, s)
		}
		b = l.leads(id)
		require.NoError(t, b.write(id, "after", -1))
		l.eventually(func() bool { return len(b.payloads(id)) == 21 }, "all batches once: %v", b.payloads(id))
	})
}

// A leader without a majority says so, first to those who want one, then to all.
func TestCutOffLeader(t *testing.T) {
	onLab(t, 3, func(l *lab) {
		id := partitionN(1)
		l.chain = false
		l.lease(id, 1, "b0", "b0", "b1", "b2")
		b := l.leads(id)
		require.NoError(t, b.write(id, "1", -1))
		l.net.SetFaults("b0", "b1", mem.Faults{Silent: true})
		l.net.SetFaults("b0", "b2", mem.Faults{Silent: true})
		began := time.Now()
		var under []Pending // one after the other waits, as the answers of a connection do
		for i := range 5 {
			w, err := b.m.Append(context.Background(), id, record(fmt.Sprint("under way ", i), -1, -1), -1)
			require.NoError(t, err)
			under = append(under, w)
		}
		for _, w := range under {
			_, _, err := w.Wait(context.Background())
			require.ErrorIs(t, err, ErrNoQuorumAfter)
		}
		require.Less(t, time.Since(began), 1100*time.Millisecond, "virtual time")
		require.ErrorIs(t, b.write(id, "3", -1), ErrNoQuorum)
		require.True(t, b.m.CutOff(id))
		require.False(t, l.brokers["b1"].m.CutOff(id))
		require.NoError(t, b.write(id, "4", 1))
		l.eventually(func() bool { return errors.Is(b.write(id, "5", 1), ErrNoQuorum) }, "acks=1 is refused too")
		require.Greater(t, time.Since(began), DefaultConfig().ClaimTime)
		l.net.SetFaults("b0", "b1", mem.Faults{})
		l.eventually(func() bool { return b.write(id, "6", -1) == nil }, "it goes on")
	})
}

func TestLateReplicaCatchesUp(t *testing.T) {
	onLab(t, 3, func(l *lab) {
		id := partitionN(1)
		l.lease(id, 1, "b0", "b0", "b1")
		b := l.leads(id)
		big := make([]byte, 100<<10)
		for i := range 60 {
			require.NoError(t, b.write(id, string(append(big, byte(i))), 1))
		}
		l.eventually(func() bool { return b.m.HighWatermark(id) == 60 }, "committed")
		d, err := b.store.Open(id, false)
		require.NoError(t, err)
		require.NoError(t, d.DeleteBefore(10))
		l.lease(id, 2, "b0", "b0", "b1", "b2")
		b = l.leads(id)
		require.NoError(t, b.write(id, "last", -1))
		o := l.brokers["b2"]
		l.eventually(func() bool { return o.m.HighWatermark(id) == 61 }, "the new replica has all")
		od, err := o.store.Open(id, false)
		require.NoError(t, err)
		require.Equal(t, int64(10), od.Start())
		// It is removed again, and has nothing to hand over.
		l.lease(id, 3, "b0", "b0", "b1")
		l.eventually(func() bool { return o.m.Spent(id) }, "it may delete its log")
	})
}

func TestSilentReplicaHoldsNobodyUp(t *testing.T) {
	onLab(t, 3, func(l *lab) {
		id := partitionN(1)
		l.lease(id, 1, "b0", "b0", "b1", "b2")
		b := l.leads(id)
		l.net.SetFaults("b0", "b2", mem.Faults{Silent: true})
		big := make([]byte, 256<<10)
		for range 64 { // more than the window and the link's queues
			require.NoError(t, b.write(id, string(big), -1))
		}
		l.net.SetFaults("b0", "b2", mem.Faults{})
		l.eventually(func() bool { return l.brokers["b2"].m.HighWatermark(id) == 64 }, "it catches up")
	})
}

func TestBrokenConnections(t *testing.T) {
	onLab(t, 3, func(l *lab) {
		id := partitionN(1)
		l.lease(id, 1, "b0", "b0", "b1", "b2")
		for _, o := range []transport.PeerID{"b1", "b2"} {
			l.net.SetFaults("b0", o, mem.Faults{ResetAfter: 40, Latency: 3 * time.Millisecond})
		}
		var want []string
		for i := range 100 {
			want = append(want, fmt.Sprint(i))
			l.eventually(func() bool {
				err := l.leads(id).write(id, want[i], -1)
				known := slices.ContainsFunc([]error{nil, ErrNotLeader, ErrNotReady, ErrNoQuorum, ErrNoQuorumAfter}, func(e error) bool { return errors.Is(err, e) })
				require.True(t, known, "%v", err)
				return err == nil
			}, "batch %d", i)
		}
		l.eventually(func() bool { return len(l.leads(id).payloads(id)) >= 100 }, "all there")
	})
}

// Partitions at rest cost a heartbeat per pair of brokers, however many there are.
func TestIdlePartitions(t *testing.T) {
	onLab(t, 3, func(l *lab) {
		const parts = 2000
		var list []Lease
		for n := range parts {
			le := Lease{Topic: partitionN(n).Topic, Partition: int32(n), Epoch: 1, Leader: nodeName(n % 3), Replicas: []string{"b0", "b1", "b2"}, Whole: true}
			l.leases[le.ID()] = le
			list = append(list, le)
		}
		l.tell(list)
		for _, le := range list {
			id := le.ID()
			l.eventually(func() bool { _, ok := l.brokers[le.Leader].m.Leader(id); return ok }, "partition %d is led", le.Partition)
		}
		sent := func() (n uint64) {
			for _, b := range l.brokers {
				for _, q := range b.m.allPeers() {
					q.mu.Lock()
					n += q.link.Stats().Lanes[transport.LaneTopics].MessagesSent
					q.mu.Unlock()
				}
			}
			return n
		}
		tm := time.NewTimer(2 * time.Second)
		<-tm.C
		before := sent()
		tm.Reset(30 * time.Second)
		<-tm.C
		require.LessOrEqual(t, sent()-before, uint64(6*101), "six directions, a heartbeat each 300 ms")
		for _, b := range l.brokers {
			require.Empty(t, b.m.restless.list())
		}
		// A broker with a third of the partitions dies: all are led again.
		l.brokers["b0"].kill()
		for _, le := range list {
			l.leads(le.ID())
		}
	})
}

func TestFailingDiskGivesLeasesUp(t *testing.T) {
	onLab(t, 3, func(l *lab) {
		id := partitionN(1)
		l.lease(id, 1, "b0", "b0", "b1", "b2")
		b := l.leads(id)
		require.NoError(t, b.write(id, "1", -1))
		b.store.mu.Lock()
		b.store.failing = errors.New("input/output error")
		b.store.mu.Unlock()
		require.NoError(t, b.write(id, "2", -1), "the others' disks are a majority")
		require.Error(t, b.write(id, "3", 1))
		l.eventually(func() bool { return l.leads(id) != b }, "another leads")
		b.store.mu.Lock()
		b.store.failing = nil
		b.store.mu.Unlock()
		next := l.leads(id)
		require.NoError(t, next.write(id, "4", -1))
		l.eventually(func() bool { return slices.Equal(next.payloads(id), b.payloads(id)) && len(next.payloads(id)) == 4 }, "same log")
	})
}

// A broker that is given a lease while its disk takes nothing does not sit on it.
func TestFailingDiskTakesNoLease(t *testing.T) {
	onLab(t, 3, func(l *lab) {
		b := l.brokers["b0"]
		b.store.mu.Lock()
		b.store.failing = errors.New("input/output error")
		b.store.mu.Unlock()
		id := partitionN(1)
		l.lease(id, 1, "b0", "b0", "b1", "b2")
		require.NoError(t, l.leads(id).write(id, "1", -1))
		require.NotEqual(t, b, l.leads(id))
	})
}

// Who stopped leading writes nothing, though the broker leads again.
func TestAppendOfTheEndedIsRefused(t *testing.T) {
	onLab(t, 1, func(l *lab) {
		id := partitionN(1)
		l.lease(id, 1, "b0", "b0")
		b := l.leads(id)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_, err := b.m.Append(ctx, id, record("late", -1, -1), -1)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, b.write(id, "1", -1))
		require.Equal(t, []string{"1"}, b.payloads(id))
	})
}

func TestQuestions(t *testing.T) {
	onLab(t, 2, func(l *lab) {
		b := l.brokers["b0"]
		b.m.needPeer("b1")
		l.eventually(func() bool { return b.m.peer("b1").up() && l.brokers["b1"].m.peer("b0") != nil }, "linked")
		ctx := context.Background()
		a, err := b.m.Ask(ctx, "b1", 1, []byte("the time"))
		require.NoError(t, err)
		require.Equal(t, "b0 asks the time", string(a))
		a, err = b.m.Ask(ctx, "b0", 1, []byte("itself"))
		require.NoError(t, err)
		require.Equal(t, "b0 asks itself", string(a))
		_, err = b.m.Ask(ctx, "b1", 1, nil)
		require.ErrorContains(t, err, "nothing was asked")
		_, err = b.m.Ask(ctx, "b1", 2, nil)
		require.ErrorContains(t, err, "nobody answers")
		_, err = b.m.Ask(ctx, "b7", 1, nil)
		require.ErrorIs(t, err, ErrNoPeer)
		_, err = b.m.Ask(ctx, "b1", 1, make([]byte, MaxAskBytes+1))
		require.ErrorIs(t, err, ErrTooLarge)
		l.net.SetFaults("b0", "b1", mem.Faults{Silent: true})
		_, err = b.m.Ask(ctx, "b1", 1, []byte("?"))
		require.Error(t, err)
	})
}

func TestAppendRefuses(t *testing.T) {
	onLab(t, 1, func(l *lab) {
		id := partitionN(1)
		l.lease(id, 1, "b0", "b0")
		b := l.leads(id)
		ctx := context.Background()
		_, err := b.m.Append(ctx, id, record("forged copy", -9, 1), 1)
		require.ErrorIs(t, err, ErrBatch)
		_, err = b.m.Append(ctx, id, append(record("a", -1, -1), record("b", -1, -1)...), 1)
		require.ErrorIs(t, err, ErrBatch)
		_, err = b.m.Append(ctx, id, make([]byte, MaxBatchBytes+1), 1)
		require.ErrorIs(t, err, ErrTooLarge)
		_, err = b.m.Append(ctx, partitionN(2), record("a", -1, -1), 1)
		require.ErrorIs(t, err, ErrNotLeader)
		require.NoError(t, b.write(id, "alone", -1))
		require.Equal(t, int64(1), b.m.HighWatermark(id))
		require.Error(t, b.m.SetLeases([]Lease{{Epoch: -1}}))
		require.NoError(t, b.m.Drop(id))
		require.ErrorIs(t, b.write(id, "gone", 1), ErrNotLeader)
	})
}
