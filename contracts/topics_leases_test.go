package contracts

import (
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

func TestBrokers(t *testing.T) {
	w := newTopicWorld(t, 3)
	list := func() []Broker {
		b, err := DecodeBrokers(w.readFrom(TopicsAddress, BrokersCall()))
		require.NoError(t, err)
		return b
	}
	all := list()
	require.Len(t, all, 3)
	require.Equal(t, Broker{2, w.brokers[1].account, "broker1.example", 9093, peerOf(2), true}, all[1])

	// Changing what was registered keeps the number.
	data, err := RegisterBrokerCall("10.0.0.9", 1234, peerOf(2))
	w.must(w.brokers[1], data, err)
	e := eventsOf[BrokerSet](w)[0]
	require.Equal(t, []any{uint32(2), "10.0.0.9", uint16(1234), true}, []any{e.Id, e.Host, e.Port, e.Live})
	require.Equal(t, Broker{2, w.brokers[1].account, "10.0.0.9", 1234, peerOf(2), true}, list()[1])

	for _, c := range []struct {
		from operator
		data []byte
	}{
		{w.brokers[0], bpsTopics().PackRegisterBroker("h", 1, []byte(peerOf(2)))}, // another's node
		{w.ops[0], bpsTopics().PackRegisterBroker("h", 1, []byte(peerOf(0)))},     // a producer's
		{w.writer, bpsTopics().PackRegisterBroker("h", 1, []byte("nobody"))},      // nobody's
	} {
		w.no("no node of this peer id has the broker role", c.from, c.data, nil)
	}
	for _, host := range []string{"", longText(256), "a b", "a\n"} {
		w.no("a broker has a host", w.brokers[0], bpsTopics().PackRegisterBroker(host, 1, []byte(peerOf(1))), nil)
	}
	w.no("a broker has a host", w.brokers[0], bpsTopics().PackRegisterBroker("h", 0, []byte(peerOf(1))), nil)
	_, err = RegisterBrokerCall("h", 0, "p")
	require.Error(t, err)

	w.must(w.brokers[0], RetireBrokerCall(), nil)
	require.False(t, eventsOf[BrokerSet](w)[0].Live)
	require.Equal(t, []bool{false, true, true}, []bool{list()[0].Live, list()[1].Live, list()[2].Live})
	w.no(onlyBrokers, w.brokers[0], RetireBrokerCall(), nil)
	w.no(onlyBrokers, w.writer, RetireBrokerCall(), nil)
	data, err = RegisterBrokerCall("back", 1, peerOf(1))
	w.must(w.brokers[0], data, err)
	require.Equal(t, Broker{1, w.brokers[0].account, "back", 1, peerOf(1), true}, list()[0])
	require.Len(t, list(), 3)
}

// A node that loses its role, its account or its membership is no live broker from the same block on.
func TestMembersRevokeBrokers(t *testing.T) {
	for name, change := range map[string]func(w *topicWorld) ([]byte, error){
		"role": func(w *topicWorld) ([]byte, error) {
			return AddMemberCall(peerOf(1), w.brokers[0].account, RoleObserver)
		},
		"account": func(w *topicWorld) ([]byte, error) { return AddMemberCall(peerOf(1), w.writer.account, RoleBroker) },
		"removed": func(*topicWorld) ([]byte, error) { return RemoveMemberCall(peerOf(1)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newTopicWorld(t, 2)
			id := w.create(w.owner, "acme.t", 1, 2)
			data, err := change(w)
			_, err = w.ask(admin, data, err)
			require.NoError(t, err)
			require.False(t, eventsOf[BrokerSet](w)[0].Live)
			w.no(onlyBrokers, w.brokers[0], bpsTopics().PackClaim([]Claim{{id, 0, FirstEpoch}}), nil)
			w.no(onlyBrokers, w.brokers[0], bpsTopics().PackCommit(1, nil, nil, nil, nil), nil)
			w.no("no node of this peer id", w.brokers[0], bpsTopics().PackRegisterBroker("h", 1, []byte(peerOf(1))), nil)
			// Its partitions go to the other.
			data, err = ClaimCall([]Claim{{id, 0, FirstEpoch}})
			w.must(w.brokers[1], data, err)
			require.Equal(t, w.brokers[1].account, w.topic(id).Leases[0].Leader)
			if name == "account" {
				data, err = RegisterBrokerCall("h", 1, peerOf(1))
				w.must(w.writer, data, err)
			}
		})
	}
	w := newTopicWorld(t, 2)
	// More roles for the same account change nothing, nor does a broker's node that never registered.
	data, err := AddMemberCall(peerOf(1), w.brokers[0].account, RoleBroker|RoleObserver)
	_, err = w.ask(admin, data, err)
	require.NoError(t, err)
	require.Empty(t, w.events())
	data, err = AddMemberCall("unknown", w.writer.account, RoleBroker)
	_, err = w.ask(admin, data, err)
	require.NoError(t, err)
	data, err = RemoveMemberCall("unknown")
	_, err = w.ask(admin, data, err)
	require.NoError(t, err)
	require.Empty(t, w.events())
}

func TestClaim(t *testing.T) {
	w := newTopicWorld(t, 4)
	id := w.create(w.owner, "acme.t", 8, 2)
	leases := w.topic(id).Leases
	b := w.brokers[0]
	var claims []Claim
	var want []uint32
	for p, l := range leases {
		claims = append(claims, Claim{id, uint32(p), FirstEpoch})
		if l.Replicas[0] == b.account || l.Replicas[1] == b.account {
			want = append(want, uint32(p))
		}
	}
	require.NotEmpty(t, want)
	require.Less(t, len(want), 8)
	// Stale ones, those of no replica, of no partition, of no topic are passed over.
	claims = append(claims, Claim{id, want[0], 0}, Claim{id, want[0], 3}, Claim{id, 8, 1}, Claim{id, 8, 0}, Claim{TopicID("no", 1), 0, 1}, Claim{TopicID("no", 1), 0, 0})
	data, err := ClaimCall(claims)
	ret := w.must(b, data, err)
	taken := eventsOf[LeaseChanged](w)
	require.Len(t, taken, len(want))
	n, err := bpsTopics().UnpackClaim(ret)
	require.NoError(t, err)
	require.EqualValues(t, len(want), n.Int64())
	for i, e := range taken {
		require.Equal(t, want[i], e.Partition)
		require.Equal(t, b.account, e.Leader)
		require.EqualValues(t, 2, e.Epoch)
		l := w.topic(id).Leases[e.Partition]
		require.Equal(t, Lease{b.account, 2, leases[e.Partition].Replicas, none}, l)
	}
	w.must(b, data, nil)
	require.Empty(t, w.events(), "a claim counts once")

	w.no(onlyBrokers, w.owner, data, nil)
	w.no("more than 512 claims", b, bpsTopics().PackClaim(make([]Claim, MaxClaims+1)), nil)
	_, err = ClaimCall(make([]Claim, MaxClaims+1))
	require.Error(t, err)
	w.must(w.owner, DeleteTopicCall(id), nil)
	w.must(b, bpsTopics().PackClaim([]Claim{{id, want[0], 2}}), nil)
	require.Empty(t, w.events(), "a deleted topic has no leader to be")
}

// Of two brokers that claim the same epoch one gets it.
func TestClaimsRace(t *testing.T) {
	w := newTopicWorld(t, 3)
	id := w.create(w.owner, "acme.t", 1, 3)
	replicas := w.topic(id).Leases[0].Replicas
	claim, err := ClaimCall([]Claim{{id, 0, FirstEpoch}})
	w.must(w.broker(replicas[1]), claim, err)
	w.must(w.broker(replicas[2]), claim, nil)
	require.Empty(t, w.events())
	require.Equal(t, Lease{replicas[1], 2, replicas, none}, w.topic(id).Leases[0])
}

func TestHandOver(t *testing.T) {
	w := newTopicWorld(t, 4)
	id := w.create(w.owner, "acme.t", 1, 3)
	l := w.topic(id).Leases[0]
	leader, other, third := w.broker(l.Replicas[0]), w.broker(l.Replicas[1]), w.broker(l.Replicas[2])
	var outside operator
	for _, b := range w.brokers {
		if b != leader && b != other && b != third {
			outside = b
		}
	}
	pass := func(from operator, epoch uint32, to common.Address) {
		t.Helper()
		data, err := HandOverCall([]Handover{{id, 0, epoch, to}})
		w.must(from, data, err)
	}
	for _, stale := range []Handover{
		{id, 0, 1, outside.account}, {id, 0, 1, leader.account}, {id, 0, 1, w.owner.account}, {id, 0, 2, other.account},
		{id, 1, 1, other.account}, {id, 1, 0, other.account}, {TopicID("no", 9), 0, 1, other.account},
	} {
		data, err := HandOverCall([]Handover{stale})
		w.must(leader, data, err)
		require.Empty(t, w.events(), "%v", stale)
	}
	pass(other, 1, third.account) // not his
	require.Empty(t, w.events())
	w.no("only a registered broker", w.owner, bpsTopics().PackHandOver([]Handover{{id, 0, 1, other.account}}), nil)
	w.no("more than 512 leases", leader, bpsTopics().PackHandOver(make([]Handover, MaxClaims+1)), nil)

	w.must(other, RetireBrokerCall(), nil)
	pass(leader, 1, other.account)
	require.Empty(t, w.events(), "a retired broker gets no lease")
	pass(leader, 1, third.account)
	require.Equal(t, []any{third.account, uint32(2)}, []any{eventsOf[LeaseChanged](w)[0].Leader, eventsOf[LeaseChanged](w)[0].Epoch})
	require.Equal(t, Lease{third.account, 2, l.Replicas, none}, w.topic(id).Leases[0])
	// Who retired may still give away what he leads.
	w.height++
	w.must(third, RetireBrokerCall(), nil)
	pass(third, 2, leader.account)
	require.Equal(t, Lease{leader.account, 3, l.Replicas, none}, w.topic(id).Leases[0])
}

// none is wanted of a partition whose owner did not say.
var none = []common.Address{}

func TestWantReplicas(t *testing.T) {
	w := newTopicWorld(t, 9)
	id := w.create(w.owner, "acme.t", 2, 2)
	require.EqualValues(t, 2, w.topic(id).Replicas)
	before := w.topic(id).Leases
	var all []common.Address
	for _, b := range w.brokers {
		all = append(all, b.account)
	}
	want := func(partition uint32, list ...common.Address) []byte {
		return bpsTopics().PackWantReplicas(id, partition, list)
	}
	w.no("only the topic's or the tenant's owner", w.writer, want(1, all[:3]...), nil)
	w.no("only the topic's or the tenant's owner", w.broker(before[1].Leader), want(1, all[:3]...), nil)
	w.no("no such partition", w.owner, want(2, all[0]), nil)
	w.no("no such topic", w.owner, bpsTopics().PackWantReplicas(TopicID("no", 1), 0, all[:1]), nil)
	w.no("1 to 7 replicas", w.owner, want(1, all[:8]...), nil)
	w.no("a replica is no broker", w.owner, want(1, all[0], w.owner.account), nil)
	w.no("named twice", w.owner, want(1, all[0], all[1], all[0]), nil)
	_, err := WantReplicasCall(id, 0, all[:8])
	require.Error(t, err)

	data, err := WantReplicasCall(id, 1, all[:7])
	w.must(w.owner, data, err)
	e := eventsOf[ReplicasWanted](w)[0]
	require.Equal(t, []any{common.Hash(id), uint32(1), all[:7]}, []any{common.Hash(e.Topic), e.Partition, e.Replicas})
	now := w.topic(id).Leases
	require.Equal(t, before[0], now[0], "the other partition")
	require.Equal(t, Lease{before[1].Leader, before[1].Epoch, before[1].Replicas, all[:7]}, now[1], "a wish changes no lease")

	// It stands while leaders and replicas change, until there is another, or none.
	w.must(w.broker(now[1].Replicas[1]), bpsTopics().PackClaim([]Claim{{id, 1, 1}}), nil)
	w.height++
	w.absent(w.broker(now[1].Replicas[0]))
	w.must(w.broker(now[1].Replicas[1]), SetReplicasCall(id, 1, 2, now[1].Replicas[1:]), nil)
	require.Equal(t, Lease{now[1].Replicas[1], 3, now[1].Replicas[1:], all[:7]}, w.topic(id).Leases[1])
	w.must(w.owner, want(1, all[8]), nil)
	require.Equal(t, all[8:], w.topic(id).Leases[1].Wanted)
	w.must(w.owner, want(1), nil)
	require.Empty(t, w.topic(id).Leases[1].Wanted)
	w.must(w.owner, DeleteTopicCall(id), nil)
	w.no("no such topic", w.owner, want(1, all[0]), nil)
}

func TestSetReplicas(t *testing.T) {
	w := newTopicWorld(t, 9)
	id := w.create(w.owner, "acme.t", 2, 2)
	l := w.topic(id).Leases[0]
	leader := w.broker(l.Leader)
	var others []common.Address
	for _, b := range w.brokers {
		if b.account != l.Replicas[0] && b.account != l.Replicas[1] {
			others = append(others, b.account)
		}
	}
	with := func(more ...common.Address) []common.Address {
		return append(append([]common.Address{}, l.Replicas...), more...)
	}
	set := func(epoch uint32, list ...common.Address) []byte { return SetReplicasCall(id, 0, epoch, list) }

	w.no("only the partition's leader", w.broker(l.Replicas[1]), set(1, with(others[0])...), nil)
	w.no(onlyBrokers, w.owner, set(1, with(others[0])...), nil)
	w.no("of another epoch", leader, set(2, with(others[0])...), nil)
	w.no("of another epoch", leader, set(0, with(others[0])...), nil)
	w.no("no such partition", leader, SetReplicasCall(id, 2, 0, nil), nil)
	w.no("no such topic", leader, SetReplicasCall(TopicID("no", 1), 0, 0, nil), nil)
	w.no("1 to 7 replicas", leader, set(1), nil)
	w.no("one by one", leader, set(1, with(others[:2]...)...), nil)
	w.no("one by one", leader, set(1, with()...), nil)
	w.no("one by one", leader, set(1, l.Replicas[0], others[0], others[1]), nil)
	w.no("named twice", leader, set(1, l.Replicas[0], l.Replicas[1], l.Replicas[1]), nil)
	w.no("named twice", leader, set(1, l.Replicas[0], l.Replicas[0], l.Replicas[1]), nil)
	w.no("the leader stays a replica", leader, set(1, l.Replicas[1]), nil)
	w.no("the leader stays a replica", leader, set(1, l.Replicas[1], others[0], others[1]), nil)
	w.no("a replica is no broker", leader, set(1, with(w.owner.account)...), nil)
	w.must(w.broker(others[6]), RetireBrokerCall(), nil)
	w.no("only a live broker", leader, set(1, with(others[6])...), nil)
	w.absent(w.broker(others[5]))
	w.no("only a live broker that attends", leader, set(1, with(others[5])...), nil)
	w.attend(w.broker(others[5]), 60)

	epoch := uint32(1)
	list := with()
	for _, o := range others[:5] {
		list = append(list, o)
		w.height++
		w.must(leader, set(epoch, list...), nil)
		epoch++
		e := eventsOf[ReplicasChanged](w)[0]
		require.Equal(t, []any{leader.account, epoch, list}, []any{e.Leader, e.Epoch, e.Replicas})
		require.Equal(t, Lease{leader.account, epoch, list, none}, w.topic(id).Leases[0])
	}
	w.height++
	w.no("1 to 7 replicas", leader, set(epoch, append(list, others[5])...), nil)
	// A retired replica stays until it is taken away.
	w.must(w.broker(others[0]), RetireBrokerCall(), nil)
	for len(list) > 1 {
		n := len(list) - 1
		if list[n] != others[0] {
			w.absent(w.broker(list[n]))
		}
		list = list[:n:n]
		w.height++
		w.must(leader, set(epoch, list...), nil)
		epoch++
		require.Equal(t, Lease{leader.account, epoch, list, none}, w.topic(id).Leases[0])
	}
	w.height++
	w.no("1 to 7 replicas", leader, set(epoch), nil)
	require.Equal(t, []common.Address{l.Leader}, w.topic(id).Leases[0].Replicas)
	// A claim that was made for the replicas of an older epoch is stale.
	w.must(w.broker(l.Replicas[1]), bpsTopics().PackClaim([]Claim{{id, 0, 1}, {id, 0, epoch}}), nil)
	require.Empty(t, w.events())
	require.EqualValues(t, 1, w.topic(id).Leases[1].Epoch, "the other partition")
}

// 512 leases of 512 topics in one transaction.
func TestClaimGas(t *testing.T) {
	w := newTopicWorld(t, 3)
	w.tenant("big", w.owner, 1000, 1000)
	var claims []Claim
	for i := range MaxClaims {
		claims = append(claims, Claim{w.create(w.owner, fmt.Sprintf("big.t%d", i), 1, 3), 0, FirstEpoch})
	}
	data, err := ClaimCall(claims)
	w.must(w.brokers[1], data, err)
	require.Len(t, w.events(), MaxClaims)
	t.Logf("%d claims of as many topics: %d gas", MaxClaims, w.gas)
	require.Less(t, w.gas, uint64(maxTxGas)*3/4)
}
