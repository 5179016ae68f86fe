package kafka

import "time"

// Bounds on what clients may ask for. Those that an operator may want to change are in Config.
const (
	maxLoginFrame   = ownFrameBytes          // before the login
	strangerMemory  = 32 << 20               // requests of all clients that are not logged in, beyond ownFrameBytes of each; one host has at most a quarter
	maxControlFrame = 4 << 20                // every request but Produce
	ownFrameBytes   = 16 << 10               // a connection may hold this much of requests whatever the others hold
	ownAnswerBytes  = 64 << 10               // Grant gives at least this much
	controlFactor   = 32                     // memory of a decoded request for each of its bytes, at most
	produceFactor   = 2                      // the same of Produce, whose bulk is record batches
	lowestRate      = 256 << 10              // bytes per second at which a large frame or answer must move at least
	longestThrottle = 30 * time.Second       // one call of Throttle
	maxTags         = 64                     // unknown tagged fields in one place
	maxDepth        = 8                      // nested arrays
	smallBuffer     = 64 << 10               // answers up to this size share the connection's buffer
	largestPooled   = 4 << 20                // answers up to this size share buffers of the server
	readBuffer      = 16 << 10               // of a connection
	chunkBytes      = 1 << 20                // one read or write of a large frame
	maxClientID     = 256                    // bytes kept of a client's name
	logLines        = 20                     // per second about clients; more are counted and left out
	acceptPause     = 100 * time.Millisecond // after a failed accept
)
