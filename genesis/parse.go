package genesis

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/internal/nearest"
)

// Parse reads the bytes of a genesis file. Errors wrap ErrInvalid.
func Parse(b []byte) (*Genesis, error) {
	if len(b) > MaxFileBytes {
		return nil, fmt.Errorf("%w: %d bytes, %d are allowed", ErrInvalid, len(b), MaxFileBytes)
	}
	if err := wellFormed(b); err != nil {
		return nil, err
	}
	var o Options
	if err := fieldsOf(&o).read("", b); err != nil {
		return nil, err
	}
	return checked(o)
}

// wellFormed refuses what is no JSON, with the line of the error.
func wellFormed(b []byte) error {
	var raw json.RawMessage
	err := json.Unmarshal(b, &raw)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line := 1 + bytes.Count(b[:min(int(syntax.Offset), len(b))], []byte("\n"))
		return fmt.Errorf("%w: line %d is no JSON: %s", ErrInvalid, line, syntax)
	}
	if err != nil {
		return fmt.Errorf("%w: no JSON: %w", ErrInvalid, err)
	}
	return nil
}

// field reads one key's value; usual is what to suggest when a needed key is missing ("" if the key may be left out).
type field struct {
	name  string
	read  func(key string, raw json.RawMessage) error
	usual string
}

type object []field

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func (fs object) names() []string {
	names := make([]string, len(fs))
	for i, f := range fs {
		names[i] = f.name
	}
	return names
}

func known(path, name string, names []string) error {
	for _, n := range names {
		if n == name {
			return nil
		}
	}
	if n := nearest.Name(name, names); n != "" {
		return bad(join(path, name), "unknown key; did you mean %q?", n)
	}
	return bad(join(path, name), "unknown key; the keys here are %s", strings.Join(names, ", "))
}

// read reads an object with exactly these keys.
func (fs object) read(path string, raw json.RawMessage) error {
	got := make(map[string]bool)
	err := members(path, raw, func(name string, v json.RawMessage) error {
		if err := known(path, name, fs.names()); err != nil {
			return err
		}
		got[name] = true
		for _, f := range fs {
			if f.name == name {
				return f.read(join(path, name), v)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, f := range fs {
		if f.usual != "" && !got[f.name] {
			return bad(join(path, f.name), "the key is missing; a usual value is %s", f.usual)
		}
	}
	return nil
}

// members calls f for every key of an object, in order; a key that stands twice is refused.
func members(path string, raw json.RawMessage, f func(name string, v json.RawMessage) error) error {
	key := path
	if key == "" {
		key = "file"
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return bad(key, "an object {...} belongs here")
	}
	seen := make(map[string]bool)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return bad(key, "%s", err)
		}
		name := t.(string) // the decoder only gives strings as keys
		if seen[name] {
			return bad(join(path, name), "the key stands twice")
		}
		seen[name] = true
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return bad(join(path, name), "%s", err)
		}
		if err := f(name, v); err != nil {
			return err
		}
	}
	return nil
}

// elements calls f for every element of a list.
func elements(key string, raw json.RawMessage, f func(key string, v json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return bad(key, "a list [...] belongs here")
	}
	for i := 0; d.More(); i++ {
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			if errors.Is(err, io.EOF) {
				break
			}
			return bad(key, "%s", err)
		}
		if err := f(fmt.Sprintf("%s[%d]", key, i), v); err != nil {
			return err
		}
	}
	return nil
}

func number[T uint8 | uint16 | uint64](to *T) func(string, json.RawMessage) error {
	return func(key string, raw json.RawMessage) error {
		if err := json.Unmarshal(raw, to); err != nil || string(raw) == "null" {
			return bad(key, "%s is no whole number from 0 to %d", short(raw), ^T(0))
		}
		return nil
	}
}

func truth(to *bool, negate bool) func(string, json.RawMessage) error {
	return func(key string, raw json.RawMessage) error {
		if s := string(raw); s != "true" && s != "false" {
			return bad(key, "%s is neither true nor false", short(raw))
		}
		*to = (string(raw) == "true") != negate
		return nil
	}
}

func text(key string, raw json.RawMessage) (string, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil || string(raw) == "null" {
		return "", bad(key, "%s is no string", short(raw))
	}
	return s, nil
}

func str(to *string) func(string, json.RawMessage) error {
	return func(key string, raw json.RawMessage) (err error) {
		*to, err = text(key, raw)
		return err
	}
}

func duration(to *time.Duration) func(string, json.RawMessage) error {
	return func(key string, raw json.RawMessage) error {
		s, err := text(key, raw)
		if err != nil {
			return err
		}
		if *to, err = time.ParseDuration(s); err != nil {
			return bad(key, `%q is no duration; write it like "500ms" or "168h"`, s)
		}
		return nil
	}
}

func amountOf(key, s string) (*big.Int, error) {
	base, digits := 10, s
	if strings.HasPrefix(s, "0x") {
		base, digits = 16, s[2:]
	}
	v, ok := new(big.Int).SetString(digits, base)
	if len(s) > 100 || !ok || v.Sign() < 0 || strings.ContainsAny(s, "+-_") {
		return nil, bad(key, `%q is no amount of wei; write it like "1000000000000000000" or "0xde0b6b3a7640000"`, clip(s))
	}
	return v, nil
}

func amount(to **big.Int) func(string, json.RawMessage) error {
	return func(key string, raw json.RawMessage) error {
		s, err := text(key, raw)
		if err != nil {
			return bad(key, `%s is no amount of wei; amounts are strings like "1000000000000000000"`, short(raw))
		}
		*to, err = amountOf(key, s)
		return err
	}
}

func smallAmount(to *uint64) func(string, json.RawMessage) error {
	return func(key string, raw json.RawMessage) error {
		var v *big.Int
		if err := amount(&v)(key, raw); err != nil {
			return err
		}
		if !v.IsUint64() {
			return bad(key, "%s does not fit 64 bits", v)
		}
		*to = v.Uint64()
		return nil
	}
}

// fixed reads exactly as many bytes as to has.
func fixed(to []byte) func(string, json.RawMessage) error {
	return func(key string, raw json.RawMessage) error {
		s, err := text(key, raw)
		if err != nil {
			return err
		}
		b, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
		if err != nil || !strings.HasPrefix(s, "0x") || len(b) != len(to) {
			return bad(key, "%q is not 0x and %d hexadecimal digits", clip(s), 2*len(to))
		}
		copy(to, b)
		return nil
	}
}

func code(to *hexutil.Bytes) func(string, json.RawMessage) error {
	return func(key string, raw json.RawMessage) error {
		s, err := text(key, raw)
		if err != nil {
			return err
		}
		if *to, err = hexutil.Decode(s); err != nil {
			return bad(key, "%q is not 0x and an even number of hexadecimal digits", clip(s))
		}
		return nil
	}
}

func address(path, name string) (common.Address, error) {
	if len(name) != 42 || !strings.HasPrefix(name, "0x") || !common.IsHexAddress(name) {
		return common.Address{}, bad(join(path, clip(name)), "an address is 0x and 40 hexadecimal digits")
	}
	return common.HexToAddress(name), nil
}

func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "..."
	}
	return s
}

func short(raw json.RawMessage) string { return clip(string(raw)) }
