package mem_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/mem"
)

// These tests run on virtual time, so they may state times exactly.

type world struct {
	*mem.Network
	a, b   *mem.Host
	la, lb transport.Link
}

func connected(t *testing.T, cfg link.Config) *world {
	w := &world{Network: mem.NewNetwork()}
	var err error
	w.a, err = w.NewHost("a", cfg, nil, nil)
	require.NoError(t, err)
	w.b, err = w.NewHost("b", cfg, nil, nil)
	require.NoError(t, err)
	require.NoError(t, w.a.Dial(context.Background(), mem.Addr("b")))
	w.la, w.lb = <-w.a.Links(), <-w.b.Links()
	return w
}

func (w *world) close(t *testing.T) {
	require.NoError(t, w.a.Close())
	require.NoError(t, w.b.Close())
}

func send(t *testing.T, l transport.Link, text string) {
	t.Helper()
	require.NoError(t, l.Send(context.Background(), transport.Message{Payload: []byte(text)}))
}

func recv(t *testing.T, l transport.Link) string {
	t.Helper()
	m, err := l.Recv(context.Background())
	require.NoError(t, err)
	return string(m.Payload)
}

func TestHeartbeatsKeepAnIdleLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t, link.DefaultConfig())
		<-time.After(time.Hour) // virtual
		require.NoError(t, w.la.Err())
		s := w.la.Stats()
		require.Zero(t, s.Reconnects)
		// A7: at most one ping and one pong each way per heartbeat.
		require.LessOrEqual(t, s.Writes, uint64(2*time.Hour/link.DefaultConfig().Heartbeat+5))
		w.close(t)
	})
}

func TestRoundTripIsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t, link.DefaultConfig())
		w.SetFaults("a", "b", mem.Faults{Latency: 40 * time.Millisecond})
		<-time.After(10 * time.Second)
		require.Equal(t, 80*time.Millisecond, w.la.Stats().RoundTrip)
		t0 := time.Now()
		send(t, w.la, "x")
		recv(t, w.lb)
		require.Equal(t, 40*time.Millisecond, time.Since(t0))
		w.close(t)
	})
}

// TestSilenceCloses is sync case 18: heartbeat loss closes the connection, and the link unless the peer comes back.
func TestSilenceCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := link.DefaultConfig()
		w := connected(t, cfg)
		w.SetFaults("a", "b", mem.Faults{Silent: true})
		t0 := time.Now()
		<-w.la.Done()
		require.ErrorIs(t, w.la.Err(), transport.ErrTimeout)
		require.LessOrEqual(t, time.Since(t0), cfg.IdleTimeout+cfg.Heartbeat+cfg.ResumeTimeout+cfg.HelloTimeout)
		require.GreaterOrEqual(t, time.Since(t0), cfg.IdleTimeout)
		<-w.lb.Done()

		<-time.After(time.Second) // a's attempt of the moment of silence ends at this very instant: not with half a hello
		w.SetFaults("a", "b", mem.Faults{})
		w.la, w.lb = <-w.a.Links(), <-w.b.Links() // a still dials
		send(t, w.la, "again")
		require.Equal(t, "again", recv(t, w.lb))
		w.close(t)
	})
}

func TestSilenceThenResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := link.DefaultConfig()
		w := connected(t, cfg)
		w.SetFaults("a", "b", mem.Faults{Silent: true})
		send(t, w.la, "one")
		<-time.After(cfg.IdleTimeout + cfg.Heartbeat + time.Second) // the connection is given up, the links are not
		require.NoError(t, w.la.Err())
		w.SetFaults("a", "b", mem.Faults{})
		send(t, w.lb, "two")
		require.Equal(t, "one", recv(t, w.lb))
		require.Equal(t, "two", recv(t, w.la))
		require.Positive(t, w.la.Stats().Reconnects)
		w.close(t)
	})
}

func TestResumeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := link.DefaultConfig()
		w := connected(t, cfg)
		w.SetFaults("a", "b", mem.Faults{Refuse: true})
		require.Equal(t, 1, w.Reset("a", "b"))
		<-time.After(cfg.ResumeTimeout - time.Millisecond)
		synctest.Wait()
		require.NoError(t, w.la.Err())
		<-time.After(2 * time.Millisecond)
		synctest.Wait()
		require.ErrorIs(t, w.la.Err(), transport.ErrTimeout)
		require.ErrorIs(t, w.lb.Err(), transport.ErrTimeout)
		require.ErrorIs(t, w.la.Send(context.Background(), transport.Message{}), transport.ErrTimeout)
		w.close(t)
	})
}

// TestBackOff: a peer that cannot be reached is tried less and less often, and a member at once when it becomes one.
func TestBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := link.DefaultConfig()
		n := mem.NewNetwork()
		a, err := n.NewHost("a", cfg, nil, nil)
		require.NoError(t, err)
		attempts := 0
		a.SetGate(func(id transport.PeerID) error {
			attempts++
			if attempts > 1 { // the call of Dial itself passes
				return errors.New("not yet")
			}
			return nil
		})
		require.NoError(t, a.Dial(context.Background(), mem.Addr("b")))
		<-time.After(10 * time.Minute)
		synctest.Wait()
		require.Greater(t, attempts, 60)
		require.Less(t, attempts, 150, "about one attempt per BackoffMax")
		b, err := n.NewHost("b", cfg, nil, nil)
		require.NoError(t, err)
		a.SetGate(nil)
		t0 := time.Now()
		<-b.Links()
		require.Zero(t, time.Since(t0))
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
}

// TestFaultsUnderLoad: duplicates, latency and connections that break all the time lose and double nothing.
func TestFaultsUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := connected(t, link.DefaultConfig())
		w.SetFaults("a", "b", mem.Faults{Latency: time.Millisecond, DuplicateEvery: 3, ResetAfter: 60})
		errs := make(chan error, 2)
		for _, dir := range [][2]transport.Link{{w.la, w.lb}, {w.lb, w.la}} {
			go func() {
				for i := range 2000 {
					if err := dir[0].Send(context.Background(), transport.Message{Lane: 2, Type: uint8(i), Payload: make([]byte, i)}); err != nil {
						errs <- err
						return
					}
				}
			}()
			go func() {
				for i := range 2000 {
					m, err := dir[1].Recv(context.Background())
					if err == nil && (len(m.Payload) != i || m.Type != uint8(i)) {
						err = errors.New("out of order")
					}
					if err != nil {
						errs <- err
						return
					}
				}
				errs <- nil
			}()
		}
		require.NoError(t, <-errs)
		require.NoError(t, <-errs)
		s := w.lb.Stats()
		require.Positive(t, s.Duplicates)
		require.Positive(t, s.Reconnects)
		require.NoError(t, w.la.Err())
		w.close(t)
	})
}

func TestCloseIsBoundedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := link.DefaultConfig()
		w := connected(t, cfg)
		w.SetFaults("a", "b", mem.Faults{Silent: true})
		t0 := time.Now()
		require.NoError(t, w.la.Close("bye"))
		require.Equal(t, cfg.CloseTimeout, time.Since(t0))
		w.close(t)
	})
}

func TestNames(t *testing.T) {
	n := mem.NewNetwork()
	_, err := n.NewHost("a", link.DefaultConfig(), nil, nil)
	require.NoError(t, err)
	_, err = n.NewHost("a", link.DefaultConfig(), nil, nil)
	require.ErrorContains(t, err, "exists")
	_, err = n.Raw("x", "nobody")
	require.Error(t, err)
	require.Zero(t, n.Connections("a", "nobody"))
}
