package testnet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/oauth"

	"github.com/bornode/bornode/pubsub/token"
)

// tokenOf is the text of an account's token for the network.
func tokenOf(t *testing.T, n *Network, a Account, scope uint8) string {
	tk := token.New(n.ChainID, a.Address, time.Now(), time.Hour, scope)
	require.NoError(t, tk.Sign(a.Private()))
	return tk.String()
}

// brokersTLS trusts the network's brokers.
func brokersTLS(t *testing.T, n *Network) *tls.Config {
	t.Helper()
	c, err := trustTopicsCA(n)
	require.NoError(t, err)
	return c
}

func trustTopicsCA(n *Network) (*tls.Config, error) {
	pem, err := os.ReadFile(n.TopicsCA())
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", n.TopicsCA())
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// createTopics makes topics of the demo tenant, as soon as the ledger knows it.
func createTopics(t *testing.T, n *Network, partitions int32, names ...string) {
	admin := kadm.NewClient(kafkaClient(t, n))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, name := range names {
		require.Eventually(t, func() bool { return topicMade(ctx, admin, partitions, name) }, patience, 200*time.Millisecond, name)
	}
	knownToBrokers(t, n, names...)
}

// knownToBrokers waits until each broker knows topics and who leads them: one that has not seen the final block yet refuses
// what the others take.
func knownToBrokers(t *testing.T, n *Network, names ...string) {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr(name)})
	}
	for _, b := range kafkaClient(t, n).SeedBrokers() {
		soon(t, "a broker knows the topics", func() bool {
			resp, err := req.RequestWith(t.Context(), b)
			return err == nil && !slices.ContainsFunc(resp.Topics, func(x kmsg.MetadataResponseTopic) bool {
				return x.ErrorCode != 0 || slices.ContainsFunc(x.Partitions, func(p kmsg.MetadataResponseTopicPartition) bool { return p.ErrorCode != 0 || p.Leader < 0 })
			})
		})
	}
}

// The clients that people use, each through SASL over TLS, against three brokers.
func TestTopicClients(t *testing.T) {
	n := upNetwork(t, func(s *Spec) {
		s.Brokers = 3
		patientBrokers(s)
	})
	createTopics(t, n, 3, "demo.kcat", "demo.js-plain", "demo.js-oauthbearer", "demo.franz", "demo.errors")
	t.Run("all", func(t *testing.T) {
		t.Run("kcat", func(t *testing.T) { t.Parallel(); kcatClient(t, n) })
		t.Run("franz-go", func(t *testing.T) { t.Parallel(); franzClient(t, n) })
		for _, mechanism := range []string{"plain", "oauthbearer"} {
			t.Run("kafkajs "+mechanism, func(t *testing.T) { t.Parallel(); kafkajsClient(t, n, mechanism) })
		}
		t.Run("refusals", func(t *testing.T) { t.Parallel(); refusals(t, n) })
	})
}

// kcat runs kcat, logged in as the owner of the demo tenant.
func kcat(t *testing.T, n *Network, input string, args ...string) string {
	path, err := exec.LookPath("kcat")
	require.NoError(t, err, "`make deps` installs kcat")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, append([]string{"-b", strings.Join(n.Brokers(), ","), "-X", "security.protocol=SASL_SSL",
		"-X", "ssl.ca.location=" + n.TopicsCA(), "-X", "sasl.mechanism=PLAIN", "-X", "sasl.username=" + n.Accounts[0].Address.Hex(),
		"-X", "sasl.password=" + tokenOf(t, n, n.Accounts[0], token.Data)}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%v\n%s\n%s", args, out.String(), errs.String())
	return out.String()
}

func kcatClient(t *testing.T, n *Network) {
	want := make(map[string]int)
	for _, codec := range []string{"lz4", "zstd"} {
		var lines strings.Builder
		for k := range 200 {
			line := fmt.Sprintf("%s line %d of a few that compress well well well", codec, k)
			lines.WriteString(line + "\n")
			want[line]++
		}
		kcat(t, n, lines.String(), "-P", "-t", "demo.kcat", "-z", codec, "-X", "enable.idempotence=true")
	}
	count := func(out string) map[string]int {
		got := make(map[string]int)
		for line := range strings.Lines(out) {
			got[strings.TrimSpace(line)]++
		}
		return got
	}
	require.Equal(t, want, count(kcat(t, n, "", "-C", "-t", "demo.kcat", "-o", "beginning", "-e", "-q")))
	groupOf := []string{"-q", "-e", "-X", "auto.offset.reset=earliest", "-G", "demo.kcat-readers", "demo.kcat"}
	require.Equal(t, want, count(kcat(t, n, "", groupOf...)))
	kcat(t, n, "one more\n", "-P", "-t", "demo.kcat")
	require.Equal(t, map[string]int{"one more": 1}, count(kcat(t, n, "", groupOf...)), "the group goes on where it was")
}

func franzClient(t *testing.T, n *Network) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	auth := oauth.Auth{Token: tokenOf(t, n, n.Accounts[0], token.Data)}
	connect := func(opts ...kgo.Opt) *kgo.Client {
		c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(n.Brokers()...), kgo.SASL(auth.AsMechanism()), kgo.DialTLSConfig(brokersTLS(t, n))}, opts...)...)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return c
	}
	producer := connect(kgo.DefaultProduceTopic("demo.franz"), kgo.ProducerBatchCompression(kgo.ZstdCompression())) // idempotent by default
	const total = 3000
	for k := range total {
		producer.Produce(ctx, kgo.KeySliceRecord(fmt.Append(nil, k%10), fmt.Append(nil, k)), func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.NoError(t, producer.Flush(ctx))
	seen := make(map[string]bool)
	last := make(map[string]int) // values of a key come in order
	consumer := connect(kgo.ConsumerGroup("demo.franz-readers"), kgo.ConsumeTopics("demo.franz"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for len(seen) < total {
		f := consumer.PollFetches(ctx)
		require.NoError(t, f.Err())
		f.EachRecord(func(r *kgo.Record) {
			var k int
			_, err := fmt.Sscan(string(r.Value), &k)
			require.NoError(t, err)
			require.False(t, seen[string(r.Value)], "record %d came twice", k)
			if before, ok := last[string(r.Key)]; ok {
				require.Greater(t, k, before)
			}
			seen[string(r.Value)], last[string(r.Key)] = true, k
		})
	}
	require.NoError(t, consumer.CommitUncommittedOffsets(ctx))
	lags, err := kadm.NewClient(producer).Lag(ctx, "demo.franz-readers")
	require.NoError(t, err)
	require.NoError(t, lags.Error())
	require.Zero(t, lags["demo.franz-readers"].Lag.Total())
}

func kafkajsClient(t *testing.T, n *Network, mechanism string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "topics.mjs", strings.Join(n.Brokers(), ","), n.TopicsCA(), n.Accounts[0].Address.Hex(),
		"demo.js-"+mechanism, "demo.js-readers-"+mechanism, mechanism)
	cmd.Dir = "clients"
	cmd.Env = append(os.Environ(), "TOKEN="+tokenOf(t, n, n.Accounts[0], token.Data), "FORBIDDEN=other.things")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "topics.mjs; `make deps` installs what it needs\n%s", out)
	require.NotContains(t, string(out), "FAILED kafkajs")
	t.Logf("%s", out)
}
