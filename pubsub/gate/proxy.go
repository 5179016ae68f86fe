package gate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"

	"go.uber.org/zap"
)

// Proxy is a local Kafka endpoint for clients that know nothing of tokens, encryption and proofs: one listener for the
// first contact, and one for every broker that the answers name.
type Proxy struct {
	e     *Engine
	seeds []string
	host  string
	addr  string // of the first listener

	mu       sync.Mutex
	locals   map[string]int32 // port of the listener for a broker's address
	answered string           // the broker that took the newest first contact
	open     []net.Listener
	used     int // connections
	closed   bool
}

// NewProxy listens on listen, an address of this machine alone ("127.0.0.1:9092"); clients bootstrap there. seeds are
// addresses of brokers. It serves until Run ends.
func NewProxy(e *Engine, listen string, seeds []string) (*Proxy, error) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, fmt.Errorf("the listen address %q: %w", listen, err)
	}
	ip := net.ParseIP(host)
	switch {
	case ip == nil || !ip.IsLoopback():
		return nil, fmt.Errorf("the proxy holds keys and serves whoever connects: it listens on this machine alone (127.0.0.1:port), not on %s", listen)
	case len(seeds) == 0:
		return nil, errors.New("the proxy needs the address of at least one broker")
	}
	p := &Proxy{e: e, seeds: seeds, host: host, locals: map[string]int32{}}
	l, err := p.listen(listen)
	if err != nil {
		return nil, err
	}
	p.addr = l.Addr().String()
	if err := e.start(func() { p.accept(l, p.seed) }); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return p, nil
}

// Addr is where clients bootstrap.
func (p *Proxy) Addr() string { return p.addr }

// Run serves until ctx or the engine ends, and then closes the listeners.
func (p *Proxy) Run(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-p.e.ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, l := range p.open {
		_ = l.Close()
	}
	p.open = nil
}

func (p *Proxy) listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listening for clients: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.Join(ErrClosed, l.Close())
	}
	p.open = append(p.open, l)
	context.AfterFunc(p.e.ctx, func() { _ = l.Close() })
	return l, nil
}

// accept serves the clients of one listener; dial connects one of them to its broker.
func (p *Proxy) accept(l net.Listener, dial func(context.Context) (*session, error)) {
	for {
		c, err := l.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				p.e.cfg.Log.Error("the proxy takes no more clients on a listener; start it again", zap.Stringer("listener", l.Addr()), zap.Error(err))
			}
			return
		}
		p.mu.Lock()
		full := p.used >= MaxClients
		if !full {
			p.used++
		}
		p.mu.Unlock()
		if full {
			p.e.cfg.Log.Warn("a client is turned away: the proxy serves as many as it may", zap.Int("clients", MaxClients))
			_ = c.Close()
			continue
		}
		if err := p.e.start(func() { p.serve(c, dial) }); err != nil {
			_ = c.Close()
			return
		}
	}
}

func (p *Proxy) serve(c net.Conn, dial func(context.Context) (*session, error)) {
	defer func() {
		p.mu.Lock()
		p.used--
		p.mu.Unlock()
	}()
	s, err := dial(p.e.ctx)
	if err != nil {
		p.e.cfg.Log.Warn("a client cannot be connected to its broker", zap.Error(err))
		_ = c.Close()
		return
	}
	s.client = c
	s.run()
}

// seed connects to the first broker that answers.
func (p *Proxy) seed(ctx context.Context) (*session, error) {
	var all error
	list := p.candidates()
	for i, addr := range list {
		s, err := p.trial(ctx, addr, i == len(list)-1)
		if err == nil {
			p.mu.Lock()
			p.answered = addr
			p.mu.Unlock()
			return s, nil
		}
		all = errors.Join(all, err)
	}
	return nil, all
}

// trial gives a broker all the time there is only when it is the last one.
func (p *Proxy) trial(ctx context.Context, addr string, last bool) (*session, error) {
	if !last {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, SeedTime)
		defer cancel()
	}
	return p.to(addr)(ctx)
}

// candidates are the broker that answered last, for clients do not wait long for their first answer, the seeds, and brokers
// that answers named since.
func (p *Proxy) candidates() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered != "" {
		list = append(list, p.answered)
	}
	for _, more := range []iter.Seq[string]{slices.Values(p.seeds), maps.Keys(p.locals)} {
		for addr := range more {
			if len(list) < SeedTries && !slices.Contains(list, addr) {
				list = append(list, addr)
			}
		}
	}
	return list
}

func (p *Proxy) to(addr string) func(context.Context) (*session, error) {
	return func(ctx context.Context) (*session, error) {
		broker, until, err := p.e.dialBroker(ctx, addr)
		if err != nil {
			return nil, err
		}
		return p.e.session(nil, broker, until, p.local), nil
	}
}

// local is the address on this machine for a broker's; a listener is opened for one that is new. A broker that cannot
// have one becomes unreachable for clients, rather than reachable past the proxy.
func (p *Proxy) local(host string, port int32) (string, int32) {
	addr := net.JoinHostPort(host, strconv.Itoa(int(port)))
	p.mu.Lock()
	have, ok := p.locals[addr]
	full := len(p.locals) >= MaxBrokers
	p.mu.Unlock()
	if ok {
		return p.host, have
	}
	const unreachable = 0
	if full {
		p.e.cfg.Log.Error("no listener is opened for a broker: there are as many as there may be", zap.String("broker", addr), zap.Int("listeners", MaxBrokers))
		return p.host, unreachable
	}
	l, err := p.listen(net.JoinHostPort(p.host, "0"))
	if err != nil {
		p.e.cfg.Log.Error("no listener can be opened for a broker", zap.String("broker", addr), zap.Error(err))
		return p.host, unreachable
	}
	mine := int32(l.Addr().(*net.TCPAddr).Port)
	p.mu.Lock()
	if other, ok := p.locals[addr]; ok { // another connection was faster
		p.mu.Unlock()
		_ = l.Close()
		return p.host, other
	}
	p.locals[addr] = mine
	p.mu.Unlock()
	if err := p.e.start(func() { p.accept(l, p.to(addr)) }); err != nil {
		_ = l.Close()
		return p.host, unreachable
	}
	return p.host, mine
}
