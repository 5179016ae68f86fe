package main

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/stretchr/testify/require"
)

func typeOf(t *testing.T, text string) abi.Type {
	t.Helper()
	m, err := methodOf("f(" + text + ")")
	require.NoError(t, err)
	return m.Inputs[0].Type
}

func TestArgumentsBecomeValues(t *testing.T) {
	for _, c := range []struct{ typ, text, want string }{
		{"uint256", "42", "42"}, {"uint256", "0x2a", "42"}, {"uint", "1.5ether", "1500000000000000000"}, {"uint256", "1_000", "1000"},
		{"int8", "-128", "-128"}, {"int256", "-1ether", "-1000000000000000000"}, {"int64", "-0x10", "-16"}, {"uint24", "16777215", "16777215"},
		{"uint64", "18446744073709551615", "18446744073709551615"}, {"int64", "-9223372036854775808", "-9223372036854775808"},
		{"bool", "true", "true"}, {"bool", "false", "false"}, {"string", "héllo \"x\"", "héllo \"x\""}, {"string", "", ""},
		{"bytes", "0x", "0x"}, {"bytes", "0x00ff", "0x00ff"}, {"bytes4", "0x01020304", "0x01020304"}, {"address", strings.ToLower(someone), someone},
		{"uint8[]", "[1, \"2\", 3]", `["1","2","3"]`}, {"uint256[2][]", "[[1,2],[3,4]]", `[["1","2"],["3","4"]]`}, {"string[]", `["a","b"]`, `["a","b"]`},
		{"uint256", "115792089237316195423570985008687907853269984665640564039457584007913129639935", "115792089237316195423570985008687907853269984665640564039457584007913129639935"},
		{"(uint8,bool)[]", "[[1,true],[2,false]]", `[{"name0":"1","name1":true},{"name0":"2","name1":false}]`},
		{"(address,(int8,string))", `["` + someone + `",{"name0":-1,"name1":"x"}]`, `{"name0":"` + someone + `","name1":{"name0":"-1","name1":"x"}}`},
	} {
		typ := typeOf(t, c.typ)
		v, err := parseValue(typ, c.text)
		require.NoError(t, err, "%s %s", c.typ, c.text)
		packed, err := abi.Arguments{{Type: typ}}.Pack(v)
		require.NoError(t, err)
		back, err := abi.Arguments{{Type: typ}}.Unpack(packed)
		require.NoError(t, err)
		require.Equal(t, c.want, valueText(typ, back[0]), "%s %s", c.typ, c.text)
	}
}

func TestArgumentsThatDoNotFit(t *testing.T) {
	for _, c := range []struct{ typ, text, want string }{
		{"uint8", "256", "does not fit uint8, which goes from 0 to 255"}, {"uint256", "-1", "does not fit uint256"}, {"int8", "128", "from -128 to 127"},
		{"int8", "-129", "does not fit"}, {"uint256", "1.5", "is no uint256"}, {"uint256", "", "is no uint256"}, {"uint256", "--5", "is no uint256"},
		{"uint256", "+5", "is no uint256"}, {"uint256", "1e18", "is no uint256"}, {"uint256", strings.Repeat("9", 200), "is no uint256"},
		{"uint256", "115792089237316195423570985008687907853269984665640564039457584007913129639936", "does not fit"},
		{"bool", "1", "write true or false"}, {"bool", "True", "write true or false"}, {"address", "0x12", "is no address"},
		{"address", "0x52908400098527886e0F7030069857D2E4169EE7", "wrong checksum"},
		{"bytes", "ff", "hexadecimal with 0x"}, {"bytes", "", "hexadecimal with 0x"}, {"bytes4", "0x010203", "has 4 bytes"}, {"bytes32", "0x0g", "not hexadecimal"},
		{"uint8[]", "1,2", "put quotes around the whole argument"}, {"uint8[]", "[1,2", "is written as JSON"}, {"uint8[]", "[1] [2]", "quotes around"}, {"uint8[2]", "[1]", "has 2 items, 1 were given"},
		{"uint8[]", "[1,300]", "item 2: 300 does not fit uint8"}, {"uint8[]", `{"a":1}`, "is a list"}, {"uint8[]", "[null]", "cannot be made of null"}, {"uint8[]", "[1.5]", "is no uint8"},
		{"(uint8,bool)", "[1]", "has 2 fields, 1 were given"}, {"(uint8,bool)", `{"name0":1}`, `field "name1"`}, {"(uint8,bool)", `{"name0":1,"name1":true,"name2":1}`, `no field "name2"`},
		{"(uint8,bool)", "5", "is a tuple"}, {"string[]", "[5]", "5 is no string"}, {"string[]", "[true]", "cannot be made of true"}, {"bytes[]", "[[1]]", "cannot be made of"},
	} {
		_, err := parseValue(typeOf(t, c.typ), c.text)
		require.ErrorContains(t, err, c.want, "%s %s", c.typ, c.text)
	}
}

// What is read packs, and reading what was unpacked gives the same bytes.
func FuzzArgument(f *testing.F) {
	for _, s := range [][2]string{{"uint8", "1"}, {"int256", "-5"}, {"(uint8,string)[]", `[[1,"a"]]`}, {"bytes3[2]", `["0x010203","0x040506"]`}, {"address", someone},
		{"uint256[][2]", "[[1],[]]"}, {"function", "0x" + strings.Repeat("00", 24)}, {"(uint8[65537])", "[]"}, {"uint7", "1"}, {"f((", ""}, {"uint8[4294967295][4294967295]", "[]"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, typ, text string) {
		m, err := methodOf("f(" + typ + ")")
		if err != nil || len(m.Inputs) != 1 {
			return
		}
		args := m.Inputs
		v, err := parseValue(args[0].Type, text)
		if err != nil {
			return
		}
		packed, err := args.Pack(v)
		require.NoError(t, err)
		back, err := args.Unpack(packed)
		require.NoError(t, err)
		again, err := parseValue(args[0].Type, valueText(args[0].Type, back[0]))
		require.NoError(t, err, "%s", valueText(args[0].Type, back[0]))
		packedAgain, err := args.Pack(again)
		require.NoError(t, err)
		require.Equal(t, packed, packedAgain)
	})
}

const counterABI = `[{"type":"constructor","inputs":[{"name":"initial","type":"uint256"}],"stateMutability":"nonpayable"},
{"type":"function","name":"set","inputs":[{"name":"to","type":"uint256"}],"outputs":[],"stateMutability":"nonpayable"},
{"type":"function","name":"set","inputs":[{"name":"to","type":"uint256"},{"name":"by","type":"address"}],"outputs":[],"stateMutability":"payable"},
{"type":"function","name":"put","inputs":[{"name":"x","type":"uint256"}],"outputs":[],"stateMutability":"nonpayable"},
{"type":"function","name":"put","inputs":[{"name":"x","type":"string"}],"outputs":[],"stateMutability":"nonpayable"},
{"type":"function","name":"number","inputs":[],"outputs":[{"name":"","type":"uint256"}],"stateMutability":"view"},
{"type":"event","name":"Set","inputs":[{"name":"by","type":"address","indexed":true},{"name":"note","type":"string","indexed":true},{"name":"to","type":"uint256","indexed":false}],"anonymous":false},
{"type":"error","name":"TooLarge","inputs":[{"name":"value","type":"uint256"},{"name":"limit","type":"uint256"}]}]`

func counterContract(t *testing.T) *abi.ABI {
	t.Helper()
	x, err := parseABI([]byte(counterABI))
	require.NoError(t, err)
	return x
}

func TestMethodsAreFoundByNameOrSignature(t *testing.T) {
	x := counterContract(t)
	for _, c := range []struct {
		name  string
		count int
		want  string
	}{{"number", 0, "number()"}, {"set", 1, "set(uint256)"}, {"set", 2, "set(uint256,address)"}, {"set(uint, address)", 9, "set(uint256,address)"}, {"put(string)", 1, "put(string)"}} {
		m, err := findMethod(x, c.name, c.count)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, m.Sig)
	}
	for _, c := range []struct {
		name  string
		count int
		want  string
	}{{"put", 1, "several methods put: name one by its signature: put(string), put(uint256)"}, {"set", 3, "several methods"}, {"numbr", 0, `did you mean "number"?`},
		{"put(bytes)", 1, "no method put(bytes): it has put(string), put(uint256)"}, {"set", -1, "several methods"}} {
		_, err := findMethod(x, c.name, c.count)
		require.ErrorContains(t, err, c.want, c.name)
	}
	_, err := findMethod(&abi.ABI{}, "x", 0)
	require.ErrorContains(t, err, "no methods")

	m, err := findMethod(x, "set", 2)
	require.NoError(t, err)
	_, err = packCall(m, []string{"1"})
	require.ErrorContains(t, err, "set(uint256 to, address by) takes 2 arguments, 1 given")
	_, err = packCall(m, []string{"1", "you"})
	require.ErrorContains(t, err, `argument 2 (address by) of set(uint256 to, address by): "you" is no address`)
	data, err := packCall(m, []string{"1", someone})
	require.NoError(t, err)
	require.Equal(t, m.ID, data[:4])
	require.Len(t, data, 68)
}

func TestSignaturesStandForMethods(t *testing.T) {
	m, err := methodOf("balanceOf(address)(uint256)")
	require.NoError(t, err)
	require.Equal(t, "balanceOf(address)", m.Sig)
	require.Equal(t, "uint256", m.Outputs[0].Type.String())
	require.Equal(t, "70a08231", hex.EncodeToString(m.ID))
	m, err = methodOf("f((uint, bool)[], int)()")
	require.NoError(t, err)
	require.Equal(t, "f((uint256,bool)[],int256)", m.Sig)
	for _, bad := range []string{"", "f", "f(", "f)", "(uint8)", "f(uint8)x", "f(uint7)", "f(nothing)", "f(uint8[99999999])", "f(())", "f(uint8)(", "f(uint8[0])"} {
		_, err := methodOf(bad)
		require.Error(t, err, bad)
	}
}

func TestArtefactForms(t *testing.T) {
	code := "0x6001600255"
	quoted, _ := json.Marshal(counterABI)
	for name, text := range map[string]string{
		"hardhat":       `{"_format":"hh-sol-artifact-1","contractName":"Counter","abi":` + counterABI + `,"bytecode":"` + code + `","linkReferences":{}}`,
		"foundry":       `{"abi":` + counterABI + `,"bytecode":{"object":"` + code + `","sourceMap":"","linkReferences":{}},"deployedBytecode":{"object":"0x"}}`,
		"standard":      `{"contracts":{"C.sol":{"Counter":{"abi":` + counterABI + `,"evm":{"bytecode":{"object":"6001600255","linkReferences":{}}}},"IFace":{"abi":[],"evm":{"bytecode":{"object":""}}}}},"errors":[{"severity":"warning","formattedMessage":"w"}]}`,
		"combined":      `{"contracts":{"C.sol:Counter":{"abi":` + counterABI + `,"bin":"6001600255"}},"version":"0.8"}`,
		"combined, old": `{"contracts":{"C.sol:Counter":{"abi":` + string(quoted) + `,"bin":"6001600255"}},"version":"0.4"}`,
		"with a mark":   "\ufeff" + `{"abi":` + counterABI + `,"bytecode":"` + code + `"}`,
	} {
		x, err := parseArtefact([]byte(text), "")
		require.NoError(t, err, name)
		require.Equal(t, "6001600255", hex.EncodeToString(x.Bytecode), name)
		require.Len(t, x.ABI.Methods, 5, name)
	}
	x, err := parseArtefact([]byte(counterABI), "")
	require.NoError(t, err)
	require.Nil(t, x.Bytecode)
	x, err = parseArtefact([]byte("6001\n6002\n"), "")
	require.NoError(t, err)
	require.Nil(t, x.ABI)
	require.Len(t, x.Bytecode, 4)

	b, err := os.ReadFile("../../testnet/clients/Sample.json")
	require.NoError(t, err)
	x, err = parseArtefact(b, "")
	require.NoError(t, err)
	require.NotEmpty(t, x.Bytecode)
	require.Contains(t, x.ABI.Errors, "TooLarge")
}

func TestArtefactsThatCannotBeUsed(t *testing.T) {
	two := `{"contracts":{"A.sol":{"X":{"abi":[],"evm":{"bytecode":{"object":"60"}}}},"B.sol":{"X":{"abi":[],"evm":{"bytecode":{"object":"61"}}}}}}`
	for _, c := range []struct{ text, name, want string }{
		{"", "", "empty"}, {"hello", "", "neither JSON nor code"}, {"{", "", "not valid JSON"}, {"{}", "", "neither an ABI nor code"}, {"[{}]", "", "not a valid ABI"},
		{`{"contracts":{}}`, "", "holds no contract"}, {two, "", "choose one by --contract: A.sol:X, B.sol:X"}, {two, "X", "several contracts are named X"}, {two, "Y", "no contract Y"},
		{`{"contracts":{"a":5}}`, "", `contracts of "a"`}, {`{"errors":[{"severity":"error","formattedMessage":"boom"}]}`, "", "the compiler found errors, the first is: boom"},
		{`{"contractName":"A","abi":[],"bytecode":"0x60"}`, "B", "--contract asks for B"},
		{`{"abi":[],"bytecode":"0x60__$1234$__60","linkReferences":{"L.sol":{"Lib":[{"start":1,"length":20}]}}}`, "", "libraries that are not linked (L.sol:Lib)"},
		{`{"abi":[],"bytecode":{"object":"0x60__$12$__","linkReferences":{}}}`, "", "not linked"}, {`{"abi":[],"bytecode":"0xzz"}`, "", "not hexadecimal"}, {`{"abi":[],"bytecode":5}`, "", ""},
		{`[{"type":"function","name":"f","inputs":[{"name":"x","type":"uint8[70000]"}]}]`, "", "fixed array"},
		{`[{"type":"function","name":"f","inputs":[{"name":"x","type":"uint8[60000][60000]"}]}]`, "", "fixed arrays"},
		{`[{"type":"function","name":"f","inputs":[{"name":"x","type":"uint9"}]}]`, "", "integer type"},
	} {
		_, err := parseArtefact([]byte(c.text), c.name)
		if c.want != "" {
			require.ErrorContains(t, err, c.want, "%.60s", c.text)
		}
	}
	x, err := parseArtefact([]byte(two), "B.sol:X")
	require.NoError(t, err)
	require.Equal(t, []byte{0x61}, x.Bytecode)
}

func FuzzArtefact(f *testing.F) {
	f.Add([]byte(counterABI), "")
	f.Add([]byte(`{"contracts":{"C.sol":{"C":{"abi":[],"evm":{"bytecode":{"object":"60"}}}}}}`), "C")
	f.Add([]byte(`{"abi":[{"type":"function","name":"f","inputs":[{"name":"x","type":"tuple","components":[{"name":"a","type":"uint8[3]"}]}]}],"bytecode":"0x60"}`), "")
	f.Fuzz(func(t *testing.T, b []byte, name string) {
		x, err := parseArtefact(b, name)
		if err != nil || x.ABI == nil {
			return
		}
		for _, m := range x.ABI.Methods {
			_, _ = outputsOf(m.Outputs, make([]byte, 64))
			_ = signature(&m)
		}
	})
}

func TestRevertsInWords(t *testing.T) {
	x := counterContract(t)
	e := x.Errors["TooLarge"]
	args, err := packArguments(e.Inputs, "TooLarge", []string{"7", "5"})
	require.NoError(t, err)
	data := append(e.ID[:4:4], args...)
	require.Equal(t, "TooLarge(value 7, limit 5)", decodeRevert(data, []*abi.ABI{x}))
	require.Contains(t, decodeRevert(data, nil), "by --abi")
	require.Contains(t, decodeRevert(make([]byte, 500), nil), "an error of 500 bytes")
	require.Contains(t, decodeRevert([]byte{1}, nil), "0x01")
	reason, err := methodOf("Error(string)")
	require.NoError(t, err)
	data, err = packCall(reason, []string{"no money"})
	require.NoError(t, err)
	require.Equal(t, "no money", decodeRevert(data, nil))
	panicked, err := methodOf("Panic(uint256)")
	require.NoError(t, err)
	data, err = packCall(panicked, []string{"0x11"})
	require.NoError(t, err)
	require.Contains(t, decodeRevert(data, nil), "overflow")
}
