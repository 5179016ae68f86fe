package proof

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// headsPrefix is of what a leader signs of heads that it gives together.
const headsPrefix = "bornode-bps-heads-2"

// Heads are heads under one signature. They need not be of one topic.
type Heads struct {
	list   []Head
	hashes []Hash
	root   Hash
}

// NewHeads takes at most MaxReceiptGroup heads, at least one.
func NewHeads(list []Head) (*Heads, error) {
	if len(list) == 0 || len(list) > MaxReceiptGroup {
		return nil, fmt.Errorf("%w: %d heads under one signature, 1 to %d allowed", ErrDecode, len(list), MaxReceiptGroup)
	}
	h := &Heads{list: list}
	var f Frontier
	for i := range list {
		x := list[i].Hash()
		h.hashes = append(h.hashes, x)
		f.Append(x)
	}
	h.root = f.Root()
	return h, nil
}

func headsDigest(chain common.Hash, root Hash, size uint32) common.Hash {
	return crypto.Keccak256Hash([]byte(headsPrefix), chain[:], root[:], binary.BigEndian.AppendUint32(nil, size))
}

// Digest is what the leader signs. chain is block 0's hash.
func (h *Heads) Digest(chain common.Hash) common.Hash {
	return headsDigest(chain, h.root, uint32(len(h.list))) //nolint:gosec // at most MaxReceiptGroup
}

// Signed is one of the heads with the signature, as it is shown to others.
func (h *Heads) Signed(i int, signature []byte) (*SignedHead, error) {
	if i < 0 || i >= len(h.list) || len(signature) != signatureBytes {
		return nil, fmt.Errorf("%w: head %d of %d with a signature of %d bytes", ErrDecode, i, len(h.list), len(signature))
	}
	path, err := ProveRange(int64(i), int64(i)+1, int64(len(h.list)), memoryHashes(h.hashes))
	if err != nil {
		return nil, err
	}
	return &SignedHead{Head: h.list[i], Index: uint32(i), Size: uint32(len(h.list)), Path: path, Signature: [signatureBytes]byte(signature)}, nil //nolint:gosec // bounded
}

// SignedHead is a leader's word about the tree of its partition: all that it has committed, from the first batch on.
type SignedHead struct {
	Head
	Index     uint32
	Size      uint32 // of the group under the signature
	Path      []Hash
	Signature [signatureBytes]byte
}

// Signer is the account that signed it.
func (s *SignedHead) Signer(chain common.Hash) (common.Address, error) {
	if s.Size == 0 || s.Size > MaxReceiptGroup {
		return common.Address{}, fmt.Errorf("%w: head of a group of %d", ErrDecode, s.Size)
	}
	root, err := RangeRoot(int64(s.Index), int64(s.Size), []Hash{s.Head.Hash()}, s.Path)
	if err != nil {
		return common.Address{}, err
	}
	return Signer(headsDigest(chain, root, s.Size), s.Signature[:])
}

const signedHeadFixed = HeadBytes + 4 + 4 + signatureBytes + 1

// Encode is head, index (4), size (4), signature (65), count of hashes (1), hashes.
func (s *SignedHead) Encode() []byte {
	b := s.Head.Append(make([]byte, 0, signedHeadFixed+32*len(s.Path)))
	b = binary.BigEndian.AppendUint32(b, s.Index)
	b = binary.BigEndian.AppendUint32(b, s.Size)
	b = append(append(b, s.Signature[:]...), byte(len(s.Path)))
	for i := range s.Path {
		b = append(b, s.Path[i][:]...)
	}
	return b
}

// DecodeSignedHead reads what Encode wrote.
func DecodeSignedHead(b []byte) (*SignedHead, error) {
	if len(b) < signedHeadFixed || len(b) > MaxReceiptBytes || len(b) != signedHeadFixed+32*int(b[signedHeadFixed-1]) {
		return nil, fmt.Errorf("%w: signed head of %d bytes", ErrDecode, len(b))
	}
	h, err := DecodeHead(b)
	if err != nil {
		return nil, err
	}
	b = b[HeadBytes:]
	s := &SignedHead{Head: h, Index: binary.BigEndian.Uint32(b), Size: binary.BigEndian.Uint32(b[4:]), Signature: [signatureBytes]byte(b[8:])}
	for b = b[8+signatureBytes+1:]; len(b) > 0; b = b[32:] {
		s.Path = append(s.Path, Hash(b[:32]))
	}
	if s.Size == 0 || s.Size > MaxReceiptGroup || s.Index >= s.Size {
		return nil, fmt.Errorf("%w: head %d of a group of %d", ErrDecode, s.Index, s.Size)
	}
	return s, nil
}

// ForkedHeads checks two signed heads of one partition and size: it is the account that signed two histories, with ErrForked,
// or nil if they do not show that. Committed batches are never taken back, so it does not matter in which epochs it led.
func ForkedHeads(chain common.Hash, a, b *SignedHead) (common.Address, error) {
	if a.Topic != b.Topic || a.Partition != b.Partition || a.Leaves != b.Leaves || a.Head == b.Head {
		return common.Address{}, nil
	}
	x, err := a.Signer(chain)
	if err != nil {
		return common.Address{}, err
	}
	if y, err := b.Signer(chain); err != nil || x != y {
		return common.Address{}, err
	}
	return x, tamper(ErrForked, a.Topic, a.Partition, min(a.Next, b.Next), "broker %s signed roots %s and %s of %d batches", x, a.Root, b.Root, a.Leaves)
}

// GivenReceipt is a receipt with the batch that it was given for.
type GivenReceipt struct {
	Placed  Placed
	Receipt Receipt
}

// Encode is topic (32), partition (4), leaf, receipt.
func (g *GivenReceipt) Encode() []byte {
	b := binary.BigEndian.AppendUint32(append([]byte(nil), g.Placed.Topic[:]...), uint32(g.Placed.Partition)) //nolint:gosec // as in heads
	return append(g.Placed.Leaf.Append(b), g.Receipt.Encode()...)
}

// DecodeGivenReceipt reads what Encode wrote.
func DecodeGivenReceipt(b []byte) (*GivenReceipt, error) {
	if len(b) < 36+LeafBytes {
		return nil, fmt.Errorf("%w: a receipt with its batch in %d bytes", ErrDecode, len(b))
	}
	g := &GivenReceipt{Placed: Placed{Topic: [32]byte(b), Partition: int32(binary.BigEndian.Uint32(b[32:]))}} //nolint:gosec // checked
	if g.Placed.Partition < 0 || g.Placed.Partition >= MaxPartitions {
		return nil, fmt.Errorf("%w: receipt of partition %d", ErrDecode, g.Placed.Partition)
	}
	var err error
	if g.Placed.Leaf, err = DecodeLeaf(b[36:]); err != nil {
		return nil, err
	}
	r, err := DecodeReceipt(b[36+LeafBytes:])
	if err != nil {
		return nil, err
	}
	g.Receipt = *r
	return g, nil
}

// Kinds of reports.
const (
	TwoReceipts   uint8 = 1 // one place was given to two batches under one epoch
	TwoHeads      uint8 = 2 // two histories of one length were signed
	BrokenReceipt uint8 = 3 // a place was given to a batch, and under the same epoch another one was committed there
)

// reportMagic opens the file; its last byte is the version.
const reportMagic = "bpsreport\x01"

// Report is a report file: what a broker signed that shows that it lied.
type Report struct {
	Genesis common.Hash // block 0 of the chain that is meant
	Kind    uint8
	First   []byte // GivenReceipt or SignedHead
	Second  []byte // the same; of a BrokenReceipt a proof file
}

// Guilt is what a Report shows.
type Guilt struct {
	Broker common.Address // who signed; whether it is a broker, the ledger says
	What   *Tamper
}

// Encode is the file's content.
func (r *Report) Encode() ([]byte, error) {
	out := bytes.NewBufferString(reportMagic)
	if err := rlp.Encode(out, r); err != nil {
		return nil, fmt.Errorf("encode report: %w", err)
	}
	return out.Bytes(), nil
}

// IsReport reports whether a file claims to be a Report.
func IsReport(b []byte) bool { return bytes.HasPrefix(b, []byte(reportMagic)) }

// DecodeReport reads a report file. Errors wrap ErrDecode.
func DecodeReport(b []byte) (*Report, error) {
	body, ok := bytes.CutPrefix(b, []byte(reportMagic))
	if !ok || len(b) > MaxBundleBytes {
		return nil, fmt.Errorf("%w: not a report of version 1 in %d bytes", ErrDecode, len(b))
	}
	r := new(Report)
	if err := rlp.DecodeBytes(body, r); err != nil {
		return nil, fmt.Errorf("%w: report: %w", ErrDecode, err)
	}
	return r, nil
}

// Judge says who lied. Errors wrap ErrProof where the report shows nothing against anybody, or ErrDecode or ErrFinality.
func (r *Report) Judge(t *Trust, contract common.Address) (*Guilt, error) {
	if r.Genesis != t.Genesis {
		return nil, fmt.Errorf("%w: it is of the chain with block 0 %s, not of %s", ErrProof, r.Genesis, t.Genesis)
	}
	var who common.Address
	var err error
	switch r.Kind {
	case TwoReceipts:
		who, err = r.receipts()
	case TwoHeads:
		who, err = r.heads()
	case BrokenReceipt:
		who, err = r.broken(t, contract)
	default:
		return nil, fmt.Errorf("%w: report of kind %d", ErrDecode, r.Kind)
	}
	var found *Tamper
	if errors.As(err, &found) && errors.Is(err, ErrForked) {
		return &Guilt{who, found}, nil
	}
	if err == nil {
		err = fmt.Errorf("%w: what is in the report does not contradict itself", ErrProof)
	}
	return nil, err
}

func (r *Report) receipts() (common.Address, error) {
	a, err := DecodeGivenReceipt(r.First)
	if err != nil {
		return common.Address{}, err
	}
	b, err := DecodeGivenReceipt(r.Second)
	if err != nil {
		return common.Address{}, err
	}
	return Equivocation(r.Genesis, &a.Placed, &b.Placed, &a.Receipt, &b.Receipt)
}

func (r *Report) heads() (common.Address, error) {
	a, err := DecodeSignedHead(r.First)
	if err != nil {
		return common.Address{}, err
	}
	b, err := DecodeSignedHead(r.Second)
	if err != nil {
		return common.Address{}, err
	}
	return ForkedHeads(r.Genesis, a, b)
}

func (r *Report) broken(t *Trust, contract common.Address) (common.Address, error) {
	g, err := DecodeGivenReceipt(r.First)
	if err != nil {
		return common.Address{}, err
	}
	b, err := DecodeBundle(r.Second)
	if err != nil {
		return common.Address{}, err
	}
	if _, err := b.Verify(t, contract); err != nil {
		return common.Address{}, err
	}
	return g.against(r.Genesis, b)
}

// against compares a receipt with what a proof shows to be committed in its place.
func (g *GivenReceipt) against(chain common.Hash, b *Bundle) (common.Address, error) {
	p := &g.Placed
	if b.Head.Topic != p.Topic || b.Head.Partition != p.Partition {
		return common.Address{}, nil
	}
	for _, l := range b.Leaves {
		if l.Epoch != p.Leaf.Epoch || l == p.Leaf || l.Next() <= p.Leaf.Base || p.Leaf.Next() <= l.Base {
			continue
		}
		who, err := g.Receipt.Signer(chain, p)
		if err != nil {
			return who, err
		}
		return who, tamper(ErrForked, p.Topic, p.Partition, max(l.Base, p.Leaf.Base), "broker %s signed a batch with digest %s for it, committed in the same epoch %d is one with digest %s",
			who, p.Leaf.Digest, l.Epoch, l.Digest)
	}
	return common.Address{}, nil
}

// Accuse looks for something that shows a lie among receipts, and between them and proofs. It gives the first report, or
// nil. Receipts are compared by place, so it does not matter how many there are.
func Accuse(chain common.Hash, receipts []*GivenReceipt, proofs [][]byte) (*Report, error) {
	type at struct {
		topic     [32]byte
		partition int32
		epoch     int32
		offset    int64
	}
	seen := map[at]*GivenReceipt{}
	for _, g := range receipts {
		k := at{g.Placed.Topic, g.Placed.Partition, g.Placed.Leaf.Epoch, g.Placed.Leaf.Base}
		other := seen[k]
		seen[k] = g
		if other == nil {
			continue
		}
		r := &Report{Genesis: chain, Kind: TwoReceipts, First: other.Encode(), Second: g.Encode()}
		if _, err := r.receipts(); errors.Is(err, ErrForked) {
			return r, nil
		}
	}
	for _, raw := range proofs {
		b, err := DecodeBundle(raw)
		if err != nil {
			return nil, err
		}
		for _, g := range receipts {
			if _, err := g.against(chain, b); errors.Is(err, ErrForked) {
				return &Report{Genesis: chain, Kind: BrokenReceipt, First: g.Encode(), Second: raw}, nil
			}
		}
	}
	return nil, nil
}
