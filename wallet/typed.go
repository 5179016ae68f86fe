package wallet

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethmath "github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
)

// typedData is structured data after every value was found to be of its declared type, within bounds, and shown.
type typedData struct {
	hash        []byte
	chain       *big.Int // nil if the domain binds none
	contract    common.Address
	primaryType string
	lines       []string
}

const domainType = "EIP712Domain"

// domainFields are what a domain may consist of, in the order that EIP-712 fixes.
var domainFields = []apitypes.Type{
	{Name: "name", Type: "string"}, {Name: "version", Type: "string"}, {Name: "chainId", Type: "uint256"},
	{Name: "verifyingContract", Type: "address"}, {Name: "salt", Type: "bytes32"},
}

var (
	identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]{0,63}$`)
	primitive  = regexp.MustCompile(`^(address|bool|string|bytes([1-9]|[12][0-9]|3[0-2])?|u?int(8|16|24|32|40|48|56|64|72|80|88|96|104|112|120|128|136|144|152|160|168|176|184|192|200|208|216|224|232|240|248|256)?)$`)
	arrayEnd   = regexp.MustCompile(`^(.+)\[([0-9]{0,4})\]$`)
)

// parseTypedData decodes the JSON of eth_signTypedData_v4 (an object, or a string that holds one), checks it and
// computes its hash.
func parseTypedData(text []byte) (*typedData, error) {
	if len(text) > MaxTypedData {
		return nil, fmt.Errorf("it has %d bytes, %d are allowed", len(text), MaxTypedData)
	}
	var inner string
	if json.Unmarshal(text, &inner) == nil {
		text = []byte(inner)
	}
	var d apitypes.TypedData
	if err := strictJSON(text, &d); err != nil {
		return nil, fmt.Errorf("it is not an object with types, primaryType, domain and message: %w", err)
	}
	if err := checkTypes(d.Types); err != nil {
		return nil, err
	}
	if err := checkDomain(&d); err != nil {
		return nil, err
	}
	if d.PrimaryType == domainType || d.Types[d.PrimaryType] == nil {
		return nil, fmt.Errorf("its primaryType %.64q is not among its types", d.PrimaryType)
	}
	w := &typedWalk{types: d.Types}
	if err := w.structure(domainType, "domain", d.Domain.Map(), 1); err != nil {
		return nil, err
	}
	if err := w.structure(d.PrimaryType, d.PrimaryType, d.Message, 1); err != nil {
		return nil, err
	}
	if n := len(strings.Join(w.lines, "\n")); n > MaxReadable {
		return nil, fmt.Errorf("its readable form has %d characters, %d are allowed: shorten names and nest less", n, MaxReadable)
	}
	hash, _, err := apitypes.TypedDataAndHash(d)
	if err != nil {
		return nil, errors.New(cut(err.Error()))
	}
	out := &typedData{hash: hash, primaryType: d.PrimaryType, lines: w.lines, chain: (*big.Int)(d.Domain.ChainId)}
	if d.Domain.VerifyingContract != "" {
		out.contract = common.HexToAddress(d.Domain.VerifyingContract)
	}
	return out, nil
}

// checkTypes refuses types whose encoding could be that of others: names that are no identifiers, or those of
// elementary types.
func checkTypes(types apitypes.Types) error {
	if len(types) > MaxTypes {
		return fmt.Errorf("it has %d types, %d are allowed", len(types), MaxTypes)
	}
	total := 0
	for name, fields := range types {
		if !identifier.MatchString(name) {
			return fmt.Errorf("%.64q cannot name a type", name)
		}
		if primitive.MatchString(name) {
			return fmt.Errorf("it declares a struct named %s, which is an elementary type: a reader would take one for the other", name)
		}
		if total += len(fields); total > MaxTypeFields {
			return fmt.Errorf("its types have more than %d fields", MaxTypeFields)
		}
		seen := make(map[string]bool, len(fields))
		for _, f := range fields {
			if !identifier.MatchString(f.Name) || seen[f.Name] {
				return fmt.Errorf("type %s has a field %.64q, which is no name or there twice", name, f.Name)
			}
			seen[f.Name] = true
			base := f.Type
			for dims := 0; ; dims++ {
				m := arrayEnd.FindStringSubmatch(base)
				if m == nil {
					break
				}
				if base = m[1]; dims == MaxTypedDepth {
					return fmt.Errorf("field %s of type %s nests too deep", f.Name, name)
				}
			}
			if !primitive.MatchString(base) && types[base] == nil || base == domainType {
				return fmt.Errorf("field %s of type %s has the unknown type %.64q", f.Name, name, f.Type)
			}
		}
	}
	return nil
}

// checkDomain refuses a domain whose declaration and values differ: what is not declared is not signed.
func checkDomain(d *apitypes.TypedData) error {
	declared := d.Types[domainType]
	if len(declared) == 0 {
		return fmt.Errorf("its types lack %s: declare the fields of the domain", domainType)
	}
	given, at := d.Domain.Map(), 0
	for _, f := range declared {
		for at < len(domainFields) && domainFields[at] != f {
			at++
		}
		if at == len(domainFields) {
			return fmt.Errorf("the domain declares %.64q %.64q: it may have name, version, chainId, verifyingContract and salt, in this order and with their types", f.Type, f.Name)
		}
		at++
		if _, ok := given[f.Name]; !ok {
			return fmt.Errorf("the domain declares %s but does not give it", f.Name)
		}
		delete(given, f.Name)
	}
	for name := range given {
		return fmt.Errorf("the domain gives %s but does not declare it, so it would not be signed", name)
	}
	if c := (*big.Int)(d.Domain.ChainId); c != nil && c.Sign() < 0 {
		return errors.New("the domain's chainId is negative")
	}
	return nil
}

// typedWalk visits every value along its type and writes it down.
type typedWalk struct {
	types  apitypes.Types
	values int
	lines  []string
}

func (w *typedWalk) structure(kind, path string, v any, depth int) error {
	fields, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s is not an object of type %s", cut(path), kind)
	}
	if err := w.count(path, depth); err != nil {
		return err
	}
	declared := w.types[kind]
	if len(fields) > len(declared) {
		return fmt.Errorf("%s has values that type %s does not declare, so they would not be signed", cut(path), kind)
	}
	if depth > 1 || len(declared) == 0 {
		w.lines = append(w.lines, fmt.Sprintf("%s (%s)", cut(path), kind))
	}
	for _, f := range declared {
		fv, ok := fields[f.Name]
		if !ok {
			return fmt.Errorf("%s lacks %s of type %s", cut(path), f.Name, f.Type)
		}
		if err := w.value(f.Type, path+"."+f.Name, fv, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (w *typedWalk) count(path string, depth int) error {
	if w.values++; w.values > MaxTypedValues {
		return fmt.Errorf("it has more than %d values", MaxTypedValues)
	}
	if depth > MaxTypedDepth {
		return fmt.Errorf("%s nests deeper than %d", cut(path), MaxTypedDepth)
	}
	return nil
}

func (w *typedWalk) value(kind, path string, v any, depth int) error {
	if m := arrayEnd.FindStringSubmatch(kind); m != nil {
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("%s is not a list of type %s", cut(path), kind)
		}
		if m[2] != "" && strconv.Itoa(len(list)) != m[2] {
			return fmt.Errorf("%s has %d values, its type is %s", cut(path), len(list), kind)
		}
		if err := w.count(path, depth); err != nil {
			return err
		}
		if len(list) == 0 {
			w.lines = append(w.lines, fmt.Sprintf("%s (%s) = []", cut(path), kind))
		}
		for i, item := range list {
			if err := w.value(m[1], fmt.Sprintf("%s[%d]", path, i), item, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	if w.types[kind] != nil {
		return w.structure(kind, path, v, depth)
	}
	if err := w.count(path, depth); err != nil {
		return err
	}
	shown, err := showPrimitive(kind, v)
	if err != nil {
		return fmt.Errorf("%s: %w", cut(path), err)
	}
	w.lines = append(w.lines, fmt.Sprintf("%s (%s) = %s", cut(path), kind, shown))
	return nil
}

// showPrimitive checks an elementary value and writes it down as it will be signed.
func showPrimitive(kind string, v any) (string, error) {
	wrong := fmt.Errorf("the value is not of type %s", kind)
	switch {
	case kind == "bool":
		b, ok := v.(bool)
		if !ok {
			return "", wrong
		}
		return strconv.FormatBool(b), nil
	case kind == "string":
		s, ok := v.(string)
		if !ok {
			return "", wrong
		}
		return showText(s), nil
	case kind == "address":
		s, ok := v.(string)
		if !ok || !common.IsHexAddress(s) {
			return "", wrong
		}
		return common.HexToAddress(s).String(), nil
	case strings.HasPrefix(kind, "bytes"):
		s, _ := v.(string)
		b, err := hexutil.Decode(s)
		if err != nil || (kind != "bytes" && strconv.Itoa(len(b)) != kind[len("bytes"):]) {
			return "", wrong
		}
		return showBytes(b), nil
	}
	return showInteger(kind, v)
}

// showInteger refuses what does not fit, and numbers that JSON may have rounded.
func showInteger(kind string, v any) (string, error) {
	var n *big.Int
	switch v := v.(type) {
	case *gethmath.HexOrDecimal256:
		n = (*big.Int)(v)
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > 1<<53-1 {
			return "", errors.New("the number is not whole, or so large that JSON may have rounded it: write it as a string")
		}
		n = big.NewInt(int64(v))
	case string:
		if len(v) > 80 {
			return "", fmt.Errorf("the value is not of type %s", kind)
		}
		var x gethmath.HexOrDecimal256
		if v == "" || x.UnmarshalText([]byte(v)) != nil {
			return "", fmt.Errorf("the value is not of type %s", kind)
		}
		n = (*big.Int)(&x)
	default:
		return "", fmt.Errorf("the value is not of type %s", kind)
	}
	size := uint(256)
	if s := strings.TrimLeft(kind, "uint"); s != "" {
		bits, _ := strconv.Atoi(s) // the types were checked
		size = uint(bits)
	}
	low, high := new(big.Int), new(big.Int).Lsh(big.NewInt(1), size)
	if strings.HasPrefix(kind, "int") {
		high.Rsh(high, 1)
		low.Neg(high)
	}
	if n.Cmp(low) < 0 || n.Cmp(high) >= 0 {
		return "", fmt.Errorf("the number %s does not fit type %s", cut(n.String()), kind)
	}
	return n.String(), nil
}
