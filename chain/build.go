package chain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/trie"
)

// BuildRequest asks for a block.
type BuildRequest struct {
	Parent    common.Hash
	Slot      uint64
	Coinbase  common.Address
	QC, FC    *block.Certificate // for the record, and so the mix digest; nil for none
	Recovery  common.Hash        // for the record of the first block behind a recovery's base; zero else
	EmptyOnly bool               // no transactions
	Txs       TxSource           // may be nil
	Budget    time.Duration      // after which no further transaction is begun; 0: no limit
}

// Built is an unsealed block with its execution.
type Built struct {
	Block   *block.Block // Seal is zero
	Skipped int          // transactions that did not fit or were bad
	outcome *outcome
}

// Build makes a block on an executed parent: it executes while it fills. The block is neither stored nor in the tree;
// seal it and pass it to InsertBuilt, after which SetHead uses the execution made here.
func (c *Chain) Build(ctx context.Context, req BuildRequest) (*Built, error) {
	if err := c.acquire(ctx); err != nil {
		return nil, err
	}
	defer c.release()
	start := time.Now()
	p := c.node(req.Parent)
	switch {
	case p == nil:
		return nil, fmt.Errorf("build: parent: %w", unknownBlock(req.Parent))
	case p.status != executed || p.track == nil:
		return nil, fmt.Errorf("build: parent %d %s was not executed", p.height, p.hash)
	case req.Slot <= p.sealed.Slot():
		return nil, fmt.Errorf("build: slot %d is not above the parent's slot %d", req.Slot, p.sealed.Slot())
	}
	r, err := c.runOn(p, req)
	if err != nil {
		return nil, fmt.Errorf("build: %w", err)
	}
	defer r.evm.Release()
	f := filler{run: r, room: roomForTransactions(&r.rules.params, req.QC, req.FC)}
	if !req.EmptyOnly && req.Txs != nil {
		if err := f.fill(ctx, req.Txs, start, req.Budget); err != nil {
			return nil, err
		}
	}
	return c.assemble(&f, p, req)
}

// runOn begins the execution of a block that is to be built on p.
func (c *Chain) runOn(p *node, req BuildRequest) (*run, error) {
	parent := p.sealed.Header
	db, err := state.New(parent.Root, c.states.layers.Load().db)
	if err != nil {
		return nil, fmt.Errorf("state of block %d: %w: %w", p.height, ErrStateUnavailable, err)
	}
	rules, err := c.rulesOn(c.rules, parent.Root, p.height+1, readerOf(db))
	if err != nil {
		return nil, err
	}
	h := c.newHeader(&rules.params, parent, p.hash, req.Slot, req.Coinbase, req.QC, req.FC)
	return c.newRun(h, req.Recovery, db, rules), nil
}

// roomForTransactions is how many bytes of transactions and senders a block takes beside header, record and seal.
func roomForTransactions(p *block.Parameters, qc, fc *block.Certificate) uint64 {
	used := uint64(recordReserve + block.MaxProducers*80)
	for _, x := range []*block.Certificate{qc, fc} {
		if x != nil {
			used += uint64(len(x.Encode()))
		}
	}
	if used > p.MaxBlockBytes {
		return 0
	}
	return p.MaxBlockBytes - used
}

// filler puts transactions into a run.
type filler struct {
	*run
	room    uint64 // bytes left
	txs     types.Transactions
	senders []common.Address
	skipped int
}

func (f *filler) fill(ctx context.Context, src TxSource, start time.Time, budget time.Duration) error {
	for misses := 0; misses < sizeMisses && len(f.txs) < block.MaxTransactions; {
		if err := ctx.Err(); err != nil {
			return err
		}
		left := f.header.GasLimit - f.gas.Used()
		if left < minTxGas || (budget > 0 && time.Since(start) >= budget) {
			return nil
		}
		tx := src.Next()
		if tx == nil {
			return nil
		}
		size := txListSize(tx) + common.AddressLength + 1
		if size > f.room || tx.Gas() > left {
			misses++
			f.skipped++
			src.Pop()
			continue
		}
		err := f.try(tx)
		switch {
		case err == nil:
			f.room -= size
			src.Shift()
		case f.readError() != nil:
			return fmt.Errorf("build: %w", f.readError())
		case errors.Is(err, core.ErrNonceTooLow): // another block took it
			f.skipped++
			src.Shift()
		default:
			f.skipped++
			src.Pop()
		}
	}
	return nil
}

// try applies one transaction and undoes everything if it cannot be in a block.
func (f *filler) try(tx *types.Transaction) error {
	from, err := types.Sender(f.c.signer, tx)
	if err != nil {
		return err
	}
	snap, gas := f.db.Snapshot(), f.gas.Snapshot()
	if err := f.apply(tx); err != nil {
		f.db.RevertToSnapshot(snap)
		f.gas.Set(gas)
		return err
	}
	f.txs = append(f.txs, tx)
	f.senders = append(f.senders, from)
	return nil
}

// assemble ends the run and makes record and header.
func (c *Chain) assemble(f *filler, p *node, req BuildRequest) (*Built, error) {
	rec := &block.Record{Version: block.RecordVersion, Slot: req.Slot, QC: req.QC, FC: req.FC, Recovery: req.Recovery, BodyDigest: block.BodyDigest(f.txs, f.senders)}
	h := f.header
	t, err := c.trackBehind(p.track, p.height+1, req.Slot, rec)
	if err != nil {
		return nil, err
	}
	requests, next, err := f.finish(t)
	if err != nil {
		return nil, fmt.Errorf("build block %d: %w", p.height+1, err)
	}
	if len(next) > 0 {
		rec.Next = next
		if t, err = c.trackBehind(p.track, p.height+1, req.Slot, rec); err != nil {
			return nil, err
		}
	}
	roots := make(chan [2]common.Hash, 1)
	go func() {
		roots <- [2]common.Hash{block.TxRoot(f.txs), types.DeriveSha(f.receipts, trie.NewStackTrie(nil))}
	}()
	h.Root = f.db.IntermediateRoot(f.evm.GetRules())
	x := <-roots
	h.TxHash, h.ReceiptHash = x[0], x[1]
	if err := f.readError(); err != nil {
		return nil, fmt.Errorf("build block %d: %w", p.height+1, err)
	}
	h.Bloom, h.GasUsed, h.RequestsHash = types.MergeBloom(f.receipts), f.gas.Used(), &requests
	h.Extra = rec.Hash().Bytes()
	b := &block.Block{SealedHeader: &block.SealedHeader{Header: h, Record: rec}, Transactions: f.txs, Senders: f.senders}
	place(f.receipts, f.logs, b.Hash())
	return &Built{Block: b, Skipped: f.skipped, outcome: &outcome{block: b, db: f.db, rules: f.evm.GetRules(), receipts: f.receipts, logs: f.logs, track: t}}, nil
}

// InsertBuilt seals a built block, makes it durable and enters it into the tree with its execution, so that SetHead
// need not repeat it. The block's hash does not depend on the seal.
func (c *Chain) InsertBuilt(b *Built, seal [block.SealLength]byte) error {
	if err := c.acquire(context.Background()); err != nil {
		return err
	}
	defer c.release()
	b.Block.Seal = seal
	failpoint.Hit("chain/built-before")
	if err := c.store.PutReversible([]*block.Block{b.Block}); err != nil {
		return fmt.Errorf("store the built block %d: %w", b.Block.Number(), err)
	}
	failpoint.Hit("chain/built-after")
	if err := c.enter([]*block.Block{b.Block}, nil); err != nil {
		return err
	}
	h := b.Block.Hash()
	c.built[h] = b.outcome
	if c.builtOrder = append(c.builtOrder, h); len(c.builtOrder) > builtKept {
		delete(c.built, c.builtOrder[0])
		c.builtOrder = c.builtOrder[1:]
	}
	return nil
}
