// Package rdma carries the frames of a link over queue pairs: two receive rings per direction that the peer writes
// into by RDMA WRITE, with credits for ring bytes and for receive entries, on top of a fabric backend (a NIC, shared
// memory, a simulation). docs/wire-rdma.md has the wire format.
//
// Parts. flow and the rings are the account of one end: pure, without I/O or time, fuzzed, and run against its like by
// a model test. reader takes frames out of the receive rings. Channel is one end of a connection and a
// transport.Provider. Device is the fabric device with its completion queue, shared receive queue, poller, pool of
// registered memory, and the library that serves windows.
//
// Who owns what. Three goroutines meet at a channel, and each part of its state has one owner:
//   - the sending half (mirrors, posting, credits of the peer) belongs to whoever holds the channel's tx lock: the
//     writer, or somebody who found that a credit came and posts what waited for it. Nobody waits for that lock but the
//     writer: others leave a note (work) and go, and the holder looks for notes after it unlocks. While the writer
//     waits for room it does not hold it.
//   - arrivals (published positions, entries used) are written under the device's poll lock.
//   - the receiving half (positions read, the stage) belongs to the reader.
//
// What crosses is atomic with one writer each. Where one side sleeps (parked, blocked) it says so first and looks again
// after; the other side publishes first and looks then. Memory goes when tx and the reader's own lock were taken once
// after the end, so neither half holds on to it; the queue pair is closed before.
//
// Who polls. The completion queue is polled under a lock that is only ever tried by readers and writers which wait:
// they spin for a while (Config.Spin, shrinking where it does not pay), polling for everybody. The last of them that
// gives up arms the queue, looks again and sleeps; an event then wakes the poller's goroutine, which hands out what
// came and wakes whom it is for. While readers come back to poll by themselves nobody arms, so a sender need not wake
// anybody: that is what a round trip below a microsecond rests on. The price is that a reader which found something
// and went off to work leaves the queue unarmed, and others' completions unseen; therefore a guard ticks once a
// millisecond as long as the queue is not armed, and arms it when nobody has polled since the last tick. Idle devices
// have no timer. Always: the queue is armed, or an event is on its way to the poller, or somebody spins, or the guard
// is set.
//
// Why nothing overruns or runs dry: see sizes (queues) and flow (credits). A missing receive entry, an overrun or a
// lost event would be a fault here or in the backend, and each has a counter that tests hold at 0.
//
// Everything a peer says is checked where it comes in, and what it wrote into memory is copied before it is looked at.
// A breach ends that channel with transport.ErrProtocol, breaks its queue pair, and touches no other.
//
// The package sends nothing again and has no heartbeat: a channel either works or has failed, and the link above it
// goes on elsewhere by its own sequence numbers. It chooses no devices and talks with nobody about them: package
// rdma/detect does.
package rdma
