package rpc

import (
	"context"
	"encoding/binary"
	"errors"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/bls"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/evidence"
	"github.com/bornode/bornode/pubsub/proof"
)

// topicChain is a chain of one producer whose blocks hold what the test wants, each certified by the next.
type topicChain struct {
	Chain
	t        *testing.T
	key      *bls.SecretKey
	trust    *proof.Trust
	blocks   []*block.Block
	receipts map[common.Hash]types.Receipts
	reads    map[uint64]int
	states   map[common.Hash]proof.LogState
	db       state.Database
	root     common.Hash // of the state of the blocks to come
	damaged  uint64      // block that cannot be read; 0: none
}

func newTopicChain(t *testing.T) *topicChain {
	key, err := bls.SecretKeyFromBytes(append(make([]byte, 31), 7))
	require.NoError(t, err)
	c := &topicChain{t: t, key: key, receipts: map[common.Hash]types.Receipts{}, reads: map[uint64]int{}, states: map[common.Hash]proof.LogState{}, db: state.NewDatabaseForTesting(), root: types.EmptyRootHash}
	s := block.Schedule{{Account: common.Address{1}, Key: key.PublicKey()}}
	c.trust = &proof.Trust{Params: block.Parameters{ChainID: 5, EpochBlocks: 4, SlotMillis: 1000, TurnSlots: 1}, Schedule: s}
	c.add(nil, nil)
	c.trust.Genesis = c.blocks[0].Hash()
	return c
}

func (c *topicChain) add(txs types.Transactions, receipts types.Receipts) {
	n := uint64(len(c.blocks))
	h := &types.Header{Number: new(big.Int).SetUint64(n), Difficulty: new(big.Int), Time: n, Root: c.root, ReceiptHash: types.DeriveSha(receipts, trie.NewStackTrie(nil))}
	r := &block.Record{Version: block.RecordVersion, Slot: n}
	if n > 0 {
		h.ParentHash = c.blocks[n-1].Hash()
		if n%4 == 0 {
			r.Next = c.trust.Schedule
		}
	}
	if n > 1 {
		p := c.blocks[n-1].Point()
		l := block.Link{Kind: block.Precommit, Source: p, Target: p}
		r.FC = block.NewCertificate(l, []block.Schedule{c.trust.Schedule}, func(common.Address) bool { return true })
		d := block.Domain{Genesis: c.trust.Genesis}.VoteDigest(l)
		r.FC.Aggregate = c.key.Sign(d[:])
	}
	h.Extra = r.Hash().Bytes()
	b := &block.Block{SealedHeader: &block.SealedHeader{Header: h, Record: r}, Transactions: txs}
	c.blocks, c.receipts[b.Hash()] = append(c.blocks, b), receipts
}

// keep has the state of the blocks to come hold the logs of operations.
func (c *topicChain) keep() {
	s, err := state.New(c.root, c.db)
	require.NoError(c.t, err)
	s.SetNonce(contracts.TopicsAddress, 1, tracing.NonceChangeUnspecified)
	for id, l := range c.states {
		counts, root := contracts.OperationsSlots(id)
		var word common.Hash
		binary.BigEndian.PutUint64(word[24:], l.Count)
		binary.BigEndian.PutUint64(word[16:], l.Height)
		s.SetState(contracts.TopicsAddress, counts, word)
		s.SetState(contracts.TopicsAddress, root, l.Root)
	}
	c.root, err = s.Commit(params.Rules{IsEIP158: true}, uint64(len(c.blocks)))
	require.NoError(c.t, err)
}

func (c *topicChain) StateAt(h *types.Header) (*state.StateDB, error) { return state.New(h.Root, c.db) }

func (c *topicChain) CurrentHeader() *types.Header { return c.blocks[len(c.blocks)-1].Header }
func (c *topicChain) FinalHeader() *types.Header   { return c.blocks[len(c.blocks)-2].Header }
func (c *topicChain) CanonicalHash(n uint64) (common.Hash, error) {
	if n >= uint64(len(c.blocks)) {
		return common.Hash{}, nil
	}
	return c.blocks[n].Hash(), nil
}
func (c *topicChain) Sealed(h common.Hash) (*block.SealedHeader, error) {
	for i, b := range c.blocks {
		if b.Hash() == h {
			if c.damaged == uint64(i) && i > 0 {
				return nil, block.ErrCorrupt{Height: uint64(i), Cause: errors.New("flipped")}
			}
			return b.SealedHeader, nil
		}
	}
	return nil, nil
}
func (c *topicChain) BlockByNumber(n uint64) (*block.Block, error) {
	c.reads[n]++
	if c.damaged == n && n > 0 {
		return nil, block.ErrCorrupt{Height: n, Cause: errors.New("flipped")}
	}
	return c.blocks[n], nil
}

// hashAt is CanonicalHash.
func (c *topicChain) hashAt(n uint64) common.Hash                    { return c.blocks[n].Hash() }
func (c *topicChain) Receipts(h common.Hash) (types.Receipts, error) { return c.receipts[h], nil }

// Call answers the one view that audits need.
func (c *topicChain) Call(_ context.Context, _ *types.Header, _ common.Address, data []byte) ([]byte, error) {
	s := c.states[common.BytesToHash(data[4:])]
	out := common.BigToHash(new(big.Int).SetUint64(s.Count)).Bytes()
	out = append(out, s.Root[:]...)
	return append(out, common.BigToHash(new(big.Int).SetUint64(s.Height)).Bytes()...), nil
}

// operate adds a block in which a broker commits one batch for each topic, in one transaction.
func (c *topicChain) operate(topics ...common.Hash) {
	var list []contracts.Operations
	r := &types.Receipt{Status: 1}
	for _, id := range topics {
		entries := proof.EncodeOperations([]proof.Operation{{Operator: common.Address{9}, Kind: proof.KindRead, Partition: 1, First: int64(len(c.blocks)), Last: int64(len(c.blocks)), Count: 1}})
		list = append(list, contracts.Operations{Topic: id, Count: 1, Entries: entries})
		s := c.states[id]
		next := s.Next(uint64(len(c.blocks)), entries, 1)
		data := make([]byte, 128)
		binary.BigEndian.PutUint64(data[24:], s.Height)
		copy(data[32:], s.Root[:])
		data[95] = 1
		copy(data[96:], next.Root[:])
		r.Logs = append(r.Logs, &types.Log{Address: contracts.TopicsAddress, Topics: []common.Hash{contracts.EventOperated, id, {31: 0xbb}}, Data: data})
		c.states[id] = next
	}
	call, err := contracts.CommitCall(contracts.Commit{Number: 1, Operations: list})
	require.NoError(c.t, err)
	c.add(types.Transactions{types.NewTx(&types.LegacyTx{Data: call})}, types.Receipts{r})
}

func topicAPI(c *topicChain) *bpsAPI {
	s := &service{cfg: DefaultConfig(), back: Backend{Chain: c, Topics: c, Trust: c.trust}}
	s.bound()
	return &bpsAPI{service: s}
}

func TestAuditReadsOnlyItsTopic(t *testing.T) {
	c := newTopicChain(t)
	mine, other := common.Hash{1}, common.Hash{2}
	for i := range 30 {
		switch {
		case i%10 == 0:
			c.operate(other, mine, other, mine) // two batches of one topic in one block
		default:
			c.operate(other)
		}
	}
	c.add(nil, nil)
	c.add(nil, nil)
	api := topicAPI(c)
	out, err := api.Audit(context.Background(), mine.Hex(), nil, nil)
	require.NoError(t, err)
	require.True(t, out.Proved)
	require.Len(t, out.Batches, 6)
	require.EqualValues(t, 3, out.Read)
	require.Len(t, c.reads, 3, "blocks without operations of the topic were read")
	require.Zero(t, out.From.Count)
	require.EqualValues(t, 1, out.Batches[0].Operations[0].First)

	two := hexutil.Uint64(2) // by pages
	page, err := api.Audit(context.Background(), mine.Hex(), nil, &two)
	require.NoError(t, err)
	n := len(page.Batches)
	for page.From.Count > 0 {
		page, err = api.Audit(context.Background(), mine.Hex(), &page.From, &two)
		require.NoError(t, err)
		n += len(page.Batches)
	}
	require.Equal(t, 6, n)

	bad := out.To
	bad.Root[0]++
	_, err = api.Audit(context.Background(), mine.Hex(), &bad, nil)
	require.ErrorContains(t, err, "not of this chain")
	bad = out.To
	bad.Count++ // one is said to be missing
	_, err = api.Audit(context.Background(), mine.Hex(), &bad, nil)
	require.Error(t, err)
	c.blocks[1].Transactions[0] = types.NewTx(&types.LegacyTx{Data: c.blocks[2].Transactions[0].Data()})
	_, err = api.Audit(context.Background(), mine.Hex(), nil, nil)
	require.Error(t, err, "the call data does not match the events")
}

// provingBroker has one partition with one batch.
type provingBroker struct{ p *evidence.Proven }

func (b provingBroker) Prove(id evidence.ID, from, to int64, withBatches bool) (*evidence.Proven, error) {
	if from >= b.p.Head.Next {
		return nil, evidence.ErrNotProved
	}
	p := *b.p
	if !withBatches {
		p.Batches = nil
	}
	return &p, nil
}

// oneReader lets one token read.
type oneReader struct{}

func (oneReader) MayRead(token, _ string, _ [32]byte) error {
	if token != "good" {
		return errors.New("not for this token's holder")
	}
	return nil
}

// provesBatches: records come by proofs to those who may read them by Kafka, and to nobody else.
func provesBatches(t *testing.T, api *bpsAPI, id common.Hash) {
	yes, good, bad := true, "good", "bad"
	ask := func(batches *bool, token *string) (*topicProofJSON, error) {
		return api.Proof(context.Background(), id.Hex(), 0, 1, nil, batches, nil, token)
	}
	for _, token := range []*string{nil, &good} { // this node judges no tokens
		_, err := ask(&yes, token)
		require.ErrorContains(t, err, "may read")
		p, err := ask(nil, token)
		require.NoError(t, err)
		require.False(t, p.Batches)
	}
	api.back.Readers = oneReader{}
	p, err := ask(&yes, &good)
	require.NoError(t, err)
	require.True(t, p.Batches)
	_, err = ask(nil, &bad)
	require.ErrorContains(t, err, "not for")
	_, err = ask(&yes, nil)
	require.ErrorContains(t, err, "may read")
	p, err = (&bpsAPI{api.service, true}).Proof(context.Background(), id.Hex(), 0, 1, nil, nil, nil, nil)
	require.NoError(t, err)
	require.True(t, p.Batches, "who holds the node's socket has its disk too")
}
func (b provingBroker) Alarms() []evidence.Alarm { return nil }
func (b provingBroker) Reports() [][]byte        { return [][]byte{[]byte("damaged")} }
func (b provingBroker) Witness(id [32]byte) (evidence.Witness, error) {
	if id != b.p.Head.Topic {
		return evidence.Witness{}, nil
	}
	return evidence.Witness{Replica: true, Seq: b.p.Seq, Root: b.p.Root, Pending: []uint64{b.p.Seq + 1}, Disputes: [][]byte{{1, 2}}}, nil
}

func TestProofIsTakenByAVerifier(t *testing.T) {
	id := common.Hash{1}
	raw := batch.Encode(batch.Header{Count: 2, LastOffsetDelta: 1, ProducerID: -1}, []byte("two records"))
	h, _, err := batch.Parse(raw)
	require.NoError(t, err)
	leaf := proof.LeafOf(&h, batch.Covered(raw))
	var f proof.Frontier
	f.Append(leaf.Hash(id, 0))
	head := proof.Head{Topic: id, Leaves: 1, Root: f.Root(), Next: 2}
	root, _, err := proof.TopicRoot([]proof.Head{head})
	require.NoError(t, err)

	c := newTopicChain(t)
	for range 9 {
		c.add(nil, nil)
	}
	data := append(root[:], make([]byte, 64)...)
	data[63] = 1
	c.add(nil, types.Receipts{{Status: 1, Logs: []*types.Log{{Address: contracts.TopicsAddress, Topics: []common.Hash{contracts.EventCheckpointed, id, {31: 3}}, Data: data}}}})
	for range 7 {
		c.add(nil, nil)
	}
	api := topicAPI(c)
	_, err = api.Proof(context.Background(), id.Hex(), 0, 0, nil, nil, nil, nil)
	require.ErrorContains(t, err, "not offered")
	api.back.Broker = provingBroker{&evidence.Proven{Seq: 3, Height: 10, Partitions: 1, Head: head, Leaves: []proof.Leaf{leaf}, Batches: raw}}

	reports, err := api.Reports()
	require.NoError(t, err)
	require.Empty(t, reports, "what shows nothing is not told")
	w, err := api.Witness(context.Background(), id.Hex())
	require.NoError(t, err)
	require.Equal(t, &witnessJSON{Topic: id, Replica: true, Seq: 3, Pending: []hexutil.Uint64{4}, Disputes: []hexutil.Bytes{{1, 2}}}, w)
	w, err = api.Witness(context.Background(), common.Hash{2}.Hex())
	require.NoError(t, err)
	require.False(t, w.Replica)
	for _, trusted := range []*trustedJSON{nil, {Number: 12, Hash: c.hashAt(12)}, {Number: 4, Hash: c.hashAt(4)}} {
		p, err := api.Proof(context.Background(), id.Hex(), 0, 1, nil, nil, trusted, nil)
		require.NoError(t, err)
		b, err := proof.DecodeBundle(p.Proof)
		require.NoError(t, err)
		trust := *c.trust
		if trusted != nil {
			trust.Checkpoint = &proof.Checkpoint{Height: uint64(trusted.Number), Hash: trusted.Hash}
		}
		v, err := b.Verify(&trust, contracts.TopicsAddress)
		require.NoError(t, err)
		require.Equal(t, c.hashAt(10), v.Block)
		require.Equal(t, [2]int64{0, 2}, [2]int64{v.From, v.To})
		require.EqualValues(t, 3, v.Checkpoint.Seq)
	}
	provesBatches(t, api, id)
	whole := proof.NewChain(c.trust)
	first, err := proof.Collect(context.Background(), c.trust, &finalSource{back: &Backend{Chain: c}}, 9, c.CurrentHeader().Number.Uint64())
	require.NoError(t, err)
	require.NoError(t, whole.Extend(&first[0])) // the first epoch
	p, err := api.Proof(context.Background(), id.Hex(), 0, 1, nil, nil, &trustedJSON{Number: hexutil.Uint64(whole.Height()), Hash: whole.Hash(), Followed: true}, nil)
	require.NoError(t, err)
	b, err := proof.DecodeBundle(p.Proof)
	require.NoError(t, err)
	for i := range b.Runs {
		require.Greater(t, b.Runs[i].Headers[0].Number(), uint64(4), "what was followed is left out")
		require.NoError(t, whole.Extend(&b.Runs[i]))
	}
	require.GreaterOrEqual(t, whole.Height(), uint64(10))

	_, err = api.Proof(context.Background(), id.Hex(), 0, 2, nil, nil, nil, nil)
	require.ErrorContains(t, err, "not covered by a checkpoint")
	_, err = api.Proof(context.Background(), id.Hex(), 0, 0, nil, nil, &trustedJSON{Number: 4, Hash: common.Hash{1}}, nil)
	require.ErrorContains(t, err, "not a final block")
	_, err = api.Proof(context.Background(), "nodot", 0, 0, nil, nil, nil, nil)
	require.Error(t, err)

	e, err := api.Epochs(context.Background(), nil, nil)
	require.NoError(t, err)
	require.Len(t, e.Runs, 4, "of blocks 4, 8, 12 and 16")
	one := hexutil.Uint64(1)
	e2, err := api.Epochs(context.Background(), &e.First, &one)
	require.NoError(t, err)
	require.Equal(t, e.Runs[1:2], e2.Runs)
	require.True(t, e2.More)
}

func TestStateOfOperationsIsProved(t *testing.T) {
	c := newTopicChain(t)
	mine, none := common.Hash{1}, common.Hash{3}
	for range 6 {
		c.operate(mine, common.Hash{2})
	}
	api := topicAPI(c)
	c.add(nil, nil)
	p, err := api.OperationsProof(t.Context(), mine.Hex(), nil) // a state in which there is no contract yet
	require.Error(t, err)
	require.Nil(t, p)
	c.keep()
	for range 6 {
		c.add(nil, nil)
	}
	at := func(id common.Hash) proof.Place {
		p := proof.Place{Contract: contracts.TopicsAddress}
		p.Counts, p.Root = contracts.OperationsSlots(id)
		return p
	}
	for _, trusted := range []*trustedJSON{nil, {Number: 12, Hash: c.hashAt(12)}} {
		p, err = api.OperationsProof(t.Context(), mine.Hex(), trusted)
		require.NoError(t, err)
		require.Equal(t, c.hashAt(uint64(p.Number)), p.Hash)
		a, err := proof.DecodeAudit(p.Proof)
		require.NoError(t, err)
		trust := *c.trust
		if trusted != nil {
			trust.Checkpoint = &proof.Checkpoint{Height: uint64(trusted.Number), Hash: trusted.Hash}
		}
		v, err := a.Verify(&trust, at(mine))
		require.NoError(t, err)
		require.Equal(t, c.states[mine], v.To)
	}
	p, err = api.OperationsProof(t.Context(), none.Hex(), nil)
	require.NoError(t, err)
	a, err := proof.DecodeAudit(p.Proof)
	require.NoError(t, err)
	v, err := a.Verify(c.trust, at(none))
	require.NoError(t, err)
	require.Zero(t, v.To, "that there are none is proved as well")
	_, err = api.OperationsProof(t.Context(), mine.Hex(), &trustedJSON{Number: 4, Hash: common.Hash{1}})
	require.ErrorContains(t, err, "not a final block")
}
