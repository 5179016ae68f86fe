package tcp

import (
	"net/netip"
	"sync"

	libp2p "github.com/libp2p/go-libp2p/core/transport"
	manet "github.com/multiformats/go-multiaddr/net"
)

// strangers is the list of incoming connections that have not proved an identity yet. When it is full, a new connection
// takes the place of the oldest one of the host with the most. A member needs a few round trips to prove itself, so
// connections that stay silent never keep it out, whoever opens them and however often. Its methods may be called
// concurrently.
type strangers struct {
	limit int
	mu    struct {
		sync.Mutex
		waiting []stranger // oldest first; some may have failed and be closed already, which takes nobody's place
	}
}

type stranger struct {
	conn manet.Conn
	host netip.Prefix
}

// admit adds a connection, and closes the one whose place it takes.
func (s *strangers) admit(c manet.Conn) {
	if displaced := s.addWaiting(c); displaced != nil {
		_ = displaced.Close() // it may be closed already
	}
}

func (s *strangers) addWaiting(c manet.Conn) (displaced manet.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.waiting = append(s.mu.waiting, stranger{c, hostOf(c)})
	if len(s.mu.waiting) <= s.limit {
		return nil
	}
	i := s.oldestOfLargestHost()
	displaced = s.mu.waiting[i].conn
	s.removeWaiting(i)
	return displaced
}

func (s *strangers) oldestOfLargestHost() int {
	counts := make(map[netip.Prefix]int, len(s.mu.waiting))
	for _, w := range s.mu.waiting {
		counts[w.host]++
	}
	oldest := 0
	for i, w := range s.mu.waiting {
		if counts[w.host] > counts[s.mu.waiting[oldest].host] {
			oldest = i
		}
	}
	return oldest
}

func (s *strangers) removeWaiting(i int) {
	last := len(s.mu.waiting) - 1
	copy(s.mu.waiting[i:], s.mu.waiting[i+1:])
	s.mu.waiting[last] = stranger{} // closed connections are not kept alive
	s.mu.waiting = s.mu.waiting[:last]
}

// release forgets a connection that has proved an identity.
func (s *strangers) release(c any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.mu.waiting {
		if any(w.conn) == c {
			s.removeWaiting(i)
			return
		}
	}
}

// hostOf is an IPv4 address or a /64 network of IPv6, as in the limits of connections by address.
func hostOf(c manet.Conn) netip.Prefix {
	ip, err := manet.ToIP(c.RemoteMultiaddr())
	if err != nil {
		return netip.Prefix{}
	}
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		return netip.Prefix{}
	}
	if a = a.Unmap(); a.Is4() {
		return netip.PrefixFrom(a, 32)
	}
	p, _ := a.Prefix(64) // 64 fits
	return p
}

// strangersUpgrader is libp2p's upgrader whose listeners keep the list of strangers.
type strangersUpgrader struct {
	libp2p.Upgrader
	strangers *strangers
}

func (u strangersUpgrader) GateMaListener(l manet.Listener) libp2p.GatedMaListener {
	return u.Upgrader.GateMaListener(strangersListener{l, u.strangers})
}

type strangersListener struct {
	manet.Listener
	strangers *strangers
}

func (l strangersListener) Accept() (manet.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.strangers.admit(c)
	}
	return c, err
}
