package verbs

import "time"

const (
	// maxQPs, maxSRQs bound what is made from one device; they fit the numbers of requests (see wrID).
	maxQPs  = 4096
	maxSRQs = 16
	// maxInline bounds the bytes of an inline request: more makes every entry of a send queue larger.
	maxInline = 256
	// maxReads bounds READs under way on one queue pair, each way.
	maxReads = 16
	// maxQueue bounds one queue; devices say less.
	maxQueue = 1 << 20
	// reservedSends are the places in a send queue for control operations: a bind and the mark at its end.
	reservedSends = 2
	// reservedCompletions are the places in a completion queue for the completions of control operations.
	reservedCompletions = 512
	// maxRegionBytes is the largest region: Remote.Len is 32 bits.
	maxRegionBytes = 1 << 30
	// hugePageBytes: regions of at least this size are tried in huge pages.
	hugePageBytes = 2 << 20
	// meetBytes is a queue pair's meeting place: eight bytes to be written to, and the eight bytes to write.
	meetBytes = 16

	// minRNRTimer is how long a peer waits after "receiver not ready", in the verbs' code: 0.64 ms.
	minRNRTimer = 12
	// endlessRNR lets the hardware wait for a receive entry for ever; 0 makes a missing one an error.
	endlessRNR = 7

	// eventBuffer is how many asynchronous events wait to be taken; one place is kept for EventSRQLimit.
	eventBuffer = 64

	// bindPatience is how long a window may take to be bound: the work is local, so longer means a broken device.
	bindPatience = 5 * time.Second
	// drainPatience is how long a closing queue pair waits for its requests to be flushed.
	drainPatience = 500 * time.Millisecond
	// lastEntryPatience is how long a closing queue pair waits to hear that it holds no entry of the shared receive
	// queue any more. Hardware says so within microseconds; software RoCE never does and is not asked.
	lastEntryPatience = 100 * time.Millisecond
	// selfTestPatience bounds the test of memory windows when a device is opened.
	selfTestPatience = 2 * time.Second
	// pollPause .. maxPollPause: how a waiting control operation slows down.
	pollPause    = 20 * time.Microsecond
	maxPollPause = 2 * time.Millisecond

	// sysfs bounds.
	maxPorts = 32
	maxGIDs  = 256
)
