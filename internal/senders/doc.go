// Package senders recovers the accounts that signed transactions, each signature once. The pool and the chain of a node
// share one Cache: a transaction that came by gossip or JSON-RPC costs no second recovery when a block brings it, and one
// that a block brought first costs none when it comes by gossip. The cache believes only what this node recovered itself;
// what a block or a peer says of senders never enters it.
package senders
