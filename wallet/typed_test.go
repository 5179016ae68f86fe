package wallet

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"
	"github.com/stretchr/testify/require"
)

// mail is the example of EIP-712.
const mail = `{"types":{"EIP712Domain":[{"name":"name","type":"string"},{"name":"version","type":"string"},{"name":"chainId","type":"uint256"},{"name":"verifyingContract","type":"address"}],
"Person":[{"name":"name","type":"string"},{"name":"wallet","type":"address"}],
"Mail":[{"name":"from","type":"Person"},{"name":"to","type":"Person"},{"name":"contents","type":"string"}]},
"primaryType":"Mail","domain":{"name":"Ether Mail","version":"1","chainId":1,"verifyingContract":"0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"},
"message":{"from":{"name":"Cow","wallet":"0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826"},"to":{"name":"Bob","wallet":"0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB"},"contents":"Hello, Bob!"}}`

func TestTypedDataOfTheEIP(t *testing.T) {
	d, err := parseTypedData([]byte(mail))
	require.NoError(t, err)
	require.Equal(t, "0xbe609aee343fb3c4b28e1df9e632fca64fcfaede20f02e86244efddf30957bd2", hexutil.Encode(d.hash))
	require.Equal(t, []string{
		`domain.name (string) = "Ether Mail"`, `domain.version (string) = "1"`, `domain.chainId (uint256) = 1`,
		`domain.verifyingContract (address) = 0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC`,
		`Mail.from (Person)`, `Mail.from.name (string) = "Cow"`, `Mail.from.wallet (address) = 0xCD2a3d9F938E13CD947Ec05AbC7FE734Df8DD826`,
		`Mail.to (Person)`, `Mail.to.name (string) = "Bob"`, `Mail.to.wallet (address) = 0xbBbBBBBbbBBBbbbBbbBbbbbBBbBbbbbBbBbbBBbB`,
		`Mail.contents (string) = "Hello, Bob!"`,
	}, d.lines)
	quoted, err := json.Marshal(mail) // some clients send a string
	require.NoError(t, err)
	again, err := parseTypedData(quoted)
	require.NoError(t, err)
	require.Equal(t, d.hash, again.hash)
}

// typed builds typed data with one primary type T.
func typed(types, message string) string {
	return fmt.Sprintf(`{"types":{"EIP712Domain":[{"name":"name","type":"string"}],%s},"primaryType":"T","domain":{"name":"d"},"message":%s}`, types, message)
}

func TestTypedDataIsShownWhole(t *testing.T) {
	d, err := parseTypedData([]byte(typed(
		`"T":[{"name":"list","type":"P[]"},{"name":"pair","type":"uint8[2]"},{"name":"grid","type":"int8[][]"},{"name":"raw","type":"bytes"},{"name":"no","type":"string[]"},{"name":"text","type":"string"}],"P":[{"name":"to","type":"address"},{"name":"ok","type":"bool"}]`,
		`{"list":[{"to":"0x0000000000000000000000000000000000000001","ok":true},{"to":"0x0000000000000000000000000000000000000002","ok":false}],"pair":[1,"0x2"],"grid":[[-128],[]],"raw":"0x0102","no":[],"text":"line\nT.pair[0] (uint8) = 9 \u202e"}`)))
	require.NoError(t, err)
	text := strings.Join(d.lines, "\n")
	for _, line := range []string{
		`T.list[0].to (address) = 0x0000000000000000000000000000000000000001`, `T.list[1].to (address) = 0x0000000000000000000000000000000000000002`,
		`T.list[1].ok (bool) = false`, `T.pair[1] (uint8) = 2`, `T.grid[0][0] (int8) = -128`, `T.grid[1] (int8[]) = []`,
		`T.raw (bytes) = 0x0102 (2 bytes)`, `T.no (string[]) = []`, `T.text (string) = "line\nT.pair[0] (uint8) = 9 \u202e"`,
	} {
		require.Contains(t, d.lines, line)
	}
	require.NotContains(t, text, "\u202e")
}

func TestTypedDataIsRefused(t *testing.T) {
	deep := `"T":[{"name":"a","type":"T1"}]`
	value := `0`
	for i := 1; i <= 20; i++ {
		deep += fmt.Sprintf(`,"T%d":[{"name":"a","type":"T%d"}]`, i, i+1)
		value = `{"a":` + value + `}`
	}
	deep += `,"T21":[{"name":"a","type":"uint8"}]`
	many := `"T0":[]`
	for i := range MaxTypes {
		many += fmt.Sprintf(`,"T%d":[]`, i+1)
	}
	fields := make([]string, MaxTypeFields+1)
	for i := range fields {
		fields[i] = fmt.Sprintf(`{"name":"f%d","type":"uint8"}`, i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":          {`{`, "not an object"},
		"unknown key":      {`{"type":{}}`, "unknown field"},
		"trailing":         {mail + `{}`, "something follows"},
		"hidden struct":    {typed(`"T":[{"name":"a","type":"uint256"}],"uint256":[{"name":"b","type":"address"}]`, `{"a":{"b":"0x0000000000000000000000000000000000000001"}}`), "elementary type"},
		"forged field":     {typed(`"T":[{"name":"a,address b","type":"uint8"}]`, `{"a,address b":1}`), "is no name"},
		"field twice":      {typed(`"T":[{"name":"a","type":"uint8"},{"name":"a","type":"address"}]`, `{"a":1}`), "there twice"},
		"forged type":      {typed(`"T":[{"name":"a","type":"P(uint8 x)"}],"P(uint8 x)":[]`, `{"a":{}}`), "cannot name a type"},
		"unknown type":     {typed(`"T":[{"name":"a","type":"Q"}]`, `{"a":1}`), "unknown type"},
		"odd size":         {typed(`"T":[{"name":"a","type":"uint7"}]`, `{"a":1}`), "unknown type"},
		"domain inside":    {typed(`"T":[{"name":"a","type":"EIP712Domain"}]`, `{"a":{}}`), "unknown type"},
		"extra value":      {typed(`"T":[{"name":"a","type":"uint8"}]`, `{"a":1,"b":2}`), "would not be signed"},
		"missing value":    {typed(`"T":[{"name":"a","type":"uint8"}]`, `{}`), "lacks a"},
		"null":             {typed(`"T":[{"name":"a","type":"uint8[]"}]`, `{"a":[null]}`), "not of type uint8"},
		"flat for grid":    {typed(`"T":[{"name":"a","type":"uint8[][]"}]`, `{"a":[1]}`), "not a list"},
		"grid for flat":    {typed(`"T":[{"name":"a","type":"uint8[]"}]`, `{"a":[[1]]}`), "not of type"},
		"wrong length":     {typed(`"T":[{"name":"a","type":"uint8[2]"}]`, `{"a":[1]}`), "has 1 values"},
		"too large":        {typed(`"T":[{"name":"a","type":"uint8"}]`, `{"a":256}`), "does not fit"},
		"int8 above":       {typed(`"T":[{"name":"a","type":"int8"}]`, `{"a":128}`), "does not fit"},
		"negative":         {typed(`"T":[{"name":"a","type":"uint8"}]`, `{"a":-1}`), "does not fit"},
		"rounded":          {typed(`"T":[{"name":"a","type":"uint256"}]`, `{"a":9007199254740993}`), "write it as a string"},
		"fraction":         {typed(`"T":[{"name":"a","type":"uint256"}]`, `{"a":1.5}`), "not whole"},
		"short bytes32":    {typed(`"T":[{"name":"a","type":"bytes32"}]`, `{"a":"0x00"}`), "not of type bytes32"},
		"wrong address":    {typed(`"T":[{"name":"a","type":"address"}]`, `{"a":"0x00"}`), "not of type address"},
		"text for bool":    {typed(`"T":[{"name":"a","type":"bool"}]`, `{"a":"true"}`), "not of type bool"},
		"primary unknown":  {`{"types":{"EIP712Domain":[{"name":"name","type":"string"}]},"primaryType":"X","domain":{"name":"d"},"message":{}}`, "primaryType"},
		"no domain type":   {`{"types":{"T":[]},"primaryType":"T","domain":{"name":"d"},"message":{}}`, "lack EIP712Domain"},
		"undeclared chain": {`{"types":{"EIP712Domain":[{"name":"name","type":"string"}],"T":[]},"primaryType":"T","domain":{"name":"d","chainId":1},"message":{}}`, "gives chainId but does not declare"},
		"unsent chain":     {`{"types":{"EIP712Domain":[{"name":"name","type":"string"},{"name":"chainId","type":"uint256"}],"T":[]},"primaryType":"T","domain":{"name":"d"},"message":{}}`, "declares chainId but does not give"},
		"domain type":      {`{"types":{"EIP712Domain":[{"name":"chainId","type":"address"}],"T":[]},"primaryType":"T","domain":{"chainId":1},"message":{}}`, "the domain declares"},
		"domain key":       {`{"types":{"EIP712Domain":[{"name":"name","type":"string"}],"T":[]},"primaryType":"T","domain":{"name":"d","chain":1},"message":{}}`, "unknown field"},
		"recursion":        {typed(deep, value), "nests deeper"},
		"brackets":         {typed(`"T":[{"name":"a","type":"uint8`+strings.Repeat("[]", 40)+`"}]`, `{"a":[]}`), "nests too deep"},
		"many types":       {typed(many, `{}`), "types, 32 are allowed"},
		"many fields":      {typed(`"T":[`+strings.Join(fields, ",")+`]`, `{}`), "more than 256 fields"},
		"many values":      {typed(`"T":[{"name":"a","type":"uint8[]"}]`, `{"a":[`+strings.Repeat("1,", MaxTypedValues)+`1]}`), "more than 2048 values"},
		"many bytes":       {`"` + strings.Repeat("x", MaxTypedData) + `"`, "are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseTypedData([]byte(c.text))
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 2*MaxShown)
		})
	}
}

func TestTypedDataOfAnotherChain(t *testing.T) {
	c := testConfig(t)
	c.ChainIDs = []uint64{1337}
	s := openService(t, c)
	a := account(t, s)
	_, err := s.SignTypedData(t.Context(), a, []byte(mail))
	requireCode(t, CodeRefused, err, "chain 1 is not among the chains")
	sig, err := s.SignTypedData(t.Context(), a, []byte(strings.Replace(mail, `"chainId":1,`, `"chainId":"0x539",`, 1)))
	require.NoError(t, err)
	require.Len(t, sig, 65)
	_, err = s.SignTransaction(t.Context(), transfer(a, a, 1))
	require.NoError(t, err)
	other := transfer(a, a, 1)
	other.ChainID = big256(1)
	_, err = s.SignTransaction(t.Context(), other)
	requireCode(t, CodeRefused, err, "chain 1 is not among the chains")
}

// What is accepted is what go-ethereum hashes, without a panic and in bounded time.
func FuzzTypedData(f *testing.F) {
	f.Add([]byte(mail))
	f.Add([]byte(typed(`"T":[{"name":"a","type":"T[]"}]`, `{"a":[{"a":[]}]}`)))
	f.Add([]byte(typed(`"T":[{"name":"a","type":"bytes3[2][]"},{"name":"b","type":"int"}]`, `{"a":[["0x010203","0x040506"]],"b":"-0x1"}`)))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := parseTypedData(text)
		if err != nil {
			return
		}
		require.Len(t, d.hash, common.HashLength)
		require.NotEmpty(t, d.lines)
		for _, l := range d.lines {
			require.NotContains(t, l, "\n")
		}
		var inner string
		if json.Unmarshal(text, &inner) == nil {
			text = []byte(inner)
		}
		var again apitypes.TypedData
		require.NoError(t, json.Unmarshal(text, &again))
	})
}
