package rpc

import (
	"context"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth/gasestimator"
	"github.com/ethereum/go-ethereum/eth/tracers/logger"
	"github.com/ethereum/go-ethereum/params"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// estimateErrorRatio is how far an estimate may lie above the exact value: fewer executions for a little slack.
const estimateErrorRatio = 0.015

// Call executes a message on the state after a block and throws the result away.
func (a *ethAPI) Call(ctx context.Context, args callArgs, ref *gethrpc.BlockNumberOrHash, accounts *stateOverride, blocks *blockOverride) (hexutil.Bytes, error) {
	release, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	s, h, err := a.prepare(&args, ref, blocks)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	res, err := a.execute(ctx, &args, s, h, accounts, blocks, nil)
	if err != nil {
		return nil, err
	}
	if len(res.Revert()) > 0 || errors.Is(res.Err, vm.ErrExecutionReverted) {
		return nil, reverted(res.Revert())
	}
	return res.Return(), res.Err
}

// prepare checks the arguments and finds the state and the header they run on.
func (s *service) prepare(args *callArgs, ref *gethrpc.BlockNumberOrHash, blocks *blockOverride) (*state.StateDB, *types.Header, error) {
	if err := args.check(s.back.Chain.Config().ChainID); err != nil {
		return nil, nil, err
	}
	if err := blocks.check(); err != nil {
		return nil, nil, err
	}
	return s.back.callState(ref)
}

// setUp makes the message of a call on a state, with at most the gas that one may have, the block that it sees and the
// precompiles. The overrides of accounts are written to db.
func (s *service) setUp(args *callArgs, db *state.StateDB, h *types.Header, accounts *stateOverride, blocks *blockOverride) (*core.Message, callBlock, vm.PrecompiledContracts, error) {
	bc := s.blockContext(h, blocks)
	precompiles := vm.ActivePrecompiledContracts(s.back.Chain.Config().Rules(bc.BlockNumber, true, bc.Time))
	if accounts != nil {
		if err := accounts.apply(db, precompiles); err != nil {
			return nil, bc, nil, err
		}
	}
	gas := s.cfg.GasCap
	if args.Gas != nil {
		gas = min(gas, uint64(*args.Gas))
	}
	msg := args.message(bc.BaseFee, gas)
	if msg.GasPrice.IsZero() {
		bc.BaseFee = new(big.Int) // a call without fees must not fail for them
	}
	return msg, bc, precompiles, nil
}

// execute runs the message. It changes db.
func (s *service) execute(ctx context.Context, args *callArgs, db *state.StateDB, h *types.Header, accounts *stateOverride, blocks *blockOverride, tracer *logger.AccessListTracer) (*core.ExecutionResult, error) {
	msg, bc, precompiles, err := s.setUp(args, db, h, accounts, blocks)
	if err != nil {
		return nil, err
	}
	vcfg := vm.Config{NoBaseFee: true}
	if tracer != nil {
		vcfg.Tracer = tracer.Hooks()
	}
	evm := vm.NewEVM(bc.BlockContext, db, s.back.Chain.Config(), vcfg)
	defer evm.Release()
	evm.SetPrecompiles(precompiles)
	stop := context.AfterFunc(ctx, evm.Cancel)
	defer stop()
	res, err := core.ApplyMessage(evm, msg, core.NewGasPool(msg.GasLimit))
	if readErr := bc.readError(db); readErr != nil {
		return nil, readErr
	}
	if evm.Cancelled() {
		return nil, abortedCall(s.cfg.CallTimeout)
	}
	if err != nil {
		return nil, fmt.Errorf("err: %w (supplied gas %d)", err, msg.GasLimit)
	}
	return res, nil
}

// EstimateGas is the least gas, within 1.5 %, with which the message succeeds as a transaction of the block after the
// one that is named: a contract that looks at the number or the time does other work there than in the named block.
// Where that block may bear two seconds the estimate suffices in both.
func (a *ethAPI) EstimateGas(ctx context.Context, args callArgs, ref *gethrpc.BlockNumberOrHash, accounts *stateOverride, blocks *blockOverride) (hexutil.Uint64, error) {
	release, err := a.enterCall(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	if err := args.check(a.back.Chain.Config().ChainID); err != nil {
		return 0, err
	}
	if err := blocks.check(); err != nil {
		return 0, err
	}
	db, parent, err := a.back.state(ref)
	if err != nil {
		return 0, err
	}
	headers, err := a.back.next(db, parent)
	if err != nil {
		return 0, err
	}
	if err := accounts.applyForEstimate(db); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	if args.Nonce == nil {
		n := hexutil.Uint64(db.GetNonce(args.from()))
		args.Nonce = &n
	}
	if blocks != nil && blocks.Time != nil {
		headers = headers[:1]
	}
	est := &estimate{service: a.service, args: &args, db: db, blocks: blocks}
	return est.inAll(ctx, headers)
}

// applyForEstimate writes the overrides to db.
func (o *stateOverride) applyForEstimate(db *state.StateDB) error {
	if o == nil {
		return nil
	}
	for addr, acc := range *o {
		if acc.MovePrecompileTo != nil {
			return invalidParams("override of %s: eth_estimateGas cannot move precompiles; eth_call can", addr)
		}
	}
	return o.apply(db, nil)
}

// estimate is one eth_estimateGas: the message and the state that it runs on, which is not changed.
type estimate struct {
	*service
	args   *callArgs
	db     *state.StateDB
	blocks *blockOverride
}

// inAll is gas that suffices under each of the headers, those left out under which the message reverts whatever gas it
// has; the later second's error if it reverts under all. After the first estimate one execution tells whether that
// suffices under another header too.
func (e *estimate) inAll(ctx context.Context, headers []*types.Header) (hexutil.Uint64, error) {
	var gas uint64
	var failure error
	for i := len(headers) - 1; i >= 0; i-- {
		if gas > 0 {
			if ok, err := e.suffices(ctx, headers[i], gas); err != nil || ok {
				if err != nil {
					return 0, err
				}
				continue
			}
		}
		g, err := e.in(ctx, headers[i])
		switch {
		case ctx.Err() != nil:
			return 0, abortedCall(e.cfg.CallTimeout)
		case err == nil:
			gas = max(gas, g)
		case !isRevert(err):
			return 0, err
		case failure == nil:
			failure = err
		}
	}
	if gas == 0 {
		return 0, failure
	}
	return hexutil.Uint64(gas), nil
}

// suffices reports whether the message succeeds with this gas under a header.
func (e *estimate) suffices(ctx context.Context, h *types.Header, gas uint64) (bool, error) {
	args := *e.args
	args.Gas = (*hexutil.Uint64)(&gas)
	res, err := e.execute(ctx, &args, e.db.Copy(), h, nil, e.blocks, nil)
	var unread *Error
	switch {
	case ctx.Err() != nil:
		return false, abortedCall(e.cfg.CallTimeout)
	case errors.As(err, &unread):
		return false, err
	}
	return err == nil && !res.Failed(), nil // why it fails is the estimator's to say
}

func isRevert(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == codeReverted
}

// in is the least gas with which the message succeeds under a header.
func (e *estimate) in(ctx context.Context, h *types.Header) (uint64, error) {
	h = e.blocks.header(h)
	var limit uint64
	if e.args.Gas != nil {
		limit = uint64(*e.args.Gas)
	}
	seen := e.back.Chain.Context()
	opts := &gasestimator.Options{
		Config: e.back.Chain.Config(), Chain: evmContext{seen}, Header: h, State: e.db, ErrorRatio: estimateErrorRatio,
	}
	if e.blocks != nil {
		opts.BlobBaseFee = (*big.Int)(e.blocks.BlobBaseFee)
	}
	gas, revert, err := gasestimator.Estimate(ctx, e.args.message(h.BaseFee, limit), opts, e.cfg.GasCap)
	if readErr := seen.Err(); readErr != nil {
		return 0, unreadable("a header that the call asks for", readErr)
	}
	if errors.Is(err, vm.ErrExecutionReverted) {
		return 0, reverted(revert)
	}
	return gas, err
}

type accessListJSON struct {
	AccessList *types.AccessList `json:"accessList"`
	Error      string            `json:"error,omitempty"`
	GasUsed    hexutil.Uint64    `json:"gasUsed"`
}

// CreateAccessList repeats the call with the list of what it touched until the list no longer grows.
func (a *ethAPI) CreateAccessList(ctx context.Context, args callArgs, ref *gethrpc.BlockNumberOrHash, accounts *stateOverride) (*accessListJSON, error) {
	release, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	db, h, err := a.prepare(&args, ref, nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.CallTimeout)
	defer cancel()
	if args.Nonce == nil {
		args.Nonce = (*hexutil.Uint64)(new(db.GetNonce(args.from())))
		if accounts != nil && (*accounts)[args.from()].Nonce != nil {
			args.Nonce = (*accounts)[args.from()].Nonce
		}
	}
	skip := a.notListed(&args, h)
	var list types.AccessList
	if args.AccessList != nil {
		list = *args.AccessList
	}
	prev := logger.NewAccessListTracer(list, skip)
	for {
		list = prev.AccessList()
		args.AccessList = &list
		tracer := logger.NewAccessListTracer(list, skip)
		res, err := a.execute(ctx, &args, db.Copy(), h, accounts, nil, tracer)
		if err != nil {
			return nil, err
		}
		if tracer.Equal(prev) {
			out := &accessListJSON{AccessList: &list, GasUsed: hexutil.Uint64(res.UsedGas)}
			if res.Err != nil {
				out.Error = res.Err.Error()
			}
			return out, nil
		}
		prev = tracer
	}
}

// notListed are the addresses that are warm anyway: sender, receiver, precompiles, authorities.
func (s *service) notListed(args *callArgs, h *types.Header) map[common.Address]struct{} {
	to := crypto.CreateAddress(args.from(), uint64(*args.Nonce))
	if args.To != nil {
		to = *args.To
	}
	skip := map[common.Address]struct{}{args.from(): {}, to: {}}
	var rules params.Rules = s.back.Chain.Config().Rules(h.Number, true, h.Time)
	for _, p := range vm.ActivePrecompiles(rules) {
		skip[p] = struct{}{}
	}
	for _, auth := range args.AuthorizationList {
		if addr, err := auth.Authority(); err == nil {
			skip[addr] = struct{}{}
		}
	}
	return skip
}
