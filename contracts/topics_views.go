package contracts

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
)

// Tenant is whom topics belong to, and what it may use.
type Tenant = TopicsBaseTenant

// Broker is a node that serves topics.
type Broker struct {
	ID      int32 // from 1 on, for ever
	Account common.Address
	Host    string
	Port    uint16
	PeerID  string
	Live    bool
}

// Lease says who leads a partition and who keeps its log, in which epoch, and who is to keep it by the owner's wish.
type Lease = LeasesLease

// TopicInfo is what Topics knows of a topic. A zero Created means that there never was one of this id.
type TopicInfo struct {
	ID             common.Hash
	Name           string
	Owner          common.Address // zero: nobody
	Auditor        common.Address // zero: no pseudonyms
	Encrypted      bool
	Deleted        bool
	Created        uint64 // height
	KeyEpoch       uint32
	PseudonymEpoch uint32
	Config         []byte  // see DecodeTopicConfig
	Replicas       uint8   // of a partition, unless its owner wants others
	Leases         []Lease // by partition
}

// CheckpointInfo is the last checkpoint of a topic; Seq is 0 before the first.
type CheckpointInfo struct {
	Seq    uint64
	Root   common.Hash
	Leaves uint64
	Height uint64
}

// OperationsInfo is where a topic's log of operations stands.
type OperationsInfo struct {
	Count      uint64 // of operations ever
	Root       common.Hash
	LastHeight uint64 // of the block with the last of them; 0 before the first
}

func badView(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrReturn, what, err)
}

func checkTenant(t Tenant) error {
	if len(t.Name) > MaxTenantName {
		return fmt.Errorf("%w: a tenant's name of %d bytes", ErrReturn, len(t.Name))
	}
	return nil
}

// DecodeTenant reads what TenantCall returns; Connections is 0 if there is no such tenant. Errors of this and the other
// decoders wrap ErrReturn.
func DecodeTenant(ret []byte) (Tenant, error) {
	t, err := bpsTopics().UnpackTenant(ret)
	if err != nil {
		return Tenant{}, badView("tenant", err)
	}
	return t, checkTenant(t)
}

// DecodeTenantPage reads what TenantPageCall returns: the page and how many tenants there are.
func DecodeTenantPage(ret []byte) ([]Tenant, uint64, error) {
	out, err := bpsTopics().UnpackTenantPage(ret)
	if err != nil {
		return nil, 0, badView("page of tenants", err)
	}
	if !out.Total.IsUint64() || out.Total.Uint64() > MaxTenants || len(out.Page) > MaxTenants {
		return nil, 0, fmt.Errorf("%w: page of %d of %s tenants", ErrReturn, len(out.Page), out.Total)
	}
	for _, t := range out.Page {
		if err := checkTenant(t); err != nil {
			return nil, 0, err
		}
	}
	return out.Page, out.Total.Uint64(), nil
}

// DecodeBrokers reads what BrokersCall returns.
func DecodeBrokers(ret []byte) ([]Broker, error) {
	out, err := bpsTopics().UnpackBrokers(ret)
	if err != nil {
		return nil, badView("brokers", err)
	}
	if len(out) > MaxBrokers {
		return nil, fmt.Errorf("%w: %d brokers", ErrReturn, len(out))
	}
	list := make([]Broker, len(out))
	for i, b := range out {
		if list[i], err = newBroker(b.Id, b.Account, b.Host, b.Port, b.PeerId, b.Live); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func newBroker(id uint32, account common.Address, host string, port uint16, peerID []byte, live bool) (Broker, error) {
	if id == 0 || id > MaxBrokers || len(host) > MaxBrokerHost || len(peerID) > MaxPeerIDBytes {
		return Broker{}, fmt.Errorf("%w: broker %d with a host of %d and a peer id of %d bytes", ErrReturn, id, len(host), len(peerID))
	}
	return Broker{int32(id), account, host, port, string(peerID), live}, nil
}

// DecodeTopicID reads what TopicIDCall returns; zero means that no topic has the name.
func DecodeTopicID(ret []byte) (common.Hash, error) {
	id, err := bpsTopics().UnpackTopicId(ret)
	if err != nil {
		return common.Hash{}, badView("id of a topic", err)
	}
	return id, nil
}

// DecodeTopic reads what TopicCall returns.
func DecodeTopic(ret []byte) (TopicInfo, error) {
	out, err := bpsTopics().UnpackTopic(ret)
	if err != nil {
		return TopicInfo{}, badView("topic", err)
	}
	return newTopicInfo(out)
}

// DecodeTopicPage reads what TopicPageCall returns: the page and how many topics there are.
func DecodeTopicPage(ret []byte) ([]TopicInfo, uint64, error) {
	out, err := bpsTopics().UnpackTopicPage(ret)
	if err != nil {
		return nil, 0, badView("page of topics", err)
	}
	if !out.Total.IsUint64() || uint64(len(out.Page)) > out.Total.Uint64() {
		return nil, 0, fmt.Errorf("%w: page of %d of %s topics", ErrReturn, len(out.Page), out.Total)
	}
	page := make([]TopicInfo, len(out.Page))
	for i, t := range out.Page {
		if page[i], err = newTopicInfo(t); err != nil {
			return nil, 0, err
		}
	}
	return page, out.Total.Uint64(), nil
}

func newTopicInfo(x TopicAdminInfo) (TopicInfo, error) {
	t := TopicInfo{
		x.Id, x.Name, x.Owner, x.Auditor, x.Encrypted, x.Deleted, x.Created, x.KeyEpoch, x.PseudonymEpoch, x.Config, x.Replicas, x.Leases,
	}
	if len(t.Name) > MaxTopicName || len(t.Config) > MaxTopicConfig || len(t.Leases) > MaxPartitions {
		return t, fmt.Errorf("%w: topic %s with a name of %d bytes, a configuration of %d and %d partitions",
			ErrReturn, t.ID, len(t.Name), len(t.Config), len(t.Leases))
	}
	if t.Created != 0 && (t.Replicas == 0 || t.Replicas > MaxReplicas) {
		return t, fmt.Errorf("%w: topic %s with %d replicas", ErrReturn, t.ID, t.Replicas)
	}
	for p, l := range t.Leases {
		if len(l.Replicas) == 0 || len(l.Replicas) > MaxReplicas || l.Epoch == 0 || l.Epoch > maxEpoch {
			return t, fmt.Errorf("%w: partition %d of topic %s with %d replicas in epoch %d", ErrReturn, p, t.ID, len(l.Replicas), l.Epoch)
		}
		if len(l.Wanted) > MaxReplicas {
			return t, fmt.Errorf("%w: partition %d of topic %s with %d wanted replicas", ErrReturn, p, t.ID, len(l.Wanted))
		}
	}
	return t, nil
}

// DecodeAclPage reads what AclPageCall returns: the page and how many rules the tenant has.
func DecodeAclPage(ret []byte) ([]Acl, uint64, error) {
	out, err := bpsTopics().UnpackAclPage(ret)
	if err != nil {
		return nil, 0, badView("page of rules", err)
	}
	if !out.Total.IsUint64() || out.Total.Uint64() > MaxAcls || len(out.Page) > MaxAcls {
		return nil, 0, fmt.Errorf("%w: page of %d of %s rules", ErrReturn, len(out.Page), out.Total)
	}
	return out.Page, out.Total.Uint64(), nil
}

// DecodeSealKeyOf reads what SealKeyOfCall returns; empty means that the account published none.
func DecodeSealKeyOf(ret []byte) ([]byte, error) {
	return boundedBytes(bpsTopics().UnpackSealKey, ret, "sealing key", MaxSealKey)
}

// DecodeKeyEpoch reads what KeyEpochCall returns; 0 is before the first.
func DecodeKeyEpoch(ret []byte) (uint32, error) {
	return single(bpsTopics().UnpackKeyEpoch, ret, "key epoch")
}

// DecodeSealedKey reads what SealedKeyCall returns; empty means that nothing was sealed to the reader.
func DecodeSealedKey(ret []byte) ([]byte, error) {
	return boundedBytes(bpsTopics().UnpackSealedKey, ret, "sealed key", MaxSealedKey)
}

// DecodePseudonymRevoked reads what PseudonymRevokedCall returns.
func DecodePseudonymRevoked(ret []byte) (bool, error) {
	return single(bpsTopics().UnpackPseudonymRevoked, ret, "revocation")
}

// DecodeOperations reads what OperationsCall returns.
func DecodeOperations(ret []byte) (OperationsInfo, error) {
	out, err := bpsTopics().UnpackOperations(ret)
	if err != nil {
		return OperationsInfo{}, badView("operations", err)
	}
	return OperationsInfo{out.Count, out.Root, out.LastOpHeight}, nil
}

// DecodeCheckpoint reads what CheckpointCall returns.
func DecodeCheckpoint(ret []byte) (CheckpointInfo, error) {
	out, err := bpsTopics().UnpackCheckpoint(ret)
	if err != nil {
		return CheckpointInfo{}, badView("checkpoint", err)
	}
	return CheckpointInfo{out.Seq, out.Root, out.Leaves, out.Height}, nil
}

// DecodeReputation reads what ReputationCall returns: 0 to Reputation.
func DecodeReputation(ret []byte) (uint8, error) {
	r, err := single(bpsTopics().UnpackReputation, ret, "reputation")
	if err == nil && r > Reputation {
		return 0, fmt.Errorf("%w: a reputation of %d", ErrReturn, r)
	}
	return r, err
}

// DecodeOffset reads what OffsetCall returns; known is false if the group committed none.
func DecodeOffset(ret []byte) (offset int64, known bool, err error) {
	out, err := bpsTopics().UnpackOffsetOf(ret)
	if err != nil {
		return 0, false, badView("offset", err)
	}
	if out.Offset < 0 {
		return 0, false, fmt.Errorf("%w: offset %d", ErrReturn, out.Offset)
	}
	return out.Offset, out.Known, nil
}

// DecodeCommits reads what CommitsCall returns.
func DecodeCommits(ret []byte) (uint64, error) {
	return single(bpsTopics().UnpackCommits, ret, "number of commits")
}

// DecodeAttendsUntil reads what AttendsUntilCall returns: Unix seconds, 0 for a broker that is not counted on.
func DecodeAttendsUntil(ret []byte) (uint64, error) {
	return single(bpsTopics().UnpackAttendsUntil, ret, "attendance of a broker")
}

// DecodeTokensCancelled reads what TokensCancelledCall returns: Unix seconds, 0 for never.
func DecodeTokensCancelled(ret []byte) (uint64, error) {
	return single(bpsTopics().UnpackTokensCancelled, ret, "cancelled tokens")
}

func single[T any](unpack func([]byte) (T, error), ret []byte, what string) (T, error) {
	v, err := unpack(ret)
	if err != nil {
		return v, badView(what, err)
	}
	return v, nil
}

func boundedBytes(unpack func([]byte) ([]byte, error), ret []byte, what string, limit int) ([]byte, error) {
	b, err := single(unpack, ret, what)
	if err == nil && len(b) > limit {
		return nil, fmt.Errorf("%w: %s of %d bytes", ErrReturn, what, len(b))
	}
	return b, err
}
