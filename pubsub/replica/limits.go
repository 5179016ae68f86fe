package replica

import (
	"time"

	"github.com/bornode/bornode/pubsub/batch"
)

// Bounds. What comes from a peer is compared with them before memory is taken.
const (
	// MaxBatchBytes is the largest batch that can be appended: a salvaged one still fits a batch that wraps it.
	MaxBatchBytes = batch.MaxBytes - 4<<10
	// MaxReplicas is the largest number of replicas of a partition.
	MaxReplicas = 64
	// MaxAskBytes bounds the payload of a question and of an answer.
	MaxAskBytes = 1 << 20

	stashBit         = 1 << 30   // set in the number of a partition's stash; partitions have lower numbers
	gatherBytes      = 256 << 10 // items are gathered into one message up to this
	maxItems         = 16 << 10  // items in a message
	readBytes        = 512 << 10 // batches read from a log for one item; one larger batch still goes
	windowBytes      = 2 << 20   // sent to one replica of one partition and not yet on its disk
	windowMessages   = 256       // the same, in items
	maxEpochs        = 256       // newest epochs of a log that a replica's state tells
	maxSalvaged      = 4096      // salvaged batches under way at a leader, per partition
	maxPeerBytes     = 128       // length of a peer's id in a lease
	maxAsks          = 256       // questions of this broker under way
	maxAsksServed    = 8         // questions of one peer answered at once; more are refused
	maxAskError      = 256       // length of an error that goes back to who asked
	maxWaiters       = 64 << 10  // appends of one partition that wait for a majority
	maxLinksWaiting  = 256       // links given by AddLink and not yet taken
	maxSalvageMarks  = 1 << 20   // batches of a log looked through for copies of salvaged ones
	defaultHeartbeat = 300 * time.Millisecond
	defaultLost      = time.Second
	defaultClaimStep = 400 * time.Millisecond
	defaultClaimTime = 3 * time.Second
	retryEvery       = 200 * time.Millisecond // a leader without a majority asks again; salvage goes on
	maxAsked         = 3                      // slow retries without an answer after which a new leader goes on without a replica
	slowRetries      = 10                     // every so many retries what is heavier is tried again
	tellAgain        = 2 * time.Second        // a silent leader is reported again while its lease stands
	syncPause        = 250 * time.Millisecond // after a failed fsync
	askTimeout       = 10 * time.Second       // of a question whose context sets no earlier end
)
