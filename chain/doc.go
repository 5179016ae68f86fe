// Package chain keeps the block tree and the states: it checks bodies, executes blocks in go-ethereum's EVM, builds
// new ones, moves the executed head, the safe and the last irreversible block when consensus says so, and answers
// every question about blocks, receipts and states.
//
// It has no fork choice: which branch is executed, justified or irreversible is decided by consensus/dpos, and the
// driver tells it here. It verifies no seal and no certificate either; those are header rules.
//
// Ownership. One caller at a time executes: SetHead, ImportFinal, Finalize, Build, InsertBuilt and Close take the
// execution slot and wait for each other. CheckBody, Add and the whole read side may be called at any time from any
// goroutine; they take only the short lock of the tree. Two goroutines belong to the package: the receipt writer (the
// only one that calls Store.PutReceipts) and the event dispatcher (the only one that sends on feeds). Both end in
// Close.
//
// Feeds. Events leave in order through one dispatcher with a queue of eventQueue entries. A subscriber that does not
// drain its channel stops the dispatcher and, when the queue is full, execution: the bound is on memory, not on time.
// Subscribers therefore drain at once and never call SetHead, ImportFinal, Finalize or Build from the draining
// goroutine.
//
// Durability. A block is durable in the Store before a state that depends on it can reach the disk: Add and
// InsertBuilt return after the group sync, and pathdb writes a state only when 128 newer layers lie above it or at a
// flush, which waits for the store first. So after a kill at any point the state on disk is that of a stored block
// or of a descendant of one that pathdb can roll back to; Open walks down from the chosen head to the first block
// whose state exists or is recoverable, and re-executes upwards from there, from genesis if need be.
//
// Rules. Which gas limit, base fee, block size and upgrades hold for a block is what its parent's state says of the
// producers' votes (docs/wire.md, docs/adr/0007). They are read once per state by execution
// and building, which apply them, and apart from that for readers (ParamsAt, Decisions, PrepareState). Each block is checked against bounds
// when it comes (CheckBody) and against its own rules when it is executed. ErrUnknownUpgrade means that this node must
// stop.
//
// Randomness. Header.MixDigest = keccak256(parent MixDigest ++ RLP(QC) if the record has one ++ RLP(FC) if it has
// one). It is weak: a producer chooses between the certificates it has and may withhold its block.
package chain
