// Package bls signs and checks votes with BLS12-381: public keys in G1 (48 bytes compressed), signatures in G2
// (96 bytes compressed), domain separation tag Tag. It is the scheme "minimal-pubkey-size" of the IETF draft
// draft-irtf-cfrg-bls-signature, with possession proofs kept by whoever registers keys.
//
// Two implementations stand behind one API and the same golden vectors: supranational/blst when built with cgo,
// consensys/gnark-crypto without. Which one runs is invisible to callers except in speed.
//
// gnark-crypto does not multiply secret scalars in constant time: producers on shared hosts build with cgo.
//
// Values are plain arrays and safe to share. A SecretKey never changes after it was made. Cache is safe for concurrent
// use; it owns its entries. Any bytes may come from a peer: every function that takes encoded points checks that they
// are canonical, on the curve, in the right subgroup and not the point at infinity, and answers with false or an error,
// never with a panic.
//
// The package knows nothing of votes, schedules or quorums, and it does not make aggregates safe against rogue keys:
// callers must only pass keys whose owners proved possession.
package bls
