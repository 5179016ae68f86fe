package block

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	"lukechampine.com/blake3"
)

// received is the proof that the parts of a block were found to belong to each other, with the bytes they came in. It
// speaks of exactly the parts it names: a block whose parts were replaced has none.
type received struct {
	raw     []byte
	sealed  *SealedHeader
	txs     **types.Transaction // the first one's place, nil of none
	senders *common.Address
	count   int
}

// DecodeWhole decodes a block that a peer sent, of at most limit bytes (0: MaxBlockBytes), and checks that its record is
// the one its header names and its body the one its record names. The block keeps b, which nobody may change afterwards,
// and the proof: see Received. Errors wrap ErrDecode.
func DecodeWhole(b []byte, limit int) (*Block, error) {
	x, err := DecodeBlock(b, limit)
	if err != nil {
		return nil, err
	}
	if len(x.Header.Extra) != common.HashLength || common.BytesToHash(x.Header.Extra) != x.Record.Hash() {
		return nil, fmt.Errorf("%w: record of block %d is not the one its header names", ErrDecode, x.Number())
	}
	digest, err := digestOf(b, x.Senders)
	if err != nil {
		return nil, decodeErr("block", err)
	}
	if digest != x.Record.BodyDigest {
		return nil, fmt.Errorf("%w: body of block %d is not the one its record names", ErrDecode, x.Number())
	}
	x.received = &received{raw: b, sealed: x.SealedHeader, txs: first(x.Transactions), senders: first(x.Senders), count: len(x.Transactions)}
	return x, nil
}

// Received is the encoding that the block came in, if DecodeWhole made the block and its parts are still those that it
// checked; nil otherwise. The bytes must not be changed.
func (b *Block) Received() []byte {
	r := b.received
	if r == nil || r.sealed != b.SealedHeader || r.count != len(b.Transactions) || r.count != len(b.Senders) ||
		r.txs != first(b.Transactions) || r.senders != first(b.Senders) {
		return nil
	}
	return r.raw
}

// digestOf is BodyDigest from the block's encoding: a decoded value has one encoding, so the list of transactions is
// digested as it came.
func digestOf(raw []byte, senders []common.Address) (d common.Hash, err error) {
	parts, _, err := rlp.SplitList(raw)
	if err != nil {
		return d, err
	}
	_, _, body, err := rlp.Split(parts) // behind the sealed header
	if err != nil {
		return d, err
	}
	_, _, rest, err := rlp.Split(body)
	if err != nil {
		return d, err
	}
	h := blake3.New(32, nil)
	h.Write(body[:len(body)-len(rest)])
	for i := range senders {
		h.Write(senders[i][:])
	}
	h.Sum(d[:0])
	return d, nil
}

// first is the place of a slice's first element, nil if it has none.
func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}
