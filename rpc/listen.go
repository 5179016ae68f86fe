package rpc

import (
	"fmt"
	"net"
	"sync"
	"time"
)

// limitListener bounds the open connections of all hosts together and of each. A host above its own limit is refused
// with a sentence, instead of waiting unanswered. When all are in use, a host with fewer takes the newest connection of
// the host with most, so that a few hosts cannot keep others out.
type limitListener struct {
	net.Listener
	limit, perHost int
	metrics        *metrics
	http           bool

	mu    sync.Mutex
	open  int
	hosts map[string][]*countedConn
}

func newLimitListener(l net.Listener, limit, perHost int, m *metrics, http bool) *limitListener {
	return &limitListener{Listener: l, limit: limit, perHost: perHost, metrics: m, http: http, hosts: make(map[string][]*countedConn)}
}

func (l *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &countedConn{Conn: conn, l: l, host: local}
		if l.http {
			c.host = hostOf(conn.RemoteAddr().String())
		}
		loser, ok := l.admit(c)
		if loser != nil {
			l.metrics.evicted.Inc()
			_ = loser.Conn.Close() // its server notices and closes it in full
		}
		if ok {
			l.metrics.connections.Inc()
			return c, nil
		}
		l.metrics.refused.Inc()
		if l.http {
			const text = "this node has as many connections as it allows (rpc.connections, rpc.connections_per_host); try again later\n"
			_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		}
		conn.Close()
	}
}

// admit counts a connection in if there is room, or if loser makes room.
func (l *limitListener) admit(c *countedConn) (loser *countedConn, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := len(l.hosts[c.host])
	if own >= l.perHost {
		return nil, false
	}
	if l.open >= l.limit {
		var most []*countedConn
		for _, cs := range l.hosts {
			if len(cs) > len(most) {
				most = cs
			}
		}
		if len(most) <= own+1 {
			return nil, false
		}
		loser = most[len(most)-1]
		l.drop(loser)
	}
	l.open++
	l.hosts[c.host] = append(l.hosts[c.host], c)
	return loser, true
}

// drop counts a connection out, once; l.mu is held.
func (l *limitListener) drop(c *countedConn) {
	if c.dropped {
		return
	}
	c.dropped = true
	l.open--
	l.metrics.connections.Dec()
	cs := l.hosts[c.host]
	for i, x := range cs {
		if x == c {
			l.hosts[c.host] = append(cs[:i], cs[i+1:]...)
			break
		}
	}
	if len(l.hosts[c.host]) == 0 {
		delete(l.hosts, c.host)
	}
}

type countedConn struct {
	net.Conn
	l       *limitListener
	host    string
	dropped bool // l.mu
}

func (c *countedConn) Close() error {
	c.l.mu.Lock()
	c.l.drop(c)
	c.l.mu.Unlock()
	return c.Conn.Close()
}
