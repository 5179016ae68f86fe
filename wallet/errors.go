package wallet

import (
	"fmt"
	"time"
)

// Codes of JSON-RPC errors.
const (
	CodeInvalid       = -32602 // a parameter is missing or wrong
	CodeInternal      = -32603 // a file could not be read or written
	CodeWrongPassword = -32010
	CodeLocked        = -32011
	CodeUnknown       = -32012 // no such wallet or account
	CodeRefused       = -32013 // by the policy, the settings or the operator
	CodeTooMany       = -32014 // too many attempts; the message says when to try again
	CodeToken         = -32015 // token missing or expired
)

// Error is one sentence and its JSON-RPC code. It holds no secret.
type Error struct {
	Code    int
	Message string
}

func (e *Error) Error() string { return e.Message }

// ErrorCode is the JSON-RPC code.
func (e *Error) ErrorCode() int { return e.Code }

func fail(code int, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *Error { return fail(CodeInvalid, format, args...) }

func refused(format string, args ...any) *Error { return fail(CodeRefused, format, args...) }

func internal(format string, args ...any) *Error { return fail(CodeInternal, format, args...) }

// A name that cannot be one is not repeated: it may be a password in the wrong place.
func errUnknownWallet(name string) *Error {
	if !validName(name) {
		return fail(CodeUnknown, "there is no wallet of that name, nor can there be: see wallet_list")
	}
	return fail(CodeUnknown, "there is no wallet %q: see wallet_list, or make it with wallet_create", name)
}

func errLocked(name string) *Error {
	return fail(CodeLocked, "wallet %s is locked: unlock it with wallet_unlock (borcli wallet unlock %s)", name, name)
}

func errWrongPassword(name string, wait time.Duration) *Error {
	return fail(CodeWrongPassword, "wrong password for wallet %s: the next attempt is possible in %s", name, wait.Round(time.Second))
}

func errThrottled(name string, wait time.Duration) *Error {
	wait = max(time.Second, wait.Round(time.Second))
	return fail(CodeTooMany, "too many wrong passwords for wallet %s: try again in %s", name, wait)
}
