package main

import (
	"encoding/json"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/bls"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/proof"
)

// provingChain is a chain of one producer up to block 12, with a checkpoint of a topic in block 9, on a genesis file.
type provingChain struct {
	genesis string
	headers []*block.SealedHeader
	bundle  *proof.Bundle
	audit   *proof.Audit // of the topic's operations, which are in the state from block 9 on
	states  []proof.LogState
}

func (c *provingChain) SealedAt(h uint64) *block.SealedHeader {
	if h >= uint64(len(c.headers)) {
		return nil
	}
	return c.headers[h]
}

func newProvingChain(t *testing.T) *provingChain {
	key, err := bls.SecretKeyFromBytes(append(make([]byte, 31), 9))
	require.NoError(t, err)
	account := common.Address{1}
	d := block.PossessionDigest(77, account, key.PublicKey())
	g, err := genesis.New(genesis.Options{
		ChainID: 77, GenesisTime: 1_700_000_000, Slot: time.Second, TurnSlots: 1, EpochBlocks: 4,
		Producers: []genesis.Producer{{Account: account, BLSKey: key.PublicKey(), Proof: key.Sign(d[:])}},
		Members:   []genesis.Member{{PeerID: "12D3KooWEyoppNCUx8Yx66oV9fJnriXwCcXwDDUA2kj6vnc6iDEp", Account: account, Roles: genesis.RoleProducer}},
		Alloc:     map[common.Address]*big.Int{account: ethers(10_000)},
		Settings:  genesis.ProducerSettings{EvidenceWindow: time.Second, WithdrawDelay: 2 * time.Second, MinStake: ethers(100)},
	})
	require.NoError(t, err)
	c := &provingChain{genesis: filepath.Join(t.TempDir(), "genesis.json")}
	require.NoError(t, g.Write(c.genesis))
	trust, err := proof.TrustGenesis(g)
	require.NoError(t, err)
	zero, err := g.Block()
	require.NoError(t, err)
	c.headers = []*block.SealedHeader{zero.SealedHeader}
	b, receipts := provenTopic(t)
	root := c.operate(t, b.Head.Topic)
	for n := uint64(1); n <= 12; n++ {
		h := &types.Header{Number: new(big.Int).SetUint64(n), Difficulty: new(big.Int), Time: 1_700_000_000 + n, ParentHash: c.headers[n-1].Hash()}
		if n == 9 {
			h.ReceiptHash = types.DeriveSha(receipts, trie.NewStackTrie(nil))
		}
		if n >= 9 {
			h.Root = root
		}
		r := &block.Record{Version: block.RecordVersion, Slot: n}
		if n%4 == 0 {
			r.Next = trust.Schedule
		}
		if n > 1 {
			p := c.headers[n-1].Point()
			l := block.Link{Kind: block.Precommit, Source: p, Target: p}
			r.FC = block.NewCertificate(l, []block.Schedule{trust.Schedule}, func(common.Address) bool { return true })
			d := block.Domain{Genesis: trust.Genesis}.VoteDigest(l)
			r.FC.Aggregate = key.Sign(d[:])
		}
		h.Extra = r.Hash().Bytes()
		c.headers = append(c.headers, &block.SealedHeader{Header: h, Record: r})
	}
	b.Genesis, b.Height = trust.Genesis, 9
	b.Runs, err = proof.Collect(t.Context(), trust, c, 9, 12)
	require.NoError(t, err)
	c.bundle = b
	c.audit.Genesis, c.audit.Height = trust.Genesis, 10
	c.audit.Runs, err = proof.Collect(t.Context(), trust, c, 10, 12)
	require.NoError(t, err)
	return c
}

// operate makes three batches of one operation each, and the root of a state that has them.
func (c *provingChain) operate(t *testing.T, id common.Hash) common.Hash {
	c.audit, c.states = &proof.Audit{Topic: id}, []proof.LogState{{}}
	for i := range 3 {
		e := proof.EncodeOperations([]proof.Operation{{Operator: common.Address{7}, Kind: proof.KindWrite, First: int64(i), Last: int64(i), Count: 1, Code: int16(29 * (i % 2)), Reason: strings.Repeat("not allowed", i%2)}})
		c.states = append(c.states, c.states[i].Next(uint64(6+i), e, 1))
		c.audit.Batches = append(c.audit.Batches, proof.OperationBatch{Height: uint64(6 + i), Broker: common.Address{8}, Count: 1, Entries: e})
	}
	accounts, storage := trie.NewEmpty(nil), trie.NewEmpty(nil)
	put := func(tr *trie.Trie, key []byte, value any) {
		b, err := rlp.EncodeToBytes(value)
		require.NoError(t, err)
		require.NoError(t, tr.Update(crypto.Keccak256(key), b))
	}
	at, last := operationsPlace(id), c.states[3]
	put(storage, at.Counts[:], append([]byte{byte(last.Height)}, 0, 0, 0, 0, 0, 0, 0, byte(last.Count)))
	put(storage, at.Root[:], last.Root[:])
	topics := types.NewEmptyStateAccount()
	topics.Root = storage.Hash()
	put(accounts, at.Contract[:], topics)
	put(accounts, []byte{1}, types.NewEmptyStateAccount())
	p, err := proof.ProveState(accounts, storage, at)
	require.NoError(t, err)
	c.audit.State = *p
	return accounts.Hash()
}

// provenTopic is a topic with one batch, and receipts with its checkpoint.
func provenTopic(t *testing.T) (*proof.Bundle, types.Receipts) {
	id := common.Hash{0xaa}
	raw := batch.Encode(batch.Header{Count: 2, LastOffsetDelta: 1, ProducerID: -1}, []byte("two records"))
	h, _, err := batch.Parse(raw)
	require.NoError(t, err)
	leaf := proof.LeafOf(&h, batch.Covered(raw))
	var f proof.Frontier
	f.Append(leaf.Hash(id, 0))
	head := proof.Head{Topic: id, Leaves: 1, Root: f.Root(), Next: 2}
	root, _, err := proof.TopicRoot([]proof.Head{head})
	require.NoError(t, err)
	data := append(root[:], make([]byte, 64)...)
	data[63] = 1
	receipts := types.Receipts{{Status: 1, Logs: []*types.Log{{Address: contracts.TopicsAddress, Topics: []common.Hash{contracts.EventCheckpointed, id, {31: 3}}, Data: data}}}}
	ev, err := proof.ProveEvent(receipts, 0, 0)
	require.NoError(t, err)
	return &proof.Bundle{Event: *ev, Partitions: 1, Head: head, Leaves: []proof.Leaf{leaf}, Batches: raw}, receipts
}

func TestTopicProofFiles(t *testing.T) {
	c := newProvingChain(t)
	file, err := c.bundle.Encode()
	require.NoError(t, err)
	s := newNode(t)
	var asked []json.RawMessage
	s.on("bps_proof", func(p []json.RawMessage) (any, error) {
		asked = p
		return map[string]any{"topic": common.Hash(c.bundle.Head.Topic), "from": 0, "to": 2, "seq": "0x3", "number": "0x9", "batches": true, "proof": hexutil.Bytes(file)}, nil
	})
	id := common.Hash(c.bundle.Head.Topic).Hex()
	out := filepath.Join(t.TempDir(), "x.proof")
	run(t, "topic", "prove", id, "0", "1", "--records", "2", "--out", out, "--node", s.url).succeeds(t)
	require.Equal(t, []string{`"0x2"`, "null", "null", "null"}, texts(asked[3:]), "without a token the node decides")
	shown := filepath.Join(t.TempDir(), "y.proof")
	secret := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(secret, []byte("bps1.x\n"), 0o600))
	run(t, "topic", "prove", id, "0", "1", "--token-file", secret+"2", "--out", out, "--node", s.url).fails(t, exitUsage, "--token-file")
	run(t, "topic", "prove", id, "0", "1", "--token-file", secret, "--out", shown, "--node", s.url).succeeds(t)
	require.Equal(t, []string{"true", "null", `"bps1.x"`}, texts(asked[4:]))
	run(t, "topic", "prove", id, "0", "1", "--out", out, "--node", s.url).fails(t, exitUsage, "exists")
	run(t, "topic", "prove", id, "x", "1", "--out", out, "--node", s.url).fails(t, exitUsage, "PARTITION")

	good := run(t, "topic", "verify", out, "--genesis", c.genesis, "--json").succeeds(t).json(t) // no node is named
	require.EqualValues(t, 9, good["block"])
	require.EqualValues(t, true, good["withBytes"])
	require.Contains(t, run(t, "topic", "verify", out, "--genesis", c.genesis).succeeds(t).out, "offsets 0 to 1 in one batch")
	run(t, "topic", "verify", out).fails(t, exitUsage, "--genesis")

	bad := func(words string, change func(b []byte)) {
		x := append([]byte(nil), file...)
		change(x)
		path := filepath.Join(t.TempDir(), "bad")
		require.NoError(t, os.WriteFile(path, x, 0o600))
		run(t, "topic", "verify", path, "--genesis", c.genesis).fails(t, exitVerify, words)
	}
	bad("partition 0, offset 0: bytes of the batch were changed", func(b []byte) { b[len(b)-1] ^= 1 })
	bad("not a proof", func(b []byte) { b[0]++ })
	bad("is not valid", func(b []byte) { b[len(b)/2]++ })
}

func TestAuditIsCheckedHere(t *testing.T) {
	c := newProvingChain(t)
	id := c.audit.Topic
	var batches []map[string]any
	for _, b := range c.audit.Batches {
		batches = append(batches, map[string]any{"number": hexutil.Uint64(b.Height), "count": "0x1", "entries": hexutil.Bytes(b.Entries), "broker": b.Broker, "transaction": common.Hash{}})
	}
	shown := func(s proof.LogState) map[string]any {
		return map[string]any{"count": hexutil.Uint64(s.Count), "root": s.Root, "number": hexutil.Uint64(s.Height)}
	}
	bare := *c.audit // the state alone
	bare.From, bare.Batches = c.states[3], nil
	s := newNode(t)
	s.says("bps_operations", shown(c.states[3]))
	s.on("bps_operationsProof", func([]json.RawMessage) (any, error) {
		b, err := bare.Encode()
		return map[string]any{"proof": hexutil.Bytes(b)}, err
	})
	s.on("bps_audit", func(p []json.RawMessage) (any, error) { // one batch a page
		var at logState
		require.NoError(t, json.Unmarshal(p[1], &at))
		n := int(at.Count)
		return map[string]any{"from": shown(c.states[n-1]), "to": shown(c.states[n]), "batches": batches[n-1 : n]}, nil
	})
	out := run(t, "topic", "audit", id.Hex(), "--last", "0", "--node", s.url).succeeds(t).out
	for _, words := range []string{"refused (29) not allowed", "none of these 3 operations is missing", "partition 0, offsets 2 to 2", "the node's word; --genesis proves it"} {
		require.Contains(t, out, words)
	}
	require.Contains(t, run(t, "topic", "audit", id.Hex(), "--last", "1", "--node", s.url).succeeds(t).out, "there are 2 older ones")

	file := filepath.Join(t.TempDir(), "x.audit")
	audit := []string{"topic", "audit", id.Hex(), "--last", "0", "--genesis", c.genesis, "--node", s.url}
	out = run(t, append(audit, "--out", file)...).succeeds(t).out
	require.Contains(t, out, "is proved as of block 10")
	out = run(t, "topic", "verify", file, "--genesis", c.genesis).succeeds(t).out // no node is named
	require.Contains(t, out, "refused (29) not allowed")
	require.Contains(t, out, "none of these 3 operations is missing")
	got := run(t, "topic", "verify", file, "--genesis", c.genesis, "--json").succeeds(t).json(t)
	require.EqualValues(t, true, got["proved"])
	require.EqualValues(t, 77, got["chainId"])
	run(t, "topic", "audit", id.Hex(), "--out", file+"2", "--node", s.url).fails(t, exitUsage, "need --genesis")

	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	for i := range 40 { // wherever it is changed, nobody takes it
		x := append([]byte(nil), raw...)
		at := 20 + i*(len(x)-21)/40
		x[at] ^= 1
		bad := filepath.Join(t.TempDir(), "bad")
		require.NoError(t, os.WriteFile(bad, x, 0o600))
		if r := run(t, "topic", "verify", bad, "--genesis", c.genesis); r.code == exitOK {
			b, err := proof.DecodeAudit(x)
			require.NoError(t, err)
			for k := range b.Batches { // the broker's name alone is not proved, nor are seals looked at
				b.Batches[k].Broker = c.audit.Batches[k].Broker
			}
			require.Equal(t, c.audit.Batches, b.Batches, "byte %d", at)
		}
	}

	bare.From.Count-- // the node hides the newest
	run(t, audit...).fails(t, exitVerify, "the node's proof is not valid")
	bare.From, bare.Topic = c.states[3], common.Hash{1}
	run(t, audit...).fails(t, exitVerify, "ask another node")
	bare.Topic = id
	batches[1]["entries"] = batches[0]["entries"]
	run(t, audit...).fails(t, exitVerify, "operation 1: an operation is missing or was changed")
}

func texts(list []json.RawMessage) (out []string) {
	for _, x := range list {
		out = append(out, string(x))
	}
	return out
}
