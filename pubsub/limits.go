package pubsub

import (
	"math"
	"time"

	"github.com/bornode/bornode/contracts"
)

const (
	// maxFetchBytes bounds the answer to one fetch, but for one batch that is larger.
	maxFetchBytes = 16 << 20
	// minLedgerAge is the least that pubsub.ledger_age may be: a pause of the chain must not stop the brokers.
	minLedgerAge = 10 * time.Second
	// maxFetchWait bounds how long a fetch may wait for records.
	maxFetchWait = 60 * time.Second
	// maxRoomWait bounds how long a fetch waits for memory to answer with a batch; then it is answered without.
	maxRoomWait = 5 * time.Second
	// maxProduceWait bounds how long a produce may wait for its replicas.
	maxProduceWait = 60 * time.Second
	// metadataTopicBytes and metadataPartitionBytes are about what a topic and a partition take in an answer to Metadata, as
	// structs and encoded. Answers above smallMetadata wait for memory as records do.
	metadataTopicBytes     = 512
	metadataPartitionBytes = 256
	smallMetadata          = 64 << 10
	// maxTenantsOfConn bounds the tenants that one connection may work with.
	maxTenantsOfConn = 64
	// gatherRecords is how long a fetch that wants many bytes rests between two looks at the log.
	gatherRecords = 5 * time.Millisecond
	// gatherLongest is how long it rests after many looks.
	gatherLongest = 500 * time.Millisecond
	// refusedRest holds a connection back for each operation that the ledger refuses: refusals are kept on the chain.
	refusedRest = 100 * time.Millisecond
	// claimsUnderWay bounds the transactions with claims that are not final yet: 8,192 partitions, what a broker that died may
	// have led, do not wait for each other's finality.
	claimsUnderWay = 16
	// maxThrottle is the longest that a connection is told to wait; the rest of a debt is told with the next request.
	maxThrottle = 10 * time.Second
	// quotaBurst is how much of a tenant's rate may be used at once after a rest.
	quotaBurst = time.Second
	// refusedPause holds a connection back that asks for a tenant whose connections are used up.
	refusedPause = time.Second
	// adminWait bounds how long an administrative request may wait for its final block.
	adminWait = 60 * time.Second
	// maxRules bounds the rules of access of one transaction.
	maxRules = 128
	// maxAdmins bounds the administrative requests under way at a broker.
	maxAdmins = 64
	// adminsAtOnce bounds those of one request.
	adminsAtOnce = 16
	// claimWait bounds how long a claim may wait for its final block before the partitions are claimed anew.
	claimWait = 10 * time.Second
	// spentKept is how long a broker keeps the log of a partition that others keep in its place, maxSpentAtOnce how many
	// such logs it deletes at one block.
	spentKept      = time.Hour
	maxSpentAtOnce = 256
	// madeAgain is how long a broker with a new store waits after a transaction that did not tie it to the chain.
	madeAgain = 2 * time.Second
	// registerAgain is how long a broker waits after a registration that failed.
	registerAgain = 5 * time.Second
	// yieldAgain is how long a broker that cannot write waits before it gives up leases again that it still has.
	yieldAgain = 10 * time.Second
	// balanceEvery is how often a broker gives leases back to those that are to lead by the placement of the ledger.
	balanceEvery = time.Minute
	// stopWait bounds what a broker does for its partitions before it stops.
	stopWait = 5 * time.Second
	// replaceEvery is how often a leader looks whether replicas are to be replaced, maxMoves how many partitions' it
	// changes then, and maxNewcomers how many new ones may be without all records at one time.
	replaceEvery = 2 * time.Second
	maxMoves     = 16
	maxNewcomers = 32
	// maxRetention is the longest retention.ms; longer ones keep for ever.
	maxRetention = 100 * 365 * 24 * time.Hour
	// offsetsEvery is how often committed offsets go to the ledger, offsetsAtOnce how many of them.
	offsetsEvery  = 2 * time.Second
	offsetsAtOnce = 256
	// producerBlock is how many producer ids are taken from disk at once.
	producerBlock = 1000
	// tickEvery is how often retention, quotas and leases that have no event are looked at.
	tickEvery = time.Second
	// claimGather is how long lost partitions are gathered before they are claimed in one transaction.
	claimGather = 50 * time.Millisecond
	// maxClaims bounds the partitions of one transaction, as the contract does.
	maxClaims = contracts.MaxClaims
	// handOversUnderWay bounds the transactions of a broker that stops which are not final yet.
	handOversUnderWay = 16
	// attendUnsaid is how long a broker that replaces nobody says on the ledger that it is there, attendTimes how often
	// in what it said before ends.
	attendUnsaid = 10 * time.Minute
	attendTimes  = 3
	// moveAgain is how long a partition rests whose change of replicas was refused.
	moveAgain = 10 * time.Second
	// declinedFor is for how long others come before a broker that was not taken in as a replica.
	declinedFor = time.Minute
	// maxPartitionsServed bounds the partitions that one broker keeps; leases above it are refused and told of.
	maxPartitionsServed = 200_000
	// defaultMaxMessage is max.message.bytes of a topic that does not say.
	defaultMaxMessage = 1 << 20
	// defaultTimeBefore and defaultTimeAfter are how far, in ms, a record's time may lie before and after the broker's clock
	// where its topic does not say: as in Kafka 4.
	defaultTimeBefore = math.MaxInt64
	defaultTimeAfter  = int64(time.Hour / time.Millisecond)
	// unpackedAtOnce bounds the batches that are unpacked at one time to be checked: each holds a window of 8 MiB and a core.
	// One core at least is left to others where there are two or more.
	unpackedAtOnce = 8
)

// The brokers' own tenant and topic.
const (
	ownTenant        = "_bps"
	offsetsTopic     = "_bps.offsets"
	offsetPartitions = 16
)
