package contracts

import (
	"errors"
	"fmt"
	"sync"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
)

// Events of Topics: the generated bindings under their own names. Raw is the log that they were read from.
type (
	TenantSet        = TopicsTenantSet
	BrokerSet        = TopicsBrokerSet
	TopicCreated     = TopicsTopicCreated // followed by ReplicasChanged of every partition
	TopicChanged     = TopicsTopicChanged // owner, partitions, pseudonym epoch or configuration
	TopicDeleted     = TopicsTopicDeleted
	LeaseChanged     = TopicsLeaseChanged    // another leader, the same replicas
	ReplicasChanged  = TopicsReplicasChanged // new, too
	ReplicasWanted   = TopicsReplicasWanted  // empty: any
	Granted          = TopicsGranted
	Revoked          = TopicsRevoked
	SealKeySet       = TopicsSealKeySet
	KeysSet          = TopicsKeysSet
	PseudonymRevoked = TopicsPseudonymRevoked
	TokensCancelled  = TopicsTokensCancelled
	Committed        = TopicsCommitted
	Checkpointed     = TopicsCheckpointed
	Operated         = TopicsOperated
	StandingChanged  = TopicsStandingChanged
	OffsetCommitted  = TopicsOffsetCommitted
)

// First topics of the events' logs.
var (
	EventTenantSet        = eventID("TenantSet(bytes32,string,address,uint64,uint32,uint32,uint32)")
	EventBrokerSet        = eventID("BrokerSet(address,uint32,string,uint16,bytes,bool)")
	EventTopicCreated     = eventID("TopicCreated(bytes32,bytes32,string,address,address,bool,uint32,bytes)")
	EventTopicChanged     = eventID("TopicChanged(bytes32,address,uint32,uint32,bytes)")
	EventTopicDeleted     = eventID("TopicDeleted(bytes32,string)")
	EventLeaseChanged     = eventID("LeaseChanged(bytes32,uint32,address,uint32)")
	EventReplicasChanged  = eventID("ReplicasChanged(bytes32,uint32,address,uint32,address[])")
	EventReplicasWanted   = eventID("ReplicasWanted(bytes32,uint32,address[])")
	EventGranted          = eventID("Granted(bytes32,(uint8,uint8,string,string,string,uint8,uint8))")
	EventRevoked          = eventID("Revoked(bytes32,(uint8,uint8,string,string,string,uint8,uint8))")
	EventSealKeySet       = eventID("SealKeySet(address,bytes)")
	EventKeysSet          = eventID("KeysSet(bytes32,uint32,address,bytes)")
	EventPseudonymRevoked = eventID("PseudonymRevoked(bytes32,address)")
	EventTokensCancelled  = eventID("TokensCancelled(address,uint64)")
	EventCommitted        = eventID("Committed(address,uint64)")
	EventCheckpointed     = eventID("Checkpointed(bytes32,uint64,bytes32,uint64,address)")
	EventOperated         = eventID("Operated(bytes32,address,uint64,bytes32,uint32,bytes32)")
	EventStandingChanged  = eventID("StandingChanged(bytes32,address,address,uint8,uint64,uint16,uint32)")
	EventOffsetCommitted  = eventID("OffsetCommitted(bytes32,bytes32,uint32,int64)")
)

const maxEpoch = 1<<31 - 1 // of a lease

// ErrUnknownEvent is wrapped by the error about a log of Topics that this version knows no event for: an upgrade may
// add some, which older readers pass over.
var ErrUnknownEvent = errors.New("unknown event of Topics")

func eventID(signature string) common.Hash { return crypto.Keccak256Hash([]byte(signature)) }

// decodeAs makes a decoder of any event of one type's.
func decodeAs[T any](unpack func(*types.Log) (*T, error), check func(*T) bool) func(*types.Log) (any, error) {
	return func(l *types.Log) (any, error) {
		e, err := unpack(l)
		if err != nil {
			return nil, err
		}
		if check != nil && !check(e) {
			return nil, errors.New("a part is beyond its bound")
		}
		return e, nil
	}
}

func decoders() map[common.Hash]func(*types.Log) (any, error) {
	t := NewTopics()
	acl := func(a Acl) bool {
		return len(a.Name) <= MaxTopicName && len(a.Host) <= MaxAclHost && principal(a.Principal)
	}
	return map[common.Hash]func(*types.Log) (any, error){
		EventTenantSet: decodeAs(t.UnpackTenantSetEvent, func(e *TenantSet) bool { return len(e.Name) <= MaxTenantName }),
		EventBrokerSet: decodeAs(t.UnpackBrokerSetEvent, func(e *BrokerSet) bool {
			return e.Id > 0 && e.Id <= MaxBrokers && len(e.Host) <= MaxBrokerHost && len(e.PeerId) <= MaxPeerIDBytes
		}),
		EventTopicCreated: decodeAs(t.UnpackTopicCreatedEvent, func(e *TopicCreated) bool {
			return len(e.Name) <= MaxTopicName && len(e.Config) <= MaxTopicConfig && e.Partitions <= MaxPartitions
		}),
		EventTopicChanged: decodeAs(t.UnpackTopicChangedEvent, func(e *TopicChanged) bool {
			return len(e.Config) <= MaxTopicConfig && e.Partitions <= MaxPartitions
		}),
		EventTopicDeleted: decodeAs(t.UnpackTopicDeletedEvent, func(e *TopicDeleted) bool { return len(e.Name) <= MaxTopicName }),
		EventLeaseChanged: decodeAs(t.UnpackLeaseChangedEvent, func(e *LeaseChanged) bool {
			return e.Partition < MaxPartitions && e.Epoch > 0 && e.Epoch <= maxEpoch
		}),
		EventReplicasChanged: decodeAs(t.UnpackReplicasChangedEvent, func(e *ReplicasChanged) bool {
			return e.Partition < MaxPartitions && e.Epoch > 0 && e.Epoch <= maxEpoch && len(e.Replicas) > 0 && len(e.Replicas) <= MaxReplicas
		}),
		EventReplicasWanted: decodeAs(t.UnpackReplicasWantedEvent, func(e *ReplicasWanted) bool {
			return e.Partition < MaxPartitions && len(e.Replicas) <= MaxReplicas
		}),
		EventGranted:          decodeAs(t.UnpackGrantedEvent, func(e *Granted) bool { return acl(e.Entry) }),
		EventRevoked:          decodeAs(t.UnpackRevokedEvent, func(e *Revoked) bool { return acl(e.Entry) }),
		EventSealKeySet:       decodeAs(t.UnpackSealKeySetEvent, func(e *SealKeySet) bool { return len(e.SealKey) <= MaxSealKey }),
		EventKeysSet:          decodeAs(t.UnpackKeysSetEvent, func(e *KeysSet) bool { return len(e.SealedKey) <= MaxSealedKey }),
		EventPseudonymRevoked: decodeAs(t.UnpackPseudonymRevokedEvent, nil),
		EventTokensCancelled:  decodeAs(t.UnpackTokensCancelledEvent, nil),
		EventCommitted:        decodeAs(t.UnpackCommittedEvent, nil),
		EventCheckpointed:     decodeAs(t.UnpackCheckpointedEvent, nil),
		EventOperated:         decodeAs(t.UnpackOperatedEvent, nil),
		EventStandingChanged:  decodeAs(t.UnpackStandingChangedEvent, func(e *StandingChanged) bool { return e.Reputation <= Reputation }),
		EventOffsetCommitted:  decodeAs(t.UnpackOffsetCommittedEvent, func(e *OffsetCommitted) bool { return e.Offset >= 0 }),
	}
}

var eventDecoders = sync.OnceValue(decoders)

// DecodeTopicsEvent reads a log of Topics. The result is a pointer to one of the event types above. Errors wrap
// ErrReturn, and ErrUnknownEvent if it is none of them.
func DecodeTopicsEvent(l *types.Log) (any, error) {
	if l.Address != TopicsAddress || len(l.Topics) == 0 {
		return nil, fmt.Errorf("%w: a log of %s with %d topics is none of Topics", ErrReturn, l.Address, len(l.Topics))
	}
	decode, ok := eventDecoders()[l.Topics[0]]
	if !ok {
		return nil, fmt.Errorf("%w: %w %s", ErrReturn, ErrUnknownEvent, l.Topics[0])
	}
	if len(l.Data) == 0 {
		return nil, fmt.Errorf("%w: log of Topics without data", ErrReturn)
	}
	e, err := decode(l)
	if err != nil {
		return nil, fmt.Errorf("%w: log of Topics: %w", ErrReturn, err)
	}
	return e, nil
}
