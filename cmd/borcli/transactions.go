package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/spf13/cobra"
)

func txCommand() *cobra.Command {
	var src abiSource
	show := command("show HASH", "Show a transaction and what became of it", func(ctx context.Context, a *app, args []string) error {
		return showTx(ctx, a, &src, args[0])
	}, arguments(1, 1), flags(src.flags),
		long("Show a transaction and what became of it. With --abi its call data and events are put into words. The word show can\nbe left out before a hash."),
		example("borcli tx show 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060 --abi Counter.json",
			"borcli tx 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060"))
	cmd := group("tx", "Read, follow and send transactions", show,
		command("wait HASH", "Follow a transaction until it is where --wait says", waitTx, arguments(1, 1),
			long("Follow a transaction until it is in a block (--wait included) or can never be undone (--wait final), for at most\n--timeout."),
			example("borcli tx wait 0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060 --wait final")),
		command("raw HASH", "Print a transaction as signed bytes", rawTx, arguments(1, 1)),
		command("send-raw BYTES", "Send a transaction that is signed already", sendRaw, arguments(1, 1),
			long("Send a transaction that is signed already, in hexadecimal; - reads it from standard input."),
			example("borcli tx send-raw - < signed.txt")))
	src.flags(cmd.Flags())
	noCommand := cmd.RunE
	cmd.RunE = func(c *cobra.Command, args []string) error { // a hash alone is to be shown
		if len(args) == 0 || !strings.HasPrefix(args[0], "0x") {
			return noCommand(c, args)
		}
		if len(args) > 1 {
			return fail(exitUsage, "borcli tx: it shows one transaction, %d are given; use it as: borcli tx show HASH", len(args))
		}
		return show.RunE(c, args)
	}
	return cmd
}

// txView is what is read of a transaction; raw is the node's whole answer.
type txView struct {
	Hash     common.Hash     `json:"hash"`
	From     common.Address  `json:"from"`
	To       *common.Address `json:"to"`
	Nonce    hexutil.Uint64  `json:"nonce"`
	Value    *hexutil.Big    `json:"value"`
	Gas      hexutil.Uint64  `json:"gas"`
	GasPrice *hexutil.Big    `json:"gasPrice"`
	Input    hexutil.Bytes   `json:"input"`
	Type     hexutil.Uint64  `json:"type"`
	Block    *hexutil.Uint64 `json:"blockNumber"`

	raw json.RawMessage
}

func (a *app) transaction(ctx context.Context, text string) (*txView, error) {
	hash, err := parseHash(text)
	if err != nil {
		return nil, fail(exitUsage, "%v", err)
	}
	var raw json.RawMessage
	if err := a.ask(ctx, &raw, "eth_getTransactionByHash", hash); err != nil {
		return nil, err
	}
	if len(raw) == 0 || string(raw) == "null" {
		return nil, fail(exitNotFound, "the node knows no transaction %s: it was never accepted, or it was replaced or dropped", hash)
	}
	v := &txView{raw: raw}
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, fail(exitOther, "the node's answer is no transaction: %v", err)
	}
	return v, nil
}

// follow makes what wait needs of a transaction that the node knows.
func (v *txView) follow() *sent {
	s := &sent{Hash: v.Hash, From: v.From, To: v.To, Nonce: v.Nonce, Value: decimal(v.Value.ToInt()), Status: statusPending, sent: true}
	if tx := new(types.Transaction); tx.UnmarshalJSON(v.raw) == nil {
		s.tx = tx
	}
	return s
}

func waitTx(ctx context.Context, a *app, args []string) error {
	v, err := a.transaction(ctx, args[0])
	if err != nil {
		return err
	}
	s := v.follow()
	err = a.wait(ctx, s)
	if shown := a.show(s, s.table); err == nil {
		err = shown
	}
	return err
}

func showTx(ctx context.Context, a *app, src *abiSource, text string) error {
	v, err := a.transaction(ctx, text)
	if err != nil {
		return err
	}
	var to common.Address
	if v.To != nil {
		to = *v.To
	}
	x, err := src.load(to)
	if err != nil {
		return err
	}
	if x != nil {
		a.abis = append(a.abis, x)
	}
	s := v.follow()
	goal := a.Wait
	a.Wait = waitFinal // one look tells finality too
	if _, err := a.look(ctx, s); err != nil {
		return err
	}
	a.Wait = goal
	var receipt json.RawMessage
	if s.Receipt != nil {
		if err := a.ask(ctx, &receipt, "eth_getTransactionReceipt", s.Hash); err != nil {
			return err
		}
	}
	if s.Status == statusFailed {
		s.Reason = a.failure(ctx, s)
	}
	var events []eventJSON
	if x != nil && s.Receipt != nil {
		for _, l := range s.Receipt.Logs {
			events = append(events, eventOf(x, l))
		}
	}
	return a.show(map[string]any{"outcome": s, "transaction": v.raw, "receipt": receipt, "call": a.callText(v), "events": events}, func(w io.Writer) {
		v.table(w, a.callText(v))
		s.table(w)
		if len(events) > 0 {
			printEvents(w, events)
		}
	})
}

func (v *txView) table(w io.Writer, call string) {
	to := "(deployment)"
	if v.To != nil {
		to = addressName(*v.To)
	}
	input := call
	if input == "" && len(v.Input) > 0 {
		input = plural(len(v.Input), "byte")
	}
	lines(w, pair{"from", v.From.Hex()}, pair{"to", to}, pair{"amount", ether(v.Value.ToInt())}, pair{"nonce", fmt.Sprint(uint64(v.Nonce))},
		pair{"gas limit", fmt.Sprint(uint64(v.Gas))}, pair{"gas price", gwei(v.GasPrice.ToInt())}, pair{"type", fmt.Sprint(uint64(v.Type))}, pair{"call", input})
}

// callText is a transaction's call data in words, if an ABI at hand has the method.
func (a *app) callText(v *txView) string {
	if v.To == nil || len(v.Input) < 4 {
		return ""
	}
	for i := len(a.abis) - 1; i >= 0; i-- { // the one that was named comes last
		m, err := a.abis[i].MethodById(v.Input)
		if err != nil {
			continue
		}
		values, err := outputsOf(m.Inputs, v.Input[4:])
		if err != nil {
			continue
		}
		parts := make([]string, len(values))
		for j, o := range values {
			parts[j] = o.text
		}
		return m.RawName + "(" + strings.Join(parts, ", ") + ")"
	}
	return ""
}

func rawTx(ctx context.Context, a *app, args []string) error {
	hash, err := parseHash(args[0])
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	var raw hexutil.Bytes
	if err := a.ask(ctx, &raw, "eth_getRawTransactionByHash", hash); err != nil {
		return err
	}
	if len(raw) == 0 {
		return fail(exitNotFound, "the node knows no transaction %s: it was never accepted, or it was replaced or dropped", hash)
	}
	return a.show(map[string]any{"raw": raw}, func(w io.Writer) { fmt.Fprintln(w, hexutil.Encode(raw)) })
}

func sendRaw(ctx context.Context, a *app, args []string) error {
	text := args[0]
	if text == "-" {
		b, err := io.ReadAll(io.LimitReader(a.stdin.r, maxFileBytes))
		if err != nil {
			return err
		}
		text = string(b)
	}
	raw, err := parseBytes(text)
	if err != nil {
		return fail(exitUsage, "BYTES: %v", err)
	}
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(raw); err != nil {
		return fail(exitUsage, "the bytes are no signed transaction: %v", err)
	}
	from, err := types.Sender(types.LatestSignerForChainID(tx.ChainId()), tx)
	if err != nil {
		return fail(exitUsage, "the transaction's signature is not valid: %v", err)
	}
	id, err := a.chainID(ctx)
	if err != nil {
		return err
	}
	if tx.Protected() && tx.ChainId().Cmp(id) != 0 {
		return fail(exitUsage, "the transaction is signed for chain %s, the node is of chain %s: sign it again", tx.ChainId(), id)
	}
	if err := a.checkFee(tx); err != nil {
		return err
	}
	s := &sent{Hash: tx.Hash(), From: from, To: tx.To(), Nonce: hexutil.Uint64(tx.Nonce()), Value: decimal(tx.Value()), Status: statusPending, tx: tx}
	err = a.deliver(ctx, s)
	if s.sent {
		if shown := a.show(s, s.table); err == nil {
			err = shown
		}
	}
	return err
}
