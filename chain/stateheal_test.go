package chain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/chain/keyvalue"
	"github.com/bornode/bornode/internal/exit"
)

// requireHealed opens a node whose state is damaged: it sets the state aside, says so once, and has the newest state again.
func requireHealed(t *testing.T, n *testNode, head uint64) {
	t.Helper()
	core, logs := observer.New(zap.WarnLevel)
	var err error
	n.Chain, err = Open(context.Background(), n.cfg, n.gen, n.store, zap.New(core), nil)
	require.NoError(t, err)
	require.EqualValues(t, head, n.Head().Number())
	_, err = n.StateAt(n.Head().Header)
	require.NoError(t, err)
	told := logs.FilterMessageSnippet("set aside: the state on disk, which is damaged").All()
	require.Len(t, told, 1)
	to := told[0].ContextMap()["to"].(string)
	require.True(t, strings.HasSuffix(to, "-"+asideDamaged), to)
	require.NotEmpty(t, filesBelow(t, filepath.Join(to, "kv")))
	require.NoError(t, n.Close())
	_, findings, err := CheckState(context.Background(), n.cfg, n.store, true)
	require.NoError(t, err)
	require.Empty(t, findings)
}

// Writes that are missing in the middle leave a state that fits no root, and nothing else finds it before a node of it is
// read: the start sets it aside and rebuilds it. A loss at the end leaves an older state, which needs no such thing.
func TestAStateThatLostWritesIsRebuilt(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	n.finalize(n.branch(n.Head(), 40, 0, 50)...)
	require.NoError(t, n.states.trie().Commit(n.Head().Header.Root, false))
	require.NoError(t, n.Close())
	old := filepath.Join(t.TempDir(), "kv")
	require.NoError(t, os.CopyFS(old, os.DirFS(n.cfg.keyValueDir())))
	for range 3 { // each start makes tables of what the log before it holds
		n.open()
		n.finalize(n.branch(n.Head(), 20, 0, 50)...)
		require.NoError(t, n.states.trie().Commit(n.Head().Header.Root, false))
		require.NoError(t, n.Close())
	}
	// The list of tables loses its end: the tables of the second stay out, the newest log is read.
	list, err := filepath.Glob(filepath.Join(old, "M*"))
	require.NoError(t, err)
	now, err := filepath.Glob(filepath.Join(n.cfg.keyValueDir(), "[mM]*"))
	require.NoError(t, err)
	for _, name := range now {
		require.NoError(t, os.Remove(name))
	}
	pointers, err := filepath.Glob(filepath.Join(old, "marker.*"))
	require.NoError(t, err)
	for _, name := range append(list, pointers...) {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(n.cfg.keyValueDir(), filepath.Base(name)), data, 0o600))
	}
	tables, err := filepath.Glob(filepath.Join(old, "*.sst"))
	require.NoError(t, err)
	for _, name := range tables {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(n.cfg.keyValueDir(), filepath.Base(name)), data, 0o600))
	}
	requireHealed(t, n, 100)
}

// Damage that a running node meets ends it with a mark and a sentence; the next start needs nobody. A node that pruned
// blocks cannot rebuild its state, and neither is it done over and over on a disk that damages each new one: there the
// sentence is for the operator.
func TestADamagedStateIsRebuiltByTheNextStart(t *testing.T) {
	n := behind(t)
	f := EndByStateFault(n.cfg.Dir, "state/kv/000007.sst", errors.New("checksum mismatch"))
	require.Equal(t, exit.Failure, exit.Code(f), "a supervisor may start it again")
	require.ErrorContains(t, f, "start again: the node sets the state aside")
	_, findings, err := CheckState(context.Background(), n.cfg, n.store, false)
	require.NoError(t, err)
	require.Len(t, findings, 1)
	require.Contains(t, findings[0].Problem, "checksum mismatch")
	requireHealed(t, n, 120)
	n.open()
	require.NoError(t, n.Close())

	for range maxDamagedAside - 1 {
		EndByStateFault(n.cfg.Dir, "", errors.New("checksum mismatch"))
		n.open()
		require.NoError(t, n.Close())
	}
	EndByStateFault(n.cfg.Dir, "", errors.New("checksum mismatch"))
	for range 2 {
		_, err = Open(context.Background(), n.cfg, n.gen, n.store, nil, nil)
		require.ErrorContains(t, err, "checksum mismatch")
		require.ErrorContains(t, err, "move the folder")
		require.Equal(t, exit.Damage, exit.Code(err))
	}
}

// A table that cannot be read when the state opens is no reason to wait for a person either.
func TestAStateThatDoesNotOpenIsRebuilt(t *testing.T) {
	n := behind(t)
	n.open()
	require.NoError(t, n.Close())
	tables, err := filepath.Glob(filepath.Join(n.cfg.keyValueDir(), "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	require.NoError(t, os.Remove(tables[0]))
	requireHealed(t, n, 120)
}

// Half of the state's identity is damage, too.
func TestAStateWithoutItsNumberIsRebuilt(t *testing.T) {
	n := behind(t)
	db, err := keyvalue.Open(n.cfg.keyValueDir(), keyvalue.Options{CacheMiB: 16, Handles: 32})
	require.NoError(t, err)
	require.NoError(t, db.Delete([]byte(stateIDKey)))
	require.NoError(t, db.Close())
	requireHealed(t, n, 120)
}
