package evidence

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/proof"
)

// Proven is this broker's part of a proof: all below the block.
type Proven struct {
	Seq        uint64
	Height     uint64 // of the block with the checkpoint
	Broker     common.Address
	Root       proof.Hash // of the topic
	Partitions int32
	Head       proof.Head
	HeadPath   []proof.Hash
	First      int64
	Leaves     []proof.Leaf
	Path       []proof.Hash
	Batches    []byte // nil: retention took one of them, or they were not asked for
}

// Checkpoint is the newest checkpoint of a topic that is final and agrees with the trees here, with its heads.
func (e *Evidence) Checkpoint(topic [32]byte) (seq, height uint64, root proof.Hash, heads []proof.Head, err error) {
	if seq, root, err = e.agreed(topic); err != nil {
		return 0, 0, root, nil, err
	}
	r, err := e.heads(topic, seq, root)
	if err != nil {
		return 0, 0, root, nil, err
	}
	return seq, r.Height, r.Root, r.Heads, nil
}

// Prove proves the batches that hold the offsets [from, to) of a partition, as far as the newest final checkpoint goes: at
// least the one with from, at most as many as a proof holds. ErrNotProved: the checkpoint does not reach from yet.
func (e *Evidence) Prove(id ID, from, to int64, withBatches bool) (*Proven, error) {
	seq, root, err := e.agreed(id.Topic)
	if err != nil {
		return nil, err
	}
	r, err := e.heads(id.Topic, seq, root)
	if err != nil {
		return nil, err
	}
	if id.Partition < 0 || int(id.Partition) >= len(r.Heads) {
		return nil, fmt.Errorf("topic %x had %d partitions at checkpoint %d: %w", id.Topic[:8], len(r.Heads), seq, ErrNotProved)
	}
	p := &Proven{Seq: seq, Height: r.Height, Broker: r.Broker, Root: r.Root, Partitions: int32(len(r.Heads)), Head: r.Heads[id.Partition]}
	if p.HeadPath, err = proof.ProveHead(r.Heads, id.Partition); err != nil {
		return nil, err
	}
	size := p.Head.Leaves
	if p.First, err = e.trees.find(id, from, size); err != nil {
		return nil, err
	}
	last := p.First
	if to > from+1 {
		if last, err = e.trees.find(id, min(to, p.Head.Next)-1, size); err != nil {
			return nil, err
		}
	}
	last = min(last, p.First+proof.MaxRangeLeaves-1)
	if p.Leaves, err = e.trees.leaves(id, p.First, last+1); err != nil {
		return nil, err
	}
	if p.Path, err = proof.ProveRange(p.First, p.First+int64(len(p.Leaves)), size, e.trees.reader(id)); err != nil {
		return nil, err
	}
	if withBatches {
		p.Batches = e.batches(id, p.Leaves)
	}
	return p, nil
}

// batches reads the batches of leaves from the log; nil where retention took some.
func (e *Evidence) batches(id ID, leaves []proof.Leaf) (out []byte) {
	n := 0
	err := e.deps.Log.Batches(id, leaves[0].Base, leaves[len(leaves)-1].Next(), func(_ batch.Header, raw []byte) error {
		out = append(out, raw...)
		n++
		return nil
	})
	if err != nil || n != len(leaves) {
		e.log.Info("a proof goes out without its batches, which this broker does not keep", zap.Binary("topic", id.Topic[:8]), zap.Int32("partition", id.Partition),
			zap.Int64("from", leaves[0].Base), zap.Int("batches", len(leaves)), zap.Int("kept", n), zap.Error(err))
		return nil
	}
	return out
}
