package replica

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// three gives brokers on stores in memory, of which a leads epoch 1 with ten committed batches that c may lack.
func three(t *testing.T, toC bool) (a, b, c *node) {
	t.Helper()
	a, b, c = newNode(t, "a", newMemStore()), newNode(t, "b", newMemStore()), newNode(t, "c", newMemStore())
	for _, n := range []*node{a, b, c} {
		require.NoError(t, n.core.setLease(Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b", "c"}}))
	}
	nodes := []*node{a, b}
	if toC {
		nodes = append(nodes, c)
	}
	exchange(nodes...)
	for range 10 {
		a.write("x")
	}
	exchange(nodes...)
	require.Equal(t, int64(10), a.core.hw)
	return a, b, c
}

// A replica that has a part of the leader's first log only must not pass for one that has all: it would win elections.
func TestAcceptanceNeedsTheWholeFirstLog(t *testing.T) {
	a, _, c := three(t, false)
	c.settle()
	data, err := a.core.data.Read(0, 1<<20, 10)
	require.NoError(t, err)
	part, err := a.core.data.Read(0, len(data)/2, 10)
	require.NoError(t, err)
	it := item{Kind: kindAppend, ID: simID, Epoch: 1, First: true, InitEnd: 10, Commit: 10, Data: part}
	c.core.receive("a", &it)
	c.settle()
	accepted, end := c.core.data.Position()
	require.Positive(t, end)
	require.Equal(t, int32(0), accepted)
	it = item{Kind: kindAppend, ID: simID, Epoch: 1, InitEnd: 10, Commit: 10, Data: data} // with a part that it has
	c.core.receive("a", &it)
	c.settle()
	accepted, end = c.core.data.Position()
	require.Equal(t, int64(10), end)
	require.Equal(t, int32(1), accepted)
}

// Copies under an older epoch do not count, however many there are.
func TestCopiesUnderOlderEpochsCommitNothing(t *testing.T) {
	a, _, _ := three(t, true)
	a.write("y")
	a.settle()
	for _, peer := range []string{"b", "c"} {
		a.core.receive(peer, &item{Kind: kindAck, ID: simID, Epoch: 1, Accepted: 0, End: 11})
	}
	require.Equal(t, int64(10), a.core.hw)
	a.core.receive("b", &item{Kind: kindAck, ID: simID, Epoch: 1, Accepted: 1, End: 12})
	require.Equal(t, int64(10), a.core.hw, "nobody has what was never sent")
	a.core.receive("b", &item{Kind: kindAck, ID: simID, Epoch: 1, Accepted: 1, End: 11})
	require.Equal(t, int64(11), a.core.hw)
}

// A stash is safe to drop when its batches are committed, not when they are written.
func TestSalvagedMeansCommitted(t *testing.T) {
	a, b, c := three(t, true)
	entry := wrap(record("alone", -1, -1), origin{epoch: 0, offset: 10}, 10, 0)
	a.core.receive("c", &item{Kind: kindSalvage, ID: simID, Epoch: 1, Data: entry})
	a.settle()
	require.Equal(t, int64(11), a.core.data.End())
	require.False(t, a.core.members["c"].tellSalvaged)
	a.core.receive("c", &item{Kind: kindSalvage, ID: simID, Epoch: 1, Data: entry})
	require.Equal(t, int64(11), a.core.data.End(), "the same batch once more")
	a.core.receive("b", &item{Kind: kindAck, ID: simID, Epoch: 1, Accepted: 1, End: 11})
	require.True(t, a.core.members["c"].tellSalvaged)
	exchange(a, b, c)
	require.Equal(t, a.log(), c.log())
}

// A leader cannot make a replica cut what that replica knows to be committed.
func TestCommittedIsNotCut(t *testing.T) {
	_, _, c := three(t, true)
	require.Equal(t, int64(10), c.core.hw)
	require.NoError(t, c.core.setLease(Lease{Epoch: 2, Leader: "b", Replicas: []string{"a", "b", "c"}}))
	c.settle()
	for _, it := range []item{
		{Kind: kindAppend, Epoch: 2, First: true, Match: 4, From: 4},
		{Kind: kindAppend, Epoch: 2, First: true, Restart: true, Match: 3, From: 3},
	} {
		c.core.broken = nil
		c.core.receive("b", &it)
		require.Error(t, c.core.broken)
		require.Equal(t, int64(10), c.core.data.End())
	}
	c.core.broken = nil
	c.core.receive("a", &item{Kind: kindAppend, Epoch: 2, First: true, Match: 10, From: 10})
	require.False(t, c.core.aligned, "only the leader of the lease is listened to")
	c.core.receive("b", &item{Kind: kindAppend, Epoch: 1, First: true, Match: 10, From: 10})
	c.core.receive("b", &item{Kind: kindAppend, Epoch: 3, First: true, Match: 10, From: 10})
	require.False(t, c.core.aligned, "neither below the promise nor above the own view")
}
