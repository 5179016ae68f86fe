// Package txpool holds the transactions that wait for a block: go-ethereum's legacypool for admission and ordering,
// with this chain's limits and one promise on top: a transaction that was accepted is never lost to a limit. Room is
// checked before admission, so legacypool's own truncation and eviction by price never run; a transaction without
// room is refused with a sentence that says so.
//
// One goroutine (Pool.run) owns the pool: it alone adds transactions and moves the pool to new heads. Add hands it a
// batch and waits, so that after Add returned the account's pending nonce is up to date; batches that arrive together
// are added together. Senders are recovered before, in parallel, outside that goroutine. A second goroutine passes
// events of new transactions to subscribers, so that a slow subscriber never stalls admission.
//
// The pool follows the chain by two calls that never block: HeadChanged after every change of the executed head, and
// Abandoned with the transactions of blocks that left the executed branch (the pool puts them back itself after it
// moved to the new head; legacypool's own search for them stops at 64 blocks).
//
// Transactions submitted at this node are in the journal before their acceptance is answered, so that a kill loses none.
// A torn end of it is cut off; a damaged one is set aside and told, and never keeps a node from starting.
//
// Invariants: slots in use never exceed GlobalSlots; gapped transactions of one account lie within AccountQueue nonces;
// the minimum tip is 0; blob transactions are refused. It does not gossip, keep history, or execute anything.
package txpool
