// Package node wires the parts of a bornode into one process: it opens store, chain, pool, network, consensus, sync
// and JSON-RPC in the order they need each other, hands every part the others' values through the small interfaces
// the parts declare, and ends them in the reverse order. It owns no state of the protocol. Its own goroutines are the
// watchers in watch.go (head and final events to pool, members and sync) and, at a producer, that of duties.go, which
// owns the evidence that waits (evidence.rlp) and sends transactions for the producer's account; all end with the context
// of Run. A broker's node (brokers*.go) has that of submitter.go, which takes the broker's calls into final blocks, and one
// that hands final checkpoints to the evidence; its parts end before the chain's, so that what it leads goes to others.
package node
