package store

import (
	"time"

	"github.com/bornode/bornode/pubsub/batch"
)

// Bounds. Lengths that come from files or callers are compared with them before memory is taken.
const (
	minSegmentBytes   = 4 << 10 // for tests; real segments are far larger
	maxSegmentBytes   = 1 << 30
	maxSegmentRecords = 1 << 19 // bounds the index of the open segment: 32 bytes a record
	maxPayloadBytes   = batch.MaxBytes
	maxPendingBytes   = 64 << 20 // appended and not yet durable; more waits
	maxUnsealed       = 4        // full segments without an index file; more waits
	maxOpenFiles      = 128      // read handles of segments and index files
	maxPartitions     = 1 << 20  // in one store
	maxEpochs         = 1 << 16  // changes of epoch that one partition remembers
	maxOffset         = int64(1) << 62

	maxProducers     = 10_000  // idempotent producers that one partition remembers; a replica twice as many
	maxAllProducers  = 1 << 18 // in the store, as above; a partition may have fewProducers beyond it
	fewProducers     = 64
	producerIdle     = 5 * time.Minute // a producer that was not seen for so long repeats nothing: others may take its place
	producerBatches  = 5               // of one producer that are remembered: as many as it may have in flight
	maxRebuildHeads  = 4096            // batches looked at when a truncation has taken a producer's last ones
	producerExpiry   = 24 * time.Hour
	producersPerTick = 20000 // looked at by one Tick

	chunkBytes         = 1 << 20 // appended bytes are kept and written in pieces of this
	scanBytes          = 4 << 20 // start-up reads segments in steps of this
	gapBytes           = 4 << 10 // Read reads over records of others up to this to save a call
	indexBlockEntries  = 170     // entries of an index file that are read together: 4 KiB
	maxRunsPerRead     = 64      // pieces of the log that one Read plans with
	retryInterval      = time.Second
	readTries          = 3                // of one read, before it counts as damage
	closeWait          = 30 * time.Second // for the last sync
	keptSnapshots      = 2
	maxNumbersLost     = 1 << 16 // partitions that may have been created in damaged bytes
	maxInspectFindings = 1024    // places that Inspect tells of

	partitionsPerHold = 32       // encoded into a snapshot while appends wait
	partitionsPerTick = 20000    // looked at by one Tick for retention
	commitsPerTick    = 2000     // high watermarks written by one Tick
	moveBytesPerTick  = 32 << 20 // copied forward by one Tick
	removalsPerTick   = 16       // segments removed by one Tick
	liveShare         = 4        // a segment whose live bytes are below 1/liveShare of it is copied forward
	smallSegments     = 8        // so many segments below 1/liveShare of the full size are merged
)
