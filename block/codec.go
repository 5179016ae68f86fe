package block

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/internal/invariant"
)

// Wire forms (of a sealed header: compact.go). RLP throughout; a missing certificate or schedule is an empty list. Field order is fixed by
// docs/wire.md and the golden vectors.
type (
	certificateWire struct {
		Kind                   VoteKind
		SourceSlot, TargetSlot uint64
		SourceHash, TargetHash common.Hash
		Bitmaps                [][]byte
		Aggregate              BLSSignature
	}
	voteWire struct {
		Kind                   VoteKind
		SourceSlot, TargetSlot uint64
		SourceHash, TargetHash common.Hash
		Voter                  common.Address
		Signature              BLSSignature
	}
	recordWire struct {
		Version    uint8
		Slot       uint64
		QC, FC     *Certificate `rlp:"nilList"`
		Next       Schedule
		BodyDigest common.Hash
		Recovery   *common.Hash `rlp:"optional"` // nil: zero
	}
	blockWire struct {
		Sealed       *SealedHeader
		Transactions types.Transactions
		Senders      []common.Address
	}
)

func decodeErr(what string, err error) error { return fmt.Errorf("%w: %s: %w", ErrDecode, what, err) }

func (k VoteKind) valid() bool { return k == Prevote || k == Precommit }

func (c *Certificate) EncodeRLP(w io.Writer) error {
	return rlp.Encode(w, &certificateWire{c.Kind, c.Source.Slot, c.Target.Slot, c.Source.Hash, c.Target.Hash, c.Bitmaps, c.Aggregate})
}

func (c *Certificate) DecodeRLP(s *rlp.Stream) error {
	var x certificateWire
	if err := s.Decode(&x); err != nil {
		return err
	}
	y := Certificate{Link{x.Kind, Point{x.SourceSlot, x.SourceHash}, Point{x.TargetSlot, x.TargetHash}}, x.Bitmaps, x.Aggregate}
	if err := y.checkParts(); err != nil {
		return err
	}
	*c = y
	return nil
}

// checkParts checks what a decoder must bound: kind, number of bitmaps and their lengths.
func (c *Certificate) checkParts() error {
	if !c.Kind.valid() || len(c.Bitmaps) < 1 || len(c.Bitmaps) > maxBitmaps {
		return fmt.Errorf("certificate of kind %d with %d bitmaps", c.Kind, len(c.Bitmaps))
	}
	for _, b := range c.Bitmaps {
		if len(b) > MaxBitmapBytes {
			return fmt.Errorf("bitmap of %d bytes, %d allowed", len(b), MaxBitmapBytes)
		}
	}
	return nil
}

func (v *Vote) EncodeRLP(w io.Writer) error {
	return rlp.Encode(w, &voteWire{v.Kind, v.Source.Slot, v.Target.Slot, v.Source.Hash, v.Target.Hash, v.Voter, v.Signature})
}

func (v *Vote) DecodeRLP(s *rlp.Stream) error {
	var x voteWire
	if err := s.Decode(&x); err != nil {
		return err
	}
	if !x.Kind.valid() {
		return fmt.Errorf("vote of kind %d", x.Kind)
	}
	*v = Vote{Link{x.Kind, Point{x.SourceSlot, x.SourceHash}, Point{x.TargetSlot, x.TargetHash}}, x.Voter, x.Signature}
	return nil
}

func (r *Record) EncodeRLP(w io.Writer) error {
	x := recordWire{r.Version, r.Slot, r.QC, r.FC, r.Next, r.BodyDigest, nil}
	if r.Recovery != (common.Hash{}) {
		x.Recovery = &r.Recovery
	}
	return rlp.Encode(w, &x)
}

func (r *Record) DecodeRLP(s *rlp.Stream) error {
	var x recordWire
	if err := s.Decode(&x); err != nil {
		return err
	}
	if x.Version != RecordVersion {
		return fmt.Errorf("record version %d, this node knows %d", x.Version, RecordVersion)
	}
	if len(x.Next) > MaxProducers {
		return fmt.Errorf("schedule of %d producers, %d allowed", len(x.Next), MaxProducers)
	}
	if len(x.Next) == 0 {
		x.Next = nil
	}
	y := Record{Version: x.Version, Slot: x.Slot, QC: x.QC, FC: x.FC, Next: x.Next, BodyDigest: x.BodyDigest}
	if x.Recovery != nil {
		if y.Recovery = *x.Recovery; y.Recovery == (common.Hash{}) {
			return errors.New("record names a recovery of zeroes, which is written as none")
		}
	}
	*r = y
	return nil
}

func (b *Block) EncodeRLP(w io.Writer) error {
	return rlp.Encode(w, &blockWire{b.SealedHeader, b.Transactions, b.Senders})
}

func (b *Block) DecodeRLP(s *rlp.Stream) error {
	var x blockWire
	if err := s.Decode(&x); err != nil {
		return err
	}
	if x.Sealed == nil || len(x.Transactions) > MaxTransactions || len(x.Senders) != len(x.Transactions) {
		return fmt.Errorf("block with %d transactions and %d senders", len(x.Transactions), len(x.Senders))
	}
	for i, tx := range x.Transactions {
		if tx == nil {
			return fmt.Errorf("transaction %d is missing", i)
		}
	}
	b.SealedHeader, b.Transactions, b.Senders = x.Sealed, x.Transactions, x.Senders
	return nil
}

// Encode is the value's encoding. It panics on a value that cannot be encoded: ours only.
func encode(v any) []byte {
	b, err := rlp.EncodeToBytes(v)
	invariant.That(err == nil, "encode %T: %v", v, err)
	return b
}

func (b *Block) Encode() []byte        { return encode(b) }
func (h *SealedHeader) Encode() []byte { return encode(h) }
func (v *Vote) Encode() []byte         { return encode(v) }
func (c *Certificate) Encode() []byte  { return encode(c) }

func decode(b []byte, limit int, what string, v any) error {
	if len(b) > limit {
		return fmt.Errorf("%w: %s of %d bytes, %d allowed", ErrDecode, what, len(b), limit)
	}
	if err := rlp.Decode(bytes.NewReader(b), v); err != nil {
		return decodeErr(what, err)
	}
	if n, err := trailing(b); err != nil || n != 0 {
		return fmt.Errorf("%w: %s has %d bytes too many", ErrDecode, what, n)
	}
	return nil
}

func trailing(b []byte) (int, error) {
	_, _, rest, err := rlp.Split(b)
	return len(rest), err
}

// DecodeBlock decodes one block of at most limit bytes (0: MaxBlockBytes).
func DecodeBlock(b []byte, limit int) (*Block, error) {
	if limit <= 0 {
		limit = MaxBlockBytes
	}
	x := new(Block)
	return x, decode(b, limit, "block", x)
}

// DecodeSealedHeader decodes one sealed header.
func DecodeSealedHeader(b []byte) (*SealedHeader, error) {
	x := new(SealedHeader)
	return x, decode(b, MaxHeaderBytes, "sealed header", x)
}

// DecodeBlockHeader decodes only the sealed header of an encoded block.
func DecodeBlockHeader(b []byte) (*SealedHeader, error) {
	list, _, err := rlp.SplitList(b)
	if err != nil {
		return nil, decodeErr("block", err)
	}
	_, _, rest, err := rlp.Split(list)
	if err != nil {
		return nil, decodeErr("sealed header", err)
	}
	return DecodeSealedHeader(list[:len(list)-len(rest)])
}

// DecodeVote decodes one vote.
func DecodeVote(b []byte) (*Vote, error) {
	x := new(Vote)
	return x, decode(b, MaxVoteBytes, "vote", x)
}

// DecodeCertificate decodes one certificate.
func DecodeCertificate(b []byte) (*Certificate, error) {
	x := new(Certificate)
	return x, decode(b, MaxHeaderBytes, "certificate", x)
}

func lowS(s []byte) bool {
	return crypto.ValidateSignatureValues(0, one, common.BytesToHash(s).Big(), true)
}
