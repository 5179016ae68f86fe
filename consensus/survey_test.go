package consensus

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// A survey of a stopped producer's folder finds what the running producer knew: the justified block above LIB with its
// certificate, which is in the vote log alone, and the newest of its own signatures.
func TestSurveyFindsWhatTheProducerKnew(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(24)
		l.mu.Lock()
		l.noPrecommits = true
		l.mu.Unlock()
		l.slots(6)
		m := l.nodes[1]
		was := m.driver.Status()
		require.Greater(t, was.Justified.Slot, was.LIB.Slot, "prevotes still meet, precommits do not")
		m.kill()
		cfg, d := m.deps()
		path := filepath.Join(cfg.Dir, voteLogName)
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		account := l.signers[1].Account()
		s, err := OpenSurvey(cfg.Dir, account, d)
		require.NoError(t, err)
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after)

		require.Equal(t, was.LIB, s.LIB)
		require.Equal(t, was.FC, s.FC)
		require.Equal(t, was.Justified, block.Point{Slot: s.Justified.Slot, Hash: s.Justified.Hash})
		require.Equal(t, was.Justified, s.QC.Target)
		require.Equal(t, was.Justified, s.Precommit)
		require.False(t, s.Incomplete)
		newest := uint64(0)
		for _, v := range was.OwnVotes {
			newest = max(newest, v.Target.Slot)
		}
		require.GreaterOrEqual(t, s.NewestSlot, newest)
		schedules, err := s.Schedules(s.Justified.Hash)
		require.NoError(t, err)
		require.Equal(t, []block.Schedule{l.schedule}, schedules)
		require.True(t, s.Descends(s.Justified.Hash, s.LIB.Hash))
		require.False(t, s.Descends(s.LIB.Hash, s.Justified.Hash))
		require.False(t, s.Descends(common.Hash{1}, s.LIB.Hash))

		// So does the mark of a copy: a good log that somebody put into it lacks what was signed since.
		require.Empty(t, CheckVoteLog(cfg.Dir, account, l.genesis, true))
		require.NoError(t, MarkCopied(cfg.Dir))
		s, err = OpenSurvey(cfg.Dir, account, d)
		require.NoError(t, err)
		require.True(t, s.Incomplete)
		require.Len(t, CheckVoteLog(cfg.Dir, account, l.genesis, true), 1)
		require.NoError(t, os.Remove(filepath.Join(cfg.Dir, copyMark)))
		require.FileExists(t, path)

		// A floor above LIB says that signatures up to it may have been forgotten.
		entry := appendEntry(nil, uint64(len(before)), encodeRecord(dpos.SignRecord{Kind: dpos.RecordFloor, Slot: s.LIB.Slot + 1}))
		require.NoError(t, os.WriteFile(path, append(after, entry...), 0o600))
		s, err = OpenSurvey(cfg.Dir, account, d)
		require.NoError(t, err)
		require.True(t, s.Incomplete)

		_, err = OpenSurvey(cfg.Dir, l.signers[2].Account(), d)
		require.ErrorContains(t, err, "belongs to account")
		require.NoError(t, os.Remove(path))
		s, err = OpenSurvey(cfg.Dir, account, d)
		require.NoError(t, err)
		require.True(t, s.Incomplete)
		require.Zero(t, s.NewestSlot)
	})
}
