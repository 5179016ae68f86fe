package consensus

import "time"

// Bounds on what peers can make the driver hold or do.
const (
	maxEntryBytes     = 64 << 10 // one payload of the vote log
	maxVoteLogBytes   = 4 << 30  // of the vote log, which is compacted when blocks become final
	maxVotesPerCall   = 1024     // AddVotes
	maxLoggedVoters   = 8        // in one line of the log
	maxRangeBlocks    = 1 << 14  // AddRange
	maxBegunSessions  = 64       // of this process that are remembered
	maxUnsavedMarks   = 4096     // marks of others that wait for a write of the vote log
	maxHints          = 16       // blocks not known yet whose certificates are kept
	maxHintsOfBlock   = 4        // of each kind
	uncertifiedLimit  = 512      // blocks of a range without certificate that are entered as reversible
	cacheHeaders      = 8192     // headers whose seal and certificates were verified
	cacheCertificates = 4096     // certificates whose aggregate was verified
	cacheFailed       = 1024     // blocks that failed execution
	cacheVotes        = 8192     // votes that were verified, with their parsed signatures
	cacheBadVotes     = 4096     // votes that failed verification
	maxDropBatch      = 1024     // blocks deleted in one commit; others wait for the next
	maxStatusVotes    = 64       // own votes in Status
	queueCalls        = 256      // calls waiting for the machine's goroutine
	queueFinalEvents  = 64       // per subscriber; the oldest is dropped for a slow one
	compactLogBytes   = 4 << 20
	maxTurnGap        = 30 * time.Second       // between two turns of the machine's goroutine; beyond it a session is renewed
	maxAlone          = time.Minute            // without any link; beyond it a session is renewed
	repairRetryLeast  = 100 * time.Millisecond // between two tries of work that needs a damaged block, doubled up to
	repairRetryMost   = 2 * time.Second
	maxForkFiles      = 8                     // files of evidence that end signing; each recovery has one more
	maxForkHeaders    = 256                   // headers of the other history in one
	maxForkBytes      = 16 << 20              // of one
	clockPoll         = 20 * time.Millisecond // how often the time is looked at before it is set
	maxDamagedLogs    = 8                     // copies of vote logs with bytes that are no whole entries
	minBuildShare     = 20                    // a block whose parent came late still gets 1/20 of its slot
)
