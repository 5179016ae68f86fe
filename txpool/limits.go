package txpool

import (
	"time"

	"github.com/ethereum/go-ethereum/params"
)

// Bounds on what clients and peers may hand in.
const (
	MaxTransactionBytes = 128 << 10       // encoded transaction
	MaxTransactionGas   = params.MaxTxGas // EIP-7825
	slotBytes           = 32 << 10        // a transaction takes one slot per started 32 KiB
	maxBatch            = 4096            // transactions added in one round
	maxWaiting          = 256             // Add calls queued at the owner goroutine
	maxEvents           = 1 << 17         // transactions queued for subscribers; older ones are dropped and counted
	maxJournalLine      = MaxTransactionBytes + 64
	journalSlackBytes   = 4 << 20 // appended to the journal, besides as much as it kept, before it is rewritten
	maxDamagedJournals  = 8       // copies of journals with bytes that are no whole lines
	minTransactionBytes = 64      // no signed transaction is encoded in less

	// maxReturnedShare bounds the pool, in multiples of GlobalSlots, for transactions that the node had accepted before:
	// of abandoned blocks and of the journal. No other limit applies to them.
	maxReturnedShare = 4
	examineChunk     = 256 // accounts that one holding of the lock moves to a new head
	expireEvery      = time.Second

	// An account without balance and without a transaction in a block costs nothing to make, so it gets little of what
	// transactions that wait for a missing nonce share.
	pennilessQueue    = 16
	pennilessLifetime = 10 * time.Second

	// Free replacement, on a chain whose fees are fixed at 0. Nothing is paid for a replacement there, and each is relayed
	// to every peer, so its rate is bounded: what is replaced has waited at least freeReplacementAge, an account makes at
	// most freeReplacementsAccount of them a second and all accounts together freeReplacementsPool. That is a tenth of what
	// a node relays of new transactions under load; without it an account could have the network relay without end what
	// fills one slot.
	freeReplacementAge      = time.Second
	freeReplacementsAccount = 16
	freeReplacementsPool    = 512
	supersededKept          = 1 << 15 // hashes of freely replaced transactions in each of two generations

	// recoveriesWhenFull bounds, per second, the signatures that are recovered for transactions that could only enter a
	// full pool as a replacement.
	recoveriesWhenFull = 512
	nonceBuckets       = 1 << 14
)
