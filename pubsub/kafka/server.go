package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/bornode/bornode/internal/pause"
)

// Server takes connections of Kafka clients.
type Server struct {
	cfg       Config
	handler   Handler
	auth      Authenticator // nil: clients need no login
	log       *zap.Logger
	metrics   *metrics
	table     *table
	certs     *certificates
	listeners []listener
	requests  *budget
	answers   *budget
	strangers *budget
	buffers   sync.Pool // of *[]byte
	nextID    atomic.Uint64
	conns     sync.WaitGroup
	lines     lineLimit

	mu         sync.Mutex
	open       map[*Conn]struct{}
	hosts      map[string]int
	principals map[string]int
	newcomers  []*Conn // not logged in, or guests; oldest first. Who logs in and is no guest makes room for nobody
}

type listener struct {
	net.Listener
	scheme string
}

// New checks cfg and opens the addresses; Run takes connections. Without an authenticator every client is let in, with
// no session: for an endpoint that serves its own process or loopback. reg may be nil.
func New(cfg Config, h Handler, a Authenticator, log *zap.Logger, reg prometheus.Registerer) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s, err := NewUnbound(cfg, h, a, log, reg)
	if err != nil {
		return nil, err
	}
	for _, l := range cfg.Listen {
		scheme, addr, err := splitListen(l)
		if err == nil && scheme == schemeTLS && s.certs == nil {
			s.certs, err = loadCertificates(&cfg, log)
		}
		if err != nil {
			s.Close()
			return nil, err
		}
		nl, err := net.Listen("tcp", addr)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("no Kafka clients can be taken at %q: %w; change pubsub.kafka.listen or end what uses that address", l, err)
		}
		s.listeners = append(s.listeners, listener{nl, scheme})
	}
	return s, nil
}

// NewUnbound is a server without addresses: connections come by ServeConn.
func NewUnbound(cfg Config, h Handler, a Authenticator, log *zap.Logger, reg prometheus.Registerer) (*Server, error) {
	t, err := newTable(cfg.Versions)
	if err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, handler: h, auth: a, log: log, table: t,
		requests:  newBudget(int64(cfg.RequestMemory), int64(cfg.RequestMemory)/2),
		strangers: newBudget(strangerMemory, strangerMemory/4),
		answers:   newBudget(int64(cfg.AnswerMemory), int64(cfg.AnswerMemory)/2),
		open:      make(map[*Conn]struct{}), hosts: make(map[string]int), principals: make(map[string]int)}
	s.metrics = newMetrics(reg, s)
	return s, nil
}

// Addrs are the addresses listened on, in the order of Config.Listen.
func (s *Server) Addrs() []net.Addr {
	out := make([]net.Addr, len(s.listeners))
	for k, l := range s.listeners {
		out[k] = l.Addr()
	}
	return out
}

// Close gives the addresses back; only needed if Run is not called.
func (s *Server) Close() {
	for _, l := range s.listeners {
		_ = l.Close()
	}
}

// Run takes connections until ctx ends, then closes all and waits for their goroutines.
func (s *Server) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	var g errgroup.Group
	for _, l := range s.listeners {
		g.Go(func() error { return s.accept(ctx, l) })
	}
	err := g.Wait()
	s.conns.Wait()
	return err
}

func (s *Server) accept(ctx context.Context, l listener) error {
	for {
		nc, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = nc.Close()
			}
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("the address %v for Kafka clients was closed", l.Addr())
		case err != nil: // too many open files, for instance: clients wait in the kernel's queue meanwhile
			s.say("no connection of a Kafka client can be taken; raise the limit of open files if this goes on", zap.Error(err))
			if !pause.For(ctx, acceptPause) {
				return nil
			}
			continue
		}
		s.conns.Add(1)
		go func() {
			defer s.conns.Done()
			s.serve(ctx, nc, l.scheme)
		}()
	}
}

// ServeConn serves one connection, without TLS, until it or ctx ends, and closes it.
func (s *Server) ServeConn(ctx context.Context, nc net.Conn) { s.serve(ctx, nc, schemePlain) }

func (s *Server) serve(ctx context.Context, nc net.Conn, scheme string) {
	c := newConn(ctx, s, nc, scheme)
	defer c.cancel()
	loser, err := s.admit(c)
	if err != nil {
		s.metrics.refused.WithLabelValues("limit").Inc()
		s.say("a Kafka client was refused", zap.String("host", c.host), zap.Error(err))
		_ = nc.Close()
		return
	}
	if loser != nil {
		s.metrics.refused.WithLabelValues("made_room").Inc()
		loser.cancel()
	}
	c.run()
	s.leave(c)
	s.handler.Closed(c)
}

// admit counts a connection in. If all are taken, or all of its host, another one makes room for it.
func (s *Server) admit(c *Conn) (loser *Conn, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.hosts[c.quotaHost] >= s.cfg.ConnectionsPerHost:
		if loser = s.leastWelcome(c.quotaHost); loser == nil {
			return nil, fmt.Errorf("its host has %d connections (pubsub.kafka.connections_per_host)", s.cfg.ConnectionsPerHost)
		}
	case len(s.open) >= s.cfg.Connections:
		if loser = s.leastWelcome(""); loser == nil {
			return nil, fmt.Errorf("all %d connections are in use (pubsub.kafka.connections)", s.cfg.Connections)
		}
	}
	if loser != nil {
		s.remove(loser) // of the same host, or of any: both counts have room then
	}
	s.open[c] = struct{}{}
	s.hosts[c.quotaHost]++
	if s.auth != nil {
		s.newcomers = append(s.newcomers, c)
	}
	s.metrics.connections.Inc()
	return loser, nil
}

// leastWelcome is the connection of a host, or of all (""), that makes room: the oldest that is not logged in, else the
// oldest guest's; nil: all are others'. s.mu is held.
func (s *Server) leastWelcome(host string) (guest *Conn) {
	for _, c := range s.newcomers {
		switch {
		case host != "" && c.quotaHost != host:
		case c.principal == "":
			return c
		case guest == nil:
			guest = c
		}
	}
	return guest
}

// join counts a connection to its principal when it logs in for the first time.
func (s *Server) join(c *Conn, principal string, guest bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.open[c]; !ok {
		return errors.New("the broker has more connections than it can take; try again")
	}
	if s.principals[principal] >= s.cfg.ConnectionsPerClient {
		return fmt.Errorf("%s has %d connections to this broker, which is the most; close some", principal, s.cfg.ConnectionsPerClient)
	}
	s.principals[principal]++
	c.principal = principal
	if !guest {
		s.welcome(c)
	}
	return nil
}

// stay is for a guest who has become more by a later login.
func (s *Server) stay(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.welcome(c)
}

func (s *Server) leave(c *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(c)
}

// remove counts a connection out, once; s.mu is held.
func (s *Server) remove(c *Conn) {
	if _, ok := s.open[c]; !ok {
		return
	}
	delete(s.open, c)
	s.metrics.connections.Dec()
	decrement(s.hosts, c.quotaHost)
	if c.principal != "" {
		decrement(s.principals, c.principal)
	}
	s.welcome(c)
}

// welcome takes c off the list of newcomers; s.mu is held.
func (s *Server) welcome(c *Conn) {
	for k, x := range s.newcomers {
		if x == c {
			s.newcomers = append(s.newcomers[:k], s.newcomers[k+1:]...)
			return
		}
	}
}

func decrement(m map[string]int, key string) {
	if m[key]--; m[key] == 0 {
		delete(m, key)
	}
}

// say logs a line about clients, within a limit per second.
func (s *Server) say(text string, fields ...zap.Field) {
	if left, ok := s.lines.next(time.Now()); ok {
		if left > 0 {
			fields = append(fields, zap.Int("lines_left_out", left))
		}
		s.log.Info(text, fields...)
	}
}

type lineLimit struct {
	mu     sync.Mutex
	second int64
	count  int
}

func (l *lineLimit) next(now time.Time) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if second := now.Unix(); second != l.second {
		leftOut = max(l.count-logLines, 0)
		l.second, l.count = second, 0
	}
	l.count++
	return leftOut, l.count <= logLines
}

// hostsOf gives the host of an address for ACLs, and the one that quotas count: of IPv6 a /64 network.
func hostsOf(addr net.Addr) (host, quota string, local bool) {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return addr.String(), addr.String(), true // in process
	}
	ip := ap.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return ip.String(), p.String(), ip.IsLoopback()
		}
	}
	return ip.String(), ip.String(), ip.IsLoopback()
}
