package testnet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/bornode/bornode/pubsub/token"
	"github.com/bornode/bornode/testnet/proxy"
)

// kafkaClient is a client of a network's brokers: over TLS, with a token of the demo tenant's owner.
func kafkaClient(t *testing.T, n *Network, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	pem, err := os.ReadFile(n.TopicsCA())
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(pem))
	owner := n.Accounts[0]
	tk := token.New(n.ChainID, owner.Address, time.Now(), time.Hour, token.Data|token.Admin)
	require.NoError(t, tk.Sign(owner.Private()))
	auth := plain.Auth{User: owner.Address.Hex(), Pass: tk.String()}
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.Brokers()...), kgo.SASL(auth.AsMechanism()),
		kgo.DialTLSConfig(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}), kgo.MetadataMinAge(100 * time.Millisecond)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// patientBrokers lets a broker stall on a busy machine: for tests that say themselves whom they ask, and end none.
func patientBrokers(s *Spec) { s.Set = append(s.Set, "pubsub.replica.lost=1m") }

// topicNetwork is a network whose first nodes are brokers, with a topic of theirs.
func topicNetwork(t *testing.T, topic string, partitions int32) *Network {
	t.Helper()
	n := upNetwork(t, func(s *Spec) { s.Brokers = 3; overTCP(s) })
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	admin := kadm.NewClient(kafkaClient(t, n))
	require.NoError(t, poll(ctx, func() (bool, error) { return topicMade(ctx, admin, partitions, topic), nil }))
	return n
}

// topicMade reports whether a topic with three replicas is there after it was asked for. What was given up on a busy machine,
// by the broker or the client, may have been done all the same.
func topicMade(ctx context.Context, admin *kadm.Client, partitions int32, topic string) bool {
	_, err := admin.CreateTopic(ctx, partitions, 3, nil, topic) // of the request or of the topic
	return err == nil || errors.Is(err, kerr.TopicAlreadyExists)
}

// writer produces numbered records, one after the other, until it is stopped, and knows which were acknowledged.
type writer struct {
	acked chan map[string]bool
	stop  context.CancelFunc
	count atomic.Int64
}

func startWriter(t *testing.T, n *Network, name, topic string, opts ...kgo.Opt) *writer {
	t.Helper()
	return writeWith(t, kafkaClient(t, n, append(opts, kgo.DefaultProduceTopic(topic))...), name)
}

// writeWith is startWriter with a client that has its topic.
func writeWith(t *testing.T, c *kgo.Client, name string) *writer {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	w := &writer{acked: make(chan map[string]bool, 1), stop: stop}
	go func() {
		acked := make(map[string]bool)
		for i := 0; ctx.Err() == nil; i++ {
			value := fmt.Sprintf("%s-%d", name, i)
			// The record itself is not given up: what is in flight at the end is known one way or the other.
			wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			err := c.ProduceSync(wait, &kgo.Record{Key: []byte(value), Value: []byte(value)}).FirstErr()
			cancel()
			if err == nil {
				acked[value] = true
				w.count.Add(1)
			}
		}
		w.acked <- acked
	}()
	return w
}

// more waits until the writer had another n records acknowledged.
func (w *writer) more(t *testing.T, n int64) {
	t.Helper()
	want := w.count.Load() + n
	require.Eventually(t, func() bool { return w.count.Load() >= want }, patience, 20*time.Millisecond)
}

// check reads the whole topic: every acknowledged record is there, and none twice if once is asked for.
func check(t *testing.T, n *Network, topic string, acked map[string]bool, once bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c := kafkaClient(t, n, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen, missing := make(map[string]int), len(acked)
	for missing > 0 {
		f := c.PollFetches(ctx)
		require.NoError(t, f.Err0(), "%d acknowledged records are missing", missing)
		f.EachRecord(func(r *kgo.Record) {
			if seen[string(r.Value)]++; seen[string(r.Value)] == 1 && acked[string(r.Value)] {
				missing--
			}
		})
	}
	for value, times := range seen {
		require.False(t, once && times > 1, "record %s is there %d times", value, times)
	}
}

// A broker is killed while producers write: every acknowledged record is there, once, and others lead soon.
func TestNothingAcknowledgedIsLostWhenABrokerDies(t *testing.T) {
	n := topicNetwork(t, "demo.orders", 6)
	w := startWriter(t, n, "w", "demo.orders", kgo.RequiredAcks(kgo.AllISRAcks()))
	w.more(t, 100)
	rounds := 1
	if long() {
		rounds = 12
	}
	for i := range rounds {
		require.NoError(t, n.Kill(t.Context(), i%3))
		w.more(t, 100)
		require.NoError(t, n.Restart(t.Context(), i%3))
		w.more(t, 100)
	}
	w.stop()
	check(t, n, "demo.orders", <-w.acked, true)
}

// All nodes are killed at once: what was acknowledged by a majority, and what was by the leader alone, is there again.
func TestNothingAcknowledgedIsLostWhenAllBrokersDie(t *testing.T) {
	n := topicNetwork(t, "demo.orders", 3)
	all := startWriter(t, n, "all", "demo.orders", kgo.RequiredAcks(kgo.AllISRAcks()))
	one := startWriter(t, n, "one", "demo.orders", kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	all.more(t, 100)
	one.more(t, 100)
	for i := range n.Nodes {
		require.NoError(t, n.Kill(t.Context(), i))
	}
	for _, x := range n.Nodes {
		require.NoError(t, n.startNode(x))
	}
	all.more(t, 100)
	one.more(t, 100)
	all.stop()
	one.stop()
	check(t, n, "demo.orders", <-all.acked, false)
	check(t, n, "demo.orders", <-one.acked, false)
}

// A leader that is cut off from the others acknowledges nothing that is lost: it is fenced, and others lead.
func TestACutOffLeaderIsFenced(t *testing.T) {
	n := topicNetwork(t, "demo.orders", 6)
	w := startWriter(t, n, "w", "demo.orders", kgo.RequiredAcks(kgo.AllISRAcks()))
	w.more(t, 50)
	require.NoError(t, n.Partition(t.Context(), [][]int{{0}, {1, 2, 3}}, proxy.Rule{Mode: proxy.BlackHole}))
	w.more(t, 200)
	require.NoError(t, n.Heal(t.Context()))
	w.more(t, 100)
	w.stop()
	check(t, n, "demo.orders", <-w.acked, true)
}
