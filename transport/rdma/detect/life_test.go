//go:build linux

package detect

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/tcp"
)

func long() bool { return os.Getenv("BORNODE_LONG") != "" }

func count(short, longer int) int {
	if long() {
		return longer
	}
	return short
}

func (s *stack) start(t testing.TB, i int, cfg link.Config) *stackHost {
	h := s.newHost(t, i, cfg).(*stackHost)
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

func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	require.Eventually(t, f, conformance.Patience, time.Millisecond, what)
}

// connect starts two hosts, the first dials.
func (s *stack) connect(t testing.TB, cfg link.Config) (a, b *stackHost, la, lb transport.Link) {
	t.Helper()
	a, b = s.start(t, 0, cfg), s.start(t, 1, cfg)
	require.NoError(t, a.Dial(context.Background(), s.addr(t, b)))
	return a, b, nextLink(t, a), nextLink(t, b)
}

// traffic sends count numbered messages each way on every lane; the result says what is wrong.
func traffic(la, lb transport.Link, count int) <-chan error {
	ctx, cancel := context.WithTimeout(context.Background(), 4*conformance.Patience)
	steps := make(chan error)
	for _, dir := range [][2]transport.Link{{la, lb}, {lb, la}} {
		for lane := range transport.Lane(transport.Lanes) {
			go func() { steps <- feed(ctx, dir[0], lane, count) }()
			go func() { steps <- expect(ctx, dir[1], lane, count) }()
		}
	}
	out := make(chan error, 1)
	go func() {
		defer cancel()
		var first error
		for range 4 * transport.Lanes {
			if err := <-steps; err != nil && first == nil {
				first = err
				cancel()
			}
		}
		out <- first
	}()
	return out
}

func size(i int) int { return 8 + i*7919%40_000 }

func feed(ctx context.Context, l transport.Link, lane transport.Lane, count int) error {
	for i := range count {
		b := make([]byte, size(i))
		binary.BigEndian.PutUint64(b, uint64(i))
		b[len(b)-1] = byte(i)
		if err := l.Send(ctx, transport.Message{Lane: lane, Payload: b}); err != nil {
			return fmt.Errorf("sending %d on lane %s: %w", i, lane, err)
		}
	}
	return nil
}

func expect(ctx context.Context, l transport.Link, lane transport.Lane, count int) error {
	for i := range count {
		m, err := l.RecvLane(ctx, lane)
		if err != nil {
			return fmt.Errorf("receiving %d on lane %s: %w", i, lane, err)
		}
		if b := m.Payload; len(b) != size(i) || b[len(b)-1] != byte(i) || len(b) > 8 && binary.BigEndian.Uint64(b) != uint64(i) {
			return fmt.Errorf("lane %s: message %d of %d bytes is another one", lane, i, len(b))
		}
	}
	return nil
}

// TestA1BothCapableElseTCP: two nodes with shared memory use it; with one that has none, or has it switched off, the
// same exchange goes over tcp, whoever leads.
func TestA1BothCapableElseTCP(t *testing.T) {
	none := func(t testing.TB) ([]Backend, breakable) {
		return []Backend{BackendFunc(func() (*Endpoint, error) { return nil, errors.New("nothing here") })}, nil
	}
	for name, pair := range map[string]struct {
		with     func(t testing.TB, i int) bool
		off      bool
		provider string
	}{
		"both":                {with: func(testing.TB, int) bool { return true }, provider: "shm"},
		"first without":       {with: func(_ testing.TB, i int) bool { return i == 1 }, provider: "tcp"},
		"second without":      {with: func(_ testing.TB, i int) bool { return i == 0 }, provider: "tcp"},
		"first switched off":  {with: func(_ testing.TB, i int) bool { return i == 1 }, off: true, provider: "tcp"},
		"second switched off": {with: func(_ testing.TB, i int) bool { return i == 0 }, off: true, provider: "tcp"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(func(t testing.TB, i int) ([]Backend, breakable) {
				switch {
				case pair.with(t, i):
					return overMemory(t, i)
				case pair.off:
					return nil, nil
				}
				return none(t)
			})
			_, _, la, lb := s.connect(t, conformance.Config())
			for _, l := range []transport.Link{la, lb} {
				eventually(t, "provider and reason", func() bool {
					p := l.Path()
					return p.Provider == pair.provider && (p.Reason != "" || pair.off)
				})
			}
			require.NoError(t, <-traffic(la, lb, 200))
			require.Equal(t, pair.provider, la.Path().Provider)
			require.Equal(t, pair.provider, lb.Path().Provider)
			if pair.provider == "tcp" {
				require.Zero(t, la.Stats().Reconnects, "it was never moved")
				return
			}
			require.Equal(t, "same host", la.Path().Reason)
			require.NotZero(t, la.Path().Counters["frames_sent"])
			require.False(t, la.Path().Since.IsZero())
		})
	}
}

// TestSwitchUnderLoad moves the link while all lanes are full, both ways.
func TestSwitchUnderLoad(t *testing.T) {
	for range count(2, 10) {
		_, _, la, lb := newStack(overMemory).connect(t, conformance.Config())
		done := traffic(la, lb, count(300, 2000))
		require.NoError(t, <-done)
		ready("shm")(t, la, lb)
		require.EqualValues(t, 1, la.Stats().Reconnects)
	}
}

// TestKills breaks channel and connection, at either side and at random moments of full load, and again while the
// link is still on its way back: every message arrives once, in order; at the end the link is on shared memory.
func TestKills(t *testing.T) {
	s := newStack(overMemory)
	a, b, la, lb := s.connect(t, conformance.Config())
	ready("shm")(t, la, lb)
	byChannel := 0
	killed := make(chan struct{})
	go func() {
		defer close(killed)
		tick := time.NewTicker(500 * time.Microsecond)
		defer tick.Stop()
		for kills := 0; kills < count(15, 150) && la.Err() == nil; {
			for range 1 + rand.N(60) {
				<-tick.C
			}
			n := 0
			switch kind := rand.N(5); {
			case kind == 0 && byChannel > 0: // first of all a channel that is there
				n = s.each((*conformance.Proxy).Cut, a, b)
			case kind <= 2:
				n = a.device.breakAll(b.ID())
				byChannel += n
			default:
				n = b.device.breakAll(a.ID())
				byChannel += n
			}
			kills += n
		}
	}()
	for done := false; !done; {
		select {
		case <-killed:
			done = true
		default:
		}
		require.NoError(t, <-traffic(la, lb, 100))
	}
	require.NotZero(t, byChannel)
	ready("shm")(t, la, lb)
	require.NoError(t, <-traffic(la, lb, 20))
	require.NoError(t, la.Err())
	require.Empty(t, a.Links())
	require.Empty(t, b.Links())
	eventually(t, "one connection", func() bool { return s.each((*conformance.Proxy).Count, a, b) == 1 })
}

// TestBackOnTheSameConnection: whichever side's channel breaks, the link comes back over the connection that is there.
func TestBackOnTheSameConnection(t *testing.T) {
	s := newStack(overMemory)
	a, b, la, lb := s.connect(t, conformance.Config())
	for i := range 10 {
		ready("shm")(t, la, lb)
		before := la.Stats().Reconnects
		done := traffic(la, lb, 50)
		from, to := a, b
		if i%2 == 1 {
			from, to = b, a
		}
		require.Equal(t, 1, from.device.breakAll(to.ID()))
		eventually(t, "it comes back", func() bool { return la.Stats().Reconnects > before })
		require.NoError(t, <-done)
	}
	require.Equal(t, 1, s.each((*conformance.Proxy).Total, a, b))
}

// TestSilentConnection: the channel works, but nothing comes over the connection any more: both end, and the link goes
// on when there is a way again.
func TestSilentConnection(t *testing.T) {
	cfg := conformance.Config()
	cfg.Heartbeat, cfg.IdleTimeout = 500*time.Millisecond, 2*time.Second
	s := newStack(overMemory)
	a, b, la, lb := s.connect(t, cfg)
	ready("shm")(t, la, lb)
	before := la.Stats().Reconnects
	hold := func(held bool) {
		s.each(func(p *conformance.Proxy) int { p.Hold(held); return 0 }, a, b)
	}
	hold(true)
	eventually(t, "the channel is closed with its connection", func() bool {
		return la.Path().Counters == nil && lb.Path().Counters == nil
	})
	require.NoError(t, la.Err())
	hold(false)
	ready("shm")(t, la, lb)
	require.Greater(t, la.Stats().Reconnects, before)
	require.NoError(t, <-traffic(la, lb, 20))
}

// saboteur is an upgrader whose channels change one frame on its way.
type saboteur struct {
	*Upgrader
	change func(*transport.Frame)
}

func (s saboteur) Run(ctx context.Context, x link.Session) error {
	attach := x.Attach
	x.Attach = func(ctx context.Context, pr transport.Provider) error {
		return attach(ctx, &sabotaged{Channel: pr.(Channel), change: s.change})
	}
	return s.Upgrader.Run(ctx, x)
}

type sabotaged struct {
	Channel
	change func(*transport.Frame)
}

func (s *sabotaged) Counters() map[string]uint64 { return map[string]uint64{} }

func (s *sabotaged) WriteFrames(frames []transport.Frame) error {
	for i := range frames {
		if frames[i].Header.Flags&transport.FlagControl == 0 {
			s.change(&frames[i])
		}
	}
	return s.Channel.WriteFrames(frames)
}

// TestHostileFrames: frames that break the link's rules cost a peer its link over shared memory as over tcp, with its
// connection and channel, and nobody else's.
func TestHostileFrames(t *testing.T) {
	for name, change := range map[string]func(*transport.Frame){
		"sequence jumps": func(f *transport.Frame) { f.Header.Sequence += 7 },
		"acknowledges":   func(f *transport.Frame) { f.Header.Ack.Received += 1000 },
		"slice flags":    func(f *transport.Frame) { f.Header.Flags &^= transport.FlagLast },
		"unknown lane":   func(f *transport.Frame) { f.Header.Lane = 9 },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStack(overMemory)
			victim, friend := s.start(t, 0, conformance.Config()), s.start(t, 1, conformance.Config())
			require.NoError(t, friend.Dial(context.Background(), s.addr(t, victim)))
			lf, lv := nextLink(t, friend), nextLink(t, victim)
			ready("shm")(t, lf, lv)
			reconnects := lv.Stats().Reconnects

			backends, _ := overMemory(t, 2)
			u, err := New(quick(), backends, nil, nil)
			require.NoError(t, err)
			bad, err := tcp.New(tcp.Config{Link: conformance.Config(), Upgrader: saboteur{u, change}}, s.identity(t, 2), nil, nil)
			require.NoError(t, err)
			defer func() { require.NoError(t, errors.Join(bad.Close(), u.Close())) }()
			require.NoError(t, bad.Dial(context.Background(), victim.Addrs()[0]))
			lb, lx := nextLink(t, bad), nextLink(t, victim)
			bad.Forget(victim.ID())
			ready("shm")(t, lb, lx)
			require.NoError(t, lb.Send(context.Background(), transport.Message{Lane: 1, Payload: []byte("bad")}))
			<-lx.Done()
			require.ErrorIs(t, lx.Err(), transport.ErrProtocol)
			require.NoError(t, <-traffic(lf, lv, 20))
			require.Equal(t, reconnects, lv.Stats().Reconnects)
		})
	}
}

// peerVar makes the test binary a peer: "ADDRESS" to dial.
const peerVar = "BORNODE_TESTNET"

// TestPeerProcess is the other process of TestKilledProcess; without being told whom to dial it has nothing to do.
func TestPeerProcess(t *testing.T) {
	addr := os.Getenv(peerVar)
	if !strings.HasPrefix(addr, "/ip4/") {
		return
	}
	s := newStack(overMemory)
	id, err := tcp.LoadOrCreateIdentity(os.Getenv("BORNODE_DIR") + "/identity")
	require.NoError(t, err)
	s.identities[1] = id
	h := s.start(t, 1, conformance.Config())
	require.NoError(t, h.Dial(context.Background(), addr))
	l := nextLink(t, h)
	_, _ = fmt.Println("up") // the parent may be gone
	for {
		m, err := l.Recv(context.Background())
		if err != nil {
			return
		}
		if l.Send(context.Background(), m) != nil {
			return
		}
	}
}

// TestKilledProcess: a peer that is killed takes nothing with it: its link waits, ends when a new process comes with
// the same identity, and that one is on shared memory again.
func TestKilledProcess(t *testing.T) {
	s := newStack(overMemory)
	h := s.start(t, 0, conformance.Config())
	dir := t.TempDir()
	spawn := func() (*exec.Cmd, func()) {
		c := exec.Command(os.Args[0], "-test.run=^TestPeerProcess$")
		c.Env = append(os.Environ(), peerVar+"="+h.Addrs()[0], "BORNODE_DIR="+dir)
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, c.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "up\n", line)
		return c, func() {
			require.NoError(t, c.Process.Kill())
			_ = c.Wait() // it says that it was killed
		}
	}
	var last transport.Link
	for range count(2, 8) {
		_, kill := spawn()
		l := nextLink(t, h)
		if last != nil {
			<-last.Done()
			require.ErrorIs(t, last.Err(), transport.ErrSessionLost)
		}
		ready("shm")(t, l, l)
		require.NoError(t, l.Send(context.Background(), transport.Message{Payload: []byte("echo")}))
		m, err := l.Recv(context.Background())
		require.NoError(t, err)
		require.Equal(t, "echo", string(m.Payload))
		flood, cancel := context.WithCancel(context.Background())
		go func() { // it is killed in the middle of something
			for l.Send(flood, transport.Message{Lane: 2, Payload: make([]byte, 100_000)}) == nil {
			}
		}()
		eventually(t, "load", func() bool { return l.Stats().Lanes[2].MessagesReceived > 5 })
		kill()
		eventually(t, "nothing is left of the channel", func() bool { return l.Path().Counters == nil })
		cancel()
		require.NoError(t, l.Err(), "it waits for the peer")
		last = l
	}
}

// TestNothingIsLeft: many connects and disconnects leave no goroutine, descriptor, channel or mapping.
func TestNothingIsLeft(t *testing.T) {
	s := newStack(overMemory)
	a, b := s.start(t, 0, conformance.Config()), s.start(t, 1, conformance.Config())
	cycle := func(move bool) {
		require.NoError(t, a.Dial(context.Background(), b.Addrs()[0]))
		la, lb := nextLink(t, a), nextLink(t, b)
		if move {
			ready("shm")(t, la, lb)
		}
		a.Forget(b.ID())
		require.NoError(t, la.Close("done"))
		<-lb.Done()
		require.NoError(t, lb.Close("done"))
	}
	idle := func() bool {
		return a.device.(*memory).device.Stats().Channels == 0 && b.device.(*memory).device.Stats().Channels == 0
	}
	for range 3 {
		cycle(true)
	}
	eventually(t, "first ones are gone", idle)
	goroutines, files, maps := runtime.NumGoroutine(), entries(t, "/proc/self/fd"), mappings(t)
	for i := range count(30, 1000) {
		cycle(i%3 > 0)
	}
	eventually(t, "channels are left", idle)
	eventually(t, "goroutines are left", func() bool { return runtime.NumGoroutine() <= goroutines+2 })
	eventually(t, "descriptors are left", func() bool { return entries(t, "/proc/self/fd") <= files+2 })
	require.LessOrEqual(t, mappings(t), maps+40, "mappings are left")
}

func entries(t testing.TB, dir string) int {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	return len(list)
}

// mappings counts the shared mappings of memory files.
func mappings(t testing.TB) int {
	b, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	return strings.Count(string(b), "memfd:")
}

// TestIdlePeersSleep is A7: twenty peers that have nothing to say wake a node fewer than fifty times a second, with
// the heartbeats of the links and the keep-alives of the connections counted in.
func TestIdlePeersSleep(t *testing.T) {
	const peers = 20
	s := newStack(overMemory)
	cfg := link.DefaultConfig()
	cfg.HelloTimeout = conformance.Patience
	hub := s.start(t, 0, cfg)
	for i := range peers {
		require.NoError(t, s.start(t, i+1, cfg).Dial(context.Background(), hub.Addrs()[0]))
	}
	links := make([]transport.Link, peers)
	for i := range links {
		links[i] = nextLink(t, hub)
	}
	for _, l := range links {
		ready("shm")(t, l, l)
	}
	device := hub.device.(*memory).device
	woken := func() uint64 {
		d := device.Stats()
		return d.Wakeups + d.ReaderWakeups + d.GuardTicks
	}
	heard := func() (n uint64) {
		for _, l := range links {
			n += l.Stats().FramesReceived
		}
		return n
	}
	began, before, frames := time.Now(), woken(), heard()
	eventually(t, "a heartbeat of everyone, both ways", func() bool { return heard() >= frames+2*peers })
	elapsed := time.Since(began).Seconds()
	rate := float64(woken()-before) / elapsed
	keepalives := 1.5 * peers / (cfg.IdleTimeout.Seconds() / keepalives) // the leader's goes out, the answer wakes it
	t.Logf("%.0f wake-ups a second for the links, %.0f for the connections", rate, keepalives)
	require.Less(t, rate+keepalives, 50.0)
	require.Zero(t, device.Stats().Rescued)
}
