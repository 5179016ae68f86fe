// Package statestore is the key-value store below the state of simulated nodes (package sim/nodes): go-ethereum's
// ethdb.KeyValueStore on a vfs.FS, so that the disk of a simulation, which forgets at a power cut what was not synced and
// fails on request, has the state on it too. Pebble is what real nodes use; nothing of this package is in a real node.
//
// # Form
//
// One file, STATE.log: a header, then records, one for each batch or single write.
//
//	header  "BORSSTA1"
//	record  u32 length of the payload, u32 crc32c of the rest, u64 bytes of the file that were synced when it was written, payload
//	payload operation*: kind (1 put, 2 delete, 3 delete range), u32 length and bytes of the key, likewise of the value (or end)
//
// Integers are big-endian. A start reads the file from its beginning to its end. A record that is not whole is where a
// crash cut the file, unless a whole record behind it says that this place was synced: that is damage. What is left is
// synced before anything is answered from it, since a kill leaves bytes in the page cache that the disk may not have.
//
// # What it promises
//
// A write is there whole or not at all; after a crash the writes that are there are a prefix of those that were made,
// at least up to the last SyncKeyValue. Every value is read from the file and compared with its checksum. The first error
// of the disk or damaged value is told to Options.Fail, once; from then on nothing is written, and what is read comes from
// memory: the process that a fault ends goes on inside the simulation until its goroutines have ended, and must not take a
// value that it cannot read for one that is not there.
//
// It has no goroutines; all methods are safe for concurrent use. An iterator sees the keys as of when it was made.
package statestore
