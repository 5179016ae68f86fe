package chain

import (
	"fmt"

	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// ReplayBlocks is the most blocks below the newest irreversible one that a start may have to read with these
// settings: those that are executed again since their states were not on disk (two times what is executed between two
// writes, and the layers in memory), the rest of the epoch before them, and the hashes that contracts may ask for.
func ReplayBlocks(cfg *Config, epochBlocks uint64) uint64 {
	return 2*cfg.FlushBlocks + layersKept + max(epochBlocks, blockHashWindow)
}

// ReplayFloor is the lowest block that a start of this node would read if the process ended now: it executes the
// blocks again above the newest one whose state is on disk, and reads the headers of the epoch under way there and the
// hashes that contracts may ask for. It is read from the disk's own root, not from what was handed to the database. An
// error says that no kept block has the state on disk: nothing may be pruned then.
func (c *Chain) ReplayFloor() (uint64, error) {
	root := types.EmptyRootHash
	if blob := rawdb.ReadAccountTrieNode(c.states.disk, nil); len(blob) > 0 {
		root = crypto.Keccak256Hash(blob)
	}
	at, first := c.Head().Number(), c.FirstHeight()
	for {
		h, err := c.sealedByNumber(at)
		if err != nil {
			return 0, fmt.Errorf("look for the block whose state is on disk: %w", err)
		}
		if h != nil && h.Header.Root == root {
			break
		}
		if at <= first {
			return 0, fmt.Errorf("%w: no block from %d to the head has the state root %s that is on disk", ErrStateUnavailable, first, root)
		}
		at--
	}
	floor := at - at%c.params.EpochBlocks
	return min(floor, at-min(at, blockHashWindow)), nil
}
