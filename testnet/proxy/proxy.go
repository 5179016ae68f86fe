package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Mode is what happens to the bytes of a pair of nodes.
type Mode string

const (
	Pass      Mode = "pass"       // copy as fast as possible
	BlackHole Mode = "black-hole" // connections stay open, nothing moves, new ones are accepted and hang
	HalfOpen  Mode = "half-open"  // only bytes from the lower to the higher node move
	Reset     Mode = "reset"      // connections are reset, new ones too
)

// Rule is the treatment of one unordered pair of nodes.
type Rule struct {
	Mode  Mode          `json:"mode"`
	Delay time.Duration `json:"delay"` // one way, added to every chunk
}

// Route says that From reaches To's listener at Target through the proxy's own address Listen.
type Route struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Target string `json:"target"`
	Listen string `json:"listen"`
}

const (
	chunkBytes      = 64 << 10
	maxDelayedBytes = 8 << 20 // held back per direction; then reading stops, as a full pipe would
	maxRoutes       = 4096
	dialTimeout     = 5 * time.Second
)

type pair struct{ low, high int }

func pairOf(a, b int) pair {
	if a > b {
		a, b = b, a
	}
	return pair{a, b}
}

// Proxy holds routes and rules. Its methods are safe for concurrent use.
type Proxy struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever a rule changes
	rules   map[pair]Rule
	routes  []Route
	ports   []net.Listener
	conns   map[*conn]struct{}
}

// New returns an empty proxy; Close ends it.
func New() *Proxy {
	ctx, cancel := context.WithCancel(context.Background())
	return &Proxy{ctx: ctx, cancel: cancel, changed: make(chan struct{}), rules: make(map[pair]Rule), conns: make(map[*conn]struct{})}
}

// AddRoute listens on a free loopback port (or on listen, if given) for connections of one node to another.
func (p *Proxy) AddRoute(from, to int, target, listen string) (Route, error) {
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil {
		return Route{}, errors.New("proxy is closed")
	}
	if len(p.routes) >= maxRoutes {
		return Route{}, fmt.Errorf("proxy has %d routes, no more are allowed", maxRoutes)
	}
	for _, r := range p.routes {
		if r.From == from && r.To == to && r.Target == target {
			return r, nil
		}
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return Route{}, fmt.Errorf("proxy for node %d -> node %d: %w", from, to, err)
	}
	r := Route{From: from, To: to, Target: target, Listen: l.Addr().String()}
	p.routes = append(p.routes, r)
	p.ports = append(p.ports, l)
	p.wg.Add(1)
	go p.accept(l, r)
	return r, nil
}

// Routes lists what was added.
func (p *Proxy) Routes() []Route {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Route(nil), p.routes...)
}

// SetRule changes the treatment of a pair at once, for open connections too. Bytes that a black hole held back move
// on when it ends, as TCP's retransmission would have it.
func (p *Proxy) SetRule(a, b int, r Rule) error {
	switch r.Mode {
	case Pass, BlackHole, HalfOpen, Reset:
	default:
		return fmt.Errorf("mode %q: use pass, black-hole, half-open or reset", r.Mode)
	}
	if r.Delay < 0 || r.Delay > time.Minute {
		return fmt.Errorf("delay %s: use 0 to 1m", r.Delay)
	}
	p.mu.Lock()
	p.rules[pairOf(a, b)] = r
	close(p.changed)
	p.changed = make(chan struct{})
	var reset []*conn
	for c := range p.conns {
		if r.Mode == Reset && c.pair() == pairOf(a, b) {
			reset = append(reset, c)
		}
	}
	p.mu.Unlock()
	for _, c := range reset {
		c.reset()
	}
	return nil
}

// Heal forgets all rules.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.rules)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) rule(from, to int) (Rule, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.rules[pairOf(from, to)]
	if !ok {
		r.Mode = Pass
	}
	return r, p.changed
}

// Close ends listeners and connections and waits for their goroutines.
func (p *Proxy) Close() {
	p.cancel()
	p.mu.Lock()
	for _, l := range p.ports {
		_ = l.Close()
	}
	conns := make([]*conn, 0, len(p.conns))
	for c := range p.conns {
		conns = append(conns, c)
	}
	p.mu.Unlock()
	for _, c := range conns {
		c.reset()
	}
	p.wg.Wait()
}

func (p *Proxy) accept(l net.Listener, r Route) {
	defer p.wg.Done()
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		p.wg.Add(1)
		go func() {
			defer p.wg.Done()
			p.serve(in.(*net.TCPConn), r)
		}()
	}
}

func (p *Proxy) serve(in *net.TCPConn, r Route) {
	c := &conn{route: r, in: in}
	p.mu.Lock()
	if p.ctx.Err() != nil {
		p.mu.Unlock()
		c.reset()
		return
	}
	p.conns[c] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.conns, c)
		p.mu.Unlock()
		c.close()
	}()
	if rule, _ := p.rule(r.From, r.To); rule.Mode == Reset {
		c.reset()
		return
	}
	if !p.await(r.From, r.To) { // a black hole swallows the opening too
		return
	}
	d := net.Dialer{Timeout: dialTimeout}
	out, err := d.DialContext(p.ctx, "tcp", r.Target)
	if err != nil {
		c.reset()
		return
	}
	if !c.attach(out.(*net.TCPConn)) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.pump(c, in, out.(*net.TCPConn), r.From, r.To) })
	both.Go(func() { p.pump(c, out.(*net.TCPConn), in, r.To, r.From) })
	both.Wait()
}

// await returns true once bytes may move from one node to another, false when the proxy closes.
func (p *Proxy) await(from, to int) bool {
	for {
		rule, changed := p.rule(from, to)
		if rule.Mode == Pass || rule.Mode == Reset || rule.Mode == HalfOpen && from < to {
			return p.ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-p.ctx.Done():
			return false
		}
	}
}
