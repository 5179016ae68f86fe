package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/gorilla/websocket"
)

const (
	wsPing       = 30 * time.Second
	wsSilence    = 90 * time.Second // without a pong or message for this long the connection is dead
	wsCloseWait  = 5 * time.Second
	maxCloseText = 120 // bytes of a WebSocket close reason (RFC 6455: 125 with the code)
)

// connTable knows the connections that can hold subscriptions, by remote address: what a method learns of its caller.
type connTable struct {
	mu    sync.Mutex
	conns map[string]*connEntry
}

type connEntry struct {
	subscriptions int
	close         func(reason string)
}

func newConnTable() *connTable { return &connTable{conns: make(map[string]*connEntry)} }

func (t *connTable) add(peer string, closer func(string)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.conns[peer] = &connEntry{close: closer}
}

func (t *connTable) remove(peer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, peer)
}

// enter counts a subscription; false if the connection has enough.
func (t *connTable) enter(peer string, limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.conns[peer]
	if e == nil {
		return false // closed meanwhile
	}
	if e.subscriptions >= limit {
		return false
	}
	e.subscriptions++
	return true
}

func (t *connTable) leave(peer string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.conns[peer]; e != nil {
		e.subscriptions--
	}
}

// close ends a connection with a reason.
func (t *connTable) close(peer, reason string) {
	t.mu.Lock()
	e := t.conns[peer]
	t.mu.Unlock()
	if e != nil {
		e.close(reason)
	}
}

// wsConn is a WebSocket connection as go-ethereum's codec takes it; closing it tells the client why.
type wsConn struct {
	*websocket.Conn
	id   string
	once sync.Once
	done chan struct{}
}

func (c *wsConn) RemoteAddr() string { return c.id }

func (c *wsConn) Close() error {
	c.end(websocket.CloseNormalClosure, "")
	return nil
}

func (c *wsConn) end(code int, reason string) {
	c.once.Do(func() {
		close(c.done)
		if len(reason) > maxCloseText {
			reason = reason[:maxCloseText]
		}
		_ = c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason), time.Now().Add(wsCloseWait))
		_ = c.Conn.Close()
	})
}

// pings keeps the connection alive and ends it when the client is silent.
func (c *wsConn) pings() {
	t := time.NewTicker(wsPing)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if c.WriteControl(websocket.PingMessage, nil, time.Now().Add(wsCloseWait)) != nil {
				c.end(websocket.CloseGoingAway, "no answer to pings")
				return
			}
		case <-c.done:
			return
		}
	}
}

func (c *wsConn) write(v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	return c.WriteMessage(websocket.TextMessage, bytes.TrimSuffix(buf.Bytes(), []byte("\n")))
}

func (c *wsConn) read(v any) error {
	_, b, err := c.ReadMessage()
	if err != nil {
		return err
	}
	_ = c.SetReadDeadline(time.Now().Add(wsSilence))
	return json.Unmarshal(b, v)
}

// codecOf builds the codec. C and M are go-ethereum's connection and message types, which it does not export.
func codecOf[C, M any](c *wsConn, build func(C, func(context.Context, *M, bool) error, func(context.Context, []*M, bool) error, func(any) error) gethrpc.ServerCodec) gethrpc.ServerCodec {
	conn, ok := any(c).(C)
	if !ok {
		panic("rpc: go-ethereum's codec wants more of a connection than Close and SetWriteDeadline")
	}
	return build(conn,
		func(_ context.Context, m *M, _ bool) error { return c.write(m) },
		func(_ context.Context, ms []*M, _ bool) error { return c.write(ms) }, c.read)
}

// serveWS upgrades a request and serves it until it ends.
func (s *Server) serveWS(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{ReadBufferSize: 4096, WriteBufferSize: 4096, CheckOrigin: func(r *http.Request) bool {
		o := r.Header.Get("Origin")
		return o == "" || originAllowed(s.cfg.Origins, o)
	}}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	s.metrics.requests.WithLabelValues("ws").Inc()
	conn.SetReadLimit(int64(s.cfg.BodyBytes))
	c := &wsConn{Conn: conn, id: conn.RemoteAddr().String(), done: make(chan struct{})}
	_ = conn.SetReadDeadline(time.Now().Add(wsSilence))
	conn.SetPongHandler(func(string) error { return conn.SetReadDeadline(time.Now().Add(wsSilence)) })
	s.conns.add(c.id, func(reason string) { c.end(websocket.CloseTryAgainLater, reason) })
	defer s.conns.remove(c.id)
	go c.pings()
	s.public.ServeCodec(codecOf(c, gethrpc.NewFuncCodec), 0)
}

// originAllowed reports whether a page of this origin may call. Without a list only pages of this host may.
func originAllowed(list []string, origin string) bool {
	if slices.Contains(list, "*") {
		return true
	}
	if len(list) == 0 {
		u, err := url.Parse(origin)
		return err == nil && (u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback())
	}
	return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, origin) })
}
