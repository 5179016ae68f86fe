package txpool

import (
	"container/heap"
	"math/big"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"
)

// Source hands out the pool's executable transactions for one block: highest tip first, among equals the one seen
// first, each account's in nonce order. It is a snapshot and belongs to one goroutine; what the pool does meanwhile
// changes nothing in it.
type Source struct {
	heads   tipHeap
	baseFee uint256.Int
}

// Source is a fresh source for a block with this base fee (nil: 0). Transactions that cannot pay it are left out,
// with those behind them. It holds the pool's lock while it copies one slice header per account.
func (p *Pool) Source(baseFee *big.Int) *Source {
	s := new(Source)
	if baseFee != nil && s.baseFee.SetFromBig(baseFee) {
		return s // nobody can pay it
	}
	runs := p.executableRuns()
	s.heads = make(tipHeap, 0, len(runs))
	for _, txs := range runs {
		h := head{txs: txs}
		if h.price(&s.baseFee) {
			s.heads = append(s.heads, h)
		}
	}
	heap.Init(&s.heads)
	return s
}

// executableRuns is the executable entries of every account that has some; nothing of them changes.
func (p *Pool) executableRuns() [][]*entry {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return slices.Clone(p.book.heads)
}

// Next is the best transaction left, nil at the end. It stays the next one until Shift or Pop.
func (s *Source) Next() *types.Transaction {
	if len(s.heads) == 0 {
		return nil
	}
	return s.heads[0].txs[0].tx
}

// Shift goes on to the following transaction of the same account: Next was put into the block, or skipped alone.
func (s *Source) Shift() {
	if len(s.heads) == 0 {
		return
	}
	h := &s.heads[0]
	if h.txs = h.txs[1:]; h.price(&s.baseFee) {
		heap.Fix(&s.heads, 0)
		return
	}
	heap.Pop(&s.heads)
}

// Pop leaves out the whole account: Next cannot be executed, so none behind it can.
func (s *Source) Pop() {
	if len(s.heads) > 0 {
		heap.Pop(&s.heads)
	}
}

// head is what is left of an account's executable entries, with the tip and the arrival of the first.
type head struct {
	txs  []*entry
	tip  uint256.Int
	seen time.Time
}

// price reads the first entry; false if there is none or it cannot pay the base fee.
func (h *head) price(baseFee *uint256.Int) (payable bool) {
	if len(h.txs) == 0 {
		return false
	}
	h.seen = h.txs[0].tx.Time()
	h.tip, payable = h.txs[0].effectiveTip(baseFee)
	return payable
}

type tipHeap []head

func (h tipHeap) Len() int      { return len(h) }
func (h tipHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h tipHeap) Push(x any)    { panic("txpool: a source only shrinks") }
func (h tipHeap) Less(i, j int) bool {
	if c := h[i].tip.Cmp(&h[j].tip); c != 0 {
		return c > 0
	}
	if !h[i].seen.Equal(h[j].seen) {
		return h[i].seen.Before(h[j].seen)
	}
	return h[i].txs[0].from.Cmp(h[j].txs[0].from) < 0
}

func (h *tipHeap) Pop() any {
	old := *h
	n := len(old) - 1
	old[n] = head{}
	*h = old[:n]
	return nil // nobody asks: the element is gone
}
