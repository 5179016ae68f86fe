package blockstore

import (
	"time"

	"github.com/bornode/bornode/block"
)

// Bounds. Lengths that come from files or peers are compared with them before memory is taken.
const (
	maxPayloadBytes        = block.MaxBlockBytes // encoded block in a record
	maxOpenFiles           = 64                  // read handles of segments and index files
	maxQueuedOps           = 32                  // operations that wait for the writer
	maxGroupOps            = 256                 // operations made durable by one sync
	maxGroupBytes          = 32 << 20            // record bytes made durable by one sync
	maxHeaderCache         = 8192                // decoded sealed headers
	maxFsckProblems        = 1000                // problems listed by Fsck; all are counted
	maxKeyBytes            = 256                 // name of a Meta value
	readChunkBytes         = 1 << 20             // Range reads neighbouring records together up to this
	writeChunkBytes        = 1 << 20             // small records are gathered up to this before a write
	scanChunkBytes         = 256 << 10           // Fsck and repair read segments in steps of this
	maxAsideTries          = 100                 // folders that one second and reason may take in the aside folder
	maxAsideListed         = 100                 // folders below the aside folder that Fsck lists
	maxDamagedHeights      = 1024                // damaged blocks that wait to be replaced; more only if all of them are waited for
	maxDamagedRanges       = 64 << 10            // ranges of damaged blocks in the report of Fsck
	maxWaitingReaders      = 1024                // readers that wait for repairs at the same time; later ones are told at once
	maxVainHashBytes       = 256 << 20           // bytes that a start hashes for what only looks like a record
	maxDerivedReplacements = 4                   // of a damaged database of derived data in one process
	recentHashes           = 16 << 10            // hashes of blocks that a new database of derived data gets before anybody uses it, and then at a time
	maxIndexedAtOnce       = 16 << 10            // blocks that one mark of the transaction index moves over
	maxDatabaseFileBytes   = 1 << 30             // file of a database that is read whole; the largest, a journal, has its write buffer

	maxSuperblockBytes   = 1 << 30 // a consensus root is large after a stall of months only
	superblockSyncWrites = 64      // commits that a power cut may take from the superblock

	maxRepairWait = time.Minute // largest store.repair_wait: clients of JSON-RPC give up sooner
	maxKeepDays   = 100 * 366   // of the setting keep_days

	minSegmentBytes = 4 << 10 // for tests; real segments are far larger
	maxSegmentBytes = block.MaxSegmentBytes

	maxTrailerBytes = 2 * block.MaxHeaderBytes // certificates at the end of an export file
)
