package testnet

import (
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/testnet/load"
)

// releaseHeading is a release in CHANGELOG.md with the commit that its programs are built from. A release that is not out
// yet names none.
var releaseHeading = regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) \(\d{4}-\d\d-\d\d, commit ([0-9a-f]{7,40})\)$`)

// newestRelease is the version and the commit of the newest release that CHANGELOG.md names. Before the first one the
// newest commit stands for it.
func newestRelease(t *testing.T) (version, commit string) {
	t.Helper()
	text, err := os.ReadFile("../CHANGELOG.md")
	require.NoError(t, err)
	if m := releaseHeading.FindSubmatch(text); m != nil {
		return string(m[1]), string(m[2])
	}
	return "unreleased", "HEAD"
}

// buildCommit builds bornode from a commit, in a work tree of its own.
func buildCommit(t *testing.T, commit string) (program string) {
	t.Helper()
	dir := t.TempDir()
	tree := filepath.Join(dir, "tree")
	git := func(args ...string) {
		out, err := exec.Command("git", args...).CombinedOutput()
		require.NoError(t, err, "git %s: %s(this test builds the released program, so the clone needs its whole history: git fetch --unshallow)", strings.Join(args, " "), out)
	}
	if missing := exec.Command("git", "cat-file", "-e", commit+"^{commit}").Run(); missing != nil && isShallow() {
		t.Logf("this clone is shallow and has no commit %s: the network is upgraded from the program of HEAD instead; git fetch --unshallow for the released one", commit)
		commit = "HEAD"
	}
	git("worktree", "add", "--detach", tree, commit)
	t.Cleanup(func() { git("worktree", "remove", "--force", tree) })
	program = filepath.Join(dir, "bornode")
	build := exec.Command("go", "build", "-o", program, "./cmd/bornode")
	build.Dir = tree
	out, err := build.CombinedOutput()
	require.NoError(t, err, "build of %s: %s", commit, out)
	return program
}

func isShallow() bool {
	out, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output()
	return err == nil && strings.TrimSpace(string(out)) == "true"
}

// finalFacts are answers about final data, which no other program may change.
type finalFacts struct {
	hashes   []common.Hash // of the final blocks, by height
	accounts map[common.Address]string
}

func readFinalFacts(t *testing.T, n *Network, x *Node, final uint64) (f finalFacts) {
	t.Helper()
	client, err := ethclient.DialContext(t.Context(), x.HTTP)
	require.NoError(t, err)
	defer client.Close()
	for height := range final + 1 {
		h, err := client.HeaderByNumber(t.Context(), new(big.Int).SetUint64(height))
		require.NoError(t, err, "node %d, block %d", x.Index, height)
		f.hashes = append(f.hashes, h.Hash())
	}
	f.accounts = make(map[common.Address]string)
	for _, a := range n.Accounts {
		b, err := client.BalanceAt(t.Context(), a.Address, new(big.Int).SetUint64(final))
		require.NoError(t, err)
		f.accounts[a.Address] = b.String()
	}
	return f
}

// A network that the newest release began goes over to this program node by node: releases run beside this program on one
// network, this program opens their folders and backups, and what was final stays as it was.
func TestNetworkOfTheNewestReleaseIsUpgraded(t *testing.T) {
	t.Parallel() // with one other network: it mostly waits
	version, commit := newestRelease(t)
	t.Logf("from %s (%s)", version, commit)
	released := buildCommit(t, commit)
	n := upNetwork(t, func(s *Spec) {
		s.Binary, s.Producers, s.Observers, s.Brokers, s.Direct = released, 4, 0, 0, true
		s.EpochBlocks = 40
	})
	offerTransfers(t, n)
	before := until(t, n, 0, "final blocks of the release", func(s Status) bool { return s.Final > 30 })
	told := readFinalFacts(t, n, n.Nodes[0], before.Final)

	backup := filepath.Join(t.TempDir(), "backup")
	runCommandOf(t, released, "backup", backup, "--dir", n.Nodes[0].Dir)
	for i := range n.Nodes {
		require.NoError(t, n.Stop(t.Context(), i))
		n.Binary = binary
		require.NoError(t, n.Restart(t.Context(), i))
		n.Binary = released
		at := until(t, n, i, "to be in sync", func(s Status) bool { return s.Sync == "in_sync" })
		finalAbove(t, n, at.Final+3, 0, 1, 2, 3)
	}
	n.Binary = binary
	offerTransfers(t, n)
	last := until(t, n, 0, "final blocks of this program", func(s Status) bool { return s.Final > before.Final+40 })
	sameChain(t, n, 0, 1, 2, 3)
	for _, x := range n.Nodes {
		finalAbove(t, n, last.Final, x.Index)
		require.Equal(t, told, readFinalFacts(t, n, x, before.Final), "node %d", x.Index)
	}
	runCommandOf(t, binary, "backup", "verify", backup)
	restored := filepath.Join(t.TempDir(), "restored")
	runCommandOf(t, binary, "restore", backup, "--dir", restored)
	runCommandOf(t, binary, "backup", backup, "--dir", n.Nodes[0].Dir) // goes on with the release's
	runCommandOf(t, binary, "backup", "verify", backup)
}

func offerTransfers(t *testing.T, n *Network) {
	t.Helper()
	r, err := n.Load(t.Context(), LoadOptions{Kind: load.Transfer, Rate: 50, Duration: 3 * time.Second, Drain: patience})
	require.NoError(t, err)
	require.Zero(t, r.Missing)
}

func runCommandOf(t *testing.T, program string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	require.NoError(t, err, "%s: %s", strings.Join(args, " "), out)
}
