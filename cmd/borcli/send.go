package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// txRequest is a transaction to be sent.
type txRequest struct {
	To    *common.Address // nil: a deployment
	Value *big.Int        // wei, nil: none
	Data  []byte
	Gas   uint64   // 0: estimated by the node
	What  string   // for people: "send 1 ether to 0x..."
	ABI   *abi.ABI // of the contract that is called, for reasons of reverts; may be nil
}

// sends marks a command that sends a transaction: it gets the flags about gas, fees and nonce.
func sends(c *cobra.Command) {
	f := c.Flags()
	f.Uint64("gas", 0, "gas limit; 0: the node's estimate and a fifth more")
	f.String("gas-price", "", "price per gas, such as 2gwei; of a transaction of the old kind, or as both --max-fee and --tip")
	f.String("max-fee", "", "highest price per gas, base fee and tip together")
	f.String("tip", "", "price per gas above the base fee")
	f.Uint64("nonce", 0, "nonce; without it the account's next one")
	f.Bool("legacy", false, "make a transaction of the old kind (type 0)")
	f.String("access-list", "", "file with an EIP-2930 access list as JSON")
}

// send signs and sends a transaction, waits as --wait says and prints the result. Fees, gas, nonce and chain id are
// filled in. A transaction that failed in its block is an error (exitReverted).
func (a *app) send(ctx context.Context, r txRequest) (*sent, error) {
	s, err := a.submit(ctx, r)
	if s != nil && s.sent {
		if shown := a.show(s, s.table); err == nil {
			err = shown
		}
	}
	return s, err
}

// submit is send without printing the result. If the transaction was handed to the node, the first result is never
// nil, even beside an error. Where somebody else uses the account, as a broker does its producer's, another transaction
// may take the nonce before ours arrives: then ours is made again with the next one.
func (a *app) submit(ctx context.Context, r txRequest) (*sent, error) {
	if r.ABI != nil {
		a.abis = append(a.abis, r.ABI)
	}
	if r.Value == nil {
		r.Value = new(big.Int)
	}
	for try := 1; ; try++ {
		s, err := a.submitOnce(ctx, r, try == 1)
		if s == nil || s.sent || try == nonceTries || a.flagSet("nonce") || !a.outrun(ctx, s, err) {
			return s, err
		}
		a.note("another transaction of %s took nonce %d before; this one is made again", s.From, uint64(s.Nonce))
	}
}

// outrun tells whether the node did not take a transaction because another one has its nonce, and knows the next nonce.
func (a *app) outrun(ctx context.Context, s *sent, err error) bool {
	var answer gethrpc.Error
	if !errors.As(err, &answer) || !strings.Contains(answer.Error(), "nonce too low") && !strings.Contains(answer.Error(), "replacement transaction underpriced") {
		return false
	}
	var known *struct{} // it may have been taken after all, and come here a second time by what lies between
	if err := a.ask(ctx, &known, "eth_getTransactionByHash", s.Hash); err != nil || known != nil {
		return false
	}
	for range nonceTries { // the pool counts what it took a moment later
		if next, err := a.nonce(ctx, s.From); err != nil || next > uint64(s.Nonce) {
			return err == nil
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(pollInterval):
		}
	}
	return false
}

// submitOnce makes, signs and hands over a transaction, and waits for it.
func (a *app) submitOnce(ctx context.Context, r txRequest, asks bool) (*sent, error) {
	who, err := a.account(ctx)
	if err != nil {
		return nil, err
	}
	chainID, err := a.chainID(ctx)
	if err != nil {
		return nil, err
	}
	tx, err := a.build(ctx, r, who.address(), chainID)
	if err != nil {
		return nil, err
	}
	if err := a.checkFee(tx); err != nil {
		return nil, err
	}
	if asks {
		fee := new(big.Int).Mul(tx.GasFeeCap(), new(big.Int).SetUint64(tx.Gas()))
		if err := a.confirm(ctx, true, "From %s: %s. It costs at most %s. Go on?", who.address(), r.What, ether(fee)); err != nil {
			return nil, err
		}
	}
	signed, err := who.sign(ctx, tx, chainID)
	if err != nil {
		return nil, err
	}
	s := &sent{Hash: signed.Hash(), From: who.address(), To: r.To, Nonce: hexutil.Uint64(signed.Nonce()), Value: decimal(r.Value), What: r.What, Status: statusPending, tx: signed}
	return s, a.deliver(ctx, s)
}

// deliver hands a signed transaction to the node and waits. The hash is told as soon as the node took the transaction or
// may have taken it, and not at all if it refused.
func (a *app) deliver(ctx context.Context, s *sent) error {
	raw, err := s.tx.MarshalBinary()
	if err != nil {
		return err
	}
	var hash common.Hash
	if err := a.ask(ctx, &hash, "eth_sendRawTransaction", hexutil.Bytes(raw)); err != nil {
		if certain(err) {
			return err
		}
		a.signed = &s.Hash
		s.sent, s.Status = true, statusUnknown
		e := a.explain(err)
		code := e.code
		if code == exitRefused { // it may have been taken
			code = exitTimeout
		}
		return &exitError{code, fmt.Sprintf("%s. Transaction %s may have arrived: look with borcli tx show %s before you send it again", e.msg, s.Hash, s.Hash), err}
	}
	a.signed, s.sent = &s.Hash, true
	a.note("transaction %s", s.Hash)
	return a.wait(ctx, s)
}

// certain says that an error of eth_sendRawTransaction means that the transaction was not taken. A node that gave up or
// failed within, a proxy that lost its node, and a connection that broke leave that open.
func certain(err error) bool {
	var status gethrpc.HTTPError
	if errors.As(err, &status) {
		open := status.StatusCode == http.StatusRequestTimeout || status.StatusCode == http.StatusTooManyRequests
		return status.StatusCode/100 == 4 && !open
	}
	var answer gethrpc.Error
	return errors.As(err, &answer) && answer.ErrorCode() != -32002 && answer.ErrorCode() != -32603
}

// chainID is the node's, which has to be the one of the settings if they name one.
func (a *app) chainID(ctx context.Context) (*big.Int, error) {
	var id hexutil.Big
	if err := a.ask(ctx, &id, "eth_chainId"); err != nil {
		return nil, err
	}
	if a.ChainID != 0 && id.ToInt().Cmp(new(big.Int).SetUint64(a.ChainID)) != 0 {
		return nil, fail(exitUsage, "the node at %s is of chain %s, --chain-id asks for %d: use another node, or correct the setting", redacted(a.Node), id.ToInt(), a.ChainID)
	}
	return id.ToInt(), nil
}

// build fills in nonce, gas and fees.
func (a *app) build(ctx context.Context, r txRequest, from common.Address, chainID *big.Int) (*types.Transaction, error) {
	nonce, err := a.nonce(ctx, from)
	if err != nil {
		return nil, err
	}
	f, err := a.fees(ctx)
	if err != nil {
		return nil, err
	}
	list, err := a.accessList()
	if err != nil {
		return nil, err
	}
	gas := r.Gas
	if a.flagSet("gas") {
		gas, _ = a.flags.GetUint64("gas")
	}
	if gas == 0 {
		if gas, err = a.estimate(ctx, r, from, f, list); err != nil {
			return nil, err
		}
	}
	switch {
	case f.legacy && list != nil:
		return types.NewTx(&types.AccessListTx{ChainID: chainID, Nonce: nonce, GasPrice: f.cap, Gas: gas, To: r.To, Value: r.Value, Data: r.Data, AccessList: list}), nil
	case f.legacy:
		return types.NewTx(&types.LegacyTx{Nonce: nonce, GasPrice: f.cap, Gas: gas, To: r.To, Value: r.Value, Data: r.Data}), nil
	}
	return types.NewTx(&types.DynamicFeeTx{ChainID: chainID, Nonce: nonce, GasFeeCap: f.cap, GasTipCap: f.tip, Gas: gas, To: r.To, Value: r.Value, Data: r.Data, AccessList: list}), nil
}

func (a *app) flagSet(name string) bool {
	f := a.flags.Lookup(name)
	return f != nil && f.Changed
}

// nonce is the account's next one, or that of --nonce, which may leave no gap unless nothing is waited for.
func (a *app) nonce(ctx context.Context, from common.Address) (uint64, error) {
	var next hexutil.Uint64
	if err := a.ask(ctx, &next, "eth_getTransactionCount", from, "pending"); err != nil {
		return 0, err
	}
	if !a.flagSet("nonce") {
		return uint64(next), nil
	}
	n, _ := a.flags.GetUint64("nonce")
	if n > uint64(next) && a.Wait != waitNone {
		return 0, fail(exitRefused, "nonce %d leaves a gap, the next one of %s is %d: leave --nonce out, send the ones between first, or say --wait none to let it wait for them", n, from, uint64(next))
	}
	return n, nil
}

// fees are the prices of a transaction: cap is the highest price per gas, tip the part above the base fee.
type fees struct {
	cap, tip *big.Int
	legacy   bool
}

// fees are those of the flags, else what the node suggests: twice the base fee (it may rise while the transaction
// waits) and its tip, which is 0 on a chain with fixed fees.
func (a *app) fees(ctx context.Context) (f fees, err error) {
	price, err := a.priceFlag("gas-price")
	if err != nil {
		return f, err
	}
	if f.cap, err = a.priceFlag("max-fee"); err != nil {
		return f, err
	}
	if f.tip, err = a.priceFlag("tip"); err != nil {
		return f, err
	}
	f.legacy, _ = a.flags.GetBool("legacy")
	if price != nil || f.legacy {
		if f.cap != nil || f.tip != nil {
			return f, fail(exitUsage, "--gas-price and --legacy do not go with --max-fee and --tip: use one or the other")
		}
	}
	if price != nil {
		return fees{price, price, f.legacy}, nil
	}
	if f.tip == nil {
		var tip hexutil.Big
		if err := a.ask(ctx, &tip, "eth_maxPriorityFeePerGas"); err != nil {
			return f, err
		}
		f.tip = tip.ToInt()
		if f.cap != nil && f.tip.Cmp(f.cap) > 0 {
			f.tip = f.cap
		}
	}
	if f.cap == nil {
		var head struct {
			BaseFee *hexutil.Big `json:"baseFeePerGas"`
		}
		if err := a.ask(ctx, &head, "eth_getBlockByNumber", "latest", false); err != nil {
			return f, err
		}
		f.cap = new(big.Int).Set(f.tip)
		if head.BaseFee != nil {
			f.cap.Add(f.cap, new(big.Int).Lsh(head.BaseFee.ToInt(), 1))
		}
	}
	if f.tip.Cmp(f.cap) > 0 {
		return f, fail(exitUsage, "--tip %s is above --max-fee %s, which includes it: raise --max-fee", gwei(f.tip), gwei(f.cap))
	}
	return f, nil
}

func (a *app) priceFlag(name string) (*big.Int, error) {
	if !a.flagSet(name) {
		return nil, nil
	}
	v, err := parseAmount(a.flags.Lookup(name).Value.String())
	if err != nil {
		return nil, fail(exitUsage, "--%s: %v", name, err)
	}
	return v, nil
}

func (a *app) accessList() (types.AccessList, error) {
	if !a.flagSet("access-list") {
		return nil, nil
	}
	path := a.flags.Lookup("access-list").Value.String()
	b, err := readFile(path, maxFileBytes)
	if err != nil {
		return nil, fail(exitUsage, "--access-list: %v", err)
	}
	list := types.AccessList{}
	if err := json.Unmarshal(b, &list); err != nil {
		return nil, fail(exitUsage, `--access-list: %s is no access list: write [{"address": "0x...", "storageKeys": ["0x..."]}] (%v)`, path, err)
	}
	return list, nil
}

// estimate is the node's estimate with a margin. A call that would be reverted ends here, and costs nothing.
func (a *app) estimate(ctx context.Context, r txRequest, from common.Address, f fees, list types.AccessList) (uint64, error) {
	args := map[string]any{"from": from, "value": (*hexutil.Big)(r.Value), "input": hexutil.Bytes(r.Data)}
	if r.To != nil {
		args["to"] = r.To
	}
	if f.cap.Sign() > 0 {
		if f.legacy {
			args["gasPrice"] = (*hexutil.Big)(f.cap)
		} else {
			args["maxFeePerGas"], args["maxPriorityFeePerGas"] = (*hexutil.Big)(f.cap), (*hexutil.Big)(f.tip)
		}
	}
	if list != nil {
		args["accessList"] = list
	}
	var gas hexutil.Uint64
	if err := a.ask(ctx, &gas, "eth_estimateGas", args); err != nil {
		var e *exitError
		if errors.As(err, &e) && (e.code == exitReverted || e.code == exitRefused) {
			return 0, &exitError{e.code, e.msg + " (nothing was sent)", err}
		}
		return 0, err
	}
	if uint64(gas) == params.TxGas {
		return params.TxGas, nil
	}
	return min(uint64(gas)+uint64(gas)*gasMarginPercent/100, max(uint64(gas), params.MaxTxGas)), nil
}

// checkFee guards against a node that names an absurd price.
func (a *app) checkFee(tx *types.Transaction) error {
	most, err := a.mostFee()
	if err != nil {
		return err
	}
	if fee := new(big.Int).Mul(tx.GasFeeCap(), new(big.Int).SetUint64(tx.Gas())); fee.Cmp(most) > 0 {
		return fail(exitUsage, "the transaction could cost a fee of %s (%d gas at %s), --most-fee allows %s: lower --max-fee, or raise --most-fee if that is right", ether(fee), tx.Gas(), gwei(tx.GasFeeCap()), ether(most))
	}
	return nil
}

func sendCommand() *cobra.Command {
	var data string
	return command("send TO AMOUNT", "Send ether", func(ctx context.Context, a *app, args []string) error {
		to, err := parseAddress(args[0])
		if err != nil {
			return fail(exitUsage, "TO: %v", err)
		}
		amount, err := parseAmount(args[1])
		if err != nil {
			return fail(exitUsage, "AMOUNT: %v", err)
		}
		b, err := parseBytes(data)
		if err != nil {
			return fail(exitUsage, "--data: %v", err)
		}
		_, err = a.send(ctx, txRequest{To: &to, Value: amount, Data: b, What: fmt.Sprintf("send %s to %s", ether(amount), addressName(to))})
		return err
	}, arguments(2, 2), sends, flags(func(f *pflag.FlagSet) { f.StringVar(&data, "data", "", "bytes to send along, in hexadecimal") }),
		long("Send ether. An amount has a unit: 1.5ether, 20gwei or 5wei."),
		example("borcli send 0x52908400098527886E0F7030069857D2E4169EE7 1.5ether", "borcli send 0x52908400098527886E0F7030069857D2E4169EE7 20gwei --wait final --json"))
}
