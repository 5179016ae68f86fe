package testnet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/bornode/bornode/pubsub/token"
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

// A broker is killed while producers write: every acknowledged record is there, once, and others lead soon.
func TestNothingAcknowledgedIsLostWhenABrokerDies(t *testing.T) {
	n := upNetwork(t, func(s *Spec) { s.Brokers = 3 })
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	admin := kadm.NewClient(kafkaClient(t, n))
	var made kadm.CreateTopicResponse
	require.Eventually(t, func() bool {
		made, _ = admin.CreateTopic(ctx, 6, 3, nil, "demo.orders")
		return made.Err == nil
	}, time.Minute, 200*time.Millisecond)
	producer := kafkaClient(t, n, kgo.DefaultProduceTopic("demo.orders"), kgo.RequiredAcks(kgo.AllISRAcks()))
	acked := make(map[string]bool)
	worst := time.Duration(0)
	produce := func(from, to int) {
		for i := from; i < to; i++ {
			value := fmt.Sprint(i)
			begun := time.Now()
			require.NoError(t, producer.ProduceSync(ctx, &kgo.Record{Key: []byte(value), Value: []byte(value)}).FirstErr())
			worst = max(worst, time.Since(begun))
			acked[value] = true
		}
	}
	produce(0, 200)
	require.NoError(t, n.Kill(ctx, 1))
	produce(200, 400)
	t.Logf("longest wait for an acknowledgement while a broker died: %v", worst)
	require.NoError(t, n.Restart(ctx, 1))
	produce(400, 500)
	consumer := kafkaClient(t, n, kgo.ConsumerGroup("demo.readers"), kgo.ConsumeTopics("demo.orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	seen := make(map[string]int)
	for len(seen) < len(acked) {
		f := consumer.PollFetches(ctx)
		require.NoError(t, f.Err0())
		f.EachRecord(func(r *kgo.Record) { seen[string(r.Value)]++ })
	}
	for value, times := range seen {
		require.Equal(t, 1, times, "record %s", value)
		require.True(t, acked[value])
	}
}
