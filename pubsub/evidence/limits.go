package evidence

import "time"

const (
	// maxAlarms is how many alarms are kept; the oldest go.
	maxAlarms = 256
	// maxRecent is how many of a partition's newest leaves are kept at hand for receipts.
	maxRecent = 64
	// maxHints is how many of a partition's batches that were hashed for their receipts wait for the tree to take them.
	maxHints = 256
	// maxOpenTrees is how many partitions' right edges are kept in memory.
	maxOpenTrees = 1 << 17
	// maxBatchLeaves is how many leaves one write to the database holds.
	maxBatchLeaves = 1024
	// gatherLeaves is how long committed batches wait for others before they are hashed and written together.
	gatherLeaves = 25 * time.Millisecond
	// maxAskHeads is how many heads one question asks for, maxAskLeaves how many leaves.
	maxAskHeads  = 4096
	maxAskLeaves = 8192
	// maxSearched is how many leaves before the newest checkpoint that agreed are searched for a difference.
	maxSearched = 1 << 22
	// maxWatched is how many checkpoints wait to be compared.
	maxWatched = 1 << 14
	// keepHeads is of how many of a topic's newest checkpoints the heads are kept.
	keepHeads = 256
	// keepSigned is how many signed heads of a partition are kept, maxReports how many reports of brokers that signed two.
	keepSigned = 16
	maxReports = 64
	// keepDisputes is how many of a topic's newest disputes are kept, maxPending how many checkpoints that wait to be
	// compared a witness names.
	keepDisputes = 64
	maxPending   = 64
	// compareTries is how often a checkpoint is tried before its heads count as withheld.
	compareTries = 120

	// maxDamagedDatabases is how many copies of the database from before a repair are kept; the oldest go.
	maxDamagedDatabases = 2

	// maxQueued is how many operations lie in the queue before folding turns coarse; maxHeld how many before requests wait.
	maxQueued = 1 << 14
	maxHeld   = 1 << 18
	// maxHeldStrangers is maxHeld for requests of principals whom the ledger does not know.
	maxHeldStrangers = maxQueued
	// maxOpen is how many entries one window has before it closes early.
	maxOpen = 1 << 14
	// coarseWindows is how many windows become one under pressure.
	coarseWindows = 8

	// What one commit holds: bounds of the contract, and of the gas of one transaction (EIP-7825).
	maxCommitOperations  = 512
	maxCommitEntries     = 96 << 10
	maxCommitBytes       = 118 << 10
	maxCommitCheckpoints = 200
	maxCommitStandings   = 128
	maxCommitOffsets     = 200
	maxCommitWeight      = 300     // topics with operations, checkpoints, standings and offsets
	maxCharged           = 1 << 16 // accounts whose refusals of this minute are remembered; with more, some are told twice
	plainTries           = 3       // failed tries after which a commit is made again with operations alone

	// maxOffsets is how many groups' offsets wait; more are refused until some are committed.
	maxOffsets = 1 << 18

	maxReceiptQueue = 4096
	receiptWait     = time.Second
	tellAgain       = time.Minute // a tree that does not grow is logged again
	retryLeast      = 500 * time.Millisecond
	retryMost       = 30 * time.Second
	syncEvery       = time.Second
)
