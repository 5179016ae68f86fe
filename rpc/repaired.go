package rpc

import (
	"context"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain"
)

// Repairs is the owner of damaged final blocks: blockstore.Store.
type Repairs interface {
	// ReadRepaired calls read again after the repair of a block that it found damaged, within a bound and until ctx ends.
	// What it returns is read's error: with damage, the block was not repaired in time.
	ReadRepaired(ctx context.Context, read func() error) error
}

// repairedChain is the chain as all methods read it: where a final block is damaged on disk, the read waits until it was
// fetched again from a peer, and then answers as if nothing had been. Methods know nothing of it. Changes of a caller's
// state (PrepareState, NextBlock) do not wait, since they cannot be repeated.
type repairedChain struct {
	Chain
	repairs Repairs
	ctx     context.Context // of the server, or of one call (during)
}

// repairedContract is the same for views of system contracts.
type repairedContract struct {
	Contract
	repairs Repairs
}

// waitForRepairs has everything that the server answers from read through the owner of repairs, if there is one.
func (s *service) waitForRepairs() {
	b := &s.back
	if b.Repairs == nil {
		return
	}
	b.Chain = repairedChain{b.Chain, b.Repairs, s.ctx}
	if b.Topics != nil {
		b.Topics = repairedContract{b.Topics, b.Repairs}
	}
}

// during is the backend whose reads end with one call's context.
func (s *service) during(ctx context.Context) *Backend {
	c, ok := s.back.Chain.(repairedChain)
	if !ok {
		return &s.back
	}
	c.ctx = ctx
	b := s.back
	b.Chain = c
	return &b
}

func readRepaired[T any](ctx context.Context, r Repairs, read func() (T, error)) (value T, err error) {
	err = r.ReadRepaired(ctx, func() (err error) {
		value, err = read()
		return err
	})
	return value, err
}

func (c repairedChain) HeaderByNumber(n uint64) (*types.Header, error) {
	return readRepaired(c.ctx, c.repairs, func() (*types.Header, error) { return c.Chain.HeaderByNumber(n) })
}

func (c repairedChain) HeaderByHash(h common.Hash) (*types.Header, error) {
	return readRepaired(c.ctx, c.repairs, func() (*types.Header, error) { return c.Chain.HeaderByHash(h) })
}

func (c repairedChain) CanonicalHash(n uint64) (common.Hash, error) {
	return readRepaired(c.ctx, c.repairs, func() (common.Hash, error) { return c.Chain.CanonicalHash(n) })
}

func (c repairedChain) Sealed(h common.Hash) (*block.SealedHeader, error) {
	return readRepaired(c.ctx, c.repairs, func() (*block.SealedHeader, error) { return c.Chain.Sealed(h) })
}

func (c repairedChain) BlockByHash(h common.Hash) (*block.Block, error) {
	return readRepaired(c.ctx, c.repairs, func() (*block.Block, error) { return c.Chain.BlockByHash(h) })
}

func (c repairedChain) BlockByNumber(n uint64) (*block.Block, error) {
	return readRepaired(c.ctx, c.repairs, func() (*block.Block, error) { return c.Chain.BlockByNumber(n) })
}

func (c repairedChain) Receipts(h common.Hash) (types.Receipts, error) {
	return readRepaired(c.ctx, c.repairs, func() (types.Receipts, error) { return c.Chain.Receipts(h) })
}

func (c repairedChain) Transaction(h common.Hash) (*chain.Located, error) {
	return readRepaired(c.ctx, c.repairs, func() (*chain.Located, error) { return c.Chain.Transaction(h) })
}

func (c repairedChain) NextHeaders(parent *types.Header) ([]*types.Header, error) {
	return readRepaired(c.ctx, c.repairs, func() ([]*types.Header, error) { return c.Chain.NextHeaders(parent) })
}

func (c repairedChain) ParamsFor(base *types.Header, height uint64) (block.Parameters, error) {
	return readRepaired(c.ctx, c.repairs, func() (block.Parameters, error) { return c.Chain.ParamsFor(base, height) })
}

func (c repairedChain) Decisions(parent *types.Header) ([]chain.Decision, error) {
	return readRepaired(c.ctx, c.repairs, func() ([]chain.Decision, error) { return c.Chain.Decisions(parent) })
}

// Context reads the headers that an execution asks for in the same way.
func (c repairedChain) Context() chain.EVMChain { return chain.NewEVMChain(c) }

func (c repairedContract) Call(ctx context.Context, h *types.Header, to common.Address, data []byte) ([]byte, error) {
	return readRepaired(ctx, c.repairs, func() ([]byte, error) { return c.Contract.Call(ctx, h, to, data) })
}
