// Package replica copies the partitions of topics from their leaders to the other replicas, over lane 3 of the links
// between brokers, and says what is committed: what no later leader can lack. SPEC.md has the rules and why they hold.
//
// A core is one partition on one broker: a machine without clock and network, led by leases (final chain state),
// messages of other brokers and reports of what has become durable. It writes to the partition's log, and tells through
// its effects what is to be sent and made durable. The Manager drives the cores: it owns the links, one sender and one
// reader per link, the goroutine that waits for the disk, and the timers.
//
// A core's state is guarded by the mutex of its part; it is held for bookkeeping and writes to the log's buffer, never
// for the disk's fsync, for reads of history or for a link. Locks are taken in the order part, then peer or syncer; the
// Manager's table of parts is never locked by someone who holds a part. What is to be sent is not queued but derived
// from the core's state when there is room: a peer has a list of partitions with news, of bounded length by nature.
//
// Invariants: a replica takes log entries only from the leader of the newest lease it has seen final and promised
// durably; it accepts an epoch once its log agrees with the leader's log at the start of that epoch in full; a batch is
// committed when a majority accepted the leader's epoch and has the batch on disk; what a replica knows to be committed
// it never cuts off; the high watermark of a replica never falls; one process leads an epoch at most once.
//
// It keeps no data of its own, does not choose who becomes leader (the chain does), does not speak to clients, and does
// not check what producers may write.
package replica
