package link

import (
	"context"
	"io"
	"net/netip"
	"time"

	"github.com/bornode/bornode/transport"
)

// Conn is one authenticated connection: it carries pipes, one after the other, and a control stream beside them.
// Methods may be called concurrently.
type Conn interface {
	// Pipe gives the connection's next pipe. The side that leads opens it, the other one waits for it.
	Pipe(ctx context.Context) (transport.Provider, error)
	// Control gives the upgraders' stream, opened in the same way. It is called at most once.
	Control(ctx context.Context) (io.ReadWriteCloser, error)
	// Addrs are this side's and the other side's address.
	Addrs() (local, remote netip.AddrPort)
	// Done is closed when the connection has ended, whoever ended it.
	Done() <-chan struct{}
	// Close ends the connection with everything on it. It may be called more than once.
	Close() error
}

// Upgrader makes faster pipes for peers that are connected and authenticated already. A host that was given one runs
// it over every connection it keeps; the peer's host does the same at the other end.
type Upgrader interface {
	// Run talks with the peer's upgrader until ctx ends or the control stream breaks, and returns then; pipes that it
	// handed to Attach are closed by then. A peer that cannot or will not is no error: Run says so by s.Reason and
	// goes on or returns nil. An error ends the connection, and one that wraps transport.ErrProtocol the link.
	// Called on a goroutine of its own per connection.
	Run(ctx context.Context, s Session) error
}

// Session is one authenticated connection with a peer, as an Upgrader sees it.
type Session struct {
	Peer    transport.PeerID
	Leads   bool           // exactly one side does
	Local   netip.AddrPort // of the connection
	Remote  netip.AddrPort
	Control io.ReadWriteCloser // a stream of its own beside the frames; the upgraders' only
	// Attach puts the peer's link on a pipe; both sides do it at about the same time. While the pipe lasts it carries
	// the link. When it fails the host puts the link back on the connection, by itself. Attach closes pr on error.
	Attach func(ctx context.Context, pr transport.Provider) error
	// Reason notes in a few words why the link is carried by what carries it (transport.Path).
	Reason func(text string)
	// IdleTimeout is the longest silence of a connection. While a pipe of the upgrader carries the link only the
	// upgrader speaks on the connection, so it watches over that.
	IdleTimeout time.Duration
	// Heartbeat is how often the link says that it lives.
	Heartbeat time.Duration
}
