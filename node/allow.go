package node

import (
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/txpool"
)

// heads is what allowed needs of the chain.
type heads interface {
	CurrentHeader() *types.Header
	StateAt(h *types.Header) (*state.StateDB, error)
}

// allowed judges by the optional lists of the Members contract, as they stand at the executed head, who may send
// transactions to the pool and who may deploy. Blocks are judged by the chain itself: this keeps the pool free of what
// no block will take. While the lists are off it costs one read of a slot that the state keeps in memory.
type allowed struct {
	chain heads

	mu    sync.Mutex
	root  common.Hash
	state *state.StateDB // at root; nil before the first question
}

// check is called from many goroutines. An error that wraps txpool.ErrUnreadable judges nobody.
func (a *allowed) check(from common.Address, deploys bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h := a.chain.CurrentHeader(); a.state == nil || a.state.Error() != nil || a.root != h.Root {
		s, err := a.chain.StateAt(h)
		if err != nil {
			return unreadableLists(h, err)
		}
		a.state, a.root = s, h.Root
	}
	maySend := contracts.MaySend(a.state, from)
	mayDeploy := !deploys || contracts.MayDeploy(a.state, from)
	// A state that fails to read goes on with zeros: lists that are off, on which everybody may send, or an account that is
	// on none.
	if err := a.state.Error(); err != nil {
		return unreadableLists(a.chain.CurrentHeader(), err)
	}
	if !maySend {
		return fmt.Errorf("account %s is not on the list of accounts that may send transactions", from)
	}
	if !mayDeploy {
		return fmt.Errorf("account %s is not on the list of accounts that may deploy contracts", from)
	}
	return nil
}

func unreadableLists(h *types.Header, err error) error {
	return fmt.Errorf("%w at block %s: %w", txpool.ErrUnreadable, h.Number, err)
}
