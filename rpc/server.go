package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
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
	conns   *connTable

	calls      chan struct{} // places for executions
	logQueries chan struct{} // places for log queries
	traces     chan struct{} // places for traces, of those for executions

	syncWaiters atomic.Int64 // calls that wait for a receipt

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

// Server answers JSON-RPC. Methods run on the goroutine of their request; the server's own goroutines pass events on
// (Run, pendingLoop, syncLoop, one per subscription) and drop idle filters (expireLoop).
type Server struct {
	*service
	public *gethrpc.Server // HTTP and WebSocket
	local  *gethrpc.Server // IPC

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
		hub: newHub(), index: newLogIndex(back.Chain), filters: newFilterTable(cfg.Filters, cfg.FilterTimeout), conns: newConnTable(),
		calls: make(chan struct{}, cfg.Calls), logQueries: make(chan struct{}, cfg.LogQueries),
		traces: make(chan struct{}, maxTraces),
	}
	sv.ctx, sv.cancel = context.WithCancel(context.Background())
	s := &Server{service: sv}
	var err error
	if s.public, err = s.methods(cfg.Namespaces); err == nil {
		s.local, err = s.methods(append(slices.Clone(publicNamespaces), "admin"))
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
	if back.Sync != nil {
		s.wg.Add(1)
		go s.syncLoop()
	}
	return s, nil
}

// methods is a server with the given namespaces.
func (s *Server) methods(namespaces []string) (*gethrpc.Server, error) {
	srv := gethrpc.NewServer()
	srv.SetBatchLimits(s.cfg.BatchItems, s.cfg.BatchBytes)
	srv.SetHTTPBodyLimit(s.cfg.BodyBytes)
	srv.SetWebsocketReadLimit(int64(s.cfg.BodyBytes))
	apis := map[string][]any{
		"eth": {&ethAPI{s.service}, &syncAPI{s.service}}, "net": {&netAPI{s.service}}, "web3": {&web3API{s.service}},
		"txpool": {&poolAPI{s.service}}, "bor": {&borAPI{s.service}}, "debug": {&debugAPI{s.service}}, "admin": {&adminAPI{s.service}},
	}
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

func (s *Server) serveHTTP(addr string, h http.Handler) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "", fmt.Errorf("listen for JSON-RPC on %s: %w; set rpc.http_addr or rpc.ws_addr to a free address", addr, err)
	}
	l = &limitListener{Listener: l, limit: int64(s.cfg.Connections), metrics: s.metrics, http: true}
	srv := &http.Server{
		Handler: h, ReadHeaderTimeout: s.cfg.ReadHeaderTimeout, ReadTimeout: s.cfg.ReadHeaderTimeout,
		WriteTimeout: s.cfg.WriteTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
	}
	s.listeners, s.https = append(s.listeners, l), append(s.https, srv)
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		if err := srv.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) && s.ctx.Err() == nil { // Close ends the listener first
			s.log.Error("JSON-RPC listener ended", zap.String("addr", addr), zap.Error(err))
		}
	}()
	return l.Addr().String(), nil
}

// handler checks host and origin and leads WebSocket requests and others to their servers.
func (s *Server) handler(plain, ws bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !hostAllowed(s.cfg.VHosts, r.Host) {
			http.Error(w, "the host name "+r.Host+" is not in rpc.vhosts", http.StatusForbidden)
			return
		}
		if websocket.IsWebSocketUpgrade(r) {
			if !ws {
				http.Error(w, "WebSocket is served on rpc.ws_addr", http.StatusBadRequest)
				return
			}
			s.serveWS(w, r)
			return
		}
		if !plain {
			http.Error(w, "this address serves WebSocket only", http.StatusBadRequest)
			return
		}
		if !s.cors(w, r) {
			return
		}
		s.metrics.requests.WithLabelValues("http").Inc()
		s.public.ServeHTTP(w, r)
	})
}

// cors answers preflight requests and marks answers that a page may read; false when the request is done with.
func (s *Server) cors(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin != "" && len(s.cfg.Origins) > 0 && originAllowed(s.cfg.Origins, origin) {
		w.Header().Set("Access-Control-Allow-Origin", origin)
		w.Header().Add("Vary", "Origin")
		w.Header().Set("Access-Control-Allow-Methods", "POST, GET")
		w.Header().Set("Access-Control-Allow-Headers", "Content-Type")
		w.Header().Set("Access-Control-Max-Age", "600")
	}
	if r.Method == http.MethodOptions {
		w.WriteHeader(http.StatusNoContent)
		return false
	}
	return true
}

// hostAllowed guards against DNS rebinding: addresses are always good, names only if they are listed.
func hostAllowed(list []string, host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "" || net.ParseIP(host) != nil || slices.Contains(list, "*") {
		return true
	}
	return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, host) })
}

func (s *Server) serveIPC(path string) error {
	if err := removeStaleSocket(path); err != nil {
		return err
	}
	l, err := net.Listen("unix", path) // removes the socket when it is closed
	if err != nil {
		return fmt.Errorf("listen for JSON-RPC on %s: %w; set rpc.ipc_path", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		l.Close()
		return fmt.Errorf("protect the socket %s: %w", path, err)
	}
	l = &limitListener{Listener: l, limit: int64(s.cfg.Connections), metrics: s.metrics}
	s.listeners = append(s.listeners, l)
	s.wg.Add(1)
	go func() { defer s.wg.Done(); s.acceptIPC(l) }()
	return nil
}

// removeStaleSocket removes the socket that a node left behind when it was killed, and nothing else.
func removeStaleSocket(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at rpc.ipc_path: %w", err)
	}
	if fi.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("rpc.ipc_path %s exists and is no socket; choose another path, or remove it", path)
	}
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		c.Close()
		return fmt.Errorf("rpc.ipc_path %s: another process answers there; choose another path, or stop it", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the old socket %s: %w", path, err)
	}
	return nil
}

// acceptIPC serves connections until the listener is closed. Other errors (no file descriptors left) pass.
func (s *Server) acceptIPC(l net.Listener) {
	wait := minAcceptWait
	for n := uint64(1); ; {
		conn, err := l.Accept()
		switch {
		case err == nil:
			wait = minAcceptWait
			c := &ipcConn{Conn: conn, id: fmt.Sprintf("ipc-%d", n)}
			n++
			s.conns.add(c.id, func(string) { c.Close() })
			go func() {
				defer s.conns.remove(c.id)
				s.local.ServeCodec(gethrpc.NewCodec(c), 0)
			}()
			continue
		case s.ctx.Err() != nil:
			return
		case errors.Is(err, net.ErrClosed):
			s.log.Error("JSON-RPC socket ended", zap.String("addr", s.cfg.IPCPath), zap.Error(err))
			return
		}
		s.log.Warn("JSON-RPC socket cannot take a connection; it tries again", zap.String("addr", s.cfg.IPCPath), zap.Error(err))
		select {
		case <-time.After(wait):
			wait = min(2*wait, maxAcceptWait)
		case <-s.ctx.Done():
			return
		}
	}
}

// ipcConn gives a Unix connection a name of its own: its remote address is empty.
type ipcConn struct {
	net.Conn
	id string
}

func (c *ipcConn) RemoteAddr() string { return c.id }

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
	})
	return nil
}

// limitListener refuses connections above the limit with a sentence, instead of letting them wait unanswered.
type limitListener struct {
	net.Listener
	limit   int64
	open    atomic.Int64
	metrics *metrics
	http    bool
}

func (l *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.limit {
			l.metrics.connections.Inc()
			return &countedConn{Conn: c, l: l}, nil
		}
		l.open.Add(-1)
		l.metrics.refused.Inc()
		if l.http {
			const text = "this node has as many connections as it allows (rpc.connections); try again later\n"
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		}
		c.Close()
	}
}

type countedConn struct {
	net.Conn
	l    *limitListener
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.l.open.Add(-1); c.l.metrics.connections.Dec() })
	return c.Conn.Close()
}

type metrics struct {
	requests    *prometheus.CounterVec
	overflows   prometheus.Counter
	refused     prometheus.Counter
	connections prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		requests:    prometheus.NewCounterVec(prometheus.CounterOpts{Name: "bornode_rpc_requests_total", Help: "Requests over HTTP, connections over WebSocket."}, []string{"transport"}),
		overflows:   prometheus.NewCounter(prometheus.CounterOpts{Name: "bornode_rpc_slow_subscribers_total", Help: "Connections closed because a subscriber did not keep up."}),
		refused:     prometheus.NewCounter(prometheus.CounterOpts{Name: "bornode_rpc_refused_connections_total", Help: "Connections refused above the limit."}),
		connections: prometheus.NewGauge(prometheus.GaugeOpts{Name: "bornode_rpc_connections", Help: "Open connections."}),
	}
	if reg != nil {
		reg.MustRegister(m.requests, m.overflows, m.refused, m.connections)
	}
	return m
}
