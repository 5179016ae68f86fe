package txpool

import (
	"errors"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
)

// lists stands for everything that Allowed judges by: the storage roots of Members and Producers.
type lists [2]common.Hash

func (p *Pool) listsAt(head *types.Header) (lists, error) {
	if p.deps.Allowed == nil {
		return lists{}, nil
	}
	s, err := p.chain.StateAt(head)
	if err != nil {
		return lists{}, err
	}
	l := lists{s.GetStorageRoot(contracts.MembersAddress), s.GetStorageRoot(contracts.ProducersAddress)}
	return l, s.Error()
}

// dropForbidden drops what is no longer allowed, if the lists may have changed: no block takes it, and executable
// transactions never expire. After a branch switch it looks too: what came in meanwhile was judged by the lists of
// either branch.
func (p *Pool) dropForbidden(head *types.Header) {
	now, err := p.listsAt(head)
	if err != nil { // looked at again at the next head
		p.tellUnreadable(head, err)
		return
	}
	p.mu.Lock()
	switched := len(p.mu.abandoned) > 0
	p.mu.Unlock()
	if p.deps.Allowed == nil || now == p.lists && !switched {
		return
	}
	gone, keep, dropped, err := p.forbidden()
	if err != nil {
		p.tellUnreadable(head, err)
		return
	}
	p.lists = now
	if dropped == 0 {
		return
	}
	p.dropping.Lock()
	p.adapter.gone.Store(&gone)
	p.legacy.Reset(nil, head)
	p.adapter.gone.Store(nil)
	p.legacy.Reset(nil, head)
	p.legacy.Add(keep, true)
	p.dropping.Unlock()
	p.log.Info("dropped transactions that are no longer allowed", zap.Uint64("height", head.Number.Uint64()), zap.Int("dropped", dropped), zap.Int("accounts", len(gone)))
}

func (p *Pool) tellUnreadable(head *types.Header, err error) {
	p.log.Warn("the lists of accounts cannot be read; transactions that are no longer allowed stay for now", zap.Uint64("height", head.Number.Uint64()), zap.Error(err))
}

// forbidden finds the accounts with transactions that are not allowed, and the other transactions of those accounts. The
// error says that the lists cannot be read: then nothing is known to be forbidden.
func (p *Pool) forbidden() (gone map[common.Address]bool, keep []*types.Transaction, dropped int, err error) {
	gone = make(map[common.Address]bool)
	all, queued := p.legacy.Content()
	for from, txs := range queued {
		all[from] = append(all[from], txs...) // their nonces lie above the executable ones
	}
	for from, txs := range all {
		send, create := p.deps.Allowed(from, false), error(nil)
		var good []*types.Transaction
		for _, tx := range txs {
			if create == nil && send == nil && tx.To() == nil {
				create = p.deps.Allowed(from, true)
			}
			if send == nil && (tx.To() != nil || create == nil) {
				good = append(good, tx)
			}
		}
		if err := errors.Join(send, create); errors.Is(err, ErrUnreadable) {
			return nil, nil, 0, err
		}
		if len(good) < len(txs) {
			gone[from], keep, dropped = true, append(keep, good...), dropped+len(txs)-len(good)
		}
	}
	return gone, keep, dropped, nil
}

// splitAllowed splits transactions by the answers of precheck. What nobody could judge is kept, and judged at the next head.
func (p *Pool) splitAllowed(txs types.Transactions, errs []error) (yes, no types.Transactions) {
	for i, tx := range txs {
		if errors.Is(errs[i], ErrUnreadable) {
			p.lists = lists{}
		}
		if errors.Is(errs[i], ErrNotAllowed) {
			no = append(no, tx)
		} else {
			yes = append(yes, tx)
		}
	}
	return yes, no
}
