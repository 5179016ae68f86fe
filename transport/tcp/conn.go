package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	libp2p "github.com/libp2p/go-libp2p/core/transport"
	goyamux "github.com/libp2p/go-yamux/v5"
	manet "github.com/multiformats/go-multiaddr/net"
	"go.uber.org/zap"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
)

// What the first byte of a stream says that it is. A connection's first stream has none: it carries frames.
const (
	streamFirst   = 0
	streamControl = 1 // the upgraders'
	streamFrames  = 2 // the link comes back to the connection
)

// conn is a libp2p connection as a link.Conn. Only the side that leads opens streams.
type conn struct {
	libp2p.CapableConn
	leads    bool
	declines bool // without an upgrader there is one stream
	timeout  time.Duration
	done     <-chan struct{}
	opened   atomic.Bool
	pipes    chan network.MuxedStream // taken by accept
	control  chan network.MuxedStream

	unknown    atomic.Int32 // streams that have not said what they are
	controlled atomic.Bool  // the control stream was opened
}

var _ link.Conn = (*conn)(nil)

// newConn takes a connection over; the streams of the peer are taken by accept.
func newConn(c libp2p.CapableConn, leads, declines bool, timeout time.Duration) (*conn, error) {
	var y *goyamux.Session
	if !c.As(&y) {
		return nil, errors.New("tcp: the connection is not multiplexed by yamux")
	}
	return &conn{
		CapableConn: c, leads: leads, declines: declines, timeout: timeout, done: y.CloseChan(),
		pipes: make(chan network.MuxedStream, 1), control: make(chan network.MuxedStream, 1),
	}, nil
}

// Done implements link.Conn.
func (c *conn) Done() <-chan struct{} { return c.done }

// Addrs implements link.Conn.
func (c *conn) Addrs() (local, remote netip.AddrPort) {
	addr := func(a net.Addr, err error) netip.AddrPort {
		t, ok := a.(*net.TCPAddr)
		if err != nil || !ok {
			return netip.AddrPort{}
		}
		p := t.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
	}
	return addr(manet.ToNetAddr(c.LocalMultiaddr())), addr(manet.ToNetAddr(c.RemoteMultiaddr()))
}

// Pipe implements link.Conn.
func (c *conn) Pipe(ctx context.Context) (transport.Provider, error) {
	if !c.leads {
		s, err := c.take(ctx, c.pipes)
		if err != nil {
			return nil, err
		}
		return newPipe(s, streamFirst), nil // what it is was read already
	}
	kind := byte(streamFirst)
	if c.opened.Swap(true) {
		kind = streamFrames
	}
	s, err := c.OpenStream(ctx)
	if err != nil {
		return nil, err
	}
	return newPipe(s, kind), nil
}

// Control implements link.Conn.
func (c *conn) Control(ctx context.Context) (io.ReadWriteCloser, error) {
	if !c.leads {
		return c.take(ctx, c.control)
	}
	s, err := c.OpenStream(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := s.Write([]byte{streamControl}); err != nil {
		_ = s.Reset() // err is what matters
		return nil, err
	}
	return s, nil
}

func (c *conn) take(ctx context.Context, from <-chan network.MuxedStream) (network.MuxedStream, error) {
	select {
	case s := <-from:
		return s, nil
	case <-c.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// accept takes the peer's streams until the connection ends, which it does at the first one that has no business.
func (c *conn) accept(log *zap.Logger) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for first := true; ; first = false {
		s, err := c.AcceptStream()
		if err != nil {
			return
		}
		if first && !c.leads {
			c.pipes <- s // it has room
			continue
		}
		if c.leads || c.unknown.Add(1) > maxUnknownStreams {
			log.Warn("peer opens streams that it must not, connection closed", zap.Stringer("peer", c.RemotePeer()))
			_ = c.Close() // nothing is left to save
			return
		}
		wg.Go(func() {
			if err := c.sort(s); err != nil && !c.closed() {
				log.Warn("peer opens streams that it must not, connection closed", zap.Stringer("peer", c.RemotePeer()), zap.Error(err))
				_ = c.Close() // as above
			}
			c.unknown.Add(-1)
		})
	}
}

// sort reads what a stream is and gives it to who waits for it.
func (c *conn) sort(s network.MuxedStream) error {
	var kind [1]byte
	_ = s.SetReadDeadline(time.Now().Add(c.timeout)) // yamux streams have deadlines
	if _, err := io.ReadFull(s, kind[:]); err != nil {
		return fmt.Errorf("reading what a stream is: %w", err)
	}
	_ = s.SetReadDeadline(time.Time{})
	to := c.pipes
	switch {
	case kind[0] == streamControl && c.controlled.Swap(true):
		return fmt.Errorf("%w: a second control stream", transport.ErrProtocol)
	case kind[0] == streamControl && c.declines:
		_ = s.Reset() // the peer goes on without
		return nil
	case kind[0] == streamControl:
		to = c.control
	case kind[0] != streamFrames || c.declines:
		return fmt.Errorf("%w: stream of kind %d", transport.ErrProtocol, kind[0])
	}
	select {
	case to <- s:
		return nil
	default:
		return fmt.Errorf("%w: more streams of frames than it can use", transport.ErrProtocol)
	}
}

func (c *conn) closed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}
