// Package ledger mirrors what the contract Topics says at the last final block: tenants and their access control lists,
// brokers, topics and the leases of their partitions. A broker asks it many times per request, so it answers from
// memory.
//
// A View is the state at one final block and never changes; a block makes another one that shares with it all that the
// block left alone. The Mirror reads the whole state once, by pages, and follows the events of final blocks from there
// on. Should an event not fit what it knows, it says so and reads the state again.
//
// Decisions of access are cached in what they depend on, the tenant: when a block changes the tenant's list, its owner
// or the owner of one of its topics, they are gone with the old state; after cacheBlocks blocks they are made anew in
// any case. What the contract keeps per account without a list (reputation in a tenant, cancelled tokens, revoked
// pseudonyms) is asked for once and kept true by events, and a reputation by the time of the View's block; these answers
// are those of the newest block, whatever the View.
//
// Run's goroutine alone makes views; everything else may be called from anywhere. The package sends no transactions,
// authenticates nobody and knows no sessions: that a pseudonym's certificate is good, the broker has checked.
package ledger
