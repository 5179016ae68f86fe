package txpool

import (
	"fmt"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	"go.uber.org/zap"
)

// Chain is what the pool reads. The methods are called from the pool's goroutines, possibly at the same time.
type Chain interface {
	Config() *params.ChainConfig
	Params() block.Parameters                        // of the executed head's child
	CurrentHeader() *types.Header                    // executed head, never nil
	StateAt(h *types.Header) (*state.StateDB, error) // a fresh value that the pool owns
	// ChangedAccounts lists all accounts whose nonce, balance or code may differ between the states after two executed
	// blocks, on whichever branches; an account may be listed twice. known is false if the chain does not remember.
	ChangedAccounts(from, to *types.Header) (changed []common.Address, known bool)
}

// view is the accounts at the pool's head. Safe for concurrent use.
type view struct {
	header   *types.Header
	hash     common.Hash
	rules    params.Rules
	accounts state.StateReader
}

func (p *Pool) openView(h *types.Header) (*view, error) {
	s, err := p.chain.StateAt(h)
	if err != nil {
		return nil, err
	}
	rules := p.chain.Config().Rules(h.Number, h.Difficulty.Sign() == 0, h.Time)
	return &view{header: h, hash: h.Hash(), rules: rules, accounts: s.Reader()}, nil
}

func (v *view) account(addr common.Address) (accountState, error) {
	a, err := v.accounts.Account(addr)
	if err != nil {
		return accountState{}, err
	}
	return newAccountState(a), nil
}

// accountAt reads an account at the pool's head. A state that the chain keeps in another place by now, since it
// executed many blocks more, is opened again.
func (p *Pool) accountAt(addr common.Address) (accountState, error) {
	v := p.view.Load()
	s, err := v.account(addr)
	if err == nil {
		return s, nil
	}
	again, e := p.openView(v.header)
	if e != nil {
		return accountState{}, fmt.Errorf("%w %s: %w", errUnreadableState, v.header.Number, e)
	}
	p.view.CompareAndSwap(v, again)
	if s, err = again.account(addr); err != nil {
		return accountState{}, fmt.Errorf("%w %s: %w", errUnreadableState, v.header.Number, err)
	}
	return s, nil
}

// follow moves the pool to a head: the accounts that differ between the states are examined again, all of them where
// the chain does not know which, or where the head's rules or gas limit may exclude what was admitted.
func (p *Pool) follow(h *types.Header) error {
	next, err := p.openView(h)
	if err != nil {
		return err
	}
	last := p.view.Load()
	changed, known := p.chain.ChangedAccounts(last.header, h)
	p.view.Store(next)
	p.setFees()
	if next.rules != last.rules {
		p.dropInvalid()
	}
	if known && !p.examineAll && h.GasLimit >= last.header.GasLimit {
		p.examine(changed, h)
		return nil
	}
	p.examineAll = false
	all := make([]common.Address, 0, len(p.book.accounts))
	for addr := range p.book.accounts {
		all = append(all, addr)
	}
	p.examine(all, h)
	return nil
}

// examine moves accounts to their state at the head, a few at a time under the lock. After a failure to read one all are
// examined at the next head.
func (p *Pool) examine(addrs []common.Address, h *types.Header) {
	type move struct {
		a *account
		s accountState
	}
	moves := make([]move, 0, examineChunk)
	apply := func() {
		now := p.now()
		p.mu.Lock()
		for _, m := range moves {
			p.book.advance(m.a, m.s, h.GasLimit, now)
		}
		p.mu.Unlock()
		moves = moves[:0]
	}
	for _, addr := range addrs {
		a := p.book.accounts[addr]
		if a == nil {
			continue
		}
		s, err := p.accountAt(addr)
		if err != nil {
			p.examineAll = true
			p.log.Warn("the pool cannot read an account; its transactions are examined again at the next block",
				zap.Uint64("height", h.Number.Uint64()), zap.Stringer("account", addr), zap.Error(err))
			continue
		}
		if moves = append(moves, move{a, s}); len(moves) == cap(moves) {
			apply()
		}
	}
	apply()
}

// dropInvalid drops what the rules of the head exclude that were not in force when it was admitted.
func (p *Pool) dropInvalid() {
	now := p.now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.book.accounts {
		p.book.relist(a, a.state.nonce, now, func(e *entry) bool { return p.validate(e.tx) == nil })
	}
}
