// Package wire measures the ways from one process to another: plain TCP sockets, links over libp2p's TCP, and RDMA
// channels (shared memory, verbs) both bare and with links on them. For each it tells round trips, messages per second,
// bandwidth, processor time of both processes, the cost of many peers, and how long lane 0 waits while lane 2 is full.
//
// Sender and receiver are two processes. The near one runs Measure; the far one is the same program started by it with
// a hidden command that runs Far, and is told over its standard input what to do (session.go, far.go). A session lasts
// for one measurement of one path: what is compared is interleaved, path after path, and the whole repeated (Rounds).
//
// Three layers: a carrier makes the ends of one kind of path (socket.go, links.go, channels.go); an end sends and
// receives messages; a step is one measurement that works on any end (steps.go). Every figure carries its provider, its
// level and how the receiver waits: polled (it never sleeps), slept (it always does), or spin (it polls for a moment
// and then sleeps, as nodes do). Closing a session closes all ends, which wakes whoever waits on them, and ends the far
// process; so does the end of the context, and the death of either process ends the other's part.
package wire
