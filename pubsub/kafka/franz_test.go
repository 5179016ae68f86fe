package kafka

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/bornode/bornode/internal/leaks"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 120*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func client(t testing.TB, r *rig, opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.addr)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// produceAndFetch sends n records and reads them again.
func produceAndFetch(t testing.TB, r *rig, n int, opts ...kgo.Opt) {
	ctx := soon(t)
	cl := client(t, r, append(opts, kgo.ConsumeTopics("acme.a"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.AllowAutoTopicCreation())...)
	for k := range n {
		cl.Produce(ctx, &kgo.Record{Topic: "acme.a", Value: fmt.Appendf(nil, "value %d", k)}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.NoError(t, cl.Flush(ctx))
	for got := 0; got < n; {
		fs := cl.PollFetches(ctx)
		require.NoError(t, fs.Err())
		fs.EachRecord(func(rec *kgo.Record) {
			require.Equal(t, fmt.Sprintf("value %d", got), string(rec.Value))
			require.Equal(t, int64(got), rec.Offset)
			got++
		})
	}
}

func TestFranzProducesAndFetches(t *testing.T) {
	for name, opts := range map[string][]kgo.Opt{
		"plain": {kgo.SASL(plain.Auth{User: "0xabc", Pass: "right"}.AsMechanism())},
		"oauth": {kgo.SASL(oauth.Auth{Token: "right", Zid: "0xabc"}.AsMechanism()), kgo.ProducerBatchCompression(kgo.ZstdCompression())},
		"acks1": {kgo.SASL(plain.Auth{User: "0xabc", Pass: "right"}.AsMechanism()), kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()},
		"acks0": {kgo.SASL(plain.Auth{User: "0xabc", Pass: "right"}.AsMechanism()), kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()},
	} {
		t.Run(name, func(t *testing.T) { produceAndFetch(t, start(t, &passwords{}, nil), 2000, opts...) })
	}
	t.Run("no login needed", func(t *testing.T) { produceAndFetch(t, start(t, nil, nil), 100) })
}

func TestFranzLogsInAgainOnTheSameConnection(t *testing.T) {
	t.Parallel()
	p := &passwords{life: 3 * time.Second}
	r := start(t, p, nil)
	cl := client(t, r, kgo.SASL(plain.Auth{User: "0xabc", Pass: "right"}.AsMechanism()))
	ctx := soon(t)
	for p.count() < 4 { // each is a session that ran out
		require.NoError(t, cl.Ping(ctx))
	}
	require.Empty(t, r.logs.FilterMessageSnippet("closed").All())
}

func TestFranzIsToldWhyItsLoginFailed(t *testing.T) {
	r := start(t, &passwords{}, nil)
	cl := client(t, r, kgo.SASL(plain.Auth{User: "0xabc", Pass: "wrong"}.AsMechanism()), kgo.RetryTimeout(time.Second))
	require.ErrorContains(t, cl.Ping(soon(t)), "that is not the password")
	r.h.admit = func(*Conn, *Session) error { return fmt.Errorf("the tenant has no room") }
	cl = client(t, r, kgo.SASL(plain.Auth{User: "0xabc", Pass: "right"}.AsMechanism()), kgo.RetryTimeout(time.Second))
	require.ErrorContains(t, cl.Ping(soon(t)), "the tenant has no room")
}

func TestFranzAdministers(t *testing.T) {
	r := start(t, nil, nil)
	adm := kadm.NewClient(client(t, r))
	_, err := adm.CreateTopic(soon(t), 1, 1, nil, "acme.b")
	require.NoError(t, err)
	topics, err := adm.ListTopics(soon(t))
	require.NoError(t, err)
	require.Contains(t, topics, "acme.b")
	acls, err := adm.DescribeACLs(soon(t), kadm.NewACLs().AnyResource("acme.b").Allow().AllowHosts().Operations(kadm.OpRead))
	require.NoError(t, err)
	require.ErrorIs(t, acls[0].Err, kerr.ClusterAuthorizationFailed)
	versions, err := adm.ApiVersions(soon(t))
	require.NoError(t, err)
	for _, v := range versions {
		max, ok := v.KeyMaxVersion(0)
		require.True(t, ok)
		require.Equal(t, int16(11), max)
	}
}

func TestFranzOverTLS(t *testing.T) {
	files := newFiles(t)
	r := start(t, &passwords{}, files.configure)
	produceAndFetch(t, r, 100, kgo.DialTLSConfig(&tls.Config{RootCAs: files.pool()}), kgo.SASL(oauth.Auth{Token: "right"}.AsMechanism()))
}
