package testnet

import (
	"bytes"
	bin "encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/batch"
	bps "github.com/bornode/bornode/pubsub/client"
	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/token"
)

// What a topic held is proved to whoever has the genesis file, also when the records are gone; every way of tampering
// with the proof or with what consumers get is found and named.
func (p *properties) integrityVerification(t *testing.T) {
	const topic = "proved.deeds"
	owner := p.owner("proved")
	c := p.open(t, owner)
	a := p.admin(t, c)
	id := p.topic(t, a, contracts.NewTopic{Name: topic})
	var deeds []string
	for i := range 6 {
		deeds = append(deeds, fmt.Sprintf("deed %d", i))
	}
	sent := p.send(t, c, topic, deeds...)
	broker, reads := holder(t, owner, p.Nodes[0]), filepath.Join(t.TempDir(), "token") // batches are for readers
	require.NoError(t, os.WriteFile(reads, []byte(tokenOf(t, p.Network, owner, token.Data)), 0o600))
	file := filepath.Join(t.TempDir(), "deeds.proof")
	p.eventually(t, "a checkpoint binds all deeds", func() bool {
		_, _, code := broker.run("topic", "prove", topic, "0", "5", "--out", filepath.Join(t.TempDir(), "last.proof"))
		return code == 0
	})
	p.eventually(t, "the broker has all batches to show", func() bool {
		var made struct {
			Batches bool `json:"batches"`
		}
		_ = os.Remove(file)
		broker.does(&made, "topic", "prove", topic, "0", "0", "--records", "6", "--token-file", reads, "--out", file)
		return made.Batches
	})
	nobody := person{t, &Node{HTTP: "http://127.0.0.1:1"}, broker.key} // no node is asked
	var good struct {
		Topic     common.Hash `json:"topic"`
		From, To  int64
		Batches   int  `json:"batches"`
		WithBytes bool `json:"withBytes"`
	}
	nobody.does(&good, "topic", "verify", file, "--genesis", p.genesisFile())
	require.Equal(t, id, good.Topic)
	require.Equal(t, []int64{0, 6}, []int64{good.From, good.To})
	require.Equal(t, 6, good.Batches)
	require.True(t, good.WithBytes)

	p.tamperedFiles(t, nobody, file)
	p.tamperedRecord(t, id, sent[0])
	p.tamperedAnswers(t, owner, topic, deeds)

	// Retention takes the records; the proof stays.
	require.NoError(t, a.Configure(p.ctx, topic, map[string]string{"retention.bytes": "1"}))
	k := kadm.NewClient(p.kafka(t, owner, token.Data))
	p.eventually(t, "the records are gone", func() bool {
		starts, err := k.ListStartOffsets(p.ctx, topic)
		require.NoError(t, err)
		o, ok := starts.Lookup(topic, 0)
		return ok && o.Err == nil && o.Offset == 5
	})
	p.eventually(t, "from the broker that is asked, too", func() bool {
		file = filepath.Join(t.TempDir(), "gone.proof")
		broker.does(nil, "topic", "prove", topic, "0", "0", "--records", "5", "--token-file", reads, "--out", file)
		nobody.does(&good, "topic", "verify", file, "--genesis", p.genesisFile())
		return !good.WithBytes
	})
	require.Equal(t, 5, good.Batches, "the digests are proved")
}

// tamperedFiles changes a good proof in every way and has borcli find it.
func (p *properties) tamperedFiles(t *testing.T, nobody person, good string) {
	t.Helper()
	raw, err := os.ReadFile(good)
	require.NoError(t, err)
	batches := func(f func([][]byte) [][]byte) func(*proof.Bundle) {
		return func(b *proof.Bundle) {
			var list [][]byte
			require.NoError(t, batch.Each(b.Batches, func(_ batch.Header, one []byte) error {
				list = append(list, bytes.Clone(one))
				return nil
			}))
			b.Batches = bytes.Join(f(list), nil)
		}
	}
	for name, x := range map[string]struct {
		words  string
		change func(*proof.Bundle)
	}{
		"flipped":      {"bytes of the batch were changed", batches(flippedBatch)},
		"dropped":      {"a batch is missing", batches(droppedBatch)},
		"reordered":    {"batches are not in their order", batches(reorderedBatches)},
		"forged":       {"the batch was never committed", batches(forgedBatch)},
		"old epoch":    {"the batch is of an earlier leader's epoch", batches(oldEpoch)},
		"forked head":  {"the proof does not lead to the root", func(b *proof.Bundle) { b.Head.Root[0] ^= 1 }},
		"forged leaf":  {"the proof does not lead to the root", func(b *proof.Bundle) { b.Leaves[2].Digest[0] ^= 1 }},
		"forged event": {"", func(b *proof.Bundle) { b.Height-- }},
		"not final":    {"the block is not shown to be final", func(b *proof.Bundle) { b.Runs = nil }},
		"other chain":  {"it is of the chain with block 0", func(b *proof.Bundle) { b.Genesis[0] ^= 1 }},
	} {
		b, err := proof.DecodeBundle(raw)
		require.NoError(t, err)
		x.change(b)
		changed, err := b.Encode()
		require.NoError(t, err)
		file := filepath.Join(t.TempDir(), strings.ReplaceAll(name, " ", "-"))
		require.NoError(t, os.WriteFile(file, changed, 0o600))
		nobody.fails(exitVerify, x.words, "topic", "verify", file, "--genesis", p.genesisFile())
	}
}

// The ways to tamper with batches: with the third of them, or from there on.
func flippedBatch(l [][]byte) [][]byte { l[2][len(l[2])-2] ^= 1; return l }

func droppedBatch(l [][]byte) [][]byte { return append(l[:2:2], l[3:]...) }

func reorderedBatches(l [][]byte) [][]byte { l[2], l[3] = l[3], l[2]; return l }

func forgedBatch(l [][]byte) [][]byte {
	flippedBatch(l)
	reseal(l[2])
	return l
}

func oldEpoch(l [][]byte) [][]byte {
	bin.BigEndian.PutUint32(l[2][12:], bin.BigEndian.Uint32(l[2][12:])-1)
	return l
}

// tamperedRecord shows that operations that were left out, rights that no block gave, and a broker's two words for one
// place are found from what the chain and the brokers say.
func (p *properties) tamperedRecord(t *testing.T, id common.Hash, sent bps.Sent) {
	t.Helper()
	var state struct {
		Count  hexutil.Uint64 `json:"count"`
		Root   common.Hash    `json:"root"`
		Number hexutil.Uint64 `json:"number"`
	}
	var page struct {
		Batches []struct {
			Number  hexutil.Uint64 `json:"number"`
			Broker  common.Address `json:"broker"`
			Count   hexutil.Uint64 `json:"count"`
			Entries hexutil.Bytes  `json:"entries"`
		} `json:"batches"`
	}
	require.NoError(t, p.call(t, 0, &state, "bps_operations", id.Hex()))
	require.NoError(t, p.call(t, 0, &page, "bps_audit", id.Hex(), state))
	var list []proof.OperationBatch
	for _, b := range page.Batches {
		list = append(list, proof.OperationBatch{Height: uint64(b.Number), Broker: b.Broker, Count: uint32(b.Count), Entries: b.Entries})
	}
	to := proof.LogState{Count: uint64(state.Count), Root: state.Root, Height: uint64(state.Number)}
	_, err := proof.CheckOperations(id, proof.LogState{}, to, list)
	require.NoError(t, err)
	_, err = proof.CheckOperations(id, proof.LogState{}, to, list[1:])
	require.ErrorIs(t, err, proof.ErrOperation, "one left out")

	changes, shown := p.rightsOf(t, "proved")
	tenant := contracts.TenantID("proved")
	require.NoError(t, proof.CheckRights(tenant, changes, shown))
	require.ErrorIs(t, proof.CheckRights(tenant, changes, shown[1:]), proof.ErrRights, "one taken away")
	more := append(shown[:len(shown):len(shown)], shown[0])
	more[len(shown)].Principal = contracts.EveryUser
	require.ErrorIs(t, proof.CheckRights(tenant, changes, more), proof.ErrRights, "one that nobody granted")

	liar := -1
	for i, x := range p.Nodes[:3] {
		if x.Account == sent.Receipt.By {
			liar = i
		}
	}
	require.GreaterOrEqual(t, liar, 0, "a broker signed")
	signer, err := p.producer(p.Nodes[liar])
	require.NoError(t, err)
	other := sent.Receipt.Placed
	other.Leaf.Digest[0] ^= 1
	block0 := p.genesisHash(t)
	lie, err := proof.SignReceipts(block0, 1, []proof.Placed{other}, func(h common.Hash) ([]byte, error) {
		sig, err := signer.SignSeal(h)
		return sig[:], err
	})
	require.NoError(t, err)
	who, err := proof.Equivocation(block0, &sent.Receipt.Placed, &other, &sent.Receipt.Receipt, &lie[0])
	require.ErrorIs(t, err, proof.ErrForked)
	require.Equal(t, p.Nodes[liar].Account, who, "the broker is named by its own signatures")
}

func (p *properties) genesisHash(t *testing.T) common.Hash {
	t.Helper()
	b, err := p.gen.Block()
	require.NoError(t, err)
	return b.Hash()
}

// rightsOf are what the blocks changed of a tenant's rules, and the rules that a broker shows. No other property may use the
// tenant's owner meanwhile: two of its transactions would have one number.
func (p *properties) rightsOf(t *testing.T, tenant string) (changes []proof.RightChange, shown []proof.Right) {
	t.Helper()
	right := func(a contracts.Acl) proof.Right {
		return proof.Right{Resource: a.Resource, Pattern: a.Pattern, Name: a.Name, Principal: a.Principal, Host: a.Host, Operation: a.Operation, Permission: a.Permission}
	}
	a := p.admin(t, p.open(t, p.owner(tenant)))
	extra := rule(contracts.ResourceTopic, tenant+".shelf", p.Accounts[0].Address, contracts.OperationRead, contracts.PermissionAllow)
	more := rule(contracts.ResourceTopic, tenant+".shelf", p.Accounts[0].Address, contracts.OperationAlter, contracts.PermissionDeny)
	gone := rule(contracts.ResourceTopic, tenant+".shelf", p.Accounts[0].Address, contracts.OperationWrite, contracts.PermissionAllow)
	require.NoError(t, a.Grant(p.ctx, tenant, extra, more, gone))
	require.NoError(t, a.Revoke(p.ctx, tenant, gone))
	p.settled(t)
	logs, err := p.eth.FilterLogs(p.ctx, ethereum.FilterQuery{FromBlock: common.Big0, Addresses: []common.Address{contracts.TopicsAddress},
		Topics: [][]common.Hash{{contracts.EventGranted, contracts.EventRevoked}, {contracts.TenantID(tenant)}}})
	require.NoError(t, err)
	for i := range logs {
		e, err := contracts.DecodeTopicsEvent(&logs[i])
		require.NoError(t, err)
		switch e := e.(type) {
		case *contracts.Granted:
			changes = append(changes, proof.RightChange{Right: right(e.Entry), Height: logs[i].BlockNumber})
		case *contracts.Revoked:
			changes = append(changes, proof.RightChange{Right: right(e.Entry), Height: logs[i].BlockNumber, Revoked: true})
		}
	}
	k := kadm.NewClient(p.kafka(t, p.owner(tenant), token.Data))
	p.eventually(t, "a broker shows the rules of the tenant", func() bool {
		all, err := k.DescribeACLs(p.ctx, kadm.NewACLs().AnyResource().ResourcePatternType(kadm.ACLPatternAny).Operations().Allow().AllowHosts().Deny().DenyHosts())
		require.NoError(t, err)
		shown = nil
		for _, x := range all[0].Described {
			shown = append(shown, proof.Right{Resource: uint8(x.Type), Pattern: uint8(x.Pattern), Name: x.Name, Principal: x.Principal, Host: x.Host,
				Operation: uint8(x.Operation), Permission: uint8(x.Permission)})
		}
		return proof.CheckRights(contracts.TenantID(tenant), changes, shown) == nil
	})
	return changes, shown
}

// tamperedAnswers puts a liar between a verifying consumer and the brokers: it stops at the place where the lie begins.
func (p *properties) tamperedAnswers(t *testing.T, owner Account, topic string, deeds []string) {
	t.Helper()
	for name, x := range map[string]struct {
		change func([][]byte) [][]byte
		want   []string // one of these
		mode   bps.Mode
	}{
		"flipped":   {flippedBatch, []string{gate.Flipped}, bps.Follow},
		"dropped":   {droppedBatch, []string{gate.Gap}, bps.Follow},
		"reordered": {reorderedBatches, []string{gate.Gap}, bps.Follow},
		"repeated":  {func(l [][]byte) [][]byte { l[2] = l[1]; return l }, []string{gate.Backwards}, bps.Follow},
		"forged":    {forgedBatch, []string{gate.Unproved, gate.Forged}, bps.Proved},
		"old epoch": {oldEpoch, []string{gate.Unproved}, bps.Proved},
		"followed":  {forgedBatch, []string{gate.Unproved, gate.Forged}, bps.Follow},
	} {
		l := newLiar(t, p.Network, topic, x.change)
		c := p.open(t, owner, func(c *bps.Config) { c.Brokers, c.CA, c.Mode = l.addresses(), l.ca, x.mode })
		consumer, err := c.Consumer(bps.ConsumerConfig{Topics: []string{topic}})
		require.NoError(t, err)
		var got []string
		var lie *bps.TamperError
		for lie == nil {
			records, err := consumer.Records(p.ctx)
			require.NoError(t, p.ctx.Err(), name)
			if err != nil {
				require.ErrorAs(t, err, &lie, name)
			}
			for _, r := range records {
				got = append(got, string(r.Value))
			}
		}
		require.Contains(t, x.want, lie.What, name)
		require.Equal(t, topic, lie.Topic, name)
		require.Zero(t, lie.Partition, name)
		require.Contains(t, []int64{1, 2, 3}, lie.Offset, "%s is named with its place", name)
		if x.mode == bps.Proved {
			require.Subset(t, deeds, got, "nothing false was delivered")
			require.EqualValues(t, 2, lie.Offset, name)
		}
		consumer.Close()
	}
}
