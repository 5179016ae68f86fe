package main

import (
	"fmt"
	"math/big"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/contracts"
)

type unit struct {
	name string
	zero int
}

// units of amounts, by their power of ten in wei.
var units = []unit{{"wei", 0}, {"gwei", 9}, {"ether", 18}, {"eth", 18}}

const maxAmountText = 100

// parseAmount reads an amount of ether with its unit, such as 1.5ether, "2 gwei" or 5wei; 0 needs none. A number
// without a unit is refused: wei and ether are a factor of 10^18 apart. The result is exact and fits 256 bits.
func parseAmount(text string) (*big.Int, error) {
	s := strings.ToLower(strings.TrimSpace(text))
	if s == "0" {
		return new(big.Int), nil
	}
	if len(s) > maxAmountText {
		return nil, fmt.Errorf("an amount of %d characters is too long", len(s))
	}
	end := strings.IndexFunc(s, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != '_' })
	if end < 0 && s != "" {
		return nil, fmt.Errorf("amount %q has no unit: write %sether, %sgwei or %swei", text, s, s, s)
	}
	if end <= 0 {
		return nil, fmt.Errorf("%q is no amount: write it like 1.5ether, 20gwei or 5wei", text)
	}
	number, unit := strings.ReplaceAll(s[:end], "_", ""), strings.TrimSpace(s[end:])
	if strings.Trim(number, ".") == "" {
		return nil, fmt.Errorf("%q is no amount: write it like 1.5ether, 20gwei or 5wei", text)
	}
	zero := -1
	for _, u := range units {
		if u.name == unit {
			zero = u.zero
		}
	}
	if zero < 0 {
		return nil, fmt.Errorf("amount %q has the unknown unit %q: use ether, gwei or wei", text, unit)
	}
	whole, part, _ := strings.Cut(number, ".")
	part = strings.TrimRight(part, "0")
	if len(part) > zero {
		return nil, fmt.Errorf("amount %q is no whole number of wei: %s has at most %d decimal places", text, unit, zero)
	}
	v, ok := new(big.Int).SetString(whole+part+strings.Repeat("0", zero-len(part)), 10)
	if !ok {
		return nil, fmt.Errorf("%q is no amount: write it like 1.5ether, 20gwei or 5wei", text)
	}
	if v.BitLen() > 256 {
		return nil, fmt.Errorf("amount %q does not fit 256 bits", text)
	}
	return v, nil
}

// ether writes wei for people: exact, in ether, or in wei below a thousandth of a gwei.
func ether(wei *big.Int) string {
	if wei == nil {
		return "-"
	}
	if wei.Sign() != 0 && new(big.Int).Abs(wei).Cmp(big.NewInt(1_000_000)) < 0 {
		return wei.String() + " wei"
	}
	return scaled(wei, 18) + " ether"
}

// gwei writes a price per gas.
func gwei(wei *big.Int) string {
	if wei == nil {
		return "-"
	}
	return scaled(wei, 9) + " gwei"
}

// scaled writes v / 10^digits without trailing zeros.
func scaled(v *big.Int, digits int) string {
	s := new(big.Int).Abs(v).String()
	if len(s) <= digits {
		s = strings.Repeat("0", digits-len(s)+1) + s
	}
	out := strings.TrimRight(s[:len(s)-digits]+"."+s[len(s)-digits:], "0")
	out = strings.TrimSuffix(out, ".")
	if v.Sign() < 0 {
		out = "-" + out
	}
	return out
}

// labels are names that stand for addresses.
var labels = map[string]common.Address{"producers": contracts.ProducersAddress, "members": contracts.MembersAddress, "topics": contracts.TopicsAddress}

// parseAddress reads an address: 0x and 40 hex digits in lower or upper case, or in mixed case with a right checksum, or a label.
func parseAddress(text string) (common.Address, error) {
	s := strings.TrimSpace(text)
	if a, ok := labels[strings.ToLower(s)]; ok {
		return a, nil
	}
	digits, ok := strings.CutPrefix(s, "0x")
	if !ok || len(digits) != 40 || !common.IsHexAddress(s) {
		return common.Address{}, fmt.Errorf("%q is no address: give 0x and 40 hexadecimal digits, or producers, members or topics", text)
	}
	a := common.HexToAddress(s)
	if digits != strings.ToLower(digits) && digits != strings.ToUpper(digits) && a.Hex() != s {
		return common.Address{}, fmt.Errorf("address %s has a wrong checksum, so a digit may be mistyped: copy it again (all in lower case it is not checked)", text)
	}
	return a, nil
}

// addressName is an address for people: with its label if it has one.
func addressName(a common.Address) string {
	for name, b := range labels {
		if a == b {
			return a.Hex() + " (" + name + ")"
		}
	}
	return a.Hex()
}

// parseHash reads 32 bytes in hexadecimal.
func parseHash(text string) (common.Hash, error) {
	b, err := hexutil.Decode(strings.TrimSpace(text))
	if err != nil || len(b) != common.HashLength {
		return common.Hash{}, fmt.Errorf("%q is no hash: give 0x and 64 hexadecimal digits", text)
	}
	return common.BytesToHash(b), nil
}

// parseBytes reads bytes in hexadecimal, with or without 0x.
func parseBytes(text string) ([]byte, error) {
	s := strings.TrimSpace(text)
	if !strings.HasPrefix(s, "0x") && !strings.HasPrefix(s, "0X") {
		s = "0x" + s
	}
	if s == "0x" || s == "0X" {
		return []byte{}, nil
	}
	b, err := hexutil.Decode(s)
	if err != nil {
		return nil, fmt.Errorf("%.80q is not hexadecimal: %v", text, err)
	}
	return b, nil
}
