package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

// Every refusal of a node is one sentence with what to do, and an exit code.
func TestNodeRefusals(t *testing.T) {
	key := keyFileOf(t)
	for _, c := range []struct {
		code int
		msg  string
		exit int
		want []string
	}{
		{-32000, "insufficient funds for gas * price + value: balance 0, tx cost 5", exitRefused, []string{"send it ether"}},
		{-32000, "nonce too low: next nonce 7, tx nonce 5", exitRefused, []string{"leave --nonce out"}},
		{-32000, "nonce too high: nonce 5000 is 4990 ahead of the next nonce 10", exitRefused, []string{"earlier nonces are missing"}},
		{-32000, "transaction underpriced: tip needed 1, tip permitted 0", exitRefused, []string{"raise --tip and --max-fee"}},
		{-32000, "replacement transaction underpriced", exitRefused, []string{"raise --tip and --max-fee by a tenth"}},
		{-32000, "max fee per gas less than block base fee: maxFeePerGas 1, the chain's lowest base fee is 7", exitRefused, []string{"raise --max-fee above the base fee"}},
		{-32000, "sender is not allowed: account 0x1 is not on the list of accounts that may send transactions", exitRefused, []string{"by vote: borcli access senders allow"}},
		{-32000, "sender is not allowed: account 0x1 is not on the list of accounts that may deploy contracts", exitRefused, []string{"by vote: borcli access deployers allow"}},
		{-32000, "already known", exitRefused, []string{"waits there already"}},
		{-32000, "exceeds block gas limit", exitRefused, []string{"lower --gas"}},
		{-32000, "something new", exitRefused, []string{"something new"}},
		{-32005, "txpool is full: 5 of 5 slots are used; send it again after the next block", exitRefused, []string{"a limit of the node", "send it again"}},
		{-32602, "invalid argument 0: hex string without 0x prefix", exitRefused, []string{"did not accept a parameter"}},
		{-32601, "the method eth_sendRawTransaction does not exist/is not available", exitRefused, []string{"does not offer this", "rpc.namespaces"}},
		{-32003, "response too large", exitRefused, []string{"larger than the node gives"}},
	} {
		f := newNode(t)
		f.says("eth_sendRawTransaction", &rpcError{c.code, c.msg, nil})
		o := run(t, "send", someone, "1wei", "--node", f.url, "--key", key)
		o.fails(t, c.exit, c.want...)
		require.Empty(t, o.out, "nothing was accepted")
		require.NotContains(t, o.err, "may have arrived")
		require.Equal(t, 2, strings.Count(o.err, "\n"), "the hash and one sentence: %s", o.err)
	}
}

func TestRefusedBeforeSending(t *testing.T) {
	f := newNode(t)
	key := keyFileOf(t)
	run(t, "send", someone, "1wei", "--node", f.url, "--key", key, "--nonce", "9").
		fails(t, exitRefused, "nonce 9 leaves a gap, the next one of "+testAddress().Hex()+" is 5", "leave --nonce out")
	f.says("eth_estimateGas", &rpcError{-32000, "insufficient funds for transfer", nil})
	run(t, "send", someone, "1wei", "--node", f.url, "--key", key).fails(t, exitRefused, "send it ether", "nothing was sent")
	f.says("eth_estimateGas", &rpcError{3, "execution reverted: closed", "0x"})
	run(t, "send", someone, "1wei", "--node", f.url, "--key", key).fails(t, exitReverted, "closed", "nothing was sent")
	require.Zero(t, f.called("eth_sendRawTransaction"))
}

func TestTooManyResults(t *testing.T) {
	f := newNode(t)
	f.says("eth_getLogs", &rpcError{-32005, "query returned more than 10000 results or 32 MiB, the last in block 77; ask for fewer blocks, addresses or topics", nil})
	run(t, "contract", "events", someone, "--from-block", "0", "--node", f.url).fails(t, exitRefused, "more than 10000 results", "ask for fewer blocks")
}

func TestHTTPStatuses(t *testing.T) {
	for status, want := range map[int]struct {
		exit int
		text string
	}{
		http.StatusRequestEntityTooLarge: {exitRefused, "HTTP 413"}, http.StatusForbidden: {exitRefused, "rpc.vhosts"},
		http.StatusServiceUnavailable: {exitRefused, "too many connections"}, http.StatusNotFound: {exitUnreachable, "no JSON-RPC server"},
		http.StatusUnauthorized: {exitRefused, "token"}, http.StatusTeapot: {exitRefused, "HTTP 418"},
	} {
		f := newServer(t)
		f.status = status
		run(t, "finality", "--node", f.url).fails(t, want.exit, want.text)
	}
}

func TestUnreachableNodes(t *testing.T) {
	f := newServer(t)
	gone := newServer(t)
	gone.on("bor_finality", nil)
	for node, want := range map[string]string{
		"http://127.0.0.1:1": "nothing listens there; start it, or name another one by --node", "ws://127.0.0.1:1": "cannot be reached",
		filepath.Join(t.TempDir(), "no.ipc"): "there is no such socket", "http://user:geheim@127.0.0.1:1": "http://user:xxxxx@127.0.0.1:1",
	} {
		o := run(t, "finality", "--node", node)
		o.fails(t, exitUnreachable, want)
		require.NotContains(t, o.err, "geheim")
	}
	run(t, "finality", "--node", "ftp://x/").fails(t, exitUsage, "unknown scheme")
	run(t, "finality", "--node", "localhost").fails(t, exitUsage, "neither an address")
	f.handlers["bor_finality"] = nil
	run(t, "finality", "--node", "http://127.0.0.1:1", "--json")
	o := run(t, "finality", "--node", "http://127.0.0.1:1", "--json")
	require.Equal(t, exitUnreachable, o.code)
	require.Contains(t, o.err, `"exit": 3`)
}

func TestWrongCommandLines(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"sned"}, `did you mean "send"?`}, {[]string{"account", "shwo"}, `did you mean "show"?`}, {[]string{"send", someone}, "use it as: borcli send TO AMOUNT"},
		{[]string{"send", "--nonsense"}, "unknown flag: --nonsense"}, {[]string{"send", someone, "1"}, "has no unit"}, {[]string{"send", "me", "1wei"}, "is no address"},
		{[]string{"block", "show", "x"}, "is no block"}, {[]string{"block", "show", "010"}, "is no block"}, {[]string{"tx", "show", "0x1"}, "is no hash"},
		{[]string{"contract", "call", someone, "f", "-5"}, "give the contract's ABI by --abi"}, {[]string{"completion", "cmd"}, "use bash, zsh or fish"},
		{[]string{"send", someone, "1wei", "--nonce", "-5"}, "--nonce"}, {[]string{"finality", "--wait", "x"}, "use none, included or final"},
	} {
		o := run(t, c.args...)
		o.fails(t, exitUsage, c.want)
		require.NotContains(t, o.err, negative)
	}
	require.Contains(t, run(t).succeeds(t).out, "Exit codes:")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		require.Contains(t, run(t, "completion", shell).succeeds(t).out, "borcli")
	}
	require.Contains(t, run(t, "version").succeeds(t).out, "borcli")
}

// Texts of nodes are foreign: they must not steer the terminal.
func TestForeignTextsAreCleaned(t *testing.T) {
	f := newNode(t)
	f.says("bor_finality", &rpcError{-32000, "bad\x1b[31m\n\u202etxt", nil})
	o := run(t, "finality", "--node", f.url)
	o.fails(t, exitRefused, "bad?[31m??txt")
}

func TestKeyFiles(t *testing.T) {
	f := newNode(t)
	dir := t.TempDir()
	file := func(text string, mode os.FileMode) string {
		path := filepath.Join(dir, "k")
		_ = os.Remove(path)
		require.NoError(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	send := func(stdin, key string, args ...string) outcome {
		return runWith(t, stdin, nil, append([]string{"send", someone, "1wei", "--node", f.url, "--key", key}, args...)...)
	}
	send("", file(testKey, 0o644)).fails(t, exitWallet, "mode 0644", "chmod 600")
	send("", file("nonsense", 0o600)).fails(t, exitWallet, "holds no key")
	send("", file("{}", 0o600)).fails(t, exitWallet, "holds no key")
	send("", file("{", 0o600)).fails(t, exitWallet, "not valid JSON")
	send("", file(strings.Repeat("0", 64), 0o600)).fails(t, exitWallet, "no valid secp256k1 key")
	send("", dir+"/none").fails(t, exitWallet, "key file")
	send("", file("0x"+testKey, 0o600)).succeeds(t)
	send("", file(`{"account":"`+testAddress().Hex()+`","seal_key":"0x`+testKey+`","vote_key":"0x00"}`, 0o600)).succeeds(t)
	send("", file(testKey, 0o600), "--from", someone).fails(t, exitUsage, "is the key of "+testAddress().Hex())
	for _, o := range []outcome{send("", file("0x"+testKey[:60]+"zzzz", 0o600)), send("", file(`{"seal_key":"0x`+testKey[:60]+`"}`, 0o600))} {
		require.Equal(t, exitWallet, o.code)
		require.NotContains(t, o.out+o.err, testKey[:16], "a key is never shown")
	}

	path := filepath.Join(dir, "new.json")
	v := runWith(t, "secret\n", nil, "account", "create", "--key", path, "--json").succeeds(t).json(t)
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.EqualValues(t, 0o600, st.Mode().Perm())
	runWith(t, "secret\n", nil, "account", "create", "--key", path).fails(t, exitUsage, "exists already")
	require.Contains(t, strings.ToLower(run(t, "account", "list", "--key", path).succeeds(t).out), v["address"])
	require.Equal(t, v["address"], send("secret\n", path, "--json").succeeds(t).json(t)["from"])
	path = lightKeystore(t) // is quick to try passwords on
	send("wrong\n", path).fails(t, exitWallet, "the password is not that of key file")
	send("", path).fails(t, exitWallet, "--password-file")
	pw := filepath.Join(dir, "pw")
	require.NoError(t, os.WriteFile(pw, []byte("secret\n"), 0o640))
	send("", path, "--password-file", pw).fails(t, exitWallet, "mode 0640")
	require.NoError(t, os.Chmod(pw, 0o600))
	send("", path, "--password-file", pw).succeeds(t)
	runWith(t, "\n", nil, "account", "create", "--key", path+"2").fails(t, exitWallet, "is empty")
}

func lightKeystore(t *testing.T) string {
	t.Helper()
	key, err := crypto.HexToECDSA(testKey)
	require.NoError(t, err)
	text, err := keystore.EncryptKey(&keystore.Key{Address: testAddress(), PrivateKey: key}, "secret", keystore.LightScryptN, keystore.LightScryptP)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "light.json")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}
