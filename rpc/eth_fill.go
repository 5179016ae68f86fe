package rpc

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

type filledJSON struct {
	Raw hexutil.Bytes      `json:"raw"`
	Tx  *types.Transaction `json:"tx"`
}

// FillTransaction completes a transaction: nonce, fees, gas, chain id. The caller signs it.
func (a *ethAPI) FillTransaction(ctx context.Context, args callArgs) (*filledJSON, error) {
	if err := args.check(a.back.Chain.Config().ChainID); err != nil {
		return nil, err
	}
	switch {
	case args.To == nil && len(args.input()) == 0:
		return nil, invalidParams("contract creation without any data provided")
	case args.GasPrice != nil && args.AuthorizationList != nil:
		return nil, invalidParams("both gasPrice and authorizationList specified; set maxFeePerGas and maxPriorityFeePerGas instead of gasPrice")
	}
	if err := a.back.notReady("the newest state"); err != nil {
		return nil, err
	}
	if err := a.fillFees(&args); err != nil {
		return nil, err
	}
	if args.Nonce == nil {
		args.Nonce = (*hexutil.Uint64)(new(a.back.Pool.Nonce(args.from())))
	}
	if args.Gas == nil {
		latest := byNumber(gethrpc.LatestBlockNumber)
		gas, err := a.EstimateGas(ctx, args, &latest, nil, nil)
		if err != nil {
			return nil, err
		}
		args.Gas = &gas
	}
	tx := args.transaction(a.back.Chain.Config().ChainID)
	raw, err := tx.MarshalBinary()
	if err != nil {
		return nil, err
	}
	return &filledJSON{raw, tx}, nil
}

// fillFees offers twice the next base fee beside the tip, so that the transaction outlasts a rising base fee.
func (a *ethAPI) fillFees(args *callArgs) error {
	if args.GasPrice != nil {
		return nil
	}
	head := a.back.Chain.CurrentHeader()
	if args.MaxPriorityFee == nil {
		tip := a.suggestTip(head)
		if args.MaxFeePerGas != nil && args.MaxFeePerGas.ToInt().Cmp(tip) < 0 {
			tip = args.MaxFeePerGas.ToInt()
		}
		args.MaxPriorityFee = (*hexutil.Big)(tip)
	}
	if args.MaxFeePerGas == nil {
		fee := new(big.Int).Lsh(a.nextBaseFee(head), 1)
		args.MaxFeePerGas = (*hexutil.Big)(fee.Add(fee, args.MaxPriorityFee.ToInt()))
		if fee.BitLen() > 256 {
			return invalidParams("maxPriorityFeePerGas is too high")
		}
	}
	if args.MaxFeePerGas.ToInt().Cmp(args.MaxPriorityFee.ToInt()) < 0 {
		return invalidParams("maxFeePerGas (%s) < maxPriorityFeePerGas (%s)", args.MaxFeePerGas.ToInt(), args.MaxPriorityFee.ToInt())
	}
	return nil
}
