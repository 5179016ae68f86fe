package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/testnet"
)

// patience bounds every wait; it only ends a test that has failed already.
const patience = 3 * time.Minute

// walkAlong is a network of one producer, a wallet daemon and the program, all as processes.
type walkAlong struct {
	t       *testing.T
	borcli  string
	environ []string
	net     *testnet.Network
}

func startWalk(t *testing.T) *walkAlong {
	dir, err := os.MkdirTemp("", "bcw") // short: it holds the wallet's socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	build := exec.Command("go", "build", "-o", dir+"/", "../bornode", "../borwallet", "../borcli")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	s := testnet.DefaultSpec()
	s.Dir, s.Binary, s.BasePort = filepath.Join(dir, "net"), filepath.Join(dir, "bornode"), 0
	s.Producers, s.Slot, s.Direct = 1, 200*time.Millisecond, true
	s.Set = []string{"rdma.mode=off", "rpc.log_count=2"}
	n, err := testnet.Up(t.Context(), s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Down(context.Background())) })

	w := exec.Command(filepath.Join(dir, "borwallet"), "run", "--dir", filepath.Join(dir, "w"), "--scrypt", "light")
	var log bytes.Buffer
	w.Stderr = &log
	require.NoError(t, w.Start())
	t.Cleanup(func() {
		require.NoError(t, w.Process.Signal(syscall.SIGTERM))
		require.NoError(t, w.Wait(), "%s", log.String())
		require.NotContains(t, log.String(), walletPassword)
	})
	a := &walkAlong{t: t, borcli: filepath.Join(dir, "borcli"), net: n}
	a.environ = []string{"HOME=" + dir, "BORCLI_NODE=" + n.Nodes[0].HTTP, "BORCLI_WALLET=" + filepath.Join(dir, "w", "borwallet.sock"),
		"BORCLI_CHAIN_ID=" + strconv.FormatUint(n.ChainID, 10), "BORCLI_TIMEOUT=" + patience.String()}
	require.Eventually(t, func() bool { return a.run("", "wallet", "list").code == exitOK }, patience, 50*time.Millisecond)
	return a
}

func (a *walkAlong) run(stdin string, args ...string) outcome {
	ctx, cancel := context.WithTimeout(a.t.Context(), patience)
	defer cancel()
	c := exec.CommandContext(ctx, a.borcli, args...)
	var out, errOut bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr, c.Env = strings.NewReader(stdin), &out, &errOut, a.environ
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(a.t, err)
	}
	return outcome{c.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// ok runs a command that succeeds; what it prints as JSON is returned.
func (a *walkAlong) ok(stdin string, args ...string) map[string]any {
	a.t.Helper()
	return a.run(stdin, append(args, "--json")...).succeeds(a.t).json(a.t)
}

// text runs a command that succeeds and returns what it prints for people.
func (a *walkAlong) text(args ...string) string {
	a.t.Helper()
	return a.run("", args...).succeeds(a.t).out
}

// The program against a real node and a real wallet: from an empty wallet to contracts, and every way to be refused.
func TestWalk(t *testing.T) {
	if testing.Short() {
		return // processes are started without -short only
	}
	a := startWalk(t)
	producer := filepath.Join(a.net.Nodes[0].Dir, "keys", "producer.json")
	pw := walletPassword + "\n"

	a.looksAround()
	a.does(pw, "wallet", "create", "main")
	mine := a.ok(pw, "wallet", "new", "main")["accounts"].([]any)[0].(string)
	a.does(pw, "wallet", "unlock", "main", "--for", "1h")
	a.run("", "send", someone, "1ether").fails(t, exitRefused, "insufficient funds", "send it ether", "nothing was sent")
	v := a.ok("", "send", mine, "5ether", "--key", producer, "--wait", "final")
	require.Equal(t, "final", v["status"])
	require.Equal(t, "5 ether\n", a.text("account", "balance"))
	require.Contains(t, a.text("block", "show", v["blockHash"].(string)), "final")
	require.Contains(t, a.text("tx", "show", v["hash"].(string)), "5 ether")
	a.ok("", "tx", "wait", v["hash"].(string), "--wait", "final")
	raw := strings.TrimSpace(a.text("tx", "raw", v["hash"].(string)))
	a.run("", "tx", "send-raw", raw).fails(t, exitRefused, "leave --nonce out")

	at := a.usesAContract()
	a.isRefused(mine, at)
	a.run("", "wallet", "lock", "main").succeeds(t)
	a.run("", "send", someone, "1wei").fails(t, exitWallet, "no wallet is unlocked")
	a.run("wrong password\n", "wallet", "unlock", "main").fails(t, exitWallet, "wrong password")
}

func (a *walkAlong) does(stdin string, args ...string) {
	a.t.Helper()
	a.run(stdin, args...).succeeds(a.t)
}

func (a *walkAlong) looksAround() {
	a.t.Helper()
	v := a.ok("", "status")
	require.Equal(a.t, strconv.FormatUint(a.net.ChainID, 10), v["chainId"])
	require.NotNil(a.t, v["finality"])
	require.Eventually(a.t, func() bool { return strings.Contains(a.text("status"), "in sync") }, patience, 100*time.Millisecond)
	require.Contains(a.t, a.text("finality"), "final")
	require.Contains(a.t, a.text("schedule", "--turns", "3"), a.net.Nodes[0].Account.Hex())
	require.Contains(a.t, a.text("sync"), "certified")
	require.Contains(a.t, a.text("peers"), "no peers")
	require.Contains(a.t, a.text("account", "show", a.net.Nodes[0].Account.Hex()), "producer of this epoch")
	require.Contains(a.t, a.text("block", "show", "0"), "final")
	require.Contains(a.t, a.text("contract", "call", "producers", "active"), a.net.Nodes[0].Account.Hex())
	a.run("", "block", "show", "999999999").fails(a.t, exitNotFound, "has no block")
	a.run("", "finality", "--node", "http://127.0.0.1:1").fails(a.t, exitUnreachable, "nothing listens there")
	a.run("", "contract", "call", someone, "f()(uint256)").fails(a.t, exitNotFound, "no contract at")
}

// usesAContract deploys and calls the sample contract, and returns its address.
func (a *walkAlong) usesAContract() string {
	t := a.t
	t.Helper()
	sample := "../../testnet/clients/Sample.json"
	a.run("", "contract", "deploy", sample).fails(t, exitUsage, "constructor(uint256 initial) takes 1 argument, 0 given")
	at := a.ok("", "contract", "deploy", sample, "7")["contractAddress"].(string)
	with := func(args ...string) []string { return append(args, "--abi", sample) }
	require.Contains(t, a.text(with("contract", "call", at, "value")...), "7")
	require.Contains(t, a.text("contract", "call", at, "value()(uint256)"), "7")
	require.Contains(t, a.text(with("contract", "call", at, "sum", `[1, "0x2", "3"]`)...), "6")
	sent := a.ok("", with("contract", "send", at, "store", "42", "hello world", "--wait", "final")...)
	require.Contains(t, a.text(with("contract", "call", at, "value", "--block", "finalized")...), "42")
	shown := a.text(with("tx", "show", sent["hash"].(string))...)
	require.Contains(t, shown, "store(42, hello world)")
	require.Contains(t, shown, "Stored")
	data := a.ok("", with("contract", "encode", "store", "42", "hello world")...)["data"].(string)
	require.Contains(t, a.text(with("contract", "decode", data)...), "hello world")

	var events []map[string]any
	require.NoError(t, json.Unmarshal([]byte(a.text(with("contract", "events", at, "Stored", "--json")...)), &events))
	require.Len(t, events, 1)
	require.Equal(t, "Stored(address,uint256,string)", events[0]["event"])
	for range 2 {
		a.text(with("contract", "send", at, "store", "43", "x")...)
	}
	a.run("", with("contract", "events", at)...).fails(t, exitRefused, "more than 2 results", "ask for fewer")

	a.run("", with("contract", "send", at, "store", "5000", "x")...).fails(t, exitReverted, "TooLarge(value 5000, limit 1000)", "nothing was sent")
	a.run("", with("contract", "send", at, "store", "13", "x")...).fails(t, exitReverted, "thirteen is refused")
	a.run("", with("contract", "send", at, "store", "5000", "x", "--gas", "200000")...).fails(t, exitReverted, "failed", "TooLarge(value 5000, limit 1000)")
	a.run("", with("contract", "call", at, "store", "1")...).fails(t, exitUsage, "store(uint256 v, string note) takes 2 arguments, 1 given")
	a.run("", with("contract", "call", at, "sum", "[-1]")...).fails(t, exitUsage, "does not fit uint256")
	a.run("", with("contract", "call", "producers", "value")...).fails(t, exitReverted)
	return at
}

// isRefused goes through the ways in which a node refuses.
func (a *walkAlong) isRefused(mine, at string) {
	t := a.t
	t.Helper()
	a.run("", "send", someone, "100ether").fails(t, exitRefused, "insufficient funds")
	next := strings.TrimSpace(a.text("account", "nonce", "--block", "pending"))
	n, err := strconv.ParseUint(next, 10, 64)
	require.NoError(t, err)
	gap := strconv.FormatUint(n+3, 10)
	a.run("", "send", someone, "1wei", "--nonce", gap).fails(t, exitRefused, "leaves a gap, the next one of")
	a.text("send", someone, "1wei", "--nonce", gap, "--wait", "none")
	a.run("", "send", someone, "2wei", "--nonce", gap, "--wait", "none").fails(t, exitRefused, "underpriced", "raise --tip")
	a.run("", "send", someone, "1wei", "--nonce", "0").fails(t, exitRefused, "nonce too low", "leave --nonce out")
	a.run("", "send", someone, "1wei", "--nonce", strconv.FormatUint(n+1_000_000, 10), "--wait", "none").fails(t, exitRefused, "nonce too high")
	a.run("", "send", someone, "1wei", "--chain-id", "1").fails(t, exitUsage, "--chain-id asks for 1")
	a.run("", "send", someone, "1wei", "--gas", "300", "--wait", "none").fails(t, exitRefused, "raise --gas")

	big := filepath.Join(t.TempDir(), "big.bin")
	require.NoError(t, os.WriteFile(big, []byte(hex.EncodeToString(make([]byte, 3<<20))), 0o600))
	a.run("", "contract", "deploy", big).fails(t, exitRefused, "HTTP 413")

	admin := filepath.Join(t.TempDir(), "admin.key")
	require.NoError(t, os.WriteFile(admin, []byte(a.net.Admin.Key), 0o600))
	a.ok("", "access", "senders", "on", "--key", admin, "--wait", "final")
	a.run("", "send", someone, "1wei").fails(t, exitRefused, "sender is not allowed", "borcli access senders allow")
	require.Contains(t, a.text("account", "show", mine), "not send transactions")
	a.ok("", "access", "senders", "allow", mine, "--key", admin, "--wait", "final")
	a.ok("", "send", someone, "1wei")
}
