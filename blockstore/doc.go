// Package blockstore keeps blocks: irreversible ones in append-only segment files with a fixed-size height index,
// reversible ones and everything that proves the last irreversible block (LIB) in a goleveldb database that is synced
// in groups, and what can be derived from them (hash -> height, receipts, transaction index) in a second goleveldb
// database that is not. docs/storage.md describes the files, the commit and what a crash leaves.
//
// # Ownership
//
// One goroutine (Store.run) does every primary write; callers hand it operations on a bounded channel and wait. It
// takes all operations that are waiting and makes them durable together: one sync of the segment, one of the
// database. Derived data is written by the callers' goroutines (goleveldb is safe for that). Readers are any number
// of goroutines; they take Store.mu only to copy a few words and read files with ReadAt.
//
// # Invariants
//
//   - What a call acknowledged is there after a crash; what it did not is there whole or not at all.
//   - LIB meta never names a block whose segment bytes are not durable; bytes beyond the LIB are cut at start, whole
//     records among them set aside. Open removes nothing that could be of use, Inspect changes nothing at all.
//   - Every reversible block descends from the LIB through reversible blocks after Open; others are dropped there.
//   - Bytes of a sealed segment never change, but for Replace, which restores a damaged record to what it was.
//   - After one failed write nothing is written any more (ErrFailed); reads go on.
//   - The window's directory page never names a block that is not durable, nor a file after it was removed; only the
//     writer changes it, and readers of the window need nothing of this process.
//   - A record whose checksum is wrong is never served: the reader gets ErrCorrupt with its height.
//
// The package does not verify signatures, certificates or execution, and has no idea which reversible branch is
// preferred: a transaction lookup says in which block, the caller says whether that block counts.
package blockstore
