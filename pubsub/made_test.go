package pubsub

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// told is a ledger that shows what a test tells.
type told struct {
	view    atomic.Pointer[ledger.View]
	changed chan struct{} // one for each view, taken by who waits
}

func (l *told) View() *ledger.View       { return l.view.Load() }
func (l *told) Changed() <-chan struct{} { return l.changed }
func (l *told) StaleFor() time.Duration  { return 0 }

func (l *told) show(v *ledger.View) {
	l.view.Store(v)
	l.changed <- struct{}{}
}

// keeps are replicas that note their leases.
type keeps struct {
	Replicas
	leases  []replica.Lease
	spent   bool
	dropped []replica.ID
}

func (k *keeps) SetLeases(l []replica.Lease) error { k.leases = append(k.leases, l...); return nil }
func (k *keeps) Spent(replica.ID) bool             { return k.spent }
func (k *keeps) Drop(id replica.ID) error          { k.dropped = append(k.dropped, id); return nil }

type submits func(data []byte) error

func (s submits) Submit(_ context.Context, _ string, data []byte) error { return s(data) }

func brokerWithStore(t *testing.T, k *keeps) (*Broker, *told) {
	t.Helper()
	sc := store.DefaultConfig()
	sc.Dir = t.TempDir()
	s, err := store.Open(sc, nil, zap.NewNop(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	cfg := DefaultConfig()
	cfg.Dir = t.TempDir()
	l := &told{changed: make(chan struct{})}
	b, err := New(cfg, Deps{PeerID: "L", Account: common.Address{'L'}, Ledger: l, Store: s, Replicas: k,
		Submit: submits(func([]byte) error { return nil }), Final: func() uint64 { return 0 }})
	require.NoError(t, err)
	t.Cleanup(b.groups.Close)
	return b, l
}

func letterChain() *chain {
	c, _, _ := replacing(nil, 1)
	return c
}

// A broker with a new store begins when a transaction is final that was made after the store, and the state it acts on is
// as new; what is sent is new each time.
func TestANewStoreIsTiedToTheChain(t *testing.T) {
	b, l := brokerWithStore(t, &keeps{})
	c := letterChain()
	var sent []string
	b.deps.Submit = submits(func(data []byte) error {
		if sent = append(sent, string(data)); len(sent) == 1 {
			return errors.New("no room")
		}
		return nil
	})
	b.deps.Final = func() uint64 { return 30 }
	done := make(chan bool, 1)
	go func() { done <- b.tie(t.Context()) }()
	c.height = 20
	l.show(c.view(t))
	c.height = 29
	l.show(c.view(t))
	l.show(c.view(t)) // it has looked at the one before
	select {
	case <-done:
		require.Fail(t, "it began with a state that may be older than the store")
	default:
	}
	c.height = 30
	l.view.Store(c.view(t))
	select {
	case l.changed <- struct{}{}:
		require.True(t, <-done)
	case ok := <-done: // it was about to look
		require.True(t, ok)
	}
	require.Len(t, sent, 2)
	require.NotEqual(t, sent[0], sent[1])
	made, ok := b.deps.Store.Made()
	require.True(t, ok)
	require.Equal(t, uint64(30), made)
	require.True(t, b.tie(t.Context()), "once is enough")
	require.Len(t, sent, 2)
}

// A log that is made where the broker may have kept another before counts for nothing; one of a topic that is younger than
// the store, or of a partition that the broker is seen to be added to, is whole.
func TestALogIsWholeIfTheStoreIsOlder(t *testing.T) {
	for name, c := range map[string]struct {
		created uint64
		added   bool
		want    bool
	}{
		"an old topic":          {10, false, false},
		"a topic after it":      {11, false, true},
		"an old topic's change": {10, true, true},
	} {
		k := &keeps{}
		b, _ := brokerWithStore(t, k)
		require.NoError(t, b.deps.Store.SetMade(10))
		x := letterChain()
		x.topic.Created, x.height = c.created, 12
		lease := &x.topic.Leases[0]
		lease.Leader = common.Address{'F'}
		if c.added {
			lease.Replicas = accountsOf("FD")
			require.NoError(t, b.leases.apply(t.Context(), x.view(t)))
			require.Empty(t, k.leases)
			lease.Replicas, lease.Epoch = accountsOf("FDL"), 2
		}
		require.NoError(t, b.leases.apply(t.Context(), x.view(t)))
		require.Len(t, k.leases, 1, name)
		require.Equal(t, c.want, k.leases[0].Whole, name)
	}
}

// What the owner wants of a partition whose disks were lost reaches its replicas under the lease that stands.
func TestTheOwnersWishReachesTheReplicas(t *testing.T) {
	k := &keeps{}
	b, _ := brokerWithStore(t, k)
	x := letterChain()
	require.NoError(t, b.leases.apply(t.Context(), x.view(t)))
	require.NoError(t, b.leases.apply(t.Context(), x.view(t)))
	require.Len(t, k.leases, 1)
	require.False(t, k.leases[0].Unclean)
	var err error
	x.topic.Config, err = contracts.EncodeTopicConfig(map[string]string{setUnclean: "true"})
	require.NoError(t, err)
	require.NoError(t, b.leases.apply(t.Context(), x.view(t)))
	require.Len(t, k.leases, 2)
	require.True(t, k.leases[1].Unclean)

	b.cfg.UncleanOffsets = true
	require.True(t, b.unclean(&ledger.Topic{Name: offsetsTopic}), "it has no owner")
	require.False(t, b.unclean(&ledger.Topic{Name: "acme.t"}))
}

// The log of a partition that others keep goes after a while, not before what it alone had is safe; the promises that go
// with it are never missed, since no older state is acted on.
func TestALogThatOthersKeepIsDeleted(t *testing.T) {
	k := &keeps{}
	b, _ := brokerWithStore(t, k)
	now := time.Unix(1e6, 0)
	b.deps.Now = func() time.Time { return now }
	require.NoError(t, b.deps.Store.SetMade(1))
	x := letterChain()
	id := store.ID{Topic: x.topic.Id}
	apply := func(height int64) {
		x.height = height
		require.NoError(t, b.leases.apply(t.Context(), x.view(t)))
	}
	lease := &x.topic.Leases[0]
	apply(2)
	require.NotNil(t, b.deps.Store.Partition(id))
	lease.Leader, lease.Replicas, lease.Epoch = common.Address{'F'}, accountsOf("FD"), 2
	apply(3)
	now = now.Add(2 * spentKept)
	apply(4)
	require.NotNil(t, b.deps.Store.Partition(id), "the leader has not everything yet")
	k.spent = true
	apply(5)
	now = now.Add(spentKept - time.Second)
	apply(6)
	require.NotNil(t, b.deps.Store.Partition(id))
	now = now.Add(time.Second)
	apply(7)
	require.Nil(t, b.deps.Store.Partition(id))
	require.Equal(t, []replica.ID{replica.ID(id)}, k.dropped)
	require.Equal(t, uint64(7), b.deps.Store.Floor())

	was := len(k.leases)
	lease.Replicas, lease.Epoch = accountsOf("FDL"), 3
	apply(6)
	require.Len(t, k.leases, was, "a chain that is read anew")
	require.Nil(t, b.deps.Store.Partition(id))
	apply(8)
	require.Len(t, k.leases, was+1)
	require.True(t, k.leases[was].Whole)
}
