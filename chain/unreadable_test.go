package chain

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/internal/exit"
)

// behind makes a node whose state on disk is that of block 40, and whose last irreversible block is 120.
func behind(t *testing.T) *testNode {
	n := newTestNode(t, newTestGenesis(t, nil))
	n.finalize(n.branch(n.Head(), 40, 0, 50)...)
	require.NoError(t, n.states.trie().Commit(n.Head().Header.Root, false))
	require.NoError(t, n.Close())
	old := filepath.Join(t.TempDir(), "state")
	require.NoError(t, os.CopyFS(old, os.DirFS(n.cfg.Dir)))
	n.open()
	n.finalize(n.branch(n.Head(), 80, 0, 50)...)
	require.NoError(t, n.Close())
	require.NoError(t, os.RemoveAll(n.cfg.Dir))
	require.NoError(t, os.Rename(old, n.cfg.Dir))
	return n
}

// TestUnreadableBlockKeepsTheState: one block between the state and the last irreversible block that cannot be read, for
// a moment or for ever, stops the start with its height; the state stays, and the next start goes on from it.
func TestUnreadableBlockKeepsTheState(t *testing.T) {
	for _, height := range []uint64{41, 80, 119, 120} {
		n := behind(t)
		n.store.bad = map[uint64]error{height: syscall.EIO}
		for range 2 {
			_, err := Open(context.Background(), n.cfg, n.gen, n.store, nil, nil)
			require.ErrorIs(t, err, syscall.EIO)
			if height < 120 {
				require.ErrorContains(t, err, "read block "+n.store.final[height].Header.Number.String())
				require.ErrorContains(t, err, "no block and no state was removed")
			}
		}
		require.NoDirExists(t, filepath.Join(n.cfg.Dir, stateAsideDir))
		n.store.bad = nil
		core, logs := observer.New(zap.InfoLevel)
		var err error
		n.Chain, err = Open(context.Background(), n.cfg, n.gen, n.store, zap.New(core), nil)
		require.NoError(t, err)
		require.EqualValues(t, 120, n.Head().Number())
		again := logs.FilterMessageSnippet("executing blocks again").All()
		require.NotEmpty(t, again)
		require.EqualValues(t, 41, again[0].ContextMap()["from"], "the state of block 40 was kept")
	}
}

// TestForeignStateIsSetAside: a state that a readable chain contradicts is moved, not removed, and told at WARN.
func TestForeignStateIsSetAside(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	n.finalize(n.branch(n.Head(), 30, 0, 50)...)
	other := newTestNode(t, newTestGenesis(t, func(g *testGenesis) { g.alloc[common.Address{9}] = types.Account{Balance: common.Big1} }))
	other.branch(other.Head(), 5, 0, 50)
	require.NoError(t, other.Close())
	require.NoError(t, n.Close())
	require.NoError(t, os.RemoveAll(n.cfg.Dir))
	require.NoError(t, os.Rename(other.cfg.Dir, n.cfg.Dir))
	before := filesBelow(t, filepath.Join(n.cfg.Dir, "kv"))

	n.store.bad = map[uint64]error{17: syscall.EIO} // the chain is not readable: it contradicts nothing
	_, err := Open(context.Background(), n.cfg, n.gen, n.store, nil, nil)
	require.ErrorContains(t, err, "read block 17")
	require.NoDirExists(t, filepath.Join(n.cfg.Dir, stateAsideDir))

	n.store.bad = nil
	core, logs := observer.New(zap.WarnLevel)
	n.Chain, err = Open(context.Background(), n.cfg, n.gen, n.store, zap.New(core), nil)
	require.NoError(t, err)
	require.EqualValues(t, 30, n.Head().Number())
	require.True(t, n.HasState(n.Head().Header.Root))
	told := logs.FilterMessageSnippet("set aside").All()
	require.Len(t, told, 1)
	to := told[0].ContextMap()["to"].(string)
	require.True(t, strings.HasSuffix(to, "-of-no-stored-block"))
	kept := filesBelow(t, filepath.Join(to, "kv"))
	for name := range before {
		if strings.HasSuffix(name, ".sst") {
			require.Contains(t, kept, name)
		}
	}
	require.NotEmpty(t, kept)
	require.NoError(t, n.Close())
	n.open() // the folder is no obstacle
	other.open()
}

// A node whose blocks are gone does not cut the history of its state down to genesis: it sets the state aside and says so.
func TestStateOfLostBlocksIsSetAside(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	n.finalize(n.branch(n.Head(), 30, 0, 50)...)
	require.NoError(t, n.states.trie().Commit(n.Head().Header.Root, false))
	require.NoError(t, n.Close())
	n.store = newMemStore()
	core, logs := observer.New(zap.WarnLevel)
	c, err := Open(context.Background(), n.cfg, n.gen, n.store, zap.New(core), nil)
	require.NoError(t, err)
	n.Chain = c
	require.Zero(t, n.Head().Number())
	require.Len(t, logs.FilterMessageSnippet("set aside: the state on disk, which is of no stored block").All(), 1)
	require.NoError(t, n.Close())
	c, err = Open(context.Background(), n.cfg, n.gen, n.store, zap.New(core), nil)
	require.NoError(t, err)
	n.Chain = c
	require.Len(t, logs.FilterMessageSnippet("set aside").All(), 1, "a new state is of block 0")
}

// A state that somebody else uses, or that may not be read, is not called damaged, and nobody is told to move it away.
func TestRefusedStateIsNoDamage(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	_, err := Open(context.Background(), n.cfg, n.gen, n.store, nil, nil)
	require.ErrorContains(t, err, "cannot be opened")
	require.NotContains(t, err.Error(), "away")
	require.Equal(t, exit.Failure, exit.Code(err))
	require.Equal(t, exit.Failure, exit.Code(OpenFault("state", "state/kv", &os.PathError{Op: "open", Path: "state/kv/LOCK", Err: syscall.EACCES})))
	require.Equal(t, exit.Damage, exit.Code(OpenFault("state", "state/kv", errors.New("checksum"))))
}

func filesBelow(t *testing.T, dir string) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := make(map[string]bool)
	for _, e := range entries {
		names[e.Name()] = true
	}
	return names
}
