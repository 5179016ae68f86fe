package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/failpoint"
)

// work is one piece for the execution goroutine; exactly one part is set.
type work struct {
	imp   *importWork
	head  common.Hash
	fin   *finalWork
	safe  common.Hash
	build *dpos.Produce
	drop  []common.Hash
}

// importWork is a certified range and whom to tell when it is in.
type importWork struct {
	blocks []*block.Block
	fin    finalWork
	done   func(error) // called on the machine's goroutine
}

// finalWork is an update of LIB whose root is not encoded yet: of several that join only the newest ever is.
type finalWork struct {
	update block.FinalUpdate
	root   *dpos.Root
	lib    Place
}

func (f *finalWork) encode() block.FinalUpdate {
	f.update.Root = f.root.Encode()
	return f.update
}

// outcome answers one work.
type outcome struct {
	work
	result chain.SetHeadResult
	block  *block.Block // built
	took   time.Duration
	err    error
}

// executor calls the chain from one goroutine, one work at a time. The machine's goroutine queues (backlog) and hands
// over the next only when the last is answered, so neither ever waits for the other.
type executor struct {
	d   *Driver
	in  chan work
	out chan outcome // capacity 1
}

func (e *executor) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case w := <-e.in:
			began := time.Now()
			o := e.do(ctx, w)
			o.took = time.Since(began)
			e.out <- o // never waits: one work at a time
		}
	}
}

func (e *executor) do(ctx context.Context, w work) (o outcome) {
	o.work = w
	c := e.d.deps.Chain
	switch {
	case w.imp != nil:
		failpoint.Hit("consensus-import-before")
		if o.err = c.ImportFinal(ctx, w.imp.blocks, w.imp.fin.encode()); o.err != nil {
			o.err = fmt.Errorf("import of blocks %d to %d, which a quorum proved final: %w", w.imp.blocks[0].Number(), w.imp.blocks[len(w.imp.blocks)-1].Number(), o.err)
		}
		failpoint.Hit("consensus-import-after")
	case w.head != (common.Hash{}):
		if o.result, o.err = c.SetHead(ctx, w.head); o.err != nil {
			o.err = fmt.Errorf("execute the branch of block %s: %w", w.head, o.err)
		}
	case w.fin != nil:
		failpoint.Hit("consensus-finalize-before")
		if o.err = c.Finalize(w.fin.encode()); o.err != nil {
			o.err = fmt.Errorf("move the last irreversible block to %d %s: %w", w.fin.lib.Height, w.fin.lib.Hash, o.err)
		}
		failpoint.Hit("consensus-finalize-after")
	case w.safe != (common.Hash{}):
		c.SetSafe(w.safe)
	case w.build != nil:
		o.block, o.err = e.build(ctx, w.build)
	case len(w.drop) > 0:
		failpoint.Hit("consensus-drop-before")
		if o.err = c.Finalize(block.FinalUpdate{Drop: w.drop}); o.err != nil {
			o.err = fmt.Errorf("delete %d blocks that left the tree: %w", len(w.drop), o.err)
		}
		failpoint.Hit("consensus-drop-after")
	}
	return o
}

// errMissed means that a slot passed without our block; the chain goes on.
var errMissed = errors.New("slot missed")

// build makes, seals, stores and sends the block of our slot. The record of the slot is on disk already.
func (e *executor) build(ctx context.Context, p *dpos.Produce) (*block.Block, error) {
	d := e.d
	params := &d.deps.Params
	begin, slot := params.SlotStart(p.Slot), params.Slot()
	late := d.time.currentTime().Sub(begin)
	if late >= slot {
		return nil, fmt.Errorf("%w: slot %d was over %s ago when the parent was ready", errMissed, p.Slot, late-slot)
	}
	// The budget ends at its share of the slot, whenever the parent came; a late parent leaves a small one.
	budget := max(slot*time.Duration(d.cfg.BuildPercent)/100-max(late, 0), slot/minBuildShare)
	req := chain.BuildRequest{
		Parent: p.Parent, Slot: p.Slot, Coinbase: d.self, QC: p.QC, FC: p.FC, Recovery: p.Recovery, EmptyOnly: p.EmptyOnly, Budget: budget,
	}
	if d.deps.Txs != nil && !p.EmptyOnly {
		req.Txs = d.deps.Txs(p.Parent)
	}
	built, err := d.deps.Chain.Build(ctx, req)
	if errors.As(err, new(chain.ErrUnknownUpgrade)) {
		return nil, fmt.Errorf("build the block of slot %d: %w", p.Slot, err) // no slot of ours will be better
	}
	if err != nil {
		return nil, fmt.Errorf("%w: build on %s for slot %d: %w", errMissed, p.Parent, p.Slot, err)
	}
	if d.forks.halted.Load() {
		return nil, fmt.Errorf("%w: slot %d: a fork was met, and nothing is signed any more", errMissed, p.Slot)
	}
	b := built.Block
	seal, err := d.signSeal(d.verify.domain.SealDigest(b.Hash()))
	if err != nil {
		return nil, fmt.Errorf("%w: seal the block of slot %d: %w", errMissed, p.Slot, err)
	}
	failpoint.Hit("consensus-insert-before")
	if err := d.deps.Chain.InsertBuilt(built, seal); err != nil {
		return nil, fmt.Errorf("store own block of slot %d: %w", p.Slot, err)
	}
	failpoint.Hit("consensus-insert-after")
	x := &block.Block{
		SealedHeader: &block.SealedHeader{Header: b.Header, Record: b.Record, Seal: seal},
		Transactions: b.Transactions, Senders: b.Senders,
	}
	d.verify.headers.Add(sealed{x.Hash(), seal}, d.self)
	if d.deps.Network != nil {
		d.deps.Network.BroadcastBlock(x, "")
	}
	d.log.Debug("produced", zap.Uint64("height", x.Number()), zap.Uint64("slot", x.Slot()), zap.Int("txs", len(x.Transactions)))
	return x, nil
}

// backlog is what waits for the executor, in order of duty. It is bounded whatever the machine asks for while the
// chain is busy: a new head replaces one that was not begun, updates of LIB join, ranges come one at a time.
type backlog struct {
	stages []stage
	safe   common.Hash
	build  *dpos.Produce
}

// stage is an import, then a head, then an update of LIB on that head's branch. A newer head of the same stage may
// replace an older one before the update, since every preferred head descends from LIB.
type stage struct {
	imp  *importWork
	head common.Hash
	fin  *finalWork
}

func (b *backlog) last() *stage {
	if len(b.stages) == 0 {
		b.stages = append(b.stages, stage{})
	}
	return &b.stages[len(b.stages)-1]
}

func (b *backlog) addImport(w *importWork) { b.stages = append(b.stages, stage{imp: w}) }

func (b *backlog) addHead(h common.Hash) { b.last().head = h }

func (b *backlog) addFinal(f finalWork) {
	s := b.last()
	if s.fin != nil {
		f.update.Hashes = append(s.fin.update.Hashes, f.update.Hashes...)
	}
	s.fin = &f
}

// peek is the next piece of work; drop takes it off.
func (b *backlog) peek() (work, bool) {
	for len(b.stages) > 0 {
		switch s := &b.stages[0]; {
		case s.imp != nil:
			return work{imp: s.imp}, true
		case s.head != (common.Hash{}):
			return work{head: s.head}, true
		case s.fin != nil:
			return work{fin: s.fin}, true
		}
		b.stages = b.stages[1:]
	}
	switch {
	case b.build != nil:
		return work{build: b.build}, true
	case b.safe != (common.Hash{}):
		return work{safe: b.safe}, true
	}
	return work{}, false
}

// putBack queues work again that was handed over and could not be done. A head gives way to a newer one of its stage.
func (b *backlog) putBack(w work) {
	if w.head != (common.Hash{}) && len(b.stages) > 0 && b.stages[0].imp == nil && b.stages[0].head != (common.Hash{}) {
		return
	}
	b.stages = slices.Insert(b.stages, 0, stage{imp: w.imp, head: w.head, fin: w.fin})
}

func (b *backlog) drop(w work) {
	switch {
	case w.imp != nil:
		b.stages[0].imp = nil
	case w.head != (common.Hash{}):
		b.stages[0].head = common.Hash{}
	case w.fin != nil:
		b.stages[0].fin = nil
	case w.build != nil:
		b.build = nil
	case len(w.drop) > 0: // in no backlog
	default:
		b.safe = common.Hash{}
	}
}
