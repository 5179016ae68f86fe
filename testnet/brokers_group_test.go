package testnet

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupMember is one consumer of a group and what it holds.
type groupMember struct {
	client *kgo.Client
	stop   context.CancelFunc
	done   chan struct{}

	mu   sync.Mutex
	held map[int32]bool
}

func (m *groupMember) holds() map[int32]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make(map[int32]bool, len(m.held))
	for p := range m.held {
		out[p] = true
	}
	return out
}

// groupRig is a group of consumers of one topic, and what they read together.
type groupRig struct {
	t     *testing.T
	n     *Network
	topic string
	group string

	mu   sync.Mutex
	seen map[string]bool
}

func (g *groupRig) start(ctx context.Context) *groupMember {
	m := &groupMember{held: map[int32]bool{}, done: make(chan struct{})}
	set := func(list map[string][]int32, has bool) {
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, p := range list[g.topic] {
			if has {
				m.held[p] = true
			} else {
				delete(m.held, p)
			}
		}
	}
	m.client = kafkaClient(g.t, g.n, kgo.ConsumerGroup(g.group), kgo.ConsumeTopics(g.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(10*time.Second), kgo.HeartbeatInterval(time.Second), kgo.RebalanceTimeout(15*time.Second), kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, l map[string][]int32) { set(l, true) }),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, l map[string][]int32) { set(l, false) }),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, l map[string][]int32) { set(l, false) }))
	ctx, m.stop = context.WithCancel(ctx)
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			f := m.client.PollFetches(ctx)
			g.mu.Lock()
			f.EachRecord(func(r *kgo.Record) { g.seen[string(r.Value)] = true })
			g.mu.Unlock()
			_ = m.client.CommitUncommittedOffsets(ctx) // a rebalance may refuse it: then others read these again
		}
	}()
	return m
}

// leave ends a member as a consumer that stops does.
func (g *groupRig) leave(m *groupMember) {
	m.stop()
	<-m.done
	m.client.Close()
}

// agree waits until the members share all partitions, none held twice.
func (g *groupRig) agree(members []*groupMember, partitions int) {
	g.t.Helper()
	require.Eventually(g.t, func() bool {
		owners := map[int32]int{}
		for _, m := range members {
			for p := range m.holds() {
				owners[p]++
			}
		}
		for _, n := range owners {
			if n != 1 {
				return false
			}
		}
		return len(owners) == partitions
	}, patience, 200*time.Millisecond)
}

// Members of a group come and go, and the broker that coordinates it dies: they share the partitions, every acknowledged
// record is read, and what they committed stands at the end of every partition.
func TestGroupComesAndGoesWhileItsCoordinatorDies(t *testing.T) {
	const partitions = 24
	members, records := 6, 600
	if os.Getenv("BORNODE_LONG") != "" {
		members, records = 20, 20_000
	}
	n := upNetwork(t, func(s *Spec) { s.Brokers = 3 })
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	admin := kadm.NewClient(kafkaClient(t, n))
	require.Eventually(t, func() bool { return topicMade(ctx, admin, partitions, "demo.shared") }, patience, 200*time.Millisecond)
	g := &groupRig{t: t, n: n, topic: "demo.shared", group: "demo.team", seen: map[string]bool{}}
	producer := kafkaClient(t, n, kgo.DefaultProduceTopic(g.topic), kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(5*time.Millisecond))
	made := 0
	produce := func(count int) {
		var batch []*kgo.Record
		for range count {
			batch = append(batch, &kgo.Record{Key: fmt.Append(nil, made), Value: fmt.Append(nil, made)})
			made++
		}
		require.NoError(t, producer.ProduceSync(ctx, batch...).FirstErr())
	}
	var all []*groupMember
	for range members {
		all = append(all, g.start(ctx))
	}
	produce(records / 3)
	g.agree(all, partitions)

	// Half of them are replaced, and meanwhile the coordinator dies.
	for i := range members / 2 {
		g.leave(all[i])
		all[i] = g.start(ctx)
		if i == 1 {
			produce(records / 3)
			require.NoError(t, n.Kill(ctx, g.coordinator(ctx, admin)))
		}
	}
	produce(records / 3)
	g.agree(all, partitions)
	require.Eventually(t, func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.seen) == made
	}, patience, 200*time.Millisecond, "every acknowledged record is read")

	require.Eventually(t, func() bool {
		ends, err := admin.ListEndOffsets(ctx, g.topic)
		if err != nil || ends.Error() != nil {
			return false
		}
		offsets, err := admin.FetchOffsets(ctx, g.group)
		if err != nil {
			return false
		}
		good := true
		ends.Each(func(e kadm.ListedOffset) {
			o, ok := offsets.Lookup(e.Topic, e.Partition)
			good = good && (e.Offset == 0 || ok && o.At == e.Offset)
		})
		return good
	}, patience, 300*time.Millisecond, "what was committed stands at the end")
	for _, m := range all {
		g.leave(m)
	}
}

// coordinator is the index of the node that coordinates the group.
func (g *groupRig) coordinator(ctx context.Context, admin *kadm.Client) int {
	g.t.Helper()
	var found kadm.FindCoordinatorResponse
	soon(g.t, "the group has a coordinator", func() bool { // its lease may be on the move
		found = admin.FindGroupCoordinators(ctx, g.group)[g.group]
		return found.Err == nil
	})
	at := fmt.Sprintf("%s:%d", found.Host, found.Port)
	for i, x := range g.n.Nodes {
		if x.Broker == at {
			return i
		}
	}
	require.Fail(g.t, "no node is the coordinator", at)
	return 0
}
