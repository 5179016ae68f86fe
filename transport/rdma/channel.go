package rdma

import (
	"context"
	"errors"

	"github.com/bornode/bornode/transport"
)

// Channel is one end of a pair of connected ring pairs: after Connect a transport.Provider. One goroutine writes,
// another reads; the other methods may be called by anyone at any time.
type Channel struct{}

var (
	_ transport.Provider     = (*Channel)(nil)
	_ transport.Counted      = (*Channel)(nil)
	_ transport.WindowReader = (*Channel)(nil)
)

// Local describes this end for the peer's Connect: at most MaxLocalBytes, told over an authenticated connection only.
func (c *Channel) Local() []byte { return nil }

// Connect connects with the peer's channel whose Local is remote; the peer does the same at about the same time, and
// exactly one of the two leads. It exchanges the memory regions and does not return before a write has arrived each
// way, or ctx has ended. transport.ErrProtocol when the peer's data is wrong. After an error only Close is left.
func (c *Channel) Connect(ctx context.Context, remote []byte, lead bool) error {
	return errors.ErrUnsupported
}

// Peer is who is at the other end, as told to NewChannel.
func (c *Channel) Peer() transport.PeerID { return "" }

// Name implements transport.Provider: "shm", "rdma", "rdma-rxe", "sim".
func (c *Channel) Name() string { return "" }

// Limits implements transport.Provider. What it lets lanes 1-3 have under way always fits the peer's ring, so a write
// never waits for them; it is known after Connect.
func (c *Channel) Limits() transport.ProviderLimits { return transport.ProviderLimits{} }

// WriteFrames implements transport.Provider. Control frames and those of lane 0 go first. It returns when the frames
// are in the ring or its mirror: what waits for credits then goes out as soon as they come.
func (c *Channel) WriteFrames(frames []transport.Frame) error { return errors.ErrUnsupported }

// ReadHeader implements transport.Provider. Frames of the control ring come first. After the channel has broken, what
// had arrived before is given out, then the error.
func (c *Channel) ReadHeader() (transport.Header, error) {
	return transport.Header{}, errors.ErrUnsupported
}

// ReadPayload implements transport.Provider.
func (c *Channel) ReadPayload(dst []byte) error { return errors.ErrUnsupported }

// ReadWindow implements transport.WindowReader; see transport.Link. transport.ErrNoWindow where the fabric cannot, or
// the peer serves nothing.
func (c *Channel) ReadWindow(ctx context.Context, area uint32, offset int64, dst []byte) (int, error) {
	return 0, transport.ErrNoWindow
}

// Counters implements transport.Counted. The keys are those of docs/wire-rdma.md.
func (c *Channel) Counters() map[string]uint64 { return nil }

// Done is closed when the channel has ended, by Close or a failure.
func (c *Channel) Done() <-chan struct{} { return nil }

// Err tells why the channel has ended; nil before. It wraps ErrBroken, transport.ErrProtocol, ErrDeviceLost or
// transport.ErrClosed.
func (c *Channel) Err() error { return nil }

// Close ends the channel and wakes its reader and writer. The peer is told in the background if the queue pair still
// works. It may be called more than once.
func (c *Channel) Close() error { return nil }
