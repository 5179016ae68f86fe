package chain

import (
	"errors"
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

// What reads blocks tells two things apart: nil without an error is a block that is not there (unknown, above the
// head); an error wraps block.ErrCorrupt, with the height, for one that is there but cannot be read, wraps
// block.ErrPruned for one that was there and is not kept any more, or says why the store cannot tell. Callers must not
// take the second for the first. Block 0 is never pruned: genesis makes it.

// FirstHeight is the lowest irreversible block that is kept, beside block 0. It rises when history is pruned.
func (c *Chain) FirstHeight() uint64 { return c.store.FirstHeight() }

// Sealed is the header, record and seal of any stored block, on whatever branch; nil if unknown.
func (c *Chain) Sealed(h common.Hash) (*block.SealedHeader, error) {
	if n := c.node(h); n != nil {
		return n.sealed, nil
	}
	if h == c.genesis.Hash() {
		return c.genesis.SealedHeader, nil
	}
	if s, ok := c.headers.Get(h); ok {
		return s, c.errIfPruned(s.Number())
	}
	s, err := c.store.Header(h)
	if err != nil {
		return nil, present(err)
	}
	c.headers.Add(h, s)
	return s, c.errIfPruned(s.Number()) // the store's cache knows of no pruning
}

// errIfPruned is the error about a pruned height. Caches may hold what pruning deleted, and one answer about a height that
// depends on what was asked before would contradict the others.
func (c *Chain) errIfPruned(height uint64) error {
	if first := c.FirstHeight(); height > 0 && height < first {
		return fmt.Errorf("block %d: %w (the first is %d)", height, block.ErrPruned, first)
	}
	return nil
}

// mustSealed is Sealed of a block that has to be there.
func (c *Chain) mustSealed(h common.Hash) (*block.SealedHeader, error) {
	s, err := c.Sealed(h)
	if err == nil && s == nil {
		err = unknownBlock(h)
	}
	return s, err
}

// present is nil for an error that says that a thing is not there. That a block was pruned stays an error: an answer
// or an execution that takes it for a block which never was is wrong.
func present(err error) error {
	if errors.Is(err, block.ErrNotFound) {
		return nil
	}
	return err
}

// HeaderByHash is Sealed without record and seal.
func (c *Chain) HeaderByHash(h common.Hash) (*types.Header, error) {
	s, err := c.Sealed(h)
	if s == nil || err != nil {
		return nil, err
	}
	return s.Header, nil
}

// sealedByNumber is the block of a height on the executed branch.
func (c *Chain) sealedByNumber(n uint64) (*block.SealedHeader, error) {
	c.mu.RLock()
	x, lib := c.tree.at(n), c.tree.lib.height
	c.mu.RUnlock()
	switch {
	case x != nil:
		return x.sealed, nil
	case n > lib:
		return nil, c.notYet() // what this node had above may come back
	case n == 0:
		return c.genesis.SealedHeader, nil
	}
	if err := c.errIfPruned(n); err != nil {
		return nil, err
	}
	if h, ok := c.hashes.Get(n); ok {
		if s, ok := c.headers.Get(h); ok {
			return s, nil
		}
	}
	s, err := c.store.HeaderByHeight(n)
	if err != nil {
		return nil, present(err)
	}
	c.headers.Add(s.Hash(), s)
	c.hashes.Add(n, s.Hash())
	return s, nil
}

// HeaderByNumber follows the executed branch; nil above its head, block.ErrPruned below the first block kept.
func (c *Chain) HeaderByNumber(n uint64) (*types.Header, error) {
	s, err := c.sealedByNumber(n)
	if s == nil || err != nil {
		return nil, err
	}
	return s.Header, nil
}

// CanonicalHash is the hash at a height of the executed branch, or zero.
func (c *Chain) CanonicalHash(n uint64) (common.Hash, error) {
	s, err := c.sealedByNumber(n)
	if s == nil || err != nil {
		return common.Hash{}, err
	}
	return s.Hash(), nil
}

// BlockByHash is any stored block; nil if unknown.
func (c *Chain) BlockByHash(h common.Hash) (*block.Block, error) {
	b, err := c.body(h)
	if err == nil {
		err = c.errIfPruned(b.Number())
	}
	if err != nil {
		return nil, present(err)
	}
	return b, nil
}

// BlockByNumber follows the executed branch; nil above its head, block.ErrPruned below the first block kept.
func (c *Chain) BlockByNumber(n uint64) (*block.Block, error) {
	s, err := c.sealedByNumber(n)
	if s == nil || err != nil {
		return nil, err
	}
	b, err := c.body(s.Hash())
	if block.IsAbsent(err) { // the index by hash lacks it, or it was pruned meanwhile: the one by height knows
		b, err = c.store.BlockByHeight(n)
	}
	if err != nil {
		return nil, present(err)
	}
	return b, nil
}

// Logs are those of an executed block, in order.
func (c *Chain) Logs(h common.Hash) ([]*types.Log, error) {
	rs, err := c.Receipts(h)
	return logsOf(rs), err
}

// Located is a transaction and where the executed branch has it.
type Located struct {
	*types.Transaction
	Block         common.Hash
	Height, Index uint64
}

// Transaction finds a transaction on the executed branch; nil if no block of it has the transaction. Before the replay
// is done that cannot be told: ErrReplaying.
func (c *Chain) Transaction(h common.Hash) (*Located, error) {
	notYet := c.notYet() // before the search: the replay may end meanwhile
	x, err := c.findTransaction(h)
	if x == nil && err == nil {
		err = notYet
	}
	return x, err
}

func (c *Chain) findTransaction(h common.Hash) (*Located, error) {
	hash, height, index, ok := c.receipts.transaction(h)
	if ok {
		at, err := c.CanonicalHash(height)
		if err != nil {
			return nil, err
		}
		ok = at == hash
	}
	if !ok {
		var err error
		if hash, height, index, err = c.store.Transaction(h); err != nil {
			return nil, present(err)
		}
	}
	at, err := c.CanonicalHash(height)
	if err != nil {
		return nil, err
	}
	if at != hash {
		return c.searchReversible(h)
	}
	b, err := c.BlockByNumber(height)
	if b == nil || err != nil {
		return nil, err
	}
	if b.Hash() != hash || index >= uint64(len(b.Transactions)) || b.Transactions[index].Hash() != h {
		return nil, nil
	}
	return &Located{b.Transactions[index], hash, height, index}, nil
}

// searchReversible looks through the executed blocks above the last irreversible one, newest first: the store names
// one place of a transaction, which is on another branch.
func (c *Chain) searchReversible(h common.Hash) (*Located, error) {
	c.mu.RLock()
	canon := c.tree.canon
	c.mu.RUnlock()
	for i := len(canon) - 1; i > 0; i-- {
		b, err := c.BlockByHash(canon[i].hash)
		if err != nil {
			return nil, err
		}
		if b == nil {
			continue
		}
		for j, tx := range b.Transactions {
			if tx.Hash() == h {
				return &Located{tx, b.Hash(), b.Number(), uint64(j)}, nil //nolint:gosec // an index
			}
		}
	}
	return nil, nil
}

// HasState reports whether a state with this root is a layer in memory or the one on disk.
func (c *Chain) HasState(root common.Hash) bool { return c.states.has(root) }

// Kept is how many of the newest blocks can be read back: their states (0: all blocks'), and the tries of their states,
// which proofs need.
func (c *Chain) Kept() (states, tries uint64) {
	if !c.cfg.StateIndex {
		return layersKept, layersKept
	}
	if n := c.cfg.history(c.params.MaxReversible); n > 0 {
		states = n + layersKept
	}
	return states, layersKept
}

// keepsStateOf reports whether the state after a block is among those that are kept when the head is at a height.
func (c *Chain) keepsStateOf(height, head uint64) bool {
	n, _ := c.Kept()
	return n == 0 || height+n > head
}

// StateAt opens the state after a block for reading: a recent one from pathdb's layers, an older one from the state
// history, which does not serve proofs. The StateDB belongs to the caller. A state that the replay has not made again yet
// is refused with ErrReplaying.
func (c *Chain) StateAt(h *types.Header) (*state.StateDB, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	if db, err := state.New(h.Root, c.states.layers.Load().db); err == nil {
		return db, nil
	}
	replaying, pending := c.Replaying() // before the last try: the replay may end meanwhile
	db, err := state.New(h.Root, c.states.layers.Load().historic)
	if err == nil {
		return db, nil
	}
	if pending && (h.Number.Uint64() > replaying.At || c.keepsStateOf(h.Number.Uint64(), replaying.To)) {
		return nil, fmt.Errorf("%w for block %s yet: %w", ErrStateUnavailable, h.Number, replaying)
	}
	if !c.cfg.StateIndex {
		return nil, fmt.Errorf("%w for block %s: this node has no index of older states (chain.state_index is false); ask another node: %w", ErrStateUnavailable, h.Number, err)
	}
	if lacksIndex(err) {
		return nil, fmt.Errorf("%w for block %s yet: the index of older states is being built again after this node's last stop; ask again later: %w", ErrStateUnavailable, h.Number, err)
	}
	kept := "all blocks"
	if n, _ := c.Kept(); n > 0 {
		kept = fmt.Sprintf("the last %d blocks (state_history)", n)
	}
	return nil, fmt.Errorf("%w for block %s; kept are the states of %s: %w", ErrStateUnavailable, h.Number, kept, err)
}
