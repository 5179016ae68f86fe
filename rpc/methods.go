package rpc

import "strings"

// Method is one line of the reference (docs/rpc.md).
type Method struct {
	Name   string // eth_call; of a subscription "eth_subscribe newHeads"
	Params string // names in order; those with a question mark may be left out
	Result string
	Does   string
	Partly string // what Ethereum's answers have and these lack, and why; empty: nothing
}

// Namespace is the part of the name before the underscore.
func (m Method) Namespace() string { s, _, _ := strings.Cut(m.Name, "_"); return s }

// Offered is where the method can be called.
func (m Method) Offered() string {
	switch {
	case m.Namespace() == "admin":
		return "Unix socket, or a request with a token"
	case m.Namespace() == "debug":
		return "Unix socket; elsewhere if rpc.namespaces names debug, or with a token"
	case strings.HasPrefix(m.Name, "eth_subscribe"):
		return "WebSocket and Unix socket"
	}
	return "everywhere"
}

// Group is a section of the reference.
type Group struct {
	Title   string
	Note    string
	Methods []Method
}

// Methods are all methods that a node answers, in the order of the reference.
func Methods() []Method {
	var out []Method
	for _, g := range Groups() {
		out = append(out, g.Methods...)
	}
	return out
}

// Groups are the sections of the reference. A block parameter is a number, a tag, a hash, or an object with blockHash and
// requireCanonical or with blockNumber.
func Groups() []Group {
	return append(append(chainGroups(), stateGroups()...), nodeGroups()...)
}

func chainGroups() []Group {
	return []Group{
		{"The chain", "", []Method{
			{"eth_chainId", "", "number", "the chain's id", ""},
			{"eth_blockNumber", "", "number", "height of the executed head", ""},
			{"eth_syncing", "", "false or object", "how far the node is while it catches up", ""},
			{"eth_config", "", "object", "the rules that hold now, next and last (EIP-7910)", ""},
			{"eth_capabilities", "", "object", "how far back blocks, states, proofs and logs can be read", ""},
			{"eth_accounts", "", "list", "always empty: a node holds no keys of users", ""},
		}},
		{"Blocks", "", []Method{
			{"eth_getBlockByNumber", "number or tag, full", "block or null", "a block, with whole transactions or their hashes", ""},
			{"eth_getBlockByHash", "hash, full", "block or null", "the same by hash; blocks off the executed chain too", ""},
			{"eth_getHeaderByNumber", "number or tag", "header or null", "a block without its transactions", ""},
			{"eth_getHeaderByHash", "hash", "header or null", "the same by hash", ""},
			{"eth_getBlockReceipts", "block", "list or null", "the receipts of all its transactions", ""},
			{"eth_getBlockTransactionCountByNumber", "number or tag", "number or null", "how many transactions a block has", ""},
			{"eth_getBlockTransactionCountByHash", "hash", "number or null", "the same by hash", ""},
			{"eth_getUncleCountByBlockNumber", "number or tag", "0 or null", "there are no uncles: 0 for a known block", ""},
			{"eth_getUncleCountByBlockHash", "hash", "0 or null", "the same by hash", ""},
			{"eth_getUncleByBlockNumberAndIndex", "number or tag, index", "null", "there are no uncles", ""},
			{"eth_getUncleByBlockHashAndIndex", "hash, index", "null", "there are no uncles", ""},
		}},
		{"Transactions", "", []Method{
			{"eth_getTransactionByHash", "hash", "transaction or null", "a transaction of the chain or of the pool", ""},
			{"eth_getTransactionByBlockNumberAndIndex", "number or tag, index", "transaction or null", "a transaction by its place", ""},
			{"eth_getTransactionByBlockHashAndIndex", "hash, index", "transaction or null", "the same by hash", ""},
			{"eth_getTransactionReceipt", "hash", "receipt or null", "what a transaction did; null until it is in a block", ""},
			{"eth_getRawTransactionByHash", "hash", "bytes", "the transaction as it was submitted; empty if unknown", ""},
			{"eth_getRawTransactionByBlockNumberAndIndex", "number or tag, index", "bytes", "the same by its place", ""},
			{"eth_getRawTransactionByBlockHashAndIndex", "hash, index", "bytes", "the same by hash and place", ""},
		}},
		{"Submit", "Types 0, 1, 2 and 4 (EIP-7702) are taken.", []Method{
			{"eth_fillTransaction", "transaction", "raw, tx", "completes nonce, fees, gas and chain id; the caller signs", "no blobs"},
			{"eth_sendRawTransaction", "bytes", "hash", "hands a signed transaction to the pool (see *Accepted means kept*)", "no blob transactions (type 3): the chain has no blobs"},
			{"eth_sendRawTransactionSync", "bytes, milliseconds?", "receipt", "also waits for the receipt (EIP-7966; default, or 0, 20,000 ms; no longer than 60,000)", ""},
		}},
	}
}

func stateGroups() []Group {
	return []Group{
		{"State", "", []Method{
			{"eth_getBalance", "address, block?", "number", "wei", ""},
			{"eth_getCode", "address, block?", "bytes", "code; of a delegated account 0xef0100 and the address", ""},
			{"eth_getStorageAt", "address, slot, block?", "32 bytes", "one storage slot", ""},
			{"eth_getStorageValues", "slots by address, block?", "values by address", "up to 1,024 slots of many accounts at one block", ""},
			{"eth_getTransactionCount", "address, block?", "number", "the account's nonce; at pending with what the pool holds", ""},
			{"eth_getProof", "address, slots, block?", "account with proofs", "Merkle proofs of the account and of up to 1,024 slots, also of their absence", "the newest blocks only (about 128): of older ones the state is kept, its trie is not"},
		}},
		{"Execution", "The last parameters replace parts of accounts (`balance`, `nonce`, `code`, `state`, `stateDiff`, `movePrecompileToAddress`) and of the block.", []Method{
			{"eth_call", "call, block?, accounts?, block values?", "bytes", "executes a call and throws its changes away", ""},
			{"eth_estimateGas", "call, block?, accounts?, block values?", "number", "the least gas with which it succeeds in the block after the named one, within 1.5 %", "in the next block, see above; no moved precompiles: go-ethereum's estimator knows none"},
			{"eth_createAccessList", "call, block?, accounts?", "accessList, gasUsed", "what the call touches, as an access list", ""},
			{"eth_simulateV1", "blocks of calls, block?", "list of blocks", "calls in a series of blocks: at most 256 blocks, 10,000 calls, `gas_cap` of gas and 32 MiB of returned bytes and logs together", "the newest blocks only, as eth_getProof; the call at an epoch's end is left out; no withdrawals"},
		}},
		{"Fees", "", []Method{
			{"eth_gasPrice", "", "number", "next base fee and the suggested tip", ""},
			{"eth_maxPriorityFeePerGas", "", "number", "suggested tip: 0 while blocks have room", ""},
			{"eth_baseFee", "", "number", "base fee of the next block", ""},
			{"eth_blobBaseFee", "", "number", "there are no blobs: the least fee", ""},
			{"eth_feeHistory", "count, newest, percentiles?", "object", "base fees, fullness and tips of up to 1,024 blocks", ""},
		}},
		{"Logs and filters", "", []Method{
			{"eth_getLogs", "filter", "list", "logs of a block or of a range of blocks, none of them above the head", ""},
			{"eth_newFilter", "filter", "id", "a filter of logs, to be polled", ""},
			{"eth_newBlockFilter", "", "id", "a filter of new blocks' hashes", ""},
			{"eth_newPendingTransactionFilter", "whole?", "id", "a filter of the pool's new transactions", ""},
			{"eth_getFilterChanges", "id", "list", "what came since the last poll", ""},
			{"eth_getFilterLogs", "id", "list", "all logs of a filter", ""},
			{"eth_uninstallFilter", "id", "boolean", "drops a filter", ""},
		}},
		{"Subscribe", "Rules below.", []Method{
			{"eth_subscribe newHeads", "", "id", "headers of new blocks of the executed chain", ""},
			{"eth_subscribe logs", "filter", "id", "logs of new blocks", ""},
			{"eth_subscribe newPendingTransactions", "whole?", "id", "hashes of the pool's new transactions, or all of each with `true`", ""},
			{"eth_subscribe syncing", "", "id", "when catching up starts, moves and ends", ""},
		}},
	}
}

func nodeGroups() []Group {
	return []Group{
		{"The pool", "", []Method{
			{"txpool_status", "", "pending, queued", "how many transactions wait", ""},
			{"txpool_content", "", "by account and nonce", "all of them, up to 20,000 and 32 MiB", ""},
			{"txpool_contentFrom", "address", "by nonce", "those of one account, up to 32 MiB", ""},
			{"txpool_inspect", "", "by account and nonce", "all of them, a line of text each", ""},
		}},
		{"The node", "", []Method{
			{"net_version", "", "text", "the chain's id in decimal", ""},
			{"net_listening", "", "boolean", "whether peers can connect", ""},
			{"net_peerCount", "", "number", "connected peers", ""},
			{"web3_clientVersion", "", "text", "the node's version", ""},
			{"web3_sha3", "bytes", "32 bytes", "Keccak-256", ""},
		}},
		{"Consensus and network", "What Ethereum's methods have no words for.", []Method{
			{"bor_finality", "", "object", "head, safe and final block, their lags in blocks and slots, the first block that is kept, whether finality stands still", ""},
			{"bor_signer", "", "object or null", "whether this node's signer casts votes, since when, why not and whom it waits for; null for an observer", ""},
			{"bor_producers", "", "list", "who produces the children of the head, with their keys", ""},
			{"bor_schedule", "first slot?, turns?", "list", "who owns the coming turns; at most 1,024", ""},
			{"bor_getRecord", "block", "object or null", "consensus record, seal and certificates of a block", ""},
			{"bor_parameters", "", "object", "what producers vote for: parameters of the next block, pending changes, applied ones, upgrades that this node knows", ""},
			{"bor_exportBlocks", "first height, most?", "blocks, final", "final blocks as they are stored, at most 1,024 and about 8 MiB", ""},
			{"bor_finalProof", "height?", "object or null", "the certificate of the first block from a height on that has one; without a height the newest", ""},
			{"bor_peers", "", "list", "peers: provider and why, since when, heights, round trip, how far the peer's own clock is from this machine's (`clockOffsetMicros`, [operations.md](operations.md#clocks)), counters ([rdma.md](rdma.md))", ""},
			{"bor_alarms", "", "list", "what an operator must look at: `fork`, two final histories were met ([operations.md](operations.md#fork))", ""},
			{"bor_syncStatus", "", "object", "how far the node is, and how it synchronises", ""},
			{"bor_scrub", "", "object", "how far the background reading of this node's files is, what its last full round found, and how many damaged blocks are known", ""},
		}},
		{"Topics", "What the chain knows of topics, as of the last irreversible block. A topic is named by its name or its id of 32 bytes. Proofs and alarms come from brokers; formats are in [wire-topics.md](wire-topics.md).", []Method{
			{"bps_topics", "first index?, most?", "topics, total", "topics by creation, with leaders, epochs and replicas of their partitions; at most 64", ""},
			{"bps_topic", "topic", "object or null", "one topic", ""},
			{"bps_brokers", "", "list", "all brokers, retired ones too", ""},
			{"bps_checkpoint", "topic", "object or null", "the newest checkpoint of a topic's log", ""},
			{"bps_operations", "topic", "object", "count, root and last block of a topic's log of operations", ""},
			{"bps_operationsProof", "topic, trusted block?", "object", "proves count, root and last block at a final block: an audit file without operations, checked offline with the genesis file", ""},
			{"bps_audit", "topic, until?, most?", "object", "what was done with a topic, allowed or refused, and that none is missing: at most 64 batches, back from now or from an earlier answer's `from`", ""},
			{"bps_proof", "topic, partition, offset, records?, batches?, trusted block?, token?", "object", "a proof file for records, checked offline with the genesis file; a trusted block {number, hash} makes it short, shorter still with followed: true for one who came there from genesis by such proofs; the batches come for a token of who may read the topic, else their digests", ""},
			{"bps_epochs", "above?, most?", "object", "the headers that prove the ends of epochs from genesis on; at most 1,024 runs", ""},
			{"bps_reports", "", "list", "files that show which brokers signed two histories, for anybody to check", ""},
			{"bps_witness", "topic", "object", "what this broker says of a topic's checkpoints: the newest that its log gives, those not compared yet, and its signed disputes", ""},
			{"bps_alarms", "", "list", "differences between checkpoints on the chain and this broker's log", ""},
		}},
		{"Encodings", "", []Method{
			{"debug_getRawHeader", "block", "bytes", "RLP of the header; its Keccak-256 is the block's hash", ""},
			{"debug_getRawBlock", "block", "bytes", "RLP of the block as Ethereum has it", ""},
			{"debug_getRawReceipts", "block", "list of bytes", "the receipts as they are hashed into the receipts root", ""},
			{"debug_getRawTransaction", "hash", "bytes", "as eth_getRawTransactionByHash", ""},
			{"debug_getBadBlocks", "", "list", "always empty: blocks that break a rule are not kept", ""},
		}},
		{"Traces", "With go-ethereum's native tracers (`callTracer`, `prestateTracer`, `flatCallTracer`, `4byteTracer`, `muxTracer`, `keccak256PreimageTracer`, `erc7562Tracer`, `noopTracer`) or its opcode logger. " +
			"An answer is at most 64 MiB, four traces run at the same time (two of one host), one takes at most 55 s.", []Method{
			{"debug_traceTransaction", "hash, settings?", "trace", "a transaction of the chain, executed again", "no JavaScript tracers: they run foreign code in the node"},
			{"debug_traceCall", "call, block?, settings?", "trace", "a call, with `stateOverrides`, `blockOverrides` and `txIndex` among the settings", "no JavaScript tracers"},
			{"debug_traceBlockByNumber", "number or tag, settings?", "list of traces", "all transactions of a block", "no JavaScript tracers"},
			{"debug_traceBlockByHash", "hash, settings?", "list of traces", "the same by hash", "no JavaScript tracers"},
			{"debug_traceBlock", "bytes, settings?", "list of traces", "a block in RLP whose parent this node has", "no JavaScript tracers"},
		}},
		{"Operator", "", []Method{
			{"admin_addPeer", "address", "boolean", "connects to a peer", "addresses are multiaddresses, not enodes"},
			{"admin_removePeer", "id", "boolean", "ends the link to a peer", ""},
			{"admin_acceptAnswers", "", "object", "as bor_signer, after the operator's word that a producer which may have forgotten what it signed votes again by one answer fewer (`borcli producer accept`)", ""},
			{"admin_backupCut", "", "object", "what `bornode backup` copies: heights, proof and segment files of what is irreversible now", "Unix socket only"},
			{"admin_peers", "", "list", "as bor_peers", "other fields than a devp2p node's"},
			{"admin_nodeInfo", "", "object", "id, version, head", "other fields than a devp2p node's"},
		}},
	}
}

// absent are methods that clients know from elsewhere and a node does not answer (code -32601), with the reason.
var absent = []struct{ names, why string }{
	{"eth_sendTransaction, eth_signTransaction, eth_sign, eth_signTypedData_v4, personal_*", "a node holds no keys of users: `borwallet` signs, eth_sendRawTransaction submits"},
	{"eth_coinbase, eth_mining, eth_hashrate, eth_getWork, eth_submitWork, eth_submitHashrate, miner_*", "nothing is mined: bor_producers and bor_schedule tell who makes blocks"},
	{"eth_protocolVersion", "devp2p is not spoken: web3_clientVersion and bor_peers tell what is"},
	{"eth_getBlockAccessList", "block access lists belong to a later fork of Ethereum than this chain's rules (eth_config)"},
	{"eth_getTransactionBySenderAndNonce", "there is no index of senders; the hash is known to who signed"},
	{"shh_*, bzz_*, les_*", "gone from Ethereum itself"},
	{"debug_setHead, debug_traceChain, debug_traceBlockFromFile, debug_standardTrace…ToFile, debug_db…, debug_storageRangeAt, debug_executionWitness", "they change or expose the node's own files; debug_trace… and `bornode fsck` do what is safe of it"},
	{"trace_* (Parity, Erigon), ots_*, erigon_*", "`flatCallTracer` of debug_trace… gives Parity's frames"},
	{"engine_*", "there is no consensus client beside the node: it makes and finalises blocks itself"},
	{"clique_*, ibft_*, qbft_*, perm_*", "bor_* show producers and finality; changes are proposals to the system contracts, by `borcli`"},
}
