package wallet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"go.uber.org/zap"
)

// maxSocketPath is what fits a Unix socket's address.
const maxSocketPath = 107

// Server serves a Service on the Unix socket and, if the configuration says so, on a loopback address.
type Server struct {
	cfg     Config
	log     *zap.Logger
	methods *gethrpc.Server
	callers *callers
	socket  net.Listener
	http    *http.Server
	httpURL string
	conns   sync.WaitGroup // connections of the socket
	loops   sync.WaitGroup
	closed  chan struct{}
	once    sync.Once
}

// Serve starts to answer. The service outlives the server.
func Serve(s *Service, version string) (*Server, error) {
	methods, err := methodsOf(s, version)
	if err != nil {
		return nil, err
	}
	v := &Server{cfg: s.cfg, log: s.log, methods: methods, callers: &s.callers, closed: make(chan struct{})}
	if err := v.serveSocket(); err != nil {
		return nil, err
	}
	if s.cfg.HTTP != "" {
		if err := v.serveHTTP(); err != nil {
			v.Close()
			return nil, err
		}
	}
	return v, nil
}

// SocketPath is where the server answers.
func (v *Server) SocketPath() string { return v.cfg.Path(v.cfg.Socket) }

// HTTPURL is the loopback address, or empty.
func (v *Server) HTTPURL() string { return v.httpURL }

// Close ends all connections and removes the socket.
func (v *Server) Close() {
	v.once.Do(func() {
		close(v.closed)
		if v.socket != nil {
			_ = v.socket.Close() // removes the file
		}
		v.methods.Stop()
		if v.http != nil {
			_ = v.http.Close()
		}
	})
	v.loops.Wait()
	v.conns.Wait()
}

func (v *Server) serveSocket() error {
	path := v.SocketPath()
	if len(path) > maxSocketPath {
		return fmt.Errorf("socket %s is longer than %d characters, which the system refuses: set socket to a shorter path", path, maxSocketPath)
	}
	if err := removeDeadSocket(path); err != nil {
		return err
	}
	mask := syscall.Umask(0o177) // from the first moment nobody else may connect
	l, err := net.Listen("unix", path)
	syscall.Umask(mask)
	if err != nil {
		return fmt.Errorf("listen on %s: %w; set socket to another path", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		_ = l.Close()
		return fmt.Errorf("protect the socket %s: %w", path, err)
	}
	v.socket = l
	v.loops.Add(1)
	go v.acceptLoop(&limitListener{Listener: l, places: make(chan struct{}, v.cfg.Connections)})
	return nil
}

// removeDeadSocket removes what a killed daemon left, and nothing else.
func removeDeadSocket(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the socket: %w", err)
	}
	if fi.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s exists and is no socket: move it away, or set socket to another path", path)
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		_ = c.Close()
		return fmt.Errorf("another process answers on %s: stop it, or set socket to another path", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("somebody may answer on %s (%w): remove it if not, or set socket to another path", path, err)
	}
	return os.Remove(path)
}

func (v *Server) acceptLoop(l net.Listener) {
	defer v.loops.Done()
	for {
		c, err := l.Accept()
		if err != nil {
			select {
			case <-v.closed:
				return
			case <-time.After(100 * time.Millisecond): // no file descriptors left, or the like
			}
			if errors.Is(err, net.ErrClosed) {
				v.log.Error("the socket ended: restart borwallet", zap.String("socket", v.SocketPath()), zap.Error(err))
				return
			}
			continue
		}
		v.conns.Add(1)
		go func() {
			defer v.conns.Done()
			name, hangUp := v.callers.add()
			defer v.callers.remove(name)
			v.methods.ServeCodec(gethrpc.NewCodec(&framedConn{Conn: c, name: name, hangUp: hangUp}), 0)
		}()
	}
}

func (v *Server) serveHTTP() error {
	l, err := net.Listen("tcp", v.cfg.HTTP)
	if err != nil {
		return fmt.Errorf("listen on http = %s: %w; choose a free port", v.cfg.HTTP, err)
	}
	if a, ok := l.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() { // localhost may be anything
		_ = l.Close()
		return fmt.Errorf("http = %s is no loopback address: use 127.0.0.1", v.cfg.HTTP)
	}
	if _, err := tokenSecret(v.cfg.Dir, true); err != nil {
		_ = l.Close()
		return fmt.Errorf("secret of the tokens: %w", err)
	}
	v.httpURL = "http://" + l.Addr().String()
	v.http = &http.Server{
		Handler: http.HandlerFunc(v.handle), ReadHeaderTimeout: headerTimeout, ReadTimeout: headerTimeout,
		WriteTimeout: answerTimeout, IdleTimeout: httpIdleTimeout, MaxHeaderBytes: 16 << 10,
	}
	v.loops.Add(1)
	go func() {
		defer v.loops.Done()
		err := v.http.Serve(&limitListener{Listener: l, places: make(chan struct{}, v.cfg.Connections)})
		if !errors.Is(err, http.ErrServerClosed) {
			v.log.Error("the HTTP address ended: restart borwallet", zap.String("http", v.cfg.HTTP), zap.Error(err))
		}
	}()
	return nil
}

// handle lets programs of this host in that hold a token. Pages in a browser have none of its business: they are
// refused by their Origin, and by a Host that is not this one (DNS rebinding).
func (v *Server) handle(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Connection", "close") // who is refused holds no place
	if !loopbackHost(r.Host) {
		http.Error(w, "borwallet answers to 127.0.0.1 and localhost only: use such an address", http.StatusForbidden)
		return
	}
	if r.Header.Get("Origin") != "" {
		http.Error(w, "borwallet does not answer pages in a browser: use a program", http.StatusForbidden)
		return
	}
	if r.Method != http.MethodPost {
		http.Error(w, "borwallet answers JSON-RPC over POST", http.StatusMethodNotAllowed)
		return
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if err := checkToken(v.cfg.Dir, strings.TrimSpace(token), time.Now()); err != nil {
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write(errorLine(err))
		return
	}
	w.Header().Del("Connection")
	v.methods.ServeHTTP(w, r)
}

func loopbackHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	ip := net.ParseIP(strings.Trim(name, "[]"))
	return name == "localhost" || ip != nil && ip.IsLoopback()
}

// errorLine is a JSON-RPC answer to nobody in particular.
func errorLine(err error) []byte {
	code := CodeInternal
	var e *Error
	if errors.As(err, &e) {
		code = e.Code
	}
	line, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": code, "message": err.Error()}})
	return append(line, '\n')
}

// limitListener keeps the number of open connections; who comes above it is closed at once.
type limitListener struct {
	net.Listener
	places chan struct{}
}

func (l *limitListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if u, ok := c.(*net.UnixConn); ok && !ownUser(u) {
			_ = c.Close()
			continue
		}
		select {
		case l.places <- struct{}{}:
			return &placedConn{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
		default:
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			if _, ok := c.(*net.UnixConn); ok {
				_, _ = c.Write(errorLine(fail(-32005, "borwallet has as many connections as it allows (connections): close one, or try again later")))
			}
			_ = c.Close()
		}
	}
}

// ownUser says whether the other end is the daemon's own user, or root.
func ownUser(c *net.UnixConn) bool {
	uid, err := peerUser(c)
	return err == nil && (uid == 0 || int(uid) == os.Geteuid())
}

type placedConn struct {
	net.Conn
	leave func()
}

func (c *placedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}

// framedConn bounds the messages of a stream, and the time between its bytes. It follows the JSON just enough to know
// where a message ends. Whoever closes their side has hung up.
type framedConn struct {
	net.Conn
	name    string // among the callers
	hangUp  func()
	size    int // bytes of the message under way
	depth   int
	quoted  bool
	escaped bool
}

var errTooLong = fail(-32600, "a request may have %d bytes: split it", MaxBody)

func (c *framedConn) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(idleTimeout))
	n, err := c.Conn.Read(b)
	if err != nil {
		c.hangUp()
	}
	for _, ch := range b[:n] {
		c.follow(ch)
		if c.size > MaxBody {
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = c.Write(errorLine(errTooLong))
			return 0, io.EOF
		}
	}
	return n, err
}

// RemoteAddr is the name by which a request is known to be this connection's.
func (c *framedConn) RemoteAddr() string { return c.name }

func (c *framedConn) follow(ch byte) {
	c.size++
	switch {
	case c.escaped:
		c.escaped = false
	case c.quoted:
		c.escaped = ch == '\\'
		c.quoted = ch != '"'
	case ch == '"':
		c.quoted = true
	case ch == '{' || ch == '[':
		c.depth++
	case ch == '}' || ch == ']':
		if c.depth--; c.depth <= 0 {
			c.depth, c.size = 0, 0
		}
	}
}
