package proxy

import (
	"net"
	"sync"
	"time"
)

// conn is one proxied connection: in was accepted, out was dialled.
type conn struct {
	route Route
	in    *net.TCPConn

	mu     sync.Mutex
	out    *net.TCPConn
	closed bool
}

func (c *conn) pair() pair { return pairOf(c.route.From, c.route.To) }

func (c *conn) attach(out *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = out.Close()
		return false
	}
	c.out = out
	return true
}

// reset closes both sides with RST, as a crashed host's kernel would.
func (c *conn) reset() { c.end(true) }
func (c *conn) close() { c.end(false) }

func (c *conn) end(hard bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	for _, x := range []*net.TCPConn{c.in, c.out} {
		if x == nil {
			continue
		}
		if hard {
			_ = x.SetLinger(0)
		}
		_ = x.Close()
	}
}

type chunk struct {
	due  time.Time
	data []byte
}

// pump moves one direction until an error, then ends the connection. A reader goroutine stamps chunks, this one waits
// for their time and for the rule.
func (p *Proxy) pump(c *conn, src, dst *net.TCPConn, from, to int) {
	defer c.close()
	chunks := make(chan chunk, maxDelayedBytes/chunkBytes)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer c.close() // ends the reader
	stop := make(chan struct{})
	defer close(stop)
	reader.Go(func() {
		defer close(chunks)
		for {
			buf := make([]byte, chunkBytes)
			n, err := src.Read(buf)
			if n > 0 {
				rule, _ := p.rule(from, to)
				select {
				case chunks <- chunk{time.Now().Add(rule.Delay), buf[:n]}:
				case <-stop:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	for ch := range chunks {
		if wait := time.Until(ch.due); wait > 0 {
			t := time.NewTimer(wait)
			select {
			case <-t.C:
			case <-p.ctx.Done():
				t.Stop()
				return
			}
		}
		if !p.await(from, to) {
			return
		}
		if _, err := dst.Write(ch.data); err != nil {
			return
		}
	}
}
