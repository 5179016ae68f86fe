package wallet

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
)

var (
	shop  = common.HexToAddress("0x0000000000000000000000000000000000005409")
	token = common.HexToAddress("0x0000000000000000000000000000000000007014")
	coder = common.HexToAddress("0x000000000000000000000000000000000000C0dE")
)

const examplePolicy = `
accounts = ["*"]
chains = [1337]
max_value = "1 ether"
max_fee = "0.001 ether"
max_value_per_hour = "1.5 ether"
delegates = ["0x000000000000000000000000000000000000C0dE"]

[[allow]]
to = "0x0000000000000000000000000000000000005409"
methods = ["transfer"]

[[allow]]
to = "0x0000000000000000000000000000000000007014"
methods = ["transfer(address,uint256)", "0x095ea7b3"]

[[typed_data]]
contract = "0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"
types = ["Mail"]
`

func parsed(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := ParsePolicy([]byte(text), false)
	require.NoError(t, err)
	return p
}

func txRequest(t *testing.T, change func(a *TxArgs)) *request {
	t.Helper()
	a := transfer(junkFirst, shop, 1)
	change(a)
	tx, err := a.transaction()
	require.NoError(t, err)
	return &request{kind: kindTransaction, account: junkFirst, chain: a.ChainID.ToInt(), tx: tx}
}

func data(s string) *hexutil.Bytes { b := hexutil.Bytes(common.FromHex(s)); return &b }

func TestPolicy(t *testing.T) {
	p := parsed(t, examplePolicy)
	auth := func(chain uint64, to common.Address) func(a *TxArgs) {
		return func(a *TxArgs) {
			a.AuthorizationList = []types.SetCodeAuthorization{{ChainID: *u256(chain), Address: to}}
		}
	}
	for name, c := range map[string]struct {
		change func(a *TxArgs)
		rule   string // that refuses; empty: allowed
	}{
		"transfer":             {func(*TxArgs) {}, ""},
		"value above":          {func(a *TxArgs) { a.Value = big256(1e18 + 1) }, "max_value is 1 ether"},
		"fee above":            {func(a *TxArgs) { a.Gas = num(1_000_000) }, "max_fee is 0.001 ether"},
		"other recipient":      {func(a *TxArgs) { a.To = &coder }, "add [[allow]]"},
		"data at the shop":     {func(a *TxArgs) { a.Data = data("0xa9059cbb") }, "method 0xa9059cbb at"},
		"token transfer":       {func(a *TxArgs) { a.To, a.Data = &token, data("0xa9059cbb00") }, ""},
		"token approve":        {func(a *TxArgs) { a.To, a.Data = &token, data("0x095ea7b3") }, ""},
		"token other method":   {func(a *TxArgs) { a.To, a.Data = &token, data("0x23b872dd") }, "method 0x23b872dd"},
		"token short data":     {func(a *TxArgs) { a.To, a.Data = &token, data("0xa9059c") }, "names no method"},
		"token plain transfer": {func(a *TxArgs) { a.To = &token }, "a plain transfer"},
		"deployment":           {func(a *TxArgs) { a.To, a.Data = nil, data("0x00") }, "deploy = true"},
		"chain":                {func(a *TxArgs) { a.ChainID = big256(1) }, "chain 1: add it to chains"},
		"delegation":           {auth(1337, coder), ""},
		"other delegation":     {auth(1337, shop), "add it to delegates"},
		"every chain":          {auth(0, coder), "chain 0"},
	} {
		err := p.allows(txRequest(t, c.change))
		if c.rule == "" {
			require.NoError(t, err, name)
			continue
		}
		requireCode(t, CodeRefused, err, c.rule)
	}
	requireCode(t, CodeRefused, p.allows(&request{kind: kindMessage}), "messages = true")
	requireCode(t, CodeRefused, p.allows(&request{kind: kindHash}), "hashes = true")
	mails := &request{kind: kindTypedData, contract: common.HexToAddress("0xCcCCccccCCCCcCCCCCCcCcCccCcCCCcCcccccccC"), primaryType: "Mail"}
	require.NoError(t, p.allows(mails))
	mails.primaryType = "Permit"
	requireCode(t, CodeRefused, p.allows(mails), "typed data Permit for contract 0xCcCC")
	mails.primaryType, mails.contract = "Mail", shop
	requireCode(t, CodeRefused, p.allows(mails), "[[typed_data]]")
	requireCode(t, CodeRefused, p.allows(&request{kind: kindAuthorization, chain: big256(1337).ToInt(), delegate: shop}), "delegates")
	requireCode(t, CodeRefused, p.allows(&request{kind: "something"}), "no rule")
}

// Without a rule nothing is allowed.
func TestEmptyPolicyRefusesEverything(t *testing.T) {
	r := txRequest(t, func(*TxArgs) {})
	text := ""
	for _, step := range []struct{ rule, refused string }{
		{`accounts = ["` + junkFirst.Hex() + `"]`, "add it to accounts"}, {`chains = [1337]`, "add it to chains"},
		{`max_value = "1 wei"`, "no max_value"}, {`max_fee = "1 ether"`, "no max_fee"},
		{`max_value_per_hour = "1 wei"`, "add [[allow]]"}, {"[[allow]]\nto = \"*\"\nmethods = []", "add [[allow]]"},
	} {
		requireCode(t, CodeRefused, parsed(t, text).allows(r), step.refused)
		text += step.rule + "\n"
	}
	requireCode(t, CodeRefused, parsed(t, text).allows(r), "a plain transfer at")
	text = strings.Replace(text, "methods = []", `methods = ["*"]`, 1)
	require.NoError(t, parsed(t, text).allows(r))
	j := &policyJudge{policy: parsed(t, strings.Replace(text, "max_value_per_hour", "#", 1))}
	requireCode(t, CodeRefused, j.decide(t.Context(), r), "no max_value_per_hour")
}

func TestValuePerHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &policyJudge{policy: parsed(t, examplePolicy)}
		send := func(wei int64) error {
			return j.decide(t.Context(), txRequest(t, func(a *TxArgs) { a.Value, a.MaxFeePerGas, a.MaxPriorityFeePerGas = big256(wei), big256(0), big256(0) }))
		}
		require.NoError(t, send(1e18))
		time.Sleep(30*time.Minute + time.Second)
		require.NoError(t, send(5e17))
		requireCode(t, CodeRefused, send(1), "would spend 1.500000000000000001 ether within an hour, fees included, max_value_per_hour is 1.5 ether")
		require.NoError(t, send(0))
		time.Sleep(30 * time.Minute) // the first is an hour old
		require.NoError(t, send(1e18))
		requireCode(t, CodeRefused, send(1))
		other := txRequest(t, func(*TxArgs) {})
		other.account = shop
		require.NoError(t, j.decide(t.Context(), other), "each account by itself")
	})
}

// Fees count as well: signing for nothing again and again would hand them to whoever makes the blocks.
func TestFeesCountWithinTheHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &policyJudge{policy: parsed(t, examplePolicy)}
		free := txRequest(t, func(a *TxArgs) { a.Value, a.Gas, a.MaxFeePerGas = big256(0), num(500_000), big256(2e9) }) // 0.001 ether
		for i := range 1500 {
			require.NoError(t, j.decide(t.Context(), free), i)
		}
		requireCode(t, CodeRefused, j.decide(t.Context(), free), "would spend 1.501 ether within an hour, fees included")
		require.Len(t, j.spent[junkFirst], 1, "what is signed in one second is one entry")
		time.Sleep(time.Hour + time.Second)
		require.NoError(t, j.decide(t.Context(), free))
		j.policy.perHour = nil
		requireCode(t, CodeRefused, j.decide(t.Context(), free), "no max_value_per_hour")
	})
}

func TestPolicyFiles(t *testing.T) {
	for text, want := range map[string]string{
		`chians = [1]`:                        `unknown key "chians"; did you mean "chains"?`,
		"[[allow]]\nto = \"*\"\nmethod = []":  `unknown key "allow.method"; did you mean "allow.methods"?`,
		`allow = [1]`:                         "write [[allow]]",
		`colour = 1`:                          "use accounts, chains",
		`chains = "1"`:                        "cannot be read",
		`chains = [`:                          "cannot be read",
		`max_fee = "1"`:                       "is no amount",
		`max_value = "-1 ether"`:              "is no amount",
		`max_value = "1.1 wei"`:               "is no amount",
		`max_value = "1 eth"`:                 "is no amount",
		`accounts = ["0x12"]`:                 "no address",
		`delegates = ["*"]`:                   "name the contracts",
		"[[allow]]\nto = \"shop\"":            "use an address",
		"[[typed_data]]\ncontract = \"x\"":    "use an address",
		allow(`"transfer(address, uint256)"`): "is no signature",
		allow(`"transfer(address to)"`):       "is no signature",
		allow(`"transfer(uint)"`):             "is no signature",
		allow(`"transfer(int[2])"`):           "is no signature",
		allow(`"transfer(foo)"`):              "is no signature",
		allow(`"0x1234"`):                     "is no selector",
		strings.Repeat("#", MaxPolicyFile+1):  "more than 1048576 bytes",
		"accounts = [" + strings.Repeat(`"*",`, MaxPolicyRules+1) + "]": "more than 4096 rules",
	} {
		_, err := ParsePolicy([]byte(text), false)
		require.ErrorContains(t, err, want, "%.60q", text)
	}

	c := testConfig(t)
	c.Confirm = ConfirmPolicy
	_, err := Open(c, nil, nil)
	require.ErrorContains(t, err, "policy.toml")
	path := filepath.Join(c.Dir, "policy.toml")
	require.NoError(t, os.WriteFile(path, []byte(examplePolicy), 0o600))
	require.NoError(t, os.Chmod(path, 0o620))
	_, err = Open(c, nil, nil)
	require.ErrorContains(t, err, "run chmod go-w "+path)
	require.NoError(t, os.Chmod(path, 0o644))
	openService(t, c).Close()

	// The same in JSON.
	c.Policy = "policy.json"
	text, err := json.Marshal(parsed(t, examplePolicy).file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, c.Policy), text, 0o600))
	s := openService(t, c)
	a := account(t, s)
	_, err = s.SignTransaction(t.Context(), transfer(a, shop, 1))
	require.NoError(t, err)
	_, err = s.SignTransaction(t.Context(), transfer(a, coder, 1))
	requireCode(t, CodeRefused, err, "does not allow the recipient")
	_, err = s.SignMessage(t.Context(), a, []byte("x"))
	requireCode(t, CodeRefused, err, "messages = true")
}

func allow(method string) string { return "[[allow]]\nto = \"*\"\nmethods = [" + method + "]" }

func TestSelectors(t *testing.T) {
	for _, m := range contracts.ProducersABI().Methods {
		sel, err := parseSelector(m.Sig)
		require.NoError(t, err, m.Sig)
		require.Equal(t, m.ID, sel[:])
	}
	for _, good := range []string{"f()", "f((uint256,bytes)[2],string)", "$_9((),bool[][3])", "f(((address)))"} {
		sel, err := parseSelector(good)
		require.NoError(t, err, good)
		require.Equal(t, crypto.Keccak256([]byte(good))[:4], sel[:])
	}
	for _, bad := range []string{"", "f", "A", "(", "f(", "f)", "f())", "f(,)", "f(bool,)", "f(()", "f(bool[)", "f(bool[-1])", "f(bool)x", "9f()", "f(bool bool)",
		"f(uint[])", "f" + strings.Repeat("(", 2000), "f((bool)()"} {
		_, err := parseSelector(bad)
		require.Error(t, err, bad)
	}
}

func TestAmounts(t *testing.T) {
	for text, wei := range map[string]string{"1 ether": "1000000000000000000", "1.5 ether": "1500000000000000000", "20 gwei": "20000000000",
		"7 wei": "7", "0 wei": "0", "0.000000000000000001 ether": "1"} {
		n, err := parseAmount(text)
		require.NoError(t, err)
		require.Equal(t, wei, n.String())
	}
	for wei, text := range map[string]string{"0": "0 ether", "7": "7 wei", "20000000000": "0.00000002 ether", "1500000000000000000": "1.5 ether", "1000000000000000000": "1 ether"} {
		n, err := parseAmount(wei + " wei")
		require.NoError(t, err)
		require.Equal(t, text, ether(n))
	}
}

func FuzzPolicy(f *testing.F) {
	f.Add([]byte(examplePolicy), false)
	f.Add([]byte(`{"accounts":["*"],"allow":[{"to":"*","methods":["f((uint256,bytes)[2],string)"]}]}`), true)
	f.Fuzz(func(t *testing.T, text []byte, isJSON bool) {
		p, err := ParsePolicy(text, isJSON)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		// No policy allows a chain that it does not name.
		r := &request{kind: kindMessage, account: junkFirst, chain: big256(0x5eed).ToInt()}
		if p.allows(r) == nil {
			require.Contains(t, p.file.Chains, uint64(0x5eed))
		}
	})
}

func FuzzKeyFile(f *testing.F) {
	key, a := newKey()
	text, err := sealKey(key, a, testPassword, 2, 1)
	require.NoError(f, err)
	f.Add(text)
	f.Add([]byte(`{"version":3,"crypto":{"cipher":"aes-128-ctr","ciphertext":"","cipherparams":{"iv":""},"kdf":"pbkdf2","kdfparams":{"c":1,"dklen":32,"prf":"hmac-sha256","salt":"00"},"mac":""}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := parseKeyFile(text)
		if err != nil {
			return
		}
		p := k.crypto.KDFParams
		if n, ok := p["n"].(int); ok && n*p["r"].(int)*p["p"].(int) > 1<<10 || p["c"] != nil && p["c"].(int) > 1<<10 {
			return // within bounds, but too slow here
		}
		if key, _, err := k.open(testPassword); err == nil {
			require.Len(t, key, keySize)
		}
	})
}

// The policy of the document is one.
func TestDocumentedPolicy(t *testing.T) {
	text, err := os.ReadFile("../docs/wallet.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "```toml\n")
	require.True(t, ok)
	block, _, _ := strings.Cut(rest, "```")
	p := parsed(t, block)
	require.NoError(t, p.allows(&request{kind: kindMessage}))
	require.Len(t, p.recipients, 1)
	require.NotNil(t, p.anyRecipient)
	for i := range reflect.TypeFor[policyFile]().NumField() { // every key is documented
		require.Contains(t, block, reflect.TypeFor[policyFile]().Field(i).Tag.Get("toml"))
	}
}
