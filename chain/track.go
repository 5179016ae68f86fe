package chain

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/rlp"
)

// track is what the chain derives from headers alone, up to and including one block: the schedule that produces, the
// change of schedule under way (DESIGN §7 rule 9) and the turns missed in this epoch. It is never changed once set
// on a node.
type track struct {
	Producers block.Schedule // who produces the block's epoch
	Pending   block.Schedule // the schedule of the change under way; empty if none is
	PendingAt uint64         // slot of the block that carried Pending
	Adopted   bool           // step (i) is done: Producers is Pending
	AdoptedAt uint64         // slot of the first block counted under step (i)
	FinalSlot uint64         // newest slot that the records of this chain prove final
	Slot      uint64         // the block's own slot
	Round     uint64         // the round (one turn of every seat) that Slot lies in
	Whole     bool           // the round began after this schedule did
	Made      [block.MaxProducers / 8]byte
	Calls     bool     // the block ends an epoch and no change is under way: the end-of-epoch call is made
	Missed    []uint32 // per seat: turns without a block since the epoch began, of whole rounds with a quorum of producers

	Recovery    common.Hash `rlp:"optional"` // newest that a record of this chain names; zero: none
	RecoveredAt uint64      `rlp:"optional"` // height of that block
}

func genesisTrack(s block.Schedule) *track {
	return &track{Producers: s, Missed: make([]uint32, len(s))}
}

// next is the track after a child with this slot and record. Height is the child's.
func (t *track) next(p *block.Parameters, height, slot uint64, r *block.Record) *track {
	n := *t
	n.Missed = slices.Clone(t.Missed)
	if p.EpochEnd(height - 1) {
		clear(n.Missed)
		n.epochStart(slot)
	}
	if len(n.Producers) > 0 {
		n.enter(p, slot)
	}
	n.Slot = slot
	if r.FC != nil && r.FC.Target.Slot > n.FinalSlot {
		n.FinalSlot = r.FC.Target.Slot
	}
	n.Calls = p.EpochEnd(height) && len(n.Pending) == 0
	if n.Calls && len(r.Next) > 0 && !r.Next.Equal(n.Producers) {
		n.Pending, n.PendingAt, n.Adopted = r.Next, slot, false
	}
	return &n
}

// epochStart takes the steps of a change of schedule that the parent chain proves. slot is that of the first block of
// the epoch.
func (t *track) epochStart(slot uint64) {
	switch {
	case len(t.Pending) == 0:
	case !t.Adopted && t.FinalSlot >= t.PendingAt:
		t.Producers, t.Adopted, t.AdoptedAt = t.Pending, true, slot
		t.Missed = make([]uint32, len(t.Producers))
		t.Round, t.Whole, t.Made = 0, false, [len(t.Made)]byte{}
	case t.Adopted && t.FinalSlot >= t.AdoptedAt:
		t.Pending, t.Adopted = nil, false
	}
}

// recoveredBy is the track of a base as its children see it: the recovery's schedule produces, and no change is under way.
func (t *track) recoveredBy(recovery common.Hash, s block.Schedule, height uint64) *track {
	return &track{Producers: s, FinalSlot: t.Slot, Slot: t.Slot, Missed: make([]uint32, len(s)), Recovery: recovery, RecoveredAt: height}
}

// trackBehind is the track after a child with this height, slot and record.
func (c *Chain) trackBehind(t *track, height, slot uint64, r *block.Record) (*track, error) {
	if r.Recovery == (common.Hash{}) {
		return t.next(&c.params, height, slot, r), nil
	}
	x, known := c.cfg.Recoveries[r.Recovery]
	if !known {
		return nil, fmt.Errorf("block %d goes on by the recovery %s, which is not applied here: apply it again with bornode recover apply", height, r.Recovery)
	}
	n := t.recoveredBy(r.Recovery, x.Schedule, height).next(&c.params, height, slot, r)
	n.Whole = false // who had a slot of this round before the chain went on missed nothing
	return n, nil
}

// enter moves to the slot's round, closing the one before, and marks the slot's seat.
func (t *track) enter(p *block.Parameters, slot uint64) {
	n := uint64(len(t.Producers))
	turn := slot / p.TurnSlots
	if round := turn / n; round > t.Round {
		t.closeRound()
		// The parent lies in an earlier round or under an earlier schedule, so the whole round counts unless it
		// began at or before the parent's slot.
		t.Round, t.Made = round, [len(t.Made)]byte{}
		t.Whole = t.Slot < round*n*p.TurnSlots
	}
	seat := turn % n
	t.Made[seat/8] |= 1 << (seat % 8)
}

// closeRound counts the turns missed in the round, unless fewer than a quorum of producers made a block in it: a
// partition or an outage counts against nobody.
func (t *track) closeRound() {
	made := 0
	for _, b := range t.Made {
		made += bits.OnesCount8(b)
	}
	if !t.Whole || made < t.Producers.Quorum() {
		return
	}
	for i := range t.Missed {
		if t.Made[i/8]&(1<<(i%8)) == 0 {
			t.Missed[i]++
		}
	}
}

// missed is the argument of the end-of-epoch call.
func (t *track) missed() (out []contracts.Missed) {
	for i, n := range t.Missed {
		if n > 0 {
			out = append(out, contracts.Missed{Seat: uint16(i), Turns: n}) //nolint:gosec // at most MaxProducers
		}
	}
	return out
}

func trackKey(h common.Hash) []byte { return append([]byte("bornode-track-"), h[:]...) }

// saveTrack keeps the track of the last block of an epoch beside the state: it must be there whenever the state of
// that block or a later one is on disk, and the key-value store writes in order.
func saveTrack(db ethdb.KeyValueWriter, h common.Hash, t *track) error {
	b, err := rlp.EncodeToBytes(t)
	if err != nil {
		return fmt.Errorf("encode schedule bookkeeping: %w", err)
	}
	return db.Put(trackKey(h), b)
}

func loadTrack(db ethdb.KeyValueReader, h common.Hash) (*track, error) {
	b, err := db.Get(trackKey(h))
	if err != nil {
		return nil, fmt.Errorf("schedule bookkeeping of block %s: %w", h, err)
	}
	t := new(track)
	if err := rlp.DecodeBytes(b, t); err != nil {
		return nil, fmt.Errorf("schedule bookkeeping of block %s: %w", h, err)
	}
	return t, nil
}

// trackAt computes the track after a block from the last epoch end below it. known serves blocks of the tree.
func (c *Chain) trackAt(h *block.SealedHeader) (*track, error) {
	var up []*block.SealedHeader
	for {
		if h.Number() == 0 {
			t := genesisTrack(c.schedule)
			return c.replayTrack(t, up)
		}
		if n := c.node(h.Hash()); n != nil && n.track != nil {
			return c.replayTrack(n.track, up)
		}
		if c.params.EpochEnd(h.Number()) {
			t, err := loadTrack(c.states.disk, h.Hash())
			if err != nil {
				return nil, fmt.Errorf("%w: move the state directory %s away and it is made again", err, c.cfg.Dir)
			}
			return c.replayTrack(t, up)
		}
		up = append(up, h)
		p, err := c.parentOf(h)
		if err != nil {
			return nil, fmt.Errorf("schedule bookkeeping: %w", unreadable(err))
		}
		h = p
	}
}

func (c *Chain) replayTrack(t *track, newestFirst []*block.SealedHeader) (_ *track, err error) {
	for i := len(newestFirst) - 1; i >= 0; i-- {
		h := newestFirst[i]
		if t, err = c.trackBehind(t, h.Number(), h.Slot(), h.Record); err != nil {
			return nil, err
		}
	}
	return t, nil
}
