package testnet

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/testnet/proxy"
)

const stormTopic = "demo.storm"

// storm is a topic on three brokers with producers that never rest.
type storm struct {
	t     *testing.T
	n     *Network
	ctx   context.Context
	admin *kadm.Client

	stop context.CancelFunc
	wg   sync.WaitGroup

	gate sync.Mutex  // held while the producer of acks=1 rests
	one  *kgo.Client // that producer

	mu    sync.Mutex
	acked map[string]bool         // values
	since map[int32]time.Time     // by partition: when the newest acknowledged record of acks=all had been handed over
	after map[int32]time.Duration // by partition: from the last fault to the first acknowledgement of what was written after it
	fault time.Time
	fails map[string]int // refused records, by error
}

func newStorm(t *testing.T, partitions int32, change ...func(*Spec)) *storm {
	n := upNetwork(t, func(s *Spec) {
		s.Brokers = 3
		overTCP(s)
		for _, f := range change {
			f(s)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	t.Cleanup(cancel)
	s := &storm{t: t, n: n, ctx: ctx, admin: kadm.NewClient(kafkaClient(t, n)), acked: map[string]bool{}, since: map[int32]time.Time{},
		after: map[int32]time.Duration{}, fails: map[string]int{}}
	s.eventually("the topic is made", func() bool { return topicMade(ctx, s.admin, partitions, stormTopic) })
	run, stop := context.WithCancel(ctx)
	s.stop = stop
	s.produce(run, "all", new(sync.Mutex), s.producer(kgo.RequiredAcks(kgo.AllISRAcks())))
	s.one = s.producer(kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	s.produce(run, "one", &s.gate, s.one)
	s.flows(partitions)
	return s
}

func (s *storm) eventually(what string, ok func() bool) {
	s.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	end := time.NewTimer(patience)
	defer end.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end.C:
			s.mu.Lock()
			defer s.mu.Unlock()
			require.FailNow(s.t, "did not happen: "+what, "acknowledged %d, refused %v, since the fault %v", len(s.acked), s.fails, s.after)
		}
	}
}

// producer is a client that gives no record up.
func (s *storm) producer(opts ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	return kafkaClient(s.t, s.n, append([]kgo.Opt{kgo.DefaultProduceTopic(stormTopic), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		kgo.ProducerLinger(0), kgo.RecordRetries(1 << 30), kgo.RecordDeliveryTimeout(2 * time.Minute), kgo.ProduceRequestTimeout(5 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }), kgo.MaxBufferedRecords(2000)}, opts...)...)
}

// produce writes records without end, each to the next partition, until run ends; then it waits for those under way. It
// writes none while another holds the gate.
func (s *storm) produce(run context.Context, kind string, gate sync.Locker, c *kgo.Client) {
	s.wg.Go(func() {
		tick := time.NewTicker(4 * time.Millisecond)
		defer tick.Stop()
		for i := 0; run.Err() == nil; i++ {
			<-tick.C
			value := kind + " " + strconv.Itoa(i)
			given := time.Now()
			gate.Lock()
			c.Produce(s.ctx, &kgo.Record{Value: []byte(value)}, func(r *kgo.Record, err error) { s.answered(kind, value, given, r, err) })
			gate.Unlock()
		}
		if err := c.Flush(s.ctx); err != nil {
			s.t.Errorf("records of %s are still under way: %v", kind, err)
		}
	})
}

func (s *storm) answered(kind, value string, given time.Time, r *kgo.Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.fails[err.Error()]++
		return
	}
	s.acked[value] = true
	if kind != "all" {
		return
	}
	s.since[r.Partition] = given
	if _, known := s.after[r.Partition]; !known && given.After(s.fault) {
		s.after[r.Partition] = time.Since(s.fault)
	}
}

// strike notes the time of a fault and makes it.
func (s *storm) strike(f func()) {
	s.t.Helper()
	f()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = time.Now()
	clear(s.after)
}

// flows waits until records given after the last fault are acknowledged in every partition, and tells the longest time.
func (s *storm) flows(partitions int32) time.Duration {
	s.t.Helper()
	s.eventually("all partitions take records", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.after) == int(partitions)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	worst := time.Duration(0)
	for _, d := range s.after {
		worst = max(worst, d)
	}
	return worst
}

// strikeCopied is strike when everything that was acknowledged is at a majority. It lets no record of acks=1 be written
// meanwhile: one that the disk of its leader alone has is not promised to outlive that disk, nor to be seen without it.
func (s *storm) strikeCopied(partitions int32, f func()) {
	s.t.Helper()
	s.gate.Lock()
	defer s.gate.Unlock()
	require.NoError(s.t, s.one.Flush(s.ctx))
	s.strike(func() {})
	s.flows(partitions) // a partition commits in order
	s.strike(f)
}

// leads gives the index of the node that leads a partition, and of another replica.
func (s *storm) leads(partition int32) (leader, follower int) {
	s.t.Helper()
	leader = -1
	s.eventually("the partition has a leader", func() bool {
		m, err := s.admin.Metadata(s.ctx, stormTopic)
		if err != nil {
			return false
		}
		p := m.Topics[stormTopic].Partitions[partition]
		for _, b := range m.Brokers {
			i := s.node(b.Host, b.Port)
			if b.NodeID == p.Leader {
				leader = i
			} else {
				follower = i
			}
		}
		return leader >= 0
	})
	return leader, follower
}

func (s *storm) node(host string, port int32) int {
	for _, x := range s.n.Nodes {
		if x.Broker == net.JoinHostPort(host, fmt.Sprint(port)) {
			return x.Index
		}
	}
	require.FailNow(s.t, "unknown broker", "%s:%d", host, port)
	return -1
}

// whole waits until no broker lacks anything; those that are named are not looked at.
func (s *storm) whole(but ...int) {
	s.t.Helper()
	s.eventually("all replicas have everything", func() bool {
		for _, x := range s.n.Nodes {
			if x.Broker == "" || slices.Contains(but, x.Index) {
				continue
			}
			for _, name := range []string{"under_replicated_partitions", "taking_over_partitions", "stashed_partitions", "stopped_partitions"} {
				if metric(s.t, x, "bornode_topics_replica_"+name) != 0 {
					return false
				}
			}
		}
		return true
	})
}

// check reads the whole topic: what was acknowledged is there, of the idempotent producer once. Brokers that are named
// are down.
func (s *storm) check(down ...int) {
	s.t.Helper()
	s.stop()
	s.wg.Wait()
	s.whole(down...)
	s.readBack()
}

// readBack reads the whole topic from the leaders that are there, after the producers have ended.
func (s *storm) readBack() {
	s.t.Helper()
	var ends kadm.ListedOffsets
	s.eventually("the leaders tell the ends", func() bool { // a lease may move still
		var err error
		ends, err = s.admin.ListEndOffsets(s.ctx, stormTopic)
		return err == nil && ends.Error() == nil
	})
	left := make(map[int32]int64)
	total := 0
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
		total += int(o.Offset)
	})
	c := kafkaClient(s.t, s.n, kgo.ConsumeTopics(stormTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen := make(map[string]int)
	for len(left) > 0 {
		f := c.PollFetches(s.ctx)
		require.NoError(s.t, s.ctx.Err())
		f.EachRecord(func(r *kgo.Record) {
			seen[string(r.Value)]++
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	lost := 0
	for value := range s.acked {
		if seen[value] == 0 {
			lost++
			if lost < 10 {
				s.t.Errorf("%q was acknowledged and is not there", value)
			}
		}
	}
	doubled := 0
	for value, times := range seen {
		if times > 1 && strings.HasPrefix(value, "all") {
			s.t.Errorf("%q is there %d times", value, times)
		} else if times > 1 {
			doubled++
		}
	}
	s.t.Logf("%d records, %d acknowledged, %d lost, %d of a producer that repeats without an id are there twice; refused: %v", total, len(s.acked), lost, doubled, s.fails)
	require.Zero(s.t, lost)
}

// Whatever happens to brokers, one after the other: acknowledged records are there, once if their producer has an id.
func TestStormOfBrokers(t *testing.T) {
	const partitions = 6
	s := newStorm(t, partitions)
	rounds := 1
	if long() {
		rounds = 4
	}
	for range rounds {
		leader, _ := s.leads(0)
		s.strike(func() { require.NoError(t, s.n.Kill(s.ctx, leader)) })
		t.Logf("leader killed: every partition takes records %v later", s.flows(partitions))
		require.NoError(t, s.n.Restart(s.ctx, leader))
		s.whole()

		_, follower := s.leads(0)
		s.strike(func() { require.NoError(t, s.n.Kill(s.ctx, follower)) })
		t.Logf("another killed: every partition takes records %v later", s.flows(partitions))
		require.NoError(t, s.n.Restart(s.ctx, follower))
		s.whole()

		leader, _ = s.leads(0)
		s.strike(func() {
			var others []int
			for i := range s.n.Nodes {
				if i != leader {
					others = append(others, i)
				}
			}
			require.NoError(t, s.n.Partition(s.ctx, [][]int{{leader}, others}, proxy.Rule{Mode: proxy.BlackHole}))
		})
		t.Logf("leader cut off: every partition takes records %v later", s.flows(partitions))
		require.NoError(t, s.n.Heal(s.ctx))
		s.whole()

		s.strike(func() {
			for i := range 3 {
				require.NoError(t, s.n.Kill(s.ctx, i))
			}
		})
		for i := range 3 {
			require.NoError(t, s.n.Restart(s.ctx, i))
		}
		t.Logf("all killed and started again: every partition takes records %v after the kill", s.flows(partitions))
		s.whole()
	}
	s.check()
}
