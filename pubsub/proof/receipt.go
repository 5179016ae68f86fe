package proof

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

const (
	receiptPrefix  = "bornode-bps-receipt-1"
	receiptVersion = 1
	signatureBytes = crypto.SignatureLength
)

// Placed is what a receipt is given for: a batch with its place.
type Placed struct {
	Topic     [32]byte
	Partition int32
	Leaf      Leaf
}

func (p *Placed) hash(at int64) Hash {
	h := p.Leaf.Hash(p.Topic, p.Partition)
	b := append([]byte{0, tagReceipt}, h[:]...)
	return sha256.Sum256(binary.BigEndian.AppendUint64(b, uint64(at)))
}

// Receipt is a broker's word that it gave a batch its place. One signature covers a group of batches: the receipt of each
// has its path to the group's root.
type Receipt struct {
	At        int64 // ms
	Index     uint32
	Size      uint32 // of the group
	Path      []Hash
	Signature [signatureBytes]byte
}

func receiptDigest(chain common.Hash, root Hash, size uint32) common.Hash {
	return crypto.Keccak256Hash([]byte(receiptPrefix), chain[:], root[:], binary.BigEndian.AppendUint32(nil, size))
}

// Signer recovers who signed a digest; high s values are refused.
func Signer(digest common.Hash, sig []byte) (common.Address, error) {
	if len(sig) != signatureBytes || !crypto.ValidateSignatureValues(sig[64], common.BytesToHash(sig[:32]).Big(), common.BytesToHash(sig[32:64]).Big(), true) {
		return common.Address{}, fmt.Errorf("%w: signature", ErrDecode)
	}
	pub, err := crypto.SigToPub(digest[:], sig)
	if err != nil {
		return common.Address{}, fmt.Errorf("%w: signature: %w", ErrDecode, err)
	}
	return crypto.PubkeyToAddress(*pub), nil
}

// SignReceipts signs for a group of at most MaxReceiptGroup batches with one call of sign. chain is block 0's hash.
func SignReceipts(chain common.Hash, at int64, group []Placed, sign func(common.Hash) ([]byte, error)) ([]Receipt, error) {
	if len(group) == 0 || len(group) > MaxReceiptGroup {
		return nil, fmt.Errorf("receipts for %d batches at once, 1 to %d allowed", len(group), MaxReceiptGroup)
	}
	hashes := make([]Hash, len(group))
	var f Frontier
	for i := range group {
		hashes[i] = group[i].hash(at)
		f.Append(hashes[i])
	}
	size := uint32(len(group))
	sig, err := sign(receiptDigest(chain, f.Root(), size))
	if err != nil {
		return nil, fmt.Errorf("sign receipts: %w", err)
	}
	if len(sig) != signatureBytes {
		return nil, fmt.Errorf("sign receipts: signature of %d bytes", len(sig))
	}
	r := memoryHashes(hashes)
	out := make([]Receipt, len(group))
	for i := range group {
		path, err := ProveRange(int64(i), int64(i)+1, int64(size), r)
		if err != nil {
			return nil, err
		}
		out[i] = Receipt{At: at, Index: uint32(i), Size: size, Path: path, Signature: [signatureBytes]byte(sig)}
	}
	return out, nil
}

// Signer is the account of the broker who signed the receipt for this batch. Whether it is one of the topic's brokers is
// for the caller to ask; a receipt for another batch gives another account.
func (r *Receipt) Signer(chain common.Hash, p *Placed) (common.Address, error) {
	if r.Size == 0 || r.Size > MaxReceiptGroup {
		return common.Address{}, fmt.Errorf("%w: receipt of a group of %d", ErrDecode, r.Size)
	}
	root, err := RangeRoot(int64(r.Index), int64(r.Size), []Hash{p.hash(r.At)}, r.Path)
	if err != nil {
		return common.Address{}, err
	}
	return Signer(receiptDigest(chain, root, r.Size), r.Signature[:])
}

// Encode is the receipt's wire form: version, at (8), index (4), size (4), signature (65), count of hashes (1), hashes.
func (r *Receipt) Encode() []byte {
	b := []byte{receiptVersion}
	b = binary.BigEndian.AppendUint64(b, uint64(r.At))
	b = binary.BigEndian.AppendUint32(b, r.Index)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = append(b, r.Signature[:]...)
	b = append(b, byte(len(r.Path)))
	for i := range r.Path {
		b = append(b, r.Path[i][:]...)
	}
	return b
}

const receiptFixed = 1 + 8 + 4 + 4 + signatureBytes + 1

// DecodeReceipt reads what Encode wrote.
func DecodeReceipt(b []byte) (*Receipt, error) {
	if len(b) < receiptFixed || len(b) > MaxReceiptBytes || b[0] != receiptVersion || len(b) != receiptFixed+32*int(b[receiptFixed-1]) {
		return nil, fmt.Errorf("%w: receipt of %d bytes", ErrDecode, len(b))
	}
	r := &Receipt{At: int64(binary.BigEndian.Uint64(b[1:])), Index: binary.BigEndian.Uint32(b[9:]), Size: binary.BigEndian.Uint32(b[13:])}
	copy(r.Signature[:], b[17:])
	if r.Size == 0 || r.Size > MaxReceiptGroup || r.Index >= r.Size {
		return nil, fmt.Errorf("%w: receipt %d of a group of %d", ErrDecode, r.Index, r.Size)
	}
	for b = b[receiptFixed:]; len(b) > 0; b = b[32:] {
		r.Path = append(r.Path, Hash(b[:32]))
	}
	return r, nil
}

// Equivocation checks two receipts for one place: it is the account of the broker who gave the place to two batches under
// one epoch, with ErrForked, or nil if the receipts do not show that.
func Equivocation(chain common.Hash, a, b *Placed, ra, rb *Receipt) (common.Address, error) {
	if a.Topic != b.Topic || a.Partition != b.Partition || a.Leaf.Epoch != b.Leaf.Epoch || a.Leaf == b.Leaf ||
		a.Leaf.Next() <= b.Leaf.Base || b.Leaf.Next() <= a.Leaf.Base {
		return common.Address{}, nil
	}
	x, err := ra.Signer(chain, a)
	if err != nil {
		return common.Address{}, err
	}
	y, err := rb.Signer(chain, b)
	if err != nil {
		return common.Address{}, err
	}
	if !bytes.Equal(x[:], y[:]) {
		return common.Address{}, nil
	}
	return x, tamper(ErrForked, a.Topic, a.Partition, max(a.Leaf.Base, b.Leaf.Base), "broker %s signed two batches for it in epoch %d", x, a.Leaf.Epoch)
}
