package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/gate"
	"github.com/bornode/bornode/pubsub/proof"
)

// proofs is the engine's Proofs: bundles of the node, each checked from the genesis file on. What was shown of the chain
// is kept, so that a bundle costs the certificates since then.
type proofs struct {
	trust *proof.Trust
	// fetch asks the node for a bundle that begins with the batch at an offset; nil: no checkpoint covers it yet.
	fetch func(ctx context.Context, topic common.Hash, partition int32, offset int64, batches int) ([]byte, error)

	mu    sync.Mutex
	base  *proof.Chain // up to the newest end of an epoch
	shown map[uint64]common.Hash
}

// shownHeaders is how many final headers are remembered by their hashes.
const shownHeaders = 65536

func newProofs(c *Client) *proofs {
	return &proofs{trust: c.trust, base: proof.NewChain(c.trust), shown: map[uint64]common.Hash{},
		fetch: func(ctx context.Context, topic common.Hash, partition int32, offset int64, batches int) ([]byte, error) {
			var out hexutil.Bytes
			err := c.chain.ask(ctx, &out, "bps_proof", topic, hexutil.Uint64(partition), hexutil.Uint64(offset), hexutil.Uint64(batches)) //nolint:gosec // not negative
			return out, err
		}}
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
		raw, err := p.fetch(ctx, t.ID, partition, to, min(len(run), ProofBatches))
		if err != nil || len(raw) == 0 {
			return to, err
		}
		b, err := proof.DecodeBundle(raw)
		if err != nil {
			return to, fmt.Errorf("a proof of the node: %w", err)
		}
		if err := p.verify(b, t.ID, partition, to); err != nil {
			return to, err
		}
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

// verify checks a bundle from its leaves to the genesis file, and that it answers the question: a node that gives another
// proof than was asked for proves nothing, neither good nor bad.
func (p *proofs) verify(b *proof.Bundle, topic common.Hash, partition int32, offset int64) error {
	switch {
	case b.Head.Topic != topic || b.Head.Partition != partition || len(b.Leaves) == 0:
		return errors.New("the node answered with a proof of something else")
	case offset < b.Leaves[0].Base || offset >= b.Leaves[0].Next():
		return fmt.Errorf("the node answered with a proof that begins at offset %d where %d was asked for", b.Leaves[0].Base, offset)
	}
	h, err := p.final(b)
	if err != nil {
		return fmt.Errorf("a proof of the node: %w", err)
	}
	log, err := b.Event.Verify(h.Header.ReceiptHash)
	if err != nil {
		return fmt.Errorf("a proof of the node: %w", err)
	}
	c, err := proof.DecodeCheckpointed(contracts.TopicsAddress, log)
	if err != nil {
		return fmt.Errorf("a proof of the node: %w", err)
	}
	if common.Hash(c.Topic) != topic {
		return errors.New("the node answered with the checkpoint of another topic")
	}
	if err := proof.CheckHead(c.Root, b.Partitions, &b.Head, b.HeadPath); err != nil {
		return fmt.Errorf("a proof of the node: %w", err)
	}
	if err := b.Head.CheckLeaves(b.First, b.Leaves, b.Path); err != nil {
		return fmt.Errorf("a proof of the node: %w", err)
	}
	return nil
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
	p.mu.Lock()
	defer p.mu.Unlock()
	if h, err := p.walk(b, *p.base); err == nil {
		return h, nil
	}
	return p.walk(b, *proof.NewChain(p.trust))
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
	for _, h := range run.Headers {
		p.shown[h.Number()] = h.Hash()
		if p.trust.Params.EpochEnd(h.Number()) && c.Height() > p.base.Height() {
			p.base = &c
		}
	}
}
