package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
)

// maxArrayLength bounds the fixed arrays of an ABI: each is a Go type of that length.
const maxArrayLength = 1 << 16

// artefact is a compiled contract.
type artefact struct {
	Name     string // file:Name or Name; may be empty
	ABI      *abi.ABI
	Bytecode []byte // deployment code; nil if the file holds none
}

// object is the code of a contract as compilers write it.
type object struct {
	Object string                                `json:"object"`
	Links  map[string]map[string]json.RawMessage `json:"linkReferences"`
}

// rawContract covers the forms in which compilers and frameworks write one contract: Hardhat (and Truffle) have the
// code as a string, Foundry as an object, solc's standard JSON below evm, solc's combined JSON as bin.
type rawContract struct {
	Name     string                                `json:"contractName"`
	ABI      json.RawMessage                       `json:"abi"`
	Bytecode json.RawMessage                       `json:"bytecode"`
	Links    map[string]map[string]json.RawMessage `json:"linkReferences"`
	Bin      string                                `json:"bin"`
	EVM      struct {
		Bytecode object `json:"bytecode"`
	} `json:"evm"`
}

// parseArtefact reads a contract's ABI, and its code if it is there: a bare ABI, an artefact of Hardhat, Truffle or
// Foundry, or solc's standard or combined JSON. Where there are several contracts, name picks one (Name or file:Name).
// Code may be bare hexadecimal too; then there is no ABI.
func parseArtefact(b []byte, name string) (*artefact, error) {
	b = bytes.TrimSpace(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
	if len(b) == 0 {
		return nil, errors.New("the file is empty")
	}
	switch b[0] {
	case '[':
		x, err := parseABI(b)
		return &artefact{ABI: x}, err
	case '{':
	default:
		code, err := parseCode("", string(b))
		if err != nil {
			return nil, errors.New("it is neither JSON nor code in hexadecimal: give the artefact of Hardhat or Foundry, solc's JSON, an ABI or a .bin file")
		}
		return &artefact{Bytecode: code}, nil
	}
	var whole struct {
		Contracts map[string]json.RawMessage `json:"contracts"`
		Errors    []struct {
			Severity string `json:"severity"`
			Message  string `json:"formattedMessage"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(b, &whole); err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	for _, e := range whole.Errors {
		if e.Severity == "error" {
			return nil, fmt.Errorf("the compiler found errors, the first is: %s", strings.TrimSpace(e.Message))
		}
	}
	if whole.Contracts == nil {
		var one rawContract
		if err := json.Unmarshal(b, &one); err != nil {
			return nil, fmt.Errorf("the artefact is damaged: %w", err)
		}
		if name != "" && one.Name != "" && name != one.Name {
			return nil, fmt.Errorf("the file holds the contract %s, --contract asks for %s", one.Name, name)
		}
		return one.artefact(one.Name)
	}
	all, err := compilerOutput(whole.Contracts)
	if err != nil {
		return nil, err
	}
	picked, full, err := pick(all, name)
	if err != nil {
		return nil, err
	}
	return picked.artefact(full)
}

// compilerOutput flattens solc's contracts: file -> name -> contract, or file:name -> contract.
func compilerOutput(in map[string]json.RawMessage) (map[string]*rawContract, error) {
	all := make(map[string]*rawContract)
	for key, raw := range in {
		one := new(rawContract)
		if err := json.Unmarshal(raw, one); err == nil && (len(one.ABI) > 0 || one.Bin != "") {
			all[key] = one
			continue
		}
		var byName map[string]*rawContract
		if err := json.Unmarshal(raw, &byName); err != nil {
			return nil, fmt.Errorf("contracts of %q: %w", key, err)
		}
		for n, c := range byName {
			if c != nil {
				all[key+":"+n] = c
			}
		}
	}
	return all, nil
}

// pick chooses a contract by name. Without a name there must be just one with code, or just one at all.
func pick(all map[string]*rawContract, name string) (*rawContract, string, error) {
	var names, fits []string
	for full := range all {
		names = append(names, full)
		if full == name || strings.HasSuffix(full, ":"+name) {
			fits = append(fits, full)
		}
	}
	slices.Sort(names)
	slices.Sort(fits)
	if name == "" {
		if fits = names; len(names) > 1 {
			fits = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !all[n].hasCode() })
		}
	}
	switch {
	case len(fits) == 1:
		return all[fits[0]], fits[0], nil
	case len(names) == 0:
		return nil, "", errors.New("the compiler's output holds no contract")
	case name == "":
		return nil, "", fmt.Errorf("the file holds several contracts: choose one by --contract: %s", strings.Join(names, ", "))
	case len(fits) > 1:
		return nil, "", fmt.Errorf("several contracts are named %s: choose one by --contract: %s", name, strings.Join(fits, ", "))
	}
	return nil, "", fmt.Errorf("the file holds no contract %s: it holds %s", name, strings.Join(names, ", "))
}

func (c *rawContract) hasCode() bool {
	text, _, err := c.code()
	return err == nil && strings.TrimPrefix(text, "0x") != ""
}

// code is the deployment code as text and the libraries that are not linked.
func (c *rawContract) code() (string, []string, error) {
	o := c.EVM.Bytecode
	switch {
	case c.Bin != "":
		o.Object = c.Bin
	case len(c.Bytecode) > 0 && c.Bytecode[0] == '"':
		if err := json.Unmarshal(c.Bytecode, &o.Object); err != nil {
			return "", nil, err
		}
		o.Links = c.Links
	case len(c.Bytecode) > 0 && c.Bytecode[0] == '{':
		if err := json.Unmarshal(c.Bytecode, &o); err != nil {
			return "", nil, err
		}
	}
	var libraries []string
	for file, names := range o.Links {
		for n := range names {
			libraries = append(libraries, file+":"+n)
		}
	}
	slices.Sort(libraries)
	return o.Object, libraries, nil
}

func (c *rawContract) artefact(name string) (*artefact, error) {
	out := &artefact{Name: name}
	if len(c.ABI) > 0 {
		text := []byte(c.ABI)
		if text[0] == '"' { // old combined JSON has the ABI as a string
			var s string
			if err := json.Unmarshal(text, &s); err != nil {
				return nil, err
			}
			text = []byte(s)
		}
		var err error
		if out.ABI, err = parseABI(text); err != nil {
			return nil, err
		}
	}
	text, libraries, err := c.code()
	if err != nil {
		return nil, fmt.Errorf("the code in the file is damaged: %w", err)
	}
	if len(libraries) > 0 && strings.Contains(text, "__") {
		return nil, fmt.Errorf("the contract needs libraries that are not linked (%s): deploy them and compile again with their addresses", strings.Join(libraries, ", "))
	}
	if out.Bytecode, err = parseCode(name, text); err != nil {
		return nil, err
	}
	if out.ABI == nil && out.Bytecode == nil {
		return nil, errors.New("the file holds neither an ABI nor code: give the artefact of Hardhat or Foundry, solc's JSON, an ABI or a .bin file")
	}
	return out, nil
}

// parseCode reads deployment code in hexadecimal; nil if it is empty.
func parseCode(name, text string) ([]byte, error) {
	s := strings.TrimPrefix(strings.Join(strings.Fields(text), ""), "0x")
	if s == "" {
		return nil, nil
	}
	if strings.Contains(s, "__") {
		return nil, fmt.Errorf("contract %s needs a library that is not linked: deploy it and compile again with its address", name)
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("the code in the file is not hexadecimal: %w", err)
	}
	return b, nil
}

// parseABI reads an ABI and refuses types that cannot be worked with.
func parseABI(b []byte) (x *abi.ABI, err error) {
	defer func() {
		if r := recover(); r != nil { // reflect refuses some types that package abi builds
			x, err = nil, fmt.Errorf("the ABI has a type that cannot be used: %v", r)
		}
	}()
	if err := checkLengths(b); err != nil {
		return nil, err
	}
	parsed, err := abi.JSON(bytes.NewReader(b))
	if err != nil {
		return nil, fmt.Errorf("not a valid ABI: %w", err)
	}
	all := []abi.Arguments{parsed.Constructor.Inputs}
	for _, m := range parsed.Methods {
		all = append(all, m.Inputs, m.Outputs)
	}
	for _, e := range parsed.Events {
		all = append(all, e.Inputs)
	}
	for _, e := range parsed.Errors {
		all = append(all, e.Inputs)
	}
	for _, args := range all {
		for _, a := range args {
			if err := checkType(a.Type, 1); err != nil {
				return nil, err
			}
		}
	}
	return &parsed, nil
}

// checkLengths looks for fixed arrays beyond the bound before Go types are made of them.
func checkLengths(b []byte) error {
	for i := 0; i < len(b); i++ {
		if b[i] != '[' {
			continue
		}
		n := 0
		for j := i + 1; j < len(b) && b[j] >= '0' && b[j] <= '9'; j++ {
			if n = n*10 + int(b[j]-'0'); n > maxArrayLength {
				return fmt.Errorf("the ABI has a fixed array of more than %d items", maxArrayLength)
			}
		}
	}
	return nil
}

func checkType(t abi.Type, items int) error {
	switch t.T {
	case abi.ArrayTy:
		if t.Size <= 0 || t.Size > maxArrayLength || items > maxArrayLength/t.Size {
			return fmt.Errorf("the ABI has the type %s; fixed arrays have 1 to %d items", t, maxArrayLength)
		}
		return checkType(*t.Elem, items*t.Size)
	case abi.SliceTy:
		return checkType(*t.Elem, 1)
	case abi.TupleTy:
		for _, e := range t.TupleElems {
			if err := checkType(*e, items); err != nil {
				return err
			}
		}
	case abi.IntTy, abi.UintTy:
		if t.Size < 8 || t.Size > 256 || t.Size%8 != 0 {
			return fmt.Errorf("the ABI has the integer type %s; there are 8 to 256 bits in steps of 8", t)
		}
	case abi.FixedBytesTy:
		if t.Size < 1 || t.Size > 32 {
			return fmt.Errorf("the ABI has the type %s; fixed bytes have 1 to 32", t)
		}
	}
	return nil
}
