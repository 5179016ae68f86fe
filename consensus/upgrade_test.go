package consensus

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/chain"
)

// stopped checks that a node's Run has ended because of the upgrade, and takes the error.
func (m *member) stopped(height uint64) {
	m.lab.t.Helper()
	select {
	case <-m.ended:
	case <-time.After(time.Minute): // of the bubble
		require.FailNow(m.lab.t, "the node runs on")
	}
	var unknown chain.ErrUnknownUpgrade
	require.ErrorAs(m.lab.t, m.err, &unknown)
	require.Equal(m.lab.t, height, unknown.Height)
	require.NotErrorIs(m.lab.t, m.err, ErrInvalid)
	m.err = nil
}

// A node that does not know an upgrade stops before its height, whether it executes or builds the first block of it,
// at each start anew; the others go on. With the description it goes on too.
func TestUnknownUpgradeEndsRun(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		old := l.nodes[3]
		old.chain.upgrade = 10
		l.start()
		l.slots(25)
		old.stopped(10)
		require.EqualValues(t, 9, old.driver.Status().Executed.Height)
		require.False(t, old.driver.failed.Contains(l.nodes[0].chain.finals()[9].Hash()), "the block is not to blame")
		for _, m := range l.nodes[:3] {
			require.Greater(t, m.driver.Status().LIB.Height, uint64(10))
			require.Empty(t, m.bad)
		}
		old.start(nil)
		l.slots(5)
		old.stopped(10)

		old.chain.upgrade = 0
		old.start(nil)
		r, err := old.driver.AddRange(old.ctx, l.nodes[0].chain.finals(), Full)
		require.NoError(t, err)
		require.Greater(t, r.Applied, uint64(10))
		l.slots(10)
		require.LessOrEqual(t, old.driver.Status().Head.Height-old.driver.Status().LIB.Height, uint64(2))
	})
}

// The producer of the upgrade's first block stops in its own slot.
func TestUnknownUpgradeStopsProduction(t *testing.T) {
	inBubble(t, 1, func(l *lab) {
		l.nodes[0].chain.upgrade = 7
		l.start()
		l.slots(20)
		l.nodes[0].stopped(7)
		require.EqualValues(t, 6, l.nodes[0].driver.Status().Executed.Height)
	})
}

func TestUnknownUpgradeInARange(t *testing.T) {
	for _, mode := range []Mode{Full, Certified} {
		inBubble(t, 4, func(l *lab) {
			blocks, _ := l.history(30)
			m := l.observer()
			m.chain.upgrade = 12
			m.start(nil)
			_, err := m.driver.AddRange(m.ctx, blocks, mode)
			require.Error(t, err)
			for _, no := range []error{ErrInvalid, ErrUnknownParent, ErrKnown, ErrFuture, ErrBelowLIB} {
				require.NotErrorIs(t, err, no, "who sent it is not to blame")
			}
			m.stopped(12)
			m.chain.upgrade = 0
		})
	}
}
