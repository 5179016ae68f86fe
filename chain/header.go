package chain

import (
	"math/big"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/consensus/misc/eip1559"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
)

// MixDigest is the weak randomness of a block: keccak256(parent MixDigest ++ RLP(QC) ++ RLP(FC)), a certificate that
// the record lacks adding nothing.
func MixDigest(parent common.Hash, qc, fc *block.Certificate) common.Hash {
	b := append([]byte(nil), parent[:]...)
	if qc != nil {
		b = append(b, qc.Encode()...)
	}
	if fc != nil {
		b = append(b, fc.Encode()...)
	}
	return crypto.Keccak256Hash(b)
}

// BaseFee is the base fee of a child of parent: constant, or EIP-1559's with the parameter as floor.
func BaseFee(p *block.Parameters, config *params.ChainConfig, parent *types.Header) *big.Int {
	floor := new(big.Int).SetUint64(p.BaseFee)
	if p.BaseFeeFixed {
		return floor
	}
	if fee := eip1559.CalcBaseFee(config, parent); fee.Cmp(floor) > 0 {
		return fee
	}
	return floor
}

// newHeader is everything of a child's header that is known before execution, p being the child's parameters; Extra, TxHash, ReceiptHash, Root,
// Bloom, GasUsed and RequestsHash are left.
func (c *Chain) newHeader(p *block.Parameters, parent *types.Header, parentHash common.Hash, slot uint64, coinbase common.Address, qc, fc *block.Certificate) *types.Header {
	zero, zero2, root, withdrawals := uint64(0), uint64(0), common.Hash{}, types.EmptyWithdrawalsHash
	return &types.Header{
		ParentHash: parentHash, UncleHash: types.EmptyUncleHash, Coinbase: coinbase,
		Difficulty: new(big.Int), Number: new(big.Int).Add(parent.Number, common.Big1),
		GasLimit: p.GasLimit, Time: p.HeaderTime(slot),
		MixDigest: MixDigest(parent.MixDigest, qc, fc),
		BaseFee:   BaseFee(p, c.config, parent), WithdrawalsHash: &withdrawals,
		BlobGasUsed: &zero, ExcessBlobGas: &zero2, ParentBeaconRoot: &root,
	}
}

// checkHeader checks every header field that does not depend on execution, and the size, by the block's parameters p.
// Coinbase, slot order against the schedule
// and seals are consensus/dpos's.
func (c *Chain) checkHeader(b *block.Block, p *block.Parameters, on *block.SealedHeader) error {
	h, r := b.Header, b.Record
	parent, parentHash, parentSlot := on.Header, on.Hash(), on.Slot()
	want := c.newHeader(p, parent, parentHash, r.Slot, h.Coinbase, r.QC, r.FC)
	size := encodedSize(b)
	switch {
	case h.ParentHash != parentHash:
		return badBlock(b, "parent is %s, not %s", h.ParentHash, parentHash)
	case h.Number.Cmp(want.Number) != 0:
		return badBlock(b, "height is %s, its parent's is %s", h.Number, parent.Number)
	case r.Slot <= parentSlot:
		return badBlock(b, "slot %d is not above its parent's slot %d", r.Slot, parentSlot)
	case h.Time != want.Time:
		return badBlock(b, "time is %d, slot %d begins at %d", h.Time, r.Slot, want.Time)
	case len(h.Extra) != common.HashLength || common.BytesToHash(h.Extra) != r.Hash():
		return badBlock(b, "extra data %x is not the hash %s of the record", h.Extra, r.Hash())
	case h.UncleHash != types.EmptyUncleHash:
		return badBlock(b, "uncle hash %s is not that of the empty list", h.UncleHash)
	case h.Difficulty.Sign() != 0 || h.Nonce != types.BlockNonce{}:
		return badBlock(b, "difficulty %s and nonce %x must be zero", h.Difficulty, h.Nonce)
	case h.GasLimit != want.GasLimit:
		return badBlock(b, "gas limit is %d, the chain's is %d", h.GasLimit, want.GasLimit)
	case h.GasUsed > h.GasLimit:
		return badBlock(b, "gas used is %d above the limit %d", h.GasUsed, h.GasLimit)
	case h.BaseFee == nil || h.BaseFee.Cmp(want.BaseFee) != 0:
		return badBlock(b, "base fee is %v, must be %s", h.BaseFee, want.BaseFee)
	case h.MixDigest != want.MixDigest:
		return badBlock(b, "mix digest is %s, must be %s", h.MixDigest, want.MixDigest)
	case h.WithdrawalsHash == nil || *h.WithdrawalsHash != types.EmptyWithdrawalsHash:
		return badBlock(b, "withdrawals hash is %v, must be that of the empty list", h.WithdrawalsHash)
	case h.BlobGasUsed == nil || *h.BlobGasUsed != 0 || h.ExcessBlobGas == nil || *h.ExcessBlobGas != 0:
		return badBlock(b, "blob gas used and excess blob gas must be 0")
	case h.ParentBeaconRoot == nil || *h.ParentBeaconRoot != common.Hash{}:
		return badBlock(b, "parent beacon root must be zero")
	case h.RequestsHash == nil:
		return badBlock(b, "requests hash is missing")
	case h.BlockAccessListHash != nil || h.SlotNumber != nil:
		return badBlock(b, "header has fields of a later fork")
	case size > p.MaxBlockBytes:
		return badBlock(b, "%d bytes, %d allowed", size, p.MaxBlockBytes)
	case r.Version != block.RecordVersion:
		return badBlock(b, "record version %d, this node knows %d", r.Version, block.RecordVersion)
	case len(r.Next) > 0 && !c.params.EpochEnd(want.Number.Uint64()):
		return badBlock(b, "record names a next schedule, but the block does not end an epoch of %d blocks", c.params.EpochBlocks)
	}
	return nil
}
