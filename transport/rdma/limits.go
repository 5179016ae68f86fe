package rdma

import (
	"time"

	"github.com/bornode/bornode/transport"
)

// Bounds on what a peer may say and on what is kept for it.
const (
	// MaxLocalBytes is the longest Channel.Local.
	MaxLocalBytes = 1 << 10

	// MinRingBytes is the smallest ring: every record fits three quarters of it, which is what the rules of credit
	// leave free when nothing is under way.
	MinRingBytes = 128 << 10
	// MaxRingBytes is the largest ring. Positions travel as 28 bits of 64-byte units, far more than this.
	MaxRingBytes = 64 << 20

	// MinEntries and MaxEntries bound the receive entries that one side grants the other.
	MinEntries = 4
	MaxEntries = 1 << 12
	// reservedEntries stand beyond the granted ones: one CREDIT, one ACK and one BYE may be under way. During set-up
	// the descriptor and the two probes take them.
	reservedEntries = 3

	// MaxChannelsLimit bounds Config.MaxChannels.
	MaxChannelsLimit = 1 << 12

	// pollBatch is how many completions are taken from the queue at once.
	pollBatch = 32
	// settleBatch is how many channels are settled after a poll without holding others up.
	settleBatch = 8
	// repostBatch is how many used receive entries may wait to be posted again; the SRQ has as many to spare.
	repostBatch = 64
	// lowEntries: below it the device says that the shared receive queue runs low.
	lowEntries = repostBatch / 2
	// windowReads is the send queue of the queue pair of a window: READs under way.
	windowReads = 16
	// signalEvery: one work request in so many asks for a completion.
	signalEvery = 32
	// minSendDepth is the smallest send queue that keeps a signalled request under way when it is full.
	minSendDepth = 2*signalEvery + maxChain
	// maxChain is the longest chain of one post: the mailbox, two rings split at their ends, a CREDIT or an ACK.
	maxChain = 8

	// stageBytes is what a reader copies out of a ring at once when records are small.
	stageBytes = 8 << 10
	// directBytes: the payload of a record from this size on is copied from the ring to its place at once.
	directBytes = 4 << 10

	// sliceBytes is the payload of a frame.
	sliceBytes = transport.MaxSliceBytes
	// maxRecordBytes is the largest record in a ring.
	maxRecordBytes = (transport.HeaderBytes + transport.MaxSliceBytes + unit - 1) &^ (unit - 1)

	// slabBytes is the unit in which the pool registers memory: whole huge pages.
	slabBytes = 8 << 20
	hugeBytes = 2 << 20
	pageBytes = 4 << 10
	// mailboxBytes follow the rings in exposed memory; one cache line of them is used.
	mailboxBytes = pageBytes

	// windowEntries are the receive entries of the queue pair of a window: a want and a have may be under way.
	windowEntries = 2
	// windowChunkBytes is the unit in which areas lie in a registered copy.
	windowChunkBytes = 2 << 20
	// landBytes is what is READ of a window before it is copied out; minReadBytes is the smallest READ of several.
	landBytes    = 1 << 20
	minReadBytes = 64 << 10
	// maxPlaces bounds what is remembered of where chunks lie in a peer's copy.
	maxPlaces = 256
	// windowTries is how often a chunk that was overwritten is asked for again, in one call.
	windowTries = 4
	// answerPatience is how long a peer may owe what a call gave up waiting for, until its window counts as ended.
	answerPatience = 10 * time.Second
	// MinWindowBytes is the smallest copy: the directory, an index file and what is read of segments.
	MinWindowBytes = 8 << 20

	// maxOpenAreas bounds the open files of a peer's window: who reads on needs the directory, an index file and a
	// segment, or two where they meet.
	maxOpenAreas = 16
	// areaIdle is how long files of a peer's window stay open when nobody reads them, or up to twice that.
	areaIdle = 15 * time.Second

	// guardTick is how long a completion may stay unseen when the reader that polled last went off to work and no
	// other polls. See doc.go.
	guardTick = time.Millisecond
	// eagerPolls come before a waiting reader counts as one that spins.
	eagerPolls = 8
	// spinCheck is how many polls go between looks at the clock, each with a chance for other goroutines to run.
	spinCheck = 64
	// eventPatience is when an event of the completion queue counts as lost.
	eventPatience = 5 * time.Second
	// minSpin is what the adaptive spin of a reader shrinks to.
	minSpin = time.Microsecond
	// lingerTime bounds how long a closed channel waits until the peer has been told.
	lingerTime = 100 * time.Millisecond
)
