package rpc

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/consensus"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/eth/tracers"
	_ "github.com/ethereum/go-ethereum/eth/tracers/native" // registers callTracer, prestateTracer and their relatives
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/params"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// debugAPI offers the part of go-ethereum's tracing that reads the chain and writes no files.
type debugAPI struct {
	api *tracers.API
	s   *service
}

func newDebugAPI(s *service) *debugAPI {
	return &debugAPI{api: tracers.NewAPI(&traceBackend{s, rawdb.NewMemoryDatabase()}), s: s}
}

func (d *debugAPI) TraceTransaction(ctx context.Context, hash common.Hash, cfg *tracers.TraceConfig) (any, error) {
	release, err := d.s.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return d.api.TraceTransaction(ctx, hash, cfg)
}

func (d *debugAPI) TraceCall(ctx context.Context, args json.RawMessage, ref *gethrpc.BlockNumberOrHash, cfg *tracers.TraceCallConfig) (any, error) {
	release, err := d.s.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return traceCall(ctx, d.api.TraceCall, args, ref, cfg)
}

// traceCall decodes the arguments into A: the tracers' own type, which go-ethereum does not export.
func traceCall[A any](ctx context.Context, trace func(context.Context, A, *gethrpc.BlockNumberOrHash, *tracers.TraceCallConfig) (any, error),
	raw json.RawMessage, ref *gethrpc.BlockNumberOrHash, cfg *tracers.TraceCallConfig,
) (any, error) {
	var args A
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, invalidParams("transaction object: %s", err)
	}
	return trace(ctx, args, ref, cfg)
}

func (d *debugAPI) TraceBlockByNumber(ctx context.Context, n gethrpc.BlockNumber, cfg *tracers.TraceConfig) (any, error) {
	release, err := d.s.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return d.api.TraceBlockByNumber(traced(ctx), n, cfg)
}

func (d *debugAPI) TraceBlockByHash(ctx context.Context, hash common.Hash, cfg *tracers.TraceConfig) (any, error) {
	release, err := d.s.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return d.api.TraceBlockByHash(traced(ctx), hash, cfg)
}

// traceBackend is the chain as the tracers see it.
type traceBackend struct {
	*service
	none ethdb.Database // empty: the tracers look for bad blocks in it
}

func (b *traceBackend) HeaderByHash(_ context.Context, h common.Hash) (*types.Header, error) {
	return b.back.mustHeader(byHash(h))
}

func (b *traceBackend) HeaderByNumber(_ context.Context, n gethrpc.BlockNumber) (*types.Header, error) {
	return b.back.mustHeader(byNumber(n))
}
func (b *traceBackend) CurrentHeader() *types.Header { return b.back.Chain.CurrentHeader() }

func (b *traceBackend) BlockByHash(_ context.Context, h common.Hash) (*types.Block, error) {
	return b.ethereum(byHash(h))
}

func (b *traceBackend) BlockByNumber(_ context.Context, n gethrpc.BlockNumber) (*types.Block, error) {
	return b.ethereum(byNumber(n))
}

func (b *traceBackend) ethereum(ref gethrpc.BlockNumberOrHash) (*types.Block, error) {
	x, err := b.back.block(ref)
	if x == nil || err != nil {
		return nil, err
	}
	return x.Ethereum(), nil
}

func (b *traceBackend) GetCanonicalTransaction(h common.Hash) (bool, *types.Transaction, common.Hash, uint64, uint64) {
	tx, hash, height, index, ok := b.back.Chain.Transaction(h)
	return ok, tx, hash, height, index
}
func (b *traceBackend) TxIndexDone() bool                { return true }
func (b *traceBackend) RPCGasCap() uint64                { return b.cfg.GasCap }
func (b *traceBackend) ChainConfig() *params.ChainConfig { return b.back.Chain.Config() }
func (b *traceBackend) Engine() consensus.Engine         { return coinbaseEngine{} }
func (b *traceBackend) ChainDb() ethdb.Database          { return b.none }

func (b *traceBackend) StateAtBlock(ctx context.Context, blk *types.Block, base *state.StateDB, _, _ bool) (*state.StateDB, tracers.StateReleaseFunc, error) {
	if base != nil {
		return base, func() {}, nil
	}
	s, err := b.back.Chain.StateAt(blk.Header())
	if err == nil && ctx.Value(childTraced{}) != nil {
		err = b.back.Chain.PrepareState(s, blk.Header(), blk.NumberU64()+1)
	}
	return s, func() {}, err
}

// childTraced marks the context of a trace of a whole block: the state that the tracers ask for is that of its parent,
// and what was voted comes into force before the block begins.
type childTraced struct{}

func traced(ctx context.Context) context.Context { return context.WithValue(ctx, childTraced{}, true) }

// StateAtTransaction executes a block up to a transaction.
func (b *traceBackend) StateAtTransaction(ctx context.Context, blk *types.Block, index int) (*types.Transaction, vm.BlockContext, *state.StateDB, tracers.StateReleaseFunc, error) {
	fail := func(err error) (*types.Transaction, vm.BlockContext, *state.StateDB, tracers.StateReleaseFunc, error) {
		return nil, vm.BlockContext{}, nil, nil, err
	}
	parent := b.back.Chain.HeaderByHash(blk.ParentHash())
	if parent == nil || index < 0 || index >= len(blk.Transactions()) {
		return fail(fmt.Errorf("block %d has no transaction %d, or no parent here", blk.NumberU64(), index))
	}
	s, err := b.back.Chain.StateAt(parent)
	if err != nil {
		return fail(err)
	}
	if err := b.back.Chain.PrepareState(s, parent, blk.NumberU64()); err != nil {
		return fail(err)
	}
	h, cfg := blk.Header(), b.back.Chain.Config()
	bc := core.NewEVMBlockContext(h, evmContext{b.back.Chain.Context()}, &h.Coinbase)
	evm := vm.NewEVM(bc, s, cfg, vm.Config{})
	defer evm.Release()
	core.PreExecution(ctx, h.ParentBeaconRoot, parent, cfg, evm, h.Number, h.Time)
	signer := types.MakeSigner(cfg, h.Number, h.Time)
	for i, tx := range blk.Transactions()[:index] {
		msg, err := core.TransactionToMessage(tx, signer, h.BaseFee)
		if err != nil {
			return fail(err)
		}
		s.SetTxContext(tx.Hash(), i, uint32(i+1)) //nolint:gosec // an index
		if _, err := core.ApplyMessage(evm, msg, core.NewGasPool(h.GasLimit)); err != nil {
			return fail(fmt.Errorf("transaction %d of block %d: %w", i, blk.NumberU64(), err))
		}
		s.Finalise(evm.GetRules())
	}
	return blk.Transactions()[index], bc, s, func() {}, nil
}
