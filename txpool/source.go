package txpool

import (
	"container/heap"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// Source hands out the pool's executable transactions for one block: highest tip first, among equals the one seen
// first, each account's in nonce order. It is a snapshot and belongs to one goroutine.
type Source struct {
	heads   tipHeap
	baseFee *big.Int
}

// Source is a fresh source for a block with this base fee (nil: 0). Transactions that cannot pay it are left out,
// with those behind them.
func (p *Pool) Source(baseFee *big.Int) *Source {
	if baseFee == nil {
		baseFee = new(big.Int)
	}
	pending, _ := p.legacy.Content()
	s := &Source{baseFee: baseFee, heads: make(tipHeap, 0, len(pending))}
	for from, txs := range pending {
		a := &account{from: from, txs: txs}
		if a.price(baseFee) {
			s.heads = append(s.heads, a)
		}
	}
	heap.Init(&s.heads)
	return s
}

// Next is the best transaction left, nil at the end. It stays the next one until Shift or Pop.
func (s *Source) Next() *types.Transaction {
	if len(s.heads) == 0 {
		return nil
	}
	return s.heads[0].txs[0]
}

// Shift goes on to the following transaction of the same account: Next was put into the block, or skipped alone.
func (s *Source) Shift() {
	if len(s.heads) == 0 {
		return
	}
	a := s.heads[0]
	if a.txs = a.txs[1:]; a.price(s.baseFee) {
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

type account struct {
	from common.Address
	txs  []*types.Transaction
	tip  *big.Int
}

// price computes the tip of the account's first transaction; false if there is none or it cannot pay the base fee.
func (a *account) price(baseFee *big.Int) bool {
	if len(a.txs) == 0 {
		return false
	}
	tip, err := a.txs[0].EffectiveGasTip(baseFee)
	a.tip = tip
	return err == nil
}

type tipHeap []*account

func (h tipHeap) Len() int      { return len(h) }
func (h tipHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h tipHeap) Push(x any)    { panic("txpool: a source only shrinks") }
func (h tipHeap) Less(i, j int) bool {
	if c := h[i].tip.Cmp(h[j].tip); c != 0 {
		return c > 0
	}
	ti, tj := h[i].txs[0].Time(), h[j].txs[0].Time()
	if !ti.Equal(tj) {
		return ti.Before(tj)
	}
	return h[i].from.Cmp(h[j].from) < 0
}

func (h *tipHeap) Pop() any {
	old := *h
	n := len(old) - 1
	x := old[n]
	old[n] = nil
	*h = old[:n]
	return x
}
