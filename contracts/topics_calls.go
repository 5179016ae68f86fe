package contracts

import (
	"bytes"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
)

// What calls of Topics carry: the generated bindings under their own names.
type (
	Acl        = TopicsBaseAcl // numbers of the Kafka protocol
	Claim      = LeasesClaim
	Handover   = LeasesHandover
	Checkpoint = NotaryCheckpoint
	Operations = NotaryOperations
	Standing   = NotaryStanding
	Offset     = NotaryOffset
	Token      = TopicsToken
)

// NewTopic is what createTopic needs.
type NewTopic struct {
	Name       string
	Partitions uint32
	Replicas   uint16
	Config     map[string]string
	Auditor    common.Address // who answers for pseudonyms; zero: none
	Encrypted  bool
}

// CreateTopicCall is the call data of createTopic. The error says what Topics would refuse whatever its state is.
func CreateTopicCall(t NewTopic) ([]byte, error) {
	if _, err := TenantOf(t.Name); err != nil {
		return nil, err
	}
	if t.Partitions < 1 || t.Partitions > MaxNewPartitions || t.Replicas < 1 || t.Replicas > MaxReplicas {
		return nil, fmt.Errorf("topic %s: 1 to %d partitions and 1 to %d replicas can be asked for, not %d and %d",
			t.Name, MaxNewPartitions, MaxReplicas, t.Partitions, t.Replicas)
	}
	config, err := EncodeTopicConfig(t.Config)
	if err != nil {
		return nil, err
	}
	return bpsTopics().PackCreateTopic(t.Name, t.Partitions, t.Replicas, config, t.Auditor, t.Encrypted), nil
}

// AddPartitionsCall gives a topic more partitions, total in all.
func AddPartitionsCall(topic common.Hash, total uint32) []byte {
	return bpsTopics().PackAddPartitions(topic, total)
}

// ConfigureCall gives a topic another configuration.
func ConfigureCall(topic common.Hash, config map[string]string) ([]byte, error) {
	b, err := EncodeTopicConfig(config)
	if err != nil {
		return nil, err
	}
	return bpsTopics().PackConfigure(topic, b), nil
}

// DeleteTopicCall deletes a topic; what the ledger knows of it stays.
func DeleteTopicCall(topic common.Hash) []byte { return bpsTopics().PackDeleteTopic(topic) }

// SetOwnerCall gives a topic another owner.
func SetOwnerCall(topic common.Hash, owner common.Address) []byte {
	return bpsTopics().PackSetOwner(topic, owner)
}

// GrantCall adds rules of access to a tenant; see CheckAcl.
func GrantCall(tenant string, entries []Acl) ([]byte, error) {
	if err := checkAcls(tenant, entries); err != nil {
		return nil, err
	}
	return bpsTopics().PackGrant(tenant, entries), nil
}

// RevokeCall takes rules of access away; see CheckAcl.
func RevokeCall(tenant string, entries []Acl) ([]byte, error) {
	if err := checkAcls(tenant, entries); err != nil {
		return nil, err
	}
	return bpsTopics().PackRevoke(tenant, entries), nil
}

func checkAcls(tenant string, entries []Acl) error {
	if len(entries) == 0 || len(entries) > MaxAclsPerCall {
		return fmt.Errorf("rules of tenant %s: 1 to %d go into one call, not %d", tenant, MaxAclsPerCall, len(entries))
	}
	for _, a := range entries {
		if err := CheckAcl(tenant, a); err != nil {
			return err
		}
	}
	return nil
}

// SealKeyCall publishes the caller's sealing key.
func SealKeyCall(key []byte) ([]byte, error) {
	if len(key) == 0 || len(key) > MaxSealKey {
		return nil, fmt.Errorf("a sealing key has 1 to %d bytes, not %d", MaxSealKey, len(key))
	}
	return bpsTopics().PackRegister(key), nil
}

// SetKeysCall gives readers the key of an epoch, sealed to each: the number after the current one starts another epoch.
// Long keys may need several calls for many readers: storing costs 25,000 gas for 32 bytes, and a transaction has 16.7
// million.
func SetKeysCall(topic common.Hash, epoch uint32, readers []common.Address, sealed [][]byte) ([]byte, error) {
	if len(readers) == 0 || len(readers) > MaxReaders || len(readers) != len(sealed) {
		return nil, fmt.Errorf("keys of an epoch: 1 to %d readers go into one call, each with a sealed key, not %d with %d",
			MaxReaders, len(readers), len(sealed))
	}
	for i, k := range sealed {
		if len(k) == 0 || len(k) > MaxSealedKey {
			return nil, fmt.Errorf("keys of an epoch: the key sealed to %s has %d bytes, 1 to %d are allowed", readers[i], len(k), MaxSealedKey)
		}
	}
	return bpsTopics().PackSetKeys(topic, epoch, readers, sealed), nil
}

// RevokePseudonymCall revokes a pseudonym of a topic for ever.
func RevokePseudonymCall(topic common.Hash, pseudonym common.Address) []byte {
	return bpsTopics().PackRevokePseudonym(topic, pseudonym)
}

// NextPseudonymsCall starts another epoch of a topic's pseudonyms.
func NextPseudonymsCall(topic common.Hash) []byte { return bpsTopics().PackNextPseudonyms(topic) }

// RegisterBrokerCall registers the caller as a broker, or changes what it registered.
func RegisterBrokerCall(host string, port uint16, peerID string) ([]byte, error) {
	if host == "" || len(host) > MaxBrokerHost || port == 0 || peerID == "" || len(peerID) > MaxPeerIDBytes {
		return nil, fmt.Errorf("a broker has a host of 1 to %d bytes, a port and a peer id of 1 to %d, not %.80q, %d and %.80q",
			MaxBrokerHost, MaxPeerIDBytes, host, port, peerID)
	}
	return bpsTopics().PackRegisterBroker(host, port, []byte(peerID)), nil
}

// AttendCall says that the caller, a live broker, is there and that the ledger counts on it for so many seconds more.
func AttendCall(seconds uint32) ([]byte, error) {
	if seconds > MaxAttendance {
		return nil, fmt.Errorf("a broker attends for %d seconds at most, not %d", MaxAttendance, seconds)
	}
	return bpsTopics().PackAttend(seconds), nil
}

// RetireBrokerCall takes the caller out of the live brokers.
func RetireBrokerCall() []byte { return bpsTopics().PackRetireBroker() }

// ClaimCall makes the caller the leader of partitions, where it is a replica and the epoch is still the claim's; at most
// MaxClaims.
func ClaimCall(claims []Claim) ([]byte, error) {
	if len(claims) == 0 || len(claims) > MaxClaims {
		return nil, fmt.Errorf("1 to %d leases are claimed in one call, not %d", MaxClaims, len(claims))
	}
	return bpsTopics().PackClaim(claims), nil
}

// HandOverCall gives leases of the caller to other live replicas; at most MaxClaims.
func HandOverCall(list []Handover) ([]byte, error) {
	if len(list) == 0 || len(list) > MaxClaims {
		return nil, fmt.Errorf("1 to %d leases are handed over in one call, not %d", MaxClaims, len(list))
	}
	return bpsTopics().PackHandOver(list), nil
}

// SetReplicasCall adds one broker to a partition's replicas or takes one away. It starts the epoch after the given one,
// under the same leader.
func SetReplicasCall(topic common.Hash, partition, epoch uint32, replicas []common.Address) []byte {
	return bpsTopics().PackSetReplicas(topic, partition, epoch, replicas)
}

// WantReplicasCall says which brokers are to keep a partition, none: any. The topic's or the tenant's owner sends it; its
// leader carries it out by and by.
func WantReplicasCall(topic common.Hash, partition uint32, replicas []common.Address) ([]byte, error) {
	if len(replicas) > MaxReplicas {
		return nil, fmt.Errorf("a partition has 1 to %d replicas, not %d", MaxReplicas, len(replicas))
	}
	return bpsTopics().PackWantReplicas(topic, partition, replicas), nil
}

// RelayCall is how a broker makes an administrative call for the account that signed the token.
func RelayCall(t Token, signature, data []byte) []byte {
	return bpsTopics().PackRelay(t, signature, data)
}

// CancelTokensCall voids all tokens that the caller issued until now or dated up to TokenSkewSeconds ahead.
func CancelTokensCall() []byte { return bpsTopics().PackCancelTokens() }

// Commit is what a broker puts on record in one transaction.
type Commit struct {
	Number      uint64 // the broker's last + 1
	Checkpoints []Checkpoint
	Operations  []Operations
	Standings   []Standing
	Offsets     []Offset
}

// CommitCall is the call data of commit. The error says what Topics would refuse whatever its state is.
func CommitCall(c Commit) ([]byte, error) {
	count, size := 0, 0
	for _, o := range c.Operations {
		if o.Count == 0 || uint64(len(o.Entries)) < uint64(o.Count) {
			return nil, fmt.Errorf("commit %d: %d operations of %d bytes on topic %x", c.Number, o.Count, len(o.Entries), o.Topic)
		}
		count += int(min(o.Count, MaxOperations+1))
		size += len(o.Entries)
	}
	if count > MaxOperations || size > MaxEntriesBytes || len(c.Checkpoints) > MaxCheckpoints || len(c.Standings) > MaxStandings || len(c.Offsets) > MaxOffsets {
		return nil, fmt.Errorf("commit %d: %d operations of %d bytes, %d checkpoints, %d standings and %d offsets are too many; the most are %d of %d, %d, %d and %d",
			c.Number, count, size, len(c.Checkpoints), len(c.Standings), len(c.Offsets),
			MaxOperations, MaxEntriesBytes, MaxCheckpoints, MaxStandings, MaxOffsets)
	}
	b := bpsTopics().PackCommit(c.Number, c.Checkpoints, c.Operations, c.Standings, c.Offsets)
	if len(b) > MaxCommitBytes {
		return nil, fmt.Errorf("commit %d: its call data has %d bytes, %d are allowed", c.Number, len(b), MaxCommitBytes)
	}
	return b, nil
}

// DecodeCommit reads the call data of commit, as it stands in a block. Errors wrap ErrReturn.
func DecodeCommit(data []byte) (c Commit, err error) {
	m := TopicsABI().Methods["commit"]
	if len(data) > MaxCommitBytes || !bytes.HasPrefix(data, m.ID) {
		return c, fmt.Errorf("%w: %d bytes are no call of commit", ErrReturn, len(data))
	}
	args, err := m.Inputs.Unpack(data[len(m.ID):])
	if err != nil {
		return c, fmt.Errorf("%w: call of commit: %w", ErrReturn, err)
	}
	if err := m.Inputs.Copy(&c, args); err != nil {
		return c, fmt.Errorf("%w: call of commit: %w", ErrReturn, err)
	}
	return c, nil
}

// Call data of views, to be read by the Decode function of the same name.

// TenantCall reads one tenant.
func TenantCall(name string) []byte { return bpsTopics().PackTenant(name) }

// TenantPageCall reads at most n tenants from place from on.
func TenantPageCall(from, n uint64) []byte { return bpsTopics().PackTenantPage(big64(from), big64(n)) }

// BrokersCall reads all brokers that ever registered.
func BrokersCall() []byte { return bpsTopics().PackBrokers() }

// TopicIDCall reads the id of the topic that has this name now.
func TopicIDCall(name string) []byte { return bpsTopics().PackTopicId(name) }

// TopicCall reads one topic, deleted ones too.
func TopicCall(topic common.Hash) []byte { return bpsTopics().PackTopic(topic) }

// TopicPageCall reads at most n topics from place from on. Fewer may come although more follow: go on after as many as
// came. ReadTopics does.
func TopicPageCall(from, n uint64) []byte { return bpsTopics().PackTopicPage(big64(from), big64(n)) }

// AclPageCall reads at most n rules of a tenant from place from on.
func AclPageCall(tenant string, from, n uint64) []byte {
	return bpsTopics().PackAclPage(tenant, big64(from), big64(n))
}

// SealKeyOfCall reads an account's sealing key.
func SealKeyOfCall(account common.Address) []byte { return bpsTopics().PackSealKey(account) }

// KeyEpochCall reads the newest key epoch of a topic.
func KeyEpochCall(topic common.Hash) []byte { return bpsTopics().PackKeyEpoch(topic) }

// SealedKeyCall reads the key of an epoch that was sealed to a reader.
func SealedKeyCall(topic common.Hash, epoch uint32, reader common.Address) []byte {
	return bpsTopics().PackSealedKey(topic, epoch, reader)
}

// PseudonymRevokedCall reads whether a pseudonym of a topic was revoked.
func PseudonymRevokedCall(topic common.Hash, pseudonym common.Address) []byte {
	return bpsTopics().PackPseudonymRevoked(topic, pseudonym)
}

// OperationsCall reads where a topic's log of operations stands.
func OperationsCall(topic common.Hash) []byte { return bpsTopics().PackOperations(topic) }

// CheckpointCall reads a topic's last checkpoint.
func CheckpointCall(topic common.Hash) []byte { return bpsTopics().PackCheckpoint(topic) }

// ReputationCall reads an account's reputation in a tenant, by TenantID, as of the time of the block that is asked.
func ReputationCall(tenant common.Hash, account common.Address) []byte {
	return bpsTopics().PackReputation(tenant, account)
}

// RemainingLoss is what is left at a time of points that were lost by another, both in Unix seconds: each full minute of
// the clock takes a quarter away, rounded down. A time before since leaves all.
func RemainingLoss(points uint8, since, at uint64) uint8 {
	for minute := since / 60; minute < at/60 && points > 0; minute++ {
		points = uint8(uint(points) * 3 / 4) //nolint:gosec // less than points
	}
	return points
}

// OffsetCall reads the offset that a group committed for a partition.
func OffsetCall(group, topic common.Hash, partition uint32) []byte {
	return bpsTopics().PackOffsetOf(group, topic, partition)
}

// CommitsCall reads how many commits of a broker were counted.
func CommitsCall(broker common.Address) []byte { return bpsTopics().PackCommits(broker) }

// AttendsUntilCall reads until when the ledger counts on a broker.
func AttendsUntilCall(broker common.Address) []byte { return bpsTopics().PackAttendsUntil(broker) }

// TokensCancelledCall reads the time until which an account's tokens are void.
func TokensCancelledCall(account common.Address) []byte {
	return bpsTopics().PackTokensCancelled(account)
}

func big64(n uint64) *big.Int { return new(big.Int).SetUint64(n) }
