package fabric

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Bounds that hold on every backend.
const (
	// MaxSendBytes is the largest SEND: memory-region descriptors are all that is ever sent this way.
	MaxSendBytes = 256
	// MaxInfoBytes is the longest Info of a queue pair.
	MaxInfoBytes = 256
	// MaxExposed is how many regions one queue pair may expose.
	MaxExposed = 8
)

// Errors; test with errors.Is.
var (
	// ErrClosed: the object was closed here.
	ErrClosed = errors.New("fabric: closed")
	// ErrBroken: the queue pair is in the error state (it or its peer failed, or the peer has gone).
	ErrBroken = errors.New("fabric: queue pair is broken")
	// ErrFull: the queue has no room for another work request now.
	ErrFull = errors.New("fabric: queue is full")
	// ErrUnavailable: the backend cannot work on this machine; the text says what is missing.
	ErrUnavailable = errors.New("fabric: unavailable")
	// ErrUnsupported: the backend cannot do this (see Caps).
	ErrUnsupported = errors.New("fabric: unsupported")
	// ErrPeer: the peer's data breaks the rules of the backend (bad info, unsealed memory, wrong size).
	ErrPeer = errors.New("fabric: peer broke the rules")
)

// Opcode is the kind of a work request or completion.
type Opcode uint8

// Opcodes. OpRecv and OpRecvImm appear in completions only.
const (
	OpWrite    Opcode = iota + 1 // RDMA WRITE: no completion at the peer
	OpWriteImm                   // RDMA WRITE WITH IMMEDIATE: takes a receive entry of the peer, even without bytes
	OpSend                       // SEND of at most MaxSendBytes
	OpRead                       // RDMA READ
	OpRecv                       // a SEND arrived in the receive entry's buffer
	OpRecvImm                    // a WRITE WITH IMMEDIATE arrived
)

// Status is how a work request ended. In a completion that is not StatusOK only ID, Status and QP are valid.
type Status uint8

// Statuses.
const (
	StatusOK            Status = iota
	StatusFlushed              // the queue pair failed before this request was done
	StatusRetryExceeded        // the peer does not answer
	StatusRNR                  // the peer had no receive entry and RNRRetry is used up
	StatusRemoteAccess         // wrong key, or out of the exposed range
	StatusLocal                // a local length, protection or queue error
	StatusOther
)

// String names the status as in logs.
func (s Status) String() string {
	names := [...]string{"ok", "flushed", "retry exceeded", "receiver not ready", "remote access", "local error", "error"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// Access is what a peer may do with exposed memory.
type Access uint8

// Accesses; they may be combined.
const (
	RemoteWrite Access = 1 << iota
	RemoteRead
)

// Remote names memory that a peer exposed to this queue pair.
type Remote struct {
	Addr uint64
	Key  uint32
	Len  uint32
}

// SendWR is a work request of the send queue. Local memory must lie in a Region (Key is its LocalKey) and stay
// untouched until the request is known to be done; the exception are requests with Inline, whose bytes are taken by
// Post, from any memory.
type SendWR struct {
	ID       uint64 // comes back in the completion
	Op       Opcode
	Local    []byte // to send or write; for OpRead where the bytes go
	Key      uint32 // LocalKey of the region that holds Local
	Remote   uint64 // address at the peer: Remote.Addr plus offset
	RKey     uint32 // Remote.Key
	Imm      uint32 // host order; the backend puts it on the wire big-endian
	Signaled bool   // wants a completion; without it only a failure makes one
	Inline   bool   // at most Caps.MaxInline bytes
}

// RecvWR is an entry of the shared receive queue. Local may be empty where nothing is ever sent by SEND.
type RecvWR struct {
	ID    uint64
	Local []byte // MaxSendBytes, in a Region
	Key   uint32
}

// Completion is an entry of a completion queue.
type Completion struct {
	ID     uint64
	QP     uint32 // Num of the queue pair; with an SRQ the only way to know the peer
	Op     Opcode
	Status Status
	Bytes  uint32 // received by OpRecv, written by OpRecvImm
	Imm    uint32 // of OpRecvImm
}

// Caps says what a device can do.
type Caps struct {
	Provider    string // "shm", "sim", "rdma" (a NIC), "rdma-rxe" (software RoCE)
	Device      string // for logs: device, port and GID, as the operator knows them
	MapsRemote  bool   // QP.Map works: writing to the mapping is the WRITE, and a WRITE WITH IMMEDIATE carries no bytes
	Reads       bool   // OpRead works
	SharesFiles bool   // QP implements FileSharer
	MaxSend     int    // largest send queue
	MaxRecv     int    // largest shared receive queue
	MaxCQ       int    // largest completion queue
	MaxInline   int    // bytes of an Inline request; 0: none
	MaxReads    int    // OpReads under way on one queue pair
	HugePages   bool   // regions are in huge pages where the machine has them
}

// Event is something asynchronous that happened on a device.
type Event struct {
	Kind EventKind
	QP   uint32 // for EventQPFatal
	Text string // for logs
}

// EventKind is the kind of an Event.
type EventKind uint8

// Event kinds.
const (
	EventSRQLimit    EventKind = iota + 1 // fewer entries are left than ArmLimit asked to be told of; one-shot
	EventQPFatal                          // the queue pair is broken
	EventCQFatal                          // a completion queue overran: the device is lost
	EventPortDown                         // the port is not active any more
	EventDeviceFatal                      // the device is lost
)

// Device is an opened RDMA device with its protection domain. Its methods are for control goroutines: they may take
// milliseconds. Close after everything made from it is closed.
type Device interface {
	Caps() Caps
	// NewRegion allocates size bytes of zeroed, page-aligned memory outside the Go heap and registers it.
	NewRegion(size int) (Region, error)
	// NewCQ makes a completion queue with an event channel.
	NewCQ(depth int) (CQ, error)
	// NewSRQ makes the shared receive queue.
	NewSRQ(depth int) (SRQ, error)
	NewQP(cfg QPConfig) (QP, error)
	// Events gives asynchronous events; what does not fit its buffer is dropped, but never an EventSRQLimit.
	Events() <-chan Event
	Close() error
}

// Region is registered memory.
type Region interface {
	Bytes() []byte
	LocalKey() uint32
	// Close unregisters and frees. No request may use the memory any more, and no queue pair expose it.
	Close() error
}

// QPConfig sets a queue pair. Sends and receives complete on CQ.
type QPConfig struct {
	CQ        CQ
	SRQ       SRQ
	SendDepth int // send queue
	// RNRRetry false makes a missing receive entry an error at once (StatusRNR, the queue pair breaks); true lets
	// the hardware wait for one.
	RNRRetry bool
}

// QP is a queue pair of type RC. Post is called by one goroutine at a time; Connect, Expose, Map and Close by control
// goroutines, Close by anyone at any time. A broken queue pair stays broken.
type QP interface {
	Num() uint32
	// Info is what the peer's Connect needs, at most MaxInfoBytes. It is told over an authenticated connection only.
	Info() []byte
	// Connect connects with the peer's queue pair whose Info is remote; the peer does the same at the same time, and
	// exactly one of the two leads. It returns when requests may be posted.
	Connect(ctx context.Context, remote []byte, lead bool) error
	// Expose lets the peer of this queue pair, and nobody else, use part of a region. It works after Connect, until
	// Close. On a device with MapsRemote the part must be the whole region, which the peer keeps even after Close:
	// such a region is not used again.
	Expose(r Region, offset, n int, access Access) (Remote, error)
	// Map gives memory that the peer exposed as plain memory, until Close. It waits for the peer's Expose.
	Map(ctx context.Context, r Remote) ([]byte, error)
	// Post hands over requests in order and returns how many were taken: fewer than all only with an error, ErrFull
	// or ErrBroken.
	Post(wrs []SendWR) (int, error)
	// Break puts the queue pair into the error state, as a fault would; the peer learns of it by its own errors, or not.
	Break()
	// Close breaks and frees the queue pair. Completions of it may still be in the completion queue.
	Close() error
}

// CQ is a completion queue with an event channel. Poll, Arm and Wait are called by one goroutine at a time each.
type CQ interface {
	// Poll takes up to len(out) completions without waiting.
	Poll(out []Completion) (int, error)
	// Arm asks for an event at the next completion that is added after the call; it says nothing of those already
	// there, so poll again after it. One-shot.
	Arm() error
	// Wait sleeps until an armed queue had a completion. It may return early; ErrClosed after Close.
	Wait() error
	Close() error
}

// SRQ is a shared receive queue.
type SRQ interface {
	// Post adds entries and returns how many were taken. It may be called concurrently.
	Post(wrs []RecvWR) (int, error)
	// ArmLimit asks for one EventSRQLimit when fewer than n entries are left.
	ArmLimit(n int) error
	Close() error
}

// FileSharer is a QP over which the peer hands out files, read-only (shm).
type FileSharer interface {
	// OpenArea asks the peer for the file of an area of its served window. The caller closes it. ErrUnsupported if the
	// peer serves none.
	OpenArea(ctx context.Context, area uint32) (File, error)
}

// FileSource opens what the peers of a device's queue pairs may read by FileSharer. An unknown area gives an error that
// wraps fs.ErrNotExist. Files are regular and opened for reading only. It may be called concurrently.
type FileSource interface {
	Open(area uint32) (*os.File, error)
}

// FileServer is a Device whose queue pairs are FileSharers.
type FileServer interface {
	// Serve sets what peers may open from now on; nil: nothing.
	Serve(src FileSource)
}

// File is a file to read from.
type File interface {
	ReadAt(p []byte, offset int64) (int, error)
	Close() error
}
