package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// Recovery is what the operators do when more producers are lost than the rules can bear (rule 13): at a time the survivors stop, the
// highest justified block that any of them holds is the base, and survivors and newcomers go on from it.
type Recovery struct {
	At   time.Duration
	Lost []int         // nodes that went down before, for the operators: what they do later is not looked at
	New  []int         // nodes without a seat that get one
	Back time.Duration // the lost ones start again with their old disks, and know nothing of it; 0: never
}

// recover makes the statement, and starts the nodes that go by it.
func (w *world) recover() {
	plan := w.s.Recovery
	var base *sealed
	var seats []int
	for i := range w.s.Seats {
		n := w.nodes[i]
		if slices.Contains(plan.Lost, i) {
			continue
		}
		seats = append(seats, i)
		if b := w.blocks[n.m.Justified().Hash]; n.honest() && (base == nil || b.Slot > base.Slot) {
			base = b
		}
	}
	if base == nil {
		w.fail(errors.New("no survivor"))
		return
	}
	seats = append(seats, plan.New...)
	r := dpos.Recovery{
		Hash: common.Hash{0xec}, Base: base.Point(), Height: base.Height, FirstSlot: uint64(w.now/w.s.Params.Slot()) + 10, //nolint:gosec // positive
		Schedule: scheduleOf(seats),
	}
	w.recovery = &r
	for _, i := range seats {
		n := w.nodes[i]
		n.crash()
		n.recovered, n.marks = true, dpos.NewMarks() // those of an older domain are over
		w.fail(n.start(false))
	}
	for _, i := range plan.Lost {
		n := w.nodes[i]
		if n.crash(); plan.Back > 0 {
			w.at(plan.Back, func() { w.fail(n.start(false)) })
		}
	}
}

// reckonRecovered notes what a base is for the first block behind it: proven justified and final, and settled on the schedule.
func (b *sealed) reckonRecovered(w *world) {
	r := w.recovery
	b.source, b.final, b.regime = r.Base, r.Height, &regime{cur: r.Schedule}
}

// isBase reports whether a block is final by the recovery, for a node that goes by it.
func (c *checkers) isBase(n *node, at block.Point) bool {
	return n.recovered && c.w.recovery.Base == at
}
