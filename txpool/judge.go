package txpool

import (
	"fmt"

	"github.com/ethereum/go-ethereum/core"
	gethpool "github.com/ethereum/go-ethereum/core/txpool"
	"github.com/holiman/uint256"
)

// checkState judges an entry by its account: the nonce is not used, and the balance covers the entry alone and together
// with the executable ones. old has its nonce, if there is one. The rules and the texts are those of go-ethereum's
// ValidateTransactionWithState, which takes a state instead of an account; a test compares the two.
func (a *account) checkState(e, old *entry, executable bool) error {
	if e.nonce < a.state.nonce {
		return fmt.Errorf("%w: next nonce %v, tx nonce %v", core.ErrNonceTooLow, a.state.nonce, e.nonce)
	}
	balance := &a.state.balance
	if balance.Lt(&e.cost) {
		return fmt.Errorf("%w: balance %v, tx cost %v, overshot %v", core.ErrInsufficientFunds, balance, &e.cost, new(uint256.Int).Sub(&e.cost, balance))
	}
	before := a.spent
	if executable {
		before.Sub(&before, &old.cost)
	}
	need, overflow := new(uint256.Int).AddOverflow(&before, &e.cost)
	if !overflow && !balance.Lt(need) {
		return nil
	}
	overshot := new(uint256.Int).Sub(need, balance)
	if executable {
		bump := new(uint256.Int).Sub(&e.cost, &old.cost)
		return fmt.Errorf("%w: balance %v, queued cost %v, tx bumped %s, overshot %v", core.ErrInsufficientFunds, balance, &a.spent, signedText(bump), overshot)
	}
	return fmt.Errorf("%w: balance %v, queued cost %v, tx cost %v, overshot %v", core.ErrInsufficientFunds, balance, &a.spent, &e.cost, overshot)
}

// signedText writes a difference in two's complement.
func signedText(x *uint256.Int) string {
	if x.Sign() < 0 {
		return "-" + new(uint256.Int).Neg(x).Dec()
	}
	return x.Dec()
}

// checkDelegation bounds what may become worthless at once (EIP-7702). Anyone's transaction may take the balance of a
// delegated account, or of one whose authorisation waits in the pool, so such an account has one transaction waiting,
// executable or to be replaced; and an account that has more of its own waiting cannot be made such a one.
func (b *book) checkDelegation(a *account, e *entry, replacesExecutable bool) error {
	if (a.state.delegated || b.delegating[a.addr] > 0) && !replacesExecutable {
		if len(a.executable) > 0 {
			return gethpool.ErrInflightTxLimitReached
		}
		if e.nonce != a.next() {
			return errGappedDelegated
		}
	}
	for _, authority := range e.authorities {
		if o := b.accounts[authority]; o != nil && o.len() > 1 {
			return errAuthorityReserved
		}
	}
	return nil
}
