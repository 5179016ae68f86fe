package node

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/recovery"
)

// recoveredFolder is that of a producer that went on by recoveries, under each of which blocks became final.
func recoveredFolder(t *testing.T, recoveries int) (c *config.Config, list []*recovery.Signed) {
	t.Helper()
	c = folder(t)
	runUntilFinal(t, c, 3)
	for range recoveries {
		s := statement(t, c, nil)
		require.NoError(t, tryApply(t, c, s))
		runUntilFinal(t, c, 3)
		list = append(list, s)
	}
	return c, list
}

// loseRecoveries removes the files of the applied recoveries: the folder does not start without them.
func loseRecoveries(t *testing.T, c *config.Config) {
	t.Helper()
	require.NoError(t, os.RemoveAll(c.Path(RecoveryFolder)))
	requireAsksForRecovery(t, c)
}

func requireAsksForRecovery(t *testing.T, c *config.Config) {
	t.Helper()
	_, err := New(t.Context(), c, zap.NewNop(), telemetry.NewRegistry())
	require.ErrorContains(t, err, "apply it again")
}

// requireGoesOn checks that nothing was held against a folder, and that its producer signs.
func requireGoesOn(t *testing.T, c *config.Config) {
	t.Helper()
	require.Empty(t, consensus.CheckForkEvidence(c.Path(c.Consensus.Dir)))
	runUntilFinal(t, c, 3)
}

// A folder whose blocks go by recoveries that its files do not tell of takes them again, in their order.
func TestRecoveriesThatTheBlocksGoByAreAppliedAgain(t *testing.T) {
	c, list := recoveredFolder(t, 2)
	aside, err := filepath.Glob(filepath.Join(c.Path(RecoveryFolder), "aside-*"))
	require.NoError(t, err)
	require.Len(t, aside, 2)

	loseRecoveries(t, c)
	done, err := ApplyRecovery(t.Context(), c, list[0], ApplyOptions{}, zap.NewNop())
	require.NoError(t, err)
	require.True(t, done.Continued)
	require.True(t, done.HasBase)
	require.Equal(t, list[1].Hash(), done.Later)
	require.Empty(t, done.SetAside)
	require.Zero(t, done.Undone)
	requireAsksForRecovery(t, c)
	done, err = ApplyRecovery(t.Context(), c, list[1], ApplyOptions{}, zap.NewNop())
	require.NoError(t, err)
	require.True(t, done.Continued)
	require.Zero(t, done.Later)
	requireGoesOn(t, c)
}

// The same where the blocks up to behind the first base are pruned.
func TestRecoveriesOfPrunedBlocksAreAppliedAgain(t *testing.T) {
	c, list := recoveredFolder(t, 1)
	c.Store.SegmentBytes = 4 << 10
	runUntilFinal(t, c, 20)
	list = append(list, statement(t, c, nil))
	require.NoError(t, tryApply(t, c, list[1]))
	runUntilFinal(t, c, 3)
	st, err := OpenStore(c, zap.NewNop())
	require.NoError(t, err)
	first, err := st.Prune(list[1].Statement.Base.Height + 1)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	require.Greater(t, first, list[0].Statement.Base.Height+1)

	require.NoError(t, os.RemoveAll(c.Path(RecoveryFolder)))
	for i, s := range list {
		done, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{}, zap.NewNop())
		require.NoError(t, err)
		require.True(t, done.Continued)
		require.Equal(t, i == 0, done.Later == list[1].Hash())
	}
	require.Empty(t, consensus.CheckForkEvidence(c.Path(c.Consensus.Dir)))
}

// A recovery that the blocks do not go by is refused as before, with the evidence: one from another base, one beside a known one, and any
// where the blocks behind the base go by none.
func TestRecoveriesThatTheBlocksDoNotGoBy(t *testing.T) {
	c, list := recoveredFolder(t, 1)
	refused := func(c *config.Config, s *recovery.Signed, named common.Hash) {
		t.Helper()
		_, err := ApplyRecovery(t.Context(), c, s, ApplyOptions{Named: named}, zap.NewNop())
		require.ErrorIs(t, err, ErrOtherHistory)
		require.NotEmpty(t, consensus.CheckForkEvidence(c.Path(c.Consensus.Dir)))
	}
	copied := func() *config.Config {
		archive, x := filepath.Join(t.TempDir(), "folder.tar.gz"), *c
		packFolder(t, c.DataDir, archive)
		x.DataDir = t.TempDir()
		unpackFolder(t, archive, x.DataDir)
		return &x
	}
	loseRecoveries(t, c)
	earlier := func(s *recovery.Statement) {
		inStore(t, c, func(st *blockstore.Store) {
			h, err := st.HeaderByHeight(list[0].Statement.Base.Height - 1)
			require.NoError(t, err)
			s.Base.Block = blockOf(h)
		})
	}
	refused(copied(), statement(t, c, earlier), common.Hash{})

	rival := statement(t, c, func(s *recovery.Statement) { s.Base, s.Reason = list[0].Statement.Base, "another" })
	x := copied()
	require.NoError(t, writeRecovery(x, shownName(list[0].Hash()), list[0], vfs.ReplaceFile))
	refused(x, rival, rival.Hash())
}
