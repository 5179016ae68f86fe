package testnet

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/node"
)

// Who starts nodes of a network is told which program they run, since it need not be the one that was called.
func TestTheProgramOfANetworkIsTold(t *testing.T) {
	dir := t.TempDir()
	program := func(name string, age time.Duration) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700))
		built := time.Now().Add(-age)
		require.NoError(t, os.Chtimes(path, built, built))
		return path
	}
	older, own, newer := program("older", time.Hour), program("own", time.Minute), program("newer", time.Second)
	n := &Network{Dir: dir, Binary: own}
	said, err := n.programBeside(own)
	require.NoError(t, err)
	require.Equal(t, "nodes run "+own, said)

	n.Binary = older
	said, err = n.programBeside(own)
	require.NoError(t, err)
	for _, words := range []string{"nodes run " + older, "an older program than this one (" + own, filepath.Join(dir, stateFile)} {
		require.Contains(t, said, words)
	}
	n.Binary = newer
	said, err = n.programBeside(own)
	require.NoError(t, err)
	require.Contains(t, said, "another program than this one")

	require.NoError(t, os.Remove(newer))
	refused := func(err error) {
		t.Helper()
		for _, words := range []string{newer, "build it there again", filepath.Join(dir, stateFile)} {
			require.ErrorContains(t, err, words)
		}
	}
	_, err = n.programBeside(own)
	refused(err)
	running := os.Getpid()
	n.Nodes = []*Node{{Process: Process{PID: running}}}
	refused(n.Restart(t.Context(), 0)) // before it stops the node
	refused(n.Start(t.Context()))
	_, err = n.Add(t.Context(), AddOptions{})
	refused(err)
}

// A node that is added to a recovered network goes by its recoveries from the first start on.
func TestAnAddedNodeTakesTheRecoveries(t *testing.T) {
	n := &Network{Dir: t.TempDir()}
	for i := range 3 {
		n.Nodes = append(n.Nodes, &Node{Index: i, Dir: filepath.Join(n.Dir, "node", string(rune('0'+i)))})
	}
	x := n.Nodes[2]
	require.NoError(t, n.takeRecoveries(x))
	require.NoDirExists(t, filepath.Join(x.Dir, node.RecoveryFolder))
	write := func(i int, name string) {
		dir := filepath.Join(n.Nodes[i].Dir, node.RecoveryFolder)
		require.NoError(t, os.MkdirAll(dir, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	write(0, "applied-0001.json")
	write(1, "applied-0001.json")
	write(1, "applied-0002.json")
	write(1, "shown-12.json")
	require.NoError(t, n.takeRecoveries(x))
	got, err := filepath.Glob(filepath.Join(x.Dir, node.RecoveryFolder, "*"))
	require.NoError(t, err)
	require.Len(t, got, 2)
	b, err := os.ReadFile(filepath.Join(x.Dir, node.RecoveryFolder, "applied-0002.json"))
	require.NoError(t, err)
	require.Equal(t, "applied-0002.json", string(b))
}
