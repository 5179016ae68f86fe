package chain

import (
	"fmt"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
)

// Config is go-ethereum's chain configuration, Genesis block 0.
func (c *Chain) Config() *params.ChainConfig { return c.config }
func (c *Chain) Genesis() *block.Block       { return c.genesis }

// Sealed is the header, record and seal of any stored block, on whatever branch; nil if unknown.
func (c *Chain) Sealed(h common.Hash) *block.SealedHeader {
	if n := c.node(h); n != nil {
		return n.sealed
	}
	if s, ok := c.headers.Get(h); ok {
		return s
	}
	s, err := c.store.Header(h)
	if err != nil {
		return nil
	}
	c.headers.Add(h, s)
	return s
}

// HeaderByHash is Sealed without record and seal.
func (c *Chain) HeaderByHash(h common.Hash) *types.Header {
	if s := c.Sealed(h); s != nil {
		return s.Header
	}
	return nil
}

// sealedByNumber is the block of a height on the executed branch.
func (c *Chain) sealedByNumber(n uint64) *block.SealedHeader {
	c.mu.RLock()
	x, lib := c.tree.at(n), c.tree.lib.height
	c.mu.RUnlock()
	if x != nil {
		return x.sealed
	}
	if n > lib {
		return nil
	}
	if h, ok := c.hashes.Get(n); ok {
		if s, ok := c.headers.Get(h); ok {
			return s
		}
	}
	s, err := c.store.HeaderByHeight(n)
	if err != nil {
		return nil
	}
	c.headers.Add(s.Hash(), s)
	c.hashes.Add(n, s.Hash())
	return s
}

// HeaderByNumber follows the executed branch; nil above its head and below the first block kept.
func (c *Chain) HeaderByNumber(n uint64) *types.Header {
	if s := c.sealedByNumber(n); s != nil {
		return s.Header
	}
	return nil
}

// CanonicalHash is the hash at a height of the executed branch, or zero.
func (c *Chain) CanonicalHash(n uint64) common.Hash {
	if s := c.sealedByNumber(n); s != nil {
		return s.Hash()
	}
	return common.Hash{}
}

// BlockByHash is any stored block; nil if unknown.
func (c *Chain) BlockByHash(h common.Hash) *block.Block {
	b, err := c.body(h)
	if err != nil {
		return nil
	}
	return b
}

// BlockByNumber follows the executed branch; nil above its head and below the first block kept.
func (c *Chain) BlockByNumber(n uint64) *block.Block {
	if h := c.CanonicalHash(n); h != (common.Hash{}) {
		return c.BlockByHash(h)
	}
	return nil
}

// Logs are those of an executed block, in order.
func (c *Chain) Logs(h common.Hash) ([]*types.Log, error) {
	rs, err := c.Receipts(h)
	return logsOf(rs), err
}

// Transaction finds a transaction on the executed branch.
func (c *Chain) Transaction(h common.Hash) (tx *types.Transaction, blockHash common.Hash, height, index uint64, ok bool) {
	blockHash, height, index, ok = c.receipts.transaction(h)
	if !ok || c.CanonicalHash(height) != blockHash {
		var err error
		if blockHash, height, index, err = c.store.Transaction(h); err != nil {
			return nil, common.Hash{}, 0, 0, false
		}
	}
	if c.CanonicalHash(height) != blockHash {
		return c.searchReversible(h)
	}
	b := c.BlockByHash(blockHash)
	if b == nil || index >= uint64(len(b.Transactions)) || b.Transactions[index].Hash() != h {
		return nil, common.Hash{}, 0, 0, false
	}
	return b.Transactions[index], blockHash, height, index, true
}

// searchReversible looks through the executed blocks above the last irreversible one, newest first: the store names
// one place of a transaction, which is on another branch.
func (c *Chain) searchReversible(h common.Hash) (*types.Transaction, common.Hash, uint64, uint64, bool) {
	c.mu.RLock()
	canon := c.tree.canon
	c.mu.RUnlock()
	for i := len(canon) - 1; i > 0; i-- {
		b := c.BlockByHash(canon[i].hash)
		if b == nil {
			continue
		}
		for j, tx := range b.Transactions {
			if tx.Hash() == h {
				return tx, b.Hash(), b.Number(), uint64(j), true //nolint:gosec // an index
			}
		}
	}
	return nil, common.Hash{}, 0, 0, false
}

// HasState reports whether a state with this root is a layer in memory or the one on disk.
func (c *Chain) HasState(root common.Hash) bool { return c.states.has(root) }

// Kept is how many of the newest blocks can be read back: their states (0: all blocks'), and the tries of their states,
// which proofs need.
func (c *Chain) Kept() (states, tries uint64) {
	if n := c.cfg.history(c.params.MaxReversible); n > 0 {
		states = n + layersKept
	}
	return states, layersKept
}

// StateAt opens the state after a block for reading: a recent one from pathdb's layers, an older one from the state
// history, which does not serve proofs. The StateDB belongs to the caller.
func (c *Chain) StateAt(h *types.Header) (*state.StateDB, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	if db, err := state.New(h.Root, c.states.layers.Load().db); err == nil {
		return db, nil
	}
	db, err := state.New(h.Root, c.states.layers.Load().historic)
	if err == nil {
		return db, nil
	}
	kept := "all blocks"
	if n, _ := c.Kept(); n > 0 {
		kept = fmt.Sprintf("the last %d blocks (state_history)", n)
	}
	return nil, fmt.Errorf("%w for block %s; kept are the states of %s: %w", ErrStateUnavailable, h.Number, kept, err)
}
