package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

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

// proofs is the engine's Proofs: bundles of the node, each checked from the genesis file on. What was shown of the chain
// is kept, so that a bundle holds the headers since then alone.
type proofs struct {
	trust *proof.Trust
	// newest is the number and height of a topic's newest checkpoint; a proof is asked for only when there is one that was
	// not seen.
	newest func(ctx context.Context, topic common.Hash) (contracts.CheckpointInfo, error)
	// fetch asks for a bundle of offsets [from, to), or as many as fit, for one who followed the chain to a block (zero:
	// he did not); empty: no checkpoint covers the first yet.
	fetch func(ctx context.Context, topic common.Hash, partition int32, from, to int64, followed proof.Checkpoint) ([]byte, error)

	mu    sync.Mutex
	bases []*proof.Chain // at the genesis block, and after the newest ends of epochs, ascending
	shown map[uint64]common.Hash
	waits map[proofPlace]waiting
	bytes uint64 // of proofs, ever
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

func newProofs(c *Client) *proofs {
	return &proofs{trust: c.trust, bases: []*proof.Chain{proof.NewChain(c.trust)}, shown: map[uint64]common.Hash{}, waits: map[proofPlace]waiting{},
		newest: c.chain.newestCheckpoint, fetch: c.fetchProof}
}

// notYet is the code with which a node says that no checkpoint covers an offset yet.
const notYet = -32000

// fetchProof asks the node, then the other provers, for a proof: only brokers of the topic have it.
func (c *Client) fetchProof(ctx context.Context, topic common.Hash, partition int32, from, to int64, followed proof.Checkpoint) ([]byte, error) {
	args := []any{topic, hexutil.Uint64(partition), hexutil.Uint64(from), hexutil.Uint64(min(to-from, ProofRecords)), false} //nolint:gosec // not negative
	if followed.Height > 0 {
		args = append(args, map[string]any{"number": hexutil.Uint64(followed.Height), "hash": followed.Hash, "followed": true})
	}
	var out struct {
		Proof hexutil.Bytes `json:"proof"`
	}
	var all error
	for _, url := range append([]string{c.cfg.Node}, c.cfg.Provers...) {
		rpc, err := c.prover(ctx, url)
		if err == nil {
			cctx, cancel := context.WithTimeout(ctx, CallTimeout)
			err = rpc.CallContext(cctx, &out, "bps_proof", args...)
			cancel()
		}
		if err == nil {
			return out.Proof, nil
		}
		var answer gethrpc.Error
		if errors.As(err, &answer) && answer.ErrorCode() == notYet {
			c.log.Debug("no proof yet", zap.String("node", url), zap.Stringer("topic", topic), zap.Int32("partition", partition), zap.Int64("offset", from), zap.Error(err))
			continue
		}
		all = errors.Join(all, fmt.Errorf("node %s gives no proof: %w", url, err))
	}
	return nil, all
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

// ask fetches a bundle and checks it, unless nothing new can come of it; nil: no checkpoint covers the offset yet. One for
// who followed the chain is asked for first, and the whole way from genesis where that does not do.
func (p *proofs) ask(ctx context.Context, topic common.Hash, partition int32, from, to int64) (b *proof.Bundle, seq uint64, err error) {
	newest, err := p.newest(ctx, topic)
	if err != nil {
		return nil, 0, err
	}
	at := proofPlace{topic, partition}
	p.mu.Lock()
	w, ok := p.waits[at]
	p.mu.Unlock()
	if newest.Seq == 0 || ok && w.seq == newest.Seq && from >= w.from {
		return nil, 0, nil
	}
	base := p.baseBelow(newest.Height)
	tries := []proof.Checkpoint{{Height: base.Height(), Hash: base.Hash()}}
	if base.Height() > 0 {
		tries = append(tries, proof.Checkpoint{})
	}
	for _, followed := range tries {
		var raw []byte
		if raw, err = p.fetch(ctx, topic, partition, from, to, followed); err != nil {
			continue
		}
		if len(raw) == 0 {
			return nil, 0, nil
		}
		p.mu.Lock()
		p.bytes += uint64(len(raw))
		p.mu.Unlock()
		if b, err = proof.DecodeBundle(raw); err != nil {
			err = fmt.Errorf("a proof of the node: %w", err)
			continue
		}
		if seq, err = p.verify(b, topic, partition, from); err == nil {
			return b, seq, nil
		}
	}
	return nil, 0, err
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
		b, seq, err := p.ask(ctx, t.ID, partition, to, run[len(run)-1].Next)
		if err != nil || b == nil {
			return to, err
		}
		p.exhausted(t.ID, partition, seq, b.Head.Next)
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

// verify checks a bundle from its leaves to the genesis file, and that it answers the question, and tells the number of
// its checkpoint. A node that gives another proof than was asked for proves nothing, neither good nor bad.
func (p *proofs) verify(b *proof.Bundle, topic common.Hash, partition int32, offset int64) (seq uint64, err error) {
	switch {
	case b.Head.Topic != topic || b.Head.Partition != partition || len(b.Leaves) == 0:
		return 0, errors.New("the node answered with a proof of something else")
	case offset < b.Leaves[0].Base || offset >= b.Leaves[0].Next():
		return 0, fmt.Errorf("the node answered with a proof that begins at offset %d where %d was asked for", b.Leaves[0].Base, offset)
	}
	h, err := p.final(b)
	if err != nil {
		return 0, fmt.Errorf("a proof of the node: %w", err)
	}
	log, err := b.Event.Verify(h.Header.ReceiptHash)
	if err != nil {
		return 0, fmt.Errorf("a proof of the node: %w", err)
	}
	c, err := proof.DecodeCheckpointed(contracts.TopicsAddress, log)
	if err != nil {
		return 0, fmt.Errorf("a proof of the node: %w", err)
	}
	if common.Hash(c.Topic) != topic {
		return 0, errors.New("the node answered with the checkpoint of another topic")
	}
	if err := proof.CheckHead(c.Root, b.Partitions, &b.Head, b.HeadPath); err != nil {
		return 0, fmt.Errorf("a proof of the node: %w", err)
	}
	if err := b.Head.CheckLeaves(b.First, b.Leaves, b.Path); err != nil {
		return 0, fmt.Errorf("a proof of the node: %w", err)
	}
	return c.Seq, nil
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
