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
	p.returned.Lock()
	switched := len(p.returned.waiting) > 0
	p.returned.Unlock()
	if p.deps.Allowed == nil || now == p.lists && !switched {
		return
	}
	p.listed.Add(1)
	bad, err := p.forbidden()
	if err != nil {
		p.tellUnreadable(head, err)
		return
	}
	p.lists = now
	if len(bad) == 0 {
		return
	}
	dropped, at := 0, p.now()
	p.mu.Lock()
	for a, f := range bad {
		dropped += p.book.relist(a, a.state.nonce, at, func(e *entry) bool { return !f.forbids(e) })
	}
	p.mu.Unlock()
	p.log.Info("dropped transactions that are no longer allowed", zap.Uint64("height", head.Number.Uint64()), zap.Int("dropped", dropped), zap.Int("accounts", len(bad)))
}

func (p *Pool) tellUnreadable(head *types.Header, err error) {
	p.log.Warn("the lists of accounts cannot be read; transactions that are no longer allowed stay for now", zap.Uint64("height", head.Number.Uint64()), zap.Error(err))
}

// prohibition is what the lists forbid an account that has transactions.
type prohibition struct{ send, create bool }

func (f prohibition) forbids(e *entry) bool { return f.send || f.create && e.tx.To() == nil }

// forbidden finds the accounts with transactions that are not allowed. The error says that the lists cannot be read: then
// nothing is known to be forbidden.
func (p *Pool) forbidden() (map[*account]prohibition, error) {
	bad := make(map[*account]prohibition)
	for from, a := range p.book.accounts {
		send, create := p.deps.Allowed(from, false), error(nil)
		for _, e := range a.all() {
			if send == nil && e.tx.To() == nil {
				create = p.deps.Allowed(from, true)
				break
			}
		}
		if err := errors.Join(send, create); errors.Is(err, ErrUnreadable) {
			return nil, err
		}
		if send != nil || create != nil {
			bad[a] = prohibition{send != nil, create != nil}
		}
	}
	return bad, nil
}
