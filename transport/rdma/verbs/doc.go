// Package verbs is the fabric of a real RDMA device: a NIC with InfiniBand or RoCE v2, or software RoCE, driven through
// libibverbs. The library is loaded when the first device is looked for, so one binary starts everywhere; built without
// cgo or for another system than Linux the package says fabric.ErrUnavailable. Find lists the ports that can be used
// and says in one sentence what is missing when there is none; Open opens one.
//
// Memory: every region is mapped outside the Go heap, in huge pages where there are some, and registered once for local
// use. A peer reaches it only through what Expose made: a memory window of type 2B, which works on one queue pair alone,
// or, where the device has none that work, a second registration of just that range, whose key every queue pair of the
// device could use if its owner knew it (Caps.Device says "registrations").
//
// Set-up: after both sides know each other's Info, the leader writes the follower's secret number into a page that the
// follower registered for this. The follower waits for the number, the leader for the completion: when Connect returns,
// both can receive. A leader that found nobody resets its queue pair and tries again until the context ends.
//
// Requests carry numbers of this package's own; the caller's IDs wait in a table per queue. That gives exact accounting
// of the send queue (a slot is free when a completion at or behind it was polled, whatever the driver would still
// take), and tells apart completions of which only number, status and queue pair are valid. Completions that control
// operations wait for (a window's bind, the leader's write, the mark behind the last request of a closing queue pair)
// are taken out by whoever polls; an operation that waits also polls itself and leaves what is not its own in the
// completion queue's stash, so it needs no other goroutine and none loses a wake-up by it.
//
// Goroutines: one per device takes asynchronous events (Events); all else runs on the caller's. The send side of a
// queue pair is guarded by its post lock, control operations by its control lock, polling by the completion queue's
// lock, entries by the shared receive queue's. Nothing of the data path allocates, or passes a pointer to Go memory.
//
// The package retries nothing, judges no peer and routes nothing: it does what the fabric interface says. It has no
// Map (Caps.MapsRemote is false) and shares no files.
package verbs
