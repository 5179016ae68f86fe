package node

import (
	"math/big"
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/event"

	"github.com/bornode/bornode/txpool"
)

// latePool is the transaction pool as the other parts of a node hold it. A pool needs the state of the head; while the
// chain still executes blocks again there is none, everything offered is refused with notYet, and nothing is in it.
// Safe for concurrent use.
type latePool struct {
	notYet func() error // why there is no pool yet

	pool   atomic.Pointer[txpool.Pool]
	opened chan struct{} // closed when pool is set
	ended  chan struct{} // closed by Close
	once   sync.Once
}

func newLatePool(notYet func() error) *latePool {
	return &latePool{notYet: notYet, opened: make(chan struct{}), ended: make(chan struct{})}
}

// open puts the pool in; once.
func (l *latePool) open(p *txpool.Pool) {
	l.pool.Store(p)
	close(l.opened)
}

// Close closes the pool, if there is one.
func (l *latePool) Close() (err error) {
	l.once.Do(func() {
		close(l.ended)
		if p := l.pool.Load(); p != nil {
			err = p.Close()
		}
	})
	return err
}

// Add is txpool.Pool.Add. What a node without a pool refuses it never had: nothing is lost.
func (l *latePool) Add(txs []*types.Transaction, local bool) []error {
	if p := l.pool.Load(); p != nil {
		return p.Add(txs, local)
	}
	errs := make([]error, len(txs))
	for i := range errs {
		errs[i] = l.notYet()
	}
	return errs
}

func (l *latePool) Has(h common.Hash) bool {
	p := l.pool.Load()
	return p != nil && p.Has(h)
}

func (l *latePool) Get(h common.Hash) *types.Transaction {
	if p := l.pool.Load(); p != nil {
		return p.Get(h)
	}
	return nil
}

// Nonce is 0 without a pool: callers that answer others ask notYet before.
func (l *latePool) Nonce(a common.Address) uint64 {
	if p := l.pool.Load(); p != nil {
		return p.Nonce(a)
	}
	return 0
}

func (l *latePool) Stats() (pending, queued int) {
	if p := l.pool.Load(); p != nil {
		return p.Stats()
	}
	return 0, 0
}

func (l *latePool) Content() (pending, queued map[common.Address][]*types.Transaction) {
	if p := l.pool.Load(); p != nil {
		return p.Content()
	}
	return nil, nil
}

func (l *latePool) ContentFrom(a common.Address) (pending, queued []*types.Transaction) {
	if p := l.pool.Load(); p != nil {
		return p.ContentFrom(a)
	}
	return nil, nil
}

func (l *latePool) Pending() []common.Hash {
	if p := l.pool.Load(); p != nil {
		return p.Pending()
	}
	return nil
}

// Source is txpool.Pool.Source; nil without a pool.
func (l *latePool) Source(baseFee *big.Int) *txpool.Source {
	if p := l.pool.Load(); p != nil {
		return p.Source(baseFee)
	}
	return nil
}

func (l *latePool) HeadChanged() {
	if p := l.pool.Load(); p != nil {
		p.HeadChanged()
	}
}

func (l *latePool) Abandoned(txs types.Transactions) {
	if p := l.pool.Load(); p != nil {
		p.Abandoned(txs)
	}
}

// Subscribe is txpool.Pool.Subscribe, from when there is a pool.
func (l *latePool) Subscribe(ch chan<- types.Transactions) event.Subscription {
	if p := l.pool.Load(); p != nil {
		return p.Subscribe(ch)
	}
	return event.NewSubscription(func(quit <-chan struct{}) error {
		select {
		case <-l.opened:
		case <-l.ended:
			return nil
		case <-quit:
			return nil
		}
		sub := l.pool.Load().Subscribe(ch)
		defer sub.Unsubscribe()
		select {
		case err := <-sub.Err():
			return err
		case <-quit:
			return nil
		}
	})
}
