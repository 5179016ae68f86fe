package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"
	gethlog "github.com/ethereum/go-ethereum/log"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/testnet"
	"github.com/bornode/bornode/testnet/load"
)

// asCrit makes the test binary a program in which go-ethereum gives up.
const asCrit = "crit"

// endByCrit is a program in which go-ethereum gives up.
func endByCrit(dir string) {
	c := config.Default()
	c.DataDir = dir
	log, end, err := newLogger(c, os.Stderr)
	if err != nil {
		panic(err)
	}
	end.words.Store(openLastWords(dir, log))
	cause := error(syscall.ENOSPC)
	if len(os.Args) > 2 {
		cause = errors.New(os.Args[2])
	}
	gethlog.Crit("Failed to write states", "err", cause)
}

// go-ethereum's log.Crit, which exits with code 1 and without a word, ends in our sentence, with our exit code, and the
// next start tells of it.
func TestCritEndsWithASentence(t *testing.T) {
	dir := t.TempDir()
	run := func(args ...string) (code int, said string) {
		cmd := exec.Command(os.Args[0], append([]string{dir}, args...)...)
		cmd.Env = append(os.Environ(), asCommand+"="+asCrit)
		out, err := cmd.CombinedOutput()
		require.ErrorAs(t, err, new(*exec.ExitError))
		return cmd.ProcessState.ExitCode(), string(out)
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "state"), 0o700))
	code, said := run("unexpected root")
	require.Equal(t, exit.Failure, code, said)
	require.Contains(t, said, "FATAL")
	require.Contains(t, said, "the state database is damaged ("+filepath.Join(dir, "state")+"): Failed to write states: unexpected root; start again: the node sets the state aside and rebuilds it")
	code, said = run()
	require.Equal(t, exit.Disk, code, said)
	require.Contains(t, said, "the disk of the state database failed")
	require.Contains(t, said, "no space left on device; free space on it")
	require.Contains(t, said, "the last run ended by a fault")
	require.Contains(t, said, "unexpected root", "what the run before said")
}

// program is a run of bornode whose output goes to a file.
type program struct {
	cmd  *exec.Cmd
	log  string
	done chan struct{} // closed when it has ended
}

func startProgram(t *testing.T, log string, args ...string) *program {
	t.Helper()
	out, err := os.Create(log)
	require.NoError(t, err)
	defer out.Close()
	p := &program{cmd: exec.Command(os.Args[0], args...), log: log, done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asCommand+"=1")
	p.cmd.Stdout, p.cmd.Stderr = out, out
	require.NoError(t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() { _ = p.cmd.Process.Kill(); <-p.done })
	return p
}

// end asks the program to end, if it still runs, and returns its exit code and what it said.
func (p *program) end(t *testing.T, s syscall.Signal) (code int, said string) {
	t.Helper()
	_ = p.cmd.Process.Signal(s) // it may be gone
	return p.await(t)
}

func (p *program) await(t *testing.T) (code int, said string) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(2 * time.Minute):
		b, _ := os.ReadFile(p.log)
		t.Fatalf("the program does not end: %s", b)
	}
	b, err := os.ReadFile(p.log)
	require.NoError(t, err)
	return p.cmd.ProcessState.ExitCode(), string(b)
}

// until reports whether check became true before the program ended.
func (p *program) until(t *testing.T, check func() bool) bool {
	t.Helper()
	tick, limit := time.NewTicker(20*time.Millisecond), time.After(2*time.Minute)
	defer tick.Stop()
	for !check() {
		select {
		case <-p.done:
			return false
		case <-tick.C:
		case <-limit:
			b, _ := os.ReadFile(p.log)
			t.Fatalf("nothing comes: %s", b)
		}
	}
	return true
}

// usedFolder is the folder of a producer that is alone in its network, has executed blocks with transactions and was
// stopped twice, so that its state has tables, a write-ahead log and a history.
func usedFolder(t *testing.T) (dir, url string, accounts []common.Address) {
	t.Helper()
	spec := testnet.DefaultSpec()
	spec.Dir, spec.Binary, spec.BasePort, spec.Direct, spec.Producers, spec.Brokers = t.TempDir(), os.Args[0], 0, true, 1, 0
	spec.Slot, spec.NodeEnv = 100*time.Millisecond, []string{asCommand + "=1"}
	t.Setenv(asCommand, "1") // for the network's commands
	n, err := testnet.Up(t.Context(), spec)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Down(context.Background())) })
	for range 2 {
		res, err := n.Load(t.Context(), testnet.LoadOptions{Kind: load.Transfer, Rate: 200, Duration: 2 * time.Second})
		require.NoError(t, err)
		require.NotZero(t, res.Final)
		require.NoError(t, n.Restart(t.Context(), 0))
	}
	require.NoError(t, n.Stop(t.Context(), 0))
	for _, a := range n.Accounts {
		accounts = append(accounts, a.Address)
	}
	return n.Nodes[0].Dir, n.Nodes[0].HTTP, accounts
}

// askAll reads the accounts at the newest block and returns its height; 0 if the node does not answer.
func askAll(ctx context.Context, url string, accounts []common.Address) (height uint64) {
	c, err := ethclient.DialContext(ctx, url)
	if err != nil {
		return 0
	}
	defer c.Close()
	for _, a := range accounts {
		if _, err := c.BalanceAt(ctx, a, nil); err != nil {
			return 0
		}
	}
	height, _ = c.BlockNumber(ctx)
	return height
}

// filesOf are the files below a folder that hold something, sorted.
func filesOf(t *testing.T, dir string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err != nil || info.Size() == 0 {
			return err
		}
		list = append(list, path)
		return nil
	}))
	slices.Sort(list)
	return list
}

// lastLine is the last line that is not empty.
func lastLine(said string) string {
	return said[strings.LastIndexByte(strings.TrimSpace(said), '\n')+1:]
}

// flips is how many single bits of a state folder are turned over; shortFlips in the short form.
const (
	flips      = 60
	shortFlips = 16
)

// Whatever bit of the state folder is wrong, the node serves right answers or ends with a sentence that names the folder
// and the remedy; it never ends by a crash or without a word. The remedy holds: started again the node sets the state aside
// and comes back with all its blocks.
func TestDamagedStateEndsWithASentence(t *testing.T) {
	origin, url, accounts := usedFolder(t)
	head := uint64(0)
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a seeded test
	ends := map[string]int{}
	remedied, mended := false, false
	count := flips
	if testing.Short() {
		count = shortFlips
	}
	for i := range count {
		dir := filepath.Join(t.TempDir(), "node")
		require.NoError(t, exec.Command("cp", "-a", origin, dir).Run()) // with the modes of the keys
		files := filesOf(t, filepath.Join(dir, "state"))
		file := files[(i*7)%len(files)] // 7: the short form meets every kind, too
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		bit := random.IntN(8 * len(raw))
		raw[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, os.WriteFile(file, raw, 0o600))
		name := fmt.Sprintf("bit %d of %s", bit, strings.TrimPrefix(file, dir+"/"))

		p := startProgram(t, filepath.Join(dir, "out"), "run", "--dir", dir)
		runs := p.until(t, func() bool { return askAll(t.Context(), url, accounts) > head })
		if head == 0 && runs {
			head = askAll(t.Context(), url, nil)
		}
		code, said := p.end(t, syscall.SIGTERM)
		last := lastLine(said)
		ends[fmt.Sprintf("%s: exit %d", kindOf(file), code)]++
		t.Logf("%s: exit %d: %s", name, code, last)
		require.NotContains(t, said, "goroutine ", "%s: a crash", name)
		mended = mended || strings.Contains(said, "set aside: the state on disk, which is damaged")
		switch code {
		case exit.OK:
			require.True(t, runs, "%s: %s", name, said)
			require.Contains(t, last, "bornode ends", name)
		case exit.Failure:
			require.Contains(t, last, "the state database is damaged ("+filepath.Join(dir, "state"), name)
			require.Contains(t, last, "start again: the node sets the state aside", name)
			if remedied {
				continue
			}
			remedied = true
			p := startProgram(t, filepath.Join(dir, "out"), "run", "--dir", dir)
			back := p.until(t, func() bool { return askAll(t.Context(), url, accounts) > head })
			code, said := p.end(t, syscall.SIGTERM)
			require.True(t, back, "the remedy does not hold: %s", said)
			require.Equal(t, exit.OK, code, said)
		default:
			require.Failf(t, "the node ends otherwise", "%s: exit %d: %s", name, code, said)
		}
	}
	require.True(t, remedied || mended, "no flip was met")
	t.Logf("%v", ends)
}

// kindOf is what a file of the state is.
func kindOf(path string) string {
	name := filepath.Base(path)
	switch {
	case strings.Contains(path, "/ancient/"):
		return "ancient/*" + filepath.Ext(name)
	case filepath.Ext(name) != "":
		return "kv/*" + filepath.Ext(name)
	}
	return "kv/" + strings.TrimRight(name, "0123456789")
}

// Signals, a closed output and a want of open files end with a line, too.
func TestEveryEndHasALine(t *testing.T) {
	dir, url, accounts := usedFolder(t)
	out := filepath.Join(t.TempDir(), "out")
	run := func() *program {
		p := startProgram(t, out, "run", "--dir", dir)
		require.True(t, p.until(t, func() bool { return askAll(t.Context(), url, accounts) > 0 }))
		return p
	}
	ends := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}
	if !signal.Ignored(syscall.SIGHUP) { // under nohup it ends nothing
		ends = append(ends, syscall.SIGHUP)
	}
	for _, s := range ends {
		code, said := run().end(t, s)
		require.Equal(t, exit.OK, code, "%s: %s", s, said)
		require.Contains(t, lastLine(said), "bornode ends", s.String())
		require.NoFileExists(t, filepath.Join(dir, crashFile))
	}
	t.Run("quiet", func(t *testing.T) {
		p := startProgram(t, out, "run", "--dir", dir, "--log.level", "error")
		require.True(t, p.until(t, func() bool { return askAll(t.Context(), url, accounts) > 0 }))
		code, said := p.end(t, syscall.SIGTERM)
		require.Equal(t, exit.OK, code, said)
		require.Equal(t, "bornode: ended in order\n", said)
	})
	t.Run("kill -9", func(t *testing.T) {
		code, _ := run().end(t, syscall.SIGKILL)
		require.Equal(t, -1, code)
		_, said := run().end(t, syscall.SIGTERM)
		require.Contains(t, said, "the last run was ended from outside")
	})
	t.Run("crash", func(t *testing.T) {
		code, said := run().end(t, syscall.SIGQUIT) // the runtime prints all goroutines
		require.Equal(t, exit.Panic, code, said)
		require.Contains(t, said, "SIGQUIT")
		require.NoError(t, os.WriteFile(filepath.Join(dir, crashFile), []byte("panic: an invariant is broken\n\ngoroutine 7"), 0o600))
		_, said = run().end(t, syscall.SIGTERM)
		require.Contains(t, said, "the last run ended by a fault")
		require.Contains(t, said, "panic: an invariant is broken")
		require.FileExists(t, filepath.Join(dir, previousCrashFile))
	})
	t.Run("few open files", func(t *testing.T) {
		cmd := exec.Command("sh", "-c", `ulimit -n 24; exec "$@"`, "sh", os.Args[0], "run", "--dir", dir)
		cmd.Env = append(os.Environ(), asCommand+"=1")
		said, err := cmd.CombinedOutput()
		require.Error(t, err)
		require.Contains(t, lastLine(string(said)), "too many open files")
		require.Equal(t, exit.Resources, cmd.ProcessState.ExitCode(), string(said))
	})
	t.Run("nobody reads", func(t *testing.T) {
		var errOut bytes.Buffer
		r, w, err := os.Pipe()
		require.NoError(t, err)
		require.NoError(t, r.Close())
		cmd := exec.Command(os.Args[0], "config")
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asCommand+"=1"), w, &errOut
		err = cmd.Run()
		require.NoError(t, w.Close())
		require.ErrorAs(t, err, new(*exec.ExitError))
		require.Equal(t, exit.Failure, cmd.ProcessState.ExitCode())
		require.Contains(t, errOut.String(), "broken pipe")
	})
	t.Run("the log's reader goes away", func(t *testing.T) { // the node goes on
		r, w, err := os.Pipe()
		require.NoError(t, err)
		cmd := exec.Command(os.Args[0], "run", "--dir", dir)
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), asCommand+"=1"), w, w
		require.NoError(t, cmd.Start())
		require.NoError(t, errors.Join(w.Close(), r.Close()))
		p := &program{cmd: cmd, log: os.DevNull, done: make(chan struct{})}
		go func() { _ = cmd.Wait(); close(p.done) }()
		require.True(t, p.until(t, func() bool { return askAll(t.Context(), url, accounts) > 0 }))
		code, _ := p.end(t, syscall.SIGTERM)
		require.Equal(t, exit.OK, code)
	})
}

// The codes that the document lists are those of the program.
func TestExitCodesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	for _, code := range []int{exit.OK, exit.Failure, exit.Panic, exit.Damage, exit.Disk, exit.Resources} {
		require.Contains(t, string(text), fmt.Sprintf("\n| %d | ", code))
	}
	require.Contains(t, string(text), crashFile)
}
