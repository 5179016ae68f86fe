package senders

import (
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// Cache remembers the senders that it recovered, by the hash of the whole transaction: the hash covers the signature, so
// an entry can stand for no other sender. It keeps the newest in two generations and holds at most twice the entries that
// New was given. Its methods may be called from any goroutine.
type Cache struct {
	signer     types.Signer
	generation int
	recoveries atomic.Uint64

	mu          sync.Mutex
	young, aged map[common.Hash]common.Address
}

// New is an empty cache for the transactions that signer accepts. A generation has the given number of entries, at
// least one.
func New(signer types.Signer, generation int) *Cache {
	return &Cache{signer: signer, generation: max(generation, 1), young: make(map[common.Hash]common.Address)}
}

// Sender is the account that signed the transaction. The sender that the transaction carries from elsewhere is not
// believed; afterwards it carries the one returned, for types.Sender with an equal signer. recovered says that the
// signature had to be recovered. The error is the signer's.
func (c *Cache) Sender(tx *types.Transaction) (from common.Address, recovered bool, err error) {
	hash := tx.Hash()
	from, known := c.get(hash)
	if !known {
		if from, err = c.signer.Sender(tx); err != nil {
			return common.Address{}, true, err
		}
		c.recoveries.Add(1)
		c.put(hash, from)
	}
	Attach(c.signer, tx, from)
	return from, !known, nil
}

// Recoveries counts the signatures recovered since New.
func (c *Cache) Recoveries() uint64 { return c.recoveries.Load() }

func (c *Cache) get(hash common.Hash) (common.Address, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if from, ok := c.young[hash]; ok {
		return from, true
	}
	from, ok := c.aged[hash]
	if ok {
		c.insert(hash, from) // in use: it stays for another generation
	}
	return from, ok
}

func (c *Cache) put(hash common.Hash, from common.Address) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.insert(hash, from)
}

func (c *Cache) insert(hash common.Hash, from common.Address) {
	if len(c.young) >= c.generation {
		c.aged, c.young = c.young, make(map[common.Hash]common.Address)
	}
	c.young[hash] = from
}

// attached answers Sender with a given account. It equals the signer it stands for, so that types.Sender's cache, once
// filled through it, serves every later user of the transaction.
type attached struct {
	types.Signer
	from common.Address
}

func (s *attached) Sender(*types.Transaction) (common.Address, error) { return s.from, nil }

func (s *attached) Equal(o types.Signer) bool {
	if a, ok := o.(*attached); ok {
		o = a.Signer
	}
	return s.Signer.Equal(o)
}

// Attach makes from the sender that types.Sender gives for tx with an equal signer. The caller vouches for it. A
// transaction that carries a sender already keeps it.
func Attach(signer types.Signer, tx *types.Transaction, from common.Address) {
	_, _ = types.Sender(&attached{signer, from}, tx) // cannot fail
}
