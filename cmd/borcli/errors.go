package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// Exit codes.
const (
	exitOK = iota
	exitOther
	exitUsage
	exitUnreachable
	exitRefused
	exitReverted
	exitWallet
	exitNotFound
	exitTimeout
	exitVerify
)

// exitCodes describes them, in order.
var exitCodes = []string{
	exitOK: "done", exitOther: "another error", exitUsage: "wrong arguments or settings", exitUnreachable: "the node or a broker cannot be reached, or a partition has no leader",
	exitRefused:  "the node refused the request or the transaction",
	exitReverted: "the transaction or call was reverted, or failed in its block",
	exitWallet:   "the wallet refused or cannot be reached: locked, wrong password, policy, expired token; or the key file cannot be used",
	exitNotFound: "there is no such block, transaction, account or contract",
	exitTimeout:  "waited too long for a block, for finality or for the node to take a transaction; a transaction may still get there",
	exitVerify:   "a verification failed",
}

// exitError is what a command fails with: a sentence for people and the exit code.
type exitError struct {
	code  int
	msg   string
	cause error
}

func (e *exitError) Error() string { return e.msg }
func (e *exitError) Unwrap() error { return e.cause }

// fail makes the error that ends a command: one sentence (what happened, to what, what to do) and the exit code.
func fail(code int, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &exitError{code, err.Error(), errors.Unwrap(err)}
}

// inFlag says which flag an error of its value is about; other errors stay as they are.
func inFlag(name string, err error) error {
	var e *exitError
	if errors.As(err, &e) && e.code == exitUsage {
		return &exitError{e.code, name + ": " + e.msg, e.cause}
	}
	return err
}

// walletFailure marks errors of the wallet's connection.
type walletFailure struct{ err error }

func (w *walletFailure) Error() string { return w.err.Error() }
func (w *walletFailure) Unwrap() error { return w.err }

// explain turns any error into a sentence and an exit code.
func (a *app) explain(err error) *exitError {
	var done *exitError
	if errors.As(err, &done) {
		return done
	}
	say := func(code int, format string, args ...any) *exitError {
		return &exitError{code, fmt.Sprintf(format, args...), err}
	}
	if errors.Is(err, context.Canceled) {
		return say(exitOther, "interrupted")
	}
	var ofWallet *walletFailure
	if errors.As(err, &ofWallet) {
		return a.explainWallet(ofWallet.err)
	}
	var status gethrpc.HTTPError
	if errors.As(err, &status) {
		return explainStatus(err, "the node at "+redacted(a.Node), exitRefused, status)
	}
	var answer gethrpc.Error
	if errors.As(err, &answer) {
		return a.explainAnswer(err, answer)
	}
	if text := unreachable(err); text != "" {
		return say(exitUnreachable, "the node at %s cannot be reached: %s; start it, or name another one by --node (or %sNODE)", redacted(a.Node), text, envPrefix)
	}
	return say(exitOther, "%v", err)
}

// unreachable tells why nobody answers, or answers something that is no JSON-RPC; "" for other errors.
func unreachable(err error) string {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	var network *net.OpError
	var at *url.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, errSlow):
		return "no answer came in time"
	case errors.As(err, &network) && errors.Is(err, fs.ErrNotExist):
		return "there is no such socket"
	case errors.Is(err, fs.ErrPermission):
		return "this user may not open the socket"
	case errors.Is(err, gethrpc.ErrClientQuit), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "the connection was closed"
	case errors.As(err, &syntax), errors.As(err, &kind):
		return "what answers there is no JSON-RPC server"
	case errors.As(err, &at):
		return at.Err.Error()
	case errors.As(err, &network):
		return network.Err.Error()
	}
	return ""
}

// explainStatus explains an HTTP status that is no answer of JSON-RPC.
func explainStatus(err error, who string, code int, status gethrpc.HTTPError) *exitError {
	text := fmt.Sprintf("%s answered HTTP %s", who, status.Status)
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(status.Body, &body) == nil && body.Error.Message != "" {
		if status.StatusCode == http.StatusUnauthorized {
			body.Error.Message += " and name its file by --wallet-token-file"
		}
		return &exitError{code, fmt.Sprintf("%s refused the request (HTTP %d): %s", who, status.StatusCode, body.Error.Message), err}
	}
	switch status.StatusCode {
	case http.StatusRequestEntityTooLarge:
		text = who + " refuses a request of this size (HTTP 413): make the data smaller, or raise rpc.body_bytes there"
	case http.StatusUnauthorized:
		text = who + " asks for a token, or the token has expired (HTTP 401): give a new one, for the wallet by --wallet-token-file"
	case http.StatusForbidden:
		text = who + " does not answer to this host name (HTTP 403): use its IP address, or add the name to rpc.vhosts there"
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		text = fmt.Sprintf("%s has too many connections or requests (HTTP %d): try again later, or raise its rpc limits", who, status.StatusCode)
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		text = fmt.Sprintf("what answers at that address is no JSON-RPC server (%s, HTTP %s): check the address", who, status.Status)
		if code == exitRefused {
			code = exitUnreachable
		}
	}
	return &exitError{code, text, err}
}

// methodNotFound is JSON-RPC's code for a method that is not offered here.
const methodNotFound = -32601

// explainAnswer explains an error that the node answered with.
func (a *app) explainAnswer(err error, answer gethrpc.Error) *exitError {
	text := strings.TrimSpace(answer.Error())
	say := func(code int, format string, args ...any) *exitError {
		return &exitError{code, fmt.Sprintf(format, args...), err}
	}
	switch answer.ErrorCode() {
	case methodNotFound:
		return say(exitRefused, "the node does not offer this: %s; use a node of borcli's version whose rpc.namespaces name it, or its Unix socket for debug and admin", text)
	case -32602:
		return say(exitRefused, "the node did not accept a parameter: %s; check the arguments", text)
	case -32002:
		return say(exitRefused, "the node gave the request up because it took too long (%s): ask for less, or raise its limits", text)
	case -32003:
		return say(exitRefused, "the answer is larger than the node gives (%s): ask for less at once", text)
	case -32005:
		return say(exitRefused, "a limit of the node: %s", text)
	case 3:
		return say(exitReverted, "%s", a.revertText(text, err))
	case 4:
		return say(exitTimeout, "%s", text)
	}
	if s := shortOfFunds(text); s != "" {
		return say(exitRefused, "%s", s)
	}
	for _, r := range refusals {
		if strings.Contains(text, r.text) {
			return say(exitRefused, "the node refused the transaction (%s): %s", text, r.remedy)
		}
	}
	for _, m := range []string{"header not found", "block not found", "unknown block", "not known yet"} {
		if strings.Contains(text, m) {
			return say(exitNotFound, "the node has no such block (%s): ask for a newer one, or another node", text)
		}
	}
	return say(exitRefused, "the node answered: %s", text)
}

var funds = regexp.MustCompile(`insufficient funds for gas \* price \+ value: (?:address (0x[0-9a-fA-F]{40}) have|balance) ([0-9]{1,78}),? (?:want|tx cost) ([0-9]{1,78})`) //nolint:gochecknoglobals // a constant

// shortOfFunds puts a refusal for want of funds into amounts that people read; "" if the text is another one.
func shortOfFunds(text string) string {
	m := funds.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	who := "the account"
	if m[1] != "" {
		who = m[1]
	}
	have, _ := new(big.Int).SetString(m[2], 10)
	want, _ := new(big.Int).SetString(m[3], 10)
	return fmt.Sprintf("insufficient funds: %s has %s, amount and highest fee are %s: send it ether, or lower the amount or --max-fee", who, ether(have), ether(want))
}

// refusals are the sentences of the pool that mean a refused transaction, and what to do. The first that fits counts.
var refusals = []struct{ text, remedy string }{
	{"already known", "it waits there already; ask for it with borcli tx show"},
	{"insufficient funds", "the account cannot pay amount and fee; send it ether, or lower the amount or --max-fee"},
	{"replacement transaction underpriced", "another transaction with this nonce waits; raise --tip and --max-fee by a tenth to replace it, or leave --nonce out"},
	{"nonce too low", "this nonce was used already; leave --nonce out to take the next one"},
	{"nonce too high", "earlier nonces are missing; leave --nonce out, or send the missing ones first"},
	{"gapped-nonce", "earlier nonces are missing; leave --nonce out, or send the missing ones first"},
	{"that may deploy contracts", "have the account put on the list by vote: borcli access deployers allow ACCOUNT"},
	{"sender is not allowed", "have the account put on the chain's list of senders by vote: borcli access senders allow ACCOUNT"},
	{"max fee per gas less than block base fee", "raise --max-fee above the base fee"},
	{"underpriced", "raise --tip and --max-fee (or --gas-price)"},
	{"gas price below minimum", "raise --tip and --max-fee (or --gas-price)"},
	{"max priority fee per gas higher than max fee per gas", "lower --tip or raise --max-fee"},
	{"intrinsic gas too low", "raise --gas, or leave it out to have it estimated"},
	{"floor data gas cost", "raise --gas, or leave it out to have it estimated"},
	{"exceeds block gas limit", "lower --gas below the block's gas limit"},
	{"transaction gas limit too high", "lower --gas"},
	{"gas limit too high", "lower --gas"},
	{"gas required exceeds allowance", "the account cannot pay for the gas, or the call needs more than a transaction may use; send it ether or lower --max-fee"},
	{"txpool is full", "send it again in a few seconds"},
	{"account limit exceeded", "wait until the account's transactions are in blocks, then send it again"},
	{"oversized data", "make the data smaller"},
	{"invalid sender", "it was signed for another chain; check --chain-id"},
	{"invalid chain id", "it was signed for another chain; check --chain-id"},
	{"only replay-protected", "sign it with a chain id"},
	{"max code size exceeded", "the contract's code is larger than 24,576 bytes; split it, or compile it with the optimizer"},
	{"max initcode size exceeded", "the contract's code is larger than a deployment may be; split it"},
}

// revertText tells why a call was reverted, with custom errors of the contracts at hand in words.
func (a *app) revertText(text string, err error) string {
	var with gethrpc.DataError
	if errors.As(err, &with) {
		if s, ok := with.ErrorData().(string); ok {
			if data, err := hexutil.Decode(s); err == nil && len(data) > 0 {
				return "the call is reverted by the contract: " + decodeRevert(data, a.abis)
			}
		}
	}
	reason := strings.TrimPrefix(strings.TrimPrefix(text, "execution reverted"), ": ")
	if reason == "" {
		reason = "it gives no reason; check the arguments, the sender and the amount"
	}
	return "the call is reverted by the contract: " + reason
}

// decodeRevert puts the bytes of a revert into words: a reason, a panic, or a custom error of one of the ABIs.
func decodeRevert(data []byte, abis []*abi.ABI) string {
	if reason, err := abi.UnpackRevert(data); err == nil {
		return reason
	}
	if len(data) >= 4 {
		for _, x := range abis {
			e, err := x.ErrorByID([4]byte(data[:4]))
			if err != nil {
				continue
			}
			values, err := e.Inputs.Unpack(data[4:])
			if err != nil {
				continue
			}
			parts := make([]string, len(values))
			for i, v := range values {
				parts[i] = valueText(e.Inputs[i].Type, v)
				if n := e.Inputs[i].Name; n != "" && !strings.HasPrefix(n, "arg") {
					parts[i] = n + " " + parts[i]
				}
			}
			return e.Name + "(" + strings.Join(parts, ", ") + ")"
		}
	}
	const most = 68
	if len(data) > most {
		return fmt.Sprintf("an error of %d bytes that the ABIs at hand do not name (%s...); give the contract's ABI by --abi", len(data), hexutil.Encode(data[:most]))
	}
	return fmt.Sprintf("%s, which the ABIs at hand do not name; give the contract's ABI by --abi", hexutil.Encode(data))
}
