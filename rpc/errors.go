package rpc

import (
	"errors"
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/txpool"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	pool "github.com/ethereum/go-ethereum/core/txpool"
	"github.com/ethereum/go-ethereum/core/vm"
)

// Codes of JSON-RPC and of Ethereum clients (EIP-1474).
const (
	codeInvalidParams = -32602
	codeServer        = -32000
	codeLimit         = -32005
	codeReverted      = 3
	codeSyncTimeout   = 4
	codeInternal      = -32603
	codeVM            = -32015
	codePruned        = 4444 // of the execution APIs: "Pruned history unavailable"
)

// Codes of eth_simulateV1.
const (
	codeNonceTooLow       = -38010
	codeNonceTooHigh      = -38011
	codeBaseFeeTooLow     = -38012
	codeIntrinsicGas      = -38013
	codeInsufficientFunds = -38014
	codeBlockGasLimit     = -38015
	codeBlockNumber       = -38020
	codeBlockTime         = -38021
	codeMovedOntoItself   = -38022
	codeMovedTwice        = -38023
	codeSenderNoEOA       = -38024
	codeInitCodeSize      = -38025
	codeSimulateLimit     = -38026
)

// invalidCodes are the codes for transactions that no block could hold.
var invalidCodes = []struct {
	err  error
	code int
}{
	{core.ErrNonceTooLow, codeNonceTooLow},
	{core.ErrNonceTooHigh, codeNonceTooHigh},
	{core.ErrFeeCapTooLow, codeBaseFeeTooLow},
	{core.ErrIntrinsicGas, codeIntrinsicGas},
	{core.ErrFloorDataGas, codeIntrinsicGas},
	{core.ErrInsufficientFunds, codeInsufficientFunds},
	{core.ErrInsufficientFundsForTransfer, codeInsufficientFunds},
	{core.ErrGasLimitReached, codeBlockGasLimit},
	{core.ErrSenderNoEOA, codeSenderNoEOA},
	{vm.ErrMaxInitCodeSizeExceeded, codeInitCodeSize},
	{core.ErrTipAboveFeeCap, codeInvalidParams},
	{core.ErrEmptyAuthList, codeInvalidParams},
	{core.ErrSetCodeTxCreate, codeInvalidParams},
}

// invalidSimulated is the answer to a simulation with a transaction that no block could hold.
func invalidSimulated(err error) *Error {
	for _, x := range invalidCodes {
		if errors.Is(err, x.err) {
			return &Error{Code: x.code, Message: err.Error()}
		}
	}
	return &Error{Code: codeInternal, Message: err.Error()}
}

func simulateLimit(format string, args ...any) *Error {
	return &Error{Code: codeSimulateLimit, Message: fmt.Sprintf(format, args...)}
}

func abortedCall(limit time.Duration) *Error {
	return &Error{Code: codeServer, Message: fmt.Sprintf("execution aborted (timeout = %s)", limit)}
}

// Error is an answer with a code and, for reverts, data.
type Error struct {
	Code    int
	Message string
	Data    any
}

func (e *Error) Error() string  { return e.Message }
func (e *Error) ErrorCode() int { return e.Code }
func (e *Error) ErrorData() any { return e.Data }

// damagedJSON is the data of an answer that a damaged block stands in the way of.
type damagedJSON struct {
	Block hexutil.Uint64 `json:"damagedBlock"` // the height; it is fetched again from a peer
}

// missingReceiptsJSON is the data of an answer that lacks a block's receipts.
type missingReceiptsJSON struct {
	Block hexutil.Uint64 `json:"missingReceipts"` // the height; they are fetched from a peer
}

// unreadable is the answer where something is there, or may be, and cannot be read: never null, never empty. A damaged
// block, and one whose receipts are missing, is named by its height, in words and as data.
func unreadable(what string, err error) error {
	var known *Error
	var damaged block.ErrCorrupt
	var without block.ErrNoReceipts
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &damaged):
		return &Error{
			Code: codeServer, Data: damagedJSON{hexutil.Uint64(damaged.Height)},
			Message: fmt.Sprintf("%s is not available: %s; it is fetched again from a peer: ask again later, or another node", what, err),
		}
	}
	if errors.As(err, &without) {
		remedy := "they are fetched from a peer: ask again later, or another node. Its operator links a node that has them (p2p.peers), or stops it and runs bornode rebuild state, which executes all blocks again"
		if without.Soon() {
			remedy = "the node makes them when it is ready, or a peer sends them before: ask again later, or another node"
		}
		return &Error{
			Code: codeServer, Data: missingReceiptsJSON{hexutil.Uint64(without.Height)},
			Message: fmt.Sprintf("%s; %s", err, remedy),
		}
	}
	if errors.Is(err, block.ErrPruned) {
		return prunedHistory(fmt.Sprintf("%s: %s", what, err))
	}
	return &Error{Code: codeServer, Message: fmt.Sprintf("%s is not available: %s", what, err)}
}

// prunedHistory is the answer about blocks that this node does not keep any more: never null, never empty.
func prunedHistory(why string) *Error {
	return &Error{Code: codePruned, Message: "pruned history unavailable: " + why + "; ask a node that keeps the whole history (bor_finality: first)"}
}

func invalidParams(format string, args ...any) *Error {
	return &Error{Code: codeInvalidParams, Message: fmt.Sprintf(format, args...)}
}

func limitExceeded(format string, args ...any) *Error {
	return &Error{Code: codeLimit, Message: fmt.Sprintf(format, args...)}
}

func notOffered(what string) *Error {
	return &Error{Code: codeServer, Message: what + " is not offered by this node"}
}

// reverted is the answer to a call that reverted: the reason in words where it has one, and the data.
func reverted(data []byte) *Error {
	msg := "execution reverted"
	if reason, err := abi.UnpackRevert(data); err == nil {
		msg += ": " + reason
	}
	return &Error{Code: codeReverted, Message: msg, Data: hexutil.Encode(data)}
}

// remedies follow the pool's own words, which clients look for.
var remedies = []struct {
	err    error
	remedy string
}{
	{core.ErrInsufficientFunds, "send ether to the account, or lower value, gas or fees"},
	{core.ErrFeeCapTooLow, "offer at least the base fee (eth_baseFee)"},
	{core.ErrNonceTooLow, "ask eth_getTransactionCount at pending for the next nonce"},
	{pool.ErrReplaceUnderpriced, "offer 10 % more tip and fee than the one that waits with this nonce"},
	{pool.ErrInflightTxLimitReached, "wait until the one that waits is in a block"},
}

// submitError is the answer to a refused transaction. The pool's sentences are kept: wallets read them.
func submitError(err error) error {
	if txpool.Overloaded(err) {
		return &Error{Code: codeLimit, Message: err.Error()}
	}
	for _, x := range remedies {
		if errors.Is(err, x.err) {
			return &Error{Code: codeServer, Message: err.Error() + "; " + x.remedy}
		}
	}
	return &Error{Code: codeServer, Message: err.Error()}
}

func syncTimeout(hash common.Hash, millis uint64) *Error {
	return &Error{Code: codeSyncTimeout, Data: hash.Hex(),
		Message: fmt.Sprintf("transaction %s was accepted but is in no block after %d ms; ask for its receipt later", hash, millis)}
}
