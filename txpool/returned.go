package txpool

import (
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"
)

// abandoned are transactions of blocks that left the executed branch.
type abandoned struct {
	txs   types.Transactions
	tries int
	head  common.Hash // head at the last try
}

// abandonedTries is how many heads a returned transaction is offered to. The first ones may still contain it, when the
// call came before the chain had left the old branch.
const abandonedTries = 4

// Abandoned gives the pool the transactions of blocks that left the executed branch, oldest block first. They were
// accepted once, so no limit applies to them but the widest. It never blocks.
func (p *Pool) Abandoned(txs types.Transactions) {
	if len(txs) == 0 {
		return
	}
	p.returned.Lock()
	p.returned.waiting = append(p.returned.waiting, abandoned{txs: txs})
	p.returned.Unlock()
	p.HeadChanged()
}

// readd puts abandoned transactions back, at each head once.
func (p *Pool) readd(head common.Hash) {
	p.returned.Lock()
	work := p.returned.waiting
	p.returned.waiting = nil
	p.returned.Unlock()
	var again []abandoned
	for _, w := range work {
		if w.head == head {
			again = append(again, w)
			continue
		}
		errs := p.putBack(w.txs)
		var left types.Transactions
		added := 0
		for i, err := range errs {
			switch {
			case err == nil:
				added++
			case errors.Is(err, ErrNonceTooLow), errors.Is(err, ErrNotAllowed):
				left = append(left, w.txs[i])
			}
		}
		p.metrics.readded.Add(float64(added))
		if added > 0 {
			p.log.Info("transactions of abandoned blocks are back in the pool", zap.Int("added", added), zap.Int("abandoned", len(w.txs)))
		}
		if w.tries++; len(left) > 0 && w.tries < abandonedTries {
			again = append(again, abandoned{txs: left, tries: w.tries, head: head})
		}
	}
	if len(again) > 0 {
		p.returned.Lock()
		p.returned.waiting = append(again, p.returned.waiting...)
		p.returned.Unlock()
	}
}

// putBack enters transactions that were accepted once, and returns one error per transaction. What nobody could judge
// by the lists is taken, and judged at the next head.
func (p *Pool) putBack(txs []*types.Transaction) []error {
	errs := make([]error, len(txs))
	entries := p.precheck(txs, errs, false)
	for i, e := range entries {
		if errors.Is(errs[i], ErrUnreadable) {
			p.lists, errs[i] = lists{}, nil
		}
		if errs[i] == nil {
			errs[i] = p.enter(e, false)
		}
	}
	return errs
}
