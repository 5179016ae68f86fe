package wallet

import (
	"bytes"
	"fmt"
	"math/big"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/contracts"
)

// erc20 are the methods of tokens that most transactions call.
const erc20 = `[
{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"amount","type":"uint256"}],"outputs":[{"type":"bool"}]},
{"type":"function","name":"approve","inputs":[{"name":"spender","type":"address"},{"name":"amount","type":"uint256"}],"outputs":[{"type":"bool"}]},
{"type":"function","name":"transferFrom","inputs":[{"name":"from","type":"address"},{"name":"to","type":"address"},{"name":"amount","type":"uint256"}],"outputs":[{"type":"bool"}]}]`

var tokenABI = sync.OnceValue(func() *abi.ABI {
	a, err := abi.JSON(strings.NewReader(erc20))
	if err != nil {
		panic(fmt.Sprintf("wallet: ABI of tokens: %v", err)) // part of the binary
	}
	return &a
})

// describeTx puts a transaction into words, one fact a line.
func describeTx(tx *types.Transaction, from common.Address) []string {
	lines := []string{fmt.Sprintf("transaction of type %d on chain %s, nonce %d, from %s", tx.Type(), tx.ChainId(), tx.Nonce(), from)}
	data := tx.Data()
	switch to := tx.To(); {
	case to == nil:
		lines = append(lines, fmt.Sprintf("deploys a contract of %d bytes, keccak256 %s", len(data), crypto.Keccak256Hash(data)))
	case contractName(*to) != "":
		lines = append(lines, fmt.Sprintf("to %s (system contract %s)", to, contractName(*to)))
	default:
		lines = append(lines, "to "+to.String())
	}
	lines = append(lines, "value "+ether(tx.Value()),
		fmt.Sprintf("fee at most %s (%d gas at %s)", ether(fee(tx)), tx.Gas(), ether(tx.GasFeeCap())))
	if tx.To() != nil && len(data) > 0 {
		lines = append(lines, describeCall(*tx.To(), data)...)
	}
	if list := tx.AccessList(); len(list) > 0 {
		lines = append(lines, fmt.Sprintf("access list of %d addresses and %d slots", len(list), list.StorageKeys()))
	}
	for _, a := range tx.SetCodeAuthorizations() {
		who := "an account with a wrong signature"
		if authority, err := a.Authority(); err == nil {
			who = authority.String()
		}
		lines = append(lines, who+" "+describeDelegation(a.ChainID.ToBig(), a.Address, a.Nonce))
	}
	return lines
}

func describeDelegation(chain *big.Int, to common.Address, nonce uint64) string {
	where := "chain " + chain.String()
	if chain.Sign() == 0 {
		where = "EVERY chain"
	}
	if to == (common.Address{}) {
		return fmt.Sprintf("ends its delegation on %s, nonce %d", where, nonce)
	}
	return fmt.Sprintf("lets the code of %s act for it on %s, nonce %d", to, where, nonce)
}

func contractName(a common.Address) string {
	switch a {
	case contracts.ProducersAddress:
		return "Producers"
	case contracts.MembersAddress:
		return "Members"
	case contracts.TopicsAddress:
		return "Topics"
	}
	return ""
}

func knownABI(to common.Address) *abi.ABI {
	switch to {
	case contracts.ProducersAddress:
		return contracts.ProducersABI()
	case contracts.MembersAddress:
		return contracts.MembersABI()
	case contracts.TopicsAddress:
		return contracts.TopicsABI()
	}
	return tokenABI()
}

// describeCall names the method and its arguments if the contract or the method is known.
func describeCall(to common.Address, data []byte) []string {
	if len(data) < 4 {
		return []string{fmt.Sprintf("carries %d bytes that name no method: 0x%x", len(data), data)}
	}
	unknown := []string{fmt.Sprintf("calls the unknown method 0x%x with %d bytes of arguments, keccak256 of the data %s", data[:4], len(data)-4, crypto.Keccak256Hash(data))}
	m, err := knownABI(to).MethodById(data[:4])
	if err != nil {
		return unknown
	}
	args, err := m.Inputs.Unpack(data[4:])
	if err != nil {
		return append(unknown, "the selector is that of "+m.Sig+", but the arguments are not")
	}
	title := "calls " + m.Sig
	if contractName(to) == "" {
		title += ", if the recipient is a token"
	}
	lines := []string{title}
	for i, in := range m.Inputs {
		lines = append(lines, fmt.Sprintf("  %s %s = %s", in.Type, in.Name, showValue(args[i])))
	}
	if to == contracts.MembersAddress && m.Name == "propose" {
		kind, isKind := args[0].(uint8)
		if inner, ok := args[1].([]byte); ok && isKind {
			lines = append(lines, describeProposal(kind, inner)...)
		}
	}
	if again, err := m.Inputs.Pack(args...); err != nil || !bytes.Equal(again, data[4:]) {
		lines = append(lines, "  its arguments are encoded in an unusual way or followed by other bytes")
	}
	return lines
}

func showValue(v any) string {
	switch v := v.(type) {
	case string:
		return showText(v)
	case []byte:
		return showBytes(v)
	case fmt.Stringer:
		return v.String()
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() == reflect.Array && rv.Type().Elem().Kind() == reflect.Uint8 {
		b := make([]byte, rv.Len())
		reflect.Copy(reflect.ValueOf(b), rv)
		return showBytes(b)
	}
	if rv.Kind() == reflect.Slice || rv.Kind() == reflect.Array {
		var parts []string
		for i := range rv.Len() {
			parts = append(parts, showValue(rv.Index(i).Interface()))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	if rv.Kind() == reflect.Struct {
		var parts []string
		for i := range rv.NumField() {
			parts = append(parts, rv.Type().Field(i).Name+" "+showValue(rv.Field(i).Interface()))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	return fmt.Sprintf("%+v", v)
}

// showText quotes a text so that it can forge neither lines nor directions of writing.
func showText(s string) string { return strconv.Quote(s) }

func showBytes(b []byte) string {
	if len(b) > MaxShown/4 {
		return fmt.Sprintf("0x%x… (%d bytes, keccak256 %s)", b[:32], len(b), crypto.Keccak256Hash(b))
	}
	return fmt.Sprintf("0x%x (%d bytes)", b, len(b))
}

// cut bounds a line. What is cut is said, and the whole is named by its hash.
func cut(s string) string {
	if len(s) <= MaxShown {
		return s
	}
	at := MaxShown
	for !utf8.RuneStart(s[at]) {
		at--
	}
	return fmt.Sprintf("%s… (%d more characters, keccak256 of the whole line %s)", s[:at], len(s)-at, crypto.Keccak256Hash([]byte(s)))
}

// describeMessage shows what a message says.
func describeMessage(account common.Address, message []byte) []string {
	first := fmt.Sprintf("message of %d bytes (EIP-191), by %s", len(message), account)
	if utf8.Valid(message) {
		return []string{first, "text " + showText(string(message))}
	}
	return []string{first, "bytes " + showBytes(message)}
}

var weiPerEther = big.NewInt(1e18)

// ether writes an amount exactly: in ether, or in wei where ether would be all zeros.
func ether(wei *big.Int) string {
	if wei.Sign() != 0 && wei.Cmp(big.NewInt(1e9)) < 0 {
		return wei.String() + " wei"
	}
	whole, rest := new(big.Int).QuoRem(wei, weiPerEther, new(big.Int))
	if rest.Sign() == 0 {
		return whole.String() + " ether"
	}
	return whole.String() + "." + strings.TrimRight(fmt.Sprintf("%018s", rest), "0") + " ether"
}
