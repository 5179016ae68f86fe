package contracts

import (
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

const enoughOthers = "taken away only when enough others do"

// partition is one that a test moves about.
type partition struct {
	*topicWorld
	id common.Hash
}

func (p *partition) lease() Lease { return p.topic(p.id).Leases[0] }

func (p *partition) leader() operator { return p.broker(p.lease().Leader) }

// outside are the brokers that do not keep it.
func (p *partition) outside() (list []operator) {
	for _, b := range p.brokers {
		if !slices.Contains(p.lease().Replicas, b.account) {
			list = append(list, b)
		}
	}
	return list
}

func (p *partition) with(b operator) []byte {
	l := p.lease()
	return SetReplicasCall(p.id, 0, l.Epoch, append(slices.Clone(l.Replicas), b.account))
}

func (p *partition) without(a common.Address) []byte {
	l := p.lease()
	return SetReplicasCall(p.id, 0, l.Epoch, slices.DeleteFunc(slices.Clone(l.Replicas), func(x common.Address) bool { return x == a }))
}

func (p *partition) add(b operator) {
	p.t.Helper()
	p.height++
	p.must(p.leader(), p.with(b), nil)
}

func (p *partition) remove(a common.Address) {
	p.t.Helper()
	p.height++
	p.must(p.leader(), p.without(a), nil)
}

// stays says that the contract does not let the leader take a replica away now.
func (p *partition) stays(a common.Address) {
	p.t.Helper()
	p.height++
	p.no(enoughOthers, p.leader(), p.without(a), nil)
}

func newPartition(t *testing.T, brokers int, replicas uint16) *partition {
	w := newTopicWorld(t, brokers)
	return &partition{w, w.create(w.owner, "acme.t", 1, replicas)}
}

// A leader cannot become the only replica while the others are there: whoever is left can take its partition over.
func TestALyingLeaderIsNeverAlone(t *testing.T) {
	p := newPartition(t, 5, 3)
	l := p.lease()
	liar, second, third := l.Replicas[0], l.Replicas[1], l.Replicas[2]
	p.stays(second)
	p.stays(third)
	// With another one first, one leaves, and no more than that.
	more := p.outside()
	p.add(more[0])
	p.remove(second)
	p.stays(third)
	p.stays(more[0].account)
	// It does not count whom the ledger does not count on.
	p.add(more[1])
	p.absent(more[1])
	p.stays(third)
	p.remove(more[1].account)
	p.height++
	claim, err := ClaimCall([]Claim{{p.id, 0, p.lease().Epoch}})
	p.must(more[0], claim, err)
	require.Equal(t, more[0].account, p.lease().Leader)
	require.Len(t, p.lease().Replicas, 3)
	p.stays(third)
	p.add(p.broker(second))
	p.remove(liar)
	require.Equal(t, []common.Address{third, more[0].account, second}, p.lease().Replicas)
}

// One that is silent for the ledger leaves at once, and comes again when it attends.
func TestASilentReplicaLeaves(t *testing.T) {
	p := newPartition(t, 4, 3)
	silent := p.broker(p.lease().Replicas[1])
	until := func() uint64 {
		u, err := DecodeAttendsUntil(p.readFrom(TopicsAddress, AttendsUntilCall(silent.account)))
		require.NoError(t, err)
		return u
	}
	require.Equal(t, p.seconds+MaxAttendance, until(), "since it registered")
	p.attend(silent, 600)
	require.Equal(t, p.seconds+600, until())
	p.attend(p.leader(), 3600)
	for _, b := range append(p.outside(), p.broker(p.lease().Replicas[2])) {
		p.attend(b, 3600)
	}
	p.seconds += 600
	p.stays(silent.account)
	p.seconds++
	p.remove(silent.account)
	require.Len(t, p.lease().Replicas, 2)
	p.stays(p.lease().Replicas[1])
	p.height++
	p.no("only a live broker that attends", p.leader(), p.with(silent), nil)
	p.attend(silent, 600)
	p.add(silent)

	p.no(onlyBrokers, p.owner, bpsTopics().PackAttend(1), nil)
	p.no("an hour at most", silent, bpsTopics().PackAttend(MaxAttendance+1), nil)
	_, err := AttendCall(MaxAttendance + 1)
	require.Error(t, err)
	p.absent(silent)
	require.Zero(t, until())
	p.remove(silent.account)
	// A retired one attends as little, until it is back.
	p.attend(silent, 600)
	p.add(silent)
	p.must(silent, RetireBrokerCall(), nil)
	require.Zero(t, until())
	p.no(onlyBrokers, silent, bpsTopics().PackAttend(1), nil)
	p.remove(silent.account)
	data, err := RegisterBrokerCall("h", 1, peerOf(1+slices.Index(p.brokers, silent)))
	p.must(silent, data, err)
	p.add(silent)
}

// What the owner wants counts instead of what the topic was made with.
func TestWantedReplicasAreWhatIsNeeded(t *testing.T) {
	p := newPartition(t, 9, 3)
	l := p.lease()
	want := func(list ...common.Address) {
		t.Helper()
		data, err := WantReplicasCall(p.id, 0, list)
		p.must(p.owner, data, err)
	}
	p.stays(l.Replicas[2])
	want(l.Replicas[:2]...)
	p.remove(l.Replicas[2])
	p.stays(l.Replicas[1])
	want(l.Replicas[0])
	p.remove(l.Replicas[1])
	require.Equal(t, l.Replicas[:1], p.lease().Replicas)

	// More are wanted than there are: nobody leaves whom the ledger counts on, wanted or not.
	p.add(p.broker(l.Replicas[1]))
	var six []common.Address
	for _, b := range p.outside()[:6] {
		six = append(six, b.account)
	}
	want(append([]common.Address{l.Leader}, six...)...)
	p.stays(l.Replicas[1])
	for _, a := range six[:5] {
		p.add(p.broker(a))
	}
	require.Len(t, p.lease().Replicas, MaxReplicas)
	// Seven are the most: one makes room for another.
	p.remove(l.Replicas[1])
	p.stays(six[0])
	p.add(p.broker(six[5]))
	require.ElementsMatch(t, append(six, l.Leader), p.lease().Replicas)
	want()
	for _, a := range six[:4] {
		p.remove(a)
	}
	p.stays(six[5])
}

// A lease changes once in a block: a replica that lies cannot use up the epochs of a partition in hours.
func TestALeaseChangesOnceInABlock(t *testing.T) {
	p := newPartition(t, 4, 3)
	l := p.lease()
	second := p.broker(l.Replicas[1])
	var claims []Claim
	for e := range uint32(100) {
		claims = append(claims, Claim{p.id, 0, FirstEpoch + e})
	}
	claim, err := ClaimCall(claims)
	p.must(second, claim, err)
	require.EqualValues(t, 2, p.lease().Epoch)
	p.must(second, claim, nil)
	hand, err := HandOverCall([]Handover{{p.id, 0, 2, l.Leader}})
	p.must(second, hand, err)
	require.EqualValues(t, 2, p.lease().Epoch)
	p.no("changed in this block", second, p.with(p.outside()[0]), nil)
	p.height++
	p.add(p.outside()[0])
	require.EqualValues(t, 3, p.lease().Epoch)
	p.must(second, bpsTopics().PackHandOver([]Handover{{p.id, 0, 3, l.Leader}}), nil)
	require.EqualValues(t, 3, p.lease().Epoch, "after a change of replicas as well")
	p.height++
	p.must(second, bpsTopics().PackHandOver([]Handover{{p.id, 0, 3, l.Leader}}), nil)
	now := p.lease()
	require.Equal(t, []any{l.Leader, uint32(4)}, []any{now.Leader, now.Epoch})
	require.Len(t, now.Replicas, 4)
}
