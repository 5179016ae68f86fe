package pubsub

import (
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/replica"
	"github.com/bornode/bornode/pubsub/store"
)

// Numbers of the Kafka protocol.
const (
	opRead     = uint8(kmsg.ACLOperationRead)
	opWrite    = uint8(kmsg.ACLOperationWrite)
	opCreate   = uint8(kmsg.ACLOperationCreate)
	opDelete   = uint8(kmsg.ACLOperationDelete)
	opAlter    = uint8(kmsg.ACLOperationAlter)
	opDescribe = uint8(kmsg.ACLOperationDescribe)
	opCluster  = uint8(kmsg.ACLOperationClusterAction)
	opDescConf = uint8(kmsg.ACLOperationDescribeConfigs)
	opAltConf  = uint8(kmsg.ACLOperationAlterConfigs)

	onTopic   = uint8(kmsg.ACLResourceTypeTopic)
	onGroup   = uint8(kmsg.ACLResourceTypeGroup)
	onCluster = uint8(kmsg.ACLResourceTypeCluster)

	clusterName = "kafka-cluster"
)

// call is one request of one session, judged by one view.
type call struct {
	b    *Broker
	conn *kafka.Conn
	s    *kafka.Session
	who  ledger.Principal
	v    *ledger.View
	now  time.Time

	refusals atomic.Int32 // that evidence was told of
}

// may asks the ledger's view.
func (x *call) may(op, resource uint8, name string) bool {
	ok, _ := x.v.Authorize(x.who, x.conn.Remote(), op, resource, name)
	return ok
}

// stranger tells whether the ledger has nothing about the principal: anybody can make such accounts, as many as he likes.
func (x *call) stranger() bool { return !x.v.Knows(x.who) }

// topic finds a topic by name for an operation. A principal that may not even see it learns nothing of whether it exists.
// A name without a tenant belongs to nobody who could allow or refuse: it is called wrong, not forbidden, so that who
// forgot the tenant looks at the name and not at the rules.
func (x *call) topic(name string, op uint8) (*ledger.Topic, error) {
	if tenantOf(name) == "" {
		return nil, kerr.InvalidTopicException
	}
	t := x.v.Topic(name)
	if ok, reason := x.v.Authorize(x.who, x.conn.Remote(), op, onTopic, name); !ok {
		x.refused(t, name, op, onTopic, reason)
		return nil, kerr.TopicAuthorizationFailed
	}
	if t == nil {
		return nil, kerr.UnknownTopicOrPartition
	}
	return t, nil
}

// topicByUUID is topic for requests that name topics by id. Without the right to see a topic its id is unknown.
func (x *call) topicByUUID(id [16]byte, op uint8) (*ledger.Topic, error) {
	t := x.b.topics.byUUID(x.v, id)
	if t == nil {
		return nil, kerr.UnknownTopicID
	}
	if ok, reason := x.v.Authorize(x.who, x.conn.Remote(), op, onTopic, t.Name); !ok {
		x.refused(t, t.Name, op, onTopic, reason)
		if x.may(opDescribe, onTopic, t.Name) {
			return nil, kerr.TopicAuthorizationFailed
		}
		return nil, kerr.UnknownTopicID
	}
	return t, nil
}

// record tells evidence of an allowed operation on a topic. Offsets are those of the records, or -1.
func (x *call) record(t *ledger.Topic, op uint8, partition int32, first, last int64) {
	x.operated(t, "", op, none, "", partition, first, last)
}

// refused tells evidence of an operation on a topic or group that the ledger does not allow. One on a name that no topic
// has is kept too. It counts against the account in the name's tenant if no rule allows it: what is refused for want of
// reputation must not cost more of it.
func (x *call) refused(t *ledger.Topic, name string, op, resource uint8, reason string) {
	x.rest()
	err, tenant := kerr.TopicAuthorizationFailed, ""
	if resource == onGroup {
		err = kerr.GroupAuthorizationFailed
	}
	if allowed, _ := x.v.Allows(x.who, x.conn.Remote(), op, resource, name); !allowed {
		tenant = tenantOf(name)
	}
	x.operated(t, tenant, op, err.Code, proof.CutReason(reason), -1, -1, -1)
}

// administered tells evidence of a change to a topic that the contract judged.
func (x *call) administered(t *ledger.Topic, op uint8, o outcome) {
	tenant := ""
	if o.code == kerr.TopicAuthorizationFailed.Code { // other refusals are not for want of a right
		tenant = t.Tenant
	}
	x.operated(t, tenant, op, o.code, o.reason(), -1, -1, -1)
}

// rest holds the connection back for a refusal, the longer the more of them one request brought.
func (x *call) rest() { x.throttle(time.Duration(x.refusals.Add(1)) * refusedRest) }

// operated tells evidence of an operation; a refused one counts against the principal in a tenant, unless that is empty.
func (x *call) operated(t *ledger.Topic, against string, op uint8, code int16, reason string, partition int32, first, last int64) {
	result := "allowed"
	if code != none {
		result = "refused"
	}
	x.b.m.operations.WithLabelValues(operationName(op), result).Inc()
	if x.b.deps.Evidence == nil || t != nil && t.Tenant == ownTenant {
		return
	}
	ms := x.now.UnixMilli()
	o := proof.Operation{Operator: x.who.Account, Pseudonym: x.s.Token != nil && x.s.Token.Certificate != nil, Role: roleOf(op), Kind: proof.Kind(op),
		Code: code, Reason: reason, Partition: partition, First: first, Last: last, Count: 1, Start: ms, End: ms}
	if !o.Pseudonym { // everybody reads the chain: the address would tell who is behind the pseudonym
		o.Host, _ = netip.ParseAddr(x.conn.Remote())
	}
	var id [32]byte
	if t != nil {
		id = t.ID
	}
	x.b.deps.Evidence.Operated(id, countedIn(x.v, t, against, &o), o)
}

// countedIn is the id of the tenant in which an operation counts for or against its operator's reputation: a refused one
// against it where the caller says, an allowed one for it as long as there is something to make good. Zero: in none.
func countedIn(v *ledger.View, t *ledger.Topic, against string, o *proof.Operation) (tenant [32]byte) {
	switch {
	case o.Refused():
		if v.Tenant(against) != nil {
			return contracts.TenantID(against)
		}
	case t != nil:
		if s, err := v.Standing(t.Tenant, o.Operator); err == nil && s < contracts.Reputation {
			return contracts.TenantID(t.Tenant)
		}
	}
	return tenant
}

// roleOf is in which capacity a principal does an operation.
func roleOf(op uint8) proof.Role {
	switch op {
	case opWrite:
		return proof.RoleProducer
	case opRead:
		return proof.RoleConsumer
	case opCreate, opDelete, opAlter, opAltConf:
		return proof.RoleOwner
	}
	return proof.RoleNone
}

// led finds a partition of a topic that this broker leads. epoch is what the client believes the leader's to be; -1: it
// does not say.
func (x *call) led(t *ledger.Topic, partition, epoch int32) (store.ID, *store.Partition, int32, error) {
	id := store.ID{Topic: t.ID, Partition: partition}
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return id, nil, -1, kerr.UnknownTopicOrPartition
	}
	e, ready := x.b.deps.Replicas.Leader(replica.ID(id))
	switch {
	case e < 0:
		if epoch > t.Partitions[partition].Epoch {
			return id, nil, e, kerr.UnknownLeaderEpoch
		}
		return id, nil, e, kerr.NotLeaderForPartition
	case epoch >= 0 && epoch < e:
		return id, nil, e, kerr.FencedLeaderEpoch
	case epoch > e:
		return id, nil, e, kerr.UnknownLeaderEpoch
	}
	p := x.b.deps.Store.Partition(id)
	if p == nil || !ready {
		if x.b.deps.Replicas.DataLost(replica.ID(id)) {
			return id, nil, e, replica.ErrLost
		}
		return id, nil, e, kerr.NotLeaderForPartition
	}
	return id, p, e, nil
}

// throttle charges bytes to a tenant and holds the connection back while the tenant is in debt. It returns milliseconds.
func (x *call) throttle(d time.Duration) int32 {
	if d <= 0 {
		return 0
	}
	d = min(d, maxThrottle)
	x.conn.Throttle(d)
	x.b.m.throttled.Add(d.Seconds())
	return int32(d.Milliseconds()) //nolint:gosec // at most maxThrottle
}

// join counts the connection to a topic's tenant at its first use; the error says that the tenant has no more.
func (x *call) join(tenant string) error {
	if tenant == ownTenant || x.b.conns.joined(x.conn, tenant) {
		return nil
	}
	t := x.v.Tenant(tenant)
	if t == nil {
		return nil
	}
	if !x.b.conns.join(x.b.quotas, x.conn, tenant, t.Connections) {
		x.throttle(refusedPause)
		return kerr.ThrottlingQuotaExceeded
	}
	return nil
}

// rate is a tenant's bytes per second; 0: no limit.
func (x *call) rate(tenant string) uint64 {
	if t := x.v.Tenant(tenant); t != nil {
		return t.BytesPerSecond
	}
	return 0
}

// node is the number of the broker with this account; -1: none.
func (x *call) node(account common.Address) int32 {
	if b := x.v.BrokerByAccount(account); b != nil {
		return b.ID
	}
	return -1
}
