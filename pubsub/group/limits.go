package group

import (
	"time"

	"github.com/bornode/bornode/contracts"
)

const (
	// TopicName is the topic that keeps groups and offsets.
	TopicName = contracts.OffsetsTopic
	// Partitions is the count of its partitions; it never changes.
	Partitions = contracts.OffsetsPartitions

	maxGroupName      = 249
	maxTopicName      = 249
	maxInstanceName   = 249
	maxClientID       = 200              // longer ones are cut in member ids and descriptions
	maxProtocols      = 32               // of one member
	maxMemberMetadata = 256 << 10        // bytes of one member's protocols
	maxGroupMetadata  = 4 << 20          // bytes of all members' protocols, and of all assignments
	maxOffsetMetadata = 4096             // bytes a commit may carry beside an offset; Kafka's default
	maxPending        = 1000             // member ids of a group given out and not used yet
	maxWaiting        = 10_000           // requests of a shard without an answer
	maxCommit         = 10_000           // partitions of one commit
	maxChanges        = 100_000          // changed offsets kept for the ledger
	maxAppendBytes    = 1 << 20          // records put into one batch; one larger record goes alone
	maxQueuedAppend   = 64 << 20         // bytes of records that wait for the log; beyond it commits are refused
	newMemberTimeout  = 5 * time.Minute  // a joining member that is not in the generation by then is let go
	idleGroup         = time.Minute      // an empty group without offsets is forgotten after it
	snapshotRecords   = 20_000           // records after the last copy before the next one is made, or
	snapshotFactor    = 4                // this many times as many as the copy will have, whichever is more
	retryExpire       = 30 * time.Second // until removing what is expired is tried again after a failed append
	inbox             = 1024             // events queued at a shard
	retryLoad         = time.Second      // between attempts to read a partition
)
