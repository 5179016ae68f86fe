package chain

import (
	"errors"
	"math/big"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/consensus"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/params"
)

// EVMChain is the chain as go-ethereum's EVM helpers and tracers want it: headers by hash and number, and an engine that
// knows who made a block. The engine prepares, verifies and seals nothing; consensus and this package do. One is for one
// execution: go-ethereum's interface has no errors, so that of the first header which could not be read stands in Err,
// and whoever executed must look there before it believes the result. Safe for concurrent use.
type EVMChain interface {
	core.ChainContext
	Err() error // nil: the execution saw all headers that it asked for
}

// HeaderReader is where an EVMChain has its headers from. Safe for concurrent use; nil without an error: unknown.
type HeaderReader interface {
	Config() *params.ChainConfig
	CurrentHeader() *types.Header
	HeaderByNumber(n uint64) (*types.Header, error)
	HeaderByHash(h common.Hash) (*types.Header, error)
}

// NewEVMChain is an EVMChain for one execution over headers that are read elsewhere.
func NewEVMChain(headers HeaderReader) EVMChain { return &evmChain{c: headers} }

// Context is a new EVMChain.
func (c *Chain) Context() EVMChain { return NewEVMChain(c) }

type evmChain struct {
	c      HeaderReader
	failed atomic.Pointer[error]
}

func (x *evmChain) Err() error {
	if err := x.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (x *evmChain) header(h *types.Header, err error) *types.Header {
	if err != nil {
		x.failed.CompareAndSwap(nil, &err)
	}
	return h
}

func (x *evmChain) Config() *params.ChainConfig  { return x.c.Config() }
func (x *evmChain) CurrentHeader() *types.Header { return x.c.CurrentHeader() }
func (x *evmChain) Engine() consensus.Engine     { return engine{} }
func (x *evmChain) GetHeaderByNumber(n uint64) *types.Header {
	return x.header(x.c.HeaderByNumber(n))
}
func (x *evmChain) GetHeaderByHash(h common.Hash) *types.Header     { return x.header(x.c.HeaderByHash(h)) }
func (x *evmChain) GetHeader(h common.Hash, _ uint64) *types.Header { return x.GetHeaderByHash(h) }

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
