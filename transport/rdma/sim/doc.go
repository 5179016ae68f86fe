// Package sim is a fabric in memory for tests, which does what is nasty on hardware: one-shot arming, exact queue
// depths with partial posts, send slots that only a polled completion frees, receiver not ready, flush on error,
// completions that are delayed and reordered across queue pairs (never within one), send and receive completions of
// one queue pair that overtake each other, receive entries used out of order, early returns of Wait, data that the
// simulated NIC reads from local memory long after Post, and queue pairs that break at any moment: before a request
// lands, in the middle of its bytes, after it landed but before its sender learns of it, or on the other side, where
// a pure receiver never notices.
//
// A Network is driven in one of two ways. By itself: a goroutine, which exists while something is under way, carries
// requests in the order of their seeded delays; it uses only mutexes, condition variables, channels and timers, so it
// runs in testing/synctest bubbles on virtual time. Or by hand (Faults.Manual): Step does the next thing, nothing
// blocks, calls that would have to wait step the network and return ErrIdle when nothing is under way; with a single
// goroutine a seed and its Faults give the same run, step by step.
//
// All state of a network is owned by its one mutex. Invariants: requests of a queue pair are carried, land and
// complete in the order of posting; a request is carried at most once; every request that was taken ends in exactly
// one completion if it is signalled or fails, unless its queue pair is closed before.
//
// The simulator also watches its user: memory closed while in use, memory exposed again that a peer has mapped, both
// sides or neither leading. Such misuse is counted and, where there is a call to refuse, refused.
//
// It models no bandwidth and no protection against other processes, and its memory is Go memory.
package sim
