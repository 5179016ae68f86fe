package genesis

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"
)

func exampleBytes(t testing.TB) string {
	b, err := os.ReadFile(exampleFile)
	require.NoError(t, err)
	return string(b)
}

// cut takes whole lines that contain the words out of the file.
func cut(s, words string) string {
	var out []string
	for _, line := range strings.Split(s, "\n") {
		if !strings.Contains(line, words) {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// Every mistake is answered by one sentence that names the key.
func TestMistakes(t *testing.T) {
	good := exampleBytes(t)
	account0, account1 := strings.ToLower(testAccount(0).Hex()), strings.ToLower(testAccount(1).Hex())
	peer0, peer1 := testPeer(t, 0), testPeer(t, 1)
	replace := func(old, new string) string {
		require.Contains(t, good, old)
		return strings.Replace(good, old, new, 1)
	}
	key0, key1 := testProducer(t, 31337, 0), testProducer(t, 31337, 1)
	hexOf := hexutil.Encode
	lost := "0x" + strings.Repeat("0", 60) + "1057"
	for want, file := range map[string]string{
		`turnslots: unknown key; did you mean "turn_slots"?`:        replace(`"turn_slots"`, `"turnslots"`),
		`colour: unknown key; the keys here are chain_id`:           replace(`"turn_slots"`, `"colour"`),
		`fees.basefee: unknown key; did you mean "base_fee"?`:       replace(`"base_fee": "0"`, `"basefee": "0"`),
		`producers[0].acount: unknown key; did you mean "account"?`: replace(`"account": "`+account0, `"acount": "`+account0),
		`gas_limit: the key is missing; a usual value is 300000000`: cut(good, `"gas_limit": 300000000`),
		`slot: the key is missing; a usual value is "500ms"`:        cut(good, `"slot"`),
		`fees.mode: the key is missing`:                             cut(good, `"mode"`),
		`slot: 0s is no whole number of milliseconds`:               replace(`"slot": "500ms"`, `"slot": "0s"`),
		`slot: 500.5ms is no whole number of milliseconds`:          replace(`"slot": "500ms"`, `"slot": "500.5ms"`),
		`slot: "fast" is no duration`:                               replace(`"slot": "500ms"`, `"slot": "fast"`),
		`slot: 500 is no string`:                                    replace(`"slot": "500ms"`, `"slot": 500`),
		`turn_slots: 0 lies outside 1 to 10000`:                     replace(`"turn_slots": 12`, `"turn_slots": 0`),
		`turn_slots: -1 is no whole number`:                         replace(`"turn_slots": 12`, `"turn_slots": -1`),
		`turn_slots: null is no whole number`:                       replace(`"turn_slots": 12`, `"turn_slots": null`),
		`turn_slots: 1.5 is no whole number`:                        replace(`"turn_slots": 12`, `"turn_slots": 1.5`),
		`epoch_blocks: 9000 lies outside 1 to 8191`:                 replace(`"epoch_blocks": 1200`, `"epoch_blocks": 9000`),
		`chain_id: 0 lies outside`:                                  replace(`"chain_id": 31337`, `"chain_id": 0`),
		`producers[0].proof: it does not prove`:                     replace(`"chain_id": 31337`, `"chain_id": 31338`),
		`genesis_time: 0 lies outside`:                              replace(`"genesis_time": 1800000000`, `"genesis_time": 0`),
		`min_producers: 5 lies outside 1 to 4`:                      replace(`"min_producers": 4`, `"min_producers": 5`),
		`max_clock_error: 600ms is no whole number`:                 replace(`"max_reversible": 3600`, `"max_reversible": 3600, "max_clock_error": "600ms"`),
		`max_clock_error: 1µs is no whole number`:                   replace(`"max_reversible": 3600`, `"max_reversible": 3600, "max_clock_error": "1us"`),
		`max_reversible: 3 lies outside`:                            replace(`"max_reversible": 3600`, `"max_reversible": 3`),
		`max_block_bytes: 1 lies outside`:                           replace(`"max_block_bytes": 4194304`, `"max_block_bytes": 1`),
		`gas_limit: 1 lies outside`:                                 replace(`"gas_limit": 300000000`, `"gas_limit": 1`),
		`fees.mode: "free" is neither "fixed" nor "market"`:         replace(`"fixed"`, `"free"`),
		`fees.base_fee: a market's floor is at least 7 wei`:         replace(`"fixed"`, `"market"`),
		`fees.base_fee: 0 is no amount of wei`:                      replace(`"base_fee": "0"`, `"base_fee": 0`),
		`fees.base_fee: "1 ether" is no amount of wei`:              replace(`"base_fee": "0"`, `"base_fee": "1 ether"`),
		`fees.base_fee: "-1" is no amount of wei`:                   replace(`"base_fee": "0"`, `"base_fee": "-1"`),
		`patience: "yes" is neither true nor false`:                 replace(`"patience": true`, `"patience": "yes"`),
		`seats: 129 lies outside`:                                   replace(`"seats": 21`, `"seats": 129`),
		`slash_percent: 101 lies outside 0 to 100`:                  replace(`"slash_percent": 50`, `"slash_percent": 101`),
		`slash_percent: 300 is no whole number from 0 to 255`:       replace(`"slash_percent": 50`, `"slash_percent": 300`),
		`withdraw_delay: 168h0m0s must be longer`:                   replace(`"withdraw_delay": "336h"`, `"withdraw_delay": "168h"`),
		`unjail_delay: 1ms is no whole number of seconds`:           replace(`"unjail_delay": "1h"`, `"unjail_delay": "1ms"`),
		`min_stake: 0 is not above 0`:                               replace(`"min_stake": "1000000000000000000000"`, `"min_stake": "0"`),
		`producers[1].account: 0x`:                                  strings.Replace(good, `"account": "`+account1, `"account": "`+account0, 1),
		`producers[1].bls_key: it is the key of producer 0 already`: replace(hexOf(key1.BLSKey[:]), hexOf(key0.BLSKey[:])),
		`producers[1].proof: it does not prove`:                     replace(hexOf(key1.Proof[:]), hexOf(key0.Proof[:])),
		`producers[0].bls_key: it is no BLS public key`:             replace(hexOf(key0.BLSKey[:]), "0x"+strings.Repeat("11", 48)),
		`producers[0].bls_key: "0x1" is not 0x and 96 hexadecimal`:  replace(hexOf(key0.BLSKey[:]), "0x1"),
		`producers[0].account: the zero account cannot produce`:     replace(account0, "0x"+strings.Repeat("0", 40)),
		`producers[0].stake: 1 wei is below`:                        replace(`"stake": "1000000000000000000000"`, `"stake": "1"`),
		`all stakes together are not below`:                         replace(`"stake": "1000000000000000000000"`, `"stake": "79228162514264337593543950335"`),
		`members[0].peer_id: "nobody" is no libp2p peer id`:         replace(peer0, "nobody"),
		`is member 0 already`:                                       replace(peer1, peer0),
		`members[0].roles[0]: "king" is no role`:                    replace("[\n        \"producer\"", "[\n        \"king\""),
		`alloc.0x12: an address is 0x and 40 hexadecimal digits`:    replace(`"alloc": {`, `"alloc": { "0x12": "1",`),
		`the system uses this account`:                              replace(`"alloc": {`, `"alloc": { "0x0000000000000000000000000000000000000b01": "1",`),
		`a system contract lives there`:                             replace(`"alloc": {`, `"alloc": { "0x000f3df6d732807ef1319fb7b8bb8522d0beac02": "1",`),
		`alloc: an object {...} belongs here`:                       `{"alloc": []}`,
		`producers: a list [...] belongs here`:                      `{"producers": {}}`,
		`the key stands twice`:                                      replace(`"turn_slots": 12`, `"turn_slots": 12, "turn_slots": 12`),
		`line 3 is no JSON`:                                         "{\n\"chain_id\": 1,\n]",
		`upgrades[0].height: upgrades stand in the order`:           replace(`"height": 100000`, `"height": 0`),
		`upgrades[0].parameters.gaslimit: unknown key`:              replace(`"gas_limit": "600000000"`, `"gaslimit": "600000000"`),
		`upgrades[0].parameters.max_reversible: unknown key`:        replace(`"gas_limit": "600000000"`, `"max_reversible": "600"`),
		`gas_limit: 1 lies outside 5000000 to 1099511627776`:        replace(`"gas_limit": "600000000"`, `"gas_limit": "1"`),
		`upgrades[0].fork: this version knows "osaka" alone`:        replace(`"name": "wider-blocks"`, `"name": "wider-blocks", "fork": "amsterdam"`),
		`upgrades[0].name: "" must be a name of 1 to 64 bytes`:      replace(`"wider-blocks"`, `""`),
		`upgrades[1].withdrawn: "0x1057"`:                           replace(lost, "0x1057"),
		`upgrades[1].withdrawn: the digest that was voted for`:      replace(lost, "0x"+strings.Repeat("0", 64)),
		`upgrades[1].withdrawn: an upgrade that is withdrawn has`:   replace(`"name": "lost"`, `"name": "lost", "fork": "osaka"`),
		`upgrades[1].name: "" must be the name that was voted for`:  replace(`"name": "lost"`, `"name": ""`),
		`upgrades[2].withdrawn: the same withdrawal`:                replace(`"height": 200000`, `"height": 200000, "name": "lost", "withdrawn": "`+lost+`"}, {"height": 200000`),
		`no system contract lives there`:                            replace(`"0x0000000000000000000000000000000000000b02": "0x6000"`, `"0x0000000000000000000000000000000000000b04": "0x6000"`),
		`0x0000000000000000000000000000000000000B02: code has 1 to`: replace(`"0x0000000000000000000000000000000000000b02": "0x6000"`, `"0x0000000000000000000000000000000000000b02": "0xef"`),
		`fees.base_fee: 1000000000000001 lies outside`:              replace(`"base_fee": "0"`, `"base_fee": "1000000000000001"`),
	} {
		g, err := Parse([]byte(file))
		require.Nil(t, g, want)
		require.ErrorIs(t, err, ErrInvalid, want)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "\n", want)
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "genesis.json")
	_, err := Load(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	_, err = Load(path)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "chain_id: the key is missing")
}

// Amounts may be hexadecimal; optional keys may be left out.
func TestFormsOfOneGenesis(t *testing.T) {
	good := exampleBytes(t)
	want, err := Parse([]byte(good))
	require.NoError(t, err)
	got, err := Parse([]byte(strings.Replace(good, `"1000000000000000000000"`, `"0x3635c9adc5dea00000"`, 1)))
	require.NoError(t, err)
	require.Equal(t, want.o, got.o)
	short, err := Parse([]byte(cut(good, `"admin"`)))
	require.NoError(t, err)
	require.Zero(t, short.Admin())
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Options{ChainID: 1, GenesisTime: 1})
	require.ErrorContains(t, err, "producers: 0 producers")
	o := example(t)
	o.Accounts[testAccount(0)] = Account{}
	_, err = New(o)
	require.ErrorContains(t, err, "stands in Alloc and in Accounts")
}

// Whatever the bytes, Parse answers; what it accepts it writes again to the same genesis.
func FuzzParse(f *testing.F) {
	f.Add([]byte(exampleBytes(f)))
	f.Add([]byte("{}"))
	f.Add([]byte(`{"alloc":{"0x0000000000000000000000000000000000000001":{"storage":{"0x":"0x"}}}}`))
	f.Add([]byte(`{"members":[{"roles":["producer","producer"]}]}`))
	f.Add(bytes.Repeat([]byte("["), 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := Parse(b)
		if err != nil {
			require.ErrorIs(t, err, ErrInvalid)
			return
		}
		again, err := g.MarshalJSON()
		require.NoError(t, err)
		h, err := Parse(again)
		require.NoError(t, err)
		require.Equal(t, g.Alloc(), h.Alloc())
		require.Equal(t, g.UpgradesDigest(), h.UpgradesDigest())
	})
}
