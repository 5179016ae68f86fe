package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"reflect"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

// parseValue reads an argument as a value of an ABI type, in the Go form that package abi packs. Numbers are decimal or
// 0x hexadecimal, or amounts with a unit; bytes are 0x hexadecimal; a string is taken as it is; arrays are JSON lists,
// tuples JSON lists or objects. What does not fit the type is an error.
func parseValue(t abi.Type, text string) (any, error) {
	var in any = text
	switch t.T {
	case abi.SliceTy, abi.ArrayTy, abi.TupleTy:
		dec := json.NewDecoder(strings.NewReader(text))
		dec.UseNumber()
		if err := dec.Decode(&in); err != nil {
			return nil, fmt.Errorf("%s is written as JSON, such as %s; %.80q is not", t, sample(t), text)
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("something follows the JSON of %s in %.80q: put quotes around the whole argument", t, text)
		}
	}
	v, err := build(t, in)
	if err != nil {
		return nil, err
	}
	return v.Interface(), nil
}

// sample is how a value of a type may be written.
func sample(t abi.Type) string {
	switch t.T {
	case abi.SliceTy, abi.ArrayTy:
		return "[" + sample(*t.Elem) + "]"
	case abi.TupleTy:
		parts := make([]string, len(t.TupleElems))
		for i, e := range t.TupleElems {
			parts[i] = fmt.Sprintf("%q: %s", t.TupleRawNames[i], sample(*e))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case abi.BoolTy:
		return "true"
	case abi.IntTy, abi.UintTy:
		return `"1"`
	case abi.StringTy:
		return `"text"`
	}
	return `"0x..."`
}

// build makes the value from decoded JSON: strings, numbers, booleans, lists, objects.
func build(t abi.Type, in any) (reflect.Value, error) {
	switch t.T {
	case abi.SliceTy, abi.ArrayTy:
		return buildList(t, in)
	case abi.TupleTy:
		return buildTuple(t, in)
	}
	out := reflect.New(t.GetType()).Elem()
	if b, ok := in.(bool); ok && t.T == abi.BoolTy {
		out.SetBool(b)
		return out, nil
	}
	var text string
	switch x := in.(type) {
	case string:
		text = x
	case json.Number:
		if t.T != abi.IntTy && t.T != abi.UintTy {
			return out, fmt.Errorf("%s is no %s", x, t)
		}
		text = x.String()
	default:
		return out, fmt.Errorf("%s cannot be made of %s", t, jsonText(in))
	}
	return out, setLeaf(out, t, text)
}

// setLeaf sets a value without parts from its text.
func setLeaf(out reflect.Value, t abi.Type, text string) error {
	switch t.T {
	case abi.StringTy:
		out.SetString(text)
		return nil
	case abi.BoolTy:
		switch text {
		case "true":
			out.SetBool(true)
		case "false":
		default:
			return fmt.Errorf("%.80q is no bool: write true or false", text)
		}
		return nil
	case abi.AddressTy:
		a, err := parseAddress(text)
		out.Set(reflect.ValueOf(a))
		return err
	case abi.IntTy, abi.UintTy:
		n, err := parseInt(t, text)
		if err != nil {
			return err
		}
		switch out.Kind() {
		case reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			out.SetUint(n.Uint64())
		case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			out.SetInt(n.Int64())
		default:
			out.Set(reflect.ValueOf(n))
		}
		return nil
	}
	b, err := hexutil.Decode(text)
	if errors.Is(err, hexutil.ErrEmptyString) || errors.Is(err, hexutil.ErrMissingPrefix) {
		return fmt.Errorf("%s is written in hexadecimal with 0x; %.80q is not", t, text)
	}
	if err != nil {
		return fmt.Errorf("%.80q is not hexadecimal: %w", text, err)
	}
	if t.T == abi.BytesTy {
		out.SetBytes(b)
		return nil
	}
	if len(b) != out.Len() {
		return fmt.Errorf("%s has %d bytes, %.80q has %d", t, out.Len(), text, len(b))
	}
	reflect.Copy(out, reflect.ValueOf(b))
	return nil
}

// parseInt reads an integer and checks that the type holds it.
func parseInt(t abi.Type, text string) (*big.Int, error) {
	s := strings.ReplaceAll(strings.TrimSpace(text), "_", "")
	digits, negative := strings.CutPrefix(s, "-")
	base := 10
	if hex, ok := strings.CutPrefix(strings.ToLower(digits), "0x"); ok {
		digits, base = hex, 16
	}
	var n *big.Int
	ok := len(digits) <= maxAmountText && digits != "" && digits[0] != '+' && digits[0] != '-'
	if ok {
		n, ok = new(big.Int).SetString(digits, base)
	}
	if !ok {
		amount, err := parseAmount(digits)
		if err != nil {
			return nil, fmt.Errorf("%.80q is no %s: write a whole number, decimal or 0x hexadecimal, or an amount such as 1.5ether", text, t)
		}
		n = amount
	}
	if negative {
		n.Neg(n)
	}
	least, most := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(t.Size)) //nolint:gosec // 8 to 256
	if t.T == abi.IntTy {
		most.Rsh(most, 1)
		least.Neg(most)
	}
	most.Sub(most, big.NewInt(1))
	if n.Cmp(least) < 0 || n.Cmp(most) > 0 {
		return nil, fmt.Errorf("%.80s does not fit %s, which goes from %s to %s", text, t, least, most)
	}
	return n, nil
}

func buildList(t abi.Type, in any) (reflect.Value, error) {
	list, ok := in.([]any)
	if !ok {
		return reflect.Value{}, fmt.Errorf("%s is a list; write it like %s", t, sample(t))
	}
	if t.T == abi.ArrayTy && len(list) != t.Size {
		return reflect.Value{}, fmt.Errorf("%s has %d items, %d were given", t, t.Size, len(list))
	}
	var out reflect.Value
	if t.T == abi.ArrayTy {
		out = reflect.New(t.GetType()).Elem()
	} else {
		out = reflect.MakeSlice(t.GetType(), len(list), len(list))
	}
	for i, x := range list {
		v, err := build(*t.Elem, x)
		if err != nil {
			return out, fmt.Errorf("item %d: %w", i+1, err)
		}
		out.Index(i).Set(v)
	}
	return out, nil
}

func buildTuple(t abi.Type, in any) (reflect.Value, error) {
	out := reflect.New(t.TupleType).Elem()
	var parts []any
	switch x := in.(type) {
	case []any:
		if len(x) != len(t.TupleElems) {
			return out, fmt.Errorf("%s has %d fields, %d were given", t, len(t.TupleElems), len(x))
		}
		parts = x
	case map[string]any:
		for k := range x {
			if !hasName(t.TupleRawNames, k) {
				return out, fmt.Errorf("%s has no field %q%s", t, k, didYouMean(k, t.TupleRawNames))
			}
		}
		for _, name := range t.TupleRawNames {
			v, ok := x[name]
			if !ok {
				return out, fmt.Errorf("field %q of %s is missing", name, t)
			}
			parts = append(parts, v)
		}
	default:
		return out, fmt.Errorf("%s is a tuple; write it like %s", t, sample(t))
	}
	for i, e := range t.TupleElems {
		v, err := build(*e, parts[i])
		if err != nil {
			return out, fmt.Errorf("field %q: %w", t.TupleRawNames[i], err)
		}
		out.Field(i).Set(v)
	}
	return out, nil
}

func hasName(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}

// valueJSON is a decoded value in the form that parseValue reads: integers as decimal strings, bytes in hexadecimal,
// tuples as objects.
func valueJSON(t abi.Type, v any) any {
	r := reflect.ValueOf(v)
	switch t.T {
	case abi.SliceTy, abi.ArrayTy:
		out := make([]any, r.Len())
		for i := range out {
			out[i] = valueJSON(*t.Elem, r.Index(i).Interface())
		}
		return out
	case abi.TupleTy:
		out := make(fields, len(t.TupleElems))
		for i, e := range t.TupleElems {
			out[i] = field{t.TupleRawNames[i], valueJSON(*e, r.Field(i).Interface())}
		}
		return out
	case abi.IntTy, abi.UintTy:
		return fmt.Sprint(v)
	case abi.BytesTy:
		return hexutil.Encode(v.([]byte))
	case abi.FixedBytesTy, abi.FunctionTy:
		b := make([]byte, r.Len())
		reflect.Copy(reflect.ValueOf(b), r)
		return hexutil.Encode(b)
	case abi.AddressTy:
		return v.(common.Address).Hex()
	}
	return v
}

// valueText is a decoded value on one line.
func valueText(t abi.Type, v any) string {
	x := valueJSON(t, v)
	switch s := x.(type) {
	case string:
		return s
	case bool:
		return fmt.Sprint(s)
	}
	return jsonText(x)
}

func jsonText(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSpace(b.String())
}

// fields is a JSON object that keeps its order.
type fields []field

type field struct {
	name  string
	value any
}

func (f fields) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, x := range f {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(jsonText(x.name) + ":" + jsonText(x.value))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}
