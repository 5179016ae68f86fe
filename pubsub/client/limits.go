package client

import "time"

const (
	// TopicFresh is how long what the chain said of a topic is taken as it was, TopicStale how long while the node cannot
	// be asked. A topic that the client asks for every day thus costs two calls in two seconds.
	TopicFresh = 2 * time.Second
	TopicStale = 30 * time.Second
	// KnownTopics is how many topics are remembered.
	KnownTopics = 16384
	// KnownMissing is how long a key that was not sealed to this client is not asked for again.
	KnownMissing = 2 * time.Second
	// TokenLife is how long a token is good for.
	TokenLife = 10 * time.Minute
	// CallTimeout bounds one call of the node.
	CallTimeout = 20 * time.Second
	// AnswerBytes is the longest answer of the node that is read.
	AnswerBytes = 64 << 20
	// FinalPoll is how often the node is asked whether a transaction is final.
	FinalPoll = 250 * time.Millisecond
	// GiveUpTime is how long Send waits for the result of a record when its context has ended.
	GiveUpTime = time.Second
	// LeaderTime bounds CheckLeaders.
	LeaderTime = 5 * time.Second
	// NodeTime is how long a node that took a transaction and gives no answers is asked about it.
	NodeTime = time.Minute
	// PageSize is how many topics or rules of access are asked for at once.
	PageSize = 64
	// SealedPerCall is how many bytes of sealed keys go into one transaction: storing them costs about 800 gas each.
	SealedPerCall = 12 << 10
	// GasRoom is added to what a call is estimated to use, in percent.
	GasRoom = 20
	// KeptReceipts is how many receipts of a partition wait for their records' results; ReceiptPartitions is of how many
	// partitions.
	KeptReceipts      = 64
	ReceiptPartitions = 16384
	// CommitTime is how long Commit tries, CommitPause between two tries.
	CommitTime  = time.Minute
	CommitPause = 250 * time.Millisecond
	// HeldErrors is how many errors of a consumer wait to be told.
	HeldErrors = 1024
	// RequestBytes is the longest text of a pseudonym's request.
	RequestBytes = 1024
	// ProofRecords is for how many records a proof is asked for at once.
	ProofRecords = 65536
	// shownHeaders is how many final headers are remembered by their hashes.
	shownHeaders = 65536
	// keptBases is of how many ends of epochs the chain after them is remembered.
	keptBases = 64
	// CheckpointFresh is how long the number of a topic's newest checkpoint is taken as it was.
	CheckpointFresh = 400 * time.Millisecond
	// ShownTrees is of how many partitions the newest tree that was shown is remembered.
	ShownTrees = 65536
	// PassedCheckpoints is how many checkpoints of a topic come until a batch that none of them is shown to bind counts as
	// passed over.
	PassedCheckpoints = 2
	// WitnessPause is between two questions to a node about a topic's checkpoints, WitnessTimeout bounds one, and
	// WitnessSilence is how long a node that did not answer is not asked.
	WitnessPause   = time.Second
	WitnessTimeout = 3 * time.Second
	WitnessSilence = 30 * time.Second
	// WitnessTime is how long nodes that have not compared a checkpoint with their own logs are asked again, ReliedOn how
	// many checkpoints of a topic they are asked about.
	WitnessTime = time.Minute
	ReliedOn    = 16
	// WitnessStatements is how many disputed or waiting checkpoints of one answer are looked at.
	WitnessStatements = 256
	// PollRecords is how many records Records returns at most.
	PollRecords = 10000
)
