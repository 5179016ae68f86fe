package testnet

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/testnet/load"
)

// failpoints are the names in the sources: every moment before and after a durable write.
func failpoints(t *testing.T) []string {
	t.Helper()
	hit := regexp.MustCompile(`failpoint\.Hit\("([^"]+)"\)`)
	var names []string
	for _, dir := range []string{"blockstore", "chain", "consensus"} {
		files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
		require.NoError(t, err)
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range hit.FindAllSubmatch(text, -1) {
				if name := string(m[1]); name != "chain/replay-block" { // only a start behind a kill passes it
					names = append(names, name)
				}
			}
		}
	}
	require.NotEmpty(t, names, "the sources are not beside this package")
	slices.Sort(names)
	return slices.Compact(names)
}

// bornode runs a command of the program and returns what it printed.
func bornode(t *testing.T, env []string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), env...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func killed(err error) bool {
	exit, ok := err.(*exec.ExitError) //nolint:errorlint // exec returns it unwrapped
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// exported makes a network with some history, exports node 0's blocks and returns the file and the network, which is
// down.
func exported(t *testing.T) (*Network, string) {
	t.Helper()
	n := upNetwork(t, func(s *Spec) { s.Slot, s.Turn, s.EpochBlocks = 50*time.Millisecond, 4, 40 })
	r, err := n.Load(t.Context(), LoadOptions{Kind: load.Contract, Rate: 100, Duration: 8 * time.Second, Follow: -1, Drain: patience})
	require.NoError(t, err)
	require.Zero(t, r.Missing)
	blocks := uint64(100)
	if long() {
		blocks = 800 // so that an import flushes the state to disk twice
	}
	finalAbove(t, n, blocks, 0)
	return n, export(t, n)
}

// emptyNode makes a folder that knows the network's genesis and nothing else.
func emptyNode(t *testing.T, n *Network) string {
	t.Helper()
	dir := t.TempDir()
	out, err := bornode(t, nil, "init", "--dir", dir, "--genesis", n.genesisFile())
	require.NoError(t, err, out)
	return dir
}

// kill -9 at every failpoint that an import passes, twice each: every restart goes on to the same state, and fsck
// finds nothing.
func TestImportKilledAtFailpoints(t *testing.T) {
	n, file := exported(t)
	names := failpoints(t)
	rounds, least := 1, 20
	switch {
	case os.Getenv("BORNODE_STORMS") != "":
		rounds = 2
	case !long():
		names = slices.DeleteFunc(names, func(s string) bool { return !strings.Contains(s, "after") })
		least = 8
	}
	hits := make(map[string]int)
	var elsewhere []string
	for _, name := range names {
		for nth := rounds; nth >= 1 && hits[name] < rounds; nth-- {
			if !importDies(t, n, file, name, nth) {
				continue
			}
			if hits[name]++; nth == 1 && hits[name] < rounds { // passed once in an import: again the same
				require.True(t, importDies(t, n, file, name, nth), name)
				hits[name]++
			}
		}
		if hits[name] == 0 {
			elsewhere = append(elsewhere, name)
		}
	}
	t.Logf("killed %d times at each of %d failpoints; on other paths: %v", rounds, len(hits), elsewhere)
	require.Greater(t, len(hits), least, "failpoints reached: %v", hits)
}

// importDies imports a file with an armed failpoint. If that killed it, a second import must complete it to the same
// chain, and fsck find nothing.
func importDies(t *testing.T, n *Network, file, name string, nth int) bool {
	t.Helper()
	dir := emptyNode(t, n) // a fresh one, so that first-time writes are met too
	env := []string{"BORNODE_CHAIN_FLUSH_BLOCKS=128", fmt.Sprintf("BORNODE_FAILPOINT=%s:%d", name, nth)}
	out, err := bornode(t, env, "import", "--dir", dir, "--in", file)
	if err == nil { // not on this path
		return false
	}
	require.True(t, killed(err), "%s: %v\n%s", name, err, out)
	out, err = bornode(t, nil, "import", "--dir", dir, "--in", file)
	require.NoError(t, err, "import after the kill at %s:%d\n%s", name, nth, out)
	out, err = bornode(t, nil, "fsck", "--dir", dir, "--transactions")
	require.NoError(t, err, "fsck after the kill at %s:%d\n%s", name, nth, out)
	again := filepath.Join(t.TempDir(), "again")
	out, err = bornode(t, nil, "export", "--dir", dir, "--out", again)
	require.NoError(t, err, out)
	requireSameFile(t, file, again, "%s:%d", name, nth)
	return true
}

func requireSameFile(t *testing.T, a, b string, what string, args ...any) {
	t.Helper()
	x, err := os.ReadFile(a)
	require.NoError(t, err)
	y, err := os.ReadFile(b)
	require.NoError(t, err)
	// The trailer proves the last block and may hold another quorum's certificate; blocks come before it.
	common := 0
	for common < min(len(x), len(y)) && x[common] == y[common] {
		common++
	}
	require.Greater(t, common, len(x)-2048, "exports differ at byte %d of %d: %s", common, len(x), fmt.Sprintf(what, args...))
}

// kill -9 of a producer of a running network at the failpoints of its paths: it comes back by itself each time and
// agrees with its peers.
func TestNodeKilledAtFailpoints(t *testing.T) {
	n := upNetwork(t, func(s *Spec) { s.Slot = 100 * time.Millisecond })
	// What only a running node passes; the rest is met in imports, switches of branches in TestDeepFork.
	names := slices.DeleteFunc(failpoints(t), func(s string) bool {
		for _, live := range []string{"chain/add", "chain/built", "chain/finalize", "chain/close", "consensus-finalize", "consensus-insert", "consensus-produce", "consensus-vote", "meta.commit"} {
			if strings.Contains(s, live) {
				return strings.Contains(s, "rewrite") // of a long vote log
			}
		}
		return true
	})
	if !long() {
		names = []string{"consensus-votelog-written", "consensus-insert-after", "chain/finalize-before"}
	}
	opts, err := n.loadOptions(LoadOptions{Kind: load.Transfer, Rate: 20, Duration: 5 * time.Second, Nodes: []int{0, 1}, Drain: patience})
	require.NoError(t, err)
	stop := make(chan struct{})
	loaded := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				loaded <- nil
				return
			default:
			}
			if _, err := load.Run(t.Context(), opts); err != nil {
				loaded <- err
				return
			}
		}
	}()
	victim := n.Nodes[3]
	hits := 0
	var missed []string
	for _, name := range names {
		if n.dies(t, victim, name, 2) {
			hits++
		} else {
			missed = append(missed, name) // on a busy machine it may not come by in time
		}
		require.NoError(t, n.Restart(t.Context(), 3), "after the kill at %s", name)
		until(t, n, 3, "in sync after "+name, func(s Status) bool { return s.Synced })
	}
	close(stop)
	require.NoError(t, <-loaded)
	require.GreaterOrEqual(t, hits, len(names)*2/3, "of %d names; not passed: %v", len(names), missed)
	s := until(t, n, 0, "an answer", func(Status) bool { return true })
	finalAbove(t, n, s.Head, 0, 1, 2, 3)
	sameChain(t, n, 0, 1, 2, 3)
	require.NoError(t, n.Down(t.Context()))
	out, err := bornode(t, nil, "fsck", "--dir", victim.Dir, "--transactions")
	require.NoError(t, err, out)
}

// dies restarts a node with an armed failpoint and reports whether it was hit. A failpoint of the
// orderly end is met by stopping the node.
func (n *Network) dies(t *testing.T, x *Node, name string, nth int) bool {
	t.Helper()
	closing := strings.Contains(name, "close") // passed once, at the end
	if closing {
		nth = 1
	}
	require.NoError(t, x.Process.stop(t.Context()))
	require.NoError(t, n.startNode(x, fmt.Sprintf("BORNODE_FAILPOINT=%s:%d", name, nth)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if closing {
		if _, err := n.await(ctx, x, func(Status) bool { return true }); err != nil {
			return false
		}
		require.NoError(t, x.Process.stop(t.Context()))
		return !strings.Contains(lastLines(x.LogFile(), 1), "bornode ends")
	}
	if x.Process.await(ctx) != nil {
		return false
	}
	require.NotContains(t, lastLines(x.LogFile(), 2), "bornode:", "it ended by a failure of its own, not by the kill at %s", name)
	return true
}
