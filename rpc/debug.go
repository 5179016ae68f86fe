package rpc

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// debugAPI offers the part of the namespace debug that reads the chain: raw encodings and traces.
type debugAPI struct{ *service }

// GetRawHeader is the header's RLP, whose hash is the block's.
func (d *debugAPI) GetRawHeader(ref gethrpc.BlockNumberOrHash) (hexutil.Bytes, error) {
	h, err := d.back.mustHeader(ref)
	if err != nil {
		return nil, err
	}
	return rlp.EncodeToBytes(h)
}

// GetRawBlock is the RLP of the block as Ethereum has it; bor_getRecord shows the consensus record beside it.
func (d *debugAPI) GetRawBlock(ref gethrpc.BlockNumberOrHash) (hexutil.Bytes, error) {
	b, err := d.mustBlock(ref)
	if err != nil {
		return nil, err
	}
	return rlp.EncodeToBytes(b)
}

// GetRawReceipts are the receipts as they are hashed into the block's receipts root.
func (d *debugAPI) GetRawReceipts(ref gethrpc.BlockNumberOrHash) ([]hexutil.Bytes, error) {
	b, err := d.back.block(ref)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, noBlock(ref)
	}
	rs, err := d.receipts(b)
	if err != nil {
		return nil, err
	}
	out := make([]hexutil.Bytes, len(rs))
	for i, r := range rs {
		if out[i], err = r.MarshalBinary(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// GetRawTransaction is the transaction as it was submitted, from a block or from the pool; null if there is none.
func (d *debugAPI) GetRawTransaction(h common.Hash) (hexutil.Bytes, error) {
	return (&ethAPI{d.service}).GetRawTransactionByHash(h)
}

// GetBadBlocks is always empty: blocks that break a rule are not kept.
func (d *debugAPI) GetBadBlocks() []struct{} { return []struct{}{} }

func (d *debugAPI) mustBlock(ref gethrpc.BlockNumberOrHash) (*types.Block, error) {
	b, err := d.back.block(ref)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, noBlock(ref)
	}
	return b.Ethereum(), nil
}

// TraceTransaction executes a transaction of the chain again, after those before it in its block, and shows how.
func (d *debugAPI) TraceTransaction(ctx context.Context, hash common.Hash, cfg *traceConfig) (any, error) {
	x, err := d.back.transaction(hash)
	if err != nil {
		return nil, err
	}
	if x == nil {
		return nil, &Error{Code: codeServer, Message: "transaction not found: no block of the chain has " + hash.Hex()}
	}
	r, err := d.newTrace(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer r.end()
	b, err := d.mustBlock(byHash(x.Block))
	if err != nil {
		return nil, err
	}
	return r.one(b, int(x.Index)) //nolint:gosec // an index
}

type tracedJSON struct {
	TxHash common.Hash `json:"txHash"`
	Result any         `json:"result"`
}

func (d *debugAPI) TraceBlockByNumber(ctx context.Context, n gethrpc.BlockNumber, cfg *traceConfig) ([]tracedJSON, error) {
	return d.traceKnown(ctx, byNumber(n), cfg)
}

func (d *debugAPI) TraceBlockByHash(ctx context.Context, hash common.Hash, cfg *traceConfig) ([]tracedJSON, error) {
	return d.traceKnown(ctx, byHash(hash), cfg)
}

func (d *debugAPI) traceKnown(ctx context.Context, ref gethrpc.BlockNumberOrHash, cfg *traceConfig) ([]tracedJSON, error) {
	b, err := d.mustBlock(ref)
	if err != nil {
		return nil, err
	}
	return d.traceBlock(ctx, b, cfg)
}

// TraceBlock traces a block that the caller has, on the state of its parent, which this node must have.
func (d *debugAPI) TraceBlock(ctx context.Context, raw hexutil.Bytes, cfg *traceConfig) ([]tracedJSON, error) {
	b, err := d.decodeBlock(raw)
	if err != nil {
		return nil, err
	}
	return d.traceBlock(ctx, b, cfg)
}

// decodeBlock reads a block that nobody has checked. What would make go-ethereum compute without end is refused.
func (d *debugAPI) decodeBlock(raw []byte) (*types.Block, error) {
	b := new(types.Block)
	if err := rlp.DecodeBytes(raw, b); err != nil {
		return nil, invalidParams("the bytes are no block in RLP: %s", err)
	}
	if err := b.SanityCheck(); err != nil {
		return nil, invalidParams("block: %s", err)
	}
	h := b.Header()
	switch {
	case h.BaseFee == nil || h.ExcessBlobGas == nil || h.ParentBeaconRoot == nil:
		return nil, invalidParams("the header lacks fields that every block of this chain has")
	case *h.ExcessBlobGas != 0 || h.Difficulty.Sign() != 0:
		return nil, invalidParams("the header's excess blob gas and difficulty must be 0")
	}
	p, err := d.back.Chain.HeaderByHash(h.ParentHash)
	if err != nil {
		return nil, unreadable("the block's parent", err)
	}
	if p != nil && p.Number.Uint64()+1 != h.Number.Uint64() {
		return nil, invalidParams("the block has height %s, its parent %s", h.Number, p.Number)
	}
	return b, nil
}

func (d *debugAPI) traceBlock(ctx context.Context, b *types.Block, cfg *traceConfig) ([]tracedJSON, error) {
	if b.NumberU64() == 0 {
		return nil, &Error{Code: codeServer, Message: "genesis is not traceable: it has no transactions and no parent"}
	}
	r, err := d.newTrace(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer r.end()
	return r.all(b)
}

// TraceCall traces a call on the state after a block, or with txIndex on the state before that transaction of it.
func (d *debugAPI) TraceCall(ctx context.Context, args callArgs, ref *gethrpc.BlockNumberOrHash, cfg *traceCallConfig) (any, error) {
	if cfg == nil {
		cfg = new(traceCallConfig)
	}
	if err := args.check(d.back.Chain.Config().ChainID); err != nil {
		return nil, err
	}
	if err := cfg.BlockOverrides.check(); err != nil {
		return nil, err
	}
	r, err := d.newTrace(ctx, &cfg.traceConfig)
	if err != nil {
		return nil, err
	}
	defer r.end()
	return r.call(&args, orLatest(ref), cfg)
}

func noBlock(ref gethrpc.BlockNumberOrHash) error {
	return fmt.Errorf("block not found: this node has no block %s", ref.String())
}
