package proof

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/bornode/bornode/pubsub/batch"
)

// Hash is a node of a tree: SHA-256.
type Hash = tlog.Hash

// First bytes of what is hashed as a record of some tree: a leaf of one kind is never one of another.
const (
	tagBatch   = 1
	tagHead    = 2
	tagReceipt = 3
)

// LeafBytes is the length of an encoded Leaf.
const LeafBytes = 8 + 4 + 4 + 4 + 32

// Leaf is a committed batch as the partition's tree holds it: its place, and the digest of everything that its producer
// decided. Topic and partition are of the tree, and part of the hash.
type Leaf struct {
	Base   int64 // offset of the first record
	Epoch  int32 // of the leader who gave it the place
	Delta  int32 // last offset - Base
	Count  int32 // records
	Digest Hash  // SHA-256 of batch.Covered
}

// LeafOf is the leaf of a batch. covered is batch.Covered of it; the header's offset and epoch are those of the log.
func LeafOf(h *batch.Header, covered []byte) Leaf {
	return Leaf{Base: h.BaseOffset, Epoch: h.LeaderEpoch, Delta: h.LastOffsetDelta, Count: h.Count, Digest: sha256.Sum256(covered)}
}

// Next is the first offset after the batch.
func (l *Leaf) Next() int64 { return l.Base + int64(l.Delta) + 1 }

// Append appends the LeafBytes of the encoding to b.
func (l *Leaf) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(l.Base))
	b = binary.BigEndian.AppendUint32(b, uint32(l.Epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(l.Delta))
	b = binary.BigEndian.AppendUint32(b, uint32(l.Count))
	return append(b, l.Digest[:]...)
}

// DecodeLeaf reads a leaf from the first LeafBytes of b.
func DecodeLeaf(b []byte) (l Leaf, err error) {
	if len(b) < LeafBytes {
		return l, fmt.Errorf("%w: leaf of %d bytes, %d expected", ErrDecode, len(b), LeafBytes)
	}
	e := binary.BigEndian
	l = Leaf{Base: int64(e.Uint64(b)), Epoch: int32(e.Uint32(b[8:])), Delta: int32(e.Uint32(b[12:])), Count: int32(e.Uint32(b[16:]))}
	copy(l.Digest[:], b[20:])
	if l.Base < 0 || l.Base > 1<<62 || l.Epoch < 0 || l.Delta < 0 || l.Count < 1 {
		return l, fmt.Errorf("%w: leaf of offset %d, epoch %d, %d records", ErrDecode, l.Base, l.Epoch, l.Count)
	}
	return l, nil
}

// Hash is the leaf hash of RFC 6962 over 1, topic (32), partition (4) and the leaf's encoding.
func (l *Leaf) Hash(topic [32]byte, partition int32) Hash {
	var buf [2 + 32 + 4 + LeafBytes]byte // RFC 6962's 0 in front
	b := append(buf[:0], 0, tagBatch)
	b = append(b, topic[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	return sha256.Sum256(l.Append(b))
}
