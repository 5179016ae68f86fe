package wallet

import "time"

const (
	// MaxWallets bounds the wallets of one folder.
	MaxWallets = 256
	// MaxAccounts bounds the accounts of one wallet; each costs one password hashing when it is unlocked.
	MaxAccounts = 100
	// MaxName bounds the name of a wallet, in characters.
	MaxName = 32
	// MaxUnlockedKeys bounds the keys in memory at one time, over all wallets.
	MaxUnlockedKeys = 1024
	// MaxKeyFile bounds a keystore file, in bytes; geth writes about 500.
	MaxKeyFile = 16 << 10
	// MaxPolicyFile bounds a policy file, in bytes.
	MaxPolicyFile = 1 << 20
	// MaxPolicyRules bounds the rules of each kind in a policy.
	MaxPolicyRules = 4096
	// MaxDerived bounds the accounts that one import of a mnemonic makes.
	MaxDerived = 20
	// MinPassword and MaxPassword bound a new password, in bytes.
	MinPassword = 8
	MaxPassword = 1024
	// MaxUnlock bounds the time a wallet may stay unlocked.
	MaxUnlock = 30 * 24 * time.Hour

	// MaxScryptWork bounds N*r and N*r*p of a foreign keystore file: 128*N*r bytes are allocated. geth's standard is
	// N 2^18, r 8, p 1.
	MaxScryptMemory = 1 << 21
	MaxScryptWork   = 1 << 22
	// MaxPBKDF2 bounds the rounds of a foreign keystore file.
	MaxPBKDF2 = 1 << 22

	// MaxHashQueue bounds the requests that wait for their password to be hashed.
	MaxHashQueue = 8
	// MaxAskQueue bounds the requests that wait for the operator.
	MaxAskQueue = 8
	// askCodeBytes is the length of the code that answers a question.
	askCodeBytes = 2
	// minDelay is the delay after the first wrong password; each further one doubles it up to maxDelay.
	minDelay = time.Second
	maxDelay = 5 * time.Minute

	// MaxBody bounds a JSON-RPC message, in bytes.
	MaxBody = 512 << 10
	// MaxBatch bounds the calls of a batch, MaxBatchBytes its answer.
	MaxBatch      = 50
	MaxBatchBytes = 4 << 20
	// MaxData bounds the data of a transaction, in bytes (what the pool of a node accepts).
	MaxData = 128 << 10
	// MaxMessage bounds a message to sign, in bytes.
	MaxMessage = 64 << 10
	// MaxListEntries bounds the access list of a transaction (addresses and slots) and MaxAuthorizations its delegations.
	MaxListEntries    = 2048
	MaxAuthorizations = 64
	// MaxShown bounds a line of a readable form in the log, in characters.
	MaxShown = 4096
	// MaxReadable bounds the readable form of typed data, and what an operator is asked about, in bytes.
	MaxReadable = 512 << 10

	// Typed data: bytes of the request, struct types, fields over all types, values, and how deep they nest. The values
	// times the fields bound the work of hashing.
	MaxTypedData   = 128 << 10
	MaxTypes       = 32
	MaxTypeFields  = 256
	MaxTypedValues = 2048
	MaxTypedDepth  = 16

	// idleTimeout ends a connection over which nothing came.
	idleTimeout = 10 * time.Minute
	// httpIdleTimeout ends a connection over HTTP between requests.
	httpIdleTimeout = time.Minute
	// headerTimeout and answerTimeout bound a request over HTTP.
	headerTimeout = 10 * time.Second
	answerTimeout = 5 * time.Minute
	// MaxTokenLife bounds the life of a token.
	MaxTokenLife = 365 * 24 * time.Hour
)
