package chain

import "time"

const (
	progressEvery = 10 * time.Second // between log lines while blocks are executed again
	eventQueue    = 256              // events waiting for subscribers before execution waits
	receiptQueue  = 48               // executed blocks whose receipts wait for the store; below the 128 layers that a crash re-executes
	builtKept     = 2                // built, not yet adopted blocks whose states are kept

	headerCacheEntries  = 8192 // sealed headers by hash, and hashes by height, below the last irreversible block
	receiptCacheEntries = 256  // receipts of blocks lately executed or read

	rulesByState   = 256 // states whose decided changes are kept
	rulesByStorage = 16  // lists of decided changes that are kept

	changedBlocks   = 64      // executed blocks of which the changed accounts are remembered
	changedAccounts = 1 << 18 // in all of them together; about 5 MiB

	maxMarkBytes    = 64 << 10 // of the file that names a state's damage
	maxDamagedAside = 4        // damaged states that starts set aside by themselves, since an operator removed such folders last

	layersKept      = 128 // state layers that pathdb keeps in memory
	blockHashWindow = 256 // newest blocks whose hashes BLOCKHASH gives

	// minFlushInterval keeps the newest states in memory for a while: a flush merges them, and proofs and branch switches
	// below it then take the slow way.
	minFlushInterval = time.Second

	minTxGas      = 21_000  // no transaction fits into less
	sizeMisses    = 16      // transactions too large for what is left of a block before building stops
	readAheadTxs  = 64      // transactions from which on a block's accounts are read ahead of execution
	sendersKept   = 1 << 17 // recovered senders in each of two generations: all that a full pool of default size holds; about 20 MiB at most
	sendersAtOnce = 64      // transactions one sender-recovery worker takes at a time
	recordReserve = 4 << 10 // bytes of a block kept free for header, record and seal without certificates
	maxSystemRet  = 4 << 20 // bytes a system call may return
)
