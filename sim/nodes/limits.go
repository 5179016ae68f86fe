package nodes

import "time"

const (
	maxStruckKept = 64      // strikes of a medium that are told
	maxLinesKept  = 4000    // of a node's log
	segmentBytes  = 1 << 20 // small, so that segments are sealed
	maxViolations = 8       // that are told
	queuePosts    = 1024    // events that wait for the world's goroutine

	questionsAtOnce = 4  // of a client, one after another
	accounts        = 6  // of the load
	linesTold       = 60 // of a node's log, after a violation
	finalAfterHeal  = 10 // blocks that must become final behind the last fault
	maxOutstanding  = 3  // transactions of an account that are not final

	startsBeforeRemedy = 2                // that end by themselves one after another, before the operator does what the sentence says
	mostStarts         = 8                // likewise, before no remedy helps
	lastedLong         = 10 * time.Second // of a life, after which a start has helped

	repairWait = 2 * time.Second
	flushEvery = 3 * time.Second // of the state
	pollEvery  = 700 * time.Millisecond
	endWithin  = 2 * time.Minute // of virtual time, for the goroutines of a life that has ended
)
