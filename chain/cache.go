package chain

import (
	"container/list"
	"sync"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
)

// bodyCache keeps recently used blocks, bounded by the bytes of their transactions. Safe for concurrent use.
type bodyCache struct {
	mu    sync.Mutex
	limit uint64
	size  uint64
	order *list.List // of *bodyEntry, most recently used first
	byID  map[common.Hash]*list.Element
}

type bodyEntry struct {
	hash common.Hash
	b    *block.Block
	size uint64
}

func newBodyCache(limit uint64) *bodyCache {
	return &bodyCache{limit: limit, order: list.New(), byID: make(map[common.Hash]*list.Element)}
}

func (c *bodyCache) get(h common.Hash) *block.Block {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byID[h]
	if e == nil {
		return nil
	}
	c.order.MoveToFront(e)
	return e.Value.(*bodyEntry).b
}

func (c *bodyCache) put(b *block.Block) {
	h, size := b.Hash(), uint64(2048+len(b.Received()))
	for _, tx := range b.Transactions {
		size += tx.Size() + 512 // what a decoded transaction takes beside its bytes
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byID[h]; e != nil {
		c.order.MoveToFront(e)
		return
	}
	c.byID[h] = c.order.PushFront(&bodyEntry{h, b, size})
	for c.size += size; c.size > c.limit && c.order.Len() > 1; {
		e := c.order.Back()
		x := c.order.Remove(e).(*bodyEntry)
		delete(c.byID, x.hash)
		c.size -= x.size
	}
}

func (c *bodyCache) remove(h common.Hash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byID[h]; e != nil {
		c.size -= c.order.Remove(e).(*bodyEntry).size
		delete(c.byID, h)
	}
}
