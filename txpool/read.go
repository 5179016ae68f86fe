package txpool

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// Has reports whether the pool holds the transaction.
func (p *Pool) Has(hash common.Hash) bool { return p.find(hash) != nil }

// Get is a transaction of the pool, or nil.
func (p *Pool) Get(hash common.Hash) *types.Transaction {
	if e := p.find(hash); e != nil {
		return e.tx
	}
	return nil
}

func (p *Pool) find(hash common.Hash) *entry {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.book.byHash[hash]
}

// Nonce is the account's next nonce after all its executable transactions in the pool; 0 if its state cannot be read.
func (p *Pool) Nonce(addr common.Address) uint64 {
	if next, ok := p.nextNonce(addr); ok {
		return next
	}
	s, err := p.accountAt(addr)
	if next, ok := p.nextNonce(addr); ok { // its first transaction came meanwhile
		return next
	}
	if err != nil {
		return 0
	}
	return s.nonce
}

func (p *Pool) nextNonce(addr common.Address) (next uint64, pooled bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if a := p.book.accounts[addr]; a != nil {
		return a.next(), true
	}
	return 0, false
}

// Stats counts the executable transactions and those that wait for a missing nonce.
func (p *Pool) Stats() (pending, queued int) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.book.executable, p.book.waiting
}

// Content lists executable and waiting transactions by account, in nonce order. The slices are the caller's.
func (p *Pool) Content() (pending, queued map[common.Address][]*types.Transaction) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	pending = make(map[common.Address][]*types.Transaction, len(p.book.heads))
	queued = make(map[common.Address][]*types.Transaction, len(p.book.gapped))
	for addr, a := range p.book.accounts {
		if len(a.executable) > 0 {
			pending[addr] = transactionsOf(a.executable)
		}
		if len(a.gapped) > 0 {
			queued[addr] = transactionsOf(a.gapped)
		}
	}
	return pending, queued
}

// ContentFrom is Content of one account.
func (p *Pool) ContentFrom(addr common.Address) (pending, queued []*types.Transaction) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if a := p.book.accounts[addr]; a != nil {
		return transactionsOf(a.executable), transactionsOf(a.gapped)
	}
	return nil, nil
}

func transactionsOf(entries []*entry) (txs []*types.Transaction) {
	for _, e := range entries {
		txs = append(txs, e.tx)
	}
	return txs
}

// Pending is the hashes of all executable transactions, each account's in nonce order.
func (p *Pool) Pending() []common.Hash {
	runs, n := p.executableRuns(), 0
	for _, txs := range runs {
		n += len(txs)
	}
	hashes := make([]common.Hash, 0, n)
	for _, txs := range runs {
		for _, e := range txs {
			hashes = append(hashes, e.hash)
		}
	}
	return hashes
}
