package rpc

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/contracts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/trie"
)

// simulatedJSON is a simulated block: a block as others, and what its calls gave.
type simulatedJSON struct {
	*blockJSON
	Calls []*simulatedCallJSON `json:"calls"`
}

type simulatedCallJSON struct {
	ReturnData hexutil.Bytes   `json:"returnData"`
	Logs       []*types.Log    `json:"logs"`
	GasUsed    hexutil.Uint64  `json:"gasUsed"`
	MaxUsedGas hexutil.Uint64  `json:"maxUsedGas"` // before refunds
	Status     hexutil.Uint64  `json:"status"`
	Error      *callFailedJSON `json:"error,omitempty"`
}

// callFailedJSON is why a call failed; the simulation goes on.
type callFailedJSON struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// simulatedRun is one block under execution.
type simulatedRun struct {
	*simulation
	sees     callBlock
	header   *types.Header
	evm      *vm.EVM
	tracer   *transferTracer
	pool     *core.GasPool
	txs      types.Transactions
	senders  []common.Address
	receipts types.Receipts
	calls    []*simulatedCallJSON
}

// block executes a planned block and completes its header.
func (sim *simulation) block(ctx context.Context, p *plannedBlock, parent *types.Header) (*simulatedJSON, error) {
	h, cfg := p.header, sim.back.Chain.Config()
	h.ParentHash = parent.Hash()
	if h.BaseFee == nil {
		h.BaseFee = new(big.Int) // calls without fees must not fail for them
		if sim.opts.Validation {
			p, err := sim.back.Chain.ParamsFor(sim.base, h.Number.Uint64())
			if err != nil {
				return nil, err
			}
			h.BaseFee = chain.BaseFee(&p, cfg, parent)
		}
	}
	seen := sim.back.Chain.Context()
	bc := core.NewEVMBlockContext(h, evmContext{simulatedChain{seen, sim.known}}, &h.Coinbase)
	if o := p.BlockOverrides; o != nil && o.BlobBaseFee != nil {
		bc.BlobBaseFee = o.BlobBaseFee.ToInt()
	}
	precompiles := vm.ActivePrecompiledContracts(cfg.Rules(h.Number, true, h.Time))
	if err := sim.back.Chain.PrepareState(sim.db, sim.base, h.Number.Uint64()); err != nil {
		return nil, err
	}
	if p.StateOverrides != nil {
		if err := p.StateOverrides.apply(sim.db, precompiles); err != nil {
			return nil, err
		}
	}
	tracer := &transferTracer{header: h, transfers: sim.opts.TraceTransfers}
	hooks := tracer.hooks()
	evm := vm.NewEVM(bc, state.NewHookedState(sim.db, hooks), cfg, vm.Config{NoBaseFee: !sim.opts.Validation, Tracer: hooks})
	defer evm.Release()
	evm.SetPrecompiles(precompiles)
	stop := context.AfterFunc(ctx, evm.Cancel)
	defer stop()
	r := &simulatedRun{simulation: sim, sees: callBlock{bc, seen}, header: h, evm: evm, tracer: tracer, pool: core.NewGasPool(h.GasLimit), calls: []*simulatedCallJSON{}}
	core.PreExecution(ctx, h.ParentBeaconRoot, parent, cfg, evm, h.Number, h.Time)
	for i := range p.Calls {
		if err := r.call(&p.Calls[i]); err != nil {
			return nil, err
		}
	}
	return r.finish(ctx)
}

// call executes one call as the block's next transaction. An error ends the simulation.
func (r *simulatedRun) call(args *callArgs) error {
	capped, err := r.prepareCall(args)
	if err != nil {
		return err
	}
	tx := args.transaction(r.back.Chain.Config().ChainID)
	index, from := len(r.txs), args.from()
	r.tracer.begin(tx.Hash(), uint(index)) //nolint:gosec // an index
	// Unsigned transactions of two senders may have one hash: their logs are told apart by their place.
	place := common.BigToHash(big.NewInt(int64(index) + 1))
	r.db.SetTxContext(place, index, 0)
	msg := args.bareMessage(r.header.BaseFee, uint64(*args.Gas)).SkipEOACheck().SkipGasLimitCapCheck()
	if !r.opts.Validation {
		msg.SkipNonceCheck()
	}
	res, err := core.ApplyMessage(r.evm, msg, r.pool)
	if readErr := r.sees.readError(r.db); readErr != nil {
		return readErr
	}
	if r.evm.Cancelled() {
		return abortedCall(r.cfg.CallTimeout)
	}
	if err != nil {
		return invalidSimulated(fmt.Errorf("err: %w (supplied gas %d)", err, msg.GasLimit))
	}
	r.db.Finalise(r.evm.GetRules())
	receipt := core.MakeReceipt(r.evm, res, r.db, r.header.Number, common.Hash{}, r.header.Time, tx, r.pool.CumulativeUsed(), nil)
	receipt.Logs = r.db.GetLogs(place, r.header.Number.Uint64(), common.Hash{}, r.header.Time)
	receipt.Bloom = types.CreateBloom(receipt)
	r.txs, r.senders, r.receipts = append(r.txs, tx), append(r.senders, from), append(r.receipts, receipt)
	r.gas -= min(r.gas, res.UsedGas)
	out := simulatedCall(res, r.tracer.taken, capped)
	r.calls = append(r.calls, out)
	if r.room -= len(out.ReturnData) + r.tracer.bytes; r.room < 0 {
		return simulateLimit("the calls return and log more than %d bytes; simulate fewer at once", maxSimulateBytes)
	}
	return nil
}

// prepareCall fills in what the call leaves open and bounds its gas; capped says that this node's limit did.
func (r *simulatedRun) prepareCall(args *callArgs) (capped bool, err error) {
	if err := args.check(r.back.Chain.Config().ChainID); err != nil {
		return false, err
	}
	from := args.from()
	nonce := r.db.GetNonce(from)
	if args.Nonce == nil {
		args.Nonce = (*hexutil.Uint64)(&nonce)
	}
	if !r.opts.Validation && nonce == math.MaxUint64 { // EIP-2681; with validation the EVM's own check finds it
		return false, invalidSimulated(fmt.Errorf("%w: address %s", core.ErrNonceMax, from))
	}
	if r.opts.Validation && (!contracts.MaySend(r.db, from) || args.To == nil && !contracts.MayDeploy(r.db, from)) {
		return false, &Error{Code: codeServer, Message: fmt.Sprintf("account %s is not on the list of accounts that may do this; ask the producers to add it", from)}
	}
	left := r.pool.Available(false)
	if args.Gas == nil {
		args.Gas = (*hexutil.Uint64)(&left)
	}
	if uint64(*args.Gas) > left {
		return false, &Error{Code: codeBlockGasLimit, Message: fmt.Sprintf("block gas limit reached: remaining: %d, required: %d", left, uint64(*args.Gas))}
	}
	if uint64(*args.Gas) > r.gas {
		capped, args.Gas = true, (*hexutil.Uint64)(new(r.gas))
	}
	return capped, nil
}

func simulatedCall(res *core.ExecutionResult, logs []*types.Log, capped bool) *simulatedCallJSON {
	out := &simulatedCallJSON{
		ReturnData: res.Return(), Logs: logs, GasUsed: hexutil.Uint64(res.UsedGas), MaxUsedGas: hexutil.Uint64(res.MaxUsedGas),
		Status: hexutil.Uint64(types.ReceiptStatusSuccessful),
	}
	if logs == nil {
		out.Logs = []*types.Log{}
	}
	if !res.Failed() {
		return out
	}
	out.Status = hexutil.Uint64(types.ReceiptStatusFailed)
	if errors.Is(res.Err, vm.ErrExecutionReverted) {
		e := reverted(res.Revert())
		out.Error = &callFailedJSON{e.Code, e.Message, e.Data}
		return out
	}
	out.Error = &callFailedJSON{Code: codeVM, Message: res.Err.Error()}
	if capped {
		out.Error.Message += " (the gas was limited by rpc.gas_cap, which holds for all calls of a simulation together)"
	}
	return out
}

// finish makes the calls of a block's end, completes the header and shows the block.
func (r *simulatedRun) finish(ctx context.Context) (*simulatedJSON, error) {
	h, cfg := r.header, r.back.Chain.Config()
	h.GasUsed = r.pool.Used()
	var logs []*types.Log
	for _, x := range r.receipts {
		logs = append(logs, x.Logs...)
	}
	r.tracer.begin(common.Hash{}, 0)
	requests, _, err := core.PostExecution(ctx, cfg, h.Number, h.Time, logs, nil, r.evm, 0)
	if err != nil {
		return nil, err
	}
	hash := types.CalcRequestsHash(requests)
	h.RequestsHash = &hash
	h.Root = r.db.IntermediateRoot(r.evm.GetRules())
	if err := r.sees.readError(r.db); err != nil {
		return nil, err
	}
	if ctx.Err() != nil { // the calls of the block's begin or end may have been cut
		return nil, abortedCall(r.cfg.CallTimeout)
	}
	h.Bloom = types.MergeBloom(r.receipts)
	h.TxHash, h.ReceiptHash = types.DeriveSha(r.txs, trie.NewStackTrie(nil)), types.DeriveSha(r.receipts, trie.NewStackTrie(nil))
	b := &block.Block{SealedHeader: &block.SealedHeader{Header: h, Record: new(block.Record)}, Transactions: r.txs, Senders: r.senders}
	blockHash := b.Hash()
	for _, c := range r.calls {
		for _, l := range c.Logs {
			l.BlockHash = blockHash
		}
	}
	return &simulatedJSON{blockOf(b, r.opts.ReturnFullTransactions), r.calls}, nil
}

// simulatedChain shows simulated headers to the opcode BLOCKHASH beside those of the chain.
type simulatedChain struct {
	core.ChainContext
	known map[common.Hash]*types.Header
}

func (c simulatedChain) GetHeader(hash common.Hash, n uint64) *types.Header {
	if h := c.known[hash]; h != nil {
		return h
	}
	return c.ChainContext.GetHeader(hash, n)
}
