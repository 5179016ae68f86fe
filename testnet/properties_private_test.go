package testnet

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"math/big"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"

	"github.com/bornode/bornode/contracts"
	bps "github.com/bornode/bornode/pubsub/client"
	"github.com/bornode/bornode/pubsub/seal"
	"github.com/bornode/bornode/pubsub/token"
)

// keyholder is an account with a sealing key.
type keyholder struct {
	Account
	key *seal.Identity
}

// keyholder publishes a sealing key for an account.
func (p *properties) keyholder(t *testing.T, a Account) keyholder {
	t.Helper()
	id, err := seal.NewIdentity(seal.X25519)
	require.NoError(t, err)
	k := keyholder{a, id}
	require.NoError(t, p.admin(t, p.reader(t, k)).RegisterSealKey(p.ctx))
	return k
}

// reader is a fresh client, which remembers no keys.
func (p *properties) reader(t *testing.T, k keyholder) *bps.Client {
	t.Helper()
	return p.open(t, k.Account, func(c *bps.Config) { c.SealKey = k.key })
}

// What is written to an encrypted topic is with its readers alone: not on the brokers' disks, not in what they serve to
// one who may fetch but has no key. Whoever is taken out cannot read what comes then.
func (p *properties) confidentiality(t *testing.T) {
	const letters, cards = "private.letters", "private.cards"
	owner, stays, leaves := p.keyholder(t, p.owner("private")), p.keyholder(t, p.spare()), p.keyholder(t, p.spare())
	keyless := p.spare()
	a := p.admin(t, p.reader(t, owner))
	id := p.topic(t, a, contracts.NewTopic{Name: letters, Encrypted: true})
	p.topic(t, a, contracts.NewTopic{Name: cards})
	rules := []contracts.Acl{rule(contracts.ResourceTopic, letters, keyless.Address, contracts.OperationWrite, contracts.PermissionAllow)}
	for _, r := range []Account{stays.Account, leaves.Account, keyless} {
		rules = append(rules, rule(contracts.ResourceTopic, letters, r.Address, contracts.OperationRead, contracts.PermissionAllow))
	}
	require.NoError(t, a.Grant(p.ctx, "private", rules...))
	_, err := a.NewEpoch(p.ctx, letters, stays.Address, leaves.Address)
	require.NoError(t, err)
	p.settled(t)

	const first, second, open = "the first letter, for both of them", "the second letter, for one of them", "a card that anybody may read"
	p.send(t, p.reader(t, owner), cards, open)
	p.send(t, p.reader(t, owner), letters, first)
	require.Equal(t, []string{first}, p.receive(t, p.reader(t, stays), letters, 1))
	require.Equal(t, []string{first}, p.receive(t, p.reader(t, leaves), letters, 1))

	// No broker has it, and none can serve it.
	p.eventually(t, "what is not encrypted is in the log of every replica", func() bool { return len(p.filesWith(t, []byte(open))) == 3 })
	require.Empty(t, p.filesWith(t, []byte(first)), "a broker knows what was written")
	raw := p.rawFetch(t, p.kafka(t, keyless, token.Data), id, letters, 0)
	require.Contains(t, string(raw), "BPS1", "it may fetch")
	require.NotContains(t, string(raw), first, "and learns nothing")
	values, _ := p.noKey(t, p.open(t, keyless), letters, 0)
	require.Empty(t, values)
	w, err := p.open(t, keyless).Producer()
	require.NoError(t, err)
	_, err = w.Send(p.ctx, &bps.Record{Topic: letters, Value: []byte("written without the key")})
	var none *bps.NoKeyError
	require.ErrorAs(t, err, &none, "one without key writes nothing")
	code, _ := p.rawProduce(t, p.kafka(t, owner.Account, token.Data), id, letters, recordBatch("in clear by an unmodified client"))
	require.Equal(t, kerr.InvalidRecord.Code, code, "a broker takes nothing in clear")
	p.proxyRefuses(t, keyless, letters)

	// Forward only: the old key stays with whoever had it.
	_, err = a.NewEpoch(p.ctx, letters, stays.Address)
	require.NoError(t, err)
	p.send(t, p.reader(t, owner), letters, second)
	require.Equal(t, []string{first, second}, p.receive(t, p.reader(t, stays), letters, 2))
	values, none = p.noKey(t, p.reader(t, leaves), letters, 1)
	require.Equal(t, []string{first}, values)
	require.Equal(t, uint32(2), none.Epoch, "the key of the next epoch is what lacks")
	require.Empty(t, p.filesWith(t, []byte(second)))
}

// noKey reads what an account can read of a topic, n records, and which key it lacks for the rest.
func (p *properties) noKey(t *testing.T, c *bps.Client, topic string, n int) (values []string, none *bps.NoKeyError) {
	t.Helper()
	x, err := c.Consumer(bps.ConsumerConfig{Topics: []string{topic}})
	require.NoError(t, err)
	defer x.Close()
	for none == nil || len(values) < n {
		records, err := x.Records(p.ctx)
		if err != nil {
			require.ErrorAs(t, err, &none)
		}
		for _, r := range records {
			values = append(values, string(r.Value))
		}
	}
	return values, none
}

// proxyRefuses has an unmodified client work through the proxy of an account without key: it writes and reads nothing.
func (p *properties) proxyRefuses(t *testing.T, a Account, topic string) {
	t.Helper()
	addr := p.proxy(t, a)
	c, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	defer c.Close()
	err = c.ProduceSync(p.ctx, &kgo.Record{Topic: topic, Value: []byte("through the proxy")}).FirstErr()
	require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)
	f := c.PollFetches(p.ctx)
	require.Zero(t, f.NumRecords())
	require.NotEmpty(t, f.Errors())
	require.ErrorIs(t, f.Errors()[0].Err, kerr.TopicAuthorizationFailed)
}

// proxy runs `borcli topic proxy` as an account and tells where it listens.
func (p *properties) proxy(t *testing.T, a Account) string {
	t.Helper()
	file, err := borcli()
	require.NoError(t, err)
	who := holder(t, a, p.Nodes[0])
	cmd := exec.CommandContext(t.Context(), file, "topic", "proxy", "--listen", "127.0.0.1:0", "--genesis", p.genesisFile(), "--ca", p.TopicsCA(),
		"--key", who.key, "--node", who.at.HTTP, "--json")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	var said struct {
		Listen string `json:"listen"`
	}
	require.NoError(t, json.NewDecoder(bufio.NewReader(out)).Decode(&said))
	return said.Listen
}

// rawFetch is what a broker serves of partition 0 to an unmodified client, as it is.
func (p *properties) rawFetch(t *testing.T, c *kgo.Client, id common.Hash, topic string, offset int64) []byte {
	t.Helper()
	var served []byte
	p.eventually(t, "the leader serves "+topic, func() bool {
		code, raw := p.fetchOnce(t, c, id, topic, offset)
		served = raw
		return code == 0 && len(raw) > 0
	})
	return served
}

func (p *properties) fetchOnce(t *testing.T, c *kgo.Client, id common.Hash, topic string, offset int64) (int16, []byte) {
	t.Helper()
	p.metadata(t, c)
	_, number := p.leader(t, id, 0)
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.MaxWaitMillis = 12, 1<<20, 1, 500
	part := kmsg.NewFetchRequestTopicPartition()
	part.FetchOffset, part.PartitionMaxBytes, part.CurrentLeaderEpoch = offset, 1<<20, -1
	req.Topics = []kmsg.FetchRequestTopic{{Topic: topic, TopicID: [16]byte(id[:16]), Partitions: []kmsg.FetchRequestTopicPartition{part}}}
	resp, err := req.RequestWith(p.ctx, c.Broker(int(number)))
	require.NoError(t, err)
	require.Len(t, resp.Topics, 1)
	got := &resp.Topics[0].Partitions[0]
	return got.ErrorCode, got.RecordBatches
}

// rawProduce sends a batch to the leader of partition 0 and tells its answer.
func (p *properties) rawProduce(t *testing.T, c *kgo.Client, id common.Hash, topic string, batch []byte) (code int16, throttled time.Duration) {
	t.Helper()
	p.eventually(t, "the leader answers", func() bool {
		p.metadata(t, c)
		_, number := p.leader(t, id, 0)
		req := kmsg.NewPtrProduceRequest()
		req.Acks, req.TimeoutMillis = -1, 10_000
		req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, TopicID: [16]byte(id[:16]),
			Partitions: []kmsg.ProduceRequestTopicPartition{{Records: batch}}}}
		resp, err := req.RequestWith(p.ctx, c.Broker(int(number)))
		require.NoError(t, err)
		code, throttled = resp.Topics[0].Partitions[0].ErrorCode, time.Duration(resp.ThrottleMillis)*time.Millisecond
		return code != kerr.NotLeaderForPartition.Code && code != kerr.UnknownTopicOrPartition.Code
	})
	return code, throttled
}

// A pseudonym that the auditor admitted produces and consumes, and nothing that brokers keep, the chain says or a receipt
// shows names the account behind it. The auditor alone can tell.
func (p *properties) anonymity(t *testing.T) {
	const topic = "secret.votes"
	auditor := p.spare()
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	member := Account{Address: crypto.PubkeyToAddress(key.PublicKey), Key: hex.EncodeToString(crypto.FromECDSA(key))}
	owner := p.admin(t, p.open(t, p.owner("secret")))
	id := p.topic(t, owner, contracts.NewTopic{Name: topic, Auditor: auditor.Address})
	judge := p.open(t, auditor)

	nym, request, cert := p.pseudonym(t, topic, member, judge)
	anonymous := p.open(t, nym, func(c *bps.Config) { c.Certificate = cert })
	sent := p.send(t, anonymous, topic, "a vote")
	require.Equal(t, []string{"a vote"}, p.receive(t, anonymous, topic, 1))
	require.NotNil(t, sent[0].Receipt)
	require.NotEqual(t, member.Address, sent[0].Receipt.By)
	stranger := p.open(t, Account{Address: nym.Address, Key: nym.Key})
	w, err := stranger.Producer()
	require.NoError(t, err)
	_, err = w.Send(p.ctx, &bps.Record{Topic: topic, Value: []byte("a vote without certificate")})
	require.ErrorIs(t, err, kerr.TopicAuthorizationFailed)

	// On record is the pseudonym.
	p.eventually(t, "both operations are on record", func() bool {
		list, _ := p.operations(t, id)
		kinds := map[string]bool{}
		for _, o := range list {
			require.NotEqual(t, member.Address, o.Operator)
			if o.Operator == nym.Address && o.Pseudonym && o.Allowed {
				kinds[o.Operation] = true
			}
		}
		return kinds["0x3"] && kinds["0x4"]
	})
	require.Empty(t, p.filesWith(t, member.Address[:], []byte(hex.EncodeToString(member.Address[:])), []byte(member.Address.Hex()[2:])), "a broker knows the member")
	require.NotEmpty(t, p.filesWith(t, nym.Address[:]), "brokers know the pseudonym")
	p.notOnChain(t, member.Address)

	// The auditor kept the request.
	got, err := bps.ParseRequest(request)
	require.NoError(t, err)
	require.NoError(t, got.Check())
	require.Equal(t, member.Address, got.Account)
	require.Equal(t, nym.Address, got.Pseudonym)

	p.endPseudonyms(t, owner, topic, member, judge)
}

// pseudonym has the auditor admit a fresh one of a member.
func (p *properties) pseudonym(t *testing.T, topic string, member Account, judge *bps.Client) (Account, string, *token.Certificate) {
	t.Helper()
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	nym := Account{Address: crypto.PubkeyToAddress(key.PublicKey), Key: hex.EncodeToString(crypto.FromECDSA(key))}
	r, err := p.open(t, member).RequestPseudonym(p.ctx, topic, bps.KeySigner(key), token.Read|token.Write)
	require.NoError(t, err)
	cert, err := judge.Admit(p.ctx, topic, r, token.Read|token.Write, time.Now().Add(time.Hour))
	require.NoError(t, err)
	return nym, r.Text(), cert
}

// nymClient is an unmodified client that logs in as a pseudonym.
func (p *properties) nymClient(t *testing.T, nym Account, cert *token.Certificate) *kgo.Client {
	t.Helper()
	tk := token.New(p.ChainID, nym.Address, time.Now(), time.Hour, token.Data)
	tk.Certificate = cert
	require.NoError(t, tk.Sign(nym.Private()))
	return p.login(t, plain.Auth{User: nym.Address.Hex(), Pass: tk.String()})
}

// endPseudonyms shows that a revoked pseudonym and all of an earlier epoch are refused, those that are logged in too.
func (p *properties) endPseudonyms(t *testing.T, owner *bps.Admin, topic string, member Account, judge *bps.Client) {
	t.Helper()
	info, err := owner.Topic(p.ctx, topic)
	require.NoError(t, err)
	auditor := p.admin(t, judge)
	refused := func(nym Account, cert *token.Certificate, end func()) {
		c := p.nymClient(t, nym, cert)
		code, _ := p.rawProduce(t, c, info.ID, topic, recordBatch("while it is admitted"))
		require.Zero(t, code)
		end()
		p.settled(t)
		p.eventually(t, "who is logged in is refused", func() bool {
			_, number := p.leader(t, info.ID, 0)
			req := kmsg.NewPtrProduceRequest()
			req.Acks, req.TimeoutMillis = -1, 10_000
			req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: recordBatch("no more")}}}}
			resp, err := req.RequestWith(p.ctx, c.Broker(int(number)))
			return err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0
		})
		fresh := p.nymClient(t, nym, cert)
		err := fresh.Ping(p.ctx)
		require.ErrorIs(t, err, kerr.SaslAuthenticationFailed)
		require.ErrorContains(t, err, "the pseudonym is not admitted to its topic now")
	}
	nym, _, cert := p.pseudonym(t, topic, member, judge)
	refused(nym, cert, func() { require.NoError(t, auditor.RevokePseudonym(p.ctx, topic, nym.Address)) })
	nym, _, cert = p.pseudonym(t, topic, member, judge)
	refused(nym, cert, func() { require.NoError(t, auditor.NextPseudonyms(p.ctx, topic)) })
	nym, _, cert = p.pseudonym(t, topic, member, judge)
	code, _ := p.rawProduce(t, p.nymClient(t, nym, cert), info.ID, topic, recordBatch("in the new epoch"))
	require.Zero(t, code)
}

// notOnChain looks through all blocks, their transactions and what contracts announced.
func (p *properties) notOnChain(t *testing.T, a common.Address) {
	t.Helper()
	head, err := p.eth.BlockNumber(p.ctx)
	require.NoError(t, err)
	needle := hex.EncodeToString(a[:])
	for from := uint64(0); from <= head; from += 500 {
		logs, err := p.eth.FilterLogs(p.ctx, ethereum.FilterQuery{FromBlock: new(big.Int).SetUint64(from), ToBlock: new(big.Int).SetUint64(min(head, from+499))})
		require.NoError(t, err)
		text, err := json.Marshal(logs)
		require.NoError(t, err)
		require.NotContains(t, strings.ToLower(string(text)), needle)
	}
	for h := range head + 1 {
		b, err := p.eth.BlockByNumber(p.ctx, new(big.Int).SetUint64(h))
		require.NoError(t, err)
		for _, tx := range b.Transactions() {
			require.NotContains(t, hex.EncodeToString(tx.Data()), needle)
			require.True(t, tx.To() == nil || *tx.To() != a)
		}
	}
}
