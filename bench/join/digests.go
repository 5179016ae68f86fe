package join

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	blocksync "github.com/bornode/bornode/sync"
)

// What the driver of the transfer phase says of blocks.
var (
	errBad     = errors.New("block is not what its hash says")
	errKnown   = errors.New("block is here already")
	errUnknown = errors.New("block's parent is not here")
)

func classify(err error) blocksync.Verdict {
	switch {
	case errors.Is(err, errBad):
		return blocksync.VerdictInvalid
	case errors.Is(err, errKnown):
		return blocksync.VerdictKnown
	case errors.Is(err, errUnknown):
		return blocksync.VerdictUnknownParent
	}
	return blocksync.VerdictOverloaded
}

// digests is the driver of the transfer phase: a block whose digests agree with its header, and whose header is the
// child of the last one, is appended to the store as irreversible. It verifies no seal and no certificate, and
// executes nothing.
type digests struct {
	store *blockstore.Store
	done  chan error // has the outcome once the expected height is durable

	order sync.Mutex   // one range at a time
	wait  func() error // for what was appended last

	mu   sync.Mutex
	lib  blocksync.Ref
	want uint64 // height
}

// openDigests puts block 0 into an empty store.
func openDigests(store *blockstore.Store, genesis *block.Block) (*digests, error) {
	if err := store.AppendFinal([]*block.Block{genesis}, block.FinalUpdate{}); err != nil {
		return nil, err
	}
	return &digests{store: store, done: make(chan error, 1), want: math.MaxUint64, lib: blocksync.RefOf(genesis.SealedHeader)}, nil
}

// expect says which height ends the transfer. Call it before any block can come.
func (d *digests) expect(height uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.want = height
}

func (d *digests) Status() blocksync.DriverStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return blocksync.DriverStatus{Head: d.lib, LIB: d.lib}
}

func (d *digests) AddVotes(vs []block.Vote) ([]blocksync.VoteVerdict, error) {
	return make([]blocksync.VoteVerdict, len(vs)), nil
}
func (d *digests) AddCertificate(*block.Certificate) error { return nil }
func (d *digests) CheckHeader(h *block.SealedHeader) error { return d.follows(h, d.Status().LIB) }

func (d *digests) follows(h *block.SealedHeader, lib blocksync.Ref) error {
	switch {
	case h.Number() <= lib.Height:
		return errKnown
	case h.Number() > lib.Height+1 || h.Parent() != lib.Hash:
		return fmt.Errorf("%w: block %d on %s, the last one here is %d %s", errUnknown, h.Number(), h.Parent(), lib.Height, lib.Hash)
	}
	return nil
}

func (d *digests) AddBlock(ctx context.Context, b *block.Block) error {
	_, err := d.AddRange(ctx, []*block.Block{b}, blocksync.Certified)
	return err
}

// AddRange checks on all cores and appends; while the blocks become durable the next range may come.
func (d *digests) AddRange(ctx context.Context, blocks []*block.Block, _ blocksync.Mode) (blocksync.RangeResult, error) {
	d.order.Lock()
	defer d.order.Unlock()
	lib := d.Status().LIB
	for len(blocks) > 0 && blocks[0].Number() <= lib.Height {
		blocks = blocks[1:]
	}
	at := lib
	for _, b := range blocks {
		if err := d.follows(b.SealedHeader, at); err != nil {
			return blocksync.RangeResult{Applied: lib.Height}, err
		}
		at = blocksync.RefOf(b.SealedHeader)
	}
	if err := check(ctx, blocks); err != nil || len(blocks) == 0 {
		return blocksync.RangeResult{Applied: lib.Height}, err
	}
	if err := d.settle(); err != nil {
		return blocksync.RangeResult{Applied: lib.Height}, err
	}
	d.wait = d.store.AppendFinalAsync(blocks, block.FinalUpdate{})
	d.mu.Lock()
	reached := lib.Height < d.want && at.Height >= d.want
	d.lib = at
	d.mu.Unlock()
	if reached {
		d.done <- d.settle()
	}
	return blocksync.RangeResult{Applied: at.Height}, nil
}

// settle returns when what was appended is durable.
func (d *digests) settle() error {
	if d.wait == nil {
		return nil
	}
	err := d.wait()
	d.wait = nil
	return err
}

// check compares record and body of every block with its header.
func check(ctx context.Context, blocks []*block.Block) error {
	workers := min(len(blocks), runtime.GOMAXPROCS(0))
	g, ctx := errgroup.WithContext(ctx)
	for w := range workers {
		g.Go(func() error {
			for i := w; i < len(blocks) && ctx.Err() == nil; i += workers {
				b := blocks[i]
				switch {
				case len(b.Header.Extra) != common.HashLength || common.Hash(b.Header.Extra) != b.Record.Hash():
					return fmt.Errorf("%w: record of %d", errBad, b.Number())
				case block.BodyDigest(b.Transactions, b.Senders) != b.Record.BodyDigest:
					return fmt.Errorf("%w: body of %d", errBad, b.Number())
				}
			}
			return ctx.Err()
		})
	}
	return g.Wait()
}
