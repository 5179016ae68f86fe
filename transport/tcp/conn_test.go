package tcp

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	libp2p "github.com/libp2p/go-libp2p/core/transport"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/link"
)

// upgraderFunc is an upgrader for one test.
type upgraderFunc func(context.Context, link.Session) error

func (f upgraderFunc) Run(ctx context.Context, s link.Session) error { return f(ctx, s) }

// idle is an upgrader that never does anything.
var idle = upgraderFunc(func(ctx context.Context, _ link.Session) error { <-ctx.Done(); return nil })

func (b *bench) upgrading(t testing.TB, i int, up link.Upgrader) *Host {
	cfg := testConfig(conformance.Config())
	cfg.Upgrader = up
	h, err := New(cfg, b.identity(t, i), nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

func nextLink(t testing.TB, h transport.Host) transport.Link {
	t.Helper()
	select {
	case l := <-h.Links():
		return l
	case <-time.After(conformance.Patience):
		require.FailNow(t, "no link came up")
		return nil
	}
}

// TestControlStream: the upgraders of both sides meet over one stream, and are told who and where the other is.
func TestControlStream(t *testing.T) {
	n := newBench()
	type meeting struct {
		s    link.Session
		said string
		err  error
	}
	meet := func(to chan meeting) link.Upgrader {
		return upgraderFunc(func(ctx context.Context, s link.Session) error {
			defer context.AfterFunc(ctx, func() { _ = s.Control.Close() })()
			b := make([]byte, 5)
			_, err := s.Control.Write([]byte("hello"))
			if err == nil {
				_, err = io.ReadFull(s.Control, b)
			}
			to <- meeting{s, string(b), err}
			s.Reason("a test")
			<-ctx.Done()
			return nil
		})
	}
	ma, mb := make(chan meeting, 1), make(chan meeting, 1)
	a, b := n.upgrading(t, 0, meet(ma)), n.upgrading(t, 1, meet(mb))
	require.NoError(t, a.Dial(context.Background(), b.Addrs()[0]))
	la, lb := nextLink(t, a), nextLink(t, b)
	x, y := <-ma, <-mb
	require.NoError(t, errors.Join(x.err, y.err))
	require.Equal(t, "hello", x.said)
	require.Equal(t, "hello", y.said)
	require.Equal(t, b.ID(), x.s.Peer)
	require.NotEqual(t, x.s.Leads, y.s.Leads)
	require.True(t, x.s.Local.IsValid())
	require.Equal(t, x.s.Local, y.s.Remote)
	require.Equal(t, x.s.Remote, y.s.Local)
	for _, l := range []transport.Link{la, lb} {
		require.Eventually(t, func() bool { return l.Path().Reason == "a test" }, conformance.Patience, time.Millisecond)
		require.Equal(t, Name, l.Path().Provider)
	}
}

// TestPeerWithoutUpgrader declines the control stream, whichever side leads, and the link stays as it is.
func TestPeerWithoutUpgrader(t *testing.T) {
	n := newBench()
	ended := make(chan error, 1)
	up := upgraderFunc(func(_ context.Context, s link.Session) error {
		_, err := io.ReadFull(s.Control, make([]byte, 1))
		ended <- err
		return nil
	})
	a, b := n.upgrading(t, 0, up), n.upgrading(t, 1, nil)
	require.NoError(t, a.Dial(context.Background(), b.Addrs()[0]))
	la, lb := nextLink(t, a), nextLink(t, b)
	if a.Leads(b.ID()) {
		require.Error(t, <-ended)
	}
	require.NoError(t, la.Send(context.Background(), transport.Message{Payload: []byte("still here")}))
	m, err := lb.Recv(context.Background())
	require.NoError(t, err)
	require.Equal(t, "still here", string(m.Payload))
	require.NotEmpty(t, la.Path().Reason)
	require.Empty(t, lb.Path().Reason)
	require.Zero(t, la.Stats().Reconnects)
}

// hostile connects as a peer that speaks yamux by itself, and leads or not as wanted; the link is up when it returns.
func hostile(t *testing.T, n *bench, victim *Host, leads bool) libp2p.CapableConn {
	t.Helper()
	for i := 10; ; i++ {
		if (n.identity(t, i).ID() < victim.ID()) != leads {
			continue
		}
		id, pr := n.raw(t, i, victim)
		hello := transport.Hello{Local: transport.SessionID{1}}
		f := transport.Frame{Header: transport.Header{Flags: transport.FlagControl, Type: transport.ControlHello, Length: uint32(transport.HelloBytes)}, Payload: hello.Encode()}
		if !leads {
			h, err := pr.ReadHeader()
			require.NoError(t, err)
			require.NoError(t, pr.ReadPayload(make([]byte, h.Length)))
		}
		require.NoError(t, pr.WriteFrames([]transport.Frame{f}))
		require.Equal(t, id, nextLink(t, victim).Peer())
		return pr.(*rawPipe).conn
	}
}

// TestHostileStreams: a peer that opens streams it must not loses its connection at once; others keep theirs.
func TestHostileStreams(t *testing.T) {
	open := func(c libp2p.CapableConn, say ...byte) {
		s, err := c.OpenStream(context.Background())
		if err != nil {
			return // it was cut already
		}
		if len(say) > 0 {
			_, _ = s.Write(say) // it may be cut by now
		}
	}
	for name, attack := range map[string]struct {
		leads    bool
		declines bool
		run      func(libp2p.CapableConn)
	}{
		"follower opens":           {run: func(c libp2p.CapableConn) { open(c, streamControl) }},
		"follower opens, declined": {declines: true, run: func(c libp2p.CapableConn) { open(c) }},
		"unknown kind":             {leads: true, run: func(c libp2p.CapableConn) { open(c, 77) }},
		"kind of the first":        {leads: true, run: func(c libp2p.CapableConn) { open(c, streamFirst) }},
		"two controls":             {leads: true, run: func(c libp2p.CapableConn) { open(c, streamControl); open(c, streamControl) }},
		"two controls, declined":   {leads: true, declines: true, run: func(c libp2p.CapableConn) { open(c, streamControl); open(c, streamControl) }},
		"frames, declined":         {leads: true, declines: true, run: func(c libp2p.CapableConn) { open(c, streamFrames) }},
		"silent streams":           {leads: true, run: func(c libp2p.CapableConn) { open(c); open(c); open(c) }},
		"many frames":              {leads: true, run: func(c libp2p.CapableConn) { open(c, streamFrames); open(c, streamFrames); open(c, streamFrames) }},
		"opened and closed": {leads: true, run: func(c libp2p.CapableConn) {
			if s, err := c.OpenStream(context.Background()); err == nil {
				_ = s.Close()
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBench()
			var up link.Upgrader = idle
			if attack.declines {
				up = nil
			}
			victim, friend := n.upgrading(t, 0, up), n.upgrading(t, 1, up)
			require.NoError(t, friend.Dial(context.Background(), victim.Addrs()[0]))
			l := nextLink(t, victim)
			c := hostile(t, n, victim, attack.leads)
			attack.run(c)
			require.Eventually(t, c.IsClosed, conformance.Patience, time.Millisecond)
			require.NoError(t, l.Err())
			require.Zero(t, l.Stats().Reconnects)
		})
	}
}
