package main

import (
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func settingsOf(t *testing.T, file string, environ []string, args ...string) (*settings, error) {
	t.Helper()
	home := t.TempDir()
	if file != "" {
		require.NoError(t, os.WriteFile(filepath.Join(home, configName), []byte(file), 0o600))
	}
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	addSettingFlags(f, home)
	require.NoError(t, f.Parse(args))
	return loadSettings(f, environ, home)
}

func TestFlagsBeatEnvironmentBeatsFile(t *testing.T) {
	s, err := settingsOf(t, "node = \"http://file:1\"\nchain_id = 7\ntimeout = \"9s\"\nwait = \"none\"\n",
		[]string{"BORCLI_CHAIN_ID=8", "BORCLI_WAIT=final", "BORCLI_JSON=true", "HOME=/"}, "--wait=included", "--most-fee=2ether")
	require.NoError(t, err)
	require.Equal(t, "http://file:1", s.Node)
	require.EqualValues(t, 8, s.ChainID)
	require.Equal(t, 9*time.Second, s.Timeout)
	require.Equal(t, waitIncluded, s.Wait)
	require.True(t, s.JSON)
	most, err := s.mostFee()
	require.NoError(t, err)
	require.Equal(t, "2000000000000000000", most.String())
}

func TestUnknownSettingsNameTheNearest(t *testing.T) {
	_, err := settingsOf(t, "nod = \"x\"\n", nil)
	require.ErrorContains(t, err, `unknown key "nod"; did you mean "node"?`)
	_, err = settingsOf(t, "", []string{"BORCLI_CHAINID=1"})
	require.ErrorContains(t, err, `BORCLI_CHAINID sets nothing; did you mean "BORCLI_CHAIN_ID"?`)
	_, err = settingsOf(t, "[node\n", nil)
	require.ErrorContains(t, err, "not valid TOML")
	_, err = settingsOf(t, "", nil, "--config=/none.toml")
	require.ErrorContains(t, err, "no such file")
	_, err = settingsOf(t, "", nil, "--wait=maybe")
	require.ErrorContains(t, err, "use none, included or final")
	_, err = settingsOf(t, "", nil, "--most-fee=1")
	require.ErrorContains(t, err, "--most-fee")
	_, err = settingsOf(t, "", nil, "--timeout=0s")
	require.ErrorContains(t, err, "positive")
}

// A value of the wrong kind is named with its variable and what to write instead, in one line.
func TestSettingsOfTheWrongType(t *testing.T) {
	for _, c := range []struct{ file, env, want string }{
		{"", "BORCLI_CHAIN_ID=abc", `--chain-id (BORCLI_CHAIN_ID) is "abc": use a whole number`}, {"", "BORCLI_TIMEOUT=5", `--timeout (BORCLI_TIMEOUT) is "5": use a time such as 2m`},
		{"", "BORCLI_JSON=maybe", `--json (BORCLI_JSON) is "maybe": use true or false`}, {"timeout = 5\n", "", `--timeout (BORCLI_TIMEOUT) is "5"`},
		{"chain_id = -1\n", "", `is "-1": use a whole number`}, {"node = [1, 2]\n", "", "settings: "},
	} {
		_, err := settingsOf(t, c.file, []string{c.env})
		require.ErrorContains(t, err, c.want)
		require.NotContains(t, err.Error(), "\n")
	}
}

func TestHomeIsFoundInPaths(t *testing.T) {
	home := t.TempDir()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	addSettingFlags(f, home)
	require.NoError(t, f.Parse([]string{"--key=~/k"}))
	s, err := loadSettings(f, nil, home)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(home, "k"), s.Key)
	require.Equal(t, filepath.Join(home, ".borwallet", "borwallet.sock"), s.Wallet)
}

// The file that `borcli config` prints is the defaults, once its lines are made to count.
func TestPrintedFileIsTheDefaults(t *testing.T) {
	text := run(t, "config").succeeds(t).out
	var active []string
	for _, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(l, "#") && !strings.HasPrefix(l, "# ") {
			active = append(active, l[1:])
		}
	}
	s := defaultSettings("~")
	require.Len(t, active, len(settingFields(&s)))
	got, err := settingsOf(t, strings.Join(active, "\n"), nil)
	require.NoError(t, err)
	got.Wallet = s.Wallet // the home folder was put in
	require.True(t, reflect.DeepEqual(s, *got), "%+v", got)
}

func TestAmounts(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0", "1wei": "1", "1.5ether": "1500000000000000000", "10gwei": "10000000000", "2 GWEI": "2000000000", "1_000 wei": "1000",
		"0.000000000000000001ether": "1", "1.50eth": "1500000000000000000", ".5gwei": "500000000",
	} {
		v, err := parseAmount(text)
		require.NoError(t, err, text)
		require.Equal(t, want, v.String(), text)
	}
	for text, want := range map[string]string{
		"1": "has no unit: write 1ether", "1.5": "has no unit", "": "is no amount", "ether": "is no amount", "-1ether": "is no amount", "1finney": "unknown unit",
		"1.5wei": "whole number of wei", "0.0000000000000000001ether": "whole number of wei", "1.2.3ether": "no amount",
		"9" + strings.Repeat("0", 90) + "ether": "256 bits", strings.Repeat("1", 200) + "wei": "too long", "1e18wei": "unknown unit",
	} {
		_, err := parseAmount(text)
		require.ErrorContains(t, err, want, text)
	}
	for wei, want := range map[int64]string{0: "0 ether", 5: "5 wei", 1_000_000: "0.000000000001 ether", 1_500_000_000_000_000_000: "1.5 ether"} {
		require.Equal(t, want, ether(big.NewInt(wei)))
	}
	require.Equal(t, "1.000000007 gwei", gwei(big.NewInt(1_000_000_007)))
}

func FuzzAmount(f *testing.F) {
	for _, s := range []string{"1.5ether", "0", "20gwei", "1_0 wei", "1.", ".ether", "1..2wei"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := parseAmount(s)
		if err != nil {
			return
		}
		again, err := parseAmount(v.String() + "wei")
		require.NoError(t, err)
		require.Zero(t, v.Cmp(again))
		again, err = parseAmount(scaled(v, 18) + "ether")
		require.NoError(t, err)
		require.Zero(t, v.Cmp(again))
	})
}

func TestAddresses(t *testing.T) {
	for _, ok := range []string{someone, strings.ToLower(someone), "0x" + strings.ToUpper(someone[2:])} {
		a, err := parseAddress(ok)
		require.NoError(t, err)
		require.Equal(t, someone, a.Hex())
	}
	a, err := parseAddress("Producers")
	require.NoError(t, err)
	require.Equal(t, "0x0000000000000000000000000000000000000B01", a.Hex())
	_, err = parseAddress("0x52908400098527886e0F7030069857D2E4169EE7")
	require.ErrorContains(t, err, "wrong checksum")
	for _, bad := range []string{"", "0x", someone[2:], someone + "0", "0xzz908400098527886E0F7030069857D2E4169EE7", "nobody"} {
		_, err := parseAddress(bad)
		require.ErrorContains(t, err, "is no address", bad)
	}
	_, err = parseHash("0x12")
	require.ErrorContains(t, err, "is no hash")
	_, err = parseBytes("0x123")
	require.ErrorContains(t, err, "not hexadecimal")
}
