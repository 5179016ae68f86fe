// Package signer holds the keys of a producer in the memory of the node's own process: the ECDSA key of its account,
// which seals blocks, and the BLS key of its votes. The keys come from one JSON file that only its owner may read.
//
// A Local is immutable and may be used from several goroutines. It signs whatever it is handed: what may be signed is
// decided by consensus/dpos, and the driver writes it to the vote log before it asks for the signature.
//
// It does not encrypt the file, does not talk to a remote signer and never writes over an existing file.
package signer
