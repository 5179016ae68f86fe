// Package genesis reads and writes genesis.json, the file from which a chain starts, and makes block 0 of it.
//
// The file is strict: an unknown key is refused with the nearest known name, every parameter of the chain must be there
// (a default that changes with the program would change the chain), and each error is one sentence that names the key.
// Amounts are strings of wei, decimal or 0x-hexadecimal. Durations are strings such as "500ms" or "168h".
//
// # Identity
//
// Block 0's record has as BodyDigest the keccak256 of the canonical encoding of all parameters but upgrades, and block
// 0's hash is the chain's identity in handshakes. The encoding is RLP of the list
//
//	["bornode-genesis-1", fork, chainId, genesisTime, slotMillis, turnSlots, epochBlocks, maxReversible, minProducers,
//	 maxBlockBytes, gasLimit, baseFeeFixed (0 or 1), baseFee, patience (0 or 1), admin, proposalSeconds,
//	 [seats, jailTurns, slashPercent, evidenceSeconds, withdrawSeconds, unjailSeconds, minStake],
//	 [[account, key, proof, stake] ...], [[peerId, account, roles] ...], stateRoot]
//
// in the order of the file, with fork = "osaka". Accounts of alloc and the system contracts are covered by stateRoot,
// the root of Alloc. Upgrades are covered by UpgradesDigest, which handshakes carry beside the identity; they describe what
// producers may vote for (Upgrade.Digest) and have no effect by themselves, or say which voted digest the operators take
// as withdrawn (Upgrade.Withdrawn). Votable, ParseParameter, EncodeParameter and
// DecodeParameter are the rules of parameters that may change, for files, proposals and execution alike.
//
// A *Genesis is made by Load, Parse or New, checked as a whole, and never changes: all methods are safe for concurrent
// use. The package executes nothing and stores nothing; Block hashes the allocation in memory.
package genesis
