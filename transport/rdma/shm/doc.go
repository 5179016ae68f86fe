// Package shm is the fabric between processes of one host: queue pairs over shared memory. A WRITE is a copy into
// memory that the peer exposed (or no work at all where the sender maps it with QP.Map), and what a NIC would put into
// the peer's completion queue goes through a small ring of completions per queue pair and direction.
//
// What is shared. Every piece is a memfd that cannot be resized (sealed) and travels as a descriptor over the queue
// pair's own Unix socket:
//   - the completion ring of one direction: made by the sender, written by both (slots by the sender, one position by
//     the receiver);
//   - the status pages of a device: written by their owner alone (a seal keeps everyone else from writing), read by
//     its peers: is the completion queue asleep, how many receive entries are left;
//   - regions, whole, by Expose.
//
// Rendezvous. Each device listens on a Unix socket with a random name: abstract, so it is reached within one network
// namespace, or in a folder of mode 0700 that containers share. QP.Info carries that name and a random token; the
// leading side dials and presents the token of the other, which answers with the token of the first, so both prove
// that they were told. A token works once. The socket stays open for the life of the queue pair: its end, which the
// kernel sees to when a process dies, breaks the queue pair. It also carries wake-ups (one byte, sent without ever
// blocking, and only while the peer says that it sleeps; an eventfd would not do, since its other holder can make a
// write to it block), exposed regions, and the descriptors of OpenArea.
//
// Completions. A request is done when its bytes are in the peer's memory and its slot is published, so its completion
// is there when Post returns. Two cases differ: a peer that stops polling until its ring is nearly full, and one short
// of receive entries whose queue pair retries; then completions wait until the peer took the slot. A request that
// finds no receive entry breaks the queue pair with StatusRNR: the sender sees the shortage in the status page when
// fewer than scarceEntries are left, else the receiver finds it and leaves word in the ring. What a peer published
// before it broke is still delivered.
//
// Invariants. Nothing a peer writes can make this side index outside a mapping, block or fault: slots are copied, then
// checked; positions must be in order and within a ring's depth; a memfd is mapped only after its kind, seals and size
// were checked, and memory of huge-page files, which a peer could punch holes into and starve, is refused (regions use
// transparent huge pages instead). A breach ends that queue pair with fabric.ErrPeer and no other.
//
// Goroutines: a device has one that accepts and one that gives out events, a bounded number of handshakes, and one per
// queue pair that reads its socket and sleeps in the netpoller; none has a timer while idle. Completion queues and
// receive queues are guarded by their mutexes, the send half of a queue pair by its own (order: CQ, queue pair, SRQ or
// local completions); no lock that the data path takes is held over a system call.
//
// It does no remote reads (OpRead): peers share files instead (FileSharer), read with pread, never mapped. It knows no
// frames, rings of bytes or credits: package rdma does.
package shm
