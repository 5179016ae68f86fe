package conformance

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Proxy forwards TCP connections to a host, so that a test can cut them.
type Proxy struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu      sync.Mutex
	changed sync.Cond
	conns   map[net.Conn]struct{}
	total   int
	held    bool // what arrives is kept, and the other side hears nothing
	closed  bool
}

// NewProxy starts a proxy to target ("127.0.0.1:port") on a port of its own; it stops with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{listener: l, target: target, conns: make(map[net.Conn]struct{})}
	p.changed.L = &p.mu
	p.wg.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Port is where the proxy listens.
func (p *Proxy) Port() int { return p.listener.Addr().(*net.TCPAddr).Port }

func (p *Proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		if !p.add(in) { // it came while the proxy closed, whose cut it missed
			_ = in.Close()
			_ = out.Close()
			return
		}
		p.wg.Go(func() { p.forward(in, out) })
		p.wg.Go(func() { p.forward(out, in) })
	}
}

// add counts a connection; false: the proxy is closed.
func (p *Proxy) add(in net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[in] = struct{}{}
	p.total++
	return true
}

func (p *Proxy) forward(from, to net.Conn) {
	_, _ = io.Copy(gate{p, to}, from) // it ends with either side
	_ = from.Close()
	_ = to.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, from)
	delete(p.conns, to)
}

// gate passes bytes on while the proxy does not hold them.
type gate struct {
	p  *Proxy
	to io.Writer
}

func (g gate) Write(b []byte) (int, error) {
	g.p.mu.Lock()
	for g.p.held && !g.p.closed {
		g.p.changed.Wait()
	}
	g.p.mu.Unlock()
	return g.to.Write(b)
}

// Hold makes the connections silent, without either side noticing, or lets them go on.
func (p *Proxy) Hold(held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = held
	p.changed.Broadcast()
}

// Cut breaks all connections, and tells how many there were.
func (p *Proxy) Cut() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.conns)
	for c := range p.conns {
		_ = c.Close()
		delete(p.conns, c)
	}
	return n
}

// Count counts the connections.
func (p *Proxy) Count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

// Total counts the connections that there ever were.
func (p *Proxy) Total() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.changed.Broadcast()
	p.mu.Unlock()
	p.Cut()
	p.wg.Wait()
}
