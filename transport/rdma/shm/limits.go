package shm

import "time"

// Bounds on what a peer, or a stranger on the host, can make a device hold or do.
const (
	// MaxSendDepth is the deepest send queue; completion rings hold twice as much.
	MaxSendDepth = 4096
	// MaxRecvDepth is the deepest shared receive queue.
	MaxRecvDepth = 1 << 16
	// MaxCQDepth is the deepest completion queue.
	MaxCQDepth = 1 << 20
	// MaxRegions is how many regions a device holds at once.
	MaxRegions = 1 << 12
	// MaxRegionBytes is the largest region, ours or exposed to us.
	MaxRegionBytes = 1 << 30
	// MaxInlineBytes is the largest Inline request.
	MaxInlineBytes = 1024

	// cacheLine keeps what different goroutines write apart.
	cacheLine = 64

	minRingDepth = 256              // slots; also the range of the position a ring starts at
	maxRingDepth = 2 * MaxSendDepth // slots
	// takeBurst is what one queue pair gives to one Poll, so that a busy peer does not keep others waiting.
	takeBurst = 64
	// scarceEntries: below this many receive entries a device tells their exact number to its peers.
	scarceEntries = 32
	// statusLines is how many completion queues and receive queues a device can have at once.
	statusLines = 256

	// maxHandshakes is how many connections may be between accept and a valid token; the oldest makes room.
	maxHandshakes = 64
	// maxMessage is the longest message on a queue pair's socket, maxFiles the most descriptors with it.
	maxMessage = 128
	maxFiles   = 2
	// wakeSlack is how many wake-ups a peer may send beyond one for each time it was asked for one.
	wakeSlack = 64
	// maxEvents is what waits for the reader of Events, beyond limit events, which are never dropped.
	maxEvents = 256

	// DefaultTimeout bounds a handshake, and each answer on a queue pair's socket.
	DefaultTimeout = 5 * time.Second
	// acceptPause is how long a listener rests when the process is out of descriptors.
	acceptPause = 50 * time.Millisecond
	// dialPause is how long a dialler waits when the other side's backlog is full.
	dialPause = 2 * time.Millisecond
)
