package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// openTerminal makes a pseudo terminal: keyboard and screen, and the program's side.
func openTerminal(t *testing.T) (screen, tty *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = screen.Close() })
	require.NoError(t, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	require.NoError(t, err)
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tty.Close() })
	return screen, tty
}

// On a terminal passwords are asked for, a new one twice, and are not shown.
func TestPasswordsAreNotShown(t *testing.T) {
	screen, tty := openTerminal(t)
	path := filepath.Join(t.TempDir(), "k.json")
	done := make(chan outcome, 1)
	go func() {
		var out, errOut bytes.Buffer
		code := execute(t.Context(), []string{"account", "create", "--key", path}, surroundings{in: tty, out: &out, errOut: tty, home: t.TempDir(), inTTY: true, errTTY: true})
		done <- outcome{code, out.String(), errOut.String()}
	}()
	r := bufio.NewReader(screen)
	var shown strings.Builder
	until := func(end string) {
		for !strings.HasSuffix(shown.String(), end) {
			b, err := r.ReadByte()
			require.NoError(t, err)
			shown.WriteByte(b)
		}
	}
	// What is typed before the echo is off would show: the prompt comes before it, so wait for that too.
	quiet := func() {
		require.Eventually(t, func() bool {
			s, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
			return err == nil && s.Lflag&unix.ECHO == 0
		}, patience, 1e6)
	}
	until("password for " + path + ": ")
	quiet()
	_, err := screen.WriteString("open sesame\n")
	require.NoError(t, err)
	until("the same again: ")
	quiet()
	_, err = screen.WriteString("open sesame\n")
	require.NoError(t, err)
	o := <-done
	require.Equal(t, exitOK, o.code, "%s%s", o.out, shown.String())
	require.NotContains(t, shown.String(), "sesame")
	require.FileExists(t, path)
}

// An interrupt at a prompt gives the terminal its echo back.
func TestInterruptedPromptsLeaveTheTerminalAsItWas(t *testing.T) {
	screen, tty := openTerminal(t)
	before, err := term.GetState(int(tty.Fd()))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- execute(ctx, []string{"account", "create", "--key", filepath.Join(t.TempDir(), "k")},
			surroundings{in: tty, out: tty, errOut: tty, home: "", inTTY: true, errTTY: true})
	}()
	r := bufio.NewReader(screen)
	_, err = r.ReadString(':')
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s, err := unix.IoctlGetTermios(int(tty.Fd()), unix.TCGETS)
		return err == nil && s.Lflag&unix.ECHO == 0
	}, patience, 1e6)
	cancel()
	require.Equal(t, exitOther, <-done)
	after, err := term.GetState(int(tty.Fd()))
	require.NoError(t, err)
	require.Equal(t, before, after)
	_, err = screen.WriteString("\n") // ends the reader that still waits
	require.NoError(t, err)
}

// onTerminal runs a command line as if standard input and error were a terminal.
func onTerminal(t *testing.T, typed string, args ...string) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	code := execute(t.Context(), args, surroundings{in: strings.NewReader(typed), out: &out, errOut: &errOut, home: t.TempDir(), inTTY: true, errTTY: true})
	return outcome{code, out.String(), errOut.String()}
}

func TestPeopleAreAskedBeforeMoneyMoves(t *testing.T) {
	f := newNode(t)
	args := []string{"send", someone, "1.5ether", "--node", f.url, "--key", keyFileOf(t)}
	for _, no := range []string{"n\n", "\n", "", "yesno\n"} {
		o := onTerminal(t, no, args...)
		require.Equal(t, exitOther, o.code)
		require.Contains(t, o.err, "send 1.5 ether to "+someone+". It costs at most 0 ether. Go on? [y/N]")
		require.Contains(t, o.err, "nothing was done")
	}
	require.Zero(t, f.called("eth_sendRawTransaction"))
	onTerminal(t, "y\n", args...).succeeds(t)
	onTerminal(t, "", append(args, "--yes")...).succeeds(t)
}

// onPTY runs a command line on a terminal where something was typed ahead. until reads the screen up to a text.
func onPTY(t *testing.T, ahead string, environ []string, args ...string) (screen *os.File, until func(end string), done chan int) {
	t.Helper()
	screen, tty := openTerminal(t)
	r := bufio.NewReader(screen)
	until = func(end string) {
		shown := ""
		for !strings.HasSuffix(shown, end) {
			b, err := r.ReadByte()
			require.NoError(t, err, shown)
			shown += string(b)
		}
	}
	_, err := screen.WriteString(ahead)
	require.NoError(t, err)
	until(strings.ReplaceAll(ahead, "\n", "\r\n")) // its echo: the terminal has it
	done = make(chan int, 1)
	home := t.TempDir()
	go func() {
		done <- execute(t.Context(), args, surroundings{in: tty, out: tty, errOut: tty, environ: environ, home: home, inTTY: true, errTTY: true})
	}()
	return screen, until, done
}

// The lines that follow in a pasted block are no answers.
func TestWhatWasTypedBeforeTheQuestionIsNoAnswer(t *testing.T) {
	f := newNode(t)
	args := []string{"send", someone, "1.5ether", "--node", f.url, "--key", keyFileOf(t)}
	for _, ahead := range []string{"y\n", "n\nborcli account show\n", "y"} {
		screen, until, done := onPTY(t, ahead, nil, args...)
		until("Go on? [y/N] ")
		_, err := screen.WriteString("y\n")
		require.NoError(t, err)
		require.Equal(t, exitOK, <-done, "%q", ahead)
	}
	screen, until, done := onPTY(t, "y\n", nil, args...)
	until("Go on? [y/N] ")
	_, err := screen.WriteString("\n")
	require.NoError(t, err)
	until("answer y to go on, or say --yes (BORCLI_YES=true) not to be asked")
	require.Equal(t, exitOther, <-done)
	require.Equal(t, 3, f.called("eth_sendRawTransaction"))
}

// With the settings of the first block of a guide nothing asks: its other blocks can be pasted.
func TestGuidesCanBePasted(t *testing.T) {
	f := newNode(t)
	for _, guide := range []string{"quickstart.md", "governance.md"} {
		text, err := os.ReadFile(filepath.Join("../../docs", guide))
		require.NoError(t, err)
		_, rest, _ := strings.Cut(string(text), "```sh\n")
		block, _, _ := strings.Cut(rest, "```")
		var environ []string
		for _, line := range strings.Split(block, "\n") {
			words, ok := strings.CutPrefix(line, "export ")
			for _, w := range strings.Fields(words) {
				if ok && strings.HasPrefix(w, envPrefix) && !strings.HasPrefix(w, envPrefix+"NODE=") {
					environ = append(environ, w)
				}
			}
		}
		_, until, done := onPTY(t, "", environ, "send", someone, "5000ether", "--node", f.url, "--key", keyFileOf(t))
		until("gas used")
		require.Equal(t, exitOK, <-done, guide)
	}
}

// The line of progress is for terminals alone, and is gone at the end.
func TestProgressLine(t *testing.T) {
	f := newNode(t)
	tx := capture(f)
	looks := 0
	f.on("eth_getTransactionReceipt", func([]json.RawMessage) (any, error) {
		if looks++; looks < 2 {
			return nil, nil
		}
		return receipt(tx.Hash(), 10, 1), nil
	})
	f.on("eth_getBlockByNumber", func([]json.RawMessage) (any, error) {
		n := 9
		if looks > 2 {
			n = 10
		}
		return map[string]any{"number": hexutil.Uint64(n), "baseFeePerGas": "0x0"}, nil
	})
	args := []string{"send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t), "--wait", "final"}
	o := onTerminal(t, "", append(args, "--yes")...).succeeds(t)
	require.Contains(t, o.err, "waits for a block")
	require.Contains(t, o.err, "in block 10, waits to become final")
	require.True(t, strings.HasSuffix(o.err, " \r"), "%q", o.err)
	looks = 0
	require.NotContains(t, run(t, args...).succeeds(t).err, "waits")
}

func TestKeysAreClearedAfterUse(t *testing.T) {
	a := &app{}
	k, err := a.openKey(t.Context(), keyFileOf(t))
	require.NoError(t, err)
	require.Equal(t, testAddress(), k.addr)
	var lent *ecdsa.PrivateKey
	require.NoError(t, k.use(t.Context(), func(key *ecdsa.PrivateKey) error {
		lent = key
		//lint:ignore SA1019 looked at for its words
		require.NotZero(t, lent.D.Sign())
		return nil
	}))
	//lint:ignore SA1019 looked at for its words
	for _, word := range lent.D.Bits() {
		require.Zero(t, word)
	}
	require.ErrorContains(t, k.use(t.Context(), nil), "used already")

	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	require.NoError(t, err)
	require.Zero(t, dumpable)
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_CORE, &limit))
	require.Zero(t, limit.Cur)
}

func TestShellCompletion(t *testing.T) {
	require.Contains(t, run(t, "__complete", "account", "").succeeds(t).out, "balance\t")
	require.Contains(t, run(t, "__complete", "send", "--wait", "").succeeds(t).out, "final\n")
	require.Contains(t, run(t, "__complete", "completion", "").succeeds(t).out, "fish\n")
}

func TestAccountShow(t *testing.T) {
	v := &accountView{Address: common.HexToAddress(someone), Balance: "5", Nonce: 3, Waiting: 1, Stake: "1000000000000000000", Leaving: "7", ReadyAt: 60,
		Votes: []ballotView{{common.HexToAddress(someone), "9"}}, Candidate: true, MaySend: true, Nodes: []nodeView{{"peer", []string{"producer"}}}}
	var b strings.Builder
	v.table(&b)
	for _, part := range []string{"5 wei", "1 transaction", "1 ether", "7 wei, from 1970-01-01 00:01:00 UTC", "with 9 wei", "candidate", "peer (producer)", "not deploy contracts"} {
		require.Contains(t, b.String(), part)
	}
	require.Equal(t, "", inEther("0"))
	require.Equal(t, "1 ether", inEther(new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil).String()))
}
