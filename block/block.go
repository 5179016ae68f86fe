package block

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/trie"
	"lukechampine.com/blake3"

	"github.com/bornode/bornode/internal/invariant"
)

// ErrDecode is wrapped by every error about bytes that are no valid encoding.
var ErrDecode = errors.New("invalid encoding")

// RecordVersion is the only version of the consensus record.
const RecordVersion = 1

// Record is the consensus record that travels beside a header; the header's Extra is exactly its hash.
type Record struct {
	Version    uint8
	Slot       uint64
	QC         *Certificate // newest prevote certificate the producer had, for an ancestor; nil if none is newer
	FC         *Certificate // newest precommit certificate, likewise
	Next       Schedule     // next schedule; only on the last block of an epoch, else nil
	BodyDigest common.Hash
	Recovery   common.Hash // that the chain goes on by: only in the first block behind its base (DESIGN §7 rule 13); else zero
}

// Hash is keccak256 of the record's encoding.
func (r *Record) Hash() common.Hash {
	return crypto.Keccak256Hash(encode(r))
}

// SealLength is the length of a producer's signature: R, S, V (V is 0 or 1).
const SealLength = crypto.SignatureLength

// SealedHeader = header + record + signature over the seal digest of the header's hash (Domain.SealDigest).
type SealedHeader struct {
	Header *types.Header
	Record *Record
	Seal   [SealLength]byte

	hash atomic.Pointer[common.Hash]
}

// Hash is the block's hash: go-ethereum's header hash, computed once.
func (h *SealedHeader) Hash() common.Hash {
	if p := h.hash.Load(); p != nil {
		return *p
	}
	x := h.Header.Hash()
	h.hash.Store(&x)
	return x
}

// Number is the block's height.
func (h *SealedHeader) Number() uint64 { return h.Header.Number.Uint64() }

// Slot is the slot the block names.
func (h *SealedHeader) Slot() uint64 { return h.Record.Slot }

// Point names the block.
func (h *SealedHeader) Point() Point { return Point{Slot: h.Record.Slot, Hash: h.Hash()} }

// Parent is the hash of the parent.
func (h *SealedHeader) Parent() common.Hash { return h.Header.ParentHash }

// Signer recovers the account that sealed the header in this domain. A high s value is refused. A seal of another domain
// gives another account.
func (h *SealedHeader) Signer(d Domain) (common.Address, error) {
	hash := h.Hash()
	signer, err := recoverSigner(d.SealDigest(hash), h.Seal[:])
	if err != nil {
		return common.Address{}, fmt.Errorf("seal of block %d %s: %w", h.Number(), hash, err)
	}
	return signer, nil
}

// recoverSigner is the account that made a signature of SealLength bytes. A high s value is refused.
func recoverSigner(digest common.Hash, sig []byte) (common.Address, error) {
	if !lowS(sig[32:64]) {
		return common.Address{}, errors.New("the signature has a high s value")
	}
	pub, err := crypto.Ecrecover(digest[:], sig)
	if err != nil {
		return common.Address{}, err
	}
	return common.BytesToAddress(crypto.Keccak256(pub[1:])[12:]), nil
}

// Block is a sealed header with its transactions and, in the same order, their senders. Senders are part of the
// body digest; a node that does not trust a certificate above the block recovers them itself and compares.
type Block struct {
	*SealedHeader
	Transactions types.Transactions
	Senders      []common.Address

	received *received // nil: not checked as a whole
}

// BodyDigest is BLAKE3-256 over the RLP of the transaction list followed by the senders' 20 bytes each.
func BodyDigest(txs types.Transactions, senders []common.Address) common.Hash {
	h := blake3.New(32, nil)
	err := rlp.Encode(h, txs)
	invariant.That(err == nil, "encode transactions, decoded or our own: %v", err)
	for i := range senders {
		h.Write(senders[i][:])
	}
	var d common.Hash
	h.Sum(d[:0])
	return d
}

// TxRoot is the Merkle-Patricia root of the transactions.
func TxRoot(txs types.Transactions) common.Hash { return types.DeriveSha(txs, trie.NewStackTrie(nil)) }

// Ethereum is the block as go-ethereum's tools see it (same hash; empty withdrawals).
func (b *Block) Ethereum() *types.Block {
	return types.NewBlockWithHeader(b.Header).WithBody(types.Body{Transactions: b.Transactions, Withdrawals: types.Withdrawals{}})
}

func (b *Block) String() string {
	return fmt.Sprintf("block %d slot %d %s", b.Number(), b.Slot(), b.Hash())
}
