package block

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/big"
	"math/bits"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
)

// form is the first field of an encoded sealed header: it says which fields follow (docs/wire.md, ADR 15). A value has
// exactly one form, the one that formOf gives; decoders refuse every other.
type form uint64

// formWhole is the form of a header or record that no other form can express: go-ethereum's header and the record follow.
const formWhole form = 0

const (
	formCompact     form = 1 << iota // set in every form but formWhole
	hasTxHash                        // else types.EmptyTxsHash
	hasReceiptHash                   // else types.EmptyReceiptsHash
	hasBloom                         // else zero
	hasRequestsHash                  // else types.EmptyRequestsHash
	hasBodyDigest                    // else the digest of an empty body
	hasQC                            // the record holds one
	onParent                         // the QC's target is the parent
	hasFC                            // the record holds one
	hasNext                          // the record names a schedule
	likeQCTarget                     // the FC's target is the QC's
	likeQCSource                     // the FC's target is the QC's source
	likeParent                       // the FC's target is the parent
	formsEnd                         // above all bits in use
)

// emptyBodyDigest is the body digest of a block without transactions.
var emptyBodyDigest = sync.OnceValue(func() common.Hash { return BodyDigest(nil, nil) })

// formOf is the one form of a sealed header.
func formOf(h *SealedHeader) form {
	if !isRegular(h.Header) || !isRegularRecord(h.Record) || common.BytesToHash(h.Header.Extra) != h.Record.Hash() {
		return formWhole
	}
	return compactFormOf(h.Header, h.Record)
}

// isRegular reports whether the fields that the compact form leaves out have their one value. Whether Extra is the hash
// of the record is left to the caller.
func isRegular(h *types.Header) bool {
	return h.UncleHash == types.EmptyUncleHash && h.Nonce == types.BlockNonce{} && len(h.Extra) == common.HashLength &&
		h.Difficulty != nil && h.Difficulty.Sign() == 0 && h.Number != nil && h.Number.IsUint64() &&
		h.BaseFee != nil && h.BaseFee.Sign() >= 0 &&
		h.WithdrawalsHash != nil && *h.WithdrawalsHash == types.EmptyWithdrawalsHash &&
		h.BlobGasUsed != nil && *h.BlobGasUsed == 0 && h.ExcessBlobGas != nil && *h.ExcessBlobGas == 0 &&
		h.ParentBeaconRoot != nil && *h.ParentBeaconRoot == common.Hash{} && h.RequestsHash != nil &&
		h.BlockAccessListHash == nil && h.SlotNumber == nil
}

// isRegularRecord reports whether the compact form can express the record: certificates of the kind of their place, on
// links that lead upwards and end below the record's slot. That of the first block after a recovery is none: there is one.
func isRegularRecord(r *Record) bool {
	if r.Version != RecordVersion || len(r.Next) > MaxProducers || r.Recovery != (common.Hash{}) {
		return false
	}
	if c := r.QC; c != nil && (c.Kind != Prevote || !hasRegularParts(c, r.Slot) || c.Source.Slot > c.Target.Slot) {
		return false
	}
	c := r.FC
	return c == nil || c.Kind == Precommit && hasRegularParts(c, r.Slot) && c.Source == c.Target
}

func hasRegularParts(c *Certificate, slot uint64) bool {
	return c.checkParts() == nil && c.Target.Slot < slot
}

// compactFormOf is the form of a regular header and record whose hash the header names.
func compactFormOf(h *types.Header, r *Record) form {
	f := formCompact
	set := func(bit form, is bool) {
		if is {
			f |= bit
		}
	}
	set(hasTxHash, h.TxHash != types.EmptyTxsHash)
	set(hasReceiptHash, h.ReceiptHash != types.EmptyReceiptsHash)
	set(hasBloom, h.Bloom != types.Bloom{})
	set(hasRequestsHash, *h.RequestsHash != types.EmptyRequestsHash)
	set(hasBodyDigest, r.BodyDigest != emptyBodyDigest())
	set(hasNext, len(r.Next) > 0)
	set(hasQC, r.QC != nil)
	set(onParent, r.QC != nil && r.QC.Target.Hash == h.ParentHash)
	if r.FC == nil {
		return f
	}
	switch at := r.FC.Target; {
	case r.QC != nil && at == r.QC.Target:
		f |= likeQCTarget
	case r.QC != nil && at == r.QC.Source:
		f |= likeQCSource
	case at.Hash == h.ParentHash:
		f |= likeParent
	}
	return f | hasFC
}

// EncodeRLP writes the header in its one form.
func (h *SealedHeader) EncodeRLP(w io.Writer) error {
	f := formOf(h)
	e := rlp.NewEncoderBuffer(w)
	list := e.List()
	e.WriteUint64(uint64(f))
	if f == formWhole {
		if err := errors.Join(rlp.Encode(e, h.Header), rlp.Encode(e, h.Record)); err != nil {
			return err
		}
	} else {
		encodeCompactHeader(e, h.Header, f)
		encodeCompactRecord(e, h.Record, f)
	}
	e.WriteBytes(h.Seal[:])
	e.ListEnd(list)
	return e.Flush()
}

func encodeCompactHeader(e rlp.EncoderBuffer, h *types.Header, f form) {
	e.WriteBytes(h.ParentHash[:])
	e.WriteBytes(h.Coinbase[:])
	e.WriteBytes(h.Root[:])
	e.WriteUint64(h.Number.Uint64())
	e.WriteUint64(h.GasLimit)
	e.WriteUint64(h.GasUsed)
	e.WriteUint64(h.Time)
	e.WriteBytes(h.MixDigest[:])
	e.WriteBigInt(h.BaseFee)
	if f&hasTxHash != 0 {
		e.WriteBytes(h.TxHash[:])
	}
	if f&hasReceiptHash != 0 {
		e.WriteBytes(h.ReceiptHash[:])
	}
	if f&hasBloom != 0 {
		e.WriteBytes(packBloom(&h.Bloom))
	}
	if f&hasRequestsHash != 0 {
		e.WriteBytes(h.RequestsHash[:])
	}
}

func encodeCompactRecord(e rlp.EncoderBuffer, r *Record, f form) {
	e.WriteUint64(r.Slot)
	if f&hasBodyDigest != 0 {
		e.WriteBytes(r.BodyDigest[:])
	}
	if f&hasQC != 0 {
		list, c := e.List(), r.QC
		e.WriteUint64(r.Slot - c.Target.Slot)
		if f&onParent == 0 {
			e.WriteBytes(c.Target.Hash[:])
		}
		e.WriteUint64(c.Target.Slot - c.Source.Slot)
		e.WriteBytes(c.Source.Hash[:])
		encodeVoters(e, c)
		e.ListEnd(list)
	}
	if f&hasFC != 0 {
		list, c := e.List(), r.FC
		if f&(likeQCTarget|likeQCSource) == 0 {
			e.WriteUint64(r.Slot - c.Target.Slot)
			if f&likeParent == 0 {
				e.WriteBytes(c.Target.Hash[:])
			}
		}
		encodeVoters(e, c)
		e.ListEnd(list)
	}
	if f&hasNext != 0 {
		list := e.List()
		for i := range r.Next {
			seat := e.List()
			e.WriteBytes(r.Next[i].Account[:])
			e.WriteBytes(r.Next[i].Key[:])
			e.ListEnd(seat)
		}
		e.ListEnd(list)
	}
}

func encodeVoters(e rlp.EncoderBuffer, c *Certificate) {
	e.WriteBytes(c.Aggregate[:])
	for _, b := range c.Bitmaps {
		e.WriteBytes(b)
	}
}

// DecodeRLP reads a header in any form and refuses one that is not in its own.
func (h *SealedHeader) DecodeRLP(s *rlp.Stream) error {
	if _, err := s.List(); err != nil {
		return err
	}
	n, err := s.Uint64()
	if err != nil {
		return err
	}
	f := form(n)
	x := &SealedHeader{Header: new(types.Header), Record: new(Record)}
	if f == formWhole {
		err = errors.Join(s.Decode(x.Header), s.Decode(x.Record))
	} else {
		err = x.decodeCompact(s, f)
	}
	if err != nil {
		return err
	}
	if err := s.ReadBytes(x.Seal[:]); err != nil {
		return err
	}
	if err := s.ListEnd(); err != nil {
		return err
	}
	want := formWhole
	if f == formWhole {
		if x.Header.Number == nil || !x.Header.Number.IsUint64() || x.Header.Difficulty == nil {
			return errors.New("sealed header lacks a part")
		}
		want = formOf(x)
	} else {
		want = compactFormOf(x.Header, x.Record)
	}
	if f != want {
		return fmt.Errorf("sealed header in form %#x, its own is %#x", uint64(f), uint64(want))
	}
	h.Header, h.Record, h.Seal = x.Header, x.Record, x.Seal
	h.hash.Store(nil)
	return nil
}

func (h *SealedHeader) decodeCompact(s *rlp.Stream, f form) error {
	if f&formCompact == 0 || f >= formsEnd {
		return fmt.Errorf("sealed header in form %#x, which this program does not know", uint64(f))
	}
	d := fieldReader{stream: s}
	d.header(h.Header, f)
	d.record(h.Record, h.Header.ParentHash, f)
	if d.err == nil && !isRegularRecord(h.Record) {
		d.err = errors.New("the record is none that the compact form expresses")
	}
	if d.err != nil {
		return d.err
	}
	h.Header.Extra = h.Record.Hash().Bytes()
	return nil
}

// fieldReader reads fields until the first error, which it keeps.
type fieldReader struct {
	stream *rlp.Stream
	err    error
}

func (d *fieldReader) bytes(to []byte) {
	if d.err == nil {
		d.err = d.stream.ReadBytes(to)
	}
}

func (d *fieldReader) number() (n uint64) {
	if d.err == nil {
		n, d.err = d.stream.Uint64()
	}
	return n
}

// hash reads a hash that is present in the form, and is the default elsewhere.
func (d *fieldReader) hash(present bool, otherwise common.Hash) (x common.Hash) {
	if !present {
		return otherwise
	}
	d.bytes(x[:])
	return x
}

func (d *fieldReader) beginList() {
	if d.err == nil {
		_, d.err = d.stream.List()
	}
}

func (d *fieldReader) endList() {
	if d.err == nil {
		d.err = d.stream.ListEnd()
	}
}

func (d *fieldReader) header(h *types.Header, f form) {
	d.bytes(h.ParentHash[:])
	d.bytes(h.Coinbase[:])
	d.bytes(h.Root[:])
	h.Number = new(big.Int).SetUint64(d.number())
	h.GasLimit, h.GasUsed, h.Time = d.number(), d.number(), d.number()
	d.bytes(h.MixDigest[:])
	h.BaseFee = new(big.Int)
	if d.err == nil {
		d.err = d.stream.Decode(h.BaseFee)
	}
	h.TxHash = d.hash(f&hasTxHash != 0, types.EmptyTxsHash)
	h.ReceiptHash = d.hash(f&hasReceiptHash != 0, types.EmptyReceiptsHash)
	if f&hasBloom != 0 && d.err == nil {
		var packed []byte
		if packed, d.err = d.stream.Bytes(); d.err == nil {
			h.Bloom, d.err = unpackBloom(packed)
		}
	}
	requests := d.hash(f&hasRequestsHash != 0, types.EmptyRequestsHash)
	h.UncleHash, h.Difficulty = types.EmptyUncleHash, new(big.Int)
	withdrawals := types.EmptyWithdrawalsHash
	h.WithdrawalsHash, h.RequestsHash, h.ParentBeaconRoot = &withdrawals, &requests, new(common.Hash)
	h.BlobGasUsed, h.ExcessBlobGas = new(uint64), new(uint64)
}

func (d *fieldReader) record(r *Record, parent common.Hash, f form) {
	r.Version, r.Slot = RecordVersion, d.number()
	r.BodyDigest = d.hash(f&hasBodyDigest != 0, emptyBodyDigest())
	if f&hasQC != 0 {
		d.beginList()
		c := &Certificate{Link: Link{Kind: Prevote}}
		c.Target.Slot = d.below(r.Slot)
		c.Target.Hash = d.hash(f&onParent == 0, parent)
		c.Source.Slot = d.below(c.Target.Slot)
		d.bytes(c.Source.Hash[:])
		d.voters(c)
		d.endList()
		r.QC = c
	}
	if f&hasFC != 0 {
		d.beginList()
		c := &Certificate{Link: Link{Kind: Precommit}}
		switch like := f & (likeQCTarget | likeQCSource); {
		case like != 0 && r.QC == nil:
			d.err = errors.Join(d.err, errors.New("the FC's target is the QC's, and there is no QC"))
		case like == likeQCTarget:
			c.Target = r.QC.Target
		case like == likeQCSource:
			c.Target = r.QC.Source
		default:
			c.Target.Slot = d.below(r.Slot)
			c.Target.Hash = d.hash(f&likeParent == 0, parent)
		}
		c.Source = c.Target
		d.voters(c)
		d.endList()
		r.FC = c
	}
	if f&hasNext != 0 {
		d.beginList()
		for d.err == nil && d.stream.MoreDataInList() && len(r.Next) <= MaxProducers {
			var p Producer
			d.beginList()
			d.bytes(p.Account[:])
			d.bytes(p.Key[:])
			d.endList()
			r.Next = append(r.Next, p)
		}
		d.endList()
	}
}

// below reads how far a slot lies below another and gives that slot.
func (d *fieldReader) below(slot uint64) uint64 {
	n := d.number()
	if d.err == nil && n > slot {
		d.err = fmt.Errorf("a slot %d below slot %d", n, slot)
	}
	return slot - n
}

func (d *fieldReader) voters(c *Certificate) {
	d.bytes(c.Aggregate[:])
	for d.err == nil && d.stream.MoreDataInList() && len(c.Bitmaps) <= maxBitmaps {
		var b []byte
		b, d.err = d.stream.Bytes()
		c.Bitmaps = append(c.Bitmaps, b)
	}
	if d.err == nil {
		d.err = c.checkParts()
	}
}

// packBloom is a bloom's encoding: the numbers of the bits that are set (bit i of byte n is number 8n + i), rising, two
// bytes each, if that is shorter than the bloom itself.
func packBloom(b *types.Bloom) []byte {
	var packed []byte
	for n, x := range b {
		for ; x != 0; x &= x - 1 {
			if packed = binary.BigEndian.AppendUint16(packed, uint16(8*n+bits.TrailingZeros8(x))); len(packed) >= len(b) { //nolint:gosec // below 2,048
				return b[:]
			}
		}
	}
	return packed
}

// unpackBloom is the inverse of packBloom, and refuses what packBloom does not give.
func unpackBloom(packed []byte) (b types.Bloom, err error) {
	if len(packed) == len(b) {
		copy(b[:], packed)
		if len(packBloom(&b)) != len(b) {
			return b, errors.New("a bloom that is not packed")
		}
		return b, nil
	}
	if len(packed) > len(b) || len(packed)%2 != 0 {
		return b, fmt.Errorf("a bloom in %d bytes", len(packed))
	}
	for i, last := 0, -1; i < len(packed); i += 2 {
		n := int(binary.BigEndian.Uint16(packed[i:]))
		if n <= last || n >= 8*len(b) {
			return b, fmt.Errorf("bit %d of a bloom behind bit %d", n, last)
		}
		b[n/8] |= 1 << (n % 8)
		last = n
	}
	return b, nil
}
