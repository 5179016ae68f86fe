package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/proof"
)

// service is what all namespaces share. It has no exported methods, since those of an embedded type would become
// JSON-RPC methods.
type service struct {
	cfg     Config
	back    Backend
	log     *zap.Logger
	signer  types.Signer
	metrics *metrics
	hub     *hub
	index   *logIndex
	filters *filterTable
	conns   *callers

	requests   *gate // requests that work and do not wait
	calls      *gate // executions
	logQueries *gate
	traces     *gate

	secret []byte // of tokens; nil: none are taken

	epochs atomic.Pointer[proof.Follower] // of proofs for those who followed the chain; nil: before the first

	inFlight      *budget // bytes of requests and answers
	subscriptions *budget
	waiters       *budget // calls that wait for a receipt

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Server answers JSON-RPC. Methods run on the goroutine of their request; the server's own goroutines pass events on
// (Run, pendingLoop, syncLoop, one per subscription) and drop idle filters (expireLoop).
type Server struct {
	*service
	public *gethrpc.Server // HTTP and WebSocket
	local  *gethrpc.Server // IPC, and requests with a token

	listeners []net.Listener
	https     []*http.Server
	closed    sync.Once
	httpURL   string
	wsURL     string
}

// New starts to answer on the configured addresses; Run keeps subscribers informed.
func New(cfg Config, back Backend, log *zap.Logger, reg prometheus.Registerer) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if back.Chain == nil || back.Pool == nil {
		return nil, errors.New("rpc needs a chain and a transaction pool")
	}
	if log == nil {
		log = zap.NewNop()
	}
	sv := &service{
		cfg: cfg, back: back, log: log, signer: types.LatestSigner(back.Chain.Config()), metrics: newMetrics(reg),
		hub: newHub(), filters: newFilterTable(cfg.Filters, cfg.FiltersPerHost, cfg.FilterTimeout),
	}
	sv.bound()
	sv.ctx, sv.cancel = context.WithCancel(context.Background())
	sv.waitForRepairs()
	sv.index = newLogIndex(sv.back.Chain)
	s := &Server{service: sv}
	var err error
	if cfg.JWTSecret != "" {
		sv.secret, err = loadSecret(cfg.JWTSecret)
	}
	if err == nil {
		s.public, err = s.methods(cfg.Namespaces)
	}
	if err == nil {
		s.local, err = s.methods(append(slices.Clone(publicNamespaces), "admin"))
	}
	if err == nil && cfg.LogIndex != "" {
		s.index.log, s.index.waits = s.log, func() bool { return back.notReady("") != nil }
		err = s.index.open(cfg.LogIndex)
	}
	if err == nil {
		err = s.listen()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.wg.Add(2)
	go s.pendingLoop()
	go s.expireLoop()
	if s.index.file != nil {
		s.wg.Add(1)
		go s.indexLoop()
	}
	if back.Sync != nil {
		s.wg.Add(1)
		go s.syncLoop()
	}
	return s, nil
}

// bound sets the bounds of cfg.
func (s *service) bound() {
	c := &s.cfg
	cores := runtime.GOMAXPROCS(0)
	if c.CallsPerHost == 0 {
		c.CallsPerHost = max(1, cores/2)
	}
	if c.RequestsPerHost == 0 {
		c.RequestsPerHost = 2 * cores
	}
	s.conns = &callers{byID: make(map[string]*caller)}
	s.requests, s.calls, s.logQueries = newGate(c.Requests, c.RequestsPerHost), newGate(c.Calls, c.CallsPerHost), newGate(c.LogQueries, c.LogQueriesPerHost)
	s.traces = newGate(maxTraces, maxHostTraces)
	s.inFlight = newBudget(int64(c.InFlight), int64(c.InFlightPerHost), minInFlight)
	s.subscriptions = newBudget(int64(c.AllSubscriptions), int64(c.SubscriptionsPerHost), 1)
	s.waiters = newBudget(maxSyncWaiters, maxHostWaiters, 1)
}

// apis are the namespaces, for callers of the Unix socket or others; methods.go has an entry for each of their methods.
func (s *Server) apis(local bool) map[string][]any {
	return map[string][]any{
		"eth": {&ethAPI{s.service}, &syncAPI{s.service}}, "net": {&netAPI{s.service}}, "web3": {&web3API{s.service}},
		"txpool": {&poolAPI{s.service}}, "bor": {&borAPI{s.service}}, "bps": {&bpsAPI{s.service, local}}, "debug": {&debugAPI{s.service}}, "admin": {&adminAPI{s.service}},
	}
}

// methods is a server with the given namespaces.
func (s *Server) methods(namespaces []string) (*gethrpc.Server, error) {
	srv := gethrpc.NewServer()
	srv.SetBatchLimits(s.cfg.BatchItems, s.cfg.BatchBytes)
	srv.SetHTTPBodyLimit(s.cfg.BodyBytes)
	srv.SetWebsocketReadLimit(int64(s.cfg.BodyBytes))
	apis := s.apis(slices.Contains(namespaces, "admin"))
	for _, n := range namespaces {
		for _, api := range apis[n] {
			if err := srv.RegisterName(n, api); err != nil {
				return nil, fmt.Errorf("register namespace %s: %w", n, err)
			}
		}
	}
	return srv, nil
}

func (s *Server) listen() error {
	if s.cfg.HTTPAddr != "" {
		addr, err := s.serveHTTP(s.cfg.HTTPAddr, s.handler(true, s.cfg.WSAddr == ""))
		if err != nil {
			return err
		}
		s.httpURL = "http://" + addr
		if s.cfg.WSAddr == "" {
			s.wsURL = "ws://" + addr
		}
	}
	if s.cfg.WSAddr != "" {
		addr, err := s.serveHTTP(s.cfg.WSAddr, s.handler(false, true))
		if err != nil {
			return err
		}
		s.wsURL = "ws://" + addr
	}
	if s.cfg.IPCPath != "" {
		return s.serveIPC(s.cfg.IPCPath)
	}
	return nil
}

// HTTPURL and WSURL are where the server answers; empty if it does not.
func (s *Server) HTTPURL() string { return s.httpURL }
func (s *Server) WSURL() string   { return s.wsURL }

// Client is a client inside the process, with all namespaces.
func (s *Server) Client() *gethrpc.Client { return gethrpc.DialInProc(s.local) }

// Close ends all connections and waits for the server's goroutines.
func (s *Server) Close() error {
	s.closed.Do(func() {
		s.cancel()
		for _, l := range s.listeners {
			l.Close()
		}
		for _, srv := range []*gethrpc.Server{s.public, s.local} {
			if srv != nil {
				srv.Stop()
			}
		}
		for _, h := range s.https {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			if h.Shutdown(ctx) != nil {
				h.Close()
			}
			cancel()
		}
		s.wg.Wait()
		s.index.close()
	})
	return nil
}

type metrics struct {
	requests    *prometheus.CounterVec
	overflows   prometheus.Counter
	refused     prometheus.Counter
	evicted     prometheus.Counter
	connections prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bornode_rpc_requests_total", Help: "Requests over HTTP, connections over WebSocket."}, []string{"transport"}),
		overflows:   prometheus.NewCounter(prometheus.CounterOpts{Name: "bornode_rpc_slow_subscribers_total", Help: "Connections closed because a subscriber did not keep up."}),
		refused:     prometheus.NewCounter(prometheus.CounterOpts{Name: "bornode_rpc_refused_connections_total", Help: "Connections refused above the limit."}),
		evicted:     prometheus.NewCounter(prometheus.CounterOpts{Name: "bornode_rpc_evicted_connections_total", Help: "Connections closed so that a host with fewer could connect."}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "bornode_rpc_connections", Help: "Open connections."}),
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.overflows, m.refused, m.evicted, m.connections)
	}
	return m
}
