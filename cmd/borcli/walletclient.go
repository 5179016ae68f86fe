package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// walletInfo is one wallet of borwallet.
type walletInfo struct {
	Name     string           `json:"name"`
	Locked   bool             `json:"locked"`
	Until    any              `json:"until,omitempty"`
	Accounts []common.Address `json:"accounts"`
}

// askWallet calls a method of the wallet.
func (a *app) askWallet(ctx context.Context, result any, method string, args ...any) error {
	if a.walletClient == nil {
		c, err := a.dialWallet(ctx)
		if err != nil {
			return a.explain(&walletFailure{err})
		}
		a.walletClient = c
	}
	if err := a.walletClient.CallContext(ctx, result, method, args...); err != nil {
		return a.explain(&walletFailure{err})
	}
	return nil
}

func (a *app) dialWallet(ctx context.Context) (*gethrpc.Client, error) {
	if err := keepsSecrets(a.Wallet); err != nil {
		return nil, err
	}
	var options []gethrpc.ClientOption
	if a.WalletToken != "" {
		token, err := secretFile(a.WalletToken, maxPasswordBytes)
		if err != nil {
			return nil, fail(exitWallet, "wallet token: %v", err)
		}
		bearer := "Bearer " + strings.TrimSpace(string(token))
		options = append(options, gethrpc.WithHTTPAuth(func(h http.Header) error { h.Set("Authorization", bearer); return nil }))
	}
	return dial(ctx, a.Wallet, options...)
}

// keepsSecrets refuses an address to which passwords and tokens would travel in clear.
func keepsSecrets(target string) error {
	u, err := url.Parse(target)
	if err != nil || u.Scheme != "http" && u.Scheme != "ws" {
		return nil //nolint:nilerr // dial tells what is wrong with it
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fail(exitUsage, "the wallet at %s is on another host, and passwords would travel there in clear: forward its port by ssh -L and name http://127.0.0.1, or use https", redacted(target))
}

// explainWallet turns an error of the wallet into a sentence.
func (a *app) explainWallet(err error) *exitError {
	say := func(format string, args ...any) *exitError {
		return &exitError{exitWallet, fmt.Sprintf(format, args...), err}
	}
	var done *exitError
	if errors.As(err, &done) {
		return done
	}
	if errors.Is(err, context.Canceled) {
		return &exitError{exitOther, "interrupted", err}
	}
	var status gethrpc.HTTPError
	if errors.As(err, &status) {
		return explainStatus(err, "the wallet at "+redacted(a.Wallet), exitWallet, status)
	}
	var answer gethrpc.Error
	if errors.As(err, &answer) {
		text := strings.TrimSpace(answer.Error())
		switch answer.ErrorCode() {
		case methodNotFound:
			return say("the wallet does not offer this (%s): use a borwallet of borcli's version", text)
		case -32602:
			return say("the wallet did not accept a parameter: %s", text)
		case -32015:
			return say("the wallet does not accept the token: %s", text)
		}
		return say("the wallet: %s", text) // its sentences say what to do
	}
	if text := unreachable(err); text != "" {
		return say("the wallet at %s cannot be reached: %s; start borwallet, name another one by --wallet, or sign with a key file by --key", redacted(a.Wallet), text)
	}
	return say("the wallet: %v", err)
}

// onlyUnlocked is the wallet's account if it has just one that is unlocked.
func (a *app) onlyUnlocked(ctx context.Context) (account, error) {
	var list []walletInfo
	if err := a.askWallet(ctx, &list, "wallet_list"); err != nil {
		return nil, err
	}
	var open []common.Address
	var locked []string
	for _, w := range list {
		if w.Locked {
			locked = append(locked, w.Name)
			continue
		}
		open = append(open, w.Accounts...)
	}
	switch {
	case len(open) == 1:
		return &walletAccount{a, open[0]}, nil
	case len(open) > 1:
		names := make([]string, len(open))
		for i, x := range open {
			names[i] = x.Hex()
		}
		return nil, fail(exitUsage, "the wallet has %d unlocked accounts: choose one by --from: %s", len(open), strings.Join(names, ", "))
	case len(locked) > 0:
		return nil, fail(exitWallet, "no wallet is unlocked: unlock one (%s) with borcli wallet unlock NAME, or sign with a key file by --key", strings.Join(locked, ", "))
	}
	return nil, fail(exitWallet, "there is no account to sign with: make a wallet (borcli wallet create NAME) and an account (borcli wallet new NAME), or sign with a key file by --key")
}

// walletAccount signs by the wallet.
type walletAccount struct {
	a    *app
	addr common.Address
}

func (w *walletAccount) address() common.Address { return w.addr }

func (w *walletAccount) sign(ctx context.Context, tx *types.Transaction, chainID *big.Int) (*types.Transaction, error) {
	args := map[string]any{
		"from": w.addr, "nonce": hexutil.Uint64(tx.Nonce()), "gas": hexutil.Uint64(tx.Gas()), "value": (*hexutil.Big)(tx.Value()),
		"input": hexutil.Bytes(tx.Data()), "chainId": (*hexutil.Big)(chainID),
	}
	if tx.To() != nil {
		args["to"] = tx.To()
	}
	if tx.Type() == types.DynamicFeeTxType {
		args["maxFeePerGas"], args["maxPriorityFeePerGas"] = (*hexutil.Big)(tx.GasFeeCap()), (*hexutil.Big)(tx.GasTipCap())
	} else {
		args["gasPrice"] = (*hexutil.Big)(tx.GasPrice())
	}
	if tx.Type() != types.LegacyTxType {
		args["accessList"] = tx.AccessList()
		if tx.AccessList() == nil {
			args["accessList"] = types.AccessList{}
		}
	}
	var out struct {
		Raw hexutil.Bytes `json:"raw"`
	}
	if err := w.a.askWallet(ctx, &out, "eth_signTransaction", args); err != nil {
		return nil, err
	}
	signed := new(types.Transaction)
	if err := signed.UnmarshalBinary(out.Raw); err != nil {
		return nil, fail(exitWallet, "the wallet's answer is no signed transaction: %v", err)
	}
	signer := types.LatestSignerForChainID(chainID)
	if got, err := types.Sender(signer, signed); err != nil || got != w.addr || signer.Hash(signed) != signer.Hash(tx) {
		return nil, fail(exitWallet, "the wallet signed something else than it was asked to: nothing was sent; check the wallet")
	}
	return signed, nil
}
