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

		_, err = m.driver.VotesBy(m.ctx, l.signers[1].Account())
		require.ErrorIs(t, err, ErrNotReady, "an answer of a node that takes no votes would be worth little")
		_, err = m.driver.Schedule()
		require.NoError(t, err)
		finals := l.nodes[1].chain.finals()
		newest := finals[len(finals)-1]
		require.ErrorIs(t, m.driver.CheckHeader(newest.SealedHeader), ErrNotReady)
		_, err = m.driver.AddVotes([]block.Vote{{}})
		require.ErrorIs(t, err, ErrNotReady)
		require.ErrorIs(t, m.driver.AddCertificate(l.nodes[1].driver.Status().FC), ErrNotReady)
		require.ErrorIs(t, m.driver.HearProducer(m.ctx, Answer{Producer: l.signers[1].Account()}), ErrNotReady)
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
		require.Equal(t, before, now)

		close(ready)
		require.NoError(t, <-taken)
		m.greet()
		l.slots(60)
		require.False(t, m.driver.Status().Silent, m.driver.Status().Why)
		require.NotZero(t, votes())
		require.NotZero(t, seals())
	})
}
