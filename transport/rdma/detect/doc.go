// Package detect finds out, for every peer that is connected over tcp, whether the two nodes can move their link's
// frames by shared memory or by RDMA, and moves them: the "RDMA context detection" of BoR. It is a link.Upgrader; the
// messages are in docs/wire-transport.md.
//
// Both sides offer their endpoints (a rendezvous of their host, network devices with GID and MTU) on the connection's
// control stream. The side that leads the pair chooses: shared memory if the peer's rendezvous can be reached, else the
// first pair of devices whose addresses are those of the connection, or that the operator named. Both make a channel and
// connect it, which includes a write each way, within Config.ProbeTimeout; then both attach it. A channel that fails
// later, or an attempt that fails at any step, is told to the other side, the link goes on over tcp (package link sees
// to that), and the leader tries again after a jittered pause that doubles up to Config.RetryMax. Of several ways one
// that failed makes room for the next. While a channel carries the link, keep-alives watch the connection, since a
// channel ends with it. What a peer does concerns that peer's link alone.
//
// Goroutines. Run has one that owns all state of its connection, one that reads messages, and one while a step takes
// time (making, connecting, attaching a channel). The Upgrader has one per device, which opens it again when it was
// lost; its table of endpoints is guarded by a mutex.
//
// Invariants: at most one channel per connection; a channel is closed before the next attempt begins, and all are when
// Run returns; attempts are numbered by the leader without gaps, and a message of one that was given up is ignored; a
// peer is answered with a new channel at most every quarter of Config.RetryMin.
//
// The package moves no frames and knows no membership; it opens no device itself (see Backend).
package detect
