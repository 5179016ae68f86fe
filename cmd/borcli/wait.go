package main

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
)

// Where a transaction is.
const (
	statusUnknown  = "unknown" // the node did not say whether it took it
	statusPending  = "pending"
	statusIncluded = "included"
	statusFinal    = "final"
	statusFailed   = "failed" // in a block, without effect but its fee
)

// sent is a transaction that was handed to the node, and what became of it.
type sent struct {
	Hash     common.Hash     `json:"hash"`
	From     common.Address  `json:"from"`
	To       *common.Address `json:"to,omitempty"`
	Nonce    hexutil.Uint64  `json:"nonce"`
	Value    string          `json:"value"` // wei, decimal
	What     string          `json:"what,omitempty"`
	Status   string          `json:"status"`
	Final    bool            `json:"final"`
	Block    *hexutil.Uint64 `json:"block,omitempty"`
	At       *common.Hash    `json:"blockHash,omitempty"`
	GasUsed  *hexutil.Uint64 `json:"gasUsed,omitempty"`
	Fee      string          `json:"fee,omitempty"` // wei, decimal
	Contract *common.Address `json:"contractAddress,omitempty"`
	Reason   string          `json:"reason,omitempty"`

	Receipt *types.Receipt `json:"-"`

	tx   *types.Transaction
	sent bool
}

func decimal(v *big.Int) string {
	if v == nil {
		return "0"
	}
	return v.String()
}

func (s *sent) table(w io.Writer) {
	rows := []pair{{"transaction", s.Hash.Hex()}, {"status", s.Status}}
	if s.Status == statusFailed && s.Reason != "" {
		rows = append(rows, pair{"reason", s.Reason})
	}
	if s.Block != nil {
		rows = append(rows, pair{"block", fmt.Sprintf("%d %s", uint64(*s.Block), s.At)})
	}
	if s.Contract != nil {
		rows = append(rows, pair{"contract", s.Contract.Hex()})
	}
	if s.GasUsed != nil {
		fee, _ := new(big.Int).SetString(s.Fee, 10)
		rows = append(rows, pair{"gas used", fmt.Sprint(uint64(*s.GasUsed))}, pair{"fee", ether(fee)})
	}
	lines(w, rows...)
}

// take notes what a receipt says.
func (s *sent) take(r *types.Receipt) {
	n, gas := hexutil.Uint64(r.BlockNumber.Uint64()), hexutil.Uint64(r.GasUsed)
	s.Receipt, s.Block, s.At, s.GasUsed = r, &n, &r.BlockHash, &gas
	s.Fee = "0"
	if r.EffectiveGasPrice != nil {
		s.Fee = new(big.Int).Mul(r.EffectiveGasPrice, new(big.Int).SetUint64(r.GasUsed)).String()
	}
	s.Contract = nil
	if r.ContractAddress != (common.Address{}) {
		s.Contract = &r.ContractAddress
	}
	s.Status = statusIncluded
	if r.Status != types.ReceiptStatusSuccessful {
		s.Status = statusFailed
	}
}

// forget is what a branch switch makes of an included transaction: it waits again.
func (s *sent) forget() {
	s.Status, s.Receipt, s.Block, s.At, s.GasUsed, s.Contract, s.Fee = statusPending, nil, nil, nil, nil, nil, ""
}

// wait follows a transaction until it is where --wait wants it. Its receipt is read anew each time, because a branch
// switch can move the transaction to another block or back to the pool until its block is final. A node that is away for a
// while, which has the transaction, is asked again.
func (a *app) wait(ctx context.Context, s *sent) error {
	if a.Wait == waitNone {
		return nil
	}
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	line := a.progress()
	defer line.end()
	start := time.Now()
	answered := start
	var away error // the node is
	for {
		done, err := a.look(ctx, s)
		switch {
		case err == nil:
			answered, away = time.Now(), nil
		case outer.Err() != nil:
		case ctx.Err() != nil:
			err = nil // our own time is over, told below
		case a.explain(err).code == exitUnreachable && time.Since(answered) < nodeTime:
			away, err = err, nil // until it is started again
		}
		if err != nil {
			return a.stillOnItsWay(outer, s, err)
		}
		if done {
			line.end()
			return a.outcome(outer, s)
		}
		line.set("%s: %s, %s", s.Hash.TerminalString(), s.where(a.Wait), time.Since(start).Round(time.Second))
		select {
		case <-ctx.Done():
			line.end()
			if outer.Err() != nil {
				return a.stillOnItsWay(outer, s, outer.Err())
			}
			if away != nil {
				return a.stillOnItsWay(outer, s, away)
			}
			return a.lateness(outer, s)
		case <-time.After(pollInterval):
		}
	}
}

func (s *sent) where(goal string) string {
	if s.Receipt == nil {
		return "waits for a block"
	}
	if goal == waitFinal {
		return fmt.Sprintf("in block %d, waits to become final", uint64(*s.Block))
	}
	return fmt.Sprintf("in block %d", uint64(*s.Block))
}

// look reads the receipt and finality once. Finality is read first: a receipt that is read later and lies at or below
// it can not move any more.
func (a *app) look(ctx context.Context, s *sent) (done bool, err error) {
	var final struct {
		Number hexutil.Uint64 `json:"number"`
	}
	var used hexutil.Uint64
	if a.Wait == waitFinal || s.Receipt == nil {
		if err := a.ask(ctx, &final, "eth_getBlockByNumber", "finalized", false); err != nil {
			return false, err
		}
		if err := a.ask(ctx, &used, "eth_getTransactionCount", s.From, "finalized"); err != nil {
			return false, err
		}
	}
	var r *types.Receipt
	if err := a.ask(ctx, &r, "eth_getTransactionReceipt", s.Hash); err != nil {
		return false, err
	}
	if r != nil && (r.BlockNumber == nil || !r.BlockNumber.IsUint64() || r.TxHash != s.Hash) {
		return false, fail(exitOther, "the node's receipt of transaction %s cannot be read, it names no block or another transaction; take another node by --node", s.Hash)
	}
	if r == nil {
		s.forget()
		if uint64(used) > uint64(s.Nonce) {
			return false, fail(exitRefused, "transaction %s will never be in a block: another one with nonce %d of %s has become final in its place", s.Hash, uint64(s.Nonce), s.From)
		}
		return false, nil
	}
	s.take(r)
	s.Final = r.BlockNumber.Uint64() <= uint64(final.Number)
	if s.Final && s.Status == statusIncluded {
		s.Status = statusFinal
	}
	return a.Wait == waitIncluded || s.Final, nil
}

// outcome is the error of a transaction that failed in its block.
func (a *app) outcome(ctx context.Context, s *sent) error {
	if s.Status != statusFailed {
		return nil
	}
	s.Reason = a.failure(ctx, s)
	return fail(exitReverted, "transaction %s is in block %d but failed: %s", s.Hash, uint64(*s.Block), s.Reason)
}

// failure finds out why: the transaction is called again on the state before its block.
func (a *app) failure(ctx context.Context, s *sent) string {
	if s.tx != nil && s.Receipt.GasUsed == s.tx.Gas() {
		return "it used up its gas; raise --gas, or look for an endless loop or an assertion"
	}
	if s.tx == nil || s.Receipt.BlockNumber.Sign() == 0 {
		return "the node does not say why"
	}
	args := map[string]any{"from": s.From, "value": (*hexutil.Big)(s.tx.Value()), "input": hexutil.Bytes(s.tx.Data()), "gas": hexutil.Uint64(s.tx.Gas())}
	if s.tx.To() != nil {
		args["to"] = s.tx.To()
	}
	var out hexutil.Bytes
	before := hexutil.Uint64(s.Receipt.BlockNumber.Uint64() - 1)
	if err := a.ask(ctx, &out, "eth_call", args, before); err != nil {
		return err.Error()
	}
	return "alone it would have succeeded; an earlier transaction of its block changed what it needs"
}

// lateness is the error of a transaction that did not get there in time.
func (a *app) lateness(ctx context.Context, s *sent) error {
	if s.Receipt != nil {
		return fail(exitTimeout, "transaction %s is in block %d, which is not final after %s: look again with borcli tx wait %s, and at borcli finality", s.Hash, uint64(*s.Block), a.Timeout, s.Hash)
	}
	var next hexutil.Uint64
	if err := a.ask(ctx, &next, "eth_getTransactionCount", s.From, "latest"); err == nil && uint64(next) < uint64(s.Nonce) {
		return fail(exitTimeout, "transaction %s is in no block after %s: it has nonce %d and waits for nonce %d of %s, which is missing or waits too; send that one first", s.Hash, a.Timeout, uint64(s.Nonce), uint64(next), s.From)
	}
	return fail(exitTimeout, "transaction %s is in no block after %s: look again with borcli tx wait %s, and at borcli status", s.Hash, a.Timeout, s.Hash)
}

// stillOnItsWay tells that an error met the waiting, not the transaction.
func (a *app) stillOnItsWay(ctx context.Context, s *sent, err error) error {
	e := a.explain(err)
	if ctx.Err() == nil && e.code == exitRefused && s.Receipt == nil {
		return e
	}
	return &exitError{e.code, fmt.Sprintf("%s. Transaction %s was sent: look again with borcli tx wait %s", e.msg, s.Hash, s.Hash), err}
}
