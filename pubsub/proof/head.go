package proof

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

// HeadBytes is the length of an encoded Head.
const HeadBytes = 32 + 4 + 8 + 32 + 8

// Head is the state of a partition's tree.
type Head struct {
	Topic     [32]byte
	Partition int32
	Leaves    int64
	Root      Hash
	Next      int64 // offset after the last leaf
}

// Append appends the HeadBytes of the encoding to b.
func (h *Head) Append(b []byte) []byte {
	b = append(b, h.Topic[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(h.Partition))
	b = binary.BigEndian.AppendUint64(b, uint64(h.Leaves))
	b = append(b, h.Root[:]...)
	return binary.BigEndian.AppendUint64(b, uint64(h.Next))
}

// DecodeHead reads a head from the first HeadBytes of b.
func DecodeHead(b []byte) (h Head, err error) {
	if len(b) < HeadBytes {
		return h, fmt.Errorf("%w: head of %d bytes, %d expected", ErrDecode, len(b), HeadBytes)
	}
	copy(h.Topic[:], b)
	h.Partition = int32(binary.BigEndian.Uint32(b[32:]))
	h.Leaves = int64(binary.BigEndian.Uint64(b[36:]))
	copy(h.Root[:], b[44:])
	h.Next = int64(binary.BigEndian.Uint64(b[76:]))
	if h.Partition < 0 || h.Partition >= MaxPartitions || h.Leaves < 0 || h.Leaves > MaxLeaves || h.Next < h.Leaves {
		return h, fmt.Errorf("%w: head of partition %d with %d leaves up to offset %d", ErrDecode, h.Partition, h.Leaves, h.Next)
	}
	return h, nil
}

// Hash is the leaf hash of RFC 6962 over 2 and the head's encoding.
func (h *Head) Hash() Hash {
	var buf [2 + HeadBytes]byte
	return sha256.Sum256(h.Append(append(buf[:0], 0, tagHead)))
}

// CheckLeaves checks that consecutive leaves, the first with this index, are in the tree of the head.
func (h *Head) CheckLeaves(first int64, leaves []Leaf, path []Hash) error {
	if len(leaves) == 0 {
		return fmt.Errorf("%w: a proof of no leaves", ErrDecode)
	}
	hashes := make([]Hash, len(leaves))
	for i := range leaves {
		hashes[i] = leaves[i].Hash(h.Topic, h.Partition)
		if i > 0 && leaves[i].Base != leaves[i-1].Next() {
			return tamper(ErrDropped, h.Topic, h.Partition, leaves[i-1].Next(), "the next leaf begins at offset %d", leaves[i].Base)
		}
	}
	root, err := RangeRoot(first, h.Leaves, hashes, path)
	if err != nil {
		return err
	}
	if root != h.Root {
		return tamper(ErrProof, h.Topic, h.Partition, leaves[0].Base, "leaves %d to %d lead to root %s, the head of %d leaves has %s",
			first, first+int64(len(leaves)), root, h.Leaves, h.Root)
	}
	return nil
}

// CheckConsistent checks that an older head of the same partition is a prefix of this one. path is tlog.ProveTree's. Heads
// of one size need no path. A failure is ErrForked.
func (h *Head) CheckConsistent(old *Head, path []Hash) error {
	switch {
	case old.Topic != h.Topic || old.Partition != h.Partition:
		return fmt.Errorf("%w: heads of two partitions", ErrDecode)
	case old.Leaves > h.Leaves:
		return tamper(ErrForked, h.Topic, h.Partition, h.Next, "the tree had %d leaves and has %d", old.Leaves, h.Leaves)
	case old.Leaves == 0:
		return nil
	case old.Leaves == h.Leaves:
		if *old != *h {
			return tamper(ErrForked, h.Topic, h.Partition, h.Next, "two roots for %d leaves: %s and %s", h.Leaves, old.Root, h.Root)
		}
		return nil
	}
	if err := tlog.CheckTree(path, h.Leaves, h.Root, old.Leaves, old.Root); err != nil {
		return tamper(ErrForked, h.Topic, h.Partition, old.Next, "root %s of %d leaves is no prefix of root %s of %d leaves", old.Root, old.Leaves, h.Root, h.Leaves)
	}
	return nil
}

// headHashes are the hashes of the heads of partitions 0, 1, ... of one topic.
func headHashes(heads []Head) ([]Hash, error) {
	if len(heads) == 0 || len(heads) > MaxPartitions {
		return nil, fmt.Errorf("%w: %d heads of a topic, 1 to %d allowed", ErrDecode, len(heads), MaxPartitions)
	}
	hashes := make([]Hash, len(heads))
	for i := range heads {
		if heads[i].Topic != heads[0].Topic || heads[i].Partition != int32(i) {
			return nil, fmt.Errorf("%w: head %d is of partition %d", ErrDecode, i, heads[i].Partition)
		}
		hashes[i] = heads[i].Hash()
	}
	return hashes, nil
}

// TopicRoot is the checkpoint of a topic: the root of the tree of its partitions' heads in order, and the sum of their leaves.
func TopicRoot(heads []Head) (root Hash, leaves int64, err error) {
	hashes, err := headHashes(heads)
	if err != nil {
		return root, 0, err
	}
	var f Frontier
	for i, h := range hashes {
		f.Append(h)
		leaves += heads[i].Leaves
	}
	return f.Root(), leaves, nil
}

// ProveHead is the proof that the head of a partition is in the checkpoint of these heads.
func ProveHead(heads []Head, partition int32) ([]Hash, error) {
	hashes, err := headHashes(heads)
	if err != nil {
		return nil, err
	}
	return ProveRange(int64(partition), int64(partition)+1, int64(len(heads)), memoryHashes(hashes))
}

// CheckHead checks that a head is in the checkpoint of a topic with this many partitions.
func CheckHead(root Hash, partitions int32, h *Head, path []Hash) error {
	got, err := RangeRoot(int64(h.Partition), int64(partitions), []Hash{h.Hash()}, path)
	if err != nil {
		return err
	}
	if got != root {
		return tamper(ErrProof, h.Topic, h.Partition, -1, "the head of %d leaves leads to root %s, the checkpoint is %s", h.Leaves, got, root)
	}
	return nil
}
