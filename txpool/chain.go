package txpool

import (
	"fmt"
	"math"
	"math/big"
	"sync/atomic"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
)

// Chain is what the pool reads. The methods are called from the pool's goroutines, possibly at the same time.
type Chain interface {
	Config() *params.ChainConfig
	Params() block.Parameters                        // of the executed head's child
	CurrentHeader() *types.Header                    // executed head, never nil
	StateAt(h *types.Header) (*state.StateDB, error) // a fresh value that the pool owns
}

// chainAdapter is legacypool's view of Chain. legacypool asks for the state by root; the header it means is always
// the one the pool is being moved to.
type chainAdapter struct {
	Chain
	head atomic.Pointer[types.Header]
	gone atomic.Pointer[map[common.Address]bool] // accounts that legacypool is to drop at the next reset; nil: none
}

func (a *chainAdapter) CurrentBlock() *types.Header { return a.head.Load() }

// GetBlock is asked only for a branch switch, which Abandoned does instead.
func (a *chainAdapter) GetBlock(common.Hash, uint64) *types.Block { return nil }

func (a *chainAdapter) StateAt(root common.Hash, number *big.Int, _ uint64) (*state.StateDB, error) {
	h := a.head.Load()
	if h.Root != root || h.Number.Cmp(number) != 0 {
		return nil, fmt.Errorf("no state %s of block %s: the pool stands at block %s", root, number, h.Number)
	}
	s, err := a.Chain.StateAt(h)
	if err != nil {
		return nil, err
	}
	r, err := s.Database().Reader(root)
	if err != nil {
		return nil, err
	}
	view := poolReader{Reader: r}
	if gone := a.gone.Load(); gone != nil {
		view.gone = *gone
	}
	return state.NewWithReader(root, s.Database(), view)
}

// poolReader is the state as legacypool is to see it.
type poolReader struct {
	state.Reader
	gone map[common.Address]bool
}

// Account shows an absent account as an empty one: legacypool holds an account whose code hash is not that of empty
// code for a delegated one and grants it a single transaction. Accounts in gone have used up their nonces, which makes
// legacypool drop all they have: it has no other way to drop the transactions of one account.
func (r poolReader) Account(addr common.Address) (*types.StateAccount, error) {
	acc, err := r.Reader.Account(addr)
	if err != nil {
		return nil, err
	}
	if acc == nil {
		acc = types.NewEmptyStateAccount()
	}
	if r.gone[addr] {
		acc.Nonce = math.MaxUint64
	}
	return acc, nil
}
