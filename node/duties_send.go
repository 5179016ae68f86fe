package node

import (
	"bytes"
	"context"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
)

// This file takes one transaction of the producer's account from the call to a block; which ones, duties.go decides.

const (
	// offerBlocks is when a transaction of ours that is in no block yet is told to the peers again.
	offerBlocks = 5
	// gasSlack is added to what a transaction needed on the state at hand: it may meet another one.
	gasSlack = 100_000
	// patienceBlocks is how long a transaction of ours waits before its tip rises: others pay more for the room.
	patienceBlocks = 10
	// maxTip ends that: who keeps us out then pays it for every unit of gas of every block.
	minTip, maxTip = params.GWei, 128 * params.GWei // wei for each unit of gas
)

// flight is a transaction of ours that is in no block yet.
type flight struct {
	tx    *types.Transaction
	sent  uint64 // height
	since uint64 // height at which the peers heard of it last
}

// obstacle is a transaction of the account before ours that is no duty's.
type obstacle struct {
	tx    common.Hash
	since uint64 // height at which it was seen first
	told  bool
}

type landing uint8

const (
	flying landing = iota
	landed         // in a block, with success
	failed         // in a block, reverted
	lost           // neither in a block nor in the pool, or behind a nonce that is missing
	outbid         // in the pool, and it is to pay more
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
	height := h.Number.Uint64()
	if height >= f.since+offerBlocks {
		f.since = height
		d.offer(types.Transactions{f.tx})
	}
	if height >= f.sent+patienceBlocks && h.TxHash != types.EmptyTxsHash { // no fee would get it into an empty block
		return d.delayed(f, height)
	}
	return flying
}

// delayed says why a transaction that could be in a block is in none: it pays too little, or another one of the account
// is before it.
func (d *duties) delayed(f *flight, height uint64) landing {
	is := func(tx *types.Transaction) bool { return tx.Hash() == f.tx.Hash() }
	pending, queued := d.pool.ContentFrom(d.self)
	switch at := slices.IndexFunc(pending, is); {
	case at < 0 && slices.ContainsFunc(queued, is):
		return lost
	case at == 0 && f.tx.GasTipCapIntCmp(big.NewInt(maxTip)) < 0:
		return outbid
	case at > 0 && !d.ours(pending[0].Hash()):
		d.blocked(pending[0], height)
	}
	return flying
}

// blocked tells once of a transaction that is not ours to replace, when it has waited for long.
func (d *duties) blocked(tx *types.Transaction, height uint64) {
	switch o := &d.ahead; {
	case o.tx != tx.Hash():
		*o = obstacle{tx: tx.Hash(), since: height}
	case !o.told && height >= o.since+patienceBlocks:
		o.told = true
		d.log.Warn("what this producer has to send waits behind another transaction of its account that no block takes; send one with the same nonce and higher fees",
			zap.Stringer("account", d.self), zap.Stringer("transaction", o.tx), zap.Uint64("nonce", tx.Nonce()))
	}
}

// ours reports whether a transaction is one that a duty follows.
func (d *duties) ours(tx common.Hash) bool {
	is := func(f *flight) bool { return f != nil && f.tx.Hash() == tx }
	return is(d.report) || is(d.unjail) || slices.ContainsFunc(d.docket.proofs, func(p *proof) bool { return is(p.flight) })
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

// send signs a call and puts it into the own pool, in place of one that pays too little now, if any; one that the pool
// kept over a restart is taken up. The log tells of an error; old stays in flight then.
func (d *duties) send(h *types.Header, what string, data []byte, gas uint64, old *flight) (*flight, error) {
	if f := d.kept(h, data); old == nil && f != nil {
		return f, nil
	}
	to := contracts.ProducersAddress
	x := &types.DynamicFeeTx{ChainID: new(big.Int).SetUint64(d.params.ChainID), Gas: gas + gasSlack, To: &to, Data: data}
	x.GasTipCap, x.GasFeeCap = d.fees(h, old)
	if old != nil {
		x.Nonce = old.tx.Nonce()
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
	return &flight{tx: tx, sent: h.Number.Uint64(), since: h.Number.Uint64()}, nil
}

// kept is a transaction with this call that the pool holds though no duty follows it; nil: there is none.
func (d *duties) kept(h *types.Header, data []byte) *flight {
	pending, _ := d.pool.ContentFrom(d.self)
	for _, tx := range pending {
		to := tx.To()
		if to == nil || *to != contracts.ProducersAddress || tx.Value().Sign() != 0 || !bytes.Equal(tx.Data(), data) || d.ours(tx.Hash()) {
			continue
		}
		if included, _ := d.chain.Outcome(tx.Hash()); !included { // else the pool is about to forget it
			height := h.Number.Uint64()
			return &flight{tx: tx, sent: height, since: height}
		}
	}
	return nil
}

// fees are what a transaction offers: no tip and twice the base fee, which may rise; in place of an old one at least
// twice its tip, and as much more as the pool wants.
func (d *duties) fees(h *types.Header, old *flight) (tip, most *big.Int) {
	tip, most = new(big.Int), new(big.Int).Lsh(d.chain.BaseFee(h), 1)
	if old == nil {
		return tip, most
	}
	raised := func(fee *big.Int, percent uint64) *big.Int {
		x := new(big.Int).Mul(fee, new(big.Int).SetUint64(100+percent))
		return x.Add(x.Div(x, big.NewInt(100)), common.Big1)
	}
	larger := func(a, b *big.Int) *big.Int { return slices.MaxFunc([]*big.Int{a, b}, (*big.Int).Cmp) }
	tip = larger(big.NewInt(minTip), raised(old.tx.GasTipCap(), max(100, d.bump)))
	return tip, larger(most.Add(most, tip), raised(old.tx.GasFeeCap(), d.bump))
}
