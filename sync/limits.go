package blocksync

import (
	"time"

	"github.com/bornode/bornode/block"
)

// Bounds on what peers may send. A message above its bound is refused before it is decoded; its sender is dropped.
const (
	// MaxShownRecoveries is how many recoveries a handshake shows; its size bounds theirs.
	MaxShownRecoveries   = 2
	maxHandshakeBytes    = 256 << 10 // two certificates, the peer's own votes
	maxControlBytes      = 4 << 10   // go_away, time, sync_request, error
	maxIDs               = 8192      // hashes in one notice or request
	maxIDListBytes       = 2*maxIDs*33 + 4<<10
	maxBlockEnvelope     = block.MaxBlockBytes + 64
	maxTransactionsBytes = 1 << 20 // one packed_transaction message
	maxTransactionsCount = 8192
	maxTransactionBytes  = 128 << 10
	maxVotes             = 512 // votes in one message
	maxVotesBytes        = maxVotes * block.MaxVoteBytes
	maxAnnounceBytes     = block.MaxHeaderBytes + 64
	maxTextBytes         = 256 // node id, address, operating system, agent
	maxDetailBytes       = 512 // text of an error
	maxOwnVotes          = 256 // votes in a handshake
	maxToldVotes         = 64  // votes of the receiver in a handshake that answers it, for a node of release 0.3
)

// Bounds on what this node keeps and queues.
const (
	maxEvents           = 256      // messages waiting for the manager; readers wait beyond that
	maxServeQueue       = 16       // requests of one peer not served yet
	maxServePerRequest  = 1 << 16  // heights of one sync_request
	maxAnswerBytes      = 32 << 20 // bytes of blocks in one answer to a request
	maxAnswerBlocks     = 4096
	maxAnswerTxBytes    = 16 << 20
	maxCheckQueue       = 256
	maxCheckQueueBytes  = 64 << 20
	maxAddQueue         = maxAnswerBlocks + maxCheckQueue
	maxAddQueueBytes    = 128 << 20
	maxVoteJobs         = 1024
	maxCertificateJobs  = 256     // certificates of handshakes
	maxQueuedVotes      = 1 << 11 // per peer, not judged yet
	votesPerTurn        = 32      // of one peer, judged together with those of others
	maxVoteAccounts     = 4096
	maxTxJobs           = 256
	maxPeerSessionJobs  = 256      // sessions and answers of a peer that wait for the driver
	maxSessionBytes     = 32 << 20 // shared by the peers whose sessions and answers wait
	maxSessionPaths     = 512      // sessions whose way back is known
	maxObserverAnswers  = 8        // of observers to one round of a session, passed on
	maxPassedAnswers    = 2*block.MaxProducers + 1
	maxSeenBlocks       = 4096
	maxSeenVotes        = 1 << 16
	maxKnownBlocks      = 1024    // per peer
	maxKnownVotes       = 1 << 13 // per peer
	maxKnownTxs         = 1 << 15 // per peer
	maxQueuedTxs        = 1 << 14 // per peer, while its lane is full; the encodings are shared between peers
	maxQueuedTxBytes    = 8 << 20
	maxOffers           = 2048 // pending transactions that one beat of offers looks at
	maxOfferBytes       = 256 << 10
	maxVoteRelay        = 4 * maxVotes // accepted votes kept because a peer's lane was full
	maxOrphans          = 256          // live blocks whose parent is not known yet
	maxOrphansPerPeer   = 32
	maxOrphanBytes      = 64 << 20
	maxUnlinkable       = 128  // unlinkable blocks of one peer without a useful one between
	maxRestBlocks       = 8192 // uncertified blocks of a range kept before they enter as reversible ones
	maxChunkBlocks      = 8192
	maxRecentBodies     = 32 // large bodies kept to answer pulls before they are stored
	maxRecentBodyBytes  = 64 << 20
	maxPulls            = 64
	maxOpenPulls        = 3          // requests for the body of one block at once
	pullBytesPerSec     = 20_000_000 // a body that comes slower is asked for elsewhere too
	maxBans             = 4096
	maxClocks           = 512 // accounts whose clocks are known
	maxClaims           = 64  // open contradictions between ranges
	maxRepairs          = 64  // damaged blocks that are fetched at the same time
	maxPeerRepairs      = 8   // of these, from one peer; it answers maxServeQueue requests at a time, ours for ranges too
	maxReceiptRepairs   = 8   // blocks whose receipts are fetched at the same time; they may be large
	maxPeerReceipts     = 4   // of these, from one peer
	receiptsPieceBytes  = 1 << 20
	repairSlowShare     = 5 // of request_timeout, after one part in so many another peer is asked for a damaged block besides
	serveWaitShare      = 2 // of request_timeout, one part in so many is the longest wait for the repair of a block that a peer asks for
	maxLocator          = 48
	maxInFlightPerPeer  = 8 // chunks
	minInFlightPerPeer  = 2
	serveWindowBytes    = 1 << 20                // read from the store at once while serving
	windowReadBytes     = 1 << 20                // of neighbouring records read from a peer's window at once (one record may be larger)
	windowBatches       = 2                      // such reads of one chunk that the manager has not taken yet
	windowPageTries     = 8                      // readings of a directory page that was being changed
	sessionsPerPeriod   = 4 * block.MaxProducers // per peer and heartbeat period; more are not answered
	strangersPerPeriod  = 8                      // of those, of accounts without a seat: anybody can make such
	answersPerPeriod    = 8 * block.MaxProducers // to sessions, per peer and heartbeat period; more are dropped
	strangerAnswers     = 32                     // of those, of observers and accounts without a seat
	maxNewSessions      = 16                     // of an account at once, and one more per sessionRefill: each costs every node an fsync
	handshakesPerPeriod = 16                     // per peer and heartbeat period; more are not answered
)

// What one peer may send in votes (voteaccount.go). Producers cast 2 votes a slot and seat.
const (
	voteBytes           = 256      // a vote on the wire takes a little less
	voteMessageBytes    = 64       // a message counts as so much more than its payload
	voteMargin          = 8        // times the bytes that all producers cast may come from one peer, for ever
	voteFullSeconds     = 32       // and those of so many seconds at once
	minVoteBytesPerSec  = 64 << 10 // whatever the number of seats
	minVoteBytesFull    = 2 << 20  // a resend of 64 votes by each of 128 producers
	votePointMargin     = 4        // times the votes that all producers cast may be charged one point each, for ever
	votePointsFull      = 2048     // and so many at once
	minVotePointsPerSec = 64
	voteClockSlots      = 12 // clocks of honest nodes may differ by so many slots (10 of producers, as rule 11 has it)
)

// Fixed times that no setting changes.
const (
	tickEvery        = 200 * time.Millisecond
	forkGrace        = 5 * time.Second       // a peer of another history that is behind may ask for ours so long
	maxHeartbeat     = 20 * time.Second      // so that readings of clocks are renewed in time
	gossipDelay      = 10 * time.Millisecond // transactions are collected this long before a batch leaves
	offerEvery       = 3 * time.Second       // pending transactions that a peer may lack are offered again
	resendBeats      = 2                     // beats of offers until one that was sent but is still pending is sent again
	resendBeatsAgain = 20                    // and after that
	storeLag         = time.Second           // a range waits this long for the store to reach the driver's LIB
	storeLagStep     = 20 * time.Millisecond
	pullPatience     = 200 * time.Millisecond // at least this long one peer alone is asked for a body
	voteRelayDelay   = 2 * time.Millisecond
	voteHold         = 100 * time.Millisecond // a message of votes waits so long once half of its sender's points are gone
	maxVoteHold      = time.Second            // no message waits longer
	maxVoteSlowed    = 3 * time.Second        // a peer whose messages had to wait so long in all is sent away
	dampFor          = 30 * time.Second       // a peer's wish not to get our relayed blocks or votes lasts this long
	dampAfter        = 8                      // useless duplicates in a row before that wish is sent
	maxSourceBackoff = time.Minute
	repairRetry      = time.Second     // a block that could not be put in its place is asked for again after this
	windowRetry      = time.Second     // a window that could not be read is tried again after this, doubled with each failure
	aloneSlots       = 20              // without a peer and a new head for so long the node does not count as in sync
	maxEmptyBelieved = 3               // answers in a row that brought nothing until a peer's LIB is not believed
	claimFailures    = 2               // range requests in a row without a block until a peer's LIB starts no range sync
	askKnownTimeouts = 4               // request time-outs that an answer may bring known blocks only
	askTimeouts      = 12              // request time-outs that one answer of a branch may take
	sessionEvery     = time.Second     // a session is asked for again so often
	sessionRefill    = 3 * time.Second // a producer that restarts no faster is always answered
	sessionKept      = time.Minute     // a new peer of the same account is shown it for so long
	maxClaimBackoff  = 5 * time.Minute // nor for at most this long
	liveLag          = 256             // blocks: a peer further below our LIB gets no live traffic
)
