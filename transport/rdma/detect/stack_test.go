package detect

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/conformance"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/tcp"
)

// breakable is a device whose channels a test can break.
type breakable interface {
	breakAll(peer transport.PeerID) int
}

// stack runs whole hosts: tcp with an upgrader.
type stack struct {
	// open makes the devices of a host, best first; nil: a host without an upgrader.
	open func(t testing.TB, i int) ([]Backend, breakable)

	mu         sync.Mutex
	identities map[int]*tcp.Identity
	proxies    map[transport.PeerID]*conformance.Proxy
	breaks     int
}

// stackHost is a host with all that goes with it.
type stackHost struct {
	*tcp.Host
	upgrader *Upgrader
	device   breakable
}

func (h *stackHost) Close() error {
	err := h.Host.Close()
	if h.upgrader != nil {
		err = errors.Join(err, h.upgrader.Close())
	}
	return err
}

func newStack(open func(t testing.TB, i int) ([]Backend, breakable)) *stack {
	return &stack{open: open, identities: make(map[int]*tcp.Identity), proxies: make(map[transport.PeerID]*conformance.Proxy)}
}

func testLog(t testing.TB) *zap.Logger {
	if os.Getenv("BORNODE_TEST_LOG") != "" {
		return zaptest.NewLogger(t)
	}
	return zap.NewNop()
}

// quick tries again at once, and lets no time-out decide.
func quick() Config {
	c := DefaultConfig()
	c.ProbeTimeout, c.RetryMin, c.RetryMax = conformance.Patience, 5*time.Millisecond, 100*time.Millisecond
	return c
}

func (s *stack) identity(t testing.TB, i int) *tcp.Identity {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.identities[i] == nil {
		id, err := tcp.GenerateIdentity()
		require.NoError(t, err)
		s.identities[i] = id
	}
	return s.identities[i]
}

func (s *stack) newHost(t testing.TB, i int, cfg link.Config) transport.Host {
	h := &stackHost{}
	c := tcp.Config{Listen: []string{"/ip4/127.0.0.1/tcp/0"}, Link: cfg}
	log := testLog(t).Named(fmt.Sprint(i))
	backends, device := s.open(t, i)
	if backends != nil {
		var err error
		h.upgrader, err = New(quick(), backends, log, prometheus.NewRegistry())
		require.NoError(t, err)
		h.device = device
		c.Upgrader = h.upgrader
	}
	var err error
	h.Host, err = tcp.New(c, s.identity(t, i), log, nil)
	require.NoError(t, err)
	return h
}

func (s *stack) addr(t testing.TB, h transport.Host) string {
	p := conformance.NewProxy(t, "127.0.0.1:"+strings.Split(h.Addrs()[0], "/")[4])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.proxies[h.ID()] = p
	return fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/p2p/%s", p.Port(), h.ID())
}

func (s *stack) each(f func(*conformance.Proxy) int, hosts ...transport.Host) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, h := range hosts {
		if p := s.proxies[h.ID()]; p != nil {
			n += f(p)
		}
	}
	return n
}

// cut breaks what carries the link: in turn the fast channel at either side, or the connection under it.
func (s *stack) cut(a, b transport.Host) int {
	s.mu.Lock()
	s.breaks++
	turn := s.breaks
	s.mu.Unlock()
	n := 0
	switch turn % 3 {
	case 0:
		n = a.(*stackHost).device.breakAll(b.ID())
	case 1:
		n = b.(*stackHost).device.breakAll(a.ID())
	}
	if n == 0 {
		n = s.each((*conformance.Proxy).Cut, a, b)
	}
	return n
}

// ready waits until both links are on a channel of the provider.
func ready(provider string) func(t testing.TB, la, lb transport.Link) {
	return func(t testing.TB, la, lb transport.Link) {
		t.Helper()
		on := func(l transport.Link) bool { p := l.Path(); return p.Provider == provider && p.Counters != nil }
		both := func() bool { return on(la) && on(lb) }
		require.Eventually(t, both, conformance.Patience, time.Millisecond, "the links stay elsewhere")
	}
}

func (s *stack) harness(provider string) conformance.Harness {
	return conformance.Harness{
		NewHost: s.newHost, Addr: s.addr, Break: s.cut, Ready: ready(provider),
		Connections: func(a, b transport.Host) int { return s.each((*conformance.Proxy).Count, a, b) },
		Raw:         s.raw,
		Long:        os.Getenv("BORNODE_LONG") != "",
	}
}

func (s *stack) raw(t testing.TB, i int, target transport.Host) (transport.PeerID, transport.Provider) {
	id := s.identity(t, i)
	ctx, cancel := context.WithTimeout(context.Background(), conformance.Patience)
	defer cancel()
	pr, err := tcp.Raw(ctx, id, target.Addrs()[0])
	require.NoError(t, err)
	t.Cleanup(func() { _ = pr.Close() })
	return id.ID(), pr
}

// inMemory opens fake devices of one host.
func inMemory() func(t testing.TB, i int) ([]Backend, breakable) {
	fabric := newFabric()
	return func(testing.TB, int) ([]Backend, breakable) {
		d := fabric.device("shm")
		e := d.endpoint("host", netip.Addr{})
		return []Backend{BackendFunc(func() (*Endpoint, error) { return e, nil })}, d
	}
}

// TestConformanceInMemory is the whole stack on devices in memory.
func TestConformanceInMemory(t *testing.T) {
	conformance.Run(t, newStack(inMemory()).harness("shm"))
}
