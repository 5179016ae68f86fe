// Package consensus drives the pure machine of consensus/dpos: it gives it the clock, verified headers and votes, and
// does what it wants: writes the vote log, signs, sends, produces blocks, and tells the chain which branch to execute
// and what is final. Producers and observers run the same driver, an observer without a signer.
//
// # Goroutines
//
//	machine   (Run)      owns dpos.Machine, the vote log, the backlog and the timer. It never waits for another
//	                     goroutine: work for the others waits in its own bounded backlog until they are free.
//	execution            calls Chain.SetHead, Build, InsertBuilt, Finalize, ImportFinal, SetSafe; one work at a time.
//	crypto               signs votes and sends them; sums the votes of tallies, which were verified when they came.
//	callers              CheckHeader, AddBlock, AddRange and AddVotes verify seals, certificates and bodies on the
//	                     goroutine that calls, and ask the machine's by a call that it answers at the end of its turn.
//
// All three end with the context of Run, which waits for them.
//
// # Order of duty
//
//   - A sign record is on disk (one fsync for all records of a turn) before anything it stands for is signed. A block
//     is durable in the chain's store before its header enters the machine, so before any vote on it can leave.
//
//   - What is not in the vote log is not signed, whatever the machine asks.
//
//   - The chain gets heads and updates of LIB in the machine's order, joined while it is busy: a head not yet begun is
//     replaced, since every later head descends from LIB too.
//
//   - What left the tree is deleted behind the heads wanted before, whether or not LIB moves; a block that is on its way
//     in is not, nor is its parent, and one that is being deleted waits.
//
//   - A session is on disk before anything names it, and another producer's before it is answered. Sessions are answered while
//     the chain executes again what its last stop left without a state; everything else that changes something waits.
//
// # What is verified
//
// CheckHeader verifies the seal and the aggregate of each certificate a header carries; both are remembered, so a
// certificate costs one pairing however many headers carry it. AddRange in Certified mode verifies the links by hash
// up to a block that a certificate proves final, the header rules, one certificate for each change of schedule and the
// newest, the body digests, and every seal: the seal is part of no hash, so no certificate speaks for it, and a block
// stored with a forged one would be refused by whoever fetches it here later.
//
// # What it does not do
//
// It has no rules of its own about blocks and votes (dpos), executes nothing (chain), knows no peers (sync) and keeps
// no bodies (blockstore).
package consensus
