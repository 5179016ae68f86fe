package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/bornode/bornode/pubsub/client"
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
		{-32000, "failed with 16777216 gas: insufficient funds for gas * price + value: address " + someone + " have 5000000000000000000000 want 1000000000000000000000000", exitRefused,
			[]string{"borcli: insufficient funds: " + someone + " has 5000 ether, amount and highest fee are 1000000 ether: send it ether, or lower"}},
		{-32000, "insufficient funds for gas * price + value: balance 1000000000000000000, tx cost 2000000000000000000, overshot 1000000000000000000", exitRefused,
			[]string{"borcli: insufficient funds: the account has 1 ether, amount and highest fee are 2 ether"}},
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
		require.Equal(t, 1, strings.Count(o.err, "\n"), "one sentence, and no hash of what was not sent: %s", o.err)
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
		{[]string{"send", someone, ".ether"}, "is no amount"}, {[]string{"send", someone, "_wei"}, "is no amount"},
		{[]string{"send", someone, "1.5", "ether"}, "takes 2 arguments, 3 are given; write 1.5ether without a blank"},
		{[]string{"help", "snd"}, `did you mean "send"?`}, {[]string{"help", "account", "shwo"}, `borcli account has no command "shwo"; did you mean "show"?`},
		{[]string{"send", "--nonsense"}, "unknown flag: --nonsense"}, {[]string{"send", someone, "1"}, "has no unit"}, {[]string{"send", "me", "1wei"}, "is no address"},
		{[]string{"block", "shwo"}, `borcli block has no command "shwo"; did you mean "show"?`}, {[]string{"block", "show", "x"}, "is no block"}, {[]string{"block", "show", "010"}, "is no block"}, {[]string{"tx", "show", "0x1"}, "is no hash"},
		{[]string{"contract", "call", someone, "f", "-5"}, "give the contract's ABI by --abi"}, {[]string{"completion", "cmd"}, "use bash, zsh or fish"},
		{[]string{"send", someone, "1wei", "--nonce", "-5"}, "--nonce"}, {[]string{"finality", "--wait", "x"}, "use none, included or final"},
		{[]string{"finality", "now"}, "borcli finality: it takes no argument, 1 is given; use it as: borcli finality"}, {[]string{"finality", "--jsn"}, "unknown flag: --jsn; did you mean --json? see borcli finality --help"},
		{[]string{"send", someone, "1wei", "--nonce", "-5"}, `--nonce cannot be "-5": it takes a whole number from 0 on`}, {[]string{"finality", "--yes=perhaps"}, `--yes cannot be "perhaps": it takes true or false; see borcli finality --help`},
	} {
		o := run(t, c.args...)
		o.fails(t, exitUsage, c.want)
		require.NotContains(t, o.err, negative)
	}
	require.Contains(t, run(t).succeeds(t).out, "Exit codes:")
	require.Contains(t, run(t, "help").succeeds(t).out, "Exit codes:")
	require.Contains(t, run(t, "help", "account", "show").succeeds(t).out, "borcli account show [ADDRESS]")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		require.Contains(t, run(t, "completion", shell).succeeds(t).out, "borcli")
	}
	require.Contains(t, run(t, "version").succeeds(t).out, "borcli")
}

// Who asks for JSON gets every error as JSON, that of a wrong command line too.
func TestWrongCommandLinesInJSON(t *testing.T) {
	inFile := filepath.Join(t.TempDir(), "settings.toml")
	require.NoError(t, os.WriteFile(inFile, []byte("json = true\n"), 0o600))
	for _, c := range []struct {
		environ []string
		args    []string
		json    bool
	}{
		{nil, []string{"sned", "--json"}, true}, {nil, []string{"--json", "sned"}, true}, {nil, []string{"--json=true", "send", someone}, true},
		{nil, []string{"send", "--json", "--nonsense"}, true}, {nil, []string{"send", "--nonsense", "--json"}, true},
		{nil, []string{"send", someone, "1wei", "--nonce", "-5", "--json"}, true}, {nil, []string{"finality", "--timeout", "x", "--json"}, true},
		{nil, []string{"block", "shwo", "--json"}, true}, {nil, []string{"block", "show", "1", "2", "--json"}, true}, {nil, []string{"help", "snd", "--json"}, true},
		{nil, []string{"finality", "--wait", "x", "--json"}, true}, {[]string{"BORCLI_JSON=true"}, []string{"sned"}, true},
		{[]string{"BORCLI_JSON=1"}, []string{"send", "--nonsense"}, true}, {nil, []string{"sned", "--config", inFile}, true},
		{[]string{"BORCLI_CONFIG=" + inFile}, []string{"send", "--nonsense"}, true},
		{[]string{"BORCLI_JSON=true"}, []string{"sned", "--json=false"}, false}, {nil, []string{"sned", "--", "--json"}, false}, {nil, []string{"sned"}, false},
	} {
		o := runWith(t, "", c.environ, c.args...)
		require.Equal(t, exitUsage, o.code, "%v: %s", c.args, o.err)
		require.Empty(t, o.out)
		var v struct {
			Error string
			Exit  int
		}
		if err := json.Unmarshal([]byte(o.err), &v); !c.json {
			require.Error(t, err, "%v: %s", c.args, o.err)
			continue
		} else {
			require.NoError(t, err, "%v: %s", c.args, o.err)
		}
		require.Equal(t, exitUsage, v.Exit)
		require.NotEmpty(t, v.Error)
		require.NotContains(t, o.err, "001f", "the mark of a negative number")
	}
}

// A number below 0 counts back from the newest block, wherever a block can be named.
func TestNegativeHeightsCountBack(t *testing.T) {
	f := newNode(t) // its newest block is 9
	f.says("eth_blockNumber", "0x9")
	var asked string
	f.on("eth_getBlockByNumber", func(p []json.RawMessage) (any, error) {
		asked = string(p[0])
		return nil, nil
	})
	for _, args := range [][]string{{"block", "-1"}, {"block", "show", "-1"}, {"block", "-1", "--json"}, {"--json", "block", "show", "-1"}, {"block", "--json", "-1"}} {
		asked = ""
		run(t, append(args, "--node", f.url)...).failsIn(t, exitNotFound, "the node has no block -1")
		require.Equal(t, `"0x8"`, asked, "%v", args)
	}
	run(t, "block", "-9", "--node", f.url).fails(t, exitNotFound, "no block -9")
	require.Equal(t, `"0x0"`, asked)
	run(t, "block", "-10", "--node", f.url).fails(t, exitNotFound, "the newest block is 9, there is none 10 before it")
	run(t, "block", "-1x", "--node", f.url).fails(t, exitUsage, `"-1x"`, "-1 (the one before the newest)")

	f.on("eth_getBalance", func(p []json.RawMessage) (any, error) { asked = string(p[1]); return "0x1", nil })
	run(t, "account", "balance", someone, "--block", "-2", "--node", f.url).succeeds(t)
	require.Equal(t, `"0x7"`, asked)
}

// A hash alone is the transaction to show.
func TestTransactionAloneIsShown(t *testing.T) {
	f := newNode(t)
	f.says("eth_getTransactionByHash", nil)
	hash := common.Hash{1}.Hex()
	run(t, "tx", hash, "--node", f.url).fails(t, exitNotFound, "knows no transaction "+hash)
	run(t, "tx", hash, "--abi", "/none", "--node", f.url).fails(t, exitNotFound, "knows no transaction")
	run(t, "tx", "0x12", "--node", f.url).fails(t, exitUsage, `"0x12" is no hash`)
	run(t, "tx", "shwo").fails(t, exitUsage, `borcli tx has no command "shwo"; did you mean "show"?`)
	run(t, "tx", hash, hash).fails(t, exitUsage, "one transaction")
}

// A height, a hash or a tag behind "block" is the block to show.
func TestBlockAloneIsShown(t *testing.T) {
	f := newNode(t)
	for _, which := range []string{"5", "latest", common.Hash{1}.Hex()} {
		f.says("eth_getBlockByNumber", nil)
		f.says("eth_getBlockByHash", nil)
		run(t, "block", which, "--node", f.url).fails(t, exitNotFound, "the node has no block "+which)
	}
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

// A partition without a leader is told apart from an empty one, and from a slow one.
func TestPartitionWithoutLeader(t *testing.T) {
	without := &client.NoLeaderError{Topic: "acme.orders", Partitions: []int32{1}, Cause: kerr.LeaderNotAvailable}
	var e *exitError
	require.ErrorAs(t, explainClient(without), &e)
	require.Equal(t, exitUnreachable, e.code)
	for _, words := range []string{"partition 1 of topic acme.orders has no leader", "borcli topic describe acme.orders", "started"} {
		require.Contains(t, e.msg, words)
	}

	start := time.Unix(1000, 0)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	for _, c := range []struct {
		name    string
		idle    time.Duration
		now     int
		without error
		ended   bool
		err     error
	}{
		{"an empty topic", 2 * time.Second, 2, nil, true, nil},
		{"a take-over may be under way", 2 * time.Second, 2, without, false, nil},
		{"it is none", 2 * time.Second, 60, without, true, without},
		{"without --idle it waits", 0, 60, nil, false, nil},
		{"but not for a leader that never comes", 0, 60, without, true, without},
	} {
		s := silence{idle: c.idle, most: time.Minute, since: start}
		ended, err := s.endsReading(at(c.now), c.without)
		require.Equal(t, c.ended, ended, c.name)
		require.Equal(t, c.err, err, c.name)
	}
}

// checkerOf answers with an error.
type checkerOf struct{ err error }

func (c checkerOf) CheckLeaders(context.Context, string) error { return c.err }

// A record that was not taken in time is told with the partition that has no leader; another error stays what it is.
func TestRecordsThatAreNotTaken(t *testing.T) {
	without := checkerOf{&client.NoLeaderError{Topic: "acme.orders", Partitions: []int32{1}, Cause: kerr.LeaderNotAvailable}}
	slow := fmt.Errorf("producing: %w", context.DeadlineExceeded)
	require.Equal(t, without.err, notTaken(t.Context(), without, "acme.orders", slow))
	require.Equal(t, without.err, notTaken(t.Context(), without, "acme.orders", kerr.NotLeaderForPartition))
	require.Equal(t, slow, notTaken(t.Context(), checkerOf{}, "acme.orders", slow))
	require.Equal(t, slow, notTaken(t.Context(), checkerOf{errors.New("nobody answers")}, "acme.orders", slow))
	require.Equal(t, client.ErrToken, notTaken(t.Context(), without, "acme.orders", client.ErrToken))
}
