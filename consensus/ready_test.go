package consensus

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// Before its chain executes, a producer's machine stands still: it records, votes and seals nothing, however long that
// lasts, and takes nothing; what only reads is answered. Behind it the first sync of rule 11 is as after any start.
func TestNothingIsSignedBeforeTheChainExecutes(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(20)
		m := l.nodes[0]
		m.kill()
		log := filepath.Join(l.dir, "0", voteLogName)
		before, err := os.ReadFile(log)
		require.NoError(t, err)
		votes, seals := l.signs(0)
		ready := make(chan struct{})
		m.start(func(_ *Config, d *Deps) { d.Ready = ready })
		l.slots(20)

		_, err = m.driver.Schedule()
		require.NoError(t, err)
		finals := l.nodes[1].chain.finals()
		newest := finals[len(finals)-1]
		require.ErrorIs(t, m.driver.CheckHeader(newest.SealedHeader), ErrNotReady)
		_, err = m.driver.AddVotes([]block.Vote{{}})
		require.ErrorIs(t, err, ErrNotReady)
		require.ErrorIs(t, m.driver.AddCertificate(l.nodes[1].driver.Status().FC), ErrNotReady)
		require.ErrorIs(t, m.driver.HearAnswer(m.ctx, l.answer(1, 0, block.Session{}, nil)), ErrNotReady)
		taken := make(chan error, 1)
		go func() { // a range waits
			_, err := m.driver.AddRange(m.ctx, finals[m.chain.lib():], Full)
			taken <- err
		}()
		l.slots(8)
		require.Empty(t, taken)
		require.Zero(t, votes())
		require.Zero(t, seals())
		require.True(t, m.driver.Status().Silent)
		now, err := os.ReadFile(log)
		require.NoError(t, err)
		was, _, _ := readEntries(before)
		is, _, _ := readEntries(now)
		require.Equal(t, was, is)

		// Others that start meanwhile are answered: two that wait for each other would wait for ever.
		o := l.nodes[1]
		o.kill()
		o.start(nil)
		l.slots(30)
		require.False(t, o.driver.Status().Silent, "%s %v %v", o.driver.Status().Why, l.nodes[2].heard, o.driver.Status().LIB)
		s := o.driver.Status().Session
		answer, err := m.driver.AnswerSession(m.ctx, s)
		require.NoError(t, err)
		require.NotEmpty(t, answer.Votes, "what the log holds of others is told")
		now, err = os.ReadFile(log)
		require.NoError(t, err)
		is, _, _ = readEntries(now)
		held, err := decodePayloads(is)
		require.NoError(t, err)
		require.Contains(t, held.marks.Sessions(o.driver.self, block.Session{}), *s, "the session is on the disk of who answered it")

		close(ready)
		require.NoError(t, <-taken)
		l.slots(60)
		require.False(t, m.driver.Status().Silent, m.driver.Status().Why)
		require.NotZero(t, votes())
		require.NotZero(t, seals())
	})
}
