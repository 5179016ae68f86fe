package contracts

// Bounds that the contracts keep too.
const (
	MaxSeats       = 128
	MaxCandidates  = 256
	MaxNodes       = 4096
	MaxPeerIDBytes = 128
	// ChangeNotice is how many blocks after its decision a change takes effect at the earliest.
	ChangeNotice   = 64
	MaxChanges     = 1024 // decided parameters and upgrades
	UpgradePlaces  = 64   // of MaxChanges, the last, for upgrades alone
	MaxChangeName  = 64   // bytes
	MaxChangeValue = 32   // bytes
	// MaxStakeBits: stake is counted in 96 bits of wei.
	MaxStakeBits = 96
	// MaxEpochBlocks: the first epoch ends while the history contract still knows block 0.
	MaxEpochBlocks = 8191
	// maxPathBytes bounds the headers and records in one transaction of evidence: it must fit the smallest block that a
	// vote may allow, in bytes beside header and votes, and in gas (block.MinBlockBytes, block.MinGasLimit).
	maxPathBytes = 24 << 10
)
