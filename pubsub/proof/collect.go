package proof

import (
	"context"
	"errors"
	"fmt"

	"github.com/bornode/bornode/block"
)

// ErrNotYet says that no certificate for a block has come yet.
var ErrNotYet = errors.New("no later block proves it final yet")

// Source gives headers of the canonical chain.
type Source interface {
	SealedAt(height uint64) *block.SealedHeader // nil: not known
}

// collector follows the chain as a Chain does, and picks the headers that a Chain needs to follow it too.
type collector struct {
	ctx   context.Context
	src   Source
	limit uint64 // height; headers are looked at up to here
	check *Chain
	runs  []Run
}

// Collect gathers the runs that prove the block of a height final, from genesis or, where the trust has a checkpoint, from
// there: below the checkpoint the block hangs on it by the headers between, above it the checkpoint must be the end of an
// epoch without a change of schedule. head is the newest height to look at. The source is the node's own chain: signatures
// are not verified once more. An error says what is missing: a certificate that has not come yet, or history that was pruned.
func Collect(ctx context.Context, t *Trust, src Source, height, head uint64) ([]Run, error) {
	c := newCollector(ctx, t, src, head)
	if cp := t.Checkpoint; cp != nil && height <= cp.Height {
		run, err := c.headers(height, cp.Height)
		if err != nil {
			return nil, err
		}
		return []Run{run}, c.check.Extend(&run)
	}
	if cp := t.Checkpoint; cp != nil && t.Params.EpochEnd(cp.Height) {
		if err := c.add(cp.Height); err != nil {
			return nil, err
		}
	}
	if err := c.reach(height); err != nil {
		return nil, err
	}
	if !c.check.Confirmed() { // one more end of an epoch
		if err := c.add(c.endOfEpoch()); err != nil {
			return nil, fmt.Errorf("the checkpoint's schedule is confirmed by the end of its epoch only: %w", err)
		}
	}
	return c.runs, nil
}

// Newest is the newest block that a record up to head proves final: the one that Collect can show without waiting. ErrNotYet:
// there is none among the newest MaxRunHeaders.
func Newest(ctx context.Context, src Source, head uint64) (uint64, error) {
	for h := head; h > 0 && head-h < MaxRunHeaders; h-- {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		x := src.SealedAt(h)
		if x == nil {
			return 0, fmt.Errorf("block %d is not kept here; ask a node that keeps the whole history", h)
		}
		if x.Record.FC == nil {
			continue
		}
		for t := h - 1; t > 0 && head-t < MaxRunHeaders; t-- {
			if z := src.SealedAt(t); z != nil && z.Hash() == x.Record.FC.Target.Hash {
				return t, nil
			}
		}
	}
	return 0, fmt.Errorf("%w: looked at up to block %d", ErrNotYet, head)
}

func newCollector(ctx context.Context, t *Trust, src Source, head uint64) *collector {
	c := &collector{ctx: ctx, src: src, limit: head, check: NewChain(t)}
	c.check.own = true
	return c
}

// Epochs gathers the runs of the epochs up to the newest whose end is proved final, from genesis on: what Collect needs for
// later blocks can go on behind them. more is called with each run; its error ends the walk.
func Epochs(ctx context.Context, t *Trust, src Source, head uint64, more func(Run) error) error {
	c := newCollector(ctx, t, src, head)
	for {
		switch _, further, err := c.advance(head + 1); {
		case errors.Is(err, ErrNotYet):
			return nil
		case err != nil:
			return err
		case !further:
			return nil
		}
		for _, r := range c.runs {
			if err := more(r); err != nil {
				return err
			}
		}
		c.runs = nil
	}
}

func (c *collector) endOfEpoch() uint64 {
	return (c.check.state.epoch + 1) * c.check.trust.Params.EpochBlocks
}

// reach adds the ends of epochs and the first blocks behind bases up to a height, then the block itself.
func (c *collector) reach(height uint64) error {
	for {
		if _, more, err := c.advance(height); err != nil {
			return err
		} else if !more {
			break
		}
	}
	if height <= c.check.state.height {
		return c.holds(height)
	}
	if height == c.endOfEpoch() { // its own record may not show how far a change of schedule is
		return c.endEpoch(height)
	}
	return c.add(height)
}

// holds makes sure that a height at or below the newest header shown is in some run: it is, unless it was left out.
func (c *collector) holds(height uint64) error {
	for i := range c.runs {
		if first := c.runs[i].Headers[0].Number(); first <= height && height < first+uint64(len(c.runs[i].Headers)) {
			return nil
		}
	}
	return fmt.Errorf("block %d lies between runs", height)
}

// endEpoch adds the end of an epoch with what shows how far a change of schedule is.
func (c *collector) endEpoch(end uint64) error {
	s := &c.check.state
	if s.stage == settled || s.final >= s.mark {
		return c.add(end)
	}
	for h := end; h > s.height; h-- {
		x, err := c.header(h)
		if err != nil {
			return err
		}
		if x.Record.FC == nil {
			continue
		}
		if x.Record.FC.Target.Slot < s.mark { // nor has any below it: certificates only rise
			break
		}
		return c.addFrom(h, end)
	}
	return c.addFrom(s.height+1, end) // all headers show that there is none
}

// add adds a block with the headers up to the first one that a certificate proves.
func (c *collector) add(height uint64) error { return c.addFrom(height, height) }

func (c *collector) addFrom(from, to uint64) error {
	target, err := c.proved(to)
	if err != nil {
		return err
	}
	run, err := c.headers(from, target.height)
	if err != nil {
		return err
	}
	run.Certificate = target.fc
	run.Recoveries = c.recoveriesOf(&run)
	if err := c.check.Extend(&run); err != nil {
		return err
	}
	c.runs = append(c.runs, run)
	return nil
}

type target struct {
	height uint64
	fc     *block.Certificate
}

// proved is the first block at or above a height that a later record proves final.
func (c *collector) proved(height uint64) (target, error) {
	x, err := c.header(height)
	if err != nil {
		return target{}, err
	}
	for h := height + 1; h <= c.limit && h < height+MaxRunHeaders; h++ {
		y, err := c.header(h)
		if err != nil {
			return target{}, err
		}
		fc := y.Record.FC
		if fc == nil || fc.Target.Slot < x.Slot() {
			continue
		}
		for t := height; t < h; t++ {
			if z, err := c.header(t); err != nil {
				return target{}, err
			} else if z.Hash() == fc.Target.Hash {
				return target{t, fc}, nil
			}
		}
	}
	return target{}, fmt.Errorf("%w: block %d, looked at up to block %d", ErrNotYet, height, c.limit)
}

func (c *collector) header(height uint64) (*block.SealedHeader, error) {
	if err := c.ctx.Err(); err != nil {
		return nil, err
	}
	if x := c.src.SealedAt(height); x != nil && height <= c.limit {
		return x, nil
	}
	return nil, fmt.Errorf("block %d is not kept here; ask a node that keeps the whole history", height)
}

func (c *collector) headers(from, to uint64) (Run, error) {
	if from > to || to-from >= MaxRunHeaders {
		return Run{}, fmt.Errorf("%d headers from block %d to %d in one run, %d allowed; trust a nearer block", to-from+1, from, to, MaxRunHeaders)
	}
	run := Run{Headers: make([]*block.SealedHeader, 0, to-from+1)}
	for h := from; h <= to; h++ {
		x, err := c.header(h)
		if err != nil {
			return Run{}, err
		}
		run.Headers = append(run.Headers, x)
	}
	return run, nil
}
