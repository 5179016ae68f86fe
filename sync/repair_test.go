package blocksync

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

// modelRepairs is the owner of a model's damaged blocks: what a read of the model meets is noted, and a reader waits
// until it is replaced or nobody can send it.
type modelRepairs struct {
	n      *modelNode
	wanted chan struct{}

	mu         sync.Mutex
	noted      map[uint64]bool
	changed    chan struct{} // closed and replaced when a block was replaced or said to be impossible
	impossible map[uint64]error
	waiting    int
}

func newModelRepairs(n *modelNode) *modelRepairs {
	return &modelRepairs{n: n, wanted: make(chan struct{}, 1), noted: make(map[uint64]bool), changed: make(chan struct{}), impossible: make(map[uint64]error)}
}

func (r *modelRepairs) wake() {
	select {
	case r.wanted <- struct{}{}:
	default:
	}
}

// note is what a reader's damage does.
func (r *modelRepairs) note(height uint64) {
	r.mu.Lock()
	r.noted[height] = true
	delete(r.impossible, height)
	r.mu.Unlock()
	r.wake()
}

func (r *modelRepairs) Damaged() []uint64 {
	whole := make(map[uint64]bool)
	r.mu.Lock()
	noted := slices.Sorted(maps.Keys(r.noted))
	r.mu.Unlock()
	r.n.do(func() {
		for _, h := range noted {
			whole[h] = !r.n.corrupt[h]
		}
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.noted, func(h uint64, _ bool) bool { return whole[h] })
	return slices.Sorted(maps.Keys(r.noted))
}

func (r *modelRepairs) RepairsWanted() <-chan struct{} { return r.wanted }

func (r *modelRepairs) RepairImpossible(height uint64, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.impossible[height] = cause
	r.tell()
}

func (r *modelRepairs) tell() {
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *modelRepairs) replaced() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell()
}

func (r *modelRepairs) ReadRepaired(ctx context.Context, read func() error) error {
	for {
		r.mu.Lock()
		changed := r.changed
		r.mu.Unlock()
		err := read()
		var c *corruptError
		if !errors.As(err, &c) {
			return err
		}
		r.note(c.height)
		r.mu.Lock()
		r.waiting++
		r.mu.Unlock()
		select {
		case <-ctx.Done():
			err = errors.Join(err, context.Cause(ctx))
		case <-changed:
			err = nil
		}
		r.mu.Lock()
		r.waiting--
		if cause := r.impossible[c.height]; err == nil && cause != nil {
			err = errors.Join(c, cause)
		}
		r.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

func (r *modelRepairs) cause(height uint64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.impossible[height]
}

// A peer that asks for a range with a damaged block gets what lies before it, and then, without an error, the block as
// it was fetched again.
func TestARangeWaitsForTheRepair(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(100, chainShape{})
		a := l.node("a", chain)
		a.do(func() { a.corrupt[40] = true })
		source := l.script("source", a).at(chain[100], chain[98], 99).hello()
		source.next(0, TypeNotice)
		asker := l.script("asker", a).at(chain[10], chain[8], 9).hello()
		asker.next(0, TypeNotice)
		asker.send(transport.LaneConsensus, TypeSyncRequest, (&SyncRequest{Start: 30, End: 50, ReqIndex: 77}).Encode())
		r := source.syncRequest()
		require.Equal(l.t, SyncRequest{Start: 40, End: 40, ReqIndex: r.ReqIndex}, *r)
		for h := uint64(30); h < 40; h++ {
			require.Equal(l.t, h, asker.rangeBlock().Height, "what lies before the damage does not wait")
		}
		source.answer(r.ReqIndex, chain[40:41])
		for h := uint64(40); h <= 50; h++ {
			got := asker.rangeBlock()
			require.Equal(l.t, h, got.Height)
			require.Equal(l.t, chain[h].Encode(), got.Raw)
		}
	})
}

// Without a peer that has the block its readers are told at once, and again when they ask again; one that comes later
// mends it.
func TestReadersAreToldThatNoPeerHasTheBlock(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(100, chainShape{})
		a := l.node("a", chain)
		a.do(func() { a.corrupt[40] = true })
		for range 2 {
			err := a.repairs.ReadRepaired(l.t.Context(), func() error { return a.Range(40, 40, 1<<20, func(uint64, []byte) error { return nil }) })
			require.ErrorIs(l.t, err, errNoSource)
		}
		b := l.node("b", chain)
		b.dial(a.host)
		l.eventually(func() bool { var ok bool; a.do(func() { ok = !a.corrupt[40] }); return ok }, "repaired by a peer that came later")
	})
}

// More damaged blocks than are fetched at the same time: the readers of those that wait for room are told too.
func TestReadersBeyondTheRepairsUnderWayAreTold(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(2*maxRepairs, chainShape{})
		a := l.node("a", chain)
		for h := uint64(1); h < maxRepairs+20; h++ {
			a.do(func() { a.corrupt[h] = true })
			a.repairs.note(h)
		}
		l.eventually(func() bool { return a.repairs.cause(maxRepairs+10) != nil }, "told")
		b := l.node("b", chain)
		b.dial(a.host)
		l.eventually(func() bool { var ok bool; a.do(func() { ok = len(a.corrupt) == 0 }); return ok }, "all repaired")
	})
}

// What no peer has keeps nothing else waiting: neither blocks that all pruned, nor those that this node pruned meanwhile.
func TestBlocksThatNobodyHasKeepNoneWaiting(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(300, chainShape{})
		a, b := l.node("a", chain), l.node("b", chain)
		b.do(func() { b.pruned = 100 })
		b.dial(a.host)
		for h := uint64(1); h <= maxRepairs+10; h++ {
			a.do(func() { a.corrupt[h] = true })
			a.repairs.note(h)
		}
		l.eventually(func() bool { return a.repairs.cause(maxRepairs+10) != nil }, "told that nobody has them")
		a.do(func() { a.corrupt[200] = true })
		a.repairs.note(200)
		l.eventually(func() bool { var ok bool; a.do(func() { ok = !a.corrupt[200] }); return ok }, "one that a peer has is fetched")
		a.do(func() {
			a.pruned = 100
			clear(a.corrupt)
		})
		l.eventually(func() bool {
			open := make(chan int, 1)
			a.m.post(func() { open <- len(a.m.repairs) })
			return <-open == 0
		}, "what was pruned is not wanted any more")
	})
}

// The same for receipts.
func TestReceiptsThatNobodyHasKeepNoneWaiting(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(40, chainShape{gas: receiptsGas})
		var have, lacks *modelReceipts
		b := l.node("b", chain, withReceipts(&have))
		b.dial(l.node("a", chain, withReceipts(&lacks)).host)
		for h := uint64(1); h <= maxReceiptRepairs+2; h++ {
			have.lose(h)
			lacks.lose(h)
		}
		l.eventually(func() bool { return lacks.cause(maxReceiptRepairs+2) != nil }, "told that nobody has them")
		lacks.lose(20)
		l.eventually(func() bool { return !slices.Contains(lacks.LostReceipts(), 20) }, "those that a peer has are fetched")
	})
}

// A peer that does not answer makes no reader wait: another one is asked besides, and the answer of either counts.
func TestASilentPeerKeepsNoReaderWaiting(t *testing.T) {
	for _, late := range []bool{false, true} {
		onMem(t, func(l *lab) {
			chain := newChain(100, chainShape{})
			a := l.node("a", chain)
			connect := func(name string) *script {
				s := l.script(name, a).at(chain[100], chain[98], 99).hello()
				s.next(0, TypeNotice)
				return s
			}
			silent := connect("silent")
			a.do(func() { a.corrupt[40] = true })
			a.repairs.note(40)
			first := silent.syncRequest()
			other := connect("other")
			began := time.Now()
			second := other.syncRequest()
			require.Less(t, time.Since(began), a.m.cfg.RequestTimeout/2)
			if late {
				silent.answer(first.ReqIndex, chain[40:41])
			} else {
				other.answer(second.ReqIndex, chain[40:41])
			}
			l.eventually(func() bool { var ok bool; a.do(func() { ok = !a.corrupt[40] }); return ok }, "repaired")
		})
	}
}

// Of a run of blocks that can be placed from its end alone, the last is fetched first and the others follow, each once or nearly so.
func TestARunOfBlocksIsRepairedFromItsEnd(t *testing.T) {
	onMem(t, func(l *lab) {
		const low, high = 10, 10 + 2*maxRepairs
		chain := newChain(high+50, chainShape{})
		a, b := l.node("a", chain), l.node("b", chain)
		b.dial(a.host)
		l.eventually(func() bool { return handshaken(a.m) == 1 }, "linked")
		a.do(func() {
			a.fromTheEnd, a.onDamage = true, a.repairs.note
			for h := uint64(low); h <= high; h++ {
				a.corrupt[h] = true
			}
		})
		for h := uint64(low); h < high; h++ { // nobody met the last one
			a.repairs.note(h)
		}
		l.eventually(func() bool { var ok bool; a.do(func() { ok = len(a.corrupt) == 0 }); return ok }, "all are repaired")
		var tries int
		a.do(func() { tries = a.replacing })
		require.Less(t, tries, 4*(high-low), "tries to place one of %d", high-low+1)
	})
}
