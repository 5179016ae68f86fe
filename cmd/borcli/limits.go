package main

import "time"

// Bounds of what is read and waited for.
const (
	maxConfigBytes   = 1 << 20
	maxKeyFileBytes  = 64 << 10
	maxPasswordBytes = 4 << 10
	maxFileBytes     = 64 << 20  // artefacts, typed data, keystores
	maxAnswerBytes   = 256 << 20 // one HTTP answer of a node or wallet

	requestTimeout = 60 * time.Second // one request
	dialTimeout    = 10 * time.Second
	pollInterval   = 200 * time.Millisecond // between two looks for a receipt or finality
	nodeTime       = time.Minute            // within which a node that has a transaction is there again

	auditOperations = 100         // the newest, unless more are asked for
	rightsBlocks    = 50_000      // whose events are asked for at once
	rightsAccounts  = 256         // whose reputation is asked for at once
	rightsLag       = time.Minute // within which brokers learn of a change, clocks included

	nonceTries       = 5  // of a transaction whose nonce others of the account take first; and to learn the next one
	gasMarginPercent = 20 // added to the node's estimate: the state may change before the transaction runs
)
