package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
)

const (
	password = "correct horse battery"
	// asDaemon makes the test binary the program.
	asDaemon = "TEST_AS_BORWALLET"
	nobody   = 65534
)

func TestMain(m *testing.M) {
	if os.Getenv(asDaemon) != "" {
		_ = os.Unsetenv(asDaemon)
		main()
		return
	}
	os.Exit(m.Run())
}

// place is a folder for a daemon that runs as an ordinary user, also if the tests are root's.
type place struct {
	dir, program string
	user         *syscall.Credential // nil: the tests' own
}

func newPlace(t *testing.T) *place {
	t.Helper()
	base, err := os.MkdirTemp("", "bw")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(base)) })
	p := &place{dir: filepath.Join(base, "w"), program: filepath.Join(base, "borwallet")}
	require.NoError(t, os.Chmod(base, 0o755))
	require.NoError(t, os.Mkdir(p.dir, 0o700))
	self, err := os.Open("/proc/self/exe")
	require.NoError(t, err)
	defer self.Close()
	program, err := os.OpenFile(p.program, os.O_WRONLY|os.O_CREATE, 0o755)
	require.NoError(t, err)
	_, err = io.Copy(program, self)
	require.NoError(t, err)
	require.NoError(t, program.Close())
	if os.Geteuid() == 0 {
		p.user = &syscall.Credential{Uid: nobody, Gid: nobody}
		require.NoError(t, os.Chown(p.dir, nobody, nobody))
	}
	return p
}

func (p *place) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, p.program, args...)
	cmd.Env = []string{asDaemon + "=1", "HOME=" + p.dir, "BORWALLET_DIR=" + p.dir, "BORWALLET_SCRYPT=light", "BORWALLET_LOG_FORMAT=json"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.user, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// daemon is a running borwallet.
type daemon struct {
	cmd  *exec.Cmd
	log  *bytes.Buffer
	done chan struct{} // the log ended
	http string
	sock string
}

func (p *place) start(t *testing.T, args ...string) *daemon {
	t.Helper()
	return p.startWith(t, nil, args...)
}

// startWith gives the daemon a terminal.
func (p *place) startWith(t *testing.T, tty *os.File, args ...string) *daemon {
	t.Helper()
	d := &daemon{cmd: p.command(t, append([]string{"run"}, args...)...), log: &bytes.Buffer{}, done: make(chan struct{})}
	if tty != nil {
		d.cmd.Stdin, d.cmd.Stdout = tty, tty
	}
	stderr, err := d.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, d.cmd.Start())
	ready := make(chan struct{})
	go func() {
		defer close(d.done)
		sc := bufio.NewScanner(stderr)
		for sc.Scan() {
			d.log.WriteString(sc.Text() + "\n")
			var line struct{ Msg, Socket, HTTP string }
			if json.Unmarshal(sc.Bytes(), &line) == nil && line.Msg == "borwallet is ready" {
				d.http, d.sock = line.HTTP, line.Socket
				close(ready)
			}
		}
	}()
	select {
	case <-ready:
	case <-d.done:
		require.Fail(t, "borwallet did not start", d.log.String())
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill(); <-d.done; _ = d.cmd.Wait() })
	return d
}

func (d *daemon) stop(t *testing.T, sig syscall.Signal) error {
	t.Helper()
	require.NoError(t, d.cmd.Process.Signal(sig))
	<-d.done
	return d.cmd.Wait()
}

func (d *daemon) client(t *testing.T) *gethrpc.Client {
	t.Helper()
	cl, err := gethrpc.DialContext(t.Context(), d.sock)
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

func call(t *testing.T, cl *gethrpc.Client, out any, method string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, cl.CallContext(ctx, out, method, args...))
}

func TestDaemon(t *testing.T) {
	p := newPlace(t)
	d := p.start(t, "--http", "127.0.0.1:0")
	cl := d.client(t)
	for path, mode := range map[string]fs.FileMode{p.dir: fs.ModeDir | 0o700, d.sock: fs.ModeSocket | 0o600, filepath.Join(p.dir, "wallets"): fs.ModeDir | 0o700} {
		fi, err := os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, mode, fi.Mode(), path)
	}
	proc := fmt.Sprintf("/proc/%d", d.cmd.Process.Pid)
	limits, err := os.ReadFile(proc + "/limits")
	require.NoError(t, err)
	require.Regexp(t, `Max core file size +0 +0 `, string(limits))
	fi, err := os.Stat(proc + "/environ") // of an undumpable process these files are root's
	require.NoError(t, err)
	require.Equal(t, uint32(0), fi.Sys().(*syscall.Stat_t).Uid, "the process is dumpable")

	call(t, cl, nil, "wallet_create", "main", password)
	var a common.Address
	call(t, cl, &a, "wallet_newAccount", "main", password)
	call(t, cl, nil, "wallet_unlock", "main", password, 600)
	var sig hexutil.Bytes
	call(t, cl, &sig, "personal_sign", "0x00", a)
	require.Len(t, sig, 65)
	cmdline, err := os.ReadFile(proc + "/cmdline")
	require.NoError(t, err)
	require.NotContains(t, string(cmdline), password)

	out, err := p.command(t, "run").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "is in use by another borwallet: stop it first")

	require.NoError(t, d.stop(t, syscall.SIGTERM), "a clean stop")
	require.NoFileExists(t, d.sock)
	require.Contains(t, d.log.String(), "wallet locked")
	require.Contains(t, d.log.String(), "borwallet has stopped")
	require.NotContains(t, d.log.String(), password)

	// Killed, it leaves its socket and its lock, which hinder nobody.
	d = p.start(t)
	require.Error(t, d.stop(t, syscall.SIGKILL))
	require.FileExists(t, d.sock)
	d = p.start(t)
	var list []struct{ Locked bool }
	call(t, d.client(t), &list, "wallet_list")
	require.Len(t, list, 1)
	require.True(t, list[0].Locked)
}

func TestToken(t *testing.T) {
	p := newPlace(t)
	d := p.start(t, "--http", "127.0.0.1:0")
	var stderr bytes.Buffer
	cmd := p.command(t, "token", "--ttl", "1h")
	cmd.Stderr = &stderr
	token, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.Contains(t, stderr.String(), "the token expires at")
	ask := func(token string) error {
		cl, err := gethrpc.DialOptions(t.Context(), d.http, gethrpc.WithHTTPAuth(func(h http.Header) error {
			h.Set("Authorization", "Bearer "+strings.TrimSpace(token))
			return nil
		}))
		require.NoError(t, err)
		defer cl.Close()
		return cl.Call(new(string), "wallet_version")
	}
	require.NoError(t, ask(string(token)))
	require.ErrorContains(t, ask("x"), "401")

	file := filepath.Join(p.dir, "token")
	out, err := p.command(t, "token", "--out", file).CombinedOutput()
	require.NoError(t, err, string(out))
	fi, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o600), fi.Mode())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.NotContains(t, string(out), strings.TrimSpace(string(text)))
	require.NoError(t, ask(string(text)))

	out, err = p.command(t, "token", "--revoke").CombinedOutput()
	require.NoError(t, err, string(out))
	require.ErrorContains(t, ask(string(text)), "revoked")
	out, err = p.command(t, "token", "--ttl", "0s").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "choose such a time")
}

func TestWrongStarts(t *testing.T) {
	p := newPlace(t)
	for want, args := range map[string][]string{
		"confirm = ask needs a terminal": {"run", "--confirm", "ask"},
		"policy.toml":                    {"run", "--confirm", "policy"},
		"which other hosts can reach":    {"run", "--http", "0.0.0.0:1"},
		"unknown flag: --sockett; did you mean --socket? see borwallet run": {"run", "--sockett", "x"},
		`borwallet has no command "rnu"; did you mean "run"?`:               {"rnu"},
		`borwallet has no command "x"; known are config, help, run, token`:  {"x"},
		`borwallet run takes no argument, "now" is one`:                     {"run", "now"},
		`chain_ids (BORWALLET_CHAIN_IDS) is "[abc]": use whole numbers`:     {"run", "--chain_ids", "abc"},
		`ask_timeout (BORWALLET_ASK_TIMEOUT) is "5": use a time such as 2m`: {"run", "--ask_timeout", "5"},
		`connections (BORWALLET_CONNECTIONS) is "many": use a whole number`: {"run", "--connections", "many"},
		"run chmod 700 " + p.dir:               {"run"},
		"set socket to a shorter path":         {"run", "--dir", filepath.Join(p.dir, "x"), "--socket", "/" + strings.Repeat("y", 120)},
		filepath.Join(p.dir, "none") + ": no ": {"run", "--config", filepath.Join(p.dir, "none")},
	} {
		mode := fs.FileMode(0o700)
		if strings.Contains(want, "chmod") {
			mode = 0o755
		}
		require.NoError(t, os.Chmod(p.dir, mode))
		out, err := p.command(t, args...).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(out), want)
		require.Equal(t, 1, strings.Count(string(out), "borwallet: "), "one sentence: %s", out)
		require.Equal(t, 1, strings.Count(string(out), "\n"), "one line: %s", out)
	}
}

// After a lock the key is nowhere in the process's memory; before it, it is. Who may not look at all has seen enough.
func TestMemoryOfALockedWallet(t *testing.T) {
	p := newPlace(t)
	d := p.start(t)
	cl := d.client(t)
	call(t, cl, nil, "wallet_create", "main", password)
	var a common.Address
	call(t, cl, &a, "wallet_newAccount", "main", password)
	var file string
	call(t, cl, &file, "wallet_export", "main", password, a, "keystore")
	opened, err := keystore.DecryptKey([]byte(file), password)
	require.NoError(t, err)
	key := crypto.FromECDSA(opened.PrivateKey)
	require.Equal(t, 0, d.find(t, key))
	call(t, cl, nil, "wallet_unlock", "main", password, 600)
	for range 20 {
		call(t, cl, nil, "personal_sign", "0x00", a)
	}
	if os.Geteuid() == 0 {
		require.Positive(t, d.find(t, key), "the search finds nothing")
	}
	call(t, cl, nil, "wallet_lock", "main")
	require.Equal(t, 0, d.find(t, key))
}

// find counts a key in the memory of the daemon, in both orders of bytes. Only root may look; anyone else must be kept
// out.
func (d *daemon) find(t *testing.T, key []byte) (n int) {
	t.Helper()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", d.cmd.Process.Pid))
	if os.Geteuid() != 0 {
		require.ErrorIs(t, err, fs.ErrPermission)
		return 0
	}
	require.NoError(t, err)
	defer mem.Close()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", d.cmd.Process.Pid))
	require.NoError(t, err)
	reversed := slices.Clone(key)
	slices.Reverse(reversed)
	total := 0
	for line := range strings.Lines(string(maps)) {
		var from, to uint64
		var mode string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &mode); err != nil || mode[:2] != "rw" {
			continue
		}
		b := make([]byte, to-from)
		got, _ := mem.ReadAt(b, int64(from)) // pages that were never touched cannot be read
		total += got
		n += bytes.Count(b[:got], key) + bytes.Count(b[:got], reversed)
		for _, k := range [][]byte{key, reversed} {
			if i := bytes.Index(b[:got], k); i >= 0 {
				t.Logf("FOUND rev=%v at %x %s ctx %x", bytes.Equal(k, reversed), from+uint64(i), line, b[max(0, i-64):min(i+128, got)])
			}
		}
	}
	require.Greater(t, total, 1<<20, "the memory could not be read")
	return n
}
