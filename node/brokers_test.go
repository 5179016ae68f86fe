package node

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/loopback"
	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/token"
)

// stand is a network of one producer that serves topics, with a tenant "acme" and its owner.
type stand struct {
	t     *testing.T
	cfg   *config.Config
	n     *Node
	admin *ecdsa.PrivateKey
	owner *ecdsa.PrivateKey
	addr  string
	stop  func()
}

const standChain = 4711

func newStand(t *testing.T) *stand {
	t.Helper()
	dir := t.TempDir()
	keys, err := MakeKeys(dir, true, standChain)
	require.NoError(t, err)
	s := &stand{t: t, addr: freeAddr(t)}
	s.admin, s.owner = newKey(t), newKey(t)
	g, err := genesis.New(genesis.Options{
		ChainID: standChain, GenesisTime: uint64(time.Now().Unix()), Slot: 100 * time.Millisecond, TurnSlots: 2, //nolint:gosec // after 1970
		Producers: []genesis.Producer{{Account: keys.Account, BLSKey: [48]byte(keys.BLSKey), Proof: [96]byte(keys.Proof)}},
		Members:   []genesis.Member{{PeerID: keys.PeerID, Account: keys.Account, Roles: genesis.RoleProducer | genesis.RoleBroker}},
		Admin:     addressOf(s.admin),
		Alloc:     map[common.Address]*big.Int{keys.Account: big.NewInt(1e18), addressOf(s.admin): big.NewInt(1e18)},
	})
	require.NoError(t, err)
	require.NoError(t, g.Write(filepath.Join(dir, GenesisFile)))
	s.configure(dir)
	s.cfg.Consensus.NewKey = true
	return s
}

// configure sets the stand to a folder with keys and genesis.
func (s *stand) configure(dir string) {
	s.t.Helper()
	c := config.Default()
	c.DataDir, c.Genesis, c.Keys.Producer = dir, GenesisFile, ProducerFile
	c.RPC.HTTPAddr, c.RPC.WSAddr, c.RPC.IPCPath = "127.0.0.1:0", "", ""
	c.P2P.TCP.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	c.PubSub.Enabled, c.PubSub.Advertise, c.PubSub.OffsetReplicas = true, s.addr, 1
	c.PubSub.Kafka.Listen = []string{"plain://" + s.addr}
	require.NoError(s.t, c.Validate())
	s.cfg = c
}

// freeAddr is where nobody listens before the broker does.
func freeAddr(t *testing.T) string {
	t.Helper()
	at, err := loopback.FreeAddr()
	require.NoError(t, err)
	return at.String()
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	k, err := crypto.GenerateKey()
	require.NoError(t, err)
	return k
}

func addressOf(k *ecdsa.PrivateKey) common.Address { return crypto.PubkeyToAddress(k.PublicKey) }

// start runs the node until stop or the test's end.
func (s *stand) start() {
	s.t.Helper()
	n, err := New(s.t.Context(), s.cfg, zaptest.NewLogger(s.t, zaptest.Level(zap.WarnLevel)), telemetry.NewRegistry())
	require.NoError(s.t, err)
	s.n = n
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		require.NoError(s.t, <-ended)
	}
	s.t.Cleanup(s.stop)
	s.cfg.Consensus.NewKey = false
}

// until waits for a condition.
func (s *stand) until(what string, ok func() bool) {
	s.t.Helper()
	require.Eventually(s.t, ok, patience, 20*time.Millisecond, what)
}

// tenant makes the tenant as the network's admin.
func (s *stand) tenant(name string, bytesPerSecond uint64, connections uint32) {
	s.t.Helper()
	data, err := contracts.SetTenantCall(contracts.Tenant{Name: name, Owner: addressOf(s.owner), BytesPerSecond: bytesPerSecond,
		Connections: connections, Topics: 100, Partitions: 1000})
	require.NoError(s.t, err)
	to := contracts.MembersAddress
	tx, err := types.SignNewTx(s.admin, types.LatestSignerForChainID(big.NewInt(standChain)), &types.DynamicFeeTx{ChainID: big.NewInt(standChain),
		Nonce: s.n.pool.Nonce(addressOf(s.admin)), GasFeeCap: big.NewInt(100), GasTipCap: new(big.Int), Gas: 2_000_000, To: &to, Data: data})
	require.NoError(s.t, err)
	require.NoError(s.t, s.n.pool.Add([]*types.Transaction{tx}, true)[0])
	s.until("the tenant is on the chain", func() bool {
		v := s.n.brokers.mirror.View()
		return v != nil && v.Tenant(name) != nil && v.Topic("_bps.offsets") != nil
	})
}

func (s *stand) token(key *ecdsa.PrivateKey, scope uint8) string {
	s.t.Helper()
	tk := token.New(standChain, addressOf(key), time.Now(), time.Hour, scope)
	require.NoError(s.t, tk.Sign(key))
	return tk.String()
}

func (s *stand) client(key *ecdsa.PrivateKey, scope uint8, opts ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	auth := plain.Auth{User: addressOf(key).Hex(), Pass: s.token(key, scope)}
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.addr), kgo.SASL(auth.AsMechanism()), kgo.MetadataMinAge(100 * time.Millisecond)}, opts...)...)
	require.NoError(s.t, err)
	s.t.Cleanup(c.Close)
	return c
}

func (s *stand) ctx() context.Context {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	s.t.Cleanup(cancel)
	return ctx
}

// What a Kafka client writes is there after a restart, in order and once, and groups go on where they were.
func TestABrokerServesKafkaClients(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.start()
	s.tenant("acme", 1<<30, 100)
	ctx := s.ctx()
	admin := kadm.NewClient(s.client(s.owner, token.Admin|token.Data))
	made, err := admin.CreateTopic(ctx, 4, 1, nil, "acme.orders")
	require.NoError(t, err)
	require.NoError(t, made.Err)
	producer := s.client(s.owner, token.Data, kgo.DefaultProduceTopic("acme.orders"))
	records := 500
	if testing.Short() {
		records = 100
	}
	for i := range records {
		r := &kgo.Record{Key: fmt.Appendf(nil, "k%d", i%7), Value: fmt.Appendf(nil, "%d", i)}
		require.NoError(t, producer.ProduceSync(ctx, r).FirstErr())
	}
	s.consume(ctx, "acme.readers", records)
	s.stop()
	s.start()
	s.until("the broker is back", func() bool { return s.n.brokers.mirror.View() != nil })
	producer = s.client(s.owner, token.Data, kgo.DefaultProduceTopic("acme.orders"))
	require.NoError(t, producer.ProduceSync(ctx, kgo.StringRecord("after")).FirstErr())
	s.consume(ctx, "acme.readers", 1)
	s.consume(ctx, "acme.others", records+1)
}

// consume reads exactly want records with a group and commits them.
func (s *stand) consume(ctx context.Context, group string, want int) {
	s.t.Helper()
	c := s.client(s.owner, token.Data, kgo.ConsumerGroup(group), kgo.ConsumeTopics("acme.orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit())
	seen := make(map[string]bool)
	for len(seen) < want {
		f := c.PollFetches(ctx)
		require.NoError(s.t, f.Err0())
		f.EachError(func(topic string, p int32, err error) { s.t.Errorf("%s %d: %v", topic, p, err) })
		f.EachRecord(func(r *kgo.Record) {
			place := fmt.Sprintf("%d/%d", r.Partition, r.Offset)
			require.False(s.t, seen[place], place)
			seen[place] = true
		})
		require.False(s.t, s.t.Failed())
	}
	require.NoError(s.t, c.CommitUncommittedOffsets(ctx))
	require.Len(s.t, seen, want)
	c.Close()
}

// A stranger learns nothing: neither which topics there are nor what is in them.
func TestABrokerRefusesStrangers(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.start()
	s.tenant("acme", 1<<30, 100)
	ctx := s.ctx()
	admin := kadm.NewClient(s.client(s.owner, token.Admin|token.Data))
	made, err := admin.CreateTopic(ctx, 1, 1, nil, "acme.orders")
	require.NoError(t, err)
	require.NoError(t, made.Err)
	stranger := s.client(newKey(t), token.Admin|token.Data)
	other := kadm.NewClient(stranger)
	list, err := other.ListTopics(ctx)
	require.NoError(t, err)
	require.Empty(t, list)
	for _, name := range []string{"acme.orders", "acme.none"} {
		_, err = other.ListTopics(ctx, name)
		require.ErrorIs(t, err, kerr.TopicAuthorizationFailed, name)
	}
	made, _ = other.CreateTopic(ctx, 1, 1, nil, "acme.mine")
	require.ErrorIs(t, made.Err, kerr.TopicAuthorizationFailed)
	without := kadm.NewClient(s.client(s.owner, token.Data))
	made, _ = without.CreateTopic(ctx, 1, 1, nil, "acme.mine")
	require.ErrorIs(t, made.Err, kerr.ClusterAuthorizationFailed)
	gone, err := without.DeleteTopic(ctx, "acme.orders")
	require.Error(t, err)
	require.ErrorIs(t, gone.Err, kerr.ClusterAuthorizationFailed)
	forged, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.SASL(plain.Auth{User: addressOf(s.owner).Hex(), Pass: s.token(newKey(t), token.Data)}.AsMechanism()))
	require.NoError(t, err)
	defer forged.Close()
	require.ErrorIs(t, forged.Ping(ctx), kerr.SaslAuthenticationFailed)
}

// throttled counts how often brokers told a client to wait.
type throttled struct{ atomic.Int64 }

func (t *throttled) OnBrokerThrottle(kgo.BrokerMetadata, time.Duration, bool) { t.Add(1) }

// A tenant that writes more than it may is slowed down to its rate, and loses nothing.
func TestATenantIsHeldToItsRate(t *testing.T) {
	if testing.Short() {
		return // it waits for seconds, as it should
	}
	t.Parallel()
	s := newStand(t)
	s.start()
	const rate = 50_000
	s.tenant("acme", rate, 100)
	ctx := s.ctx()
	made, err := kadm.NewClient(s.client(s.owner, token.Admin|token.Data)).CreateTopic(ctx, 1, 1, nil, "acme.orders")
	require.NoError(t, err)
	require.NoError(t, made.Err)
	told := new(throttled)
	// Several clients send all they have at once: the rate is exceeded also where single writes are slower than it.
	const writers, each, size = 4, 8, 10_000
	const records = writers * each
	var g errgroup.Group
	for range writers {
		producer := s.client(s.owner, token.Data, kgo.DefaultProduceTopic("acme.orders"), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.WithHooks(told))
		g.Go(func() error {
			var all []*kgo.Record
			for range each {
				all = append(all, kgo.SliceRecord(make([]byte, size)))
			}
			return producer.ProduceSync(ctx, all...).FirstErr()
		})
	}
	require.NoError(t, g.Wait())
	require.NotZero(t, told.Load(), "six seconds' worth were never held back")
	s.consume(ctx, "acme.readers", records)
}

// A tenant's connections end where its number does; another connection finds room when one closes.
func TestATenantHasItsConnections(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.start()
	s.tenant("acme", 1<<30, 2)
	ctx := s.ctx()
	made, err := kadm.NewClient(s.client(s.owner, token.Admin|token.Data)).CreateTopic(ctx, 1, 1, nil, "acme.orders")
	require.NoError(t, err)
	require.NoError(t, made.Err)
	first := s.client(s.owner, token.Data, kgo.DefaultProduceTopic("acme.orders"))
	second := s.client(s.owner, token.Data, kgo.DefaultProduceTopic("acme.orders"))
	require.NoError(t, first.ProduceSync(ctx, kgo.StringRecord("1")).FirstErr())
	require.NoError(t, second.ProduceSync(ctx, kgo.StringRecord("2")).FirstErr())
	third := s.client(s.owner, token.Data, kgo.DefaultProduceTopic("acme.orders"), kgo.RecordRetries(1))
	require.ErrorIs(t, third.ProduceSync(ctx, kgo.StringRecord("3")).FirstErr(), kerr.ThrottlingQuotaExceeded)
	first.Close()
	fourth := s.client(s.owner, token.Data, kgo.DefaultProduceTopic("acme.orders"))
	require.NoError(t, fourth.ProduceSync(ctx, kgo.StringRecord("4")).FirstErr())
}

// What was written is proved by a checkpoint on the chain after a while.
func TestWhatIsWrittenIsProved(t *testing.T) {
	t.Parallel()
	s := newStand(t)
	s.cfg.PubSub.Evidence.Checkpoint = 200 * time.Millisecond
	s.start()
	s.tenant("acme", 1<<30, 100)
	ctx := s.ctx()
	made, err := kadm.NewClient(s.client(s.owner, token.Admin|token.Data)).CreateTopic(ctx, 2, 1, nil, "acme.orders")
	require.NoError(t, err)
	require.NoError(t, made.Err)
	producer := s.client(s.owner, token.Data, kgo.DefaultProduceTopic("acme.orders"))
	r, err := producer.ProduceSync(ctx, kgo.StringRecord("proved")).First()
	require.NoError(t, err)
	id := evidence.ID{Topic: s.n.brokers.mirror.View().Topic("acme.orders").ID, Partition: r.Partition}
	s.until("a final checkpoint covers the record", func() bool {
		p, err := s.n.brokers.evidence.Prove(id, r.Offset, r.Offset+1, true)
		return err == nil && len(p.Batches) > 0
	})
	require.Empty(t, s.n.brokers.evidence.Alarms())
}

// A broker that cannot open leaves nothing behind.
func TestAFailedBrokerLeavesNothing(t *testing.T) {
	s := newStand(t)
	warm, _ := open(t, s.cfg)
	require.NoError(t, warm.close())
	before := runtime.NumGoroutine()
	l, err := net.Listen("tcp", s.addr)
	require.NoError(t, err)
	_, err = New(t.Context(), s.cfg, zap.NewNop(), telemetry.NewRegistry())
	require.ErrorContains(t, err, "address already in use")
	require.NoError(t, l.Close())
	goroutines(t, before)
	again, _ := open(t, s.cfg)
	require.NoError(t, again.close())
	goroutines(t, before)
}

// A store of topics that cannot be opened costs the node its broker; blocks go on.
func TestANodeWithoutItsTopicsMakesBlocks(t *testing.T) {
	s := newStand(t)
	dir := filepath.Join(s.cfg.Path(s.cfg.PubSub.Dir), s.cfg.PubSub.Store.Dir)
	require.NoError(t, os.MkdirAll(filepath.Dir(dir), 0o700))
	require.NoError(t, os.WriteFile(dir, nil, 0o600)) // where a folder belongs
	s.start()
	require.Nil(t, s.n.brokers)
	s.until("blocks are final", func() bool { return s.n.chain.FinalHeader().Number.Uint64() > 3 })
	all, err := s.n.reg.Gather()
	require.NoError(t, err)
	for _, f := range all {
		if f.GetName() == "bornode_topics_broker_off_state" {
			require.Equal(t, 1.0, f.GetMetric()[0].GetGauge().GetValue())
			return
		}
	}
	require.Fail(t, "no metric says it")
}
