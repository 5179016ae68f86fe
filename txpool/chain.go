package txpool

import (
	"fmt"
	"github.com/bornode/bornode/block"
	"math/big"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
)

// Chain is what the pool reads. The methods are called from the pool's goroutines, possibly at the same time.
type Chain interface {
	Config() *params.ChainConfig
	Params() block.Parameters
	CurrentHeader() *types.Header                    // executed head, never nil
	StateAt(h *types.Header) (*state.StateDB, error) // a fresh value that the pool owns
}

// chainAdapter is legacypool's view of Chain. legacypool asks for the state by root; the header it means is always
// the one the pool is being moved to.
type chainAdapter struct {
	Chain
	head atomic.Pointer[types.Header]
}

func (a *chainAdapter) CurrentBlock() *types.Header { return a.head.Load() }

// GetBlock is asked only for a branch switch, which Abandoned does instead.
func (a *chainAdapter) GetBlock(common.Hash, uint64) *types.Block { return nil }

func (a *chainAdapter) StateAt(root common.Hash, number *big.Int, _ uint64) (*state.StateDB, error) {
	h := a.head.Load()
	if h.Root != root || h.Number.Cmp(number) != 0 {
		return nil, fmt.Errorf("no state %s of block %s: the pool stands at block %s", root, number, h.Number)
	}
	return a.Chain.StateAt(h)
}
