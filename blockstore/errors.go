package blockstore

import (
	"errors"

	"github.com/bornode/bornode/block"
)

// What the caller does: ErrNotFound and ErrPruned: ask a peer or answer "unknown"; ErrCorrupt: fetch the block from a
// peer and Replace it; ErrUnlinked: a bug or a lying peer, drop the block; ErrFailed: stop the node, reads still work;
// ErrIndexing: ask again.
var (
	ErrNotFound = block.ErrNotFound
	ErrPruned   = block.ErrPruned
	ErrUnlinked = errors.New("block does not link to the store's last irreversible block")
	ErrFailed   = errors.New("block store has failed and takes no more writes; free the disk's trouble and restart the node")
	ErrClosed   = errors.New("block store is closed")
	ErrIndexing = errors.New("the index is being rebuilt")
)

// ErrCorrupt names a block that is there but cannot be served.
type ErrCorrupt = block.ErrCorrupt

// ErrNeighbourFirst says which block must be replaced before another one can be.
type ErrNeighbourFirst = block.ErrNeighbourFirst
