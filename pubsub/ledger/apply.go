package ledger

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/acl"
)

// errUnfit is wrapped by the error about an event that does not fit the view: the state is read anew.
var errUnfit = errors.New("an event of Topics does not fit what is known")

// next is a view that is being made from another by events. What it gave out before stays as it is.
type next struct {
	v       *View
	tenants *draft[common.Hash, *tenant]
	topics  *draft[common.Hash, *Topic]
	names   *draft[string, common.Hash]
	mineT   map[common.Hash]bool // topics copied for this view
	mineN   map[common.Hash]bool // tenants copied for this view
	rules   map[common.Hash]map[acl.Entry]int
	rule    int
	brokers bool // copied
}

// apply is the view after the events of the blocks up to h. Facts are told at once.
func (v *View) apply(h *types.Header, logs []*types.Log) (*View, error) {
	c := *v
	n := &next{v: &c, tenants: v.tenants.draft(), topics: v.topics.draft(), names: v.names.draft(),
		mineT: map[common.Hash]bool{}, mineN: map[common.Hash]bool{}, rules: map[common.Hash]map[acl.Entry]int{}}
	for _, l := range logs {
		e, err := contracts.DecodeTopicsEvent(l)
		if errors.Is(err, contracts.ErrUnknownEvent) {
			continue
		}
		if err == nil {
			err = n.event(e, l.BlockNumber)
		}
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", l.BlockNumber, err)
		}
	}
	n.setRules()
	c.Height, c.Time, c.Hash = h.Number.Uint64(), h.Time, h.Hash()
	c.tenants, c.topics, c.names = n.tenants.t, n.topics.t, n.names.t
	return &c, nil
}

func (n *next) event(e any, height uint64) error {
	switch e := e.(type) {
	case *contracts.TenantSet:
		n.tenantSet(e)
	case *contracts.BrokerSet:
		return n.brokerSet(Broker{int32(e.Id), e.Account, e.Host, int32(e.Port), string(e.PeerId), e.Live}) //nolint:gosec // bounded by the decoder
	case *contracts.TopicCreated:
		return n.created(e, height)
	case *contracts.TopicChanged:
		return n.changed(e)
	case *contracts.TopicDeleted:
		return n.deleted(e)
	case *contracts.LeaseChanged:
		return n.lease(e.Topic, e.Partition, e.Leader, e.Epoch, nil)
	case *contracts.ReplicasChanged:
		return n.lease(e.Topic, e.Partition, e.Leader, e.Epoch, e.Replicas)
	case *contracts.ReplicasWanted:
		return n.wanted(e)
	case *contracts.Granted:
		return n.granted(e.Tenant, acl.Entry(e.Entry), true)
	case *contracts.Revoked:
		return n.granted(e.Tenant, acl.Entry(e.Entry), false)
	case *contracts.KeysSet:
		t, err := n.topic(e.Topic)
		if err == nil {
			t.KeyEpoch = max(t.KeyEpoch, e.Epoch)
		}
		return err
	case *contracts.StandingChanged:
		n.standingChanged(e)
	case *contracts.TokensCancelled:
		n.v.facts.tokens.event(e.Account, e.IssuedUntil)
	case *contracts.PseudonymRevoked:
		n.v.facts.revoked.event(pseudonym{e.Topic, e.Pseudonym}, true)
	}
	return nil
}

// standingChanged takes an account's reputation in a tenant. A pardon in all tenants has none.
func (n *next) standingChanged(e *contracts.StandingChanged) {
	if e.Tenant == (common.Hash{}) {
		n.v.facts.standing.forgetIf(func(m member) bool { return m.account == e.Account })
		return
	}
	n.v.facts.standing.event(member{e.Tenant, e.Account}, loss{contracts.Reputation - e.Reputation, e.Time})
}

// topic is the topic to be changed.
func (n *next) topic(id common.Hash) (*Topic, error) {
	t, ok := n.topics.t.get(id)
	if !ok {
		return nil, fmt.Errorf("%w: no topic %s is known", errUnfit, id)
	}
	if !n.mineT[id] {
		c := *t
		c.Partitions = slices.Clone(t.Partitions)
		t = &c
		n.topics.put(id, t)
		n.mineT[id] = true
	}
	return t, nil
}

// tenant is the tenant to be changed.
func (n *next) tenant(id common.Hash) (*tenant, error) {
	t, ok := n.tenants.t.get(id)
	if !ok {
		return nil, fmt.Errorf("%w: no tenant %s is known", errUnfit, id)
	}
	if !n.mineN[id] {
		c := *t
		t = &c
		n.tenants.put(id, t)
		n.mineN[id] = true
	}
	return t, nil
}

func (n *next) tenantSet(e *contracts.TenantSet) {
	t, err := n.tenant(e.Tenant)
	if err != nil {
		t = &tenant{Tenant: Tenant{Name: e.Name}, acls: acl.New(nil)}
		n.tenants.put(e.Tenant, t)
		n.mineN[e.Tenant] = true
	}
	t.Owner, t.BytesPerSecond, t.Connections, t.MaxTopics, t.MaxPartitions = e.Owner, e.BytesPerSecond, e.Connections, e.Topics, e.Partitions
	t.decisions = &decisions{}
}

func (n *next) brokerSet(b Broker) error {
	if !n.brokers {
		n.v.brokers, n.brokers = slices.Clone(n.v.brokers), true
	}
	i := int(b.ID) - 1
	switch {
	case i < len(n.v.brokers):
		n.v.brokers[i] = b
	case i == len(n.v.brokers):
		n.v.brokers = append(n.v.brokers, b)
	default:
		return fmt.Errorf("%w: broker %d comes after %d", errUnfit, b.ID, len(n.v.brokers))
	}
	return nil
}

func (n *next) created(e *contracts.TopicCreated, height uint64) error {
	t, err := n.tenant(e.Tenant)
	if err != nil {
		return err
	}
	if _, ok := n.names.t.get(e.Name); ok {
		return fmt.Errorf("%w: there is a topic %s already", errUnfit, e.Name)
	}
	n.topics.put(e.Topic, &Topic{
		ID: e.Topic, Name: e.Name, Tenant: t.Name, Owner: e.Owner, Auditor: e.Auditor, Encrypted: e.Encrypted,
		Config: topicConfig(e.Config), Created: height, PseudonymEpoch: 1,
	})
	n.mineT[e.Topic] = true
	n.names.put(e.Name, e.Topic)
	t.TopicsUsed++
	t.decisions = &decisions{}
	return nil
}

// topicConfig takes what cannot be read as empty: the owner may have stored anything.
func topicConfig(b []byte) map[string]string {
	c, err := contracts.DecodeTopicConfig(b)
	if err != nil {
		return map[string]string{}
	}
	return c
}

func (n *next) changed(e *contracts.TopicChanged) error {
	t, err := n.topic(e.Topic)
	if err != nil {
		return err
	}
	if t.Owner != e.Owner {
		owner, err := n.tenant(contracts.TenantID(t.Tenant))
		if err != nil {
			return err
		}
		owner.decisions = &decisions{}
	}
	t.Owner, t.PseudonymEpoch, t.Config = e.Owner, e.PseudonymEpoch, topicConfig(e.Config)
	if int(e.Partitions) != len(t.Partitions) {
		return fmt.Errorf("%w: topic %s has %d partitions, known are %d", errUnfit, t.Name, e.Partitions, len(t.Partitions))
	}
	return nil
}

func (n *next) deleted(e *contracts.TopicDeleted) error {
	topic, ok := n.topics.t.get(e.Topic)
	if !ok {
		return fmt.Errorf("%w: no topic %s is known", errUnfit, e.Name)
	}
	t, err := n.tenant(contracts.TenantID(topic.Tenant))
	if err != nil {
		return err
	}
	t.TopicsUsed--
	t.PartitionsUsed -= uint32(len(topic.Partitions)) //nolint:gosec // at most contracts.MaxPartitions
	t.decisions = &decisions{}
	n.topics.drop(e.Topic)
	n.names.drop(topic.Name)
	n.v.facts.deleted.event(e.Topic, true)
	return nil
}

// lease takes a partition's new lease; a nil replicas leaves them. The next partition is a new one.
func (n *next) lease(id common.Hash, partition uint32, leader common.Address, epoch uint32, replicas []common.Address) error {
	topic, err := n.topic(id)
	if err != nil {
		return err
	}
	i := int(partition)
	if i > len(topic.Partitions) || i == len(topic.Partitions) && replicas == nil {
		return fmt.Errorf("%w: partition %d of topic %s, which has %d", errUnfit, partition, topic.Name, len(topic.Partitions))
	}
	if i == len(topic.Partitions) {
		t, err := n.tenant(contracts.TenantID(topic.Tenant))
		if err != nil {
			return err
		}
		t.PartitionsUsed++
		topic.Partitions = append(topic.Partitions, Partition{})
		if i == 0 {
			topic.Replicas = len(replicas)
		}
	}
	if replicas == nil {
		replicas = topic.Partitions[i].Replicas
	}
	topic.Partitions[i] = Partition{leader, int32(epoch), replicas, topic.Partitions[i].Wanted} //nolint:gosec // bounded by the decoder
	return nil
}

func (n *next) wanted(e *contracts.ReplicasWanted) error {
	topic, err := n.topic(e.Topic)
	if err != nil {
		return err
	}
	if int(e.Partition) >= len(topic.Partitions) {
		return fmt.Errorf("%w: partition %d of topic %s, which has %d", errUnfit, e.Partition, topic.Name, len(topic.Partitions))
	}
	topic.Partitions[e.Partition].Wanted = clip(e.Replicas)
	return nil
}

// granted notes an entry that came or went; of one entry the last word counts.
func (n *next) granted(id common.Hash, e acl.Entry, came bool) error {
	if _, ok := n.tenants.t.get(id); !ok {
		return fmt.Errorf("%w: no tenant %s is known", errUnfit, id)
	}
	if n.rules[id] == nil {
		n.rules[id] = map[acl.Entry]int{}
	}
	n.rule++
	if n.rules[id][e] = n.rule; !came {
		n.rules[id][e] = -n.rule
	}
	return nil
}

// setRules gives every tenant whose entries changed its new list.
func (n *next) setRules() {
	for id, words := range n.rules {
		t, err := n.tenant(id)
		if err != nil {
			continue // granted looked
		}
		var grant, revoke []acl.Entry
		for e, w := range words {
			if w > 0 {
				grant = append(grant, e)
			} else {
				revoke = append(revoke, e)
			}
		}
		slices.SortFunc(grant, func(a, b acl.Entry) int { return words[a] - words[b] })
		t.acls = t.acls.With(grant, revoke)
		t.decisions = &decisions{}
	}
}
