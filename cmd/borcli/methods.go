package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
)

// findMethod finds a method by its name, or by its signature (transfer(address,uint256)) where a name stands for
// several. Among several of one name the number of arguments decides if it can; count is -1 if it is not known.
func findMethod(x *abi.ABI, name string, count int) (*abi.Method, error) {
	wanted := strings.ReplaceAll(name, " ", "")
	var named []abi.Method
	var known []string
	for _, m := range x.Methods {
		if m.Sig == wanted || m.Sig == canonical(wanted) {
			return &m, nil
		}
		if m.RawName == wanted {
			named = append(named, m)
		}
		known = append(known, m.RawName)
	}
	slices.Sort(known)
	switch {
	case len(named) == 0 && strings.Contains(wanted, "("):
		return nil, fmt.Errorf("the ABI has no method %s: it has %s", name, signatures(methodsNamed(x, wanted[:strings.Index(wanted, "(")])))
	case len(known) == 0:
		return nil, fmt.Errorf("the ABI has no methods, so none %s", name)
	case len(named) == 0:
		return nil, fmt.Errorf("the ABI has no method %s%s", name, didYouMean(name, slices.Compact(known)))
	case len(named) > 1:
		fits := slices.DeleteFunc(slices.Clone(named), func(m abi.Method) bool { return count >= 0 && len(m.Inputs) != count })
		if len(fits) != 1 {
			return nil, fmt.Errorf("there are several methods %s: name one by its signature: %s", name, signatures(named))
		}
		named = fits
	}
	return &named[0], nil
}

// canonical writes uint and int in a signature as the ABI does.
func canonical(sig string) string {
	var b strings.Builder
	for i := 0; i < len(sig); {
		j := i
		for j < len(sig) && (sig[j] >= 'a' && sig[j] <= 'z' || sig[j] >= 'A' && sig[j] <= 'Z' || sig[j] >= '0' && sig[j] <= '9' || sig[j] == '_' || sig[j] == '$') {
			j++
		}
		word := sig[i:j]
		if i > 0 && (word == "uint" || word == "int") {
			word += "256"
		}
		b.WriteString(word)
		if j < len(sig) {
			b.WriteByte(sig[j])
			j++
		}
		i = j
	}
	return b.String()
}

func methodsNamed(x *abi.ABI, name string) (out []abi.Method) {
	for _, m := range x.Methods {
		if m.RawName == name {
			out = append(out, m)
		}
	}
	if out == nil {
		for _, m := range x.Methods {
			out = append(out, m)
		}
	}
	return out
}

func signatures(list []abi.Method) string {
	out := make([]string, len(list))
	for i, m := range list {
		out[i] = m.Sig
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// packCall makes the call data of a method, or of the constructor (code before arguments is the caller's). Errors name
// the signature.
func packCall(m *abi.Method, args []string) ([]byte, error) {
	packed, err := packArguments(m.Inputs, signature(m), args)
	if err != nil {
		return nil, err
	}
	return append(slices.Clone(m.ID), packed...), nil
}

// signature is a method's or constructor's with the names of its arguments.
func signature(m *abi.Method) string {
	name := m.RawName
	if m.Type == abi.Constructor || name == "" {
		name = "constructor"
	}
	return name + "(" + argumentList(m.Inputs) + ")"
}

func argumentList(list abi.Arguments) string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = strings.TrimSpace(a.Type.String() + " " + a.Name)
	}
	return strings.Join(out, ", ")
}

func packArguments(inputs abi.Arguments, sig string, args []string) ([]byte, error) {
	if len(args) != len(inputs) {
		return nil, fmt.Errorf("%s takes %s, %d given", sig, plural(len(inputs), "argument"), len(args))
	}
	values := make([]any, len(args))
	for i, a := range args {
		v, err := parseValue(inputs[i].Type, a)
		if err != nil {
			return nil, fmt.Errorf("argument %d (%s) of %s: %w", i+1, strings.TrimSpace(inputs[i].Type.String()+" "+inputs[i].Name), sig, err)
		}
		values[i] = v
	}
	return inputs.Pack(values...)
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// methodOf makes a method from a signature with types alone, such as balanceOf(address)(uint256): what is called
// without an ABI. The outputs may be left out.
func methodOf(text string) (m *abi.Method, err error) {
	bad := fmt.Errorf("%.80q is no signature: write it like balanceOf(address)(uint256), or give the contract's ABI by --abi", text)
	defer func() {
		if r := recover(); r != nil { // package abi's parser and reflect refuse some texts that way
			m, err = nil, bad
		}
	}()
	sig := canonical(strings.ReplaceAll(text, " ", ""))
	end, depth := 0, 0
	for i, r := range sig {
		if r == '(' {
			depth++
		} else if r == ')' {
			if depth--; depth == 0 {
				end = i + 1
				break
			}
		}
	}
	if end == 0 {
		return nil, bad
	}
	in, err := abi.ParseSelector(sig[:end])
	if err != nil {
		return nil, bad
	}
	inputs, err := argumentsOf(in.Inputs)
	if err != nil {
		return nil, err
	}
	var outputs abi.Arguments
	if rest := sig[end:]; rest != "" {
		out, err := abi.ParseSelector("f" + rest)
		if err != nil {
			return nil, bad
		}
		if outputs, err = argumentsOf(out.Inputs); err != nil {
			return nil, err
		}
	}
	made := abi.NewMethod(in.Name, in.Name, abi.Function, "", false, false, inputs, outputs)
	return &made, nil
}

func argumentsOf(list []abi.ArgumentMarshaling) (out abi.Arguments, err error) {
	for _, a := range list {
		if err := checkLengths([]byte(a.Type)); err != nil {
			return nil, err
		}
		t, err := abi.NewType(a.Type, a.InternalType, a.Components)
		if err != nil {
			return nil, err
		}
		if err := checkType(t, 1); err != nil {
			return nil, err
		}
		out = append(out, abi.Argument{Type: t})
	}
	return out, nil
}
