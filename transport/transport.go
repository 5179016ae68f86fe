package transport

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Lane is a priority class of a link. A lower number goes first.
type Lane uint8

// The lanes of a link, highest priority first.
const (
	LaneConsensus    Lane = 0 // votes, new blocks, handshakes
	LaneTransactions Lane = 1 // transactions on their way to the pools
	LaneCatchUp      Lane = 2 // history
	LaneTopics       Lane = 3 // replication of topics
	Lanes                 = 4
)

// String gives the lane's name as used in logs and metric labels.
func (l Lane) String() string {
	switch l {
	case LaneConsensus:
		return "consensus"
	case LaneTransactions:
		return "transactions"
	case LaneCatchUp:
		return "catch_up"
	case LaneTopics:
		return "topics"
	}
	return fmt.Sprintf("lane(%d)", uint8(l))
}

// PeerID is a libp2p peer id in text form ("12D3Koo...").
type PeerID string

// Message is one unit of the protocol above. The sender must not change Payload after Send or TrySend took it (the
// link keeps it, uncopied, until the peer has it); after Recv it belongs to the receiver.
type Message struct {
	Lane    Lane
	Type    uint8 // meaning is the upper protocol's
	Payload []byte
}

// Errors of hosts and links; test with errors.Is.
var (
	// ErrClosed: the link or host was closed here or by the peer.
	ErrClosed = errors.New("transport: closed")
	// ErrNotMember: the gate refused the peer.
	ErrNotMember = errors.New("transport: peer is not a member")
	// ErrTooLarge: the message exceeds MaxMessageBytes of its lane.
	ErrTooLarge = errors.New("transport: message too large")
	// ErrProtocol: the peer broke the wire format or its credits; it is faulty or hostile.
	ErrProtocol = errors.New("transport: peer broke the protocol")
	// ErrTimeout: the peer stayed silent, or away, for too long.
	ErrTimeout = errors.New("transport: peer timed out")
	// ErrSessionLost: the peer came back without memory of this link (restart, or away too long): what was in flight
	// is lost, and a new Link has been given out in its place.
	ErrSessionLost = errors.New("transport: session lost")
	// ErrNoWindow: what carries the link now offers no one-sided reads, or the peer serves nothing that way.
	ErrNoWindow = errors.New("transport: no window to read from")
)

// Link is the connection with one authenticated peer. It survives reconnects and provider changes. All methods may
// be called concurrently; see Recv for readers.
type Link interface {
	// Peer is the authenticated identity of the other side.
	Peer() PeerID
	// Provider names what carries the link now ("tcp", "mem", ...); the last one while reconnecting.
	Provider() string
	// Path tells what carries the link now, why, and the provider's own counters.
	Path() Path
	// Incoming tells whether the peer dialled the connection that started the link.
	Incoming() bool
	// Send queues m and keeps the order of calls within a lane. It blocks while the lane's queue is full and returns
	// ctx's error, ErrTooLarge, or the link's error. A nil error means queued, not delivered.
	Send(ctx context.Context, m Message) error
	// TrySend is Send that never blocks: false if the lane's queue is full, the message too large or the link ended.
	TrySend(m Message) bool
	// Recv gives the next message, of the highest-priority lane that has one. One reader at a time. What arrived
	// before the peer closed is given out first, then the link's error.
	Recv(ctx context.Context) (Message, error)
	// RecvLane is Recv of one lane only. With one reader per lane instead of Recv, a lane that is read slowly holds
	// back only itself. A lane has one reader at a time, in either way.
	RecvLane(ctx context.Context, lane Lane) (Message, error)
	// ReadWindow reads from an area of the window that the peer serves (see Source), without its processor. It fills
	// dst or returns fewer bytes only at the area's present end, without an error. ErrNoWindow says that it cannot be
	// done now: ask by messages instead. Calls may be concurrent. The bytes are the peer's: check them.
	ReadWindow(ctx context.Context, area uint32, offset int64, dst []byte) (int, error)
	// Stats is a snapshot of the counters.
	Stats() Stats
	// Close ends the link on both sides, after what lane 0 still has queued, and waits for its goroutines. It returns
	// within the close time-out. The reason (at most MaxReasonBytes) is told to the peer.
	Close(reason string) error
	// Done is closed when the link has ended; Err then says why (nil before).
	Done() <-chan struct{}
	Err() error
}

// Path describes what carries a link.
type Path struct {
	Provider string            // "tcp", "shm", "rdma", "rdma-rxe", "mem"
	Reason   string            // why this one, in a few words for bor_peers and the log; "" where nothing was chosen
	Since    time.Time         // when the link went on it
	Counters map[string]uint64 // the provider's own for this peer (credits, entries, wake-ups, ...); nil: none
}

// Source is what a node lets its peers read one-sidedly: areas of bytes (docs/wire-sync.md). But for area 0, which
// changes in place, they only ever grow while the epoch stays the same: 8 bytes of area 0, at WindowEpochOffset. Another
// epoch says that areas were removed or replaced; what a provider keeps of areas then counts no more. Methods may be
// called concurrently and must be quick.
type Source interface {
	// Open opens an area for reading only. An unknown area gives an error that wraps fs.ErrNotExist.
	Open(area uint32) (*os.File, error)
}

// WindowEpochOffset is where in area 0 the epoch of a Source lies.
const WindowEpochOffset = 8

// WindowReader is a Provider through which the peer's window can be read; see Link.ReadWindow.
type WindowReader interface {
	ReadWindow(ctx context.Context, area uint32, offset int64, dst []byte) (int, error)
}

// Counted is a Provider with counters of its own.
type Counted interface {
	Counters() map[string]uint64
}

// LaneStats counts one lane of a link since its start.
type LaneStats struct {
	MessagesSent     uint64 // handed to a provider in full
	BytesSent        uint64 // payload bytes handed to a provider for the first time
	MessagesReceived uint64 // complete
	BytesReceived    uint64 // payload bytes, without what was dropped as already received
	QueuedMessages   int    // waiting in the send queue now
	QueuedBytes      int
	UnreadMessages   int // received, waiting for Recv now
	UnreadBytes      int
}

// Stats is a snapshot of a link's counters.
type Stats struct {
	Lanes          [Lanes]LaneStats
	FramesSent     uint64 // all, with control and resent ones
	FramesReceived uint64
	FramesResent   uint64 // sent again after a reconnect or provider change
	Duplicates     uint64 // received again and dropped
	Writes         uint64 // batches handed to providers
	Reconnects     uint64 // times the link went on over another connection or provider
	RoundTrip      time.Duration
	LastReceived   time.Time // last frame from the peer
	Started        time.Time
}

// Host is a node's place in the network. All methods may be called concurrently.
type Host interface {
	// ID is the node's own identity.
	ID() PeerID
	// Addrs are the listen addresses with the identity: "/ip4/.../tcp/.../p2p/ID".
	Addrs() []string
	// Dial starts to connect to addr ("/ip4/.../tcp/.../p2p/ID") and keeps the peer connected, with jittered back-off,
	// until Forget or Close. It does not wait for the peer: the link appears on Links. The error tells of a bad
	// address, a closed host, or a peer the gate refuses now (ErrNotMember; then nothing is dialled). Several
	// addresses of one peer are tried in turn.
	Dial(ctx context.Context, addr string) error
	// Forget ends what Dial began for the peer; an existing link stays.
	Forget(peer PeerID)
	// Links gives every new link. It is closed with the host.
	Links() <-chan Link
	// Disconnect closes the peer's link, if any. A peer that was given to Dial and not forgotten is dialled again
	// after the longest back-off; one that dials us may come again at once: use the gate against it.
	Disconnect(peer PeerID, reason string)
	// SetGate sets who may connect, asked for both directions as soon as the peer's identity is known; a non-nil
	// error refuses. It also does RecheckGate. The gate must be fast and may be called from many goroutines. Without
	// a gate everyone may connect.
	SetGate(gate func(PeerID) error)
	// RecheckGate asks the gate again about every connected peer and drops those it refuses at once. A dialled peer that
	// the gate refused before is tried at once; the pause before any other attempt stays as it is.
	RecheckGate()
	// Close ends all links and waits for the host's goroutines.
	Close() error
}

// Provider is a frame pipe under a link: one TCP connection, one shared-memory ring, one queue pair. It keeps order
// and either delivers a frame whole or fails; it needs no acknowledgements or credits of its own. One goroutine
// writes, another reads; Close may be called by anyone at any time, more than once, and wakes both.
type Provider interface {
	// Name is the provider's name as in logs, metrics and bor_peers.
	Name() string
	// Limits are the bounds of this pipe.
	Limits() ProviderLimits
	// WriteFrames hands over a batch, in order, in as few system calls or work requests as it can. It must not keep
	// the payloads after it returns. It blocks while the pipe is full.
	WriteFrames(frames []Frame) error
	// ReadHeader waits for the next frame. Its error wraps ErrProtocol when the header is malformed.
	ReadHeader() (Header, error)
	// ReadPayload fills dst, of exactly the last header's Length, with that frame's payload. It is called after each
	// ReadHeader whose Length is not 0, before the next one.
	ReadPayload(dst []byte) error
	Close() error
}

// ProviderLimits says what a pipe wants of the link above it.
type ProviderLimits struct {
	// SliceBytes is the payload of a frame that suits the pipe best, 1..MaxSliceBytes. A frame cut for another
	// provider may be larger: every pipe takes payloads up to MaxSliceBytes.
	SliceBytes int
	// UnacknowledgedBytes bounds what lanes 1-3 together have under way, sent and not yet received by the other
	// side's link, so that lane 0 never waits behind the pipe's own buffers.
	UnacknowledgedBytes int
	// Checksum asks for CRC-32C over header and payload, where the pipe has no integrity check of its own.
	Checksum bool
}

// Frame is one header with its payload.
type Frame struct {
	Header  Header
	Payload []byte // len == Header.Length
}
