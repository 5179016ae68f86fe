package testnet

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// guides are the documents whose shell blocks are run: the README, and whatever has such blocks in docs.
func guides(t *testing.T, root string) []string {
	t.Helper()
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	out := []string{"README.md"}
	for _, doc := range docs {
		if len(shellBlocks(t, doc)) > 0 {
			out = append(out, "docs/"+filepath.Base(doc))
		}
	}
	for _, must := range []string{"docs/HACKING.md", "docs/quickstart.md", "docs/governance.md"} {
		require.Contains(t, out, must)
	}
	return out
}

// testBlock runs all tests, this one too.
const testBlock = "make test-all\n"

// guideBasePort is the port of the first node of `make testnet`; a test puts its own in its place, and in that of the
// ports after it.
const guideBasePort = 28500

// guideNodes is how many nodes a guide's network may grow to.
const guideNodes = 8

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// shellBlocks are the runnable blocks of a document.
func shellBlocks(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []string
	for _, m := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		out = append(out, m[1])
	}
	return out
}

// freshClone copies the files of the tree, as a clone has them, with the npm packages that `make deps` put there.
func freshClone(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("..")
	require.NoError(t, err)
	clone := filepath.Join(t.TempDir(), "bornode")
	list := exec.Command("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = root
	names, err := list.Output()
	require.NoError(t, err)
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		st, err := os.Stat(filepath.Join(root, name))
		if os.IsNotExist(err) { // deleted, and not yet committed
			continue
		}
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(root, name))
		require.NoError(t, err)
		to := filepath.Join(clone, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(to), 0o755)) //nolint:gosec // as git makes them
		require.NoError(t, os.WriteFile(to, b, st.Mode().Perm()))
	}
	for _, dir := range []string{"contracts", "testnet/clients", "testnet/clients/hardhat"} {
		require.DirExists(t, filepath.Join(root, dir, "node_modules"), "run make deps")
		require.NoError(t, os.Symlink(filepath.Join(root, dir, "node_modules"), filepath.Join(clone, dir, "node_modules")))
	}
	return clone
}

// userEnv is the environment of somebody whose home holds nothing yet but the caches of Go and npm.
func userEnv(t *testing.T, home string, basePort int) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOPATH", "GOMODCACHE", "GOCACHE").Output()
	require.NoError(t, err)
	dirs := strings.Fields(string(out))
	require.Len(t, dirs, 3)
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "BOR") || strings.HasPrefix(kv, "HOME=") || strings.HasPrefix(kv, "XDG_")
	})
	old, err := os.UserHomeDir()
	require.NoError(t, err)
	return append(env, "HOME="+home, "GOPATH="+dirs[0], "GOMODCACHE="+dirs[1], "GOCACHE="+dirs[2],
		"npm_config_userconfig="+filepath.Join(old, ".npmrc"), fmt.Sprintf("BORNODE_TESTNET_PORT=%d", basePort))
}

// ownPorts puts a test's ports in the place of those that a document names.
func ownPorts(text string, basePort int) string {
	return regexp.MustCompile(`\b28[5-9]\d\d\b`).ReplaceAllStringFunc(text, func(s string) string {
		n, _ := strconv.Atoi(s)
		return strconv.Itoa(basePort + n - guideBasePort)
	})
}

// A newcomer's way: every shell block of the guides, as printed and in order, in one shell per document, from the
// root of a fresh clone, with an empty home. Only the ports are this test's own.
func TestGuides(t *testing.T) {
	clone := freshClone(t)
	for _, doc := range guides(t, clone) {
		t.Run(filepath.Base(doc), func(t *testing.T) {
			runGuide(t, clone, doc, shellBlocks(t, filepath.Join(clone, doc)))
		})
	}
	// The README's network goes on in the quick start: its first block meets a network that runs.
	t.Run("README.md, then quickstart.md", func(t *testing.T) {
		readme, quick := shellBlocks(t, filepath.Join(clone, "README.md")), shellBlocks(t, filepath.Join(clone, "docs", "quickstart.md"))
		runGuide(t, clone, "README.md, then quickstart.md", []string{readme[0], quick[0], "make testnet-down\n"})
	})
	t.Run("commands", func(t *testing.T) { documentedCommands(t, clone) })
}

// runGuide runs blocks of a document in one shell.
func runGuide(t *testing.T, clone, doc string, blocks []string) {
	base, lock, err := claimPorts(0, guideNodes)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, lock.Close()) })
	script := "set -e\n"
	for i, block := range blocks {
		if block != testBlock {
			script += fmt.Sprintf("echo; echo '--- block %d'\n%s", i+1, ownPorts(block, base))
		}
	}
	home := t.TempDir()
	out, err := os.CreateTemp(home, "output") // not a pipe: what runs on in the background would hold it
	require.NoError(t, err)
	defer out.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = clone, userEnv(t, home, base), out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	started := time.Now()
	err = cmd.Run()
	t.Cleanup(func() { // after a failure; a guide that works has done this itself
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		if n, err := Open(filepath.Join(clone, ".testnet")); err == nil {
			require.NoError(t, n.Down(context.Background()))
			require.NoError(t, os.RemoveAll(n.Dir))
		}
	})
	said, readErr := os.ReadFile(out.Name())
	require.NoError(t, readErr)
	require.NoError(t, err, "%s:\n%s", doc, said)
	t.Logf("%s in %s:\n%s", doc, time.Since(started).Round(time.Second), said)
	require.NoDirExists(t, filepath.Join(clone, ".testnet"), "%s ends with the network deleted", doc)
	require.ErrorIs(t, syscall.Kill(-cmd.Process.Pid, 0), syscall.ESRCH, "%s leaves a process running", doc)
}

// Every runnable block of every document is run by a test.
func TestEveryShellBlockIsRun(t *testing.T) {
	run := guides(t, "..")
	require.NoError(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "build" || strings.HasPrefix(d.Name(), ".") && path != ".."):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".md"):
			return nil
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name, err := filepath.Rel("..", path)
		require.NoError(t, err)
		if !slices.Contains(run, filepath.ToSlash(name)) {
			require.False(t, bytes.Contains(text, []byte("```sh\n")), "%s has a shell block, and no test runs it there: move it to docs, or mark it as text", name)
		}
		require.False(t, bytes.Contains(text, []byte("```bash\n")), "%s: blocks that a test runs are marked sh, others text", name)
		return nil
	}))
}
