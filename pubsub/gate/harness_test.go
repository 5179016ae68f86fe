package gate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/internal/leaks"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/gate/gatetest"
	"github.com/bornode/bornode/pubsub/seal"
)

func TestMain(m *testing.M) { leaks.Main(m) }

const patience = 3 * time.Minute

// fakeLedger answers Topics, Keys and Tokens.
type fakeLedger struct {
	mu     sync.Mutex
	topics map[string]Topic
	keys   map[string]seal.Key // topic name / epoch
	down   error
	token  string
	tokens int
}

func (l *fakeLedger) Topic(_ context.Context, name string) (Topic, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t, ok := l.topics[name]
	switch {
	case l.down != nil:
		return t, l.down
	case !ok:
		return t, ErrUnknownTopic
	}
	return t, nil
}

func (l *fakeLedger) Key(_ context.Context, t Topic, epoch uint32) (seal.Key, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k, ok := l.keys[fmt.Sprintf("%s/%d", t.Name, epoch)]
	if !ok {
		return k, &seal.NoKeyError{Topic: t.ID, Epoch: epoch}
	}
	return k, nil
}

func (l *fakeLedger) Token(context.Context) (string, time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tokens++
	return l.token, time.Now().Add(time.Hour), nil
}

func (l *fakeLedger) create(name string, encrypted bool) Topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := Topic{Name: name, ID: crypto.Keccak256Hash([]byte(name)), Encrypted: encrypted, KeyEpoch: 1, Partitions: 2}
	if encrypted {
		l.keys[name+"/1"] = seal.NewKey()
	}
	l.topics[name] = t
	return t
}

func (l *fakeLedger) rotate(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[name]
	t.KeyEpoch++
	l.topics[name] = t
	l.keys[fmt.Sprintf("%s/%d", name, t.KeyEpoch)] = seal.NewKey()
}

// fakeProofs proves what truth says, up to a checkpoint.
type fakeProofs struct {
	mu     sync.Mutex
	truth  map[int64]common.Hash // leaf by base offset, of partition 0
	upTo   int64
	err    error // of Check, where nothing is proved
	doubts []Doubt
}

func (p *fakeProofs) Doubts(context.Context) []Doubt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.doubts
}

func (p *fakeProofs) Leaf(topic common.Hash, partition int32, h batch.Header, covered []byte) common.Hash {
	return sha256.Sum256(append(fmt.Appendf(nil, "%s %d %d", topic, partition, h.BaseOffset), covered...))
}

func (p *fakeProofs) Check(_ context.Context, t Topic, partition int32, run []Leaf) (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to := run[0].Base
	for _, l := range run {
		if l.Next > p.upTo {
			return to, p.err
		}
		if p.truth[l.Base] != l.Hash {
			return to, &TamperError{Topic: t.Name, Partition: partition, Offset: l.Base, What: Unproved}
		}
		to = l.Next
	}
	return to, nil
}

// checkpoint makes what the broker has of partition 0 the truth.
func (p *fakeProofs) checkpoint(b *gatetest.Broker, t Topic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.truth = map[int64]common.Hash{}
	for _, raw := range b.Batches(t.Name, 0) {
		h, _, _ := batch.ParseHeader(raw)
		p.truth[h.BaseOffset] = p.Leaf(t.ID, 0, h, batch.Covered(raw))
		p.upTo = h.NextOffset()
	}
}

// rig is an engine in front of a broker.
type rig struct {
	*testing.T
	broker *gatetest.Broker
	ledger *fakeLedger
	proofs *fakeProofs
	engine *Engine
	ctx    context.Context
	failed chan error
	reg    *prometheus.Registry
}

// figure is the sum of a metric over its labels.
func (r *rig) figure(name string) (sum float64) {
	r.Helper()
	all, err := r.reg.Gather()
	require.NoError(r, err)
	for _, f := range all {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func newRig(t *testing.T, change ...func(*Config)) *rig {
	t.Helper()
	b, err := gatetest.New(2, ReceiptTag)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	r := &rig{T: t, broker: b, ledger: &fakeLedger{topics: map[string]Topic{}, keys: map[string]seal.Key{}, token: "secret"}, proofs: &fakeProofs{},
		failed: make(chan error, 1000), reg: prometheus.NewRegistry()}
	b.Lock()
	b.Token = "secret"
	b.Unlock()
	cfg := Config{Chain: common.Hash{1}, Topics: r.ledger, Keys: r.ledger, Tokens: r.ledger, Proofs: r.proofs, Metrics: r.reg,
		Failed: func(_ string, _ int32, err error) { r.failed <- err }}
	for _, f := range change {
		f(&cfg)
	}
	r.engine, err = New(cfg)
	require.NoError(t, err)
	t.Cleanup(r.engine.Close)
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return r
}

func (r *rig) topic(name string, encrypted bool) Topic {
	r.broker.Create(name, 2)
	return r.ledger.create(name, encrypted)
}

// client is a Kafka client through the engine, all of it on partition 0.
func (r *rig) client(opts ...kgo.Opt) *kgo.Client {
	r.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(r.broker.Addrs()...), kgo.Dialer(r.engine.Dial), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.FetchMaxWait(500 * time.Millisecond), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	require.NoError(r, err)
	r.Cleanup(c.Close)
	return c
}

func (r *rig) produce(c *kgo.Client, topic string, values ...string) {
	r.Helper()
	for _, v := range values { // each in a batch of its own
		require.NoError(r, c.ProduceSync(r.ctx, &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr())
	}
}

// consume reads n values of partition 0 from an offset.
func (r *rig) consume(topic string, from int64, n int) (values []string) {
	r.Helper()
	c := r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().At(from)}}))
	defer c.Close()
	for len(values) < n {
		f := c.PollFetches(r.ctx)
		require.NoError(r, r.ctx.Err(), "got %v", values)
		f.EachRecord(func(rec *kgo.Record) { values = append(values, string(rec.Value)) })
	}
	return values
}

func (r *rig) failure() error {
	r.Helper()
	select {
	case err := <-r.failed:
		return err
	case <-r.ctx.Done():
		require.Fail(r, "nothing failed")
	}
	return nil
}

// tampering waits for a TamperError and checks what it names.
func (r *rig) tampering(what string, offset int64) {
	r.Helper()
	var tampered *TamperError
	err := r.failure()
	require.True(r, errors.As(err, &tampered), "%v", err)
	require.Equal(r, what, tampered.What)
	require.Equal(r, offset, tampered.Offset)
	require.Equal(r, int32(0), tampered.Partition)
}
