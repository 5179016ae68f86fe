package testnet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/bornode/bornode/genesis"
	topics "github.com/bornode/bornode/pubsub/client"
	"github.com/bornode/bornode/pubsub/token"
)

// prover is a network whose topics are proved and audited.
type prover struct {
	t     *testing.T
	n     *Network
	p     person
	token string // file
}

// offline runs borcli topic verify in an empty folder that has the genesis file and the file alone.
func (v *prover) offline(genesisFile, file string, args ...string) (out map[string]any, problem string, code int) {
	v.t.Helper()
	dir := v.t.TempDir()
	for from, to := range map[string]string{genesisFile: "genesis.json", file: "file"} {
		b, err := os.ReadFile(from)
		require.NoError(v.t, err)
		require.NoError(v.t, os.WriteFile(filepath.Join(dir, to), b, 0o600))
	}
	program, err := borcli()
	require.NoError(v.t, err)
	cmd := exec.CommandContext(v.t.Context(), program, append([]string{"topic", "verify", "file", "--genesis", "genesis.json", "--json"}, args...)...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "BORCLI_NODE=http://127.0.0.1:1"} // no node answers there
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		require.NotNil(v.t, cmd.ProcessState, "%v", err)
		return nil, stderr.String(), cmd.ProcessState.ExitCode()
	}
	require.NoError(v.t, json.Unmarshal([]byte(stdout.String()), &out), stdout.String())
	return out, "", 0
}

// eventually runs borcli until it succeeds: checkpoints and commits take their interval.
func (v *prover) eventually(good func(out map[string]any) bool, args func() []string) (out map[string]any) {
	v.t.Helper()
	last := ""
	require.Eventually(v.t, func() bool {
		text, problem, code := v.p.run(args()...)
		last = problem
		out = nil
		return code == 0 && json.Unmarshal([]byte(text), &out) == nil && good(out)
	}, patience, 300*time.Millisecond, "borcli %v: %s %v", args(), &last, &out)
	return out
}

// prove writes a proof of records of a topic's only partition.
func (v *prover) prove(topic string, records int) (file string, out map[string]any) {
	v.t.Helper()
	tries := 0
	out = v.eventually(func(out map[string]any) bool { return out["to"].(float64) >= float64(records) }, func() []string {
		tries++
		file = filepath.Join(v.t.TempDir(), fmt.Sprint("proof", tries))
		return []string{"topic", "prove", topic, "0", "0", "--records", fmt.Sprint(records), "--token-file", v.token, "--out", file}
	})
	return file, out
}

// The way of records from a client to a file that anybody can check, on a network of processes.
func TestProofsAndAuditsAreCheckedOffline(t *testing.T) {
	t.Parallel() // with one other network: it mostly waits
	n := governed(t, func(s *Spec) {
		s.Brokers, s.EpochBlocks = 3, 40
		s.Set = append(s.Set, "pubsub.evidence.checkpoint=1s")
		patientBrokers(s)
	})
	createTopics(t, n, 1, "demo.proved", "demo.other")
	v := &prover{t, n, holder(t, n.Accounts[0], n.Nodes[0]), filepath.Join(t.TempDir(), "token")}
	require.NoError(t, os.WriteFile(v.token, []byte(tokenOf(t, n, n.Accounts[0], token.Data)), 0o600))
	const records = 60
	for k := range 3 {
		var lines strings.Builder
		for i := range records / 3 {
			fmt.Fprintf(&lines, "record %d of a few\n", k*records/3+i)
		}
		kcat(t, n, lines.String(), "-P", "-t", "demo.proved", "-z", "lz4")
	}
	kcat(t, n, "something else\n", "-P", "-t", "demo.other")
	v.stranger("demo.proved")
	v.guest("demo.proved")

	file, _ := v.prove("demo.proved", records)
	other, _ := v.prove("demo.other", 1)
	good, problem, _ := v.offline(n.genesisFile(), file)
	require.NotNil(t, good, problem)
	require.Equal(t, true, good["withBytes"])
	require.EqualValues(t, records, good["to"])
	v.refusals(file, other, good["topic"].(string))
	provedConsumer(t, n, records)
	v.afterRetention(t, records)
	v.audit(t)
}

// as is a client of one of the accounts.
func (v *prover) as(who Account, opts ...kgo.Opt) *kgo.Client {
	auth := plain.Auth{User: who.Address.Hex(), Pass: tokenOf(v.t, v.n, who, token.Data)}
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(v.n.Brokers()...), kgo.SASL(auth.AsMechanism()), kgo.DialTLSConfig(brokersTLS(v.t, v.n))}, opts...)...)
	require.NoError(v.t, err)
	v.t.Cleanup(c.Close)
	return c
}

// guest reads by a rule that is taken away afterwards.
func (v *prover) guest(topic string) {
	who := v.n.Accounts[2]
	_, problem, code := v.p.run("topic", "grant", who.Address.Hex(), "read", "--topic", topic)
	require.Zero(v.t, code, problem)
	ctx, cancel := context.WithTimeout(v.t.Context(), patience)
	defer cancel()
	c := v.as(who, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	for got := 0; got == 0; {
		f := c.PollFetches(ctx)
		if err := f.Err0(); !errors.Is(err, kerr.TopicAuthorizationFailed) { // by a broker that has not seen the final block yet
			require.NoError(v.t, err)
		}
		got = f.NumRecords()
	}
	_, problem, code = v.p.run("topic", "revoke", who.Address.Hex(), "read", "--topic", topic)
	require.Zero(v.t, code, problem)
}

// stranger tries to write as an account that no rule allows.
func (v *prover) stranger(topic string) {
	c := v.as(v.n.Accounts[1], kgo.DefaultProduceTopic(topic), kgo.UnknownTopicRetries(1), kgo.DisableIdempotentWrite())
	ctx, cancel := context.WithTimeout(v.t.Context(), patience)
	defer cancel()
	err := c.ProduceSync(ctx, kgo.StringRecord("not mine")).FirstErr()
	require.ErrorIs(v.t, err, kerr.TopicAuthorizationFailed)
}

// refusals: a proof is taken for its own topic and chain alone, and unchanged.
func (v *prover) refusals(file, other, topic string) {
	t := v.t
	_, problem, code := v.offline(v.n.genesisFile(), other, "--topic", topic)
	require.NotZero(t, code)
	require.Contains(t, problem, "is of topic")
	g, err := os.ReadFile(v.n.genesisFile())
	require.NoError(t, err)
	var x map[string]any
	require.NoError(t, json.Unmarshal(g, &x))
	x["genesis_time"] = x["genesis_time"].(float64) - 1000
	foreign := filepath.Join(t.TempDir(), "foreign.json")
	b, err := json.Marshal(x)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(foreign, b, 0o600))
	_, problem, code = v.offline(foreign, file)
	require.NotZero(t, code)
	require.Contains(t, problem, "of the chain with block 0")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	raw[len(raw)-9] ^= 1
	bad := filepath.Join(t.TempDir(), "bad")
	require.NoError(t, os.WriteFile(bad, raw, 0o600))
	_, problem, code = v.offline(v.n.genesisFile(), bad)
	require.NotZero(t, code)
	require.Contains(t, problem, "partition 0")
}

// provedConsumer gets every record, though it delivers only what a checkpoint binds.
func provedConsumer(t *testing.T, n *Network, records int) {
	g, err := genesis.Load(n.genesisFile())
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := topics.Open(ctx, topics.Config{Brokers: n.Brokers(), Node: n.Nodes[0].HTTP, Provers: []string{n.Nodes[1].HTTP}, Genesis: g, Mode: topics.Proved,
		Account: topics.KeySigner(n.Accounts[0].Private()), CA: n.TopicsCA()})
	require.NoError(t, err)
	defer c.Close()
	x, err := c.Consumer(topics.ConsumerConfig{Topics: []string{"demo.proved"}})
	require.NoError(t, err)
	began := time.Now()
	for got := 0; got < records; {
		list, err := x.Records(ctx)
		require.NoError(t, err, "%d of %d records were delivered", got, records)
		got += len(list)
	}
	t.Logf("%d records were delivered with their proofs after %s", records, time.Since(began))
	at, err := x.Proved(ctx, "demo.proved", 0)
	require.NoError(t, err)
	require.EqualValues(t, records, at)
}

// afterRetention: when a broker has given the batches up, their digests are proved all the same.
func (v *prover) afterRetention(t *testing.T, records int) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	admin := kadm.NewClient(kafkaClient(t, v.n))
	var offsets kadm.Offsets
	offsets.Add(kadm.Offset{Topic: "demo.proved", Partition: 0, At: int64(records), LeaderEpoch: -1})
	done, err := admin.DeleteRecords(ctx, offsets)
	require.NoError(t, err)
	require.NoError(t, done.Error())
	file, tries := "", 0
	v.eventually(func(out map[string]any) bool { return out["batches"] == false }, func() []string {
		v.p.at = v.n.Nodes[tries%3] // whoever leads has given them up
		tries++
		file = filepath.Join(t.TempDir(), fmt.Sprint(tries))
		return []string{"topic", "prove", "demo.proved", "0", "0", "--records", fmt.Sprint(records), "--token-file", v.token, "--out", file}
	})
	good, problem, _ := v.offline(v.n.genesisFile(), file)
	require.NotNil(t, good, problem)
	require.Equal(t, false, good["withBytes"])
	require.EqualValues(t, records, good["to"])
}

// audit: what was done and refused is on record, and the file shows it without a node.
func (v *prover) audit(t *testing.T) {
	stranger := strings.ToLower(common.Address(v.n.Accounts[1].Address).Hex())
	file, refused := "", func(out map[string]any) bool {
		for _, o := range out["operations"].([]any) {
			o := o.(map[string]any)
			if o["allowed"] == false && strings.HasSuffix(o["operator"].(string), stranger) {
				return true
			}
		}
		return false
	}
	out := v.eventually(refused, func() []string {
		file = filepath.Join(t.TempDir(), fmt.Sprint(time.Now().UnixNano()))
		return []string{"topic", "audit", "demo.proved", "--last", "0", "--rights", "--genesis", v.n.genesisFile(), "--out", file}
	})
	rights := out["rights"].(map[string]any)
	require.Positive(t, rights["lawful"])
	require.Zero(t, rights["unlawful"])
	require.Zero(t, rights["withheld"])
	require.GreaterOrEqual(t, rights["changes"], 4.0, "of owners and rules")
	require.Equal(t, true, out["proved"])
	require.EqualValues(t, 0, out["before"])
	good, problem, _ := v.offline(v.n.genesisFile(), file, "--topic", out["topic"].(string))
	require.NotNil(t, good, problem)
	require.True(t, refused(good))
	require.Equal(t, out["root"], good["root"])
}
