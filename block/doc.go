// Package block holds the types that consensus, chain, store and network share: the consensus record, sealed
// header, block, vote, certificate, schedule and parameters, with their encodings (docs/wire.md). It knows no rules:
// what makes a header acceptable is decided by consensus/dpos, what makes a body acceptable by chain.
//
// All values are plain data. A *Block or *SealedHeader must not be changed once it was handed to another goroutine.
// Every decoder here takes peer bytes: it bounds every length, returns an error wrapping ErrDecode and never panics.
package block
