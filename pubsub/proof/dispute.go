package proof

import (
	"encoding/binary"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// disputePrefix is of what a broker signs that disputes a checkpoint.
const disputePrefix = "bornode-bps-dispute-1"

// Dispute is a broker's signed word that a checkpoint on the chain is not what its own log gives, or that nobody shows what
// it stands for. It does not tell who of the two lies; who signed it is bound to it.
type Dispute struct {
	Topic     [32]byte
	Seq       uint64
	Root      Hash  // of the checkpoint
	Partition int32 // -1: what the checkpoint stands for is withheld
	Offset    int64 // from which on the logs differ; -1: not known
	Own       Head  // the tree of the broker's own log at the size that the checkpoint says; zero: withheld
	Signature [signatureBytes]byte
}

// disputeBytes is the length of what is signed.
const disputeBytes = 32 + 8 + 32 + 4 + 8 + HeadBytes

// DisputeBytes is the length of an encoded Dispute.
const DisputeBytes = disputeBytes + signatureBytes

func (d *Dispute) body() []byte {
	b := append(make([]byte, 0, DisputeBytes), d.Topic[:]...)
	b = append(binary.BigEndian.AppendUint64(b, d.Seq), d.Root[:]...)
	b = binary.BigEndian.AppendUint32(b, uint32(d.Partition))               //nolint:gosec // -1 is all ones
	return d.Own.Append(binary.BigEndian.AppendUint64(b, uint64(d.Offset))) //nolint:gosec // as above
}

// Digest is what the broker signs. chain is block 0's hash.
func (d *Dispute) Digest(chain common.Hash) common.Hash {
	return crypto.Keccak256Hash([]byte(disputePrefix), chain[:], d.body())
}

// Signer is the account that signed it. Whether it is a broker's, the ledger says.
func (d *Dispute) Signer(chain common.Hash) (common.Address, error) {
	return Signer(d.Digest(chain), d.Signature[:])
}

// Encode is topic (32), number (8), root (32), partition (4), offset (8), head, signature (65).
func (d *Dispute) Encode() []byte { return append(d.body(), d.Signature[:]...) }

// DecodeDispute reads what Encode wrote. Errors wrap ErrDecode.
func DecodeDispute(b []byte) (*Dispute, error) {
	if len(b) != DisputeBytes {
		return nil, fmt.Errorf("%w: dispute of %d bytes, %d expected", ErrDecode, len(b), DisputeBytes)
	}
	e := binary.BigEndian
	d := &Dispute{Topic: [32]byte(b), Seq: e.Uint64(b[32:]), Root: Hash(b[40:72]), Partition: int32(e.Uint32(b[72:])), Offset: int64(e.Uint64(b[76:]))} //nolint:gosec // checked below
	var err error
	if d.Own, err = DecodeHead(b[84:]); err != nil {
		return nil, err
	}
	d.Signature = [signatureBytes]byte(b[disputeBytes:])
	if d.Partition < -1 || d.Partition >= MaxPartitions || d.Offset < -1 ||
		d.Partition >= 0 && (d.Own.Partition != d.Partition || d.Own.Topic != d.Topic) || d.Partition < 0 && d.Own != (Head{}) {
		return nil, fmt.Errorf("%w: dispute about partition %d, offset %d with a tree of partition %d", ErrDecode, d.Partition, d.Offset, d.Own.Partition)
	}
	return d, nil
}

// Against reports whether the dispute is about a checkpoint as far as it concerns a partition.
func (d *Dispute) Against(c *Checkpointed, partition int32) bool {
	return d.Topic == c.Topic && d.Seq == c.Seq && d.Root == c.Root && (d.Partition == partition || d.Partition < 0)
}
