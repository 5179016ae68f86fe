package gate

import "time"

const (
	// MaxFrameBytes is the longest request or answer that passes.
	MaxFrameBytes = 100 << 20
	// MaxInFlight is how many requests of one connection may wait for their answers.
	MaxInFlight = 1024
	// MaxBrokers is how many brokers a proxy opens listeners for, MaxClients how many connections it serves at once.
	MaxBrokers = 1024
	MaxClients = 4096
	// MaxPendingBatches is how many delivered batches may wait for their proof; then deliveries wait.
	MaxPendingBatches = 1 << 20
	// MaxPartitionBatches is the same for one partition.
	MaxPartitionBatches = 1 << 17
	// MaxPartitions is how many partitions are followed at once.
	MaxPartitions = 1 << 16
	// RememberedBatches is of how many sealed batches the places are remembered to see that none is shown twice; up to
	// twice as many are held, of about 100 bytes each.
	RememberedBatches = 1 << 16
	// SessionTopics is how many encrypted topics one connection seals for; then its sealers are made anew.
	SessionTopics = 4096
	// ResendBytes is how much of what idempotent producers sent is held until it is acknowledged.
	ResendBytes = 64 << 20
	// RunBatches is how many batches are proved at once.
	RunBatches = 4096
	// KeepBytes is how much room a connection keeps between messages.
	KeepBytes = 4 << 20

	// DialTimeout bounds the way to a broker: connection, TLS, login.
	DialTimeout = 15 * time.Second
	// SeedTime is how long the proxy tries one broker for a client's first contact while there are others, SeedTries how many
	// it tries.
	SeedTime  = 3 * time.Second
	SeedTries = 16
	// LookupTimeout bounds what is asked of the ledger for one request.
	LookupTimeout = 10 * time.Second
	// WriteTimeout is how long a peer may not take what is sent to it.
	WriteTimeout = 60 * time.Second
	// HoldTime is the longest that an answer is held for its proof, whatever the client said.
	HoldTime = 5 * time.Second
	// ComplaintInterval is between two warnings that proofs cannot be had.
	ComplaintInterval = time.Minute
	// ErrorPause is how long an answer of nothing but errors of this engine waits.
	ErrorPause = 200 * time.Millisecond
	// CheckInterval is how often what is pending is checked, CheckTimeout how long one check may take.
	CheckInterval = 500 * time.Millisecond
	CheckTimeout  = 20 * time.Second
	// UnprovedTime is how long a batch waits for its proof before that is told, PassedTime the same while newer checkpoints
	// of its topic come.
	UnprovedTime = 15 * time.Minute
	PassedTime   = 2 * time.Minute
	// MaxDisputers is of how many who dispute a partition's checkpoints is told.
	MaxDisputers = 16
)

// Names of topics are answered from these versions on by ids of 16 bytes that the chain does not know; clients are told
// that brokers go up to the version before.
const (
	produceVersion = 9
	fetchVersion   = 12
)
