package transport

// Bounds on what a peer may send and on what is queued for it. A value above its bound ends the link with ErrProtocol.
const (
	// MaxSliceBytes is the largest payload of one frame: larger messages are sliced.
	MaxSliceBytes = 64 << 10
	// MaxControlBytes is the largest payload of a control frame.
	MaxControlBytes = 512
	// MaxReasonBytes is the longest reason of a close; longer ones are cut.
	MaxReasonBytes = 256

	// Largest message per lane. New blocks travel on lane 0 and history on lane 2: both take the largest block that
	// package block can encode (32 MiB) and 1 MiB for what the protocol above wraps around it.
	MaxConsensusBytes    = 33 << 20
	MaxTransactionsBytes = 4 << 20
	MaxCatchUpBytes      = 33 << 20
	MaxTopicsBytes       = 16 << 20

	// UnacknowledgedBytes is what lanes 1-3 together may have under way on tcp.
	UnacknowledgedBytes = 256 << 10
	// BurstBytes bounds what lanes 1-3 put into one batch after its first slice: a lane-0 message waits behind at most
	// one slice and this.
	BurstBytes = 64 << 10
	// ConsensusBatchBytes bounds what lane 0 puts into one batch.
	ConsensusBatchBytes = 256 << 10
	// ShareBytes: after this many bytes of higher lanes a lane that waited all along gets one slice.
	ShareBytes = 512 << 10

	// MaxPeers is the default number of links a host keeps.
	MaxPeers = 256
)

// MaxMessageBytes is the largest payload of a message on the lane; 0 for an unknown lane.
func MaxMessageBytes(lane Lane) int {
	switch lane {
	case LaneConsensus:
		return MaxConsensusBytes
	case LaneTransactions:
		return MaxTransactionsBytes
	case LaneCatchUp:
		return MaxCatchUpBytes
	case LaneTopics:
		return MaxTopicsBytes
	}
	return 0
}

// Window is a lane's credit: what the sender may have sent beyond what the receiver has freed.
type Window struct {
	Bytes  uint32 // payload and headers
	Frames uint32
}

// LaneWindow is the credit that every link grants its peer from the start on the lane.
func LaneWindow(lane Lane) Window {
	switch lane {
	case LaneConsensus:
		return Window{Bytes: 4 << 20, Frames: 16 << 10}
	case LaneTransactions:
		return Window{Bytes: 1 << 20, Frames: 8 << 10}
	case LaneCatchUp:
		return Window{Bytes: 2 << 20, Frames: 4 << 10}
	case LaneTopics:
		return Window{Bytes: 2 << 20, Frames: 8 << 10}
	}
	return Window{}
}

// Queue bounds what waits on one side of a lane. A message is taken while the queue is below both bounds, so one
// message of the largest size always fits.
type Queue struct {
	Messages int
	Bytes    int
}

// SendQueue bounds the messages accepted by Send and not yet under way.
func SendQueue(lane Lane) Queue {
	switch lane {
	case LaneConsensus:
		return Queue{Messages: 4096, Bytes: 16 << 20}
	case LaneTransactions:
		return Queue{Messages: 8192, Bytes: 4 << 20}
	case LaneCatchUp:
		return Queue{Messages: 1024, Bytes: 4 << 20}
	case LaneTopics:
		return Queue{Messages: 4096, Bytes: 8 << 20}
	}
	return Queue{}
}

// UnreadBytes bounds the complete messages of a lane that wait for Recv: above it no further credit is given. So a
// peer can make a node hold at most UnreadBytes + LaneWindow + MaxMessageBytes per lane.
func UnreadBytes(lane Lane) int {
	switch lane {
	case LaneConsensus:
		return 8 << 20
	case LaneTransactions:
		return 2 << 20
	case LaneCatchUp:
		return 4 << 20
	case LaneTopics:
		return 4 << 20
	}
	return 0
}
