// Package txpool holds the transactions that wait for a block, with one promise: a transaction that was accepted and is
// executable is never lost to a limit. Room is checked before admission; a transaction without room is refused with a
// sentence that says so. Only transactions that wait for a missing nonce, and never were executable, make room for others.
// ADR 16 says why the pool is our own and what of go-ethereum it keeps.
//
// book is the data: per account a list by nonce (an executable part without gaps, and what waits behind a missing nonce),
// an index by hash, and counts that are exact at every moment. Its work follows what changes. At a new head the chain names
// the accounts that differ (Chain.ChangedAccounts), and only those are examined; where the chain does not know, all are.
//
// One goroutine (Pool.run) owns the book: it alone changes it, under a lock that it holds for one transaction or a few
// accounts at a time; readers take the lock for reading. Add hands the owner a batch and waits, so that after Add returned
// the account's pending nonce is up to date. What needs no state (form, signature, allow lists) is checked before, in
// parallel, outside that goroutine. A second goroutine passes events of new transactions to subscribers, so that a slow
// subscriber never stalls admission. A Source is a snapshot of slice headers: the lists it holds never change in place.
//
// The pool follows the chain by two calls that never block: HeadChanged after every change of the executed head, and
// Abandoned with the transactions of blocks that left the executed branch, which the pool puts back after it moved to the
// new head.
//
// Transactions submitted at this node are in the journal before their acceptance is answered, so that a kill loses none.
// A torn end of it is cut off; a damaged one is set aside and told, and never keeps a node from starting.
//
// Invariants: admission keeps the slots in use within GlobalSlots; what comes back from abandoned blocks and the journal
// may exceed it maxReturnedShare times. Executable transactions have the nonces from the account's on, without gaps, and
// each alone is covered by the balance. Transactions that wait for a nonce enter within AccountQueue nonces. The minimum tip
// is 0; blob transactions are refused. The pool does not gossip, keep history, or execute anything: whether an account can
// pay for all its transactions together is known when the block is built.
package txpool
