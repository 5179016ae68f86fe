package rpc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/eth/tracers"
	"github.com/ethereum/go-ethereum/eth/tracers/logger"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// traceConfig says how to trace: with a named tracer, or opcode by opcode.
type traceConfig struct {
	*logger.Config                 // of the opcode logger
	Tracer         *string         `json:"tracer"`
	Timeout        *string         `json:"timeout"` // per transaction, as 10s
	TracerConfig   json.RawMessage `json:"tracerConfig"`
}

type traceCallConfig struct {
	traceConfig
	StateOverrides *stateOverride `json:"stateOverrides"`
	BlockOverrides *blockOverride `json:"blockOverrides"`
	TxIndex        *hexutil.Uint  `json:"txIndex"`
}

// trace is one request of the namespace debug. It belongs to its request's goroutine.
type trace struct {
	*service
	ctx     context.Context //nolint:containedctx // of one request
	cfg     *traceConfig
	timeout time.Duration // of one transaction
	budget  *traceBudget
	end     func()
}

// newTrace waits for one of the places for traces; end gives it back.
func (s *service) newTrace(ctx context.Context, cfg *traceConfig) (*trace, error) {
	if cfg == nil {
		cfg = new(traceConfig)
	}
	if cfg.Config != nil && cfg.Config.Overrides != nil {
		return nil, invalidParams("overrides of the chain's rules are not offered; stateOverrides and blockOverrides are, for debug_traceCall")
	}
	t := &trace{service: s, cfg: cfg, timeout: s.cfg.CallTimeout, budget: &traceBudget{left: maxTraceBytes}}
	if cfg.Timeout != nil {
		d, err := time.ParseDuration(*cfg.Timeout)
		if err != nil || d <= 0 {
			return nil, invalidParams("timeout %.40q is no time; write it as 10s", *cfg.Timeout)
		}
		t.timeout = min(d, maxTraceTime)
	}
	var err error
	if t.budget.copies, err = copiesKept(cfg); err != nil {
		return nil, err
	}
	wait, stop := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer stop()
	release, err := s.enter(wait, s.traces)
	if err != nil {
		return nil, limitExceeded("the node makes %d traces of this address already, or %d of all; try again", s.traces.perHost, s.traces.places)
	}
	var cancel context.CancelFunc
	t.ctx, cancel = context.WithTimeout(ctx, maxTraceTime)
	t.budget.held = s.hold(s.host(ctx))
	t.end = func() { cancel(); t.budget.held.give(); release() }
	return t, nil
}

// block is the state below a block's first transaction, and what its transactions see of the block.
func (t *trace) block(b *types.Block) (*state.StateDB, callBlock, error) {
	parent, err := t.back.header(byHash(b.ParentHash()))
	if err != nil {
		return nil, callBlock{}, err
	}
	if parent == nil {
		return nil, callBlock{}, fmt.Errorf("parent of block %d not found: this node has no block %s", b.NumberU64(), b.ParentHash())
	}
	db, err := t.back.Chain.StateAt(parent)
	if err != nil {
		return nil, callBlock{}, fmt.Errorf("state below block %d is not available: %w", b.NumberU64(), err)
	}
	if err := t.back.Chain.PrepareState(db, parent, b.NumberU64()); err != nil {
		return nil, callBlock{}, err
	}
	h := b.Header()
	bc, cfg := t.blockContext(h, nil), t.back.Chain.Config()
	evm := vm.NewEVM(bc.BlockContext, db, cfg, vm.Config{})
	defer evm.Release()
	core.PreExecution(t.ctx, h.ParentBeaconRoot, parent, cfg, evm, h.Number, h.Time)
	return db, bc, nil
}

// upTo is the state before the transaction at an index of a block.
func (t *trace) upTo(b *types.Block, index int) (*state.StateDB, callBlock, error) {
	db, bc, err := t.block(b)
	if err != nil {
		return nil, bc, err
	}
	evm := vm.NewEVM(bc.BlockContext, db, t.back.Chain.Config(), vm.Config{})
	defer evm.Release()
	stop := context.AfterFunc(t.ctx, evm.Cancel)
	defer stop()
	gas := core.NewGasPool(b.GasLimit())
	for i, tx := range b.Transactions()[:index] {
		msg, err := core.TransactionToMessage(tx, t.signer, b.BaseFee())
		if err != nil {
			return nil, bc, err
		}
		db.SetTxContext(tx.Hash(), i, 0)
		if _, err := core.ApplyMessage(evm, msg, gas); err != nil {
			return nil, bc, fmt.Errorf("transaction %d of block %d: %w", i, b.NumberU64(), err)
		}
		if t.ctx.Err() != nil {
			return nil, bc, errTraceTime
		}
		db.Finalise(evm.GetRules())
	}
	return db, bc, bc.readError(db)
}

// one traces the transaction at an index of a block.
func (t *trace) one(b *types.Block, index int) (json.RawMessage, error) {
	db, bc, err := t.upTo(b, index)
	if err != nil {
		return nil, err
	}
	return t.transaction(b, index, db, bc)
}

// all traces the transactions of a block.
func (t *trace) all(b *types.Block) ([]tracedJSON, error) {
	db, bc, err := t.block(b)
	if err != nil {
		return nil, err
	}
	out := make([]tracedJSON, len(b.Transactions()))
	for i, tx := range b.Transactions() {
		res, err := t.transaction(b, i, db, bc)
		if err != nil {
			return nil, err
		}
		out[i] = tracedJSON{tx.Hash(), res}
	}
	return out, nil
}

func (t *trace) transaction(b *types.Block, index int, db *state.StateDB, bc callBlock) (json.RawMessage, error) {
	tx := b.Transactions()[index]
	msg, err := core.TransactionToMessage(tx, t.signer, b.BaseFee())
	if err != nil {
		return nil, err
	}
	where := &tracers.Context{BlockHash: b.Hash(), BlockNumber: b.Number(), TxIndex: index, TxHash: tx.Hash()}
	return t.run(tx, msg, where, bc, db, nil)
}

// call traces a call.
func (t *trace) call(args *callArgs, ref gethrpc.BlockNumberOrHash, cfg *traceCallConfig) (json.RawMessage, error) {
	var db *state.StateDB
	var h *types.Header
	var err error
	if cfg.TxIndex == nil {
		db, h, err = t.back.callState(&ref)
	} else if h, err = t.back.mustHeader(ref); err == nil {
		var x *block.Block
		if x, err = t.back.body(h, h.Hash()); err != nil {
			return nil, err
		}
		if uint64(*cfg.TxIndex) >= uint64(len(x.Transactions)) {
			return nil, invalidParams("block %s has no transaction %d", h.Number, *cfg.TxIndex)
		}
		db, _, err = t.upTo(x.Ethereum(), int(*cfg.TxIndex)) //nolint:gosec // bounded above
	}
	if err != nil {
		return nil, err
	}
	msg, bc, precompiles, err := t.setUp(args, db, h, cfg.StateOverrides, cfg.BlockOverrides)
	if err != nil {
		return nil, err
	}
	args.Gas = (*hexutil.Uint64)(new(msg.GasLimit)) // as the traced transaction shows them
	if args.Nonce == nil {
		msg.Nonce = db.GetNonce(args.from())
		args.Nonce = (*hexutil.Uint64)(new(msg.Nonce))
	}
	return t.run(args.transaction(t.back.Chain.Config().ChainID), msg, new(tracers.Context), bc, db, precompiles)
}

var errTraceTime = &Error{Code: codeServer, Message: "execution timeout; trace less, or allow more with the trace's timeout (at most " + maxTraceTime.String() + ")"}

// run executes one transaction under the tracer. It changes db.
func (t *trace) run(tx *types.Transaction, msg *core.Message, where *tracers.Context, bc callBlock, db *state.StateDB, precompiles vm.PrecompiledContracts) (json.RawMessage, error) {
	tracer, err := t.tracer(where)
	if err != nil {
		return nil, err
	}
	evm := vm.NewEVM(bc.BlockContext, state.NewHookedState(db, tracer.Hooks), t.back.Chain.Config(), vm.Config{Tracer: tracer.Hooks, NoBaseFee: true})
	defer evm.Release()
	if precompiles != nil {
		evm.SetPrecompiles(precompiles)
	}
	left := t.budget.left
	t.budget.stop = func() { tracer.Stop(t.budget.err); evm.Cancel() }
	ctx, cancel := context.WithTimeout(t.ctx, t.timeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { tracer.Stop(errTraceTime); evm.Cancel() })
	defer stop()
	db.SetTxContext(where.TxHash, where.TxIndex, 0)
	_, _, err = core.ApplyTransactionWithEVM(ctx, msg, core.NewGasPool(msg.GasLimit), db, bc.BlockNumber, where.BlockHash, bc.Time, tx, evm)
	if readErr := bc.readError(db); readErr != nil {
		return nil, readErr
	}
	switch {
	case t.budget.err != nil:
		return nil, t.budget.err
	case ctx.Err() != nil:
		return nil, errTraceTime
	case err != nil:
		return nil, fmt.Errorf("tracing failed: %w", err)
	}
	res, err := tracer.GetResult()
	if err != nil {
		return nil, err
	}
	return res, t.budget.done(left, len(res))
}

// tracer makes the tracer that the request names, within the request's budget.
func (t *trace) tracer(where *tracers.Context) (*tracers.Tracer, error) {
	if t.cfg.Tracer != nil && *t.cfg.Tracer != "" {
		x, err := tracers.DefaultDirectory.New(*t.cfg.Tracer, where, t.cfg.TracerConfig, t.back.Chain.Config())
		if err != nil {
			var known *Error
			if errors.As(err, &known) {
				return nil, known
			}
			return nil, invalidParams("tracerConfig: %s", err)
		}
		return t.budget.wrap(x, framesKept(t.cfg), keepsHashed[*t.cfg.Tracer], *t.cfg.Tracer == "4byteTracer"), nil
	}
	// The opcode logger counts what it holds itself.
	var c logger.Config
	if t.cfg.Config != nil {
		c = *t.cfg.Config
	}
	if c.Limit <= 0 || int64(c.Limit) > t.budget.left {
		c.Limit = int(max(1, t.budget.left))
	}
	l := logger.NewStructLogger(&c)
	return &tracers.Tracer{Hooks: l.Hooks(), GetResult: l.GetResult, Stop: l.Stop}, nil
}
