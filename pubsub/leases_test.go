package pubsub

import (
	"context"
	"errors"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/group"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// unreadLog is a log of groups that cannot be read.
type unreadLog struct{ asked chan struct{} }

func (unreadLog) Append(context.Context, int32, []byte) (group.Pending, error) {
	return nil, errors.New("not asked for")
}
func (unreadLog) Trim(context.Context, int32, int64) error { return nil }
func (u unreadLog) Replay(ctx context.Context, _ int32, _ func([]byte) error) error {
	close(u.asked)
	<-ctx.Done()
	return ctx.Err()
}

// A topic is deleted while groups are being read: leases are followed on, as the reading may need the next ones.
func TestADeletedTopicDoesNotHoldLeasesUp(t *testing.T) {
	log := unreadLog{make(chan struct{})}
	b := &Broker{groups: group.New(group.DefaultConfig(), group.Deps{Log: log, Logger: zap.NewNop()})}
	defer b.groups.Close()
	l := newLeases(b)
	b.groups.Lead(3, 1)
	<-log.asked
	l.topicsGone(t.Context(), map[string]struct{}{"acme.orders": {}}) // or it would end here
	b.groups.Resign(3)
	l.wg.Wait()
	require.Empty(t, l.known)
}

// A broker that registers with another node key is called by it at once, under leases that stand.
func TestABrokerWithANewKeyKeepsItsLeases(t *testing.T) {
	l := newLeases(&Broker{})
	orders := &ledger.Topic{Name: "acme.orders"}
	a, b := common.Address{1}, common.Address{2}
	part := &ledger.Partition{Leader: a, Epoch: 3, Replicas: []common.Address{a, b}}
	peers := map[common.Address]string{a: "peer a", b: "peer b"}
	take := func() *replica.Lease {
		return l.take(store.ID{}, orders, part, peers, store.Retention{}, false)
	}
	require.NotNil(t, take())
	require.Nil(t, take())
	peers[b] = "new peer b"
	require.Equal(t, []string{"peer a", "new peer b"}, take().Replicas)
	require.Nil(t, take())
	peers[a] = "new peer a"
	require.Equal(t, "new peer a", take().Leader)
	require.Nil(t, take())
}

// What a topic keeps cannot be written down on a full disk; who leads it counts all the same.
func TestALeaseCountsOnAFullDisk(t *testing.T) {
	cfg := store.DefaultConfig()
	cfg.Dir = t.TempDir()
	s, err := store.Open(cfg, nil, zap.NewNop(), nil)
	require.NoError(t, err)
	id := store.ID{Topic: [32]byte{1}}
	_, err = s.Create(id, store.Retention{})
	require.NoError(t, err)
	require.NoError(t, s.Close()) // it refuses whatever is to be written
	l := newLeases(&Broker{deps: Deps{Store: s, Log: zap.NewNop()}})
	a := common.Address{1}
	orders := &ledger.Topic{Name: "acme.orders"}
	part := &ledger.Partition{Leader: a, Epoch: 3, Replicas: []common.Address{a}}
	peers := map[common.Address]string{a: "peer a"}
	got := l.take(id, orders, part, peers, store.Retention{Bytes: 1}, true)
	require.NotNil(t, got)
	require.Equal(t, int32(3), got.Epoch)
	require.Equal(t, store.Retention{}, l.known[id].retain, "tried again")
	require.Nil(t, l.take(store.ID{Partition: 7}, orders, part, peers, store.Retention{}, true), "it is not kept yet")
}

// What a dead broker led is claimed in as few transactions as the contract takes.
func TestClaimsFillTheirTransactions(t *testing.T) {
	c, _, r := replacing(t, 600)
	b := r.b
	b.deps.Ledger, b.leases = fixedLedger{view: c.view(t)}, newLeases(b)
	var lost []replica.Lost
	for i := range int32(600) {
		lost = append(lost, replica.Lost{ID: replica.ID{Topic: [32]byte{1}, Partition: i}, Epoch: 1})
	}
	b.Lost(lost)
	seen := make(map[uint32]bool)
	for _, want := range []int{512, 88, 0} {
		list := b.toClaim()
		require.Len(t, list, want)
		if want > 0 {
			_, err := contracts.ClaimCall(list)
			require.NoError(t, err)
		}
		for _, x := range list {
			require.False(t, seen[x.Partition], "twice")
			seen[x.Partition] = true
		}
	}
}

// fixedLedger is a ledger that stands still.
type fixedLedger struct {
	silentLedger
	view *ledger.View
}

func (l fixedLedger) View() *ledger.View { return l.view }
