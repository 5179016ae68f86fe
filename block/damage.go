package block

import (
	"errors"
	"fmt"
)

// What readers of stored blocks tell apart. Of a block that is not there a node answers "unknown"; of one that is
// there but cannot be read it never does: ErrCorrupt says which, and the block comes again from a peer.
var (
	ErrNotFound = errors.New("not in the block store")
	ErrPruned   = errors.New("pruned from the block store")
)

// ErrCorrupt says that the stored block of this height is there but cannot be served: its bytes are damaged or missing.
// Find it with errors.As.
type ErrCorrupt struct {
	Height uint64
	Cause  error
}

func (e ErrCorrupt) Error() string {
	return fmt.Sprintf("block %d is damaged in this node's store: %v", e.Height, e.Cause)
}

func (e ErrCorrupt) Unwrap() error { return e.Cause }

// IsAbsent reports whether a store's error says that there is no such thing, rather than that it cannot be read.
func IsAbsent(err error) bool { return errors.Is(err, ErrNotFound) || errors.Is(err, ErrPruned) }
