package sim

import (
	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// The checkers' own reckoning of what a chain says: sources, proven final blocks and schedules, straight from rules 2
// and 9 and from nothing of the machine's.

// regime is the state of a change of schedule for one block.
type regime struct {
	cur, next block.Schedule // next: announced, or nil
	old       block.Schedule // while both count
	mark      uint64         // height of the announcing block; of the first block of the joint epoch
}

// counting are the schedules whose quorums a certificate on the block needs.
func (r *regime) counting() []block.Schedule {
	if r.old != nil {
		return []block.Schedule{r.old, r.cur}
	}
	return []block.Schedule{r.cur}
}

// regimeAfter is the regime of a child of this block.
func regimeAfter(w *world, p *sealed) *regime {
	r := *p.regime
	if p.Height == 0 || p.Height%w.s.Params.EpochBlocks != 0 {
		return &r
	}
	switch {
	case r.old != nil:
		if p.final >= r.mark {
			r.old = nil
		}
	case r.next != nil:
		if p.final >= r.mark {
			r.old, r.cur, r.next, r.mark = r.cur, r.next, nil, p.Height+1
		}
	case len(p.Next) > 0 && !p.Next.Equal(r.cur):
		r.next, r.mark = p.Next, p.Height
	}
	return &r
}

// reckon notes what a new block's own chain proves: its source and its newest final block.
func (b *sealed) reckon(w *world) {
	if b.Recovery != (common.Hash{}) {
		b.reckonRecovered(w)
		return
	}
	b.source, b.final = b.parent.source, b.parent.final
	for _, c := range []*block.Certificate{b.QC, b.FC} {
		if c != nil && c.Target.Slot > b.source.Slot {
			b.source = c.Target
		}
	}
	if b.FC != nil {
		if t := w.blocks[b.FC.Target.Hash]; t != nil && t.Height > b.final {
			b.final = t.Height
		}
	}
	b.regime = regimeAfter(w, b.parent)
}
