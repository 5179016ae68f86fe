package ledger

import "time"

const (
	maxDecisions = 1 << 16 // cached of one tenant
	cacheBlocks  = 240     // a cached decision is used for so many blocks at most
	maxFacts     = 1 << 17 // accounts or pseudonyms whose state is remembered
	logRange     = 1000    // blocks whose events are read at once
	maxBehind    = 20_000  // blocks after which the whole state is read instead of events
	askTimeout   = 5 * time.Second
	pollEvery    = 50 * time.Millisecond
	retryAfter   = time.Second
)
