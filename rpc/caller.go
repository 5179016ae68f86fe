package rpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// unknown is the host of those whose address is not known: no host of its own, but not local either.
const unknown = "?"

// hostOf is whose quotas a remote address uses: the IPv4 address, or the /64 network of an IPv6 address, since one
// machine has all of that.
func hostOf(remote string) string {
	h, _, err := net.SplitHostPort(remote)
	if err != nil {
		h = remote
	}
	a, err := netip.ParseAddr(h)
	if err != nil {
		return unknown
	}
	if a = a.Unmap().WithZone(""); a.Is6() && !a.IsLoopback() {
		if p, err := a.Prefix(64); err == nil {
			return p.String()
		}
	}
	return a.String()
}

// caller is one connection (of HTTP: one request) and what it holds. A request works while it has one of the host's
// places; it gives the place up while it waits for something else, so that waiting costs no other request.
type caller struct {
	id, host string
	s        *service
	ctx      context.Context // ends with the connection: go-ethereum's own goes on until all calls have returned
	cancel   context.CancelFunc
	end      func(reason string) // closes the connection and tells why; nil for HTTP

	mu            sync.Mutex
	ended         bool
	places        int     // held
	requests      []int64 // bytes of the requests not answered yet
	subscriptions int
	submissions   []submission                 // answers of the pool to transactions of this batch whose calls have not begun
	starting      map[gethrpc.ID]chan struct{} // subscriptions whose id the client does not know yet
}

var errGone = errors.New("the connection is closed")

// newCaller gives the connection an id of its own: a client can be connected with one port to several of the node's
// addresses at the same time.
func (s *service) newCaller(remote, host string, end func(string)) *caller {
	id := fmt.Sprintf("%s#%d", remote, s.conns.last.Add(1))
	c := &caller{id: id, host: host, s: s, end: end, starting: make(map[gethrpc.ID]chan struct{})}
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	return c
}

// begin takes a place for a request whose size bytes are reserved already; answered gives both back.
func (c *caller) begin(ctx context.Context, size int64) error {
	if err := c.s.requests.enter(ctx, c.host); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		c.s.requests.leave(c.host)
		return errGone
	}
	c.places++
	c.requests = append(c.requests, size)
	return nil
}

// answered ends a request: its answer is encoded. Which one of the connection's it is cannot be told, so the smallest is
// given back: never is less counted than is held.
func (c *caller) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.requests) > 0 {
		c.drop(slices.Min(c.requests))
	}
	c.dropPlace()
}

// over ends a request of size bytes that gets no answer. An answer may have given back this one's for its own, which is
// then the smallest that is left of this size or more.
func (c *caller) over(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	least := int64(-1)
	for _, n := range c.requests {
		if n >= size && (least < 0 || n < least) {
			least = n
		}
	}
	c.drop(least)
	c.dropPlace()
}

// drop gives back a request's bytes; c.mu is held.
func (c *caller) drop(size int64) {
	if i := slices.Index(c.requests, size); i >= 0 {
		c.requests = slices.Delete(c.requests, i, i+1)
		c.s.inFlight.give(c.host, size)
	}
}

func (c *caller) dropPlace() bool {
	if c.places == 0 {
		return false
	}
	c.places--
	c.s.requests.leave(c.host)
	return true
}

// wait runs f, which waits for something, without the request's place.
func (c *caller) wait(f func() error) error {
	if c == nil {
		return f()
	}
	c.mu.Lock()
	had := c.dropPlace()
	c.mu.Unlock()
	err := f()
	if had && err != nil {
		c.resume()
	}
	return err
}

// resume takes the request's place again after wait.
func (c *caller) resume() {
	if c == nil || c.s.requests.enter(c.ctx, c.host) != nil {
		return // the connection has gone; what is left to do is little
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.requests) <= c.places { // ended or answered meanwhile (a time-out)
		c.s.requests.leave(c.host)
		return
	}
	c.places++
}

// finish gives back what is left when the connection has ended.
func (c *caller) finish() {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, n := range c.requests {
		c.s.inFlight.give(c.host, n)
	}
	c.requests = nil
	for c.dropPlace() {
	}
}

// subscribe counts a subscription in, unsubscribe out.
func (c *caller) subscribe() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subscriptions >= c.s.cfg.Subscriptions {
		return limitExceeded("this connection has %d subscriptions, as many as this node allows", c.s.cfg.Subscriptions)
	}
	if !c.s.subscriptions.take(c.host, 1) {
		return limitExceeded("this address has %d subscriptions (rpc.subscriptions_per_host), or all clients %d (rpc.subscriptions), as many as this node allows; unsubscribe from some",
			c.s.cfg.SubscriptionsPerHost, c.s.cfg.AllSubscriptions)
	}
	c.subscriptions++
	return nil
}

func (c *caller) unsubscribe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscriptions--
	c.s.subscriptions.give(c.host, 1)
}

// announced is closed once the client knows the subscription. Until then go-ethereum keeps notifications without bound.
func (c *caller) announced(id gethrpc.ID) <-chan struct{} {
	ch := make(chan struct{})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starting[id] = ch
	return ch
}

func (c *caller) forget(id gethrpc.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.starting, id)
}

// sent tells the subscriptions whose ids are in an answer.
func (c *caller) sent(answer []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, ch := range c.starting {
		if bytes.Contains(answer, []byte(`"`+id+`"`)) {
			close(ch)
			delete(c.starting, id)
		}
	}
}

// callers knows all connections by what a method learns of its caller: the id, given to go-ethereum as remote address.
type callers struct {
	last atomic.Uint64 // the newest caller's number

	mu   sync.Mutex
	byID map[string]*caller
}

func (t *callers) add(c *caller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byID[c.id] = c
}

func (t *callers) remove(c *caller) {
	t.mu.Lock()
	if t.byID[c.id] == c {
		delete(t.byID, c.id)
	}
	t.mu.Unlock()
	c.finish()
}

// caller is who calls a method; nil inside the process.
func (s *service) caller(ctx context.Context) *caller {
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	return s.conns.byID[gethrpc.PeerInfoFromContext(ctx).RemoteAddr]
}

// host is whose quotas a call uses.
func (s *service) host(ctx context.Context) string {
	if c := s.caller(ctx); c != nil {
		return c.host
	}
	if gethrpc.PeerInfoFromContext(ctx).RemoteAddr != "" {
		return unknown
	}
	return local // a client inside the process
}

// enter waits for a place in a gate until ctx or the connection ends. The function gives the place back.
func (s *service) enter(ctx context.Context, g *gate) (func(), error) {
	c, host := s.caller(ctx), s.host(ctx)
	if c != nil {
		if c.ctx.Err() != nil {
			return nil, errGone
		}
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
	}
	if err := c.wait(func() error { return g.enter(ctx, host) }); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { g.leave(host); c.resume() }), nil
}

// enterCall waits for one of the places for executions, but no longer than a call may take.
func (s *service) enterCall(ctx context.Context) (func(), error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	release, err := s.enter(ctx, s.calls)
	if err != nil {
		return nil, limitExceeded("the node executes %d calls of this address already (rpc.calls_per_host), or %d of all (rpc.calls); try again", s.calls.perHost, s.calls.places)
	}
	return release, nil
}

// enterWait counts a call that waits for events. The context ends with the connection too; the function counts it out.
func (s *service) enterWait(ctx context.Context) (context.Context, func(), error) {
	c, host := s.caller(ctx), s.host(ctx)
	if !s.waiters.take(host, 1) {
		return nil, nil, limitExceeded("%d transactions of this address are waited for already, or %d of all; use eth_sendRawTransaction and ask for the receipt", maxHostWaiters, maxSyncWaiters)
	}
	ctx, cancel := context.WithCancel(ctx)
	stop := func() bool { return true }
	if c != nil {
		stop = context.AfterFunc(c.ctx, cancel)
	}
	_ = c.wait(func() error { return nil }) // without a place from here on
	return ctx, sync.OnceFunc(func() {
		stop()
		cancel()
		s.waiters.give(host, 1)
		c.resume()
	}), nil
}
