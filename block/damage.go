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

// ErrNoReceipts says that the receipts of the irreversible block of this height are neither stored nor can they be made
// again by executing it: they come from a peer, as a damaged block does. Find it with errors.As.
type ErrNoReceipts struct {
	Height uint64
	Cause  error
}

func (e ErrNoReceipts) Error() string {
	if e.Soon() {
		return fmt.Sprintf("receipts of block %d are missing in this node's store and cannot be made again yet: %v", e.Height, e.Cause)
	}
	return fmt.Sprintf("receipts of block %d are missing in this node's store and cannot be made again: %v", e.Height, e.Cause)
}

// Soon reports that the node can make them itself when it is ready, which the cause tells of.
func (e ErrNoReceipts) Soon() bool { return errors.As(e.Cause, new(NotReady)) }

func (e ErrNoReceipts) Unwrap() error { return e.Cause }

// NotReady marks the cause of an error as one that ends by itself soon after a start: nothing is lost, and nothing too old.
type NotReady struct{ Cause error }

func (e NotReady) Error() string { return e.Cause.Error() }
func (e NotReady) Unwrap() error { return e.Cause }

// IsAbsent reports whether a store's error says that there is no such thing, rather than that it cannot be read.
func IsAbsent(err error) bool { return errors.Is(err, ErrNotFound) || errors.Is(err, ErrPruned) }

// ErrNeighbourFirst says that a good copy of a damaged block cannot be put in its place yet: nothing that can be read says
// what the block must hash to, or where it lies, before the block of height First is in its place. Of a run of such blocks
// First is the one that can be placed now; those below follow from there down. Find it with errors.As.
type ErrNeighbourFirst struct {
	Height, First uint64
	Cause         error
}

func (e ErrNeighbourFirst) Error() string {
	return fmt.Sprintf("replace block %d: replace block %d first: %v", e.Height, e.First, e.Cause)
}

func (e ErrNeighbourFirst) Unwrap() error { return e.Cause }
