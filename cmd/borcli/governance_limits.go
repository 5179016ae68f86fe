package main

import "time"

// Bounds of the chain and governance commands.
const (
	verifyChunkBlocks  = 256 // of a file that is not executed, checked at a time, fewer if larger than the next
	verifyChunkBytes   = 32 << 20
	maxBatchCalls      = 100 // views in one request
	maxEvidenceBytes   = 32 << 20
	maxKeysBytes       = 64 << 10 // public keys of a producer
	maxProposalsShown  = 1000
	exportBlocksAtOnce = 1024
	voteTimeBlocks     = 600 // added to the notice of a change, for the time until its vote is complete
	progressInterval   = 100 * time.Millisecond
)
