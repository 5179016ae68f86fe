package rpc

import "time"

// Waits of a listener that cannot take connections.
const (
	minAcceptWait = 5 * time.Millisecond
	maxAcceptWait = time.Second
)

// Time to write a message to a WebSocket or Unix connection: minWriteTime and as long as minWriteRate (bytes per second)
// takes, but not longer than rpc.write_timeout.
const (
	minWriteTime = 10 * time.Second
	minWriteRate = 256 << 10
)

// Bounds on what a client may ask for that are not settings.
const (
	maxStorageKeys     = 1024                  // keys of one eth_getProof
	maxFeeHistory      = 1024                  // blocks of one eth_feeHistory
	maxPercentiles     = 100                   // reward percentiles of one eth_feeHistory
	maxFilterAddresses = 1000                  // addresses of one log query
	maxFilterTopics    = 1000                  // alternatives per topic position of one log query
	maxSubscriberItems = 8192                  // notifications waiting for one subscriber before it is closed
	maxFilterItems     = 65536                 // changes waiting for one polled filter before it is dropped
	maxQueueBytes      = 32 << 20              // memory of what waits for one subscriber or polled filter
	minQueueBytes      = 64 << 10              // of these, what each may hold however much the others do
	maxHostQueueBytes  = 64 << 20              // the same for all of one host
	maxAllQueueBytes   = 256 << 20             // the same for all of them together
	maxLogBytes        = 32 << 20              // memory of the logs of one answer
	maxScheduleTurns   = 1024                  // turns of one bor_schedule
	maxPoolContent     = 20000                 // transactions of one txpool_content or txpool_inspect
	maxPoolBytes       = 32 << 20              // JSON of one txpool_content, txpool_contentFrom or txpool_inspect
	poolItemBytes      = 1024                  // of a transaction in it, beside its data
	answerCopies       = 2                     // times that an answer is in memory while it is made
	maxCallDataBytes   = 1 << 20               // input of one eth_call
	logChunkBlocks     = 256                   // blocks whose blooms are read together where the log index lacks them
	logCacheChunks     = 512                   // chunks of final blocks whose blooms stay in memory (64 KiB each)
	maxLogPrints       = 2048                  // values of one block in the log index; a block with more may match anything
	logIndexStep       = 50 * time.Millisecond // the index works that long, then rests as long
	maxSyncWaiters     = 4096                  // eth_sendRawTransactionSync under way
	maxHostWaiters     = 1024                  // the same of one host
	maxSyncWait        = 60_000                // milliseconds of one eth_sendRawTransactionSync
	defaultSyncWait    = 20_000                // the same if it names none
	maxConnRequests    = 64                    // requests of one WebSocket or Unix connection that are not answered
	maxGateQueue       = 16384                 // requests of one host that wait for a place
	minInFlight        = 256 << 10             // bytes of requests and answers that a host may hold however much the others do
	bodyStep           = 16 << 10              // bytes of a message that are read at a time
	messageCopies      = 4                     // times that a message is in memory until it is answered: as read, copied, decoded
	valueBytes         = 256                   // what a value of a message takes when it is decoded, beside its bytes
	ipcReadStep        = 4 << 10               // bytes that the reader of the Unix socket may hold of later messages
	ipcBuffer          = 64 << 10              // bytes of a message after which its reader's buffer is not kept
	maxHeaderBytes     = 64 << 10              // header of an HTTP request
	maxTokenBytes      = 4096                  // JSON web token
)

// Bounds of simulations, traces and reads of many slots.
const (
	maxSimulateBlocks = 256              // blocks of one eth_simulateV1, empty ones between them included
	maxSimulateCalls  = 10_000           // calls of one eth_simulateV1
	maxSimulateBytes  = 32 << 20         // memory of what the calls of one eth_simulateV1 return and log
	maxTraces         = 4                // traces made at the same time
	maxHostTraces     = 2                // traces of one host
	maxTraceBytes     = 64 << 20         // JSON of one debug_trace...
	maxTraceTime      = 55 * time.Second // of one debug_trace..., whatever its timeout asks for
	maxStorageSlots   = 1024             // slots of one eth_getStorageValues
)

// Bounds of the log index's own work.
const (
	logIndexTries = 10              // a block is read that often, a second apart, before the index leaves it out
	logIndexRetry = 1 * time.Minute // rest after the index could not be written

	maxDamagedIndexes = 3 // copies of unreadable parts of each of the index's two files
)

// Bounds of passing blocks on to subscribers. A step is the look at one value of a query or at one log.
const (
	maxEvents          = 4096      // blocks that wait to be passed on; more: all subscribers are told that they missed some
	maxEventBytes      = 128 << 20 // memory of their logs
	maxPublishWork     = 16 << 20  // steps of one block, for all log subscriptions and filters together
	maxHostPublishWork = 4 << 20   // the same of one host
	minPublishWork     = 256 << 10 // of these, what each host has however much the others use
	maxQueryBytes      = 64 << 20  // memory of the queries of all log subscriptions and filters
	maxHostQueryBytes  = 8 << 20   // the same of one host
	minQueryBytes      = 1 << 20   // of these, what each host has however much the others use
	logValueBytes      = 128       // memory of one address or topic of a query
	shortList          = 8         // a list that is no longer than this is searched as it is
)
