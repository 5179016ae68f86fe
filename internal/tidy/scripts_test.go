package tidy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// runDeps runs scripts/deps.sh of a copy of the tree's package lists, in a machine made of commands: a few real ones,
// and scripts.
func runDeps(t *testing.T, scripts map[string]string) (output string, err error) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "scripts", "deps.sh"))
	require.NoError(t, err)
	tree, bin := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(tree, "scripts"), 0o755)) //nolint:gosec // as in a clone
	script := filepath.Join(tree, "scripts", "deps.sh")
	require.NoError(t, os.WriteFile(script, text, 0o755)) //nolint:gosec // it is run
	for _, dir := range []string{"contracts", "testnet/clients", "testnet/clients/hardhat"} {
		require.NoError(t, os.MkdirAll(filepath.Join(tree, dir), 0o755)) //nolint:gosec // as in a clone
		require.NoError(t, os.WriteFile(filepath.Join(tree, dir, "package-lock.json"), []byte("{}"), 0o600))
	}
	for _, name := range []string{"dirname", "cmp", "cp", "mkdir", "cat"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	scripts["python3"] = "" // it has the libraries
	for name, body := range scripts {
		require.NoError(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"+body+"\n"), 0o755)) //nolint:gosec // it is run
	}
	bash, err := exec.LookPath("bash")
	require.NoError(t, err)
	cmd := exec.Command(bash, script)
	cmd.Env = []string{"PATH=" + bin, "CALLS=" + filepath.Join(bin, "calls"), "DEPS_PYTHON=python3"}
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// Who is not root, and cannot become it, is told what to install; nothing is tried that must fail.
func TestDepsWithoutRoot(t *testing.T) {
	user := map[string]string{"id": "echo 1000", "apt-get": `echo "apt-get was called"; exit 100`}
	with := func(more map[string]string) map[string]string {
		all := map[string]string{}
		for _, m := range []map[string]string{user, more} {
			for k, v := range m {
				all[k] = v
			}
		}
		return all
	}
	tools := map[string]string{"npm": "mkdir -p node_modules", "kcat": "", "node": "echo v20.1.0"}

	said, err := runDeps(t, user)
	require.Error(t, err)
	require.Equal(t, "deps: nodejs npm kcat are missing, and installing them needs root: run `apt-get update && apt-get install -y nodejs npm kcat` as root, then this again\n", said)

	said, err = runDeps(t, with(map[string]string{"sudo": "exit 1"})) // it wants a password, and there is no terminal
	require.Error(t, err)
	require.Contains(t, said, "needs root: run `apt-get update")
	require.NotContains(t, said, "apt-get was called")

	said, err = runDeps(t, with(map[string]string{"sudo": `[ "$1" = -n ] && shift; "$@"`, "true": "", "env": `while [[ "$1" = *=* ]]; do shift; done; "$@"`, "apt-get": `echo "called $*" >>"$CALLS"; cat "$CALLS"`,
		"npm": "mkdir -p node_modules", "node": "echo v20.1.0"}))
	require.NoError(t, err, said)
	require.Contains(t, said, "deps: installing with apt-get: kcat")
	require.Contains(t, said, "called update")

	said, err = runDeps(t, map[string]string{"id": "echo 1000"})
	require.Error(t, err)
	require.Contains(t, said, "deps: install nodejs npm kcat with this system's package manager (Node.js 20 or newer), then run this again")

	said, err = runDeps(t, with(tools))
	require.NoError(t, err, said)
	require.Equal(t, 3, strings.Count(said, "installing the npm packages"), said)

	tools["node"] = "echo v18.19.0"
	said, err = runDeps(t, with(tools))
	require.Error(t, err)
	require.Equal(t, "deps: Node.js here is v18.19.0, and the npm packages need 20 or newer: install one, for instance from https://nodejs.org, put it first in PATH, then run this again\n", said)
}
