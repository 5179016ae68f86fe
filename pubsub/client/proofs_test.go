package client

import (
	"context"
	"encoding/binary"
	"errors"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/proof"
)

// ledger is a chain of the world's only producer, with checkpoints of one partition in it.
type ledger struct {
	w       *world
	trust   *proof.Trust
	headers []*block.SealedHeader

	mu       sync.Mutex
	head     proof.Head
	leaves   []proof.Leaf
	hashes   []tlog.Hash
	event    *proof.Event
	seq      uint64
	height   uint64
	proofs   int
	topic    common.Hash
	tampered func(*proof.Bundle)
	forge    func(*proof.Leaf) // what the notary makes of a batch
	root     proof.Hash        // of the newest checkpoint
	refuse   func(offset int64) bool
	follower *proof.Follower
	after    uint64 // of the newest proof
}

func newLedger(w *world, topic common.Hash) *ledger {
	g, err := w.genesis.Block()
	require.NoError(w.t, err)
	trust, err := proof.TrustGenesis(w.genesis)
	require.NoError(w.t, err)
	l := &ledger{w: w, trust: trust, follower: proof.NewFollower(trust), headers: []*block.SealedHeader{g.SealedHeader}, topic: topic}
	w.proof = l.prove
	return l
}

func (l *ledger) SealedAt(h uint64) *block.SealedHeader {
	if h >= uint64(len(l.headers)) {
		return nil
	}
	return l.headers[h]
}

func (l *ledger) ReadHashes(indexes []int64) (out []tlog.Hash, err error) {
	for _, i := range indexes {
		out = append(out, l.hashes[i])
	}
	return out, nil
}

// grow adds n blocks, each with the certificate of its parent; the first has these receipts.
func (l *ledger) grow(n int, receipts ...*types.Receipt) {
	for range n {
		parent := l.headers[len(l.headers)-1]
		num := parent.Number() + 1
		h := types.CopyHeader(l.headers[0].Header)
		h.Number, h.ParentHash, h.Time, h.ReceiptHash = new(big.Int).SetUint64(num), parent.Hash(), h.Time+num, types.EmptyReceiptsHash
		if len(receipts) > 0 {
			h.ReceiptHash = types.DeriveSha(types.Receipts(receipts), trie.NewStackTrie(nil))
			receipts = nil
		}
		r := &block.Record{Version: block.RecordVersion, Slot: parent.Slot() + 1}
		if l.trust.Params.EpochEnd(num) {
			r.Next = l.trust.Schedule
		}
		if num > 1 {
			link := block.Link{Kind: block.Precommit, Source: parent.Point(), Target: parent.Point()}
			r.FC = block.NewCertificate(link, []block.Schedule{l.trust.Schedule}, func(common.Address) bool { return true })
			d := block.Domain{Genesis: l.trust.Genesis}.VoteDigest(link)
			r.FC.Aggregate = l.w.voter.Sign(d[:])
		}
		h.Extra = r.Hash().Bytes()
		l.headers = append(l.headers, &block.SealedHeader{Header: h, Record: r})
	}
}

// checkpoint binds what the broker has of partition 0 and gives it blocks until it is final.
func (l *ledger) checkpoint(topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, raw := range l.w.kafka.Batches(topic, 0)[len(l.leaves):] {
		h, _, _ := batch.ParseHeader(raw)
		leaf := proof.LeafOf(&h, batch.Covered(raw))
		if l.forge != nil {
			l.forge(&leaf)
		}
		hashes, err := tlog.StoredHashesForRecordHash(int64(len(l.leaves)), leaf.Hash(l.topic, 0), l)
		require.NoError(l.w.t, err)
		l.hashes, l.leaves = append(l.hashes, hashes...), append(l.leaves, leaf)
	}
	n := int64(len(l.leaves))
	root, err := tlog.TreeHash(n, l)
	require.NoError(l.w.t, err)
	l.head = proof.Head{Topic: l.topic, Leaves: n, Root: root, Next: l.leaves[n-1].Next()}
	l.seq++
	topicRoot, _, err := proof.TopicRoot([]proof.Head{l.head})
	require.NoError(l.w.t, err)
	l.root = topicRoot
	data := append(topicRoot[:], common.LeftPadBytes(binary.BigEndian.AppendUint64(nil, uint64(n)), 32)...)
	log := &types.Log{Address: contracts.TopicsAddress, Data: append(data, make([]byte, 32)...), Topics: []common.Hash{
		crypto.Keccak256Hash([]byte("Checkpointed(bytes32,uint64,bytes32,uint64,address)")), l.topic, common.BigToHash(new(big.Int).SetUint64(l.seq))}}
	receipts := types.Receipts{{Type: types.DynamicFeeTxType, Status: 1, CumulativeGasUsed: 1, Logs: []*types.Log{log}}}
	l.event, err = proof.ProveEvent(receipts, 0, 0)
	require.NoError(l.w.t, err)
	l.grow(1, receipts...)
	l.height = uint64(len(l.headers) - 1)
	l.grow(2)
	l.w.commit(l.height, l.topic, l.seq, topicRoot, uint64(n))
}

// prove is bps_proof.
func (l *ledger) prove(_ common.Hash, partition int32, offset, to int64, after uint64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proofs++
	l.after = after
	if l.event == nil || offset >= l.head.Next || l.refuse != nil && l.refuse(offset) {
		return nil, errors.New("not proved yet")
	}
	first := 0
	for l.leaves[first].Next() <= offset {
		first++
	}
	last := first + 1
	for last < len(l.leaves) && l.leaves[last].Base < to && last < first+2 { // a node may give fewer than asked for
		last++
	}
	path, err := proof.ProveRange(int64(first), int64(last), l.head.Leaves, l)
	if err != nil {
		return nil, err
	}
	runs, err := l.follower.Collect(context.Background(), l, after, l.height, uint64(len(l.headers)-1))
	if err != nil {
		return nil, err
	}
	headPath, err := proof.ProveHead([]proof.Head{l.head}, 0)
	if err != nil {
		return nil, err
	}
	b := &proof.Bundle{Genesis: l.trust.Genesis, Runs: runs, Height: l.height, Event: *l.event, Partitions: 1, Head: l.head, HeadPath: headPath,
		First: int64(first), Leaves: append([]proof.Leaf(nil), l.leaves[first:last]...), Path: path}
	if l.tampered != nil {
		l.tampered(b)
	}
	return b.Encode()
}

func TestProofsGoDownToTheGenesisFile(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
	w.send(c, "acme.orders", "1", "2", "3", "4", "5")
	l.checkpoint("acme.orders")
	x := w.consumer(c, "acme.orders")
	w.receive(x, 5)
	proved := func(n int64) func() bool {
		return func() bool {
			at, err := x.Proved(w.ctx, "acme.orders", 0)
			return err == nil && at == n
		}
	}
	require.Eventually(t, proved(5), patience, 10*time.Millisecond)
	l.mu.Lock()
	l.grow(40) // epochs
	l.mu.Unlock()
	w.send(c, "acme.orders", "6")
	w.receive(x, 1)
	l.checkpoint("acme.orders")
	require.Eventually(t, proved(6), patience, 10*time.Millisecond)
}

func TestProvedDeliversWhatTheChainBinds(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner, func(c *Config) { c.Mode = Proved })
	l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
	w.send(c, "acme.orders", "1", "2")
	l.checkpoint("acme.orders")
	w.send(c, "acme.orders", "3")
	x := w.consumer(c, "acme.orders")
	require.Equal(t, []string{"1", "2"}, w.receive(x, 2))
	l.checkpoint("acme.orders")
	require.Equal(t, []string{"3"}, w.receive(x, 1))
}

func TestAForgedBatchDiffersFromTheChain(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
	p, err := c.Producer(kgo.ProducerBatchCompression(kgo.NoCompression()))
	require.NoError(t, err)
	for _, v := range []string{"1", "2", "3"} {
		_, err := p.Send(w.ctx, &Record{Topic: "acme.orders", Value: []byte(v)})
		require.NoError(t, err)
	}
	l.checkpoint("acme.orders")
	w.kafka.Lock()
	w.kafka.Lie = func(_ string, _ int32, _ int64, b []byte) (out []byte) {
		_ = batch.Each(b, func(h batch.Header, raw []byte) error {
			if h.BaseOffset == 1 {
				s := append([]byte(nil), batch.Records(raw)...)
				s[len(s)-2] ^= 1
				raw = batch.WithRecords(raw, s, 0)
			}
			out = append(out, raw...)
			return nil
		})
		return out
	}
	w.kafka.Unlock()
	x := w.consumer(c, "acme.orders")
	err = w.deceived(x, 3) // delivered at once
	var tampered *TamperError
	require.ErrorAs(t, err, &tampered)
	require.Equal(t, int64(1), tampered.Offset)
}

func TestBadProofsProveNothing(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
	w.send(c, "acme.orders", "1", "2", "3")
	l.checkpoint("acme.orders")
	top, err := c.chain.Topic(w.ctx, "acme.orders")
	require.NoError(t, err)
	run := runOf(w, newProofs(c), top.ID)
	to, err := newProofs(c).Check(w.ctx, top, 0, run)
	require.NoError(t, err)
	require.Equal(t, int64(3), to)
	for name, f := range map[string]func(*proof.Bundle){
		"a changed leaf":    func(b *proof.Bundle) { b.Leaves[0].Digest[0] ^= 1 },
		"another head":      func(b *proof.Bundle) { b.Head.Root[0] ^= 1 },
		"another place":     func(b *proof.Bundle) { b.First++ },
		"another partition": func(b *proof.Bundle) { b.Head.Partition, b.Partitions = 1, 2 },
		"another event": func(b *proof.Bundle) {
			b.Event.Nodes = append([][]byte{append([]byte(nil), b.Event.Nodes[0]...)}, b.Event.Nodes[1:]...)
			b.Event.Nodes[0][0] ^= 1
		},
		"another chain":    func(b *proof.Bundle) { b.Genesis[0] ^= 1 },
		"a missing header": func(b *proof.Bundle) { b.Runs = nil },
		"an older block":   func(b *proof.Bundle) { b.Height-- },
		"another vote": func(b *proof.Bundle) {
			c := *b.Runs[0].Certificate
			c.Aggregate = w.voter.Sign([]byte("x"))
			b.Runs[0].Certificate = &c
		},
		"no certificate":     func(b *proof.Bundle) { b.Runs[0].Certificate = nil },
		"the second leaf on": func(b *proof.Bundle) { b.Leaves = b.Leaves[1:] },
	} {
		l.tampered = f
		p := newProofs(c)
		to, err := p.Check(w.ctx, top, 0, run)
		require.Error(t, err, name)
		require.Zero(t, to, name)
		var tampered *TamperError
		require.NotErrorAs(t, err, &tampered, "%s: the node is wrong, not the broker", name)
		l.tampered = nil
		to, err = p.Check(w.ctx, top, 0, run)
		require.NoError(t, err, name)
		require.Equal(t, int64(3), to)
	}
}

// runOf is what an engine would have kept of partition 0.
func runOf(w *world, p *proofs, topic common.Hash) (run []gate.Leaf) {
	for _, raw := range w.kafka.Batches("acme.orders", 0) {
		h, _, _ := batch.ParseHeader(raw)
		run = append(run, gate.Leaf{Base: h.BaseOffset, Next: h.NextOffset(), Hash: p.Leaf(topic, 0, h, batch.Covered(raw))})
	}
	return run
}

// A chain of many epochs costs one who follows it a little for each checkpoint, not the whole way from genesis.
func TestFollowingALongChainCostsLittle(t *testing.T) {
	w := newWorld(t)
	c := w.client(w.owner)
	l := newLedger(w, w.topic(w.admin(c), "acme.orders", false))
	steady := newProofs(c)
	check := func(p *proofs) uint64 {
		top, err := c.chain.Topic(w.ctx, "acme.orders")
		require.NoError(t, err)
		run := runOf(w, p, top.ID)
		before := p.bytes
		to, err := p.Check(w.ctx, top, 0, run[len(run)-1:])
		require.NoError(t, err)
		require.Equal(t, run[len(run)-1].Next, to)
		return p.bytes - before
	}
	var first, last uint64
	for i := range 8 {
		l.mu.Lock()
		l.grow(100)
		l.mu.Unlock()
		w.send(c, "acme.orders", "x")
		l.checkpoint("acme.orders")
		c.chain.mu.Lock()
		clear(c.chain.marks)
		c.chain.mu.Unlock()
		last = check(steady)
		if i == 0 {
			first = last
		} else {
			require.NotZero(t, l.after)
		}
	}
	whole := check(newProofs(c))
	t.Logf("%d blocks, %d epochs of %d: %d bytes of proof from genesis; for one who follows %d at first, then %d for each checkpoint after 100 blocks",
		len(l.headers), uint64(len(l.headers))/l.trust.Params.EpochBlocks, l.trust.Params.EpochBlocks, whole, first, last)
	require.Less(t, last*4, whole)
	l.mu.Lock()
	w.send(c, "acme.orders", "x")
	l.mu.Unlock()
	l.checkpoint("acme.orders")
	c.chain.mu.Lock()
	clear(c.chain.marks)
	c.chain.mu.Unlock()
	next := check(steady)
	t.Logf("a checkpoint in the same epoch: %d bytes", next)
	require.Less(t, next, last)

	l.tampered = func(b *proof.Bundle) {
		if l.after > 0 { // a node that does not know where he is
			b.Runs = nil
		}
	}
	w.send(c, "acme.orders", "x")
	l.checkpoint("acme.orders")
	c.chain.mu.Lock()
	clear(c.chain.marks)
	c.chain.mu.Unlock()
	check(steady)
	require.Zero(t, l.after, "the whole way was asked for")
}
