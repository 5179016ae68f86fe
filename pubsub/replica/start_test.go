package replica

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/store"
)

// onDisk makes nodes over real stores, that end with the test.
func onDisk(t *testing.T, names ...string) []*node {
	t.Helper()
	nodes := make([]*node, len(names))
	for i, name := range names {
		nodes[i] = newNode(t, name, aDisk(t))
	}
	return nodes
}

// onNewDisk makes a node that lost its disk and has a new one.
func onNewDisk(t *testing.T, name string) *node { return nodeOf(t, name, aDisk(t)) }

func aDisk(t *testing.T) Store {
	t.Helper()
	cfg := store.DefaultConfig()
	cfg.Dir = t.TempDir()
	s, err := store.Open(cfg, nil, zap.NewNop(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return Disk(s)
}

func lead(t *testing.T, l Lease, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		require.NoError(t, n.core.setLease(l))
	}
	exchange(nodes...)
}

// writeMany appends one batch of several records.
func (n *node) writeMany(records int32) {
	n.t.Helper()
	h := batch.Header{LastOffsetDelta: records - 1, Count: records, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1}
	_, _, err := n.core.append(batch.Encode(h, []byte("several")), 1, false)
	require.NoError(n.t, err)
}

// Records can be deleted up to the middle of a batch. A replica that has nothing yet, one that lags, and a new leader
// that lacks the batch get it whole all the same.
func TestALogMayBeginInsideABatch(t *testing.T) {
	nodes := onDisk(t, "a", "b", "c")
	a, b, c := nodes[0], nodes[1], nodes[2]
	lease := Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b", "c"}}
	for _, n := range nodes {
		require.NoError(t, n.core.setLease(lease))
	}
	exchange(a, b)
	a.writeMany(10)
	a.writeMany(10)
	exchange(a, b)
	require.Equal(t, int64(20), a.core.hw)
	require.NoError(t, a.core.data.DeleteBefore(5))
	exchange(a, c)
	require.NoError(t, c.core.broken)
	require.Equal(t, int64(20), c.core.data.End())
	require.Equal(t, int64(20), c.core.hw)
	require.Equal(t, int64(5), c.core.data.Start())

	late := onDisk(t, "d")[0]
	lead(t, Lease{Epoch: 2, Leader: "a", Replicas: []string{"a", "b", "c", "d"}}, a, b, c)
	lease = Lease{Epoch: 3, Leader: "d", Replicas: []string{"a", "b", "c", "d"}}
	lead(t, lease, a, b, c, late)
	require.Equal(t, leading, late.core.role)
	require.True(t, late.core.ready)
	require.Equal(t, int64(20), late.core.hw)
}

// What a leader deleted stays deleted when another one leads.
func TestReplicasFollowTheStart(t *testing.T) {
	nodes := onDisk(t, "a", "b", "c")
	a := nodes[0]
	lead(t, Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b", "c"}}, nodes...)
	for range 4 {
		a.writeMany(10)
	}
	exchange(nodes...)
	require.NoError(t, a.core.data.DeleteBefore(25))
	a.core.startMoved()
	exchange(nodes...)
	for _, n := range nodes {
		require.Equal(t, int64(25), n.core.data.Start(), n.name)
		require.Equal(t, int64(40), n.core.hw, n.name)
	}
}

// A leader can not have its replicas delete what they do not know to be committed.
func TestTheStartIsBelowTheHighWatermark(t *testing.T) {
	nodes := onDisk(t, "a", "b", "c")
	lead(t, Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b", "c"}}, nodes...)
	nodes[0].writeMany(10)
	exchange(nodes...)
	nodes[0].writeMany(10)
	b := nodes[1].core
	b.receive("a", &item{Kind: kindAppend, ID: simID, Epoch: 1, From: 10, Start: 20, Commit: 10})
	require.Equal(t, int64(10), b.data.Start())
	require.NoError(t, b.broken)
}

// A new leader copies from a replica that deletes, meanwhile, what was asked for: it goes on with what is left.
func TestTheBestLogIsShortenedMeanwhile(t *testing.T) {
	nodes := onDisk(t, "a", "b", "c")
	a, b, c := nodes[0], nodes[1], nodes[2]
	for _, n := range nodes {
		require.NoError(t, n.core.setLease(Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b", "c"}}))
	}
	exchange(a, c)
	a.writeMany(10)
	a.writeMany(10)
	exchange(a, c)
	require.Equal(t, int64(20), c.core.hw)
	for _, n := range []*node{b, c} {
		require.NoError(t, n.core.setLease(Lease{Epoch: 2, Leader: "b", Replicas: []string{"a", "b", "c"}}))
		n.settle()
	}
	clear(b.sent)
	b.core.linkUp("c")
	state, ok := c.core.next("b")
	require.True(t, ok)
	b.core.receive("c", &state)
	require.Equal(t, fetching, b.core.role)
	require.NoError(t, c.core.data.DeleteBefore(10))
	pass(b, c)
	require.True(t, b.core.ready)
	require.Equal(t, int64(10), b.core.data.Start())
	require.Equal(t, int64(20), b.core.hw)
}

// An answer that never comes, as the source could not read its log, is asked for again.
func TestTheBestLogIsAskedForAgain(t *testing.T) {
	nodes := onDisk(t, "a", "b", "c")
	a, b, c := nodes[0], nodes[1], nodes[2]
	for _, n := range nodes {
		require.NoError(t, n.core.setLease(Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b", "c"}}))
	}
	exchange(a, c)
	a.writeMany(10)
	exchange(a, c)
	for _, n := range []*node{b, c} {
		require.NoError(t, n.core.setLease(Lease{Epoch: 2, Leader: "b", Replicas: []string{"a", "b", "c"}}))
		n.settle()
	}
	b.core.linkUp("c")
	state, ok := c.core.next("b")
	require.True(t, ok)
	b.core.receive("c", &state)
	for ok := true; ok; { // what it asks for gets lost
		_, ok = b.core.next("c")
	}
	require.Equal(t, fetching, b.core.role)
	require.False(t, b.core.calm())
	for range slowRetries {
		b.core.retry()
	}
	pass(b, c)
	require.True(t, b.core.ready)
	require.Equal(t, int64(10), b.core.hw)
}

// A replica that comes back under another name is followed under the lease that stands, once its leader sees the name; and
// a leader that comes back under another name takes another epoch, as after any restart.
func TestReplicaUnderANewName(t *testing.T) {
	nodes := onDisk(t, "a", "b", "c")
	a, b, c := nodes[0], nodes[1], nodes[2]
	lead(t, Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b", "c"}}, nodes...)
	a.writeMany(10)
	exchange(nodes...)
	renamed := newNode(t, "c2", c.store)
	lease := Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b", "c2"}}
	lead(t, lease, a, b, renamed)
	require.Equal(t, retired, a.core.role)
	require.Equal(t, following, renamed.core.role)
	lead(t, Lease{Epoch: 2, Leader: "a", Replicas: []string{"a", "b", "c2"}}, a, b, renamed)
	a.writeMany(10)
	exchange(a, b, renamed)
	require.Equal(t, int64(20), renamed.core.hw)

	again := newNode(t, "a2", a.store)
	lead(t, Lease{Epoch: 2, Leader: "a2", Replicas: []string{"a2", "b", "c2"}}, again, b, renamed)
	require.Equal(t, retired, again.core.role)
	require.Equal(t, following, b.core.role)
}

// A replica that sees the lease after its leader gave it up learns that all the same.
func TestALateReplicaLearnsThatItsLeaderGaveUp(t *testing.T) {
	nodes := onDisk(t, "a", "b", "c")
	a, b, c := nodes[0], nodes[1], nodes[2]
	lease := Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b", "c"}}
	lead(t, lease, a, b)
	a.core.fail("a test", errors.New("input/output error"))
	pass(a, b, c) // c does not know the lease yet
	require.NotZero(t, b.losses)
	require.Zero(t, c.losses)
	require.NoError(t, c.core.setLease(lease))
	pass(a, b, c)
	require.NotZero(t, c.losses)
}

// A replica that claims the best log and gives nothing of it holds an election up for some seconds, not for ever; the
// leader feeds it like any other then.
func TestAClaimantThatGivesNothing(t *testing.T) {
	nodes := onDisk(t, "a", "b", "c")
	a, b, c := nodes[0], nodes[1], nodes[2]
	lead(t, Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b", "c"}}, nodes...)
	a.writeMany(10)
	exchange(nodes...)
	for _, n := range nodes {
		require.NoError(t, n.core.setLease(Lease{Epoch: 2, Leader: "b", Replicas: []string{"a", "b", "c"}}))
		n.settle()
	}
	b.core.linkUp("c")
	state, ok := c.core.next("b")
	require.True(t, ok)
	state.End = 1000
	b.core.receive("c", &state)
	require.Equal(t, fetching, b.core.role)
	b.core.linkUp("a")
	pass(a, b) // a's state comes, and no answer of c
	require.Equal(t, fetching, b.core.role)
	for range slowRetries * maxAsked {
		b.core.retry()
		pass(a, b)
	}
	require.True(t, b.core.ready)
	b.writeMany(10)
	for range slowRetries {
		b.core.retry()
		pass(nodes...)
	}
	require.Equal(t, int64(20), c.core.hw)
}
