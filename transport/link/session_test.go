package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
)

// testConn is one end of a connection in memory.
type testConn struct {
	leads   bool
	pipes   chan *testPipe // for the follower
	control net.Conn
	done    chan struct{}
	once    *sync.Once
	mu      *sync.Mutex
	open    *[]*testPipe
	opened  int // pipes that the leader opened
	refuse  func() bool
	asked   chan struct{} // the control stream was asked for
}

func testConns() (leader, follower *testConn) {
	done, once, mu, open := make(chan struct{}), new(sync.Once), new(sync.Mutex), new([]*testPipe)
	c1, c2 := net.Pipe()
	pipes := make(chan *testPipe, 8)
	leader = &testConn{leads: true, pipes: pipes, control: c1, done: done, once: once, mu: mu, open: open, asked: make(chan struct{})}
	follower = &testConn{pipes: pipes, control: c2, done: done, once: once, mu: mu, open: open, asked: make(chan struct{})}
	return leader, follower
}

func (c *testConn) Pipe(ctx context.Context) (transport.Provider, error) {
	if c.leads {
		if c.refuse != nil && c.refuse() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.over() {
			return nil, errCut
		}
		a, b := testPipes("base")
		*c.open = append(*c.open, a)
		c.opened++
		c.pipes <- b // it has room
		return a, nil
	}
	select {
	case p := <-c.pipes:
		return p, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.done:
		return nil, errCut
	}
}

func (c *testConn) Control(context.Context) (io.ReadWriteCloser, error) {
	close(c.asked)
	return c.control, nil
}

func (c *testConn) Addrs() (netip.AddrPort, netip.AddrPort) {
	return netip.AddrPort{}, netip.AddrPort{}
}

func (c *testConn) Done() <-chan struct{} { return c.done }

func (c *testConn) Close() error {
	c.once.Do(func() {
		close(c.done)
		_ = c.control.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, p := range *c.open {
			_ = p.Close()
		}
	})
	return nil
}

func (c *testConn) over() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// hand is an upgrader that the test drives: it attaches what it is given.
type hand struct {
	pipes   chan transport.Provider
	results chan error
	session chan Session
	err     chan error // ends Run
	keep    bool       // what it attached is not closed at the end
}

func newHand() *hand {
	return &hand{pipes: make(chan transport.Provider), results: make(chan error, 8), session: make(chan Session, 8), err: make(chan error)}
}

func (h *hand) Run(ctx context.Context, s Session) error {
	h.session <- s
	var held []transport.Provider
	defer func() {
		for _, p := range held {
			if !h.keep {
				_ = p.Close()
			}
		}
	}()
	for {
		select {
		case p := <-h.pipes:
			held = append(held, p)
			err := s.Attach(ctx, p)
			if err == nil {
				s.Reason("moved to " + p.Name())
			}
			h.results <- err
		case err := <-h.err:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// duo is two nodes on one connection; a leads.
type duo struct {
	t      *testing.T
	a, b   *Peers
	ha, hb *hand
	ca, cb *testConn
	la, lb transport.Link
	dials  int
}

func inDuo(t *testing.T, f func(t *testing.T, d *duo)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		d := &duo{t: t, ha: newHand(), hb: newHand()}
		var err error
		d.a, err = NewPeers(DefaultConfig(), "a", func(context.Context, string) error { d.dials++; return errCut }, nil, nil)
		require.NoError(t, err)
		d.b, err = NewPeers(DefaultConfig(), "b", nil, nil, nil)
		require.NoError(t, err)
		d.ca, d.cb = d.connect()
		d.la, d.lb = <-d.a.Links(), <-d.b.Links()
		defer func() {
			require.NoError(t, errors.Join(d.a.Close(), d.b.Close()))
			require.True(t, d.ca.over())
		}()
		f(t, d)
	})
}

// connect makes a connection and waits until both sides serve it.
func (d *duo) connect() (*testConn, *testConn) {
	ca, cb := testConns()
	errs := make(chan error, 2)
	go func() { errs <- d.a.Serve(context.Background(), "b", false, ca, d.ha) }()
	go func() { errs <- d.b.Serve(context.Background(), "a", true, cb, d.hb) }()
	require.NoError(d.t, <-errs)
	require.NoError(d.t, <-errs)
	<-d.ha.session
	<-d.hb.session
	return ca, cb
}

// move puts both links on a fast pipe.
func (d *duo) move() (*testPipe, *testPipe) {
	pa, pb := testPipes("fast")
	d.ha.pipes <- pa
	d.hb.pipes <- pb
	require.NoError(d.t, <-d.ha.results)
	require.NoError(d.t, <-d.hb.results)
	synctest.Wait()
	require.Equal(d.t, "fast", d.la.Provider())
	require.Equal(d.t, "fast", d.lb.Provider())
	require.Equal(d.t, "moved to fast", d.la.Path().Reason)
	require.False(d.t, d.ca.over(), "the connection stays")
	return pa, pb
}

// pass sends a message each way and checks that it arrives.
func (d *duo) pass(i int) {
	d.t.Helper()
	want := fmt.Sprint("message ", i)
	require.NoError(d.t, d.la.Send(within(d.t), transport.Message{Payload: []byte(want)}))
	require.NoError(d.t, d.lb.Send(within(d.t), transport.Message{Lane: 2, Payload: []byte(want)}))
	for _, l := range []transport.Link{d.la, d.lb} {
		m, err := l.Recv(within(d.t))
		require.NoError(d.t, err)
		require.Equal(d.t, want, string(m.Payload))
	}
}

// TestLinkMovesAndComesBack: whichever side sees the fast pipe fail, and again and again, the link goes on over the
// same connection, nobody dials, and nothing is lost while messages flow.
func TestLinkMovesAndComesBack(t *testing.T) {
	inDuo(t, func(t *testing.T, d *duo) {
		require.Equal(t, noOffer, d.la.Path().Reason)
		require.NoError(t, d.a.Dial("b", "addr"))
		const count = 3000
		errs := make(chan error, 2*transport.Lanes*2)
		for _, dir := range [][2]transport.Link{{d.la, d.lb}, {d.lb, d.la}} {
			for lane := range transport.Lane(transport.Lanes) {
				go func() { errs <- feed(dir[0], lane, count) }()
				go func() { errs <- expect(dir[1], lane, count) }()
			}
		}
		for i := range 30 {
			pa, pb := testPipes("fast")
			left := 10 * i
			if i%3 == 2 { // it breaks by itself, perhaps inside the hello
				var mu sync.Mutex
				pa.budget = func() bool { mu.Lock(); defer mu.Unlock(); left--; return left > 0 }
			}
			d.ha.pipes <- pa
			d.hb.pipes <- pb
			<-d.ha.results
			<-d.hb.results
			switch i % 3 {
			case 0:
				_ = pa.Close()
			case 1:
				_ = pb.Close()
			}
		}
		for range cap(errs) {
			require.NoError(t, <-errs)
		}
		synctest.Wait()
		require.Equal(t, "base", d.la.Provider())
		require.Equal(t, "base", d.lb.Provider())
		require.False(t, d.ca.over())
		require.Greater(t, d.ca.opened, 5, "it came back")
		require.Zero(t, d.dials)
		require.Empty(t, d.a.Links(), "it is one link")
		require.Empty(t, d.b.Links())
	})
}

// TestFastPipeEndsWithConnection: the connection is the authority.
func TestFastPipeEndsWithConnection(t *testing.T) {
	inDuo(t, func(t *testing.T, d *duo) {
		d.ha.keep, d.hb.keep = true, true
		pa, _ := d.move()
		_ = d.ca.Close()
		<-pa.closed
		synctest.Wait()
		require.False(t, d.la.(*Link).up())
		require.NoError(t, d.la.Err(), "it waits for another connection")
		require.NoError(t, d.a.Dial("b", "addr"))
		synctest.Wait()
		require.NotZero(t, d.dials, "the dialler takes over")
		d.ca, d.cb = d.connect()
		d.pass(1)
		require.Equal(t, "base", d.la.Provider())
		require.Equal(t, noOffer, d.la.Path().Reason)
	})
}

// TestNewerConnectionKeepsTheLink: the session that lost the link to a newer connection closes its own, and brings
// nothing back.
func TestNewerConnectionKeepsTheLink(t *testing.T) {
	inDuo(t, func(t *testing.T, d *duo) {
		for i := range 5 {
			if i%2 == 0 {
				d.move()
			}
			old, opened := d.ca, d.ca.opened
			d.ca, d.cb = d.connect()
			synctest.Wait()
			require.True(t, old.over())
			require.Equal(t, opened, old.opened)
			require.False(t, d.ca.over())
			d.pass(i)
		}
		require.Empty(t, d.a.Links())
	})
}

// TestNoWayBack: a connection that does not take the link back is closed in time for the dialler.
func TestNoWayBack(t *testing.T) {
	inDuo(t, func(t *testing.T, d *duo) {
		require.NoError(t, d.a.Dial("b", "addr"))
		pa, _ := d.move()
		d.ca.refuse = func() bool { return true }
		began := time.Now()
		_ = pa.Close()
		<-d.ca.done
		require.LessOrEqual(t, time.Since(began), DefaultConfig().ResumeTimeout/2)
		synctest.Wait()
		require.NotZero(t, d.dials)
		require.NoError(t, d.la.Err())
	})
	// The follower does not wait longer for a leader that only closes its pipe.
	inDuo(t, func(t *testing.T, d *duo) {
		began := time.Now()
		d.leave()
		require.False(t, d.cb.over())
		<-d.cb.done
		require.Equal(t, DefaultConfig().ResumeTimeout/2, time.Since(began))
	})
	// Nor at all once the link has ended.
	inDuo(t, func(t *testing.T, d *duo) {
		began := time.Now()
		d.leave()
		d.b.SetGate(func(transport.PeerID) error { return errCut })
		<-d.cb.done
		require.Zero(t, time.Since(began))
	})
	// Not even while its upgrader waits for the leader.
	inDuo(t, func(t *testing.T, d *duo) {
		began := time.Now()
		_, pb := testPipes("fast")
		d.hb.pipes <- pb
		d.leave()
		d.lb.(*Link).end(errCut)
		<-d.cb.done
		require.Zero(t, time.Since(began))
	})
}

// leave makes the leader close its pipe as if it was about to move the link, for ever.
func (d *duo) leave() {
	d.a.mu.Lock()
	s := d.a.table["b"].sessions[0]
	d.a.mu.Unlock()
	s.mu.Lock()
	s.attaching++
	pipes := slices.Collect(maps.Keys(s.base))
	s.mu.Unlock()
	_ = pipes[0].Close()
	synctest.Wait()
}

// TestEndsAtOnce: whatever ends the link ends fast pipe and connection, without waiting for anything.
func TestEndsAtOnce(t *testing.T) {
	refuse := errors.New("revoked")
	for name, end := range map[string]func(*duo){
		"revoked by the leader":   func(d *duo) { d.a.SetGate(func(transport.PeerID) error { return refuse }) },
		"revoked by the follower": func(d *duo) { d.b.SetGate(func(transport.PeerID) error { return refuse }) },
		"disconnected":            func(d *duo) { d.b.Disconnect("a", "go") },
		"link closed":             func(d *duo) { _ = d.la.Close("go") },
		"protocol broken":         func(d *duo) { d.ha.err <- fmt.Errorf("%w: garbage", transport.ErrProtocol) },
		"host closed":             func(d *duo) { _ = d.b.Close() },
	} {
		for _, state := range []string{"on its connection", "moved", "about to move"} {
			t.Run(name+", "+state, func(t *testing.T) {
				inDuo(t, func(t *testing.T, d *duo) {
					switch state {
					case "moved":
						d.move()
					case "about to move":
						_, pb := testPipes("fast")
						d.hb.pipes <- pb
						synctest.Wait()
					}
					began := time.Now()
					end(d)
					<-d.ca.done
					<-d.cb.done
					synctest.Wait()
					require.Zero(t, time.Since(began))
					require.True(t, d.la.Err() != nil || d.lb.Err() != nil)
					if name == "protocol broken" {
						require.ErrorIs(t, d.la.Err(), transport.ErrProtocol)
					}
				})
			})
		}
	}
}

// TestCloseWhileMoving: a link that closes while it is moved tells the peer all the same, with the reason, and in time.
func TestCloseWhileMoving(t *testing.T) {
	for i := range 200 {
		inDuo(t, func(t *testing.T, d *duo) {
			if i%4 >= 2 {
				d.move()
			}
			pa, pb := testPipes("fast")
			closing, other := d.la, d.lb
			if i%2 == 1 {
				closing, other = d.lb, d.la
			}
			began := time.Now()
			go func() {
				select {
				case d.ha.pipes <- pa:
				case <-other.Done():
				}
			}()
			go func() {
				select {
				case d.hb.pipes <- pb:
				case <-other.Done():
				}
			}()
			for range i / 4 {
				runtime.Gosched()
			}
			switch i % 3 {
			case 0:
				go func() { _ = pa.Close() }()
			case 1:
				go func() { _ = closing.Close("the reason") }()
			}
			require.NoError(t, closing.Close("the reason"))
			<-other.Done()
			require.ErrorContains(t, other.Err(), "by the peer: \"the reason\"")
			require.Zero(t, time.Since(began))
		})
	}
}

// TestUpgraderGivesUp: an upgrader that ends quietly leaves the link where it is; one that fails takes the connection.
func TestUpgraderGivesUp(t *testing.T) {
	inDuo(t, func(t *testing.T, d *duo) {
		d.ha.err <- nil
		d.pass(1)
		require.False(t, d.ca.over())
		d.hb.err <- errCut
		<-d.ca.done
		synctest.Wait()
		require.NoError(t, d.lb.Err())
	})
}

// TestOnlyContinues: a fast pipe never begins a link: not after the old one ended, and not with a peer that knows another.
func TestOnlyContinues(t *testing.T) {
	inDuo(t, func(t *testing.T, d *duo) {
		lost := d.lb.(*Link)
		lost.mu.Lock()
		lost.remote = transport.SessionID{9} // as if it was another session
		lost.mu.Unlock()
		pa, pb := testPipes("fast")
		d.ha.pipes <- pa
		d.hb.pipes <- pb
		require.ErrorIs(t, <-d.hb.results, errNothing)
		<-d.ha.results
		<-d.ca.done // nor does the way back
		synctest.Wait()
		require.Empty(t, d.a.Links())
		require.Empty(t, d.b.Links())
	})
}

// TestLeaderReturnsTooOften: a leader that opens pipes without any upgrade is cut.
func TestLeaderReturnsTooOften(t *testing.T) {
	inDuo(t, func(t *testing.T, d *duo) {
		for i := 0; !d.cb.over(); i++ {
			require.Less(t, i, spareReturns+3) // a minute on the clock of the test buys one more
			pr, err := d.ca.Pipe(within(t))
			require.NoError(t, err)
			_ = pr.Close()
			synctest.Wait()
		}
	})
}

// TestConnectionWithoutUpgrader ends with its pipe.
func TestConnectionWithoutUpgrader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := newTestPeers(t, DefaultConfig(), "a"), newTestPeers(t, DefaultConfig(), "b")
		ca, cb := testConns()
		errs := make(chan error, 2)
		go func() { errs <- a.Serve(context.Background(), "b", false, ca, nil) }()
		go func() { errs <- b.Serve(context.Background(), "a", true, cb, nil) }()
		require.NoError(t, <-errs)
		require.NoError(t, <-errs)
		la, lb := <-a.Links(), <-b.Links()
		require.Empty(t, la.Path().Reason)
		ca.mu.Lock()
		base := (*ca.open)[0]
		ca.mu.Unlock()
		_ = base.Close()
		<-ca.done
		require.NoError(t, la.Err())
		require.NoError(t, lb.Err())
		require.NoError(t, errors.Join(a.Close(), b.Close()))
		require.ErrorIs(t, a.Serve(context.Background(), "b", false, ca, nil), transport.ErrClosed)
	})
}
