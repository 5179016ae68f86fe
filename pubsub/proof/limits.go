package proof

// Bounds on what a decoder takes.
const (
	// MaxPartitions is the largest count of partitions of a topic.
	MaxPartitions = 1 << 16
	// MaxLeaves bounds the size of a partition's tree.
	MaxLeaves = 1 << 48
	// MaxRangeLeaves is the largest count of leaves that one range proof holds.
	MaxRangeLeaves = 1 << 16
	// MaxPathHashes bounds the hashes of one proof: two edges of a tree of MaxLeaves.
	MaxPathHashes = 96

	// MaxReason is the longest text of an operation's reason, in bytes.
	MaxReason = 64
	// MaxOperationBytes is the largest encoded operation.
	MaxOperationBytes = operationFixed + MaxReason
	// MaxOperations is the largest count of operations in one batch.
	MaxOperations = 512

	// MaxReceiptGroup is the largest count of batches under one signature of a broker.
	MaxReceiptGroup = 4096
	// MaxReceiptBytes is the largest encoded receipt.
	MaxReceiptBytes = 1024

	// RememberedEpochs is of how many epochs a Follower remembers the ends.
	RememberedEpochs = 256
	// MaxRunHeaders is the largest count of headers in one run.
	MaxRunHeaders = 16384
	// MaxRecoveries is the largest count of recoveries in one run: each is an act of operators on a rare day.
	MaxRecoveries = 256
	// MaxRuns is the largest count of runs in one bundle.
	MaxRuns = 1 << 20
	// MaxReceiptNodes and MaxReceiptNodeBytes bound the proof of a receipt. A node holds at most one whole receipt.
	MaxReceiptNodes     = 16
	MaxReceiptNodeBytes = 4 << 20
	// MaxStateNodes and MaxStateNodeBytes bound a path through the tries of accounts and storage.
	MaxStateNodes     = 64
	MaxStateNodeBytes = 1 << 10
	// MaxAuditBatches is the largest count of batches of operations in one audit file.
	MaxAuditBatches = 1 << 20
	// MaxBundleBytes is the largest bundle or audit file: some years of epochs fit.
	MaxBundleBytes = 512 << 20
)
