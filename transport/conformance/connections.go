package conformance

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

// testReconnect breaks the connection again and again under load: the links live on, nothing is lost or doubled.
func testReconnect(t *testing.T, h Harness) {
	a, b, la, lb := pair(t, h, Config())
	want := h.count(5, 50)
	done := make(chan struct{})
	go func() {
		defer close(done)
		poll := time.NewTicker(time.Millisecond)
		defer poll.Stop()
		for broken := 0; broken < want && la.Err() == nil; <-poll.C {
			before := la.Stats()
			if h.Break(a, b) == 0 {
				continue
			}
			broken++
			for la.Err() == nil && (la.Stats().Reconnects == before.Reconnects || la.Stats().FramesReceived < before.FramesReceived+5) {
				<-poll.C
			}
		}
	}()
	round := 0
	for finished := false; !finished; round++ {
		select {
		case <-done:
			finished = true
		default:
		}
		exchange(t, la, lb, 40*round, 40, sizes)
	}
	require.NoError(t, la.Err())
	require.NoError(t, lb.Err())
	require.GreaterOrEqual(t, la.Stats().Reconnects, uint64(want))
	require.Empty(t, a.Links(), "no other link was given out")
	require.Empty(t, b.Links())
}

// testSimultaneousDial: both dial at once; one link per side results, and it stays.
func testSimultaneousDial(t *testing.T, h Harness) {
	for range h.count(3, 20) {
		a, b := h.NewHost(t, 0, Config()), h.NewHost(t, 1, Config())
		addrA, addrB := h.Addr(t, a), h.Addr(t, b)
		go func() { _ = a.Dial(context.Background(), addrB) }() // an error shows as no link
		go func() { _ = b.Dial(context.Background(), addrA) }()
		la, lb := nextLink(t, a), nextLink(t, b)
		// A side that gave up its first link while the pair settled gives out another: go on with the newest.
		for i := 0; talk(la, lb, i) != nil; i++ {
			la, lb = newest(t, a, la), newest(t, b, lb)
		}
		exchange(t, la, lb, 10, 20, sizes)
		require.NoError(t, la.Err())
		require.NoError(t, lb.Err())
		require.Eventually(t, func() bool { return h.Connections(a, b) == 1 }, Patience, time.Millisecond, "exactly one connection survives")
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	}
}

// newest gives the host's last link; if that has ended, the next one.
func newest(t testing.TB, h transport.Host, l transport.Link) transport.Link {
	t.Helper()
	for {
		if len(h.Links()) == 0 && l.Err() == nil {
			return l
		}
		l = nextLink(t, h)
	}
}

// talk sends one message and waits for it, or for either link's end.
func talk(la, lb transport.Link, i int) error {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	go func() {
		select {
		case <-la.Done():
		case <-lb.Done():
		case <-ctx.Done():
		}
		cancel()
	}()
	if err := la.Send(ctx, message(1, i, 9)); err != nil {
		return err
	}
	for {
		m, err := lb.RecvLane(ctx, 1)
		if err != nil || check(m, 1, i, 9) == nil {
			return err // what an earlier call sent is passed over
		}
	}
}

// testRestart: a host that comes back with its identity gets a new link.
func testRestart(t *testing.T, h Harness) {
	a := start(t, h, 0, Config())
	b := h.NewHost(t, 1, Config())
	require.NoError(t, b.Dial(context.Background(), h.Addr(t, a)))
	la, lb := nextLink(t, a), nextLink(t, b)
	exchange(t, la, lb, 0, 5, sizes)
	id := b.ID()
	require.NoError(t, b.Close())
	ended(t, la)

	b = start(t, h, 1, Config())
	require.Equal(t, id, b.ID())
	require.NoError(t, b.Dial(context.Background(), h.Addr(t, a)))
	again, lb := nextLink(t, a), nextLink(t, b)
	require.NotSame(t, la, again)
	exchange(t, again, lb, 0, 5, sizes)
}

// testSessionLost: a peer that connects without memory of the link ends it; nobody can mistake the new for the old.
func testSessionLost(t *testing.T, h Harness) {
	a := start(t, h, 0, Config())
	first := dialRaw(t, h, a, 7, transport.SessionID{1})
	la := nextLink(t, a)
	require.Equal(t, first.id, la.Peer())
	second := dialRaw(t, h, a, 7, transport.SessionID{2})
	require.ErrorIs(t, ended(t, la), transport.ErrSessionLost)
	lb := nextLink(t, a)
	require.NoError(t, lb.Err())
	second.data(t, transport.LaneConsensus, 0, []byte("hello"))
	m, err := lb.Recv(patient(t))
	require.NoError(t, err)
	require.Equal(t, "hello", string(m.Payload))
}

func testClose(t *testing.T, h Harness) {
	_, _, la, lb := pair(t, h, Config())
	for i := range 100 {
		require.NoError(t, la.Send(patient(t), message(transport.LaneConsensus, i, 2000)))
	}
	require.NoError(t, la.Close("the reason"))
	require.ErrorIs(t, la.Err(), transport.ErrClosed)
	require.ErrorIs(t, la.Send(patient(t), message(0, 0, 9)), transport.ErrClosed)
	require.False(t, la.TrySend(message(0, 0, 9)))
	_, err := la.Recv(patient(t))
	require.ErrorIs(t, err, transport.ErrClosed)
	require.NoError(t, la.Close("twice"))

	// What lane 0 had queued arrives before the end, and stays readable.
	require.ErrorIs(t, ended(t, lb), transport.ErrClosed)
	require.ErrorContains(t, lb.Err(), "the reason")
	require.NoError(t, receiveAll(patient(t), lb, transport.LaneConsensus, 0, 100, func(int) int { return 2000 }))
	_, err = lb.Recv(patient(t))
	require.ErrorIs(t, err, transport.ErrClosed)
	require.NoError(t, lb.Close("after the peer"))
}

func testCloseHost(t *testing.T, h Harness) {
	a := h.NewHost(t, 0, Config())
	b := start(t, h, 1, Config())
	addr := h.Addr(t, b)
	require.NoError(t, a.Dial(context.Background(), addr))
	la, lb := nextLink(t, a), nextLink(t, b)
	require.NoError(t, a.Close())
	ended(t, la)
	ended(t, lb)
	_, open := <-a.Links()
	require.False(t, open)
	require.ErrorIs(t, a.Dial(context.Background(), addr), transport.ErrClosed)
	require.NoError(t, a.Close())
}

func testGate(t *testing.T, h Harness) {
	refuse := errors.New("not on the list")
	a, b := start(t, h, 0, Config()), start(t, h, 1, Config())
	a.SetGate(func(transport.PeerID) error { return refuse })
	require.ErrorIs(t, a.Dial(context.Background(), h.Addr(t, b)), transport.ErrNotMember, "outgoing")

	// Incoming: b keeps trying, and gets in once it is a member.
	var asked atomic.Int64
	a.SetGate(func(id transport.PeerID) error {
		if id == b.ID() {
			asked.Add(1)
		}
		return refuse
	})
	require.NoError(t, b.Dial(context.Background(), h.Addr(t, a)))
	require.Eventually(t, func() bool { return asked.Load() >= 2 }, Patience, time.Millisecond)
	require.Empty(t, a.Links())
	a.SetGate(func(id transport.PeerID) error {
		if id == b.ID() {
			return nil
		}
		return refuse
	})
	la := nextLink(t, a)
	require.Equal(t, b.ID(), la.Peer())
}

func testRecheckGate(t *testing.T, h Harness) {
	a, b, la, lb := pair(t, h, Config())
	var member atomic.Bool
	member.Store(true)
	b.SetGate(func(transport.PeerID) error {
		if member.Load() {
			return nil
		}
		return errors.New("revoked")
	})
	exchange(t, la, lb, 0, 5, sizes)
	b.RecheckGate()
	require.NoError(t, lb.Err())
	member.Store(false)
	b.RecheckGate()
	require.ErrorIs(t, lb.Err(), transport.ErrNotMember, "the link ends before RecheckGate returns")
	member.Store(true)
	b.RecheckGate()
	lb = nextLink(t, b) // a kept dialling
	la = nextLink(t, a)
	exchange(t, la, lb, 0, 5, sizes)
}

func testDisconnect(t *testing.T, h Harness) {
	a, b, la, lb := pair(t, h, Config())
	b.Disconnect(a.ID(), "go away")
	require.ErrorContains(t, ended(t, la), "go away")
	ended(t, lb)
	lb, la = nextLink(t, b), nextLink(t, a) // a dials again
	a.Forget(b.ID())
	exchange(t, la, lb, 0, 5, sizes)
	a.Disconnect(b.ID(), "for good")
	require.ErrorContains(t, ended(t, lb), "for good")
	ended(t, la)
	a.Disconnect("nobody", "x")
	a.Forget("nobody")
	// Forgotten: whoever connects to b next is a new peer, not a.
	dialRaw(t, h, b, 8, transport.SessionID{3})
	require.NotEqual(t, a.ID(), nextLink(t, b).Peer())
	require.Empty(t, a.Links())
}

func testBadAddress(t *testing.T, h Harness) {
	a := start(t, h, 0, Config())
	for _, addr := range []string{"", "nonsense", "/ip4/127.0.0.1/tcp/1", "/ip4/127.0.0.1/udp/1/p2p/" + string(a.ID())} {
		require.Error(t, a.Dial(context.Background(), addr), addr)
	}
	require.Error(t, a.Dial(context.Background(), h.Addr(t, a)), "oneself")
}
