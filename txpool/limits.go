package txpool

import "github.com/ethereum/go-ethereum/params"

// Bounds on what clients and peers may hand in.
const (
	MaxTransactionBytes = 128 << 10       // encoded transaction; legacypool's own bound
	MaxTransactionGas   = params.MaxTxGas // EIP-7825
	slotBytes           = 32 << 10        // a transaction takes one slot per started 32 KiB
	maxBatch            = 4096            // transactions added in one go
	maxWaiting          = 256             // Add calls queued at the owner goroutine
	maxWaves            = 64              // rounds of legacypool that one round of Add calls may take
	maxEvents           = 1 << 17         // transactions queued for subscribers; older ones are dropped and counted
	maxJournalLine      = MaxTransactionBytes + 64
	journalSlackBytes   = 4 << 20 // appended to the journal, besides as much as it kept, before it is rewritten
	minTransactionBytes = 64      // no signed transaction is encoded in less
)
