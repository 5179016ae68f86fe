package rpc

import (
	"context"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/core/types"
)

// SendRawTransaction hands a signed transaction to the pool. When it answers with the hash, the pool holds the
// transaction and no limit will drop it; otherwise it says why not.
func (a *ethAPI) SendRawTransaction(_ context.Context, raw hexutil.Bytes) (common.Hash, error) {
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(raw); err != nil {
		return common.Hash{}, invalidParams("the bytes are no signed transaction: %s", err)
	}
	if !a.cfg.AllowUnprotected && !tx.Protected() {
		return common.Hash{}, &Error{Code: codeServer, Message: "only replay-protected (EIP-155) transactions allowed over RPC; sign it with the chain id"}
	}
	if err := a.back.Pool.Add([]*types.Transaction{tx}, true)[0]; err != nil {
		return common.Hash{}, submitError(err)
	}
	return tx.Hash(), nil
}

// SendRawTransactionSync also waits until the transaction is in a block and answers with its receipt (EIP-7966). The
// longest wait is a number or a string; 0 is the default, and more than the bound is the bound.
func (a *ethAPI) SendRawTransactionSync(ctx context.Context, raw hexutil.Bytes, millis *math.HexOrDecimal64) (*receiptJSON, error) {
	wait := uint64(defaultSyncWait)
	if millis != nil && *millis > 0 {
		wait = min(uint64(*millis), maxSyncWait)
	}
	ctx, leave, err := a.enterWait(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	sub := a.hub.subscribe(want{host: a.host(ctx), kind: kindHeads, hashes: true, limit: maxSubscriberItems})
	defer sub.close()
	hash, err := a.SendRawTransaction(ctx, raw)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(time.Duration(wait) * time.Millisecond) //nolint:gosec // bounded above
	defer timer.Stop()
	for {
		if r, err := a.GetTransactionReceipt(hash); r != nil || err != nil {
			return r, err
		}
		select {
		case <-sub.ready:
			if _, err := sub.take(); err != nil {
				return nil, err
			}
		case <-timer.C:
			return nil, syncTimeout(hash, wait)
		case <-ctx.Done():
			return nil, syncTimeout(hash, wait)
		}
	}
}
