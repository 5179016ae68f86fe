// Package proof says what a broker's evidence means and checks it: what an auditor trusts, and all that he needs to.
//
// A committed record batch is a Leaf. The leaves of a partition are a Merkle tree of RFC 6962 (golang.org/x/mod/sumdb/tlog),
// whose root and size are a Head. The heads of a topic's partitions are the leaves of one more tree: its root is the
// topic's checkpoint, which a broker puts on the chain. A checkpoint is an event in a block's receipts (Event), the block
// is final by a certificate (Chain), and who may sign certificates follows from the genesis file by the headers that end
// epochs. A Bundle holds all of these for some batches of one partition and is checked offline with the genesis file alone.
//
// What was done with a topic, allowed or refused, is an Operation. Operations are chained: CheckOperations shows that none
// is missing between two states of the contract. A Receipt is a broker's signature on the place of a batch, given with
// the acknowledgement: two of them for one place are proof against the broker.
//
// Whatever is wrong is a *Tamper that names topic, partition and offset. The formats are in docs/wire-topics.md, fixed by
// testdata/golden.json.
//
// The package is pure: no clock, goroutine, file or network. All types are plain values of their owner. It does not make
// trees durable and fetches nothing (package evidence does); it does not judge whether the records inside a batch are sound.
package proof
