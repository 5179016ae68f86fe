package chain

import (
	"errors"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/consensus"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/params"
)

// chainContext shows the chain to go-ethereum's EVM helpers and tracers.
type chainContext struct{ c *Chain }

// Context is the chain as go-ethereum's EVM helpers want it: headers by hash and number, and an engine that knows who
// made a block. The engine prepares, verifies and seals nothing; consensus and this package do.
func (c *Chain) Context() core.ChainContext { return chainContext{c} }

func (x chainContext) Config() *params.ChainConfig                     { return x.c.config }
func (x chainContext) CurrentHeader() *types.Header                    { return x.c.CurrentHeader() }
func (x chainContext) GetHeaderByNumber(n uint64) *types.Header        { return x.c.HeaderByNumber(n) }
func (x chainContext) GetHeaderByHash(h common.Hash) *types.Header     { return x.c.HeaderByHash(h) }
func (x chainContext) GetHeader(h common.Hash, _ uint64) *types.Header { return x.c.HeaderByHash(h) }
func (x chainContext) Engine() consensus.Engine                        { return engine{} }

var errNoEngine = errors.New("go-ethereum's engine interface verifies and seals nothing here")

// engine answers go-ethereum's questions about who made a block.
type engine struct{}

func (engine) Author(h *types.Header) (common.Address, error) { return h.Coinbase, nil }
func (engine) VerifyHeader(consensus.ChainHeaderReader, *types.Header) error {
	return errNoEngine
}

func (engine) VerifyHeaders(_ consensus.ChainHeaderReader, hs []*types.Header) (chan<- struct{}, <-chan error) {
	results := make(chan error, len(hs))
	for range hs {
		results <- errNoEngine
	}
	return make(chan struct{}), results
}
func (engine) VerifyUncles(consensus.ChainReader, *types.Block) error                       { return errNoEngine }
func (engine) Prepare(consensus.ChainHeaderReader, *types.Header) error                     { return errNoEngine }
func (engine) Finalize(consensus.ChainHeaderReader, *types.Header, vm.StateDB, *types.Body) {}
func (engine) Seal(consensus.ChainHeaderReader, *types.Block, chan<- *types.Block, <-chan struct{}) error {
	return errNoEngine
}
func (engine) SealHash(h *types.Header) common.Hash { return h.Hash() }
func (engine) CalcDifficulty(consensus.ChainHeaderReader, uint64, *types.Header) *big.Int {
	return new(big.Int)
}
func (engine) Close() error { return nil }
