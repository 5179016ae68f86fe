package chain

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/trie"
)

// outcome is what executing a block gave; its state is not committed yet.
type outcome struct {
	block    *block.Block
	db       *state.StateDB
	rules    params.Rules
	receipts types.Receipts
	logs     []*types.Log
	track    *track
}

// run is one block's execution: the EVM on the parent's state, and what it gathers.
type run struct {
	c        *Chain
	rules    *blockRules
	header   *types.Header
	db       *state.StateDB
	context  EVMChain
	evm      *vm.EVM
	gas      *core.GasPool
	receipts types.Receipts
	logs     []*types.Log
}

// readerOf is the committed state that a StateDB was opened on.
func readerOf(db *state.StateDB) func() (state.Reader, error) {
	return func() (state.Reader, error) { return db.Reader(), nil }
}

// newRun begins a block on its parent's state: what comes into force with it, the recovery that its record names among that, then
// the calls of every block's start.
func (c *Chain) newRun(h *types.Header, recovery common.Hash, db *state.StateDB, rules *blockRules) *run {
	context := c.Context()
	evm := vm.NewEVM(c.blockContext(h, context), db, c.config, vm.Config{})
	evm.SetJumpDestCache(c.jumpDests)
	evm.SetPrecompileCache(c.precompiles)
	r := &run{c: c, rules: rules, header: h, db: db, context: context, evm: evm, gas: core.NewGasPool(h.GasLimit)}
	rules.enforce(db)
	c.recoverElection(db, recovery, h.Time)
	db.Finalise(evm.GetRules())
	blockStart(evm, h)
	return r
}

func (c *Chain) blockContext(h *types.Header, context EVMChain) vm.BlockContext {
	return core.NewEVMBlockContext(h, context, &h.Coinbase)
}

// readError is why this node could not read what the execution asked for: go-ethereum remembers it and goes on with
// zero values, for an account as for BLOCKHASH of a block whose header is damaged. The result is then worth nothing.
func (r *run) readError() error {
	if err := r.db.Error(); err != nil {
		return fmt.Errorf("read state: %w", stateReadFault(&r.c.cfg, err))
	}
	if err := r.context.Err(); err != nil {
		return fmt.Errorf("read headers: %w", err)
	}
	return nil
}

// apply executes one transaction. After an error the state is as before.
func (r *run) apply(tx *types.Transaction) error {
	if tx.Type() == types.BlobTxType {
		return errBlobTx
	}
	msg, err := core.TransactionToMessage(tx, r.c.signer, r.header.BaseFee)
	if err != nil {
		return err
	}
	if err := checkAllowed(r.db, msg.From, tx.To() == nil); err != nil {
		return err
	}
	r.db.SetTxContext(tx.Hash(), len(r.receipts), 0)
	res, err := core.ApplyMessage(r.evm, msg, r.gas)
	if err != nil {
		return err
	}
	r.db.Finalise(r.evm.GetRules())
	receipt := core.MakeReceipt(r.evm, res, r.db, r.header.Number, common.Hash{}, r.header.Time, tx, r.gas.CumulativeUsed(), nil)
	if receipt.Logs == nil {
		receipt.Logs = []*types.Log{} // as decoded receipts have it
	}
	receipt.EffectiveGasPrice = msg.GasPrice.ToBig()
	r.receipts = append(r.receipts, receipt)
	r.logs = append(r.logs, receipt.Logs...)
	return nil
}

// finish makes the calls of a block's end. next is the schedule that the record must carry: nil unless the block ends
// an epoch and no change of schedule is under way. t is the track after this block.
func (r *run) finish(t *track) (requests common.Hash, next block.Schedule, err error) {
	reqs, err := r.c.blockRequests(r.evm, r.logs)
	if err != nil {
		return common.Hash{}, nil, fmt.Errorf("requests: %w", err)
	}
	if t.Calls {
		next = r.c.endEpoch(r.evm, r.header.Number.Uint64(), t)
	}
	return types.CalcRequestsHash(reqs), next, nil
}

// openAhead opens the state below a block and, for a block with many transactions, reads their accounts on another
// core ahead of execution, through a cache that both share.
func (c *Chain) openAhead(b *block.Block, root common.Hash) (db *state.StateDB, stop func(), err error) {
	if len(b.Transactions) < readAheadTxs {
		db, err = state.New(root, c.states.layers.Load().db)
		stop = func() {}
	} else {
		var ahead, exec state.Reader
		below := c.states.layers.Load().db
		if ahead, exec, err = below.ReadersWithCacheStats(root); err == nil {
			db, err = state.NewWithReader(root, below, exec)
			var halt atomic.Bool
			var wg sync.WaitGroup
			wg.Go(func() { readAhead(ahead, b, &halt) })
			stop = func() { halt.Store(true); wg.Wait() }
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("state of the parent of block %d: %w: %w", b.Number(), ErrStateUnavailable, err)
	}
	return db, stop, nil
}

// readAhead reads senders and recipients. Errors show again when execution reads.
func readAhead(r state.Reader, b *block.Block, halt *atomic.Bool) {
	for i, tx := range b.Transactions {
		if halt.Load() {
			return
		}
		_, _ = r.Account(b.Senders[i])
		if to := tx.To(); to != nil {
			_, _ = r.Account(*to)
		}
	}
}

// place fills in the block's hash, once known, in receipts and logs.
func place(receipts types.Receipts, logs []*types.Log, hash common.Hash) {
	for _, r := range receipts {
		r.BlockHash = hash
	}
	for _, l := range logs {
		l.BlockHash = hash
	}
}

// execute runs a block on its parent's state and checks all that its header says. It does not commit. An error that
// wraps ErrInvalidBlock condemns the block; any other is this node's trouble.
func (c *Chain) execute(b *block.Block, parent *block.SealedHeader, pt *track) (*outcome, error) {
	start := time.Now()
	c.setSenders(b)
	db, stop, err := c.openAhead(b, parent.Header.Root)
	if err != nil {
		return nil, err
	}
	defer stop()
	rules, err := c.rulesOn(c.rules, parent.Header.Root, parent.Number()+1, readerOf(db))
	if err != nil {
		return nil, err
	}
	if err := c.checkHeader(b, &rules.params, parent); err != nil {
		return nil, err
	}
	r := c.newRun(b.Header, b.Record.Recovery, db, rules)
	defer r.evm.Release()
	r.receipts = make(types.Receipts, 0, len(b.Transactions))
	for i, tx := range b.Transactions {
		if err := r.apply(tx); err != nil {
			return nil, r.blame(b, fmt.Errorf("transaction %d %s: %w", i, tx.Hash(), err))
		}
	}
	t, err := c.trackBehind(pt, b.Number(), b.Slot(), b.Record)
	if err != nil {
		return nil, err
	}
	requests, next, err := r.finish(t)
	if err != nil {
		return nil, r.blame(b, err)
	}
	executed := time.Now()
	receiptRoot := make(chan common.Hash, 1)
	go func() { receiptRoot <- types.DeriveSha(r.receipts, trie.NewStackTrie(nil)) }()
	root := r.db.IntermediateRoot(r.evm.GetRules())
	gotReceipts := <-receiptRoot
	place(r.receipts, r.logs, b.Hash())
	if err := r.readError(); err != nil {
		return nil, fmt.Errorf("block %d: %w", b.Number(), err)
	}
	if err := checkResult(b, r, requests, next, gotReceipts, root); err != nil {
		return nil, err
	}
	c.m.execSeconds.Add(executed.Sub(start).Seconds())
	c.m.rootSeconds.Add(time.Since(executed).Seconds())
	return &outcome{block: b, db: r.db, rules: r.evm.GetRules(), receipts: r.receipts, logs: r.logs, track: t}, nil
}

// blame tells a block's fault from a fault of this node's state or store.
func (r *run) blame(b *block.Block, err error) error {
	if readErr := r.readError(); readErr != nil {
		return fmt.Errorf("block %d: %w", b.Number(), readErr)
	}
	return badBlock(b, "%w", err)
}

func checkResult(b *block.Block, r *run, requests common.Hash, next block.Schedule, receipts, root common.Hash) error {
	h := b.Header
	bloom := types.MergeBloom(r.receipts)
	switch {
	case h.GasUsed != r.gas.Used():
		return badBlock(b, "gas used is %d, the header says %d", r.gas.Used(), h.GasUsed)
	case h.Bloom != bloom:
		return badBlock(b, "log bloom differs from the header's")
	case h.ReceiptHash != receipts:
		return badBlock(b, "receipt root is %s, the header says %s", receipts, h.ReceiptHash)
	case *h.RequestsHash != requests:
		return badBlock(b, "requests hash is %s, the header says %s", requests, *h.RequestsHash)
	case !b.Record.Next.Equal(next):
		return badBlock(b, "the record's next schedule of %d seats is not the one due, of %d seats (none is due unless an epoch ends and no change is under way)", len(b.Record.Next), len(next))
	case h.Root != root:
		return badBlock(b, "state root is %s, the header says %s", root, h.Root)
	}
	return nil
}

// commit hands the block's state to pathdb and keeps the schedule bookkeeping of an epoch's last block. Nothing is
// forced to disk. The block must be durable.
func (c *Chain) commit(o *outcome) error {
	failpoint.Hit("chain/commit-before")
	start := time.Now()
	hash := o.block.Hash()
	if c.params.EpochEnd(o.block.Number()) {
		if err := saveTrack(c.states.disk, hash, o.track); err != nil {
			return err
		}
	}
	if c.states.has(o.block.Header.Root) { // a sibling, or an execution before a restart, led to the same state
		return nil
	}
	root, update, err := o.db.CommitWithUpdate(o.rules, o.block.Number())
	if err != nil {
		return fmt.Errorf("commit state of block %d: %w", o.block.Number(), err)
	}
	if root != o.block.Header.Root {
		return fmt.Errorf("state of block %d was committed as %s, executed as %s", o.block.Number(), root, o.block.Header.Root)
	}
	c.changes.note(o.block, update)
	failpoint.Hit("chain/commit-after")
	c.m.rootSeconds.Add(time.Since(start).Seconds())
	c.m.blocks.Inc()
	c.m.txs.Add(float64(len(o.block.Transactions)))
	c.m.gas.Add(float64(o.block.Header.GasUsed))
	c.sinceFlush.blocks++
	c.sinceFlush.gas += o.block.Header.GasUsed
	return nil
}
