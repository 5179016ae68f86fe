package contracts

import (
	"fmt"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// topicWorld is a world whose first operators are brokers, and the next one owns the tenant acme.
type topicWorld struct {
	*world
	brokers []operator
	owner   operator // of acme
	writer  operator // an account that nobody knows
}

func peerOf(i int) string { return fmt.Sprintf("12D3KooWTestPeerNumber%032d", i) }

// newTopicWorld has n brokers, registered, and the tenant acme with 100 topics of 4,000 partitions together.
func newTopicWorld(t testing.TB, n int) *topicWorld {
	w := &topicWorld{world: newWorld(t, 1, n+2, func(p *ProducersGenesis, m *MembersGenesis) {
		m.Admin = admin
		for i := range m.Nodes {
			if i > 0 && i <= n {
				m.Nodes[i].Roles = RoleBroker
			}
		}
	})}
	w.brokers, w.owner, w.writer = w.ops[1:n+1], w.ops[n+1], w.ops[n+2]
	for i, b := range w.brokers {
		data, err := RegisterBrokerCall(fmt.Sprintf("broker%d.example", i), uint16(9092+i), peerOf(i+1))
		w.must(b, data, err)
	}
	w.tenant("acme", w.owner, 100, 4000)
	return w
}

func (w *topicWorld) tenant(name string, owner operator, topics, partitions uint32) {
	w.t.Helper()
	data, err := SetTenantCall(Tenant{Name: name, Owner: owner.account, BytesPerSecond: 1 << 20, Connections: 10, Topics: topics, Partitions: partitions})
	_, err = w.ask(admin, data, err)
	require.NoError(w.t, err)
}

func (w *topicWorld) send(from operator, data []byte, err error) ([]byte, error) {
	w.t.Helper()
	require.NoError(w.t, err)
	return w.call(from.account, TopicsAddress, nil, data)
}

// must makes a call that must succeed.
func (w *topicWorld) must(from operator, data []byte, err error) []byte {
	w.t.Helper()
	ret, err := w.send(from, data, err)
	require.NoError(w.t, err)
	return ret
}

// no makes a call that must be refused with these words.
func (w *topicWorld) no(words string, from operator, data []byte, err error) {
	w.t.Helper()
	_, err = w.send(from, data, err)
	require.ErrorContains(w.t, err, words)
	var r reverted
	require.ErrorAs(w.t, err, &r)
}

func (w *topicWorld) create(from operator, name string, partitions uint32, replicas uint16) common.Hash {
	w.t.Helper()
	data, err := CreateTopicCall(NewTopic{Name: name, Partitions: partitions, Replicas: replicas})
	id, err := DecodeTopicID(w.must(from, data, err))
	require.NoError(w.t, err)
	return id
}

// events are what the last call told, decoded.
func (w *topicWorld) events() []any {
	w.t.Helper()
	var list []any
	for _, l := range w.logs {
		if l.Address == TopicsAddress {
			e, err := DecodeTopicsEvent(l)
			require.NoError(w.t, err)
			list = append(list, e)
		}
	}
	return list
}

func eventsOf[T any](w *topicWorld) (list []*T) {
	w.t.Helper()
	for _, e := range w.events() {
		if x, ok := e.(*T); ok {
			list = append(list, x)
		}
	}
	return list
}

func (w *topicWorld) topic(id common.Hash) TopicInfo {
	w.t.Helper()
	t, err := DecodeTopic(w.readFrom(TopicsAddress, TopicCall(id)))
	require.NoError(w.t, err)
	return t
}

func (w *topicWorld) tenantInfo(name string) Tenant {
	w.t.Helper()
	t, err := DecodeTenant(w.readFrom(TopicsAddress, TenantCall(name)))
	require.NoError(w.t, err)
	return t
}

func (w *topicWorld) reputation(tenant string, a common.Address) int {
	w.t.Helper()
	r, err := DecodeReputation(w.readFrom(TopicsAddress, ReputationCall(TenantID(tenant), a)))
	require.NoError(w.t, err)
	return int(r)
}

func (w *topicWorld) attend(b operator, seconds uint32) {
	w.t.Helper()
	data, err := AttendCall(seconds)
	w.must(b, data, err)
}

// absent has a broker attend no longer.
func (w *topicWorld) absent(b operator) { w.attend(b, 0) }

// commit makes the next commit of a broker.
func (w *topicWorld) commit(b operator, c Commit) []byte {
	w.t.Helper()
	c.Number = w.commits(b) + 1
	data, err := CommitCall(c)
	return w.must(b, data, err)
}

func (w *topicWorld) commits(b operator) uint64 {
	w.t.Helper()
	n, err := DecodeCommits(w.readFrom(TopicsAddress, CommitsCall(b.account)))
	require.NoError(w.t, err)
	return n
}

// broker is the operator of an account.
func (w *topicWorld) broker(a common.Address) operator {
	w.t.Helper()
	for _, b := range w.brokers {
		if b.account == a {
			return b
		}
	}
	require.Fail(w.t, "no broker", "%s", a)
	return operator{}
}

func (w *topicWorld) leader(id common.Hash, partition int) operator {
	w.t.Helper()
	return w.broker(w.topic(id).Leases[partition].Leader)
}
