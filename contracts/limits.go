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
	// What Topics bounds.
	MaxTenants       = 4096
	MaxTenantName    = 63   // bytes
	MaxBrokers       = 4096 // that ever registered
	MaxBrokerHost    = 255  // bytes
	MaxAttendance    = 3600 // seconds for which a broker says that it is there
	MaxTopicName     = 249  // bytes of a topic's or a group's name, with its tenant
	MaxPartitions    = 1024 // of a topic
	MaxNewPartitions = 256  // in one call
	MaxReplicas      = 7
	MaxTopicPage     = 128  // topics that are asked for at once
	MaxTopicConfig   = 4096 // bytes
	MaxAcls          = 4096 // of a tenant
	MaxAclsPerCall   = 128
	MaxAclHost       = 64   // bytes
	MaxSealKey       = 2048 // bytes
	MaxSealedKey     = 2048 // bytes
	MaxReaders       = 64   // in one call of setKeys
	MaxClaims        = 512  // leases in one call of claim or handOver
	MaxOperations    = 512  // in one commit
	MaxEntriesBytes  = 96 << 10
	MaxCommitBytes   = 120 << 10 // of a commit's call data
	MaxCheckpoints   = 256       // in one commit
	MaxStandings     = 128       // in one commit
	MaxOffsets       = 256       // in one commit
	MaxTokenSeconds  = 24 * 60 * 60
	TokenSkewSeconds = 60 // that a token may be issued ahead of a block's time; brokers allow as many (token.ClockSkew)
	// Reputation is what an account begins with in each tenant and the most it has; below MinReputation it is blacklisted
	// there. A kind of operation that was refused in a minute costs RefusedCosts; one broker alone lowers an account by
	// BrokerLowers at most while there are others. RemainingLoss says how time gives back what was lost.
	Reputation    = 100
	MinReputation = 20
	RefusedCosts  = 5
	// RefusedKinds are the kinds of operations whose refusal is charged, as bits of Kafka's numbers.
	RefusedKinds = 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<11
	BrokerLowers = 60
	// maxPathBytes bounds the headers and records in one transaction of evidence: it must fit the smallest block that a
	// vote may allow, in bytes beside header and votes, and in gas (block.MinBlockBytes, block.MinGasLimit).
	maxPathBytes = 24 << 10
)
