package proof

import (
	"bytes"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/recovery"
)

// bundleMagic opens the file; its last byte is the version.
const bundleMagic = "bpsproof\x02"

// Bundle is a proof file: leaves of a partition, and their batches unless those are gone, up to the genesis file.
type Bundle struct {
	Genesis common.Hash // block 0 of the chain that is meant
	Runs    []Run       // of Chain
	Height  uint64      // of the block with the checkpoint; its header is in the last run
	Event   Event

	Partitions int32 // of the topic at the checkpoint
	Head       Head
	HeadPath   []Hash

	First   int64 // index of the first leaf
	Leaves  []Leaf
	Path    []Hash
	Batches []byte // the leaves' batches in order; empty: the leaves alone are proved
}

type (
	leafWire struct {
		Base                uint64
		Epoch, Delta, Count uint32
		Digest              Hash
	}
	headWire struct {
		Topic     [32]byte
		Partition uint32
		Leaves    uint64
		Root      Hash
		Next      uint64
	}
	bundleWire struct {
		Genesis    common.Hash
		Runs       []Run
		Height     uint64
		Event      Event
		Partitions uint32
		Head       headWire
		HeadPath   []Hash
		First      uint64
		Leaves     []leafWire
		Path       []Hash
		Batches    []byte
	}
)

// Encode is the file's content.
func (b *Bundle) Encode() ([]byte, error) {
	w := bundleWire{
		b.Genesis, b.Runs, b.Height, b.Event, uint32(b.Partitions),
		headWire{b.Head.Topic, uint32(b.Head.Partition), uint64(b.Head.Leaves), b.Head.Root, uint64(b.Head.Next)},
		b.HeadPath, uint64(b.First), make([]leafWire, len(b.Leaves)), b.Path, b.Batches,
	}
	for i, l := range b.Leaves {
		w.Leaves[i] = leafWire{uint64(l.Base), uint32(l.Epoch), uint32(l.Delta), uint32(l.Count), l.Digest}
	}
	out := bytes.NewBufferString(bundleMagic)
	if err := rlp.Encode(out, &w); err != nil {
		return nil, fmt.Errorf("encode proof: %w", err)
	}
	if out.Len() > MaxBundleBytes {
		return nil, fmt.Errorf("a proof of %d bytes, %d allowed; start it at a trusted block", out.Len(), MaxBundleBytes)
	}
	return out.Bytes(), nil
}

// DecodeBundle reads a proof file. Errors wrap ErrDecode.
func DecodeBundle(b []byte) (*Bundle, error) {
	if len(b) > MaxBundleBytes {
		return nil, fmt.Errorf("%w: proof of %d bytes, %d allowed", ErrDecode, len(b), MaxBundleBytes)
	}
	body, ok := bytes.CutPrefix(b, []byte(bundleMagic))
	if !ok {
		return nil, fmt.Errorf("%w: not a proof of version 2", ErrDecode)
	}
	var w bundleWire
	if err := rlp.DecodeBytes(body, &w); err != nil {
		return nil, fmt.Errorf("%w: proof: %w", ErrDecode, err)
	}
	return w.bundle()
}

func (w *bundleWire) bundle() (*Bundle, error) {
	const most = 1 << 62
	switch {
	case len(w.Runs) > MaxRuns || len(w.Leaves) > MaxRangeLeaves || len(w.Path) > MaxPathHashes || len(w.HeadPath) > MaxPathHashes:
		return nil, fmt.Errorf("%w: proof with %d runs, %d leaves and %d hashes", ErrDecode, len(w.Runs), len(w.Leaves), len(w.Path))
	case w.Partitions == 0 || w.Partitions > MaxPartitions || w.Head.Partition >= w.Partitions:
		return nil, fmt.Errorf("%w: proof of partition %d of %d", ErrDecode, w.Head.Partition, w.Partitions)
	case w.Head.Leaves > MaxLeaves || w.Head.Next > most || w.First > MaxLeaves:
		return nil, fmt.Errorf("%w: proof of leaf %d of %d", ErrDecode, w.First, w.Head.Leaves)
	}
	b := &Bundle{
		Genesis: w.Genesis, Runs: w.Runs, Height: w.Height, Event: w.Event, Partitions: int32(w.Partitions),
		Head:     Head{w.Head.Topic, int32(w.Head.Partition), int64(w.Head.Leaves), w.Head.Root, int64(w.Head.Next)},
		HeadPath: w.HeadPath, First: int64(w.First), Path: w.Path, Batches: w.Batches,
	}
	for _, l := range w.Leaves {
		const max32 = 1<<31 - 1
		if l.Base > most || l.Epoch > max32 || l.Delta > max32 || l.Count == 0 || l.Count > max32 {
			return nil, fmt.Errorf("%w: proof of a leaf of offset %d", ErrDecode, l.Base)
		}
		b.Leaves = append(b.Leaves, Leaf{int64(l.Base), int32(l.Epoch), int32(l.Delta), int32(l.Count), l.Digest})
	}
	return b, nil
}

// Verified is what a Bundle proves.
type Verified struct {
	Topic      [32]byte
	Partition  int32
	From, To   int64 // offsets [From,To)
	Batches    int
	WithBytes  bool // the batches themselves are proved, not only their digests
	Checkpoint Checkpointed
	Height     uint64 // of the block that has the checkpoint
	Block      common.Hash
	Time       uint64             // s, of that block: the batches were there by then
	Recoveries []*recovery.Signed // that the chain went on by up to there, oldest first
}

// Verify checks the whole way from the batches to the trusted start. contract is the address of Topics. Errors about the
// batches are *Tamper; all others wrap ErrProof, ErrFinality or ErrDecode.
func (b *Bundle) Verify(t *Trust, contract common.Address) (*Verified, error) {
	if b.Genesis != t.Genesis {
		return nil, fmt.Errorf("%w: it is of the chain with block 0 %s, not of %s", ErrProof, b.Genesis, t.Genesis)
	}
	h, recoveries, err := finalHeader(t, b.Runs, b.Height)
	if err != nil {
		return nil, err
	}
	l, err := b.Event.Verify(h.Header.ReceiptHash)
	if err != nil {
		return nil, err
	}
	c, err := DecodeCheckpointed(contract, l)
	if err != nil {
		return nil, err
	}
	if c.Topic != b.Head.Topic {
		return nil, tamper(ErrProof, b.Head.Topic, b.Head.Partition, -1, "the checkpoint is of another topic, %x", c.Topic[:8])
	}
	if err := CheckHead(c.Root, b.Partitions, &b.Head, b.HeadPath); err != nil {
		return nil, err
	}
	if err := b.Head.CheckLeaves(b.First, b.Leaves, b.Path); err != nil {
		return nil, err
	}
	if len(b.Batches) > 0 {
		if err := CompareAll(b.Head.Topic, b.Head.Partition, b.Leaves, b.Batches); err != nil {
			return nil, err
		}
	}
	return &Verified{
		Topic: b.Head.Topic, Partition: b.Head.Partition, From: b.Leaves[0].Base, To: b.Leaves[len(b.Leaves)-1].Next(),
		Batches: len(b.Leaves), WithBytes: len(b.Batches) > 0, Checkpoint: c, Height: b.Height, Block: h.Hash(), Time: h.Header.Time, Recoveries: recoveries,
	}, nil
}
