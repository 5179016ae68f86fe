package blockstore

import (
	"errors"
	"fmt"
)

// What the caller does: ErrNotFound and ErrPruned: ask a peer or answer "unknown"; ErrCorrupt: fetch the block from a
// peer and Replace it; ErrUnlinked: a bug or a lying peer, drop the block; ErrFailed: stop the node, reads still work.
var (
	ErrNotFound = errors.New("not in the block store")
	ErrPruned   = errors.New("pruned from the block store")
	ErrUnlinked = errors.New("block does not link to the store's last irreversible block")
	ErrFailed   = errors.New("block store has failed and takes no more writes; free the disk's trouble and restart the node")
	ErrClosed   = errors.New("block store is closed")
)

// ErrCorrupt says that the stored block of this height cannot be served: its bytes are damaged or missing. Find it
// with errors.As.
type ErrCorrupt struct {
	Height uint64
	Cause  error
}

func (e ErrCorrupt) Error() string {
	return fmt.Sprintf("stored block %d is damaged (fetch it again): %v", e.Height, e.Cause)
}

func (e ErrCorrupt) Unwrap() error { return e.Cause }
