package contracts

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// model is what the contract should know, told in plain Go from the events alone: so it also holds that who follows
// events knows everything that the views tell.
type model struct {
	topics  map[common.Hash]*TopicInfo
	brokers map[common.Address]bool // live
}

func (m *model) apply(t *testing.T, e any, height uint64) {
	switch e := e.(type) {
	case *TopicCreated:
		require.NotContains(t, m.topics, common.Hash(e.Topic))
		m.topics[e.Topic] = &TopicInfo{
			ID: e.Topic, Name: e.Name, Owner: e.Owner, Auditor: e.Auditor, Encrypted: e.Encrypted, Created: height, PseudonymEpoch: 1,
			Config: e.Config, Leases: slices.Repeat([]Lease{{Wanted: []common.Address{}}}, int(e.Partitions)),
		}
	case *TopicChanged:
		x := m.topics[e.Topic]
		x.Owner, x.Config, x.PseudonymEpoch = e.Owner, e.Config, e.PseudonymEpoch
		require.Len(t, x.Leases, int(e.Partitions))
	case *TopicDeleted:
		m.topics[e.Topic].Deleted = true
	case *KeysSet:
		m.topics[e.Topic].KeyEpoch = max(m.topics[e.Topic].KeyEpoch, e.Epoch)
	case *LeaseChanged:
		l := &m.topics[e.Topic].Leases[e.Partition]
		require.Equal(t, l.Epoch+1, e.Epoch)
		l.Leader, l.Epoch = e.Leader, e.Epoch
	case *ReplicasChanged:
		x := m.topics[e.Topic]
		if int(e.Partition) == len(x.Leases) {
			x.Leases = append(x.Leases, Lease{Wanted: []common.Address{}})
		}
		require.Equal(t, x.Leases[e.Partition].Epoch+1, e.Epoch)
		if e.Partition == 0 && e.Epoch == FirstEpoch {
			x.Replicas = uint8(len(e.Replicas))
		}
		x.Leases[e.Partition] = Lease{e.Leader, e.Epoch, e.Replicas, x.Leases[e.Partition].Wanted}
	case *ReplicasWanted:
		m.topics[e.Topic].Leases[e.Partition].Wanted = slices.Clip(e.Replicas)
		if len(e.Replicas) == 0 {
			m.topics[e.Topic].Leases[e.Partition].Wanted = []common.Address{}
		}
	case *BrokerSet:
		m.brokers[e.Account] = e.Live
	}
}

// Whatever brokers and owners do, in whatever order, the contract keeps its rules: leaders are replicas, replicas are
// distinct, epochs go up by one, quotas count what there is, and events tell all that the views know.
func TestRandomCallsKeepTheRules(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := newTopicWorld(t, 6)
		m := &model{map[common.Hash]*TopicInfo{}, map[common.Address]bool{}}
		for _, b := range w.brokers {
			m.brokers[b.account] = true
		}
		w.tenant("two", w.writer, 20, 60)
		done := 0
		for range 300 {
			w.height++
			from, data := m.randomCall(r, w)
			if _, err := w.call(from.account, TopicsAddress, nil, data); err != nil {
				var refused reverted
				require.ErrorAs(t, err, &refused)
				continue
			}
			for _, e := range w.events() {
				m.apply(t, e, w.height)
				done++
			}
		}
		require.Greater(t, done, 100, "too little happened")
		m.check(t, w)
	}
}

func (m *model) randomCall(r *rand.Rand, w *topicWorld) (operator, []byte) {
	broker := w.brokers[r.IntN(len(w.brokers))]
	owner, tenant := w.owner, "acme"
	if r.IntN(2) == 0 {
		owner, tenant = w.writer, "two"
	}
	var ids []common.Hash
	for id, x := range m.topics {
		if !x.Deleted || r.IntN(10) == 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, common.Hash.Cmp)
	if len(ids) == 0 || r.IntN(4) == 0 {
		return owner, bpsTopics().PackCreateTopic(fmt.Sprintf("%s.t%d", tenant, r.IntN(30)), uint32(r.IntN(6)), uint16(1+r.IntN(4)), []byte{byte(r.IntN(9))}, common.Address{byte(r.IntN(2))}, r.IntN(2) == 0)
	}
	id := ids[r.IntN(len(ids))]
	x := m.topics[id]
	if r.IntN(10) > 0 {
		owner = w.operatorOf(x.Owner)
	}
	p := r.IntN(len(x.Leases))
	l := x.Leases[p]
	switch r.IntN(13) {
	case 0:
		return owner, AddPartitionsCall(id, uint32(len(x.Leases)+r.IntN(3)))
	case 1:
		return owner, DeleteTopicCall(id)
	case 2:
		return owner, SetOwnerCall(id, []operator{w.owner, w.writer, broker}[r.IntN(3)].account)
	case 3:
		return owner, bpsTopics().PackSetKeys(id, x.KeyEpoch+uint32(r.IntN(3)), []common.Address{owner.account}, [][]byte{{1}})
	case 4:
		if len(w.brokers)-m.retired() > 3 && r.IntN(2) == 0 {
			return broker, RetireBrokerCall()
		}
		i := slices.Index(w.brokers, broker)
		return broker, bpsTopics().PackRegisterBroker("h", 1, []byte(peerOf(i+1)))
	case 5, 6:
		to := w.brokers[r.IntN(len(w.brokers))]
		return w.broker(l.Leader), bpsTopics().PackHandOver([]Handover{{id, uint32(p), l.Epoch, to.account}})
	case 7, 8:
		list := append([]common.Address{}, l.Replicas...)
		if i := r.IntN(len(list)); r.IntN(2) == 0 {
			list = slices.Delete(list, i, i+1)
		} else {
			list = append(list, broker.account)
		}
		return w.broker(l.Leader), SetReplicasCall(id, uint32(p), l.Epoch, list)
	case 9:
		list := append([]common.Address{broker.account}, l.Replicas...)
		return owner, bpsTopics().PackWantReplicas(id, uint32(p), list[r.IntN(len(list)):])
	}
	var claims []Claim
	for q := range x.Leases {
		claims = append(claims, Claim{id, uint32(q), x.Leases[q].Epoch + uint32(r.IntN(5)/4)})
	}
	return broker, bpsTopics().PackClaim(claims)
}

func (m *model) retired() (n int) {
	for _, live := range m.brokers {
		if !live {
			n++
		}
	}
	return n
}

func (w *topicWorld) operatorOf(a common.Address) operator {
	for _, o := range w.ops {
		if o.account == a {
			return o
		}
	}
	return w.owner
}

func (m *model) check(t *testing.T, w *topicWorld) {
	topics, partitions := map[string]uint32{}, map[string]uint32{}
	live := 0
	for id, x := range m.topics {
		require.Equal(t, *x, w.topic(id))
		for _, l := range x.Leases {
			require.Contains(t, l.Replicas, l.Leader)
			seen := slices.Clone(l.Replicas)
			slices.SortFunc(seen, common.Address.Cmp)
			require.Len(t, slices.Compact(seen), len(l.Replicas))
		}
		now, err := DecodeTopicID(w.readFrom(TopicsAddress, TopicIDCall(x.Name)))
		require.NoError(t, err)
		if x.Deleted {
			require.NotEqual(t, id, now)
			continue
		}
		require.Equal(t, id, now)
		live++
		tenant, err := TenantOf(x.Name)
		require.NoError(t, err)
		topics[tenant]++
		partitions[tenant] += uint32(len(x.Leases))
	}
	_, total, err := DecodeTopicPage(w.readFrom(TopicsAddress, TopicPageCall(0, 1)))
	require.NoError(t, err)
	require.EqualValues(t, live, total)
	for _, name := range []string{"acme", "two"} {
		x := w.tenantInfo(name)
		require.Equal(t, []uint32{topics[name], partitions[name]}, []uint32{x.TopicsUsed, x.PartitionsUsed}, name)
		require.LessOrEqual(t, x.TopicsUsed, x.Topics)
		require.LessOrEqual(t, x.PartitionsUsed, x.Partitions)
	}
	list, err := DecodeBrokers(w.readFrom(TopicsAddress, BrokersCall()))
	require.NoError(t, err)
	for _, b := range list {
		require.Equal(t, m.brokers[b.Account], b.Live)
	}
}

// Many topics are read in pages that each cost a bounded amount of gas, however many partitions they have.
func TestManyTopics(t *testing.T) {
	count := 2000
	if os.Getenv("BORNODE_LONG") != "" {
		count = 10_000
	}
	w := newTopicWorld(t, 8)
	w.tenant("many", w.owner, 20_000, 1<<31)
	for i := range count {
		partitions := uint32(4)
		if i%100 == 0 {
			partitions = MaxNewPartitions
		}
		w.create(w.owner, fmt.Sprintf("many.topic-%05d", i), partitions, 3)
	}
	var most uint64
	calls := 0
	list, err := ReadTopics(func(data []byte) ([]byte, error) {
		ret := w.readFrom(TopicsAddress, data)
		most, calls = max(most, w.gas), calls+1
		return ret, nil
	})
	require.NoError(t, err)
	seen := map[common.Hash]bool{}
	for _, x := range list {
		seen[x.ID] = true
	}
	require.Len(t, seen, count)
	require.Less(t, most, uint64(30_000_000))
	t.Logf("%d topics in %d pages: %d gas at most", count, calls, most)

	w.create(w.owner, "many.wide", MaxNewPartitions, 7)
	for total := uint32(512); total <= MaxPartitions; total += MaxNewPartitions {
		w.must(w.owner, AddPartitionsCall(TopicID("many.wide", uint64(count+1)), total), nil)
	}
	page, _, err := DecodeTopicPage(w.readFrom(TopicsAddress, TopicPageCall(uint64(count), 10)))
	require.NoError(t, err)
	require.Len(t, page[0].Leases, MaxPartitions)
}

func TestReadPages(t *testing.T) {
	w := newTopicWorld(t, 2)
	list, err := ReadTenants(func(data []byte) ([]byte, error) { return w.readFrom(TopicsAddress, data), nil })
	require.NoError(t, err)
	require.Len(t, list, 2)
	rules, err := ReadAcls(func(data []byte) ([]byte, error) { return w.readFrom(TopicsAddress, data), nil }, "acme")
	require.NoError(t, err)
	require.Empty(t, rules)
	// A contract that promises more than it gives ends nothing in a loop.
	_, err = ReadTopics(func([]byte) ([]byte, error) {
		var ret [96]byte
		ret[31], ret[63] = 64, 5
		return ret[:], nil
	})
	require.ErrorIs(t, err, ErrReturn)
	_, err = ReadTopics(func([]byte) ([]byte, error) { return nil, errors.New("cut off") })
	require.ErrorContains(t, err, "cut off")
	require.NotErrorIs(t, err, ErrReturn)
}
