// Package nodes runs several whole nodes in one process under virtual time, on disks, clocks and links that fail by a seed:
// the unchanged driver of consensus with its machine, vote log and signer, the chain with the EVM, block store, pool and block
// synchronisation, wired in the order of package node, linked by transport/mem. Each node has a disk of internal/vfs/faultfs
// that keeps at a power cut what was synced and any part of the rest, gives EIO once or for good, is full or slow, flips bits,
// loses and misplaces writes, and is set back to an older copy; and a clock that jumps and drifts.
//
// # What is judged
//
//	agreement    all nodes that call a height final call the same block final, at all times
//	double sign  no producer seals two blocks of a slot, or breaks rule 6(a) or 6(b): read from what is heard on the wire
//	vote log     what others have heard of a producer is in the log that the end of its life leaves on its disk
//	final        what a node has called final it calls final in all later lives
//	answers      clients ask about data that the node has called final; no answer is wrong or empty, and an error has a cause
//	end          a node ends by itself only over its disk, with a sentence; a start, or what the sentence says, helps
//	liveness     after the last fault all nodes are up, and make new blocks final within the calm time at the end
//
// The checkers share no code with what they watch but encodings, hashes and signatures. Each is proven by a fault that a
// test plants around a part (Bugs), never inside one.
//
// # Time and replay
//
// Run must be called in a bubble of testing/synctest. A seed decides the scenario, keys, clients' questions and what a power
// cut keeps, and time passes only while every goroutine waits; but the order of goroutines that are ready in the same instant
// is the Go scheduler's, and sync.Map and select add to that. So a seed replays the same faults at the same times, and mostly
// the same run, not the same run event by event: the n-th write of a file may be another one, or come after the last fault. A
// violation that does not come again at once comes within some tries of its seed.
//
// # What is left out
//
// JSON-RPC, brokers, duties of producers, the gate of members and pruning do not run. The state lies on a store of this
// simulation's own (statestore), on the same disk, instead of Pebble; it has no ancient directory, since go-ethereum opens
// that by itself on the operating system: states of final blocks that left memory are not there, and a state on disk that is
// of a losing branch ends the node, and is made again from genesis by its next start, instead of being rolled back. Slow syncs are those of segments and of the vote
// log, on which nobody waits with a mutex: a bubble's time stands still while a goroutine waits for one.
//
// # Goroutines
//
// The world's goroutine (Run) owns events, nodes and their disks between lives. A life has the goroutines of its parts, its
// client and one that opens and closes them. When the machine or process of a life ends, it is cut off from links and disk
// in that instant; its goroutines then end in order, unseen.
package nodes
