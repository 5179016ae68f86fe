package testnet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/token"
)

const crowdTopic = "demo.crowd"

// resident is the memory of a node's process now and at most since it began, in MiB.
func resident(t *testing.T, x *Node) (now, most int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", x.Process.PID))
	require.NoError(t, err)
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.Atoi(f[1])
		switch f[0] {
		case "VmRSS:":
			now = n >> 10
		case "VmHWM:":
			most = n >> 10
		}
	}
	require.NotZero(t, now)
	return now, most
}

// crowdNetwork has a topic with one partition, and the node that leads it.
func crowdNetwork(t *testing.T, set ...string) (*Network, *Node) {
	n := upNetwork(t, func(s *Spec) {
		s.Brokers = 3
		s.Set = append(s.Set, set...)
		overTCP(s)
		patientBrokers(s)
	})
	admin := kadm.NewClient(kafkaClient(t, n))
	soon(t, "the topic is made", func() bool { return topicMade(t.Context(), admin, 1, crowdTopic) })
	knownToBrokers(t, n, crowdTopic)
	var leader *Node
	soon(t, "the topic has a leader", func() bool {
		m, err := admin.Metadata(t.Context(), crowdTopic)
		if err != nil {
			return false
		}
		for _, b := range m.Brokers {
			if b.NodeID == m.Topics[crowdTopic].Partitions[0].Leader {
				for _, x := range n.Nodes {
					if x.Broker == net.JoinHostPort(b.Host, fmt.Sprint(b.Port)) {
						leader = x
					}
				}
			}
		}
		return leader != nil
	})
	require.NoError(t, kafkaClient(t, n).ProduceSync(t.Context(), &kgo.Record{Topic: crowdTopic, Value: []byte("first")}).FirstErr()) // it is in office
	return n, leader
}

// produce writes a batch and gives its offset.
func (c *direct) produce(records []byte) (int64, error) {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 60_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: crowdTopic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: records}}}}
	p := c.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if p.ErrorCode != 0 {
		return 0, fmt.Errorf("produce: error %d", p.ErrorCode)
	}
	return p.BaseOffset, nil
}

func fetchFrom(offset int64, most int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 12, 10_000, 1, most
	p := kmsg.NewFetchRequestTopicPartition()
	p.CurrentLeaderEpoch, p.FetchOffset, p.PartitionMaxBytes = -1, offset, most
	req.Topics = []kmsg.FetchRequestTopic{{Topic: crowdTopic, Partitions: []kmsg.FetchRequestTopicPartition{p}}}
	return req
}

// A thousand clients at once, each with a connection of its own, write and read back what they wrote; the leader needs a
// bounded amount of memory for each.
func TestAThousandConnectionsAtOnce(t *testing.T) {
	const clients, perClient = 1000, 256 << 10 // bytes of the leader for each
	n, leader := crowdNetwork(t)
	before, _ := resident(t, leader)
	secret := tokenOf(t, n, n.Accounts[0], token.Data)
	conns := make([]*direct, clients)
	started := time.Now()
	var g errgroup.Group
	g.SetLimit(32)
	for i := range conns {
		g.Go(func() error {
			c, code := connect(t, n, leader.Broker, n.Accounts[0].Address.Hex(), secret)
			if conns[i] = c; code != 0 {
				return fmt.Errorf("login: error %d", code)
			}
			return nil
		})
	}
	require.NoError(t, g.Wait())
	require.False(t, slices.Contains(conns, nil))
	require.GreaterOrEqual(t, metric(t, leader, "bornode_topics_kafka_connections"), float64(clients))
	idle, _ := resident(t, leader)
	t.Logf("%d connections logged in within %v", clients, time.Since(started).Round(time.Millisecond))

	rounds := 4
	if long() {
		rounds = 40
	}
	var mu sync.Mutex
	var waits []time.Duration
	started = time.Now()
	var all errgroup.Group // no limit: all at once
	for i, c := range conns {
		all.Go(func() error {
			for r := range rounds {
				mine := batch.Encode(batch.Header{Count: 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, FirstTimestamp: 1, MaxTimestamp: 1},
					oneRecord(bytes.Repeat([]byte{byte(i), byte(i >> 8), byte(r)}, 300)))
				sum := slices.Clone(batch.Covered(mine))
				given := time.Now()
				at, err := c.produce(mine)
				took := time.Since(given)
				if err != nil {
					return err
				}
				mu.Lock()
				waits = append(waits, took)
				mu.Unlock()
				got := c.ask(fetchFrom(at, 1)).(*kmsg.FetchResponse).Topics[0].Partitions[0]
				if got.ErrorCode != 0 || len(got.RecordBatches) == 0 || !bytes.Equal(batch.Covered(got.RecordBatches), sum) {
					return fmt.Errorf("offset %d: error %d, %d bytes that are not what was written", at, got.ErrorCode, len(got.RecordBatches))
				}
			}
			return nil
		})
	}
	require.NoError(t, all.Wait())
	slices.Sort(waits)
	_, most := resident(t, leader)
	t.Logf("%d records written and read back in %v, acknowledged within %v (median), %v (99 of 100); leader's memory: %d MiB before, %d with all connections, %d at most",
		len(waits), time.Since(started).Round(time.Millisecond), waits[len(waits)/2], waits[len(waits)*99/100], before, idle, most)
	require.Less(t, most-before, clients*perClient>>20, "memory for %d connections", clients)
}

// Consumers that ask and do not read cost a bounded amount of memory and are sent away in the end; others read on.
func TestSlowConsumersHoldNobodyUp(t *testing.T) {
	const slow, records, size = 48, 256, 128 << 10
	const allowed = 256 // MiB of the leader
	n, leader := crowdNetwork(t, "pubsub.kafka.answer_memory=67108864", "pubsub.kafka.frame_timeout=5s")
	lazy := n.Accounts[1]
	holder(t, n.Accounts[0], n.Nodes[3]).does(nil, "topic", "grant", lazy.Address.Hex(), "read,describe", "--topic", crowdTopic)
	writer := kafkaClient(t, n, kgo.DefaultProduceTopic(crowdTopic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := bytes.Repeat([]byte("slow"), size/4)
	for range records / 64 {
		var some []*kgo.Record
		for range 64 {
			some = append(some, &kgo.Record{Value: value})
		}
		require.NoError(t, writer.ProduceSync(t.Context(), some...).FirstErr())
	}
	before, _ := resident(t, leader)
	closed := metric(t, leader, "bornode_topics_kafka_closed_total")
	var conns []*direct
	for range slow {
		c, code := connect(t, n, leader.Broker, lazy.Address.Hex(), tokenOf(t, n, lazy, token.Data))
		require.Zero(t, code)
		conns = append(conns, c)
	}
	for _, c := range conns {
		for i := range 40 {
			_, err := c.Write(kmsg.NewRequestFormatter().AppendRequest(nil, fetchFrom(int64(i), 4<<20), int32(i)))
			if err != nil {
				break // as many as the broker and the socket take
			}
		}
	}
	started := time.Now()
	reader := kafkaClient(t, n, kgo.ConsumeTopics(crowdTopic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for got := 0; got < records; {
		f := reader.PollFetches(t.Context())
		require.NoError(t, f.Err0())
		got += f.NumRecords()
	}
	took := time.Since(started)
	require.NoError(t, writer.ProduceSync(t.Context(), &kgo.Record{Value: []byte("one more")}).FirstErr())
	require.Eventually(t, func() bool {
		return metric(t, leader, "bornode_topics_kafka_closed_total")-closed >= slow
	}, patience, 200*time.Millisecond, "they are not sent away")
	gone := time.Since(started)
	_, most := resident(t, leader)
	t.Logf("%d consumers that do not read: another one read %d MiB in %v; they were sent away after %v; leader's memory: %d MiB before, %d at most",
		slow, records*size>>20, took, gone, before, most)
	require.Less(t, most-before, allowed)
	for _, c := range conns {
		_, err := io.Copy(io.Discard, c)
		require.False(t, errors.Is(err, os.ErrDeadlineExceeded), "a connection is still open")
	}
}
