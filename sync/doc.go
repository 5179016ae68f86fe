// Package blocksync is bornode's sync manager (folder sync/): handshakes, catch-up of irreversible ranges from several
// peers, catch-up of the reversible branch, and the live broadcast of blocks, votes and transactions. docs/wire-sync.md
// describes its messages and every deviation from the BoR protocol.
//
// The decisions are pure and apart from what carries them out: handshake.go (validity and cases 0 to 4), plan.go (what
// this node should be doing, given its own position and its peers'), scheduler.go (which peer serves which chunk),
// clock.go (offsets from time messages). Manager is the driver around them.
//
// Ownership. The goroutine of Manager.Run owns the peer table, the scheduler, the caches of what is known to whom and
// every decision; it never blocks. Around it, each with a bounded queue: per peer three readers
// (one per lane, decode) and two servers (ranges, in order and under the rate limit; other requests); per node a header
// checker, a block adder, a range importer, a voter, a checker of certificates, a transaction worker, one that offers
// pending transactions again, one for sessions and their answers, and a repairer.
// Values with a lock of their own: the table of bans, which the host asks from its own goroutines; the inbox of votes,
// between the manager and the voter; a peer's account of votes, which its reader and the manager charge.
//
// Invariants. History is served on lane 2 only, and only by a peer's server goroutines. A live block is relayed after
// its header was checked and before it is executed. A vote is relayed when its signature was verified. A chunk that a peer failed to deliver is never asked of the same
// peer again. What was downloaded but not applied is bounded in bytes, whatever the size of the blocks, and
// the lowest missing chunk is asked for as soon as what is below it is applied, so the bound cannot dead-lock. A peer's
// position is a claim: one that brings nothing when asked is let go. Nobody is punished for standing on a branch other
// than another peer's; the final blocks judge both. Payloads handed to Link.Send are shared between links and never changed.
//
// It does not decide what is valid (consensus and chain do, behind Driver), keep blocks (Blocks does), choose a
// provider or move bytes (transport does).
package blocksync
