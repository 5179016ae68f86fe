package chain

import (
	"errors"
	"fmt"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
)

var (
	// ErrInvalidBody is wrapped by every error of CheckBody: the peer that sent the block is to blame.
	ErrInvalidBody = errors.New("invalid block body")
	// ErrInvalidBlock is wrapped by what execution finds wrong with a block. Every node finds the same.
	ErrInvalidBlock = errors.New("invalid block")
	// ErrUnknownBlock is wrapped when a block (or the parent of one) is not in the tree.
	ErrUnknownBlock = errors.New("unknown block")
	// ErrNotFound is what a Store's errors wrap for a block, receipt or transaction that it does not hold.
	ErrNotFound = block.ErrNotFound
	// ErrStateUnavailable is wrapped when the state of a block is neither in memory nor in the kept history.
	ErrStateUnavailable = errors.New("state not available")
	// ErrNotOnLIB is wrapped when blocks or a final update do not continue the last irreversible block.
	ErrNotOnLIB = errors.New("does not continue the last irreversible block")
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("chain is closed")
)

func badBody(b *block.Block, format string, args ...any) error {
	return fmt.Errorf("%w: block %d %s: %w", ErrInvalidBody, b.Number(), b.Hash(), fmt.Errorf(format, args...))
}

func badBlock(b *block.Block, format string, args ...any) error {
	return fmt.Errorf("%w: block %d %s: %w", ErrInvalidBlock, b.Number(), b.Hash(), fmt.Errorf(format, args...))
}

func unknownBlock(h common.Hash) error { return fmt.Errorf("%w %s", ErrUnknownBlock, h) }
