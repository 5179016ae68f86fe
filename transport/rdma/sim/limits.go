package sim

import "time"

// What the simulated devices can do.
const (
	MaxSend   = 4096    // send queue
	MaxRecv   = 16384   // shared receive queue
	MaxCQ     = 1 << 16 // completion queue
	MaxInline = 128     // bytes
	MaxReads  = 16      // READs under way on one queue pair
	MaxRegion = 1 << 30 // bytes of one region
)

const (
	pageBytes   = 4096
	eventBuffer = 256
	// firstNumber is the number of a device's first queue pair: devices use the same numbers, as hardware does.
	firstNumber = 17
	// firstBase is the address that peers see of a device's first region, on each device.
	firstBase = 1 << 40
	// A NIC writes aligned words whole; up to this many bytes the simulator promises it too.
	wordWise = 64
	// One request in stallOneIn takes stallFactor times as long.
	stallOneIn  = 32
	stallFactor = 10
	// shuffled is among how many of the oldest receive entries the next one is drawn.
	shuffled = 4
	// maxDelay bounds the delays of a network.
	maxDelay = time.Hour
)
