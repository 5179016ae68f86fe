package rpc

import (
	"context"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/common/math"
)

// SendRawTransaction hands a signed transaction to the pool. When it answers with the hash, the pool holds the
// transaction and no limit will drop it; otherwise it says why not.
func (a *ethAPI) SendRawTransaction(ctx context.Context, raw hexutil.Bytes) (common.Hash, error) {
	answer, offered := a.caller(ctx).nextSubmission(raw)
	if !offered {
		answer = a.submitTransactions([]hexutil.Bytes{raw})[0]
	}
	if answer.err != nil {
		return common.Hash{}, answer.err
	}
	return answer.hash, nil
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
