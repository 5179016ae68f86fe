// Package store keeps the record batches of a broker's partitions: one write-ahead log for all of them, in segment
// files, so that thousands of small partitions cost one fsync together and no file each.
//
// # Files
//
// A segment NNNNNNNN.log is a header and records: checked header, kind, partition number, payload. Batches are records,
// and so is every change of a partition (created, deleted, promised, entered, truncated, start moved). When a segment is
// full it is sealed: NNNNNNNN.idx gets the places of its batches, sorted by partition and offset, and NNNNNNNN.snap the
// state of all partitions (offsets, epochs, idempotent producers) as of its end. A start reads the newest snapshot, the
// directories of the index files and the records after the snapshot. Index files are derived: a lost one is made anew.
//
// # Ownership
//
// Partition.mu and wal.mu together guard a partition's state: who changes it holds both, who reads it holds either. So a
// snapshot needs wal.mu alone, and an append is in the log and in the state at one moment. One goroutine (Store.flusher)
// writes and syncs the log; a second (Store.keeper) writes index files and snapshots. Readers hold no lock during I/O.
// Lock order: Store.mu, Partition.mu, wal.mu. Truncate alone reads files under Partition.mu: it is rare and must know
// what its producers had sent. Records say all that a start needs: it never asks a segment for what a later record changed.
//
// # Invariants
//
//   - What Durable acknowledged is there after a crash; what it did not is there whole or not at all.
//   - The offsets of a partition's batches are contiguous from Start to End. A log that a start finds shorter than it was
//     has entered no epoch: who uses it knows that it is not whole.
//   - A torn tail behind the last fsync is cut. Every record says how far its segment was durable when it was appended:
//     what cannot be read below that is damage. Damage costs copies, and never keeps the store from opening (damage.go).
//   - A damaged file keeps a second name that nothing removes.
//   - After a failed write or fsync nothing is acknowledged until the same bytes, which stay in memory, have been
//     written again and synced; the segment is then left for a new one.
//   - A batch whose bytes do not match its checksum, or its offsets the index, is never served from a file.
//   - A segment is removed when nothing live is in it, what made it dead is durable, and two newer snapshots exist.
//
// The package does not look inside records, does not replicate and knows nothing of the high watermark but what it is
// told: it never truncates or drops what is at or below it on its own account.
package store
