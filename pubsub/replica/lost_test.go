package replica

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
)

var abc = []string{"a", "b", "c"}

// A leader that lost its disk does not lead its epoch again: what it would append there, others may have otherwise.
func TestALeaderWithoutItsDiskTakesAnotherEpoch(t *testing.T) {
	nodes := onDisk(t, abc...)
	a, b, c := nodes[0], nodes[1], nodes[2]
	lease := Lease{Epoch: 1, Leader: "a", Replicas: abc}
	lead(t, lease, a, b, c)
	a.writeMany(10)
	exchange(a, b, c)
	empty := onNewDisk(t, "a")
	lead(t, lease, empty, b, c)
	require.Equal(t, retired, empty.core.role)
	require.NotZero(t, empty.losses)
	require.NotZero(t, b.losses, "one that has the log may claim first")
	require.NotZero(t, c.losses)
	require.Equal(t, 2, (&part{m: &Manager{self: "a"}, core: empty.core}).rank())
	require.Equal(t, 0, (&part{m: &Manager{self: "b"}, core: b.core}).rank())
	lead(t, Lease{Epoch: 2, Leader: "a", Replicas: abc}, empty, b, c)
	require.True(t, empty.core.ready)
	require.Equal(t, int64(10), empty.core.hw)
}

// committedByTwo has a and b commit a batch that c lacks.
func committedByTwo(t *testing.T) (a, b, c *node) {
	nodes := onDisk(t, abc...)
	a, b, c = nodes[0], nodes[1], nodes[2]
	for _, n := range nodes {
		require.NoError(t, n.core.setLease(Lease{Epoch: 1, Leader: "a", Replicas: abc}))
	}
	exchange(a, b)
	a.writeMany(10)
	exchange(a, b)
	require.Equal(t, int64(10), a.core.hw)
	return a, b, c
}

// One disk is lost and one broker is slow: the replica that lags does not become leader on the word of the empty one.
func TestAReplicaWithoutItsDiskElectsNobody(t *testing.T) {
	_, b, c := committedByTwo(t)
	empty := onNewDisk(t, "a")
	second := Lease{Epoch: 2, Leader: "c", Replicas: abc}
	lead(t, second, empty, c)
	for range slowRetries {
		c.core.retry()
		pass(empty, c)
	}
	require.Equal(t, fencing, c.core.role)
	require.True(t, c.core.dataLost())
	require.True(t, c.core.told)
	_, _, err := c.core.append(record("x", -1, -1), 1, true)
	require.ErrorIs(t, err, ErrLost)
	require.NoError(t, b.core.setLease(second))
	exchange(empty, b, c)
	require.True(t, c.core.ready)
	for _, n := range []*node{empty, b, c} {
		require.Equal(t, int64(10), n.core.hw, n.name)
		require.False(t, n.core.forgot(), "it has everything")
	}
	// The one that was empty counts again.
	lead(t, Lease{Epoch: 3, Leader: "a", Replicas: abc}, empty, c)
	require.True(t, empty.core.ready)
}

// A leader without its disk takes the log from those that still have theirs, and waits for them.
func TestALeaderWithoutItsDiskWaitsForTheOthers(t *testing.T) {
	_, b, c := committedByTwo(t)
	empty := onNewDisk(t, "a")
	lead(t, Lease{Epoch: 2, Leader: "c", Replicas: abc}, empty, c)
	lease := Lease{Epoch: 3, Leader: "a", Replicas: abc}
	lead(t, lease, empty, c)
	require.Equal(t, fencing, empty.core.role)
	require.NoError(t, b.core.setLease(lease))
	exchange(empty, b, c)
	require.True(t, empty.core.ready)
	require.Equal(t, int64(10), empty.core.hw)
}

// A replica comes back empty within the epoch in which it acknowledged a batch: its acceptance counts when it has that
// batch again, not before.
func TestAReplicaWithoutItsDiskHasToCatchUp(t *testing.T) {
	a, _, c := committedByTwo(t)
	empty := onNewDisk(t, "b")
	require.NoError(t, empty.core.setLease(Lease{Epoch: 1, Leader: "a", Replicas: abc}))
	a.core.linkUp("b")
	empty.core.linkUp("a")
	empty.settle()
	state, ok := empty.core.next("a")
	require.True(t, ok)
	require.Equal(t, int32(-1), state.Accepted)
	a.core.receive("b", &state)
	require.False(t, a.core.members["b"].joined)
	first, ok := a.core.next("b")
	for ok && first.Kind != kindAppend {
		first, ok = a.core.next("b")
	}
	require.True(t, ok)
	require.Equal(t, int64(10), first.InitEnd, "all that it may have had")
	first.Data, first.UpTo = nil, first.From // the batch is lost on the way
	empty.core.receive("a", &first)
	empty.settle()
	require.True(t, empty.core.forgot())
	second := Lease{Epoch: 2, Leader: "c", Replicas: abc}
	lead(t, second, empty, c)
	require.False(t, c.core.ready, "the batch would be gone")
	require.NoError(t, a.core.setLease(second))
	exchange(a, empty, c)
	require.Equal(t, int64(10), c.core.hw)
	require.False(t, empty.core.forgot())
}

// The only replica lost its disk: nobody leads until the owner wants it so.
func TestTheOnlyReplicaLostItsDisk(t *testing.T) {
	a := onNewDisk(t, "a")
	lease := Lease{Epoch: 1, Leader: "a", Replicas: []string{"a"}}
	require.NoError(t, a.core.setLease(lease))
	require.Equal(t, retired, a.core.role)
	lease.Epoch = 2
	require.NoError(t, a.core.setLease(lease))
	a.settle()
	require.True(t, a.core.dataLost())
	require.False(t, a.core.calm())
	lease.Unclean = true
	require.NoError(t, a.core.setLease(lease))
	a.settle()
	require.True(t, a.core.ready)
	a.writeMany(10)
	a.settle()
	require.Equal(t, int64(10), a.core.hw)
	lease.Unclean = false
	require.NoError(t, a.core.setLease(lease))
	require.True(t, a.core.ready, "the lease is the same")
	lease.Epoch = 3
	require.NoError(t, a.core.setLease(lease))
	a.settle()
	require.True(t, a.core.ready, "it knows again what it has")
}

// What is left is taken, not what the emptiest has, where the owner wants a leader although disks were lost.
func TestTheBestOfWhatIsLeft(t *testing.T) {
	_, b, _ := committedByTwo(t)
	a, c := onNewDisk(t, "a"), onNewDisk(t, "c")
	lease := Lease{Epoch: 2, Leader: "c", Replicas: abc}
	lead(t, lease, a, b, c)
	require.True(t, c.core.dataLost() || c.core.role == retired)
	lease.Epoch, lease.Unclean = 3, true
	lead(t, lease, a, b, c)
	require.True(t, c.core.ready)
	require.Equal(t, int64(10), c.core.hw)
}

// A broker that comes back after an election from what was left has what nobody else has any more: it keeps its log, also
// when others take its place.
func TestTheLastLogIsNotSpent(t *testing.T) {
	_, b, _ := committedByTwo(t)
	a, c := onNewDisk(t, "a"), onNewDisk(t, "c")
	lead(t, Lease{Epoch: 2, Leader: "c", Replicas: abc, Unclean: true}, a, c)
	lease := Lease{Epoch: 3, Leader: "c", Replicas: abc, Unclean: true}
	lead(t, lease, a, c)
	require.True(t, c.core.ready)
	require.Zero(t, c.core.hw, "nothing was left")
	spent := func(n *node) bool {
		return (&Manager{self: n.name, parts: map[ID]*part{simID: {core: n.core}}}).Spent(simID)
	}
	require.NoError(t, b.core.setLease(lease))
	exchange(a, b, c)
	require.ErrorIs(t, b.core.broken, errApart)
	lead(t, Lease{Epoch: 4, Leader: "c", Replicas: []string{"a", "c"}}, a, b, c)
	require.Equal(t, idle, b.core.role)
	require.Equal(t, int64(10), b.core.data.End())
	require.False(t, spent(b))
	lead(t, Lease{Epoch: 5, Leader: "c", Replicas: []string{"c"}}, a, c)
	require.True(t, spent(a))
}

// A leader that takes in a replica goes on with its own log: it needs nobody's word on what it committed alone, not even
// where the newcomer is needed for every majority from now on.
func TestALeaderThatGoesOnKeepsItsLog(t *testing.T) {
	a := onDisk(t, "a")[0]
	lead(t, Lease{Epoch: 1, Leader: "a", Replicas: []string{"a"}}, a)
	a.writeMany(10)
	a.settle()
	require.Equal(t, int64(10), a.core.hw)
	b := onNewDisk(t, "b")
	lease := Lease{Epoch: 2, Leader: "a", Replicas: []string{"a", "b"}}
	lead(t, lease, a, b)
	require.True(t, a.core.ready)
	require.Equal(t, int64(10), b.core.hw)
	require.False(t, b.core.forgot())
}

// Of two replicas one is made anew, on another disk and under another name: the other, which led, gives it everything.
func TestTheOtherOfTwoReplicasIsMadeAnew(t *testing.T) {
	nodes := onDisk(t, "a", "b")
	a := nodes[0]
	lead(t, Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b"}}, nodes...)
	a.writeMany(10)
	pass(nodes...)
	require.Equal(t, int64(10), a.core.hw)
	anew := onNewDisk(t, "b2")
	lease := Lease{Epoch: 1, Leader: "a", Replicas: []string{"a", "b2"}}
	lead(t, lease, a, anew)
	require.Equal(t, retired, a.core.role)
	lease.Epoch = 2
	lead(t, lease, a, anew)
	require.True(t, a.core.ready)
	require.Equal(t, int64(10), anew.core.hw)
}

// damage has a node's log meet damage at an offset, as a read does while it runs.
func (n *node) damage(at int64) {
	n.t.Helper()
	_, m, err := n.core.data.Mend(damagedAt(at))
	require.NoError(n.t, err)
	next, err := n.core.afterLoss(m)
	require.NoError(n.t, err)
	n.core = next
}

// inMemory are nodes whose logs a test can damage.
func inMemory(t *testing.T, names ...string) (nodes []*node) {
	for _, name := range names {
		nodes = append(nodes, newNode(t, name, newMemStore()))
	}
	return nodes
}

// A replica that lost what it had acknowledged elects nobody until it has it again, also while its process lives.
func TestADamagedReplicaHasNoVote(t *testing.T) {
	nodes := inMemory(t, abc...)
	a, b, c := nodes[0], nodes[1], nodes[2]
	for _, n := range nodes {
		require.NoError(t, n.core.setLease(Lease{Epoch: 1, Leader: "a", Replicas: abc}))
	}
	exchange(a, b)
	for range 10 {
		a.writeMany(1)
	}
	exchange(a, b) // c has nothing
	require.Equal(t, int64(10), a.core.hw)
	b.core.synced(b.core.snapshot())
	late := b.core.snapshot()
	b.damage(4)
	b.core.synced(late) // of before the damage
	require.True(t, b.core.forgot())
	require.Equal(t, int32(-1), b.core.durable.accepted)
	require.LessOrEqual(t, b.core.durable.end, int64(4))
	second := Lease{Epoch: 2, Leader: "c", Replicas: abc}
	lead(t, second, b, c)
	require.False(t, c.core.ready, "b and c lack six records that were committed")
	require.True(t, c.core.dataLost())
	require.NoError(t, a.core.setLease(second))
	exchange(a, b, c)
	require.True(t, c.core.ready)
	for _, n := range nodes {
		require.Equal(t, int64(10), n.core.hw, n.name)
		require.False(t, n.core.forgot(), n.name)
		require.Len(t, n.log(), 10)
	}
}

// A leader that finds its log damaged gives its epoch up; another one leads, and it copies what it lacks.
func TestADamagedLeaderGivesUp(t *testing.T) {
	nodes := inMemory(t, abc...)
	a, b, c := nodes[0], nodes[1], nodes[2]
	lead(t, Lease{Epoch: 1, Leader: "a", Replicas: abc}, nodes...)
	for range 10 {
		a.writeMany(1)
	}
	exchange(nodes...)
	want := a.log()
	a.damage(0)
	require.Equal(t, retired, a.core.role)
	pass(nodes...)
	require.NotZero(t, b.losses, "it is told")
	lead(t, Lease{Epoch: 2, Leader: "b", Replicas: abc}, a, b, c)
	for _, n := range nodes {
		require.Equal(t, want, n.log(), n.name)
	}
	require.False(t, a.core.forgot())
}

// Damage in what a partition has set aside costs that alone: the partition's log is not cut.
func TestADamagedStashLeavesTheLogAlone(t *testing.T) {
	s := newMemStore()
	data, err := s.Open(simID, true)
	require.NoError(t, err)
	_, err = data.Enter(0)
	require.NoError(t, err)
	stash, err := s.Open(stashID(simID), true)
	require.NoError(t, err)
	for i := range int64(4) {
		raw := record("some", -1, -1)
		batch.Assign(raw, i, 0)
		_, err = data.Accept(raw)
		require.NoError(t, err)
		_, err = stash.Accept(wrap(record("set aside", -1, -1), origin{0, 10 + i}, 10, i))
		require.NoError(t, err)
	}
	m, err := New(DefaultConfig(), Deps{Self: "a", Store: s})
	require.NoError(t, err)
	require.NoError(t, m.SetLeases([]Lease{{Topic: simID.Topic, Partition: simID.Partition, Epoch: 1, Leader: "b", Replicas: abc}}))
	for _, at := range []int64{2, 0} {
		m.Damaged(stashID(simID), damagedAt(at))
		m.mendDamaged()
		entered, end := data.Position()
		require.Equal(t, int32(0), entered)
		require.Equal(t, int64(4), end)
		require.Equal(t, at, stash.End())
	}
	require.Nil(t, m.part(simID).core.stash, "nothing is left of it")
}
