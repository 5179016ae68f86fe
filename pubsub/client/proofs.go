package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/proof"
)

// proofs is the engine's Proofs: bundles of the nodes, each checked from the genesis file on. What was shown of the chain
// is kept, so that a bundle holds the headers since then alone, and what was shown of each partition's tree, which later
// checkpoints must continue.
type proofs struct {
	trust *proof.Trust
	// nodes are asked for proofs in this order.
	nodes []string
	// newest is the number and height of a topic's newest checkpoint; a proof is asked for only when there is one that was
	// not seen.
	newest func(ctx context.Context, topic common.Hash) (contracts.CheckpointInfo, error)
	// fetch asks a node for a bundle of offsets [from, to), or as many as fit, for one who followed the chain to a block
	// (zero: he did not); empty: no checkpoint covers the first yet.
	fetch func(ctx context.Context, node string, q proofQuestion) ([]byte, error)
	// witnesses has what the nodes say of checkpoints that others showed.
	witnesses *witnesses

	mu    sync.Mutex
	bases []*proof.Chain // at the genesis block, and after the newest ends of epochs, ascending
	shown map[uint64]common.Hash
	waits map[proofPlace]waiting
	stuck map[proofPlace]waiting   // since when nobody has a proof of an offset
	trees map[proofPlace]shownTree // the newest that was relied on
	held  map[proofPlace]heldProof // what was shown and may not be relied on
	bytes uint64                   // of proofs, ever
}

// proofQuestion is what a proof is asked for.
type proofQuestion struct {
	topic     common.Hash
	partition int32
	from, to  int64
	followed  proof.Checkpoint
}

type proofPlace struct {
	topic     common.Hash
	partition int32
}

// waiting says that no checkpoint up to seq covers an offset.
type waiting struct {
	seq  uint64
	from int64
}

// shownTree is a partition's tree under a checkpoint.
type shownTree struct {
	seq  uint64
	head proof.Head
}

// heldProof says why nothing was proved when a topic's newest checkpoint was seq.
type heldProof struct {
	seq uint64
	at  time.Time
	err error
}

func newProofs(c *Client) *proofs {
	nodes := append([]string{c.cfg.Node}, c.cfg.Provers...)
	return &proofs{trust: c.trust, bases: []*proof.Chain{proof.NewChain(c.trust)}, shown: map[uint64]common.Hash{}, waits: map[proofPlace]waiting{},
		stuck: map[proofPlace]waiting{}, trees: map[proofPlace]shownTree{}, held: map[proofPlace]heldProof{}, nodes: nodes, newest: c.chain.newestCheckpoint, fetch: c.fetchProof,
		witnesses: newWitnesses(c.chain.genesis, nodes, c.cfg.Witnesses, c.askWitness)}
}

// notYet is the code with which a node says that no checkpoint covers an offset yet.
const notYet = -32000

// fetchProof asks one node for a proof: only brokers of the topic have it.
func (c *Client) fetchProof(ctx context.Context, node string, q proofQuestion) ([]byte, error) {
	args := []any{q.topic, hexutil.Uint64(q.partition), hexutil.Uint64(q.from), hexutil.Uint64(min(q.to-q.from, ProofRecords)), false} //nolint:gosec // not negative
	if q.followed.Height > 0 {
		args = append(args, map[string]any{"number": hexutil.Uint64(q.followed.Height), "hash": q.followed.Hash, "followed": true})
	}
	var out struct {
		Proof hexutil.Bytes `json:"proof"`
	}
	rpc, err := c.prover(ctx, node)
	if err == nil {
		cctx, cancel := context.WithTimeout(ctx, CallTimeout)
		err = rpc.CallContext(cctx, &out, "bps_proof", args...)
		cancel()
	}
	var answer gethrpc.Error
	if errors.As(err, &answer) && answer.ErrorCode() == notYet {
		c.log.Debug("no proof yet", zap.String("node", node), zap.Stringer("topic", q.topic), zap.Int32("partition", q.partition), zap.Int64("offset", q.from), zap.Error(err))
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("node %s gives no proof: %w", node, err)
	}
	return out.Proof, nil
}

// prover is the connection to a node that may have proofs.
func (c *Client) prover(ctx context.Context, url string) (*gethrpc.Client, error) {
	if url == c.cfg.Node {
		return c.rpc, nil
	}
	c.mu.Lock()
	rpc := c.provers[url]
	c.mu.Unlock()
	if rpc != nil {
		return rpc, nil
	}
	rpc, err := gethrpc.DialOptions(ctx, url, gethrpc.WithWebsocketMessageSizeLimit(AnswerBytes))
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.provers[url]; other != nil || c.closed {
		rpc.Close()
		if other == nil {
			return nil, ErrClosed
		}
		return other, nil
	}
	c.provers[url] = rpc
	return rpc, nil
}

// ask has a bundle of the first node that gives a good one; nil: no checkpoint covers the offset yet, or nothing new can
// come of asking. It may be relied on.
func (p *proofs) ask(ctx context.Context, t gate.Topic, partition int32, from, to int64) (*proof.Bundle, proof.Checkpointed, error) {
	var none proof.Checkpointed
	newest, err := p.newest(ctx, t.ID)
	if err != nil {
		return nil, none, err
	}
	at := proofPlace{t.ID, partition}
	p.mu.Lock()
	w, ok := p.waits[at]
	h, held := p.held[at]
	p.mu.Unlock()
	switch {
	case newest.Seq == 0 || ok && w.seq == newest.Seq && from >= w.from:
		return nil, none, nil
	case held && h.seq == newest.Seq && time.Since(h.at) < WitnessPause:
		return nil, none, h.err
	}
	var all, doubt error
	for _, node := range p.nodes {
		b, c, err := p.askOne(ctx, node, proofQuestion{topic: t.ID, partition: partition, from: from, to: to}, newest.Height)
		if err == nil && b != nil {
			err = p.continues(ctx, node, b, &c, newest.Height)
		}
		switch {
		case errors.Is(err, proof.ErrForked):
			return nil, none, err
		case err != nil:
			all = errors.Join(all, err)
			continue
		case b == nil:
			continue
		}
		if doubt = p.witnesses.vouch(ctx, t, partition, &c); doubt == nil {
			p.rely(at, &c, &b.Head)
			return b, c, nil
		}
	}
	if doubt != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		if len(p.held) >= KnownTopics {
			clear(p.held)
		}
		p.held[at] = heldProof{newest.Seq, time.Now(), doubt}
		return nil, none, doubt
	}
	if all == nil && p.passedOver(at, from, newest.Seq) {
		all = fmt.Errorf("%w: checkpoint %d is there", gate.ErrPassedOver, newest.Seq)
	}
	return nil, none, all
}

// askOne fetches a bundle of a node and checks it; nil: the node has none yet. One for who followed the chain is asked for
// first, and the whole way from genesis where that does not do.
func (p *proofs) askOne(ctx context.Context, node string, q proofQuestion, height uint64) (b *proof.Bundle, c proof.Checkpointed, err error) {
	base := p.baseBelow(height)
	tries := []proof.Checkpoint{{Height: base.Height(), Hash: base.Hash()}}
	if base.Height() > 0 {
		tries = append(tries, proof.Checkpoint{})
	}
	for _, q.followed = range tries {
		var raw []byte
		if raw, err = p.fetch(ctx, node, q); err != nil {
			continue
		}
		if len(raw) == 0 {
			return nil, c, nil
		}
		p.mu.Lock()
		p.bytes += uint64(len(raw))
		p.mu.Unlock()
		if b, err = proof.DecodeBundle(raw); err == nil {
			c, err = p.verify(b, q.topic, q.partition, q.from)
		}
		if err == nil {
			return b, c, nil
		}
		err = fmt.Errorf("a proof of node %s: %w", node, err)
	}
	return nil, c, err
}

// continues holds a good bundle against the newest tree that was shown of its partition: what one checkpoint binds, all
// later ones bind. proof.ErrForked: the chain has two histories, whoever shows them. Where the bundle is of leaves elsewhere,
// the one behind the older tree is asked for besides. Other errors: the node does not show it.
func (p *proofs) continues(ctx context.Context, node string, b *proof.Bundle, c *proof.Checkpointed, height uint64) error {
	at := proofPlace{c.Topic, b.Head.Partition}
	p.mu.Lock()
	was, ok := p.trees[at]
	p.mu.Unlock()
	switch {
	case !ok:
		return nil
	case c.Seq < was.seq:
		return fmt.Errorf("node %s shows checkpoint %d, after %d was shown", node, c.Seq, was.seq)
	case c.Seq == was.seq && b.Head != was.head:
		return &proof.Tamper{Kind: proof.ErrForked, Topic: c.Topic, Partition: b.Head.Partition, Offset: min(was.head.Next, b.Head.Next),
			Detail: fmt.Sprintf("checkpoint %d stands for two trees, of roots %s and %s", c.Seq, was.head.Root, b.Head.Root)}
	case c.Seq == was.seq:
		return nil
	}
	shown, err := b.Continues(&was.head)
	if err != nil || shown {
		return err
	}
	return p.link(ctx, node, b, c, &was.head, height)
}

// rely remembers the tree that later checkpoints must continue.
func (p *proofs) rely(at proofPlace, c *proof.Checkpointed, head *proof.Head) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.trees[at]; !known && len(p.trees) >= ShownTrees {
		for other := range p.trees { // any
			delete(p.trees, other)
			break
		}
	}
	p.trees[at] = shownTree{c.Seq, *head}
}

// link asks for the leaf behind an older tree under the same checkpoint as b's.
func (p *proofs) link(ctx context.Context, node string, b *proof.Bundle, c *proof.Checkpointed, old *proof.Head, height uint64) error {
	x, xc, err := p.askOne(ctx, node, proofQuestion{topic: c.Topic, partition: b.Head.Partition, from: old.Next, to: old.Next + 1}, height)
	if err != nil {
		return err
	}
	if x == nil || xc.Seq != c.Seq || x.Head != b.Head {
		return fmt.Errorf("node %s does not show that checkpoint %d continues what was shown before", node, c.Seq)
	}
	shown, err := x.Continues(old)
	if err == nil && !shown {
		err = fmt.Errorf("node %s does not show what follows offset %d", node, old.Next)
	}
	return err
}

// passedOver notes that nobody has a proof of an offset, and tells whether checkpoints came meanwhile that should bind it.
func (p *proofs) passedOver(at proofPlace, from int64, seq uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if was, ok := p.stuck[at]; ok && was.from == from {
		return seq >= was.seq+PassedCheckpoints
	}
	if len(p.stuck) >= KnownTopics {
		clear(p.stuck)
	}
	p.stuck[at] = waiting{seq, from}
	return false
}

// baseBelow is the newest point up to which the chain was followed that is below a height.
func (p *proofs) baseBelow(height uint64) *proof.Chain {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.bases) - 1; i > 0; i-- {
		if p.bases[i].Height() < height {
			return p.bases[i]
		}
	}
	return p.bases[0]
}

// exhausted notes that the checkpoints up to a number cover a partition up to an offset only.
func (p *proofs) exhausted(topic common.Hash, partition int32, seq uint64, from int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waits) >= KnownTopics {
		clear(p.waits)
	}
	p.waits[proofPlace{topic, partition}] = waiting{seq, from}
}

// Leaf is gate.Proofs.
func (p *proofs) Leaf(topic common.Hash, partition int32, h batch.Header, covered []byte) common.Hash {
	l := proof.LeafOf(&h, covered)
	return common.Hash(l.Hash(topic, partition))
}

// Check is gate.Proofs.
func (p *proofs) Check(ctx context.Context, t gate.Topic, partition int32, run []gate.Leaf) (int64, error) {
	to := run[0].Base
	for len(run) > 0 {
		b, c, err := p.ask(ctx, t, partition, to, run[len(run)-1].Next)
		if errors.Is(err, proof.ErrForked) {
			err = &TamperError{Topic: t.Name, Partition: partition, Offset: to, What: gate.Rewritten, Cause: err}
		}
		if err != nil || b == nil {
			return to, err
		}
		p.exhausted(t.ID, partition, c.Seq, b.Head.Next)
		n, err := compare(t, partition, b.Leaves, run)
		if n > 0 {
			to = run[n-1].Next
		}
		if err != nil {
			return to, err
		}
		run = run[n:]
	}
	return to, nil
}

// compare matches proved leaves with what was delivered, and tells how many are the same.
func compare(t gate.Topic, partition int32, leaves []proof.Leaf, run []gate.Leaf) (int, error) {
	n := min(len(leaves), len(run))
	for i := range n {
		l := &leaves[i]
		if l.Base != run[i].Base || l.Next() != run[i].Next || common.Hash(l.Hash(t.ID, partition)) != run[i].Hash {
			return i, &TamperError{Topic: t.Name, Partition: partition, Offset: run[i].Base, What: gate.Unproved,
				Cause: fmt.Errorf("a batch of offsets %d to %d was served; the chain binds one of offsets %d to %d with digest %s",
					run[i].Base, run[i].Next-1, l.Base, l.Next()-1, l.Digest)}
		}
	}
	return n, nil
}

// verify checks a bundle from its leaves to the genesis file, and that it answers the question, and gives its checkpoint. A
// node that gives another proof than was asked for proves nothing, neither good nor bad.
func (p *proofs) verify(b *proof.Bundle, topic common.Hash, partition int32, offset int64) (c proof.Checkpointed, err error) {
	switch {
	case b.Head.Topic != topic || b.Head.Partition != partition || len(b.Leaves) == 0:
		return c, errors.New("it is of something else")
	case offset < b.Leaves[0].Base || offset >= b.Leaves[0].Next():
		return c, fmt.Errorf("it begins at offset %d where %d was asked for", b.Leaves[0].Base, offset)
	}
	h, err := p.final(b)
	if err != nil {
		return c, err
	}
	log, err := b.Event.Verify(h.Header.ReceiptHash)
	if err != nil {
		return c, err
	}
	if c, err = proof.DecodeCheckpointed(contracts.TopicsAddress, log); err != nil {
		return c, err
	}
	if common.Hash(c.Topic) != topic {
		return c, errors.New("its checkpoint is of another topic")
	}
	if err := proof.CheckHead(c.Root, b.Partitions, &b.Head, b.HeadPath); err != nil {
		return c, err
	}
	return c, b.Head.CheckLeaves(b.First, b.Leaves, b.Path)
}

// final is the header with the checkpoint, shown to be final: from what was shown before, or from the genesis file where
// that does not lead to it.
func (p *proofs) final(b *proof.Bundle) (*block.SealedHeader, error) {
	if b.Genesis != p.trust.Genesis {
		return nil, fmt.Errorf("%w: its block 0 is %s", ErrWrongChain, b.Genesis)
	}
	for i := range b.Runs {
		if len(b.Runs[i].Headers) == 0 {
			return nil, errors.New("a run without headers")
		}
		for _, h := range b.Runs[i].Headers {
			if h == nil || h.Header == nil || h.Header.Number == nil || h.Record == nil {
				return nil, errors.New("a header is missing")
			}
		}
	}
	base := p.baseBelow(b.Height)
	p.mu.Lock()
	defer p.mu.Unlock()
	h, err := p.walk(b, *base)
	if err == nil || base.Height() == 0 {
		return h, err
	}
	if h, err := p.walk(b, *proof.NewChain(p.trust)); err == nil {
		return h, nil
	}
	return nil, err
}

func (p *proofs) walk(b *proof.Bundle, c proof.Chain) (found *block.SealedHeader, err error) {
	for i := range b.Runs {
		run := &b.Runs[i]
		before := run.Headers[len(run.Headers)-1].Number() <= c.Height()
		if !before {
			if err := c.Extend(run); err != nil {
				return nil, err
			}
			p.remember(run, c)
		}
		for _, h := range run.Headers {
			if h.Number() == b.Height && (!before || p.shown[b.Height] == h.Hash()) {
				found = h
			}
		}
	}
	if found == nil {
		return nil, fmt.Errorf("the header of block %d is not among what was shown to be final", b.Height)
	}
	return found, nil
}

// remember keeps a run's headers, and the chain after it where an epoch ended in it.
func (p *proofs) remember(run *proof.Run, c proof.Chain) {
	if len(p.shown)+len(run.Headers) > shownHeaders {
		clear(p.shown)
	}
	end := false
	for _, h := range run.Headers {
		p.shown[h.Number()] = h.Hash()
		end = end || p.trust.Params.EpochEnd(h.Number())
	}
	if !end || c.Height() <= p.bases[len(p.bases)-1].Height() {
		return
	}
	if len(p.bases) >= keptBases {
		p.bases = append(p.bases[:1], p.bases[len(p.bases)-keptBases/2:]...)
	}
	p.bases = append(p.bases, &c)
}
