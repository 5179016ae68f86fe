package evidence

import (
	"context"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// A broker whose account was changed, as after its key was stolen, goes on from the first number of the new one, and
// what was under way reaches the chain once.
func TestABrokerWithAnotherAccountGoesOn(t *testing.T) {
	for name, counted := range map[string]bool{"what was under way was counted": true, "it was not": false} {
		t.Run(name, func(t *testing.T) {
			c, ns := three(t)
			n := ns[0]
			n.open(t, c, quick)
			operate := func(partition int32) {
				n.e.Operated(topicA, [32]byte{}, op(1, 0, partition, 1, 1))
				require.NoError(t, n.e.ops.flush())
			}
			once := func() error { return n.e.out.once(context.Background(), false) }
			operate(0)
			require.NoError(t, once())
			operate(1)
			lost := errors.New("lost")
			if counted {
				c.after = func() error { return lost }
			} else {
				c.fail = func([]byte) error { return lost }
			}
			require.ErrorIs(t, once(), lost)
			c.fail, c.after = nil, nil
			n.close(t)

			n.account = common.Address{0xac}
			n.open(t, c, quick)
			operate(2)
			for range 3 {
				require.NoError(t, once())
			}
			require.Equal(t, map[string]int{"1/0": 3}, count(c.operations(topicA)))
			require.Equal(t, uint64(1), c.commits[n.account])
			_, rest, err := n.e.ops.peek(10)
			require.NoError(t, err)
			require.Empty(t, rest)
			n.close(t)
			// The new account's numbers are known from now on.
			n.open(t, c, quick)
			require.Equal(t, uint64(1), n.e.out.done)
			operate(3)
			require.NoError(t, once())
			require.Equal(t, uint64(2), c.commits[n.account])
			require.Empty(t, n.e.Alarms())
			n.close(t)
		})
	}
}

// Who has a broker's key and commits with it is seen, and does not stop the broker.
func TestCommitsOfAStrangerAreAnAlarm(t *testing.T) {
	c, ns := three(t)
	n := ns[0]
	c.commits[n.account] = 5 // made before this folder: nothing to compare with
	n.open(t, c, quick)
	operate := func(partition int32) {
		n.e.Operated(topicA, [32]byte{}, op(1, 0, partition, 1, 1))
		require.NoError(t, n.e.ops.flush())
		require.NoError(t, n.e.out.once(context.Background(), false))
	}
	operate(0)
	operate(1)
	require.Empty(t, n.e.Alarms())
	c.commits[n.account] += 3
	operate(2)
	require.Len(t, n.e.Alarms(), 1)
	require.Contains(t, n.e.Alarms()[0].Text, "somebody else has its key")
	operate(3)
	require.Len(t, n.e.Alarms(), 1, "once")
	require.Len(t, c.operations(topicA), 4)
	n.close(t)
}
