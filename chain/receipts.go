package chain

import (
	"errors"
	"fmt"
	"math/big"
	"sync"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// receiptWriter stores receipts behind execution. Its queue is shorter than the layers that a crash makes the node
// execute again, so receipts of a block whose state is on disk were always handed to the store.
type receiptWriter struct {
	queue chan receiptJob
	mu    sync.Mutex
	wait  map[common.Hash]receiptJob // queued or being written, for readers
	idle  *sync.Cond
}

type receiptJob struct {
	hash     common.Hash
	height   uint64
	receipts types.Receipts
}

func newReceiptWriter() *receiptWriter {
	w := &receiptWriter{queue: make(chan receiptJob, receiptQueue), wait: make(map[common.Hash]receiptJob)}
	w.idle = sync.NewCond(&w.mu)
	return w
}

func (w *receiptWriter) put(j receiptJob) {
	w.mu.Lock()
	w.wait[j.hash] = j
	w.mu.Unlock()
	w.queue <- j
}

// run is the goroutine that writes until the queue is closed.
func (w *receiptWriter) run(c *Chain) {
	defer c.wg.Done()
	for j := range w.queue {
		failpoint.Hit("chain/receipts-before")
		if err := c.store.PutReceipts(j.hash, j.height, j.receipts); err != nil {
			c.m.receiptErrors.Inc()
			c.log.Error("receipts could not be stored", zapHeight(j.height), zapError(err))
		}
		failpoint.Hit("chain/receipts-after")
		w.mu.Lock()
		delete(w.wait, j.hash)
		w.idle.Broadcast()
		w.mu.Unlock()
	}
}

// drain waits until everything put before is stored.
func (w *receiptWriter) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.wait) > 0 {
		w.idle.Wait()
	}
}

func (w *receiptWriter) get(h common.Hash) types.Receipts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wait[h].receipts
}

// transaction finds a transaction in blocks that wait.
func (w *receiptWriter) transaction(tx common.Hash) (h common.Hash, height, index uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, j := range w.wait {
		for i, r := range j.receipts {
			if r.TxHash == tx {
				return j.hash, j.height, uint64(i), true
			}
		}
	}
	return common.Hash{}, 0, 0, false
}

// Receipts are those of a stored and executed block, derived fields filled in. They are derived data: if the store
// lost them they are made again by executing the block, as long as its parent's state can be read; else those of an
// irreversible block are fetched from a peer, and block.ErrNoReceipts is wrapped until they are there. An error says why
// there are none; it wraps block.ErrCorrupt if a block is damaged, ErrUnknownBlock if it is not there.
func (c *Chain) Receipts(h common.Hash) (types.Receipts, error) {
	if r, ok := c.receiptCache.Get(h); ok {
		return r, nil
	}
	if r := c.receipts.get(h); r != nil {
		return r, nil
	}
	b, err := c.BlockByHash(h)
	if err != nil {
		return nil, err
	}
	if b == nil {
		return nil, fmt.Errorf("receipts: %w", unknownBlock(h))
	}
	if len(b.Transactions) == 0 {
		return types.Receipts{}, nil
	}
	r, err := c.store.Receipts(h)
	if err == nil && len(r) == len(b.Transactions) {
		if err := r.DeriveFields(c.config, h, b.Number(), b.Header.Time, b.Header.BaseFee, new(big.Int), b.Transactions); err != nil {
			return nil, fmt.Errorf("receipts of block %d %s: %w", b.Number(), h, err)
		}
		c.setLogTimes(r, b)
	} else if r, err = c.remake(b); err != nil {
		return nil, c.receiptsLost(b, err)
	}
	c.receiptCache.Add(h, r)
	return r, nil
}

// receiptsLost is the error about receipts that are not stored and cannot be made again. What a peer can mend is noted:
// the receipts, unless a damaged block, which is noted already, or the end of this node stands in the way.
func (c *Chain) receiptsLost(b *block.Block, cause error) error {
	if lacksIndex(cause) || errors.As(cause, new(ErrReplaying)) {
		cause = block.NotReady{Cause: cause} // a peer may have them sooner
	}
	if !errors.As(cause, new(block.ErrCorrupt)) && !errors.Is(cause, ErrClosed) {
		if lost := c.store.ReceiptsLost(b.Number(), b.Hash(), cause); errors.As(lost, new(block.ErrNoReceipts)) {
			return lost
		}
	}
	return fmt.Errorf("receipts of block %d %s are not stored and cannot be made again: %w", b.Number(), b.Hash(), cause)
}

func (c *Chain) setLogTimes(rs types.Receipts, b *block.Block) {
	for _, r := range rs {
		for _, l := range r.Logs {
			l.BlockTimestamp = b.Header.Time
		}
	}
}

// remake executes a block again, on a throw-away state, for its receipts. They are compared with the header: an old
// state that is damaged gives others.
func (c *Chain) remake(b *block.Block) (types.Receipts, error) {
	sealed, err := c.mustSealed(b.Parent())
	if err != nil {
		return nil, err
	}
	parent := sealed.Header
	db, err := c.StateAt(parent)
	if err != nil {
		return nil, err
	}
	rules, err := c.rulesOn(c.asked, parent.Root, b.Number(), readerOf(db))
	if err != nil {
		return nil, err
	}
	c.setSenders(b)
	r := c.newRun(b.Header, b.Record.Recovery, db, rules)
	defer r.evm.Release()
	for i, tx := range b.Transactions {
		if err := r.apply(tx); err != nil {
			return nil, fmt.Errorf("transaction %d %s: %w", i, tx.Hash(), err)
		}
	}
	if err := r.readError(); err != nil {
		return nil, err
	}
	if err := block.CheckReceipts(b, r.receipts); err != nil {
		return nil, fmt.Errorf("executing block %d again gives others: %w", b.Number(), err)
	}
	place(r.receipts, r.logs, b.Hash())
	return r.receipts, nil
}

func logsOf(rs types.Receipts) []*types.Log {
	var out []*types.Log
	for _, r := range rs {
		out = append(out, r.Logs...)
	}
	return out
}
