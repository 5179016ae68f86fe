package node

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
)

// This file takes one transaction of the producer's account from the call to a block; which ones, duties.go decides.

const (
	// offerBlocks is when a transaction of ours that is in no block yet is told to the peers again.
	offerBlocks = 5
	// gasSlack is added to what a transaction needed on the state at hand: it may meet another one.
	gasSlack = 100_000
)

// flight is a transaction of ours that is in no block yet.
type flight struct {
	tx    *types.Transaction
	since uint64 // height at which the peers heard of it last
}

type landing uint8

const (
	flying landing = iota
	landed         // in a block, with success
	failed         // in a block, reverted
	lost           // neither in a block nor in the pool
	outbid         // in the pool, and the base fee has risen above what it pays
)

// refusal is the contract's reason why a call would revert.
type refusal string

func (r refusal) Error() string { return "the contract would refuse it: " + string(r) }

// follow says where a transaction of ours is, and tells the peers again of one that waits for long.
func (d *duties) follow(f *flight, h *types.Header) landing {
	included, ok := d.chain.Outcome(f.tx.Hash())
	switch {
	case included && ok:
		return landed
	case included:
		return failed
	case !d.pool.Has(f.tx.Hash()):
		return lost
	case d.chain.BaseFee(h).Cmp(f.tx.GasFeeCap()) > 0:
		return outbid
	}
	if height := h.Number.Uint64(); height >= f.since+offerBlocks {
		f.since = height
		d.offer(types.Transactions{f.tx})
	}
	return flying
}

// try is the gas that a call needs on the state at hand. The error is a refusal if the contract would revert.
func (d *duties) try(ctx context.Context, h *types.Header, data []byte) (gas uint64, err error) {
	gas, reason, err := d.chain.Try(ctx, h, d.self, data)
	if err == nil && reason != "" {
		err = refusal(reason)
	}
	return gas, err
}

// call tries a call, then sends it. The log tells of an error; old stays in flight then.
func (d *duties) call(ctx context.Context, h *types.Header, what string, data []byte, old *flight) (*flight, error) {
	gas, err := d.try(ctx, h, data)
	if err != nil {
		d.refused(what, err)
		return nil, err
	}
	return d.send(h, what, data, gas, old)
}

// send signs a call and puts it into the own pool, in place of one that pays too little now, if any. The log tells of an
// error; old stays in flight then.
func (d *duties) send(h *types.Header, what string, data []byte, gas uint64, old *flight) (*flight, error) {
	to := contracts.ProducersAddress
	x := &types.DynamicFeeTx{
		ChainID: new(big.Int).SetUint64(d.params.ChainID), GasTipCap: new(big.Int), GasFeeCap: new(big.Int).Lsh(d.chain.BaseFee(h), 1),
		Gas: gas + gasSlack, To: &to, Data: data, // twice the fee: a market's may rise
	}
	if old != nil {
		x.Nonce, x.GasTipCap = old.tx.Nonce(), new(big.Int).Add(old.tx.GasTipCap(), common.Big1) // pools want both raised
	} else {
		x.Nonce = d.pool.Nonce(d.self)
	}
	tx, err := d.signer.SignTx(x, d.params.ChainID)
	if err == nil {
		err = d.pool.Add([]*types.Transaction{tx}, true)[0]
	}
	if err != nil {
		d.refused(what, err)
		return nil, err
	}
	d.m.sent.WithLabelValues("sent").Inc()
	d.log.Info("sent for the producer's account: "+what, zap.Stringer("account", d.self), zap.Stringer("transaction", tx.Hash()))
	return &flight{tx: tx, since: h.Number.Uint64()}, nil
}
