package main

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
)

func contractCommand() *cobra.Command {
	return group("contract", "Deploy contracts, call them, read their events",
		contractDeploy(), contractCall(), contractSend(), contractEncode(), contractDecode(), contractEvents())
}

// abiSource says where a contract's ABI comes from.
type abiSource struct{ file, name string }

func (s *abiSource) flags(f *pflag.FlagSet) {
	f.StringVar(&s.file, "abi", "", "file with the contract's ABI: an artefact of Hardhat or Foundry, solc's JSON, or the ABI alone")
	f.StringVar(&s.name, "contract", "", "which contract of the file (Name or file:Name)")
}

func loadArtefact(path, name string) (*artefact, error) {
	b, err := readFile(path, maxFileBytes)
	if err != nil {
		return nil, fail(exitUsage, "contract file: %v", err)
	}
	x, err := parseArtefact(b, name)
	if err != nil {
		return nil, fail(exitUsage, "%s: %v", path, err)
	}
	return x, nil
}

// load reads the ABI; nil if none is named.
func (s *abiSource) load(to common.Address) (*abi.ABI, error) {
	switch {
	case s.file != "":
		x, err := loadArtefact(s.file, s.name)
		if err != nil {
			return nil, err
		}
		if x.ABI == nil {
			return nil, fail(exitUsage, "%s holds code but no ABI: name a file with the ABI", s.file)
		}
		return x.ABI, nil
	case to == contracts.ProducersAddress:
		return contracts.ProducersABI(), nil
	case to == contracts.MembersAddress:
		return contracts.MembersABI(), nil
	case to == contracts.TopicsAddress:
		return contracts.TopicsABI(), nil
	}
	return nil, nil
}

// method finds the method that is meant, in the ABI or from its own signature. It also adds the ABI to those that
// explain reverts.
func (s *abiSource) method(a *app, to common.Address, name string, count int) (*abi.Method, error) {
	x, err := s.load(to)
	if err != nil {
		return nil, err
	}
	if x == nil {
		if !strings.Contains(name, "(") {
			return nil, fail(exitUsage, "what %s takes is not known: give the contract's ABI by --abi, or write the method with its types, such as balanceOf(address)(uint256)", name)
		}
		m, err := methodOf(name)
		if err != nil {
			return nil, fail(exitUsage, "%v", err)
		}
		return m, nil
	}
	a.abis = append(a.abis, x)
	m, err := findMethod(x, name, count)
	if err != nil {
		return nil, fail(exitUsage, "%v", err)
	}
	return m, nil
}

// target reads ADDRESS METHOD ARG... and makes the call data.
func (s *abiSource) target(a *app, args []string) (to common.Address, m *abi.Method, data []byte, err error) {
	if to, err = parseAddress(args[0]); err != nil {
		return to, nil, nil, fail(exitUsage, "ADDRESS: %v", err)
	}
	if m, err = s.method(a, to, args[1], len(args)-2); err != nil {
		return to, nil, nil, err
	}
	if data, err = packCall(m, args[2:]); err != nil {
		return to, nil, nil, fail(exitUsage, "%v", err)
	}
	return to, m, data, nil
}

const argumentHelp = "Arguments are written as follows: integers in decimal or 0x hexadecimal, or as amounts such as 1.5ether; bytes in 0x\n" +
	"hexadecimal; strings as they are; lists as JSON ([1, 2]); tuples as JSON lists or objects ({\"to\": \"0x...\", \"amount\": \"1\"}).\n" +
	"Where a name stands for several methods, write the signature: transfer(address,uint256). Without --abi the signature\n" +
	"is needed, with the types of the result behind it: balanceOf(address)(uint256). The chain's own contracts producers\n" +
	"and members need no ABI."

func contractDeploy() *cobra.Command {
	var src abiSource
	var value string
	return command("deploy FILE [ARG...]", "Deploy a contract", func(ctx context.Context, a *app, args []string) error {
		code, x, err := deployment(&src, args)
		if err != nil {
			return err
		}
		amount, err := parseAmount(value)
		if err != nil {
			return fail(exitUsage, "--value: %v", err)
		}
		if x.ABI != nil && amount.Sign() > 0 && !x.ABI.Constructor.IsPayable() {
			return fail(exitUsage, "the constructor takes no ether: leave --value out")
		}
		name := x.Name
		if i := strings.LastIndexByte(name, ':'); i >= 0 {
			name = name[i+1:]
		}
		_, err = a.send(ctx, txRequest{Data: code, Value: amount, ABI: x.ABI, What: strings.TrimSpace("deploy " + name)})
		return err
	}, arguments(1, -1), sends, flags(src.flags), flags(func(f *pflag.FlagSet) {
		f.StringVar(&value, "value", "0", "ether for the constructor, such as 1ether")
	}), long("Deploy a contract from the artefact of Hardhat or Foundry, from solc's standard or combined JSON, or from code in\n"+
		"hexadecimal (.bin), with the arguments of its constructor.\n\n"+argumentHelp),
		example("borcli contract deploy artifacts/contracts/Counter.sol/Counter.json 7",
			"borcli contract deploy out.json --contract Token 'My Token' TOK 1000ether",
			"borcli contract deploy Counter.bin --abi Counter.abi 7"))
}

// deployment is code and packed arguments of the constructor.
func deployment(src *abiSource, args []string) ([]byte, *artefact, error) {
	x, err := loadArtefact(args[0], src.name)
	if err != nil {
		return nil, nil, err
	}
	if src.file != "" {
		if x.ABI, err = src.load(common.Address{}); err != nil {
			return nil, nil, err
		}
	}
	if len(x.Bytecode) == 0 {
		return nil, nil, fail(exitUsage, "%s holds no code: an interface or an abstract contract cannot be deployed; name the compiled contract's file", args[0])
	}
	if x.ABI == nil {
		if len(args) > 1 {
			return nil, nil, fail(exitUsage, "%s holds no ABI, so what its constructor takes is not known: name the ABI by --abi", args[0])
		}
		return x.Bytecode, x, nil
	}
	m := x.ABI.Constructor
	m.Type = abi.Constructor
	packed, err := packArguments(m.Inputs, signature(&m), args[1:])
	if err != nil {
		return nil, nil, fail(exitUsage, "%v", err)
	}
	return append(slices.Clone(x.Bytecode), packed...), x, nil
}

// output is a decoded value with its name and type.
type output struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value any    `json:"value"`

	text string
}

func outputsOf(list abi.Arguments, data []byte) ([]output, error) {
	values, err := list.Unpack(data)
	if err != nil {
		return nil, err
	}
	out := make([]output, len(values))
	for i, v := range values {
		out[i] = output{list[i].Name, list[i].Type.String(), valueJSON(list[i].Type, v), valueText(list[i].Type, v)}
	}
	return out, nil
}

func printOutputs(w io.Writer, list []output) {
	rows := make([]pair, len(list))
	for i, o := range list {
		name := strings.TrimSpace(o.Name + " " + o.Type)
		if strings.HasPrefix(o.Name, "arg") {
			name = o.Type
		}
		rows[i] = pair{name, o.text}
		if o.text == "" {
			rows[i].value = `""`
		}
	}
	lines(w, rows...)
}

func contractCall() *cobra.Command {
	var src abiSource
	var block string
	return command("call ADDRESS METHOD [ARG...]", "Call a contract without a transaction and print what it returns",
		func(ctx context.Context, a *app, args []string) error {
			to, m, data, err := src.target(a, args)
			if err != nil {
				return err
			}
			var from common.Address
			if a.From != "" {
				if from, err = parseAddress(a.From); err != nil {
					return fail(exitUsage, "--from: %v", err)
				}
			}
			at, err := a.blockArgument(ctx, block)
			if err != nil {
				return inFlag("--block", err)
			}
			raw, err := a.callAt(ctx, from, to, data, at)
			if err != nil {
				return err
			}
			if len(raw) == 0 && len(m.Outputs) > 0 {
				return a.noAnswer(ctx, to, at, m)
			}
			list, err := outputsOf(m.Outputs, raw)
			if err != nil {
				return fail(exitOther, "what %s returned does not fit %s: the ABI is not this contract's (%v)", to, returns(m), err)
			}
			return a.show(map[string]any{"method": m.Sig, "outputs": list, "raw": hexutil.Bytes(raw)}, func(w io.Writer) {
				if len(m.Outputs) == 0 && len(raw) > 0 {
					fmt.Fprintln(w, hexutil.Encode(raw))
				}
				printOutputs(w, list)
			})
		}, arguments(2, -1), flags(src.flags), flags(func(f *pflag.FlagSet) {
			f.StringVar(&block, "block", "latest", "state after which block: a height, latest, safe, finalized or earliest; -1 is the one before the newest")
		}), long("Call a contract without a transaction and print what it returns.\n\n"+argumentHelp),
		example("borcli contract call 0x5FbDB2315678afecb367f032d93F642f64180aa3 number --abi Counter.json",
			"borcli contract call 0x5FbDB2315678afecb367f032d93F642f64180aa3 'balanceOf(address)(uint256)' 0x52908400098527886E0F7030069857D2E4169EE7",
			"borcli contract call producers settings"))
}

func returns(m *abi.Method) string { return m.Sig + " returns (" + argumentList(m.Outputs) + ")" }

// noAnswer explains why a call that should return something returned nothing.
func (a *app) noAnswer(ctx context.Context, to common.Address, block string, m *abi.Method) error {
	var code hexutil.Bytes
	if err := a.ask(ctx, &code, "eth_getCode", to, block); err != nil {
		return err
	}
	if len(code) == 0 {
		return fail(exitNotFound, "there is no contract at %s: check the address, and that --node is of the right chain", to)
	}
	return fail(exitOther, "%s returned nothing where %s was expected: the ABI is not this contract's", to, returns(m))
}

func contractSend() *cobra.Command {
	var src abiSource
	var value string
	return command("send ADDRESS METHOD [ARG...]", "Send a transaction that calls a contract",
		func(ctx context.Context, a *app, args []string) error {
			to, m, data, err := src.target(a, args)
			if err != nil {
				return err
			}
			amount, err := parseAmount(value)
			if err != nil {
				return fail(exitUsage, "--value: %v", err)
			}
			if amount.Sign() > 0 && m.StateMutability != "" && !m.IsPayable() {
				return fail(exitUsage, "%s takes no ether: leave --value out", m.Sig)
			}
			if m.StateMutability == "view" || m.StateMutability == "pure" {
				a.note("%s changes nothing; contract call reads it for free", m.Sig)
			}
			if err := a.needCode(ctx, to); err != nil {
				return err
			}
			what := "call " + m.RawName + " of " + addressName(to)
			if amount.Sign() > 0 {
				what += " with " + ether(amount)
			}
			_, err = a.send(ctx, txRequest{To: &to, Value: amount, Data: data, What: what})
			return err
		}, arguments(2, -1), sends, flags(src.flags), flags(func(f *pflag.FlagSet) {
			f.StringVar(&value, "value", "0", "ether to send along, such as 1ether")
		}), long("Send a transaction that calls a contract. If the call would be reverted, nothing is sent.\n\n"+argumentHelp),
		example("borcli contract send 0x5FbDB2315678afecb367f032d93F642f64180aa3 setNumber 42 --abi Counter.json --wait final"))
}

// needCode refuses to call an address without code: such a transaction does nothing and succeeds.
func (a *app) needCode(ctx context.Context, to common.Address) error {
	var code hexutil.Bytes
	if err := a.ask(ctx, &code, "eth_getCode", to, "latest"); err != nil {
		return err
	}
	if len(code) == 0 {
		return fail(exitNotFound, "there is no contract at %s: check the address, and that --node is of the right chain", to)
	}
	return nil
}

func contractEncode() *cobra.Command {
	var src abiSource
	return command("encode METHOD [ARG...]", "Print the call data of a method", func(_ context.Context, a *app, args []string) error {
		m, err := src.method(a, common.Address{}, args[0], len(args)-1)
		if err != nil {
			return err
		}
		data, err := packCall(m, args[1:])
		if err != nil {
			return fail(exitUsage, "%v", err)
		}
		return a.show(map[string]any{"method": m.Sig, "data": hexutil.Bytes(data)}, func(w io.Writer) { fmt.Fprintln(w, hexutil.Encode(data)) })
	}, arguments(1, -1), flags(src.flags), long("Print the call data of a method, for tools that take it as bytes.\n\n"+argumentHelp),
		example("borcli contract encode 'transfer(address,uint256)' 0x52908400098527886E0F7030069857D2E4169EE7 1ether"))
}

func contractDecode() *cobra.Command {
	var src abiSource
	var result string
	return command("decode DATA", "Put call data, a result or the data of a revert into words", func(_ context.Context, a *app, args []string) error {
		data, err := parseBytes(args[0])
		if err != nil {
			return fail(exitUsage, "DATA: %v", err)
		}
		if result != "" {
			m, err := src.method(a, common.Address{}, result, -1)
			if err != nil {
				return err
			}
			return a.showDecoded("result of "+m.Sig, m.Outputs, data)
		}
		known := slices.Clone(a.abis)
		if src.file != "" {
			x, err := src.load(common.Address{})
			if err != nil {
				return err
			}
			known = []*abi.ABI{x}
		}
		for _, x := range known {
			if m, err := x.MethodById(data); err == nil {
				return a.showDecoded(m.Sig, m.Inputs, data[4:])
			}
		}
		if len(data) < 4 {
			return fail(exitUsage, "call data has at least 4 bytes; for a result name its method by --result")
		}
		text := decodeRevert(data, known)
		if strings.Contains(text, "do not name") {
			return fail(exitNotFound, "the selector %s is of no method and no error in the ABI: name the contract's ABI by --abi", hexutil.Encode(data[:4]))
		}
		return a.show(map[string]string{"error": text}, func(w io.Writer) { fmt.Fprintln(w, "error", clean(text)) })
	}, arguments(1, 1), flags(src.flags), flags(func(f *pflag.FlagSet) {
		f.StringVar(&result, "result", "", "DATA is what this method returned")
	}), example("borcli contract decode 0xd09de08a --abi Counter.json",
		"borcli contract decode 0x000000000000000000000000000000000000000000000000000000000000002a --result 'number()(uint256)'"))
}

func (a *app) showDecoded(what string, list abi.Arguments, data []byte) error {
	out, err := outputsOf(list, data)
	if err != nil {
		return fail(exitUsage, "the data do not fit %s: %v", what, err)
	}
	return a.show(map[string]any{"of": what, "values": out}, func(w io.Writer) {
		fmt.Fprintln(w, what)
		printOutputs(w, out)
	})
}

// blockArgument is a block as the node takes it: a tag, or a height in hexadecimal. A number below 0 counts back from
// the newest block, for whose height the node is asked.
func (a *app) blockArgument(ctx context.Context, text string) (string, error) {
	if slices.Contains([]string{"latest", "safe", "finalized", "earliest", "pending"}, text) {
		return text, nil
	}
	n, err := parseHeight(text)
	if err != nil {
		return "", fail(exitUsage, "%v", err)
	}
	if n >= 0 {
		return hexutil.EncodeUint64(uint64(n)), nil
	}
	var newest hexutil.Uint64
	if err := a.ask(ctx, &newest, "eth_blockNumber"); err != nil {
		return "", err
	}
	back := uint64(-n)
	if back > uint64(newest) {
		return "", fail(exitNotFound, "the newest block is %d, there is none %d before it: ask for a newer one", uint64(newest), back)
	}
	return hexutil.EncodeUint64(uint64(newest) - back), nil
}

// namesBlock reports whether the text can be a height or a tag.
func namesBlock(text string) bool {
	_, err := parseHeight(text)
	return err == nil || slices.Contains([]string{"latest", "safe", "finalized", "earliest", "pending"}, text)
}

// parseHeight reads a height; below 0 it counts back from the newest block.
func parseHeight(text string) (int64, error) {
	n, ok := new(big.Int).SetString(strings.ReplaceAll(text, "_", ""), 0)
	digits := strings.TrimPrefix(text, "-")
	if !ok || !n.IsInt64() || n.CmpAbs(big.NewInt(1<<62)) > 0 || strings.HasPrefix(digits, "0") && len(digits) > 1 && !strings.HasPrefix(text, "0x") {
		return 0, fmt.Errorf("%q is no block: give a height, -1 (the one before the newest) and so on, latest, safe, finalized or earliest", text)
	}
	return n.Int64(), nil
}
