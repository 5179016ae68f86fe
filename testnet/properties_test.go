package testnet

import (
	"bytes"
	"context"
	bin "encoding/binary"
	"hash/crc32"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	bps "github.com/bornode/bornode/pubsub/client"
)

// propertyTenants are the tenants of TestProperties, one for each property, so that they can be shown at the same time.
// Account 1 owns the first, account 2 the second, and so on.
var propertyTenants = []string{"private", "secret", "rights", "small", "large", "proved", "steady", "stubborn", "spread"}

// propertiesWindow is how long equal operations become one entry.
const propertiesWindow = 300 * time.Millisecond

// properties is the network on which the promises of the topic log are shown.
type properties struct {
	*Network
	ctx  context.Context
	gen  *genesis.Genesis
	eth  *ethclient.Client // of node 0
	used atomic.Int32      // accounts given out
}

// The eight properties of the topic log, on five producers of which three are brokers. Those that need a machine to fail
// come first, one after the other; they leave the network whole. The others share it.
func TestProperties(t *testing.T) {
	p := newProperties(t)
	t.Run("Performance", p.performance)
	t.Run("TamperResistance", p.tamperResistance)
	t.Run("DecentralisedSecurity", p.decentralisedSecurity)
	for _, s := range []struct {
		name string
		show func(*testing.T)
	}{
		{"Confidentiality", p.confidentiality}, {"Anonymity", p.anonymity}, {"Authorisation", p.authorisation},
		{"IntegrityVerification", p.integrityVerification}, {"MultiTenantIsolation", p.multiTenantIsolation},
	} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.show(t)
		})
	}
}

func newProperties(t *testing.T) *properties {
	t.Helper()
	n := governed(t, func(s *Spec) {
		s.Producers, s.Brokers = 5, 3
		overTCP(s)
		// Single requests go to who leads, which does not change when a broker stalls for a moment.
		s.Set = append(s.Set, "pubsub.evidence.checkpoint=1s", "pubsub.evidence.window="+propertiesWindow.String(), "pubsub.replica.lost=5s")
	})
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	t.Cleanup(cancel)
	p := &properties{Network: n, ctx: ctx}
	p.used.Store(int32(len(propertyTenants) + 1))
	var err error
	p.gen, err = genesis.Load(n.genesisFile())
	require.NoError(t, err)
	p.eth, err = ethclient.DialContext(ctx, n.Nodes[0].HTTP)
	require.NoError(t, err)
	t.Cleanup(p.eth.Close)
	for i, name := range propertyTenants {
		x := contracts.Tenant{Name: name, Owner: n.Accounts[i+1].Address, BytesPerSecond: 1 << 30, Connections: 1000, Topics: 100, Partitions: 1000}
		if name == "small" {
			x.BytesPerSecond, x.Connections, x.Topics = 20_000, 3, 2
		}
		data, err := contracts.SetTenantCall(x)
		require.NoError(t, err)
		_, err = n.transact(ctx, p.eth, funded{n.Admin}, contracts.MembersAddress, nil, data)
		require.NoError(t, err)
	}
	p.settled(t)
	return p
}

// owner is the account that owns a tenant.
func (p *properties) owner(tenant string) Account {
	for i, name := range propertyTenants {
		if name == tenant {
			return p.Accounts[i+1]
		}
	}
	panic("no tenant " + tenant)
}

// settled waits until what is in a block now is final at every broker.
func (p *properties) settled(t *testing.T) {
	t.Helper()
	head, err := p.eth.HeaderByNumber(p.ctx, nil)
	require.NoError(t, err)
	finalAbove(t, p.Network, head.Number.Uint64(), 0, 1, 2)
}

// open makes a client of the library for an account.
func (p *properties) open(t *testing.T, a Account, change ...func(*bps.Config)) *bps.Client {
	t.Helper()
	cfg := bps.Config{Brokers: p.Brokers(), Node: p.Nodes[0].HTTP, Provers: []string{p.Nodes[1].HTTP, p.Nodes[2].HTTP}, Genesis: p.gen,
		Account: bps.KeySigner(a.Private()), CA: p.TopicsCA()}
	for _, f := range change {
		f(&cfg)
	}
	c, err := bps.Open(p.ctx, cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// admin makes a tenant's administration, with that of its topics.
func (p *properties) admin(t *testing.T, c *bps.Client) *bps.Admin {
	t.Helper()
	a, err := c.Admin()
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// topic makes a topic that all brokers know when it returns.
func (p *properties) topic(t *testing.T, a *bps.Admin, x contracts.NewTopic) common.Hash {
	t.Helper()
	if x.Replicas == 0 {
		x.Replicas = 3
	}
	if x.Partitions == 0 {
		x.Partitions = 1
	}
	id, err := a.CreateTopic(p.ctx, x)
	require.NoError(t, err)
	p.settled(t)
	return id
}

// rule is a rule of access for an account.
func rule(resource uint8, name string, who common.Address, operation, permission uint8) contracts.Acl {
	return contracts.Acl{Resource: resource, Pattern: contracts.PatternLiteral, Name: name, Principal: contracts.UserPrincipal(who), Host: "*",
		Operation: operation, Permission: permission}
}

// send produces values one batch each, in this order, through the library.
func (p *properties) send(t *testing.T, c *bps.Client, topic string, values ...string) (sent []bps.Sent) {
	t.Helper()
	w, err := c.Producer(kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.NoError(t, err)
	defer w.Close()
	for _, v := range values {
		s, err := w.Send(p.ctx, &bps.Record{Topic: topic, Value: []byte(v)})
		require.NoError(t, err)
		sent = append(sent, s)
	}
	return sent
}

// receive reads values of a topic from its beginning.
func (p *properties) receive(t *testing.T, c *bps.Client, topic string, n int) (values []string) {
	t.Helper()
	x, err := c.Consumer(bps.ConsumerConfig{Topics: []string{topic}})
	require.NoError(t, err)
	defer x.Close()
	for len(values) < n {
		records, err := x.Records(p.ctx)
		require.NoError(t, err)
		for _, r := range records {
			values = append(values, string(r.Value))
		}
	}
	return values
}

// eventually waits for something that will come.
func (p *properties) eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(t, poll(ctx, func() (bool, error) { return ok(), nil }), what)
}

// kafka is an unmodified client that logs in as an account.
func (p *properties) kafka(t *testing.T, a Account, scope uint8, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return p.login(t, p.auth(t, a, scope), opts...)
}

func (p *properties) auth(t *testing.T, a Account, scope uint8) plain.Auth {
	t.Helper()
	return plain.Auth{User: a.Address.Hex(), Pass: tokenOf(t, p.Network, a, scope)}
}

func (p *properties) login(t *testing.T, auth plain.Auth, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(p.Brokers()...), kgo.SASL(auth.AsMechanism()), kgo.DialTLSConfig(brokersTLS(t, p.Network)),
		kgo.MetadataMinAge(100 * time.Millisecond), kgo.RequestRetries(3), kgo.RetryTimeout(20 * time.Second),
		kgo.ConnIdleTimeout(15 * time.Minute)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// metadata asks for topics, none: for all that the client may see.
func (p *properties) metadata(t *testing.T, c *kgo.Client, topics ...string) *kmsg.MetadataResponse {
	t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		x := kmsg.NewMetadataRequestTopic()
		x.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, x)
	}
	resp, err := req.RequestWith(p.ctx, c)
	require.NoError(t, err)
	return resp
}

// leader is the broker that leads a partition, as the chain has it now, with its number among brokers.
func (p *properties) leader(t *testing.T, id common.Hash, partition int) (node int, number int32) {
	t.Helper()
	lease := p.topicInfo(t, id).Leases[partition]
	ret, err := read(p.ctx, p.eth, contracts.TopicsAddress, contracts.BrokersCall())
	require.NoError(t, err)
	list, err := contracts.DecodeBrokers(ret)
	require.NoError(t, err)
	for _, b := range list {
		for i, x := range p.Nodes {
			if b.Account == lease.Leader && x.Account == lease.Leader {
				return i, b.ID
			}
		}
	}
	require.Fail(t, "nobody leads the partition")
	return 0, 0
}

func (p *properties) topicInfo(t *testing.T, id common.Hash) contracts.TopicInfo {
	t.Helper()
	ret, err := read(p.ctx, p.eth, contracts.TopicsAddress, contracts.TopicCall(id))
	require.NoError(t, err)
	info, err := contracts.DecodeTopic(ret)
	require.NoError(t, err)
	return info
}

// final is the last irreversible block of a node.
func (p *properties) final(t *testing.T, c *ethclient.Client) uint64 {
	t.Helper()
	h, err := c.HeaderByNumber(p.ctx, big.NewInt(int64(rpc.FinalizedBlockNumber)))
	require.NoError(t, err)
	return h.Number.Uint64()
}

// call asks a node for something of its JSON-RPC.
func (p *properties) call(t *testing.T, node int, out any, method string, args ...any) error {
	t.Helper()
	c, err := rpc.DialContext(p.ctx, p.Nodes[node].HTTP)
	require.NoError(t, err)
	defer c.Close()
	return c.CallContext(p.ctx, out, method, args...)
}

// recordBatch is a batch as a producer without compression sends it.
func recordBatch(values ...string) []byte {
	now := time.Now().UnixMilli()
	rb := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(values) - 1), FirstTimestamp: now, MaxTimestamp: now,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(values))}
	for i, v := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Value: []byte(v)}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		rb.Records = r.AppendTo(rb.Records)
	}
	b := rb.AppendTo(nil)
	bin.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	reseal(b)
	return b
}

// reseal gives a batch that was changed the checksum that fits.
func reseal(b []byte) {
	bin.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
}

// filesWith are the files of the brokers that hold one of these texts.
func (p *properties) filesWith(t *testing.T, texts ...[]byte) (found []string) {
	t.Helper()
	for _, x := range p.Nodes[:3] {
		require.NoError(t, filepath.WalkDir(x.Dir, func(path string, d fs.DirEntry, err error) error {
			if os.IsNotExist(err) { // files come and go
				return nil
			}
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			b, err := os.ReadFile(path)
			if err != nil && !os.IsNotExist(err) {
				return err
			}
			for _, text := range texts {
				if bytes.Contains(b, text) {
					found = append(found, path)
					return nil
				}
			}
			return nil
		}))
	}
	return found
}

// spare is a funded account that nothing else uses.
func (p *properties) spare() Account {
	return p.Accounts[p.used.Add(1)]
}

// operations are a topic's operations on record, oldest first.
func (p *properties) operations(t *testing.T, id common.Hash) (list []propertyOperation, batches int) {
	t.Helper()
	var page struct {
		Batches []struct {
			Operations []propertyOperation `json:"operations"`
		} `json:"batches"`
		Proved bool `json:"proved"`
	}
	require.NoError(t, p.call(t, 0, &page, "bps_audit", id.Hex()))
	for _, b := range page.Batches {
		list = append(list, b.Operations...)
	}
	return list, len(page.Batches)
}

type propertyOperation struct {
	Operator  common.Address `json:"operator"`
	Pseudonym bool           `json:"pseudonym"`
	Operation string         `json:"operation"`
	Allowed   bool           `json:"allowed"`
	Code      int16          `json:"code"`
	Count     string         `json:"count"`
	First     int64          `json:"first"`
	Last      int64          `json:"last"`
}
