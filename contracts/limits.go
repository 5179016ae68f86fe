package contracts

// Bounds that the contracts keep too.
const (
	MaxSeats       = 128
	MaxCandidates  = 256
	MaxNodes       = 4096
	MaxPeerIDBytes = 128
	// MaxStakeBits: stake is counted in 96 bits of wei.
	MaxStakeBits = 96
	// MaxEpochBlocks: the first epoch ends while the history contract still knows block 0.
	MaxEpochBlocks = 8191
)
