package txpool

import (
	"slices"
	"sort"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"
)

// accountState is what the pool needs of an account at its head.
type accountState struct {
	nonce     uint64
	balance   uint256.Int
	delegated bool // it has code, which only a delegated account among senders has
}

// newAccountState reads an account; nil is one that does not exist, which is an ordinary empty one.
func newAccountState(a *types.StateAccount) accountState {
	if a == nil {
		return accountState{}
	}
	s := accountState{nonce: a.Nonce, delegated: common.BytesToHash(a.CodeHash) != types.EmptyCodeHash}
	if a.Balance != nil {
		s.balance = *a.Balance
	}
	return s
}

// isPenniless reports that the account has no balance and never sent a transaction.
func (s *accountState) isPenniless() bool { return s.nonce == 0 && s.balance.IsZero() }

// account holds one account's transactions, as of the pool's head: executable ones with the nonces state.nonce,
// state.nonce+1 and so on, then those behind a missing nonce.
//
// Readers outside the lock hold parts of executable (a Source). So an element that was visible is never overwritten:
// the list grows at its end, is cut at its front, and is replaced by a copy for every other change.
type account struct {
	addr       common.Address
	state      accountState
	executable []*entry
	gapped     []*entry // nonces ascending, the first above next()
	spent      uint256.Int
	cut        int     // entries cut from the front of executable's array
	tallied    tallied // its part of the book's counts
	dearest    uint256.Int
	largestGas uint64 // no entry has a larger gas limit, nor a cost above dearest
	headAt     int    // place in book.heads; -1: none
	gappedAt   int    // place in book.gapped; -1: none
	replaced   rate   // free replacements
}

func newAccount(addr common.Address, s accountState) *account {
	return &account{addr: addr, state: s, headAt: -1, gappedAt: -1}
}

// next is the account's nonce behind its executable transactions.
func (a *account) next() uint64 { return a.state.nonce + uint64(len(a.executable)) }

func (a *account) len() int { return len(a.executable) + len(a.gapped) }

// at is the entry with a nonce, or nil, and whether it is executable.
func (a *account) at(nonce uint64) (e *entry, executable bool) {
	if nonce >= a.state.nonce && nonce < a.next() {
		return a.executable[nonce-a.state.nonce], true
	}
	if i := a.gappedIndex(nonce); i < len(a.gapped) && a.gapped[i].nonce == nonce {
		return a.gapped[i], false
	}
	return nil, false
}

// gappedIndex is where a nonce stands, or would stand, among the gapped ones.
func (a *account) gappedIndex(nonce uint64) int {
	if n := len(a.gapped); n == 0 || a.gapped[n-1].nonce < nonce {
		return n
	}
	return sort.Search(len(a.gapped), func(i int) bool { return a.gapped[i].nonce >= nonce })
}

// all lists the entries in nonce order.
func (a *account) all() []*entry { return slices.Concat(a.executable, a.gapped) }

// noteCaps keeps dearest and largestGas above the entry.
func (a *account) noteCaps(e *entry) {
	if a.dearest.Lt(&e.cost) {
		a.dearest = e.cost
	}
	a.largestGas = max(a.largestGas, e.gas)
}

// appendExecutable adds an entry with the nonce next(). It refuses one with which the costs exceed 256 bits.
func (a *account) appendExecutable(e *entry) bool {
	sum, overflow := new(uint256.Int).AddOverflow(&a.spent, &e.cost)
	if overflow {
		return false
	}
	a.spent = *sum
	a.executable = append(a.executable, e)
	return true
}

// cutBelow drops the executable entries below a nonce from the front and returns them. The nonce must lie within them.
func (a *account) cutBelow(nonce uint64) (gone []*entry) {
	k := int(nonce - a.state.nonce) //nolint:gosec // within the list
	gone, a.executable = a.executable[:k:k], a.executable[k:]
	for _, e := range gone {
		a.spent.Sub(&a.spent, &e.cost)
	}
	a.state.nonce = nonce
	if a.cut += k; a.cut > len(a.executable)+64 { // the array keeps what was cut
		a.executable, a.cut = slices.Clone(a.executable), 0
	}
	return gone
}

// exchange puts e in the place of an executable entry of the same nonce.
func (a *account) exchange(old, e *entry) {
	a.executable, a.cut = slices.Clone(a.executable), 0
	a.executable[e.nonce-a.state.nonce] = e
	a.spent.Sub(&a.spent, &old.cost)
	a.spent.Add(&a.spent, &e.cost)
}
