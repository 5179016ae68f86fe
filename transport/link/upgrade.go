package link

import (
	"context"
	"io"
	"net/netip"

	"github.com/bornode/bornode/transport"
)

// Upgrader makes faster pipes for peers that are connected and authenticated already. A host that was given one runs
// it over every connection it keeps; the peer's host does the same at the other end.
type Upgrader interface {
	// Run talks with the peer's upgrader until ctx ends or the control stream breaks, and returns then; pipes that it
	// handed to Attach are closed by then. A peer that cannot or will not is no error: Run says so by s.Reason and
	// goes on or returns nil. Called on a goroutine of its own per connection.
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
}
