package kafka

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestConnectionsOfAHostAreLimited(t *testing.T) {
	r := start(t, nil, func(c *Config) { c.ConnectionsPerHost = 2 })
	one, two := dial(t, r), dial(t, r)
	one.versions(0)
	two.versions(0)
	dial(t, r).expectClosed()
	require.NoError(t, one.Close())
	require.Eventually(t, func() bool { // its place is free again
		c, err := net.Dial("tcp", r.addr)
		require.NoError(t, err)
		defer c.Close()
		_, _ = c.Write(new(kmsg.RequestFormatter).AppendRequest(nil, kmsg.NewPtrApiVersionsRequest(), 1))
		_, err = c.Read(make([]byte, 1))
		return err == nil
	}, 60*time.Second, 5*time.Millisecond)
}

func TestWhoIsNotLoggedInMakesRoom(t *testing.T) {
	r := start(t, &passwords{}, func(c *Config) { c.Connections = 3 })
	member := dial(t, r)
	require.Zero(t, member.logIn("me").ErrorCode)
	oldest := dial(t, r)
	oldest.versions(0)
	newer := dial(t, r)
	newer.versions(0)
	next := dial(t, r)
	require.Zero(t, next.logIn("you").ErrorCode)
	oldest.expectClosed()
	member.ask(listOffsets())
	require.Zero(t, newer.logIn("she").ErrorCode)
	dial(t, r).expectClosed() // all are in use by clients that are logged in
	newer.ask(listOffsets())
}

// Idle sockets of a host take no place from a client of the same host that logs in, as they take none of all places.
func TestIdleSocketsOfAHostMakeRoom(t *testing.T) {
	const host, other = "127.0.0.2", "127.0.0.3"
	r := start(t, &passwords{}, func(c *Config) { c.ConnectionsPerHost = 3 })
	idle := func(from string) *raw { // it is counted when it is answered
		c := dialFrom(t, r, from)
		c.versions(0)
		return c
	}
	in := func(user string) *raw {
		c := dialFrom(t, r, host)
		require.Zero(t, c.logIn(user).ErrorCode)
		return c
	}
	elsewhere := idle(other)
	member, guest := in("me"), in("guest")
	oldest := idle(host)
	newer := idle(host)
	oldest.expectClosed()
	honest := in("you")
	newer.expectClosed()
	member.ask(listOffsets())
	guest.ask(listOffsets())
	she := in("she")
	guest.expectClosed() // there is no idle one left, and a guest is whoever wants to be one
	dialFrom(t, r, host).expectClosed()
	for _, c := range []*raw{member, honest, she} { // none of them made room for one that did not log in
		c.ask(listOffsets())
	}
	elsewhere.versions(0) // nor did another host's
}

// A host that opens sockets without end keeps nobody at its address from logging in.
func TestAFloodOfIdleSocketsKeepsNobodyOut(t *testing.T) {
	const host, most = "127.0.0.2", 8
	r := start(t, &passwords{}, func(c *Config) { c.ConnectionsPerHost = most })
	flood := func() {
		for range 4 * most {
			dialFrom(t, r, host).versions(0) // it is counted when it is answered
		}
	}
	flood()
	for k := range 3 {
		c := dialFrom(t, r, host)
		require.Zero(t, c.logIn(fmt.Sprint("user", k)).ErrorCode)
		flood()
		c.ask(listOffsets())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	require.LessOrEqual(t, r.hosts[host], most)
}

// Whom anybody can be takes no place for ever, logged in or not.
func TestGuestsMakeRoom(t *testing.T) {
	auth := &passwords{}
	r := start(t, auth, func(c *Config) { c.Connections = 3 })
	in := func(user string) *raw { // one after the other: the server takes in those that connect together in any order
		c := dial(t, r)
		require.Zero(t, c.logIn(user).ErrorCode)
		return c
	}
	first, member, second := in("guest"), in("me"), in("guest")
	require.Zero(t, dial(t, r).logIn("you").ErrorCode)
	first.expectClosed()
	second.ask(listOffsets())
	auth.mu.Lock()
	auth.known = true
	auth.mu.Unlock()
	require.Zero(t, second.logIn("guest").ErrorCode)
	dial(t, r).expectClosed() // the second is no guest any more
	second.ask(listOffsets())
	member.ask(listOffsets())
}

func TestConnectionsOfAPrincipalAreLimited(t *testing.T) {
	r := start(t, &passwords{}, func(c *Config) { c.ConnectionsPerClient = 1 })
	one := dial(t, r)
	require.Zero(t, one.logIn("me").ErrorCode)
	require.Zero(t, one.logIn("me").ErrorCode, "to log in again takes no second place")
	two := dial(t, r)
	resp := two.logIn("me")
	require.Equal(t, kerr.SaslAuthenticationFailed.Code, resp.ErrorCode)
	require.Contains(t, *resp.ErrorMessage, "1 connections")
	require.Zero(t, dial(t, r).logIn("you").ErrorCode)
	require.NoError(t, one.Close())
	require.Eventually(t, func() bool { return dial(t, r).logIn("me").ErrorCode == 0 }, 60*time.Second, 5*time.Millisecond)
}

func TestBudgetSharesMemory(t *testing.T) {
	ctx := context.Background()
	waited := 0
	waits := func() { waited++ }
	b := newBudget(100, 50)
	require.NoError(t, b.take(ctx, "a", 50, waits))
	got := make(chan string, 10)
	later := func(who string, n int64) {
		before := b.waitingNow()
		go func() {
			if b.take(ctx, who, n, func() {}) == nil {
				got <- fmt.Sprint(who, n)
			}
		}()
		require.Eventually(t, func() bool { return b.waitingNow() == before+1 }, 60*time.Second, time.Millisecond)
	}
	later("a", 10)                                  // at its share
	require.NoError(t, b.take(ctx, "b", 40, waits)) // does not hold up b
	later("c", 20)                                  // for whom there is no room
	later("d", 5)                                   // and who must not overtake c, though there is room
	require.Zero(t, waited)
	b.put("b", 5)
	require.Equal(t, 3, b.waitingNow(), "d is behind c still")
	b.put("b", 5)
	require.Equal(t, "c20", <-got)
	b.put("b", 5)
	require.Equal(t, "d5", <-got)
	b.put("a", 10)
	require.Equal(t, "a10", <-got)

	short, cancel := context.WithCancel(ctx) // one who gives up frees the way
	gone := make(chan error, 1)
	go func() { gone <- b.take(short, "e", 50, func() {}) }()
	require.Eventually(t, func() bool { return b.waitingNow() == 1 }, 60*time.Second, time.Millisecond)
	b.put("c", 15)
	later("f", 10)
	cancel()
	require.ErrorIs(t, <-gone, context.Canceled)
	require.Equal(t, "f10", <-got)

	require.Equal(t, int64(5), b.upTo("g", 30, 2), "what is left")
	require.Equal(t, int64(2), b.upTo("h", 30, 2), "the least, though nothing is left")
	require.Equal(t, int64(1), b.upTo("h", 1, 2))
	for who, n := range map[string]int64{"a": 50, "b": 25, "c": 5, "d": 5, "f": 10, "g": 5, "h": 3} {
		b.put(who, n)
	}
	require.Zero(t, b.inUse(100))
	require.Empty(t, b.held)
}

func (b *budget) waitingNow() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting.Len()
}

// Many clients that announce large requests: no more memory than the budget is taken, small requests of others are
// served all the while, and all large ones come through.
func TestLargeRequestsWaitUnreadForMemory(t *testing.T) {
	const frame, clients = 1 << 20, 24
	r := start(t, &passwords{}, func(c *Config) { c.FrameBytes = frame })
	r.requests = newBudget(8*frame, 6*frame) // three large ones, at twice their size
	hold, seen := make(chan struct{}), make(chan struct{}, clients)
	r.h.served = func(_ *Conn, req kmsg.Request) (Reply, bool) {
		p, ok := req.(*kmsg.ProduceRequest)
		if !ok {
			return nil, false
		}
		seen <- struct{}{}
		return func(ctx context.Context) kmsg.Response {
			select {
			case <-hold:
			case <-ctx.Done():
			}
			return Refuse(p, kerr.NotLeaderForPartition, "")
		}, true
	}
	conns := make([]*raw, clients)
	done := make(chan struct{}, clients)
	for k := range conns {
		c := dial(t, r)
		require.Zero(t, c.logIn(fmt.Sprint("user", k)).ErrorCode)
		conns[k] = c
		go func() {
			defer func() { done <- struct{}{} }()
			_, _ = c.Write(new(kmsg.RequestFormatter).AppendRequest(nil, produceOf(9, 1, "acme.a", someBatch(frame-1000)), 1))
		}()
	}
	for range 4 {
		<-seen
	}
	require.LessOrEqual(t, r.requests.inUse(8*frame), int64(8*frame))
	small := dial(t, r)
	require.Zero(t, small.logIn("small").ErrorCode)
	small.ask(listOffsets())
	require.Empty(t, seen, "four fit")
	close(hold)
	for _, c := range conns {
		c.read()
		<-done
	}
	require.Eventually(t, func() bool { return r.requests.inUse(8*frame) == 0 }, 60*time.Second, time.Millisecond)
}

func TestAThousandConnections(t *testing.T) {
	r := start(t, &passwords{}, nil)
	const n = 1000
	conns := make([]*raw, n)
	for k := range conns {
		conns[k] = dial(t, r)
		require.Zero(t, conns[k].logIn(fmt.Sprint("user", k%50)).ErrorCode)
	}
	for range 3 {
		for _, c := range conns {
			c.send(listOffsets())
		}
		for _, c := range conns {
			c.read()
		}
	}
	r.mu.Lock()
	require.Len(t, r.open, n)
	r.mu.Unlock()
	r.stop() // all goroutines end with it
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.open)
	require.Empty(t, r.hosts)
	require.Empty(t, r.principals)
	require.Equal(t, n, r.h.closed)
}

func TestConfigNamesWhatCannotWork(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"pubsub.kafka.listen is empty":   func(c *Config) { c.Listen = nil },
		"write it as tls://host:port":    func(c *Config) { c.Listen = []string{"0.0.0.0:9093"} },
		"missing port":                   func(c *Config) { c.Listen = []string{"plain://127.0.0.1"} },
		"set allow_plain":                func(c *Config) { c.Listen = []string{"plain://0.0.0.0:9092"} },
		"connections_per_principal":      func(c *Config) { c.ConnectionsPerClient = 0 },
		"frame_bytes":                    func(c *Config) { c.FrameBytes = 1 },
		"request_memory":                 func(c *Config) { c.FrameBytes = 1 << 30 },
		"pubsub.kafka.session_time":      func(c *Config) { c.SessionTime = 0 },
		"set cert_file and key_file too": func(c *Config) { c.Listen = []string{"tls://[::]:9093"} },
	} {
		cfg := DefaultConfig()
		cfg.Listen = []string{"plain://127.0.0.1:0", "plain://[::1]:0", "plain://localhost:0"}
		require.NoError(t, cfg.Validate())
		change(&cfg)
		require.ErrorContains(t, cfg.Validate(), want)
	}
	cfg := DefaultConfig()
	cfg.Listen, cfg.AllowPlain = []string{"plain://0.0.0.0:9092"}, true
	require.NoError(t, cfg.Validate())
}

// Clients that are not logged in hold nothing of the memory that those who are share.
func TestStrangersHaveMemoryOfTheirOwn(t *testing.T) {
	r := start(t, &passwords{}, nil)
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	c := newConn(context.Background(), r.Server, here, schemePlain)
	defer c.cancel()
	one, two := &exchange{who: "x", cost: 5}, &exchange{who: "x", cost: maxLoginFrame * controlFactor}
	require.NoError(t, c.reserve(one, maxLoginFrame))
	require.NoError(t, c.reserve(two, maxLoginFrame))
	require.Nil(t, one.from)
	require.Same(t, r.strangers, two.from)
	require.Zero(t, r.requests.inUse(int64(r.cfg.RequestMemory)))
	c.session.Store(&Session{Principal: "x"})
	three := &exchange{who: "x", cost: 7}
	require.NoError(t, c.reserve(three, maxLoginFrame))
	require.Same(t, r.requests, three.from)
	for _, x := range []*exchange{one, two, three} {
		c.release(x)
	}
	require.Zero(t, c.ownUsed.Load())
	require.Zero(t, r.strangers.inUse(strangerMemory))
	require.Zero(t, r.requests.inUse(int64(r.cfg.RequestMemory)))
}
