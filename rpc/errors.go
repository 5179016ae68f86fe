package rpc

import (
	"fmt"

	"github.com/bornode/bornode/txpool"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// Codes of JSON-RPC and of Ethereum clients (EIP-1474).
const (
	codeInvalidParams = -32602
	codeServer        = -32000
	codeLimit         = -32005
	codeReverted      = 3
	codeSyncTimeout   = 4
)

// Error is an answer with a code and, for reverts, data.
type Error struct {
	Code    int
	Message string
	Data    any
}

func (e *Error) Error() string  { return e.Message }
func (e *Error) ErrorCode() int { return e.Code }
func (e *Error) ErrorData() any { return e.Data }

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

// submitError is the answer to a refused transaction. The pool's sentences are kept: wallets read them.
func submitError(err error) error {
	if txpool.Overloaded(err) {
		return &Error{Code: codeLimit, Message: err.Error()}
	}
	return &Error{Code: codeServer, Message: err.Error()}
}

func syncTimeout(hash common.Hash, millis uint64) *Error {
	return &Error{Code: codeSyncTimeout, Data: hash.Hex(),
		Message: fmt.Sprintf("transaction %s was accepted but is in no block after %d ms; ask for its receipt later", hash, millis)}
}
