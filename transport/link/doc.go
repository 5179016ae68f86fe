// Package link makes one lasting transport.Link out of the changing connections with a peer.
//
// A Link slices messages into frames, numbers the frames of each lane, keeps them until the peer's link has them, and
// grants credit per lane as the reader consumes. Strict priority among lanes, with a bound on what a batch of lower
// lanes may hold, keeps a lane-0 frame from waiting behind more than one slice and BurstBytes. When the pipe below
// breaks, the link waits for another one (of any provider): both sides exchange a Hello with their session ids and
// what they received, and each sends again from there. Nothing is lost, nothing is delivered twice, lanes keep order.
// A peer that does not know the session (it restarted, or gave up after ResumeTimeout) ends the link with
// ErrSessionLost and a new Link is given out.
//
// Peers is what a host builds on: the table of links by peer, the gate, the hello of a new connection, and the
// dialling with back-off. A host only makes connections and hands them to Serve as Conns (or single pipes to Attach).
// Over a Conn runs a session: an Upgrader may move the link to a faster pipe, and when that fails the leader brings the
// link back to the same connection on a new pipe. The connection remains the authority: a fast pipe ends with it.
//
// Goroutines. Each pipe of a link has a writer and a reader, each link a timer goroutine (heartbeat, idle and resume
// time-outs), each dialled peer a dialler, each session one that decides whether its connection stays, one for the
// upgrader, and where the peer leads one that takes pipes. A link's state is guarded by its mutex, held for bookkeeping
// only and never while a provider is called; only the writer calls WriteFrames and only the reader ReadHeader and
// ReadPayload. The table is guarded by its own mutex, under which no link or provider method that can block is called.
// Locks are taken in the order session, table, link.
//
// Invariants: per lane, acked <= resend <= sent, the kept frames are exactly [acked, sent), and received counts frames
// without a gap; freed <= received; sent - freed never exceeds the lane's window; of lanes 1-3 together at most the
// pipe's UnacknowledgedBytes are under way. A pipe is replaced only after its goroutines have ended. Only the first pipe
// of a connection may begin a link; a session brings back only a link that it carried last and that nobody else is
// setting up; while it does, nobody dials.
//
// The package does not know TCP, RDMA or membership, and never interprets payloads.
package link
