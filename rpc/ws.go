package rpc

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
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

// wsStream is a WebSocket connection. Compression is not offered, so a message is as large as it looks.
type wsStream struct {
	conn    *websocket.Conn
	timeout time.Duration // for the rest of a message that has begun
	inside  atomic.Bool   // a message has begun: pongs between its fragments give it no more time
	done    chan struct{}
}

func (c *wsStream) read(limit int, held *hold) ([]byte, error) {
	c.inside.Store(false)
	_ = c.conn.SetReadDeadline(time.Now().Add(wsSilence))
	c.conn.SetReadLimit(int64(limit))
	_, r, err := c.conn.NextReader()
	if err != nil {
		return nil, err
	}
	c.inside.Store(true)
	_ = c.conn.SetReadDeadline(time.Now().Add(c.timeout))
	return held.read(r)
}

func (c *wsStream) pong(string) error {
	if c.inside.Load() {
		return nil
	}
	return c.conn.SetReadDeadline(time.Now().Add(wsSilence))
}

func (c *wsStream) write(b []byte, deadline time.Time) error {
	_ = c.conn.SetWriteDeadline(deadline)
	return c.conn.WriteMessage(websocket.TextMessage, b)
}

func (c *wsStream) shut(reason string) {
	close(c.done)
	code := websocket.CloseNormalClosure
	if reason != "" {
		code = websocket.CloseTryAgainLater
	}
	_ = c.conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, reason[:min(len(reason), maxCloseText)]), time.Now().Add(wsCloseWait))
	_ = c.conn.Close()
}

// pings keeps the connection alive and ends it when it cannot be written to.
func (c *wsStream) pings(end func(string)) {
	t := time.NewTicker(wsPing)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if c.conn.WriteControl(websocket.PingMessage, nil, time.Now().Add(wsCloseWait)) != nil {
				end("no answer to pings")
				return
			}
		case <-c.done:
			return
		}
	}
}

// serveWS upgrades a request and serves it until it ends.
func (s *Server) serveWS(w http.ResponseWriter, r *http.Request, srv *gethrpc.Server) {
	up := websocket.Upgrader{ReadBufferSize: 4096, WriteBufferSize: 4096, CheckOrigin: func(r *http.Request) bool {
		o := r.Header.Get("Origin")
		return o == "" || originAllowed(s.cfg.Origins, o)
	}}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	s.metrics.requests.WithLabelValues("ws").Inc()
	st := &wsStream{conn: conn, timeout: s.cfg.ReadHeaderTimeout, done: make(chan struct{})}
	conn.SetPongHandler(st.pong)
	c := newWire(s.service, conn.RemoteAddr().String(), hostOf(r.RemoteAddr), st)
	go st.pings(c.close)
	c.serve(srv)
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
