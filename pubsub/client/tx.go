package client

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	gethrpc "github.com/ethereum/go-ethereum/rpc"

	"github.com/bornode/bornode/contracts"
)

// send has the account call Topics, and waits until the transaction is final. Only Admin calls it, one at a time.
func (a *Admin) send(ctx context.Context, what string, data []byte) (*types.Receipt, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	tx, err := a.transaction(ctx, data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if err := a.eth.SendTransaction(ctx, tx); err != nil {
		return nil, fmt.Errorf("%s: sending the transaction: %w", what, err)
	}
	r, err := a.final(ctx, tx.Hash())
	if err != nil {
		return nil, fmt.Errorf("%s: transaction %s was sent, but whether it is final is not known: %w", what, tx.Hash(), err)
	}
	if r.Status != types.ReceiptStatusSuccessful {
		return nil, fmt.Errorf("%s: %w: it is %s in block %s", what, ErrReverted, tx.Hash(), r.BlockNumber)
	}
	return r, nil
}

// transaction makes and signs one.
func (a *Admin) transaction(ctx context.Context, data []byte) (*types.Transaction, error) {
	account := a.c.cfg.Account
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	to := contracts.TopicsAddress
	gas, err := a.eth.EstimateGas(ctx, ethereum.CallMsg{From: account.Address(), To: &to, Data: data})
	if err != nil {
		var reverted gethrpc.DataError
		if errors.As(err, &reverted) {
			return nil, fmt.Errorf("%w: %w", ErrReverted, err)
		}
		return nil, fmt.Errorf("estimating its cost: %w", err)
	}
	nonce, err := a.eth.PendingNonceAt(ctx, account.Address())
	if err != nil {
		return nil, fmt.Errorf("asking for the account's nonce: %w", err)
	}
	price, err := a.eth.SuggestGasPrice(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking for the price of gas: %w", err)
	}
	id := new(big.Int).SetUint64(a.c.chain.id)
	tx := types.NewTx(&types.DynamicFeeTx{ChainID: id, Nonce: nonce, GasFeeCap: new(big.Int).Mul(price, big.NewInt(2)), GasTipCap: new(big.Int),
		Gas: gas + gas*GasRoom/100, To: &to, Data: data})
	return account.SignTransaction(ctx, tx, id)
}

// final waits until a transaction is in an irreversible block. A node that was restarted meanwhile is asked again.
func (a *Admin) final(ctx context.Context, tx common.Hash) (*types.Receipt, error) {
	tick := time.NewTicker(FinalPoll)
	defer tick.Stop()
	answered := time.Now()
	for {
		r, err := a.finalReceipt(ctx, tx)
		switch {
		case r != nil:
			return r, nil
		case err == nil:
			answered = time.Now()
		case time.Since(answered) > NodeTime:
			return nil, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if err != nil && !errors.Is(err, ctx.Err()) {
				return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), err)
			}
			return nil, context.Cause(ctx)
		}
	}
}

// finalReceipt looks once; nil: not yet.
func (a *Admin) finalReceipt(ctx context.Context, tx common.Hash) (*types.Receipt, error) {
	ctx, cancel := context.WithTimeout(ctx, CallTimeout)
	defer cancel()
	r, err := a.eth.TransactionReceipt(ctx, tx)
	if errors.Is(err, ethereum.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := a.eth.HeaderByNumber(ctx, big.NewInt(int64(gethrpc.FinalizedBlockNumber)))
	if err != nil || h.Number.Cmp(r.BlockNumber) < 0 {
		return nil, err
	}
	again, err := a.eth.TransactionReceipt(ctx, tx) // a switch of branches between the two answers moves it to another block
	if err != nil || again.BlockNumber.Cmp(h.Number) > 0 {
		return nil, nil
	}
	return again, nil
}

func newEth(rpc *gethrpc.Client) *ethclient.Client { return ethclient.NewClient(rpc) }
