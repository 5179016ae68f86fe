package ledger

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/acl"
)

// Acl is an entry as the contract keeps it.
type Acl = contracts.Acl

// Topic is a topic that exists. Nobody changes one that a View gave out.
type Topic struct {
	ID             common.Hash
	Name, Tenant   string
	Owner          common.Address // zero: nobody
	Auditor        common.Address // zero: no pseudonyms
	Encrypted      bool
	Config         map[string]string
	Created        uint64 // height
	Replicas       int    // of a partition, unless its owner wants others
	Partitions     []Partition
	KeyEpoch       uint32
	PseudonymEpoch uint32
}

// Partition is the lease of a partition.
type Partition struct {
	Leader   common.Address
	Epoch    int32
	Replicas []common.Address
	Wanted   []common.Address // by the owner; empty: any
}

// Tenant is whom topics belong to, and what it may use and uses.
type Tenant struct {
	Name                       string
	Owner                      common.Address // zero: nobody
	BytesPerSecond             uint64
	Connections                uint32
	MaxTopics, MaxPartitions   uint32
	TopicsUsed, PartitionsUsed uint32
}

// Broker is a node that serves topics.
type Broker struct {
	ID      int32
	Account common.Address
	Host    string
	Port    int32
	PeerID  string
	Live    bool
}

// View is the contract's state at one final block.
type View struct {
	Height uint64
	Time   uint64 // of the block, Unix seconds
	Hash   common.Hash

	tenants *table[common.Hash, *tenant] // by contracts.TenantID
	topics  *table[common.Hash, *Topic]
	names   *table[string, common.Hash]
	brokers []Broker // by number
	facts   *facts
}

// tenant is a tenant with its list. decisions is another one whenever what they depend on changed.
type tenant struct {
	Tenant
	acls      *acl.Set
	decisions *decisions
}

var seed = maphash.MakeSeed()

func byHash(h common.Hash) uint8 { return h[31] }
func byName(s string) uint8      { return uint8(maphash.String(seed, s)) }

func newView(f *facts) *View {
	return &View{
		tenants: newTable[common.Hash, *tenant](byHash), topics: newTable[common.Hash, *Topic](byHash),
		names: newTable[string, common.Hash](byName), facts: f,
	}
}

// Topic is the topic of that name, nil if there is none.
func (v *View) Topic(name string) *Topic {
	id, ok := v.names.get(name)
	if !ok {
		return nil
	}
	return v.TopicByID(id)
}

// TopicByID is the topic of that id, nil if there is none or it was deleted.
func (v *View) TopicByID(id [32]byte) *Topic {
	t, _ := v.topics.get(id)
	return t
}

// Topics are the topics of a tenant, or of all ("") by name.
func (v *View) Topics(tenant string) []*Topic {
	var l []*Topic
	v.topics.each(func(_ common.Hash, t *Topic) {
		if tenant == "" || t.Tenant == tenant {
			l = append(l, t)
		}
	})
	slices.SortFunc(l, func(a, b *Topic) int { return strings.Compare(a.Name, b.Name) })
	return l
}

// Each calls f with every topic, in no order, while it returns true.
func (v *View) Each(f func(t *Topic) bool) {
	more := true
	v.topics.each(func(_ common.Hash, t *Topic) {
		more = more && f(t)
	})
}

// TopicCount is how many topics there are.
func (v *View) TopicCount() int { return v.topics.n }

// Lease is the lease of a partition; false if there is no such partition.
func (v *View) Lease(topic [32]byte, partition int32) (Partition, bool) {
	t := v.TopicByID(topic)
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return Partition{}, false
	}
	return t.Partitions[partition], true
}

// Tenant is the tenant of that name, nil if there is none.
func (v *View) Tenant(name string) *Tenant {
	if t := v.tenant(name); t != nil {
		return &t.Tenant
	}
	return nil
}

func (v *View) tenant(name string) *tenant {
	t, _ := v.tenants.get(contracts.TenantID(name))
	return t
}

// Tenants are all tenants by name.
func (v *View) Tenants() []*Tenant {
	l := make([]*Tenant, 0, v.tenants.n)
	v.tenants.each(func(_ common.Hash, t *tenant) { l = append(l, &t.Tenant) })
	slices.SortFunc(l, func(a, b *Tenant) int { return strings.Compare(a.Name, b.Name) })
	return l
}

// Acls are the entries of a tenant.
func (v *View) Acls(name string) []Acl {
	t := v.tenant(name)
	if t == nil {
		return nil
	}
	entries := t.acls.Entries()
	l := make([]Acl, len(entries))
	for i, e := range entries {
		l[i] = Acl(e)
	}
	return l
}

// Brokers are all that ever registered, by number; not to be changed.
func (v *View) Brokers() []Broker { return v.brokers }

// Broker is the broker of that number, nil if there is none.
func (v *View) Broker(id int32) *Broker {
	i, ok := slices.BinarySearchFunc(v.brokers, id, func(b Broker, id int32) int { return cmp.Compare(b.ID, id) })
	if !ok {
		return nil
	}
	return &v.brokers[i]
}

// BrokerByAccount is the broker of that account, nil if there is none.
func (v *View) BrokerByAccount(account common.Address) *Broker {
	for i := range v.brokers {
		if v.brokers[i].Account == account {
			return &v.brokers[i]
		}
	}
	return nil
}

// KeyEpoch is the newest epoch of a topic's keys; 0: none yet.
func (v *View) KeyEpoch(topic [32]byte) uint32 {
	if t := v.TopicByID(topic); t != nil {
		return t.KeyEpoch
	}
	return 0
}
