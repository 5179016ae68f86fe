package detect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
)

const idleTimeout = 10 * time.Second

var (
	addrA = netip.MustParseAddr("10.0.0.1")
	addrB = netip.MustParseAddr("10.0.0.2")
)

// side is one node in a test without links: Attach only notes what it was given.
type side struct {
	t       *testing.T
	u       *Upgrader
	logs    *observer.ObservedLogs
	leads   bool
	cancel  context.CancelFunc
	ended   chan error
	control net.Conn

	mu       sync.Mutex
	attached []transport.Provider
	why      string
	refuse   error // of Attach
}

func newSide(t *testing.T, cfg Config, endpoints ...*Endpoint) *side {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	var backends []Backend
	for _, e := range endpoints {
		backends = append(backends, BackendFunc(func() (*Endpoint, error) { return e, nil }))
	}
	u, err := New(cfg, backends, zap.New(core), nil)
	require.NoError(t, err)
	return &side{t: t, u: u, logs: logs}
}

func (s *side) attach(_ context.Context, pr transport.Provider) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		_ = pr.Close()
		return s.refuse
	}
	s.attached = append(s.attached, pr)
	return nil
}

func (s *side) reason() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// moves counts the channels that the link was put on; now tells whether the last one works.
func (s *side) moves() (n int, now bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n = len(s.attached); n > 0 {
		now = s.attached[n-1].(Channel).Err() == nil
	}
	return n, now
}

func (s *side) run(leads bool, local, remote netip.Addr, control net.Conn) {
	ctx, cancel := context.WithCancel(context.Background())
	s.leads, s.cancel, s.ended, s.control = leads, cancel, make(chan error, 1), control
	ended := s.ended
	go func() {
		ended <- s.u.Run(ctx, link.Session{
			Peer: transport.PeerID("peer of " + local.String()), Leads: leads,
			Local: netip.AddrPortFrom(local, 1), Remote: netip.AddrPortFrom(remote, 2), Control: control,
			Attach: s.attach, IdleTimeout: idleTimeout,
			Reason: func(text string) { s.mu.Lock(); defer s.mu.Unlock(); s.why = text },
		})
	}()
}

// close ends the connection and checks that nothing is left of it.
func (s *side) close(devices ...*fakeDevice) {
	s.cancel()
	require.NoError(s.t, <-s.ended)
	synctest.Wait()
	for _, d := range devices {
		require.Zero(s.t, d.live(), "channels are left")
	}
	require.NoError(s.t, s.u.Close())
	require.NoError(s.t, s.u.Close(), "twice")
	for _, d := range devices {
		require.True(s.t, d.closed)
	}
}

func (s *side) logged(text string) int {
	return s.logs.FilterField(zap.String("reason", text)).Len()
}

// counted counts what is written.
type counted struct {
	net.Conn
	writes atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// meet connects two sides; a leads.
func meet(a, b *side) {
	x, y := net.Pipe()
	a.run(true, addrA, addrB, &counted{Conn: x})
	b.run(false, addrB, addrA, &counted{Conn: y})
	synctest.Wait()
}

// onHost is two sides with shared memory of one host.
func onHost(t *testing.T, f func(a, b *side, da, db *fakeDevice)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fabric := newFabric()
		da, db := fabric.device("shm"), fabric.device("shm")
		a := newSide(t, DefaultConfig(), da.endpoint("host", netip.Addr{}))
		b := newSide(t, DefaultConfig(), db.endpoint("host", netip.Addr{}))
		meet(a, b)
		f(a, b, da, db)
		a.close(da)
		b.close(db)
	})
}

func (s *side) requireUp(n int) {
	s.t.Helper()
	got, now := s.moves()
	require.Equal(s.t, n, got)
	require.True(s.t, now)
}

// TestUpgradeAndBack: the link moves, comes back when the channel breaks, whoever notices, and moves again after a
// pause that grows; a path that lasted starts anew.
func TestUpgradeAndBack(t *testing.T) {
	onHost(t, func(a, b *side, da, db *fakeDevice) {
		a.requireUp(1)
		b.requireUp(1)
		require.Equal(t, "same host", a.reason())
		require.Equal(t, "same host", b.reason())
		cfg := DefaultConfig()
		pause := cfg.RetryMin
		for i := range 12 {
			d := da
			if i%2 == 1 {
				d = db
			}
			d.set(func() { d.oneSided = i%4 > 1 })
			require.Equal(t, 1, d.breakAll(""))
			synctest.Wait()
			for _, s := range []*side{a, b} {
				_, now := s.moves()
				require.False(t, now, "both are off it")
				require.Contains(t, s.reason(), "shm failed: ")
				require.Contains(t, s.reason(), errPulled.Error())
			}
			time.Sleep(pause/2 - 1)
			synctest.Wait()
			n, _ := a.moves()
			require.Equal(t, i+1, n, "it waits")
			time.Sleep(pause/2 + 2)
			synctest.Wait()
			a.requireUp(i + 2)
			b.requireUp(i + 2)
			pause = min(2*pause, cfg.RetryMax)
			if i == 8 {
				time.Sleep(cfg.RetryMax)
				pause = cfg.RetryMin
			}
		}
		require.Equal(t, "same host", a.reason())
	})
}

// TestSteps: whatever step of an attempt fails at either side, the other learns of it, nothing is left open, and the
// attempt is made again.
func TestSteps(t *testing.T) {
	failure := errors.New("a fault")
	for name, fault := range map[string]func(s *side, d *fakeDevice, on bool){
		"no channel": func(_ *side, d *fakeDevice, on bool) {
			d.set(func() { d.noChannel = either(on, failure) })
		},
		"no connection": func(_ *side, d *fakeDevice, on bool) { d.set(func() { d.noConnect = either(on, failure) }) },
		"probe hangs":   func(_ *side, d *fakeDevice, on bool) { d.set(func() { d.hang = on }) },
		"not attached": func(s *side, _ *fakeDevice, on bool) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.refuse = either(on, failure)
		},
	} {
		for _, leader := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, leader %v", name, leader), func(t *testing.T) {
				onHost(t, func(a, b *side, da, db *fakeDevice) {
					s, d := a, da
					if !leader {
						s, d = b, db
					}
					fault(s, d, true)
					da.breakAll("")
					time.Sleep(20 * time.Second)
					synctest.Wait()
					for _, x := range []*side{a, b} {
						_, now := x.moves()
						require.False(t, now)
						if leader == x.leads || name != "no channel" { // before the proposal the peer knows nothing
							require.Contains(t, x.reason(), "shm failed: ")
						}
					}
					require.Greater(t, d.channels(), 1)
					require.LessOrEqual(t, d.channels(), 6, "it tries with pauses")
					fault(s, d, false)
					time.Sleep(DefaultConfig().RetryMax + 20*time.Second)
					synctest.Wait()
					for _, x := range []*side{a, b} {
						_, now := x.moves()
						require.True(t, now)
						require.Equal(t, "same host", x.reason())
					}
				})
			})
		}
	}
}

func either(on bool, err error) error {
	if on {
		return err
	}
	return nil
}

// nics is two sides on different hosts, each with shared memory and a NIC.
func nics(t *testing.T, change func(ea, eb *Endpoint), f func(a, b *side, da, db *fakeDevice)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fabric := newFabric()
		ma, mb, da, db := fabric.device("shm"), fabric.device("shm"), fabric.device("rdma"), fabric.device("rdma")
		ea, eb := da.endpoint("", addrA), db.endpoint("", addrB)
		eb.MTU = 1024
		change(ea, eb)
		a := newSide(t, DefaultConfig(), ma.endpoint("one", netip.Addr{}), ea)
		b := newSide(t, DefaultConfig(), mb.endpoint("other", netip.Addr{}), eb)
		meet(a, b)
		f(a, b, da, db)
		require.Zero(t, ma.channels(), "shared memory was not tried")
		a.close(ma, da)
		b.close(mb, db)
	})
}

func TestNetworkDevices(t *testing.T) {
	none := func(whyA, whyB string) func(a, b *side, da, db *fakeDevice) {
		return func(a, b *side, _, _ *fakeDevice) {
			require.Equal(t, "the peer is not on this host; "+whyA, a.reason())
			require.Equal(t, "the peer is not on this host; "+whyB, b.reason())
			for _, s := range []*side{a, b} {
				require.Equal(t, 1, s.logged(s.reason()), "one line")
				n, _ := s.moves()
				require.Zero(t, n)
			}
		}
	}
	const here, there = "no RDMA device here has the connection's address", "no RDMA device of the peer has the connection's address"
	const layers = "one side has InfiniBand, the other RoCE"
	nics(t, func(*Endpoint, *Endpoint) {}, func(a, b *side, _, _ *fakeDevice) {
		a.requireUp(1)
		b.requireUp(1)
		require.Equal(t, "rdma port 1 to rdma port 1, MTU 1024", a.reason())
		require.Equal(t, a.reason(), b.reason())
	})
	nics(t, func(ea, _ *Endpoint) { ea.Addr = netip.MustParseAddr("10.9.9.9") }, none(here, there))
	nics(t, func(ea, _ *Endpoint) { ea.Addr, ea.Named = netip.Addr{}, true }, func(a, b *side, _, _ *fakeDevice) {
		a.requireUp(1)
		b.requireUp(1)
	})
	nics(t, func(_, eb *Endpoint) { eb.Addr = netip.Addr{} }, none(there, here))
	nics(t, func(_, eb *Endpoint) { eb.InfiniBand = true }, none(layers, layers))
}

// TestNextCandidate: where the first way does not work the next one is tried.
func TestNextCandidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabric := newFabric()
		ma, mb, da, db := fabric.device("shm"), fabric.device("shm"), fabric.device("rdma"), fabric.device("rdma")
		mb.noConnect = errors.New("another namespace")
		a := newSide(t, DefaultConfig(), ma.endpoint("host", netip.Addr{}), da.endpoint("", addrA))
		b := newSide(t, DefaultConfig(), mb.endpoint("host", netip.Addr{}), db.endpoint("", addrB))
		meet(a, b)
		require.Equal(t, "shm failed: the peer says: another namespace", a.reason())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		a.requireUp(1)
		b.requireUp(1)
		require.Equal(t, "rdma", a.attached[0].Name())
		a.close(ma, da)
		b.close(mb, db)
	})
}

// TestWithout: a node that has nothing says so, and stays.
func TestWithout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newFabric().device("shm")
		a, b := newSide(t, DefaultConfig()), newSide(t, DefaultConfig(), d.endpoint("host", netip.Addr{}))
		meet(a, b)
		require.Equal(t, "nothing but tcp here", a.reason())
		require.Equal(t, "the peer has nothing but tcp", b.reason())
		require.Zero(t, d.channels())
		a.close()
		b.close(d)
	})
	// A peer that hangs up at once has no upgrader at all.
	synctest.Test(t, func(t *testing.T) {
		d := newFabric().device("shm")
		a := newSide(t, DefaultConfig(), d.endpoint("host", netip.Addr{}))
		x, y := net.Pipe()
		_ = y.Close()
		a.run(true, addrA, addrB, x)
		require.NoError(t, <-a.ended)
		a.ended <- nil
		require.Equal(t, "the peer has RDMA switched off", a.reason())
		a.close(d)
	})
	synctest.Test(t, func(t *testing.T) {
		d := newFabric().device("shm")
		a := newSide(t, DefaultConfig(), d.endpoint("host", netip.Addr{}))
		x, y := net.Pipe()
		a.run(true, addrA, addrB, x)
		_, err := read(y)
		require.NoError(t, err)
		_, err = y.Write([]byte{0, 0, version + 1, 99})
		require.NoError(t, err)
		require.NoError(t, <-a.ended)
		a.ended <- nil
		require.Equal(t, "the peer's RDMA set-up has another version", a.reason())
		a.close(d)
	})
}

// TestSilence: while a channel carries the link the connection is watched, and a silent one ends in time.
func TestSilence(t *testing.T) {
	onHost(t, func(a, b *side, _, _ *fakeDevice) {
		sent := func(s *side) int64 { return s.control.(*counted).writes.Load() }
		beforeA, beforeB := sent(a), sent(b)
		time.Sleep(10 * idleTimeout)
		synctest.Wait()
		a.requireUp(1) // keep-alives are enough
		b.requireUp(1)
		require.EqualValues(t, 10*keepalives, sent(a)-beforeA)
		require.EqualValues(t, 10*keepalives, sent(b)-beforeB)
	})
	synctest.Test(t, func(t *testing.T) {
		d := newFabric().device("shm")
		a := newSide(t, DefaultConfig(), d.endpoint("host", netip.Addr{}))
		x, y := net.Pipe()
		a.run(false, addrA, addrB, x)
		p := &puppet{t: t, conn: y}
		p.start()
		p.lead(d)
		n, now := a.moves()
		require.Equal(t, 1, n)
		require.True(t, now)
		began := time.Now()
		go p.drain()
		require.ErrorIs(t, <-a.ended, errSilent)
		a.ended <- nil
		require.LessOrEqual(t, time.Since(began), idleTimeout)
		require.GreaterOrEqual(t, time.Since(began), idleTimeout/2, "a late keep-alive is no silence")
		_ = y.Close()
		a.close(d)
	})
}

// TestDeviceLost: links leave a lost device, and come back to it when it does.
func TestDeviceLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fabric := newFabric()
		da, db := fabric.device("rdma"), fabric.device("rdma")
		first, second := da.endpoint("", addrA), fabric.device("rdma").endpoint("", addrA)
		opened := 0
		core, logs := observer.New(zap.DebugLevel)
		u, err := New(DefaultConfig(), []Backend{BackendFunc(func() (*Endpoint, error) {
			opened++
			switch opened {
			case 1:
				return first, nil
			case 2, 3, 4:
				return nil, errors.New("the port is down")
			}
			return second, nil
		})}, zap.New(core), nil)
		require.NoError(t, err)
		a, b := &side{t: t, u: u, logs: logs}, newSide(t, DefaultConfig(), db.endpoint("", addrB))
		meet(a, b)
		a.requireUp(1)
		da.lose()
		synctest.Wait()
		_, now := b.moves()
		require.False(t, now)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.True(t, da.closed)
		require.Equal(t, "nothing but tcp here", a.reason())
		require.Equal(t, 1, da.channels(), "a lost device is not tried")
		time.Sleep(40 * time.Second)
		synctest.Wait()
		require.Equal(t, 5, opened)
		a.requireUp(2)
		b.requireUp(2)
		require.Equal(t, 1, logs.FilterMessage("device is back").Len())
		require.Equal(t, 1, logs.FilterMessage("device cannot be opened again yet").Len(), "the same trouble is told once")
		a.close(second.Device.(*fakeDevice))
		b.close(db)
	})
}

func TestNew(t *testing.T) {
	missing := BackendFunc(func() (*Endpoint, error) { return nil, errors.New("the cable is missing") })
	cfg := DefaultConfig()
	cfg.Mode = On
	_, err := New(cfg, []Backend{missing}, nil, nil)
	require.EqualError(t, err, "rdma.mode is on, but no RDMA device can be used: the cable is missing")
	_, err = New(cfg, nil, nil, nil)
	require.ErrorContains(t, err, "there is no RDMA device")
	d := newFabric().device("shm")
	memory := BackendFunc(func() (*Endpoint, error) { return d.endpoint("host", netip.Addr{}), nil })
	_, err = New(cfg, []Backend{memory}, nil, nil)
	require.ErrorContains(t, err, "rdma.mode is on")
	require.True(t, d.closed, "what was opened is closed again")
	nic := newFabric().device("rdma")
	u, err := New(cfg, []Backend{missing, BackendFunc(func() (*Endpoint, error) { return nic.endpoint("", addrA), nil })}, nil, nil)
	require.NoError(t, err)
	require.NoError(t, u.Close())
	_, err = New(DefaultConfig(), make([]Backend, maxOffers+1), nil, nil)
	require.ErrorContains(t, err, "name one")
	for i, change := range []func(*Config){
		func(c *Config) { c.Mode = "maybe" },
		func(c *Config) { c.Mode = Off },
		func(c *Config) { c.ProbeTimeout = 0 },
		func(c *Config) { c.RetryMin = 0 },
		func(c *Config) { c.RetryMax = c.RetryMin - 1 },
		func(c *Config) { c.RetryMax = 2 * maxRetry },
	} {
		c := DefaultConfig()
		change(&c)
		_, err := New(c, nil, nil, nil)
		require.Error(t, err, i)
	}
}

// TestModeOnWarns: with mode on a peer that cannot is worth a warning, once.
func TestModeOnWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := DefaultConfig()
		cfg.Mode = On
		d := newFabric().device("rdma")
		a, b := newSide(t, cfg, d.endpoint("", addrA)), newSide(t, DefaultConfig())
		for range 3 {
			meet(a, b)
			a.cancel()
			b.cancel()
			require.NoError(t, <-a.ended)
			require.NoError(t, <-b.ended)
		}
		require.Equal(t, 1, a.logs.FilterLevelExact(zap.WarnLevel).Len())
		require.Equal(t, 1, a.logged("the peer has nothing but tcp"))
		require.Zero(t, b.logs.FilterLevelExact(zap.WarnLevel).Len())
		require.NoError(t, a.u.Close())
		require.NoError(t, b.u.Close())
	})
}
