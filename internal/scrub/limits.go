package scrub

import "time"

// Bounds of the background reading.
const (
	stepBytes     = 128 << 10        // an area reads about so much at a time; one record may be larger
	leastStep     = 4 << 10          // bytes that a step counts as at least
	leastRound    = 10 * time.Minute // from the begin of a round to that of the next: a small folder is not read all the time
	saveEvery     = time.Minute      // progress is saved this often, and with every end of a round
	failurePause  = time.Minute      // rest after an area could not be read
	maxRate       = 10_000           // MB/s
	megabyte      = 1_000_000
	maxSavedBytes = 4 << 10 // of the progress
)
