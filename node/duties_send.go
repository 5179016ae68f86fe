package node

import (
	"context"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"
)

// ours reports whether a transaction is one that a duty follows.
func (d *duties) ours(tx common.Hash) bool {
	is := func(f *flight) bool { return f != nil && f.tx.Hash() == tx }
	return is(d.report) || is(d.unjail) || slices.ContainsFunc(d.docket.proofs, func(p *proof) bool { return is(p.flight) })
}

// follow says where a transaction of a duty is.
func (d *duties) follow(f *flight, h *types.Header) landing { return d.out.follow(f, h) }

// try is the gas that a call needs on the state at hand. The error is a refusal if the contract would revert.
func (d *duties) try(ctx context.Context, h *types.Header, data []byte) (gas uint64, err error) {
	return d.out.try(ctx, h, data)
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

// send is the sender's. The log tells what was sent and of an error; old stays in flight then.
func (d *duties) send(h *types.Header, what string, data []byte, gas uint64, old *flight) (*flight, error) {
	f, fresh, err := d.out.send(h, data, gas, old)
	switch {
	case err != nil:
		d.refused(what, err)
	case fresh:
		d.m.sent.WithLabelValues("sent").Inc()
		d.log.Info("sent for the producer's account: "+what, zap.Stringer("account", d.self), zap.Stringer("transaction", f.tx.Hash()))
	}
	return f, err
}
