package blockstore

import (
	"container/list"
	"sync"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// blockCache holds decoded blocks, the least recently used leave first. Cached blocks are shared and never changed.
type blockCache struct {
	limit int // bytes of encodings

	mu     sync.Mutex
	used   int
	blocks map[common.Hash]*list.Element // of *cached
	recent *list.List
}

type cached struct {
	b    *block.Block
	hash common.Hash
	size int
}

func newBlockCache(limit int) *blockCache {
	return &blockCache{limit: limit, blocks: make(map[common.Hash]*list.Element), recent: list.New()}
}

func (c *blockCache) get(hash common.Hash) *block.Block {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.blocks[hash]
	if e == nil {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*cached).b
}

// put keeps b, whose encoding has size bytes. A block larger than a quarter of the cache is not kept: it would drive
// out everything else.
func (c *blockCache) put(b *block.Block, size int) {
	if size > c.limit/4 {
		return
	}
	hash := b.Hash()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocks[hash] != nil {
		return
	}
	c.blocks[hash] = c.recent.PushFront(&cached{b, hash, size})
	for c.used += size; c.used > c.limit; {
		c.drop(c.recent.Back())
	}
}

func (c *blockCache) remove(hash common.Hash) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.blocks[hash]; e != nil {
		c.drop(e)
	}
}

func (c *blockCache) drop(e *list.Element) {
	x := e.Value.(*cached)
	c.recent.Remove(e)
	delete(c.blocks, x.hash)
	c.used -= x.size
}
