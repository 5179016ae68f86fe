package node

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/recovery"
)

// writeApplied writes what stands in the file of the first recovery applied.
func writeApplied(t *testing.T, c *config.Config, contents []byte) (path string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(c.Path(RecoveryFolder), 0o700))
	path = filepath.Join(c.Path(RecoveryFolder), appliedName(1))
	require.NoError(t, os.WriteFile(path, contents, 0o600))
	return path
}

// Whoever goes by the recoveries of a folder reads them under the lock that an application holds: one that reads before it may not know
// of the recovery that is being applied, and sign in a domain that has ended.
func TestRecoveriesAreReadUnderTheLock(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	s := statement(t, c, nil)
	store, err := OpenStore(c, zap.NewNop())
	require.NoError(t, err)
	writeApplied(t, c, []byte("not written to its end"))
	use := map[string]func() error{
		"a start": func() error { _, err := New(t.Context(), c, zap.NewNop(), telemetry.NewRegistry()); return err },
		"an application": func() error {
			_, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
			return err
		},
		"a report": func() error { _, err := SurvivorReport(c, zap.NewNop(), time.Now()); return err },
	}
	for name, f := range use {
		require.ErrorIs(t, f(), vfs.ErrLocked, name)
	}
	require.NoError(t, store.Close())
	for name, f := range use {
		require.ErrorContains(t, f(), "cannot be used", name)
	}
}

// contextThen does something when it is first asked whether it has ended.
type contextThen struct {
	context.Context
	do func()
}

func (c *contextThen) Err() error {
	if c.do != nil {
		c.do()
		c.do = nil
	}
	return c.Context.Err()
}

// What is applied is never replaced, whoever wrote it and when.
func TestAppliedRecoveryIsNeverReplaced(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 2)
	s := statement(t, c, nil)
	rival, err := json.Marshal(statement(t, c, func(s *recovery.Statement) { s.Reason = "another" }))
	require.NoError(t, err)
	var path string
	ctx := &contextThen{Context: t.Context(), do: func() { path = writeApplied(t, c, rival) }}
	_, err = ApplyRecovery(ctx, c, s, ApplyOptions{Named: s.Hash()}, zap.NewNop())
	require.ErrorIs(t, err, ErrRivalRecovery)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, rival, b)
}

// A folder whose blocks of the certificate's slot are pruned cannot tell which history it holds: no evidence is made of that, and the
// operator is told.
func TestPrunedFolderCannotTellItsHistory(t *testing.T) {
	c := folder(t)
	c.Store.SegmentBytes = 4 << 10
	runUntilFinal(t, c, 3)
	r, err := SurvivorReport(c, zap.NewNop(), time.Now())
	require.NoError(t, err)
	require.NotNil(t, r.FC)
	runUntilFinal(t, c, 30)
	further := func(s *recovery.Statement) {
		s.Base = recovery.Base{Block: recovery.Block{Height: s.Base.Height + 9, Slot: s.Base.Slot + 9, Hash: common.Hash{9}, StateRoot: common.Hash{9}}, FC: r.FC}
		s.FirstSlot += 10
	}
	s := statement(t, c, further)
	past := statement(t, c, func(s *recovery.Statement) { s.Base.Block = r.LIB; s.Base.Hash[0]++ })
	store, err := OpenStore(c, zap.NewNop())
	require.NoError(t, err)
	lib, _ := store.LIB()
	first, err := store.Prune(lib)
	require.NoError(t, err)
	h, err := store.HeaderByHeight(first)
	require.NoError(t, err)
	require.Greater(t, h.Slot(), r.FC.Target.Slot, "what would tell is pruned")
	require.NoError(t, store.Close())

	done, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
	require.NoError(t, err)
	require.False(t, done.HasBase)
	require.True(t, done.Unproven)
	require.Empty(t, forkEvidence(t, c))

	require.NoError(t, os.RemoveAll(c.Path(RecoveryFolder)))
	_, err = ApplyRecovery(t.Context(), c, past, ApplyOptions{}, zap.NewNop())
	require.ErrorIs(t, err, ErrOtherHistory, "a final block above the base is another history, whatever is pruned")
	require.Len(t, forkEvidence(t, c), 1)
}

// forkEvidence are the files of evidence of forks.
func forkEvidence(t *testing.T, c *config.Config) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.Path(c.Consensus.Dir), "fork-*"))
	require.NoError(t, err)
	return files
}
