package rpc

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// from dials from a loopback address of its own: another host to the server.
func from(ip string) *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
}

// flood is an attack in progress: goroutines and connections that end with it.
type flood struct {
	n    *testNet
	ip   string
	ctx  context.Context
	wg   *sync.WaitGroup
	mu   *sync.Mutex
	open *[]io.Closer
}

func (f *flood) host() string { return strings.TrimPrefix(f.n.srv.HTTPURL(), "http://") }

func (f *flood) go_(work func()) {
	f.wg.Add(1)
	go func() { defer f.wg.Done(); work() }()
}

// dial is a raw connection; nil if it was refused.
func (f *flood) dial() net.Conn {
	c, err := from(f.ip).DialContext(f.ctx, "tcp", f.host())
	if err != nil {
		return nil
	}
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetReadBuffer(4096) // what is not read waits at the server
	}
	f.keep(c)
	return c
}

func (f *flood) keep(c io.Closer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*f.open = append(*f.open, c)
}

func (f *flood) ws() *websocket.Conn {
	d := websocket.Dialer{NetDialContext: func(context.Context, string, string) (net.Conn, error) {
		if c := f.dial(); c != nil {
			return c, nil
		}
		return nil, net.ErrClosed
	}}
	c, _, err := d.DialContext(f.ctx, f.n.srv.WSURL(), nil)
	if err != nil {
		return nil
	}
	return c
}

// post sends a request and reads the answer only if asked to.
func (f *flood) post(c net.Conn, body string, read bool) error {
	if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body); err != nil || !read {
		return err
	}
	_, err := c.Read(make([]byte, 1<<16))
	return err
}

func repeated(k int, call string) string {
	return "[" + strings.TrimSuffix(strings.Repeat(call+",", k), ",") + "]"
}

const (
	// burning runs until its gas is used up.
	burning = `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"0x00000000000000000000000000000000000000ff","gas":"0x2faf080"},"latest",{"0x00000000000000000000000000000000000000ff":{"code":"0x5b600056"}}]}`
	allLogs = `{"jsonrpc":"2.0","id":1,"method":"eth_getLogs","params":[{"fromBlock":"0x0"}]}`
	allFees = `{"jsonrpc":"2.0","id":1,"method":"eth_feeHistory","params":["0x400","latest",[50]]}`
	large   = `{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x2",true]}`
)

// many runs work on so many connections of the attacker at the same time, again and again.
func many(conns int, work func(f *flood, c net.Conn) error) func(*flood) {
	return func(f *flood) {
		for range conns {
			f.go_(func() {
				for f.ctx.Err() == nil {
					c := f.dial()
					if c == nil {
						continue
					}
					for f.ctx.Err() == nil && work(f, c) == nil {
					}
					c.Close()
				}
			})
		}
	}
}

func floods(n *testNet) map[string]func(*flood) {
	stuck := func(i int) string { // waits for its first transaction for ever
		raw, err := n.sign(5, uint64(100+i), &common.Address{1}, 1, nil, 21_000).MarshalBinary()
		require.NoError(n.t, err)
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"eth_sendRawTransactionSync","params":["%s","0xea60"]}`, hexutil.Encode(raw))
	}
	return map[string]func(*flood){
		"headers that do not end": many(40, func(f *flood, c net.Conn) error {
			_, err := io.WriteString(c, "POST / HTTP/1.1\r\nX-Slow: ")
			<-f.ctx.Done()
			return err
		}),
		"bodies that do not come": many(40, func(f *flood, c net.Conn) error {
			_, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99999\r\n\r\n[")
			<-f.ctx.Done()
			return err
		}),
		"connections":               many(60, func(f *flood, c net.Conn) error { _, err := c.Read(make([]byte, 1)); return err }),
		"calls that burn gas":       many(12, func(f *flood, c net.Conn) error { return f.post(c, burning, true) }),
		"batches that burn gas":     many(8, func(f *flood, c net.Conn) error { return f.post(c, repeated(100, burning), true) }),
		"log queries":               many(12, func(f *flood, c net.Conn) error { return f.post(c, repeated(100, allLogs), true) }),
		"fee histories":             many(12, func(f *flood, c net.Conn) error { return f.post(c, repeated(100, allFees), true) }),
		"answers that nobody reads": many(12, func(f *flood, c net.Conn) error { return f.post(c, repeated(100, large), false) }),
		"pipelined requests": many(8, func(f *flood, c net.Conn) error {
			for range 50 {
				if err := f.post(c, large, false); err != nil {
					return err
				}
			}
			return nil
		}),
		"waiting for receipts": func(f *flood) {
			for i := range 12 {
				f.go_(func() {
					if c := f.dial(); c != nil {
						_ = f.post(c, stuck(i), true)
					}
				})
			}
		},
		"WebSocket that does not read": func(f *flood) {
			for range 3 {
				f.go_(func() {
					for f.ctx.Err() == nil {
						c := f.ws()
						if c == nil {
							continue
						}
						for k := 0; f.ctx.Err() == nil; k++ {
							if c.WriteMessage(websocket.TextMessage, []byte([]string{repeated(50, large), burning, allLogs, stuck(k % 50)}[k%4])) != nil {
								break
							}
						}
						c.Close()
					}
				})
			}
		},
		"WebSocket fragments": func(f *flood) {
			for range 12 {
				f.go_(func() {
					c := f.ws()
					if c == nil {
						return
					}
					w, err := c.NextWriter(websocket.TextMessage)
					for err == nil && f.ctx.Err() == nil {
						_, err = w.Write(make([]byte, 8<<10))
					}
				})
			}
		},
		"subscriptions and filters": func(f *flood) {
			for range 12 {
				f.go_(func() {
					for k := 0; f.ctx.Err() == nil; {
						c := f.ws()
						if c == nil {
							continue
						}
						for ; f.ctx.Err() == nil; k++ {
							call := []string{`"eth_subscribe","params":["newHeads"]`, `"eth_subscribe","params":["logs",{}]`, `"eth_newFilter","params":[{}]`}[k%3]
							if c.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","id":1,"method":`+call+`}`)) != nil {
								break
							}
							if _, _, err := c.ReadMessage(); err != nil {
								break
							}
						}
						c.Close()
					}
				})
			}
		},
	}
}

func start(n *testNet, attack func(*flood), ips ...string) (stop func()) {
	ctx, cancel := context.WithCancel(bg)
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		open []io.Closer
	)
	for _, ip := range ips {
		attack(&flood{n: n, ip: ip, ctx: ctx, wg: &wg, mu: &mu, open: &open})
	}
	return func() {
		cancel()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			c.Close()
		}
	}
}

// victim is a client with an address of its own.
func victim(t testing.TB, n *testNet, ip string) *gethrpc.Client {
	hc := &http.Client{Transport: &http.Transport{DialContext: from(ip).DialContext, DisableKeepAlives: true}, Timeout: waitTime}
	c, err := gethrpc.DialOptions(bg, n.srv.HTTPURL(), gethrpc.WithHTTPClient(hc))
	require.NoError(t, err)
	return c
}

func smallLimits(c *Config) {
	c.Connections, c.ConnectionsPerHost = 60, 24
	c.Requests, c.RequestsPerHost, c.Calls, c.CallsPerHost, c.LogQueries, c.LogQueriesPerHost = 8, 2, 4, 1, 4, 1
	c.BodyBytes, c.BatchBytes = 128<<10, 1<<20
	c.InFlight, c.InFlightPerHost = 8<<20, 2<<20
	c.AllSubscriptions, c.SubscriptionsPerHost, c.Filters, c.FiltersPerHost = 64, 20, 24, 8
}

// Whatever two hosts do, a third gets its answers: it connects, reads, executes, searches, submits and subscribes.
func TestOthersAreAnsweredUnderAttack(t *testing.T) {
	if testing.Short() {
		return // takes seconds: for `make test`
	}
	n := newNet(t, 0, smallLimits)
	addr := n.deploy()
	for i := range 60 {
		n.store(1+i%3, addr, int64(i), strings.Repeat("x", 200))
	}
	n.mine()
	sent := uint64(0)
	for name, attack := range floods(n) {
		t.Run(name, func(t *testing.T) {
			stop := start(n, attack, "127.0.0.2", "127.0.0.3")
			defer stop()
			require.Eventually(t, func() bool { return idle(n.srv) != "" || open(n.srv) > 20 }, waitTime, time.Millisecond, "the attack has begun")
			c := victim(t, n, "127.0.0.9")
			defer c.Close()
			for range 3 {
				var id hexutil.Big
				require.NoError(t, c.Call(&id, "eth_chainId"))
				var out hexutil.Bytes
				require.NoError(t, c.Call(&out, "eth_call", map[string]any{"to": addr, "input": hexutil.Encode(mustPack(n, "value"))}, "latest"))
				require.NotEmpty(t, out)
				var logs []types.Log
				require.NoError(t, c.Call(&logs, "eth_getLogs", map[string]any{"fromBlock": "0x0", "address": addr}))
				require.NotEmpty(t, logs)
			}
			raw, err := n.sign(6, sent, &addr, 0, nil, 100_000).MarshalBinary()
			require.NoError(t, err)
			var hash common.Hash
			require.NoError(t, c.Call(&hash, "eth_sendRawTransaction", hexutil.Encode(raw)))
			sent++
			ws, err := gethrpc.DialOptions(bg, n.srv.WSURL(), gethrpc.WithWebsocketDialer(websocket.Dialer{NetDialContext: from("127.0.0.9").DialContext}))
			require.NoError(t, err)
			defer ws.Close()
			heads := make(chan *types.Header, 8)
			sub, err := ethclient.NewClient(ws).SubscribeNewHead(bg, heads)
			require.NoError(t, err)
			b := n.mine()
			require.Equal(t, b.Hash(), receive(t, heads, sub).Hash())
			var filter gethrpc.ID
			require.NoError(t, c.Call(&filter, "eth_newBlockFilter"))
			require.NoError(t, c.Call(nil, "eth_uninstallFilter", filter))
			within(t, n.srv)

			stop()
			ws.Close()
			require.Eventually(t, func() bool {
				n.srv.filters.mu.Lock()
				defer n.srv.filters.mu.Unlock()
				for id, f := range n.srv.filters.filters {
					delete(n.srv.filters.filters, id)
					n.srv.filters.drop(f)
				}
				// Looked at once: a request that still waits in a socket of theirs is read later, and held for a moment.
				return connections(n.srv, "127.0.0.2", "127.0.0.3") == 0 && idle(n.srv) == ""
			}, waitTime, pollTime)
		})
	}
}

func open(s *Server) int {
	l := s.listeners[0].(*limitListener)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open
}

// connections is how many the hosts have open.
func connections(s *Server, hosts ...string) (n int) {
	l := s.listeners[0].(*limitListener)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, host := range hosts {
		n += len(l.hosts[host])
	}
	return n
}

// within checks that no bound is passed at this moment.
func within(t *testing.T, s *Server) {
	for name, g := range map[string]*gate{"requests": s.requests, "calls": s.calls, "log queries": s.logQueries} {
		g.mu.Lock()
		require.LessOrEqual(t, g.running, g.places, name)
		for _, h := range g.hosts {
			require.True(t, h.name == local || h.running <= g.perHost, name)
		}
		g.mu.Unlock()
	}
	for name, b := range map[string]*budget{"bytes": s.inFlight, "subscriptions": s.subscriptions, "filters": s.filters.count} {
		b.mu.Lock()
		for h, own := range b.hosts {
			require.LessOrEqual(t, own, b.perHost, "%s of %s", name, h)
		}
		b.mu.Unlock()
	}
}

// idle is empty when the server holds nothing for anybody but the test's own client.
func idle(s *Server) string {
	for name, g := range map[string]*gate{"requests": s.requests, "calls": s.calls, "log queries": s.logQueries} {
		g.mu.Lock()
		k := g.running + len(g.hosts) + len(g.line)
		g.mu.Unlock()
		if k != 0 {
			return fmt.Sprintf("%d %s", k, name)
		}
	}
	for name, b := range map[string]*budget{"bytes": s.inFlight, "subscriptions": s.subscriptions, "filters": s.filters.count, "waiters": s.waiters} {
		if k := b.total(); k != 0 {
			return fmt.Sprintf("%d %s", k, name)
		}
	}
	return ""
}

// A client that closes its connection leaves no work behind: the calls of its batch that have not begun never do.
func TestClosedConnectionEndsItsBatch(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.BatchItems = 8000 }) // minutes of work
	conn, _, err := websocket.DefaultDialer.Dial(n.srv.WSURL(), nil)
	require.NoError(t, err)
	require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(repeated(8000, burning))))
	running := func() int { n.srv.calls.mu.Lock(); defer n.srv.calls.mu.Unlock(); return n.srv.calls.running }
	require.Eventually(t, func() bool { return running() == 1 }, waitTime, time.Millisecond)
	require.NoError(t, conn.Close())
	require.Eventually(t, func() bool { return idle(n.srv) == "" }, waitTime, pollTime)
}

// When all connections are in use, a new host takes one of the host that has most.
func TestNewHostConnects(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.Connections, c.ConnectionsPerHost = 8, 6 })
	f := &flood{n: n, ip: "127.0.0.2", ctx: bg, mu: new(sync.Mutex), open: new([]io.Closer)}
	defer func() {
		for _, c := range *f.open {
			c.Close()
		}
	}()
	call := `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`
	var old []net.Conn
	for _, ip := range []string{"127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3", "127.0.0.3", "127.0.0.3"} { // and the test's own
		f.ip = ip
		c := f.dial()
		require.NoError(t, f.post(c, call, true))
		old = append(old, c)
	}
	f.ip = "127.0.0.4"
	c := f.dial()
	require.NoError(t, f.post(c, call, true))
	require.NoError(t, old[3].SetReadDeadline(time.Now().Add(waitTime)))
	_, err := old[3].Read(make([]byte, 1))
	require.Error(t, err, "the newest connection of the host with most was closed")
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded))
	for i, c := range old {
		if i != 3 {
			require.NoError(t, f.post(c, call, true))
		}
	}
}

// Bombs: a header, a compressed body, a WebSocket message in fragments, one that claims to be compressed.
func TestBombs(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.BodyBytes = 64 << 10; c.InFlightPerHost = 64 << 20 })
	f := &flood{n: n, ip: "127.0.0.2", ctx: bg, mu: new(sync.Mutex), open: new([]io.Closer)}
	defer func() {
		for _, c := range *f.open {
			c.Close()
		}
	}()
	c := f.dial()
	_, _ = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Bomb: %s\r\n\r\n", strings.Repeat("x", 2*maxHeaderBytes))
	answer, _ := io.ReadAll(c)
	require.Contains(t, string(answer), "431 Request Header Fields Too Large")

	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	_, err := z.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[` + strings.Repeat(" ", 50<<20) + `]}`))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	_, body, _ := post(t, n.srv.HTTPURL(), bomb.String(), map[string]string{"Content-Encoding": "gzip"})
	require.Contains(t, body, `-32700`, "bodies are not inflated")

	req, err := http.NewRequest(http.MethodPost, n.srv.HTTPURL(), io.LimitReader(zeros{}, 128<<10)) // chunked: the size is not said before; what is left the server still reads, so that its answer arrives
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)

	ws := f.ws()
	w, err := ws.NextWriter(websocket.TextMessage)
	for err == nil {
		_, err = w.Write(make([]byte, 4096))
	}
	ws = f.ws()
	ws.UnderlyingConn().Write([]byte{0xc1, 0x81, 0, 0, 0, 0, 0}) // the bit of compression, which was not agreed upon
	require.NoError(t, ws.SetReadDeadline(time.Now().Add(waitTime)))
	_, _, err = ws.ReadMessage()
	require.True(t, websocket.IsCloseError(err, websocket.CloseProtocolError), "%v", err)
	require.Eventually(t, func() bool { return idle(n.srv) == "" }, waitTime, pollTime)
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return copy(b, make([]byte, len(b))), nil }

// Requests that want no answer are not carried out on connections that stay open, and others are.
func TestNotificationsOfClients(t *testing.T) {
	n := newNet(t, 0, nil)
	raw, err := n.sign(1, 0, &common.Address{1}, 1, nil, 21_000).MarshalBinary()
	require.NoError(t, err)
	conn, _, err := websocket.DefaultDialer.Dial(n.srv.WSURL(), nil)
	require.NoError(t, err)
	defer conn.Close()
	for range 3 * maxConnRequests {
		require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","method":"eth_sendRawTransaction","params":["`+hexutil.Encode(raw)+`"]}`)))
	}
	require.NoError(t, conn.WriteMessage(websocket.TextMessage, []byte(`{"jsonrpc":"2.0","id":1,"method":"txpool_status"}`)))
	var status struct{ Result map[string]hexutil.Uint }
	require.NoError(t, conn.ReadJSON(&status))
	require.Zero(t, status.Result["pending"])
	for k := range 3 * maxConnRequests { // more than may be unanswered at once
		require.NoError(t, conn.WriteJSON(map[string]any{"jsonrpc": "2.0", "id": k, "method": "eth_chainId"}))
	}
	seen := map[int]bool{}
	for range 3 * maxConnRequests {
		var m struct {
			ID     int
			Result *hexutil.Big
		}
		require.NoError(t, conn.ReadJSON(&m))
		require.EqualValues(t, chainID, (*big.Int)(m.Result).Int64())
		seen[m.ID] = true
	}
	require.Len(t, seen, 3*maxConnRequests)
}

// The Unix socket has the limits of all, and its messages a largest size.
func TestSocketLimits(t *testing.T) {
	n := newNet(t, 0, smallLimits)
	conn, err := net.Dial("unix", n.srv.cfg.IPCPath)
	require.NoError(t, err)
	defer conn.Close()
	go func() {
		_, _ = conn.Write(bytes.Repeat([]byte(" "), 1<<20))
		_, _ = conn.Write([]byte(`"` + strings.Repeat("x", 1<<20)))
	}()
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(waitTime)))
	told, err := io.ReadAll(conn)
	require.False(t, errors.Is(err, os.ErrDeadlineExceeded))
	require.Contains(t, string(told), "rpc.body_bytes")
	c, err := gethrpc.Dial(n.srv.cfg.IPCPath)
	require.NoError(t, err)
	defer c.Close()
	batch := make([]gethrpc.BatchElem, 20)
	for i := range batch {
		batch[i] = gethrpc.BatchElem{Method: "eth_chainId", Result: new(json.RawMessage)}
	}
	require.NoError(t, c.BatchCall(batch))
	for _, b := range batch {
		require.NoError(t, b.Error)
	}
}

// BenchmarkVictim reports what one client's requests take while two hosts attack, and how many times as long as without
// an attack that is.
func BenchmarkVictim(b *testing.B) {
	n := newNet(b, 0, func(c *Config) { c.CallTimeout = 5 * time.Second })
	addr := n.deploy()
	for i := range 60 {
		n.store(1+i%3, addr, int64(i), strings.Repeat("x", 200))
	}
	n.mine()
	c := victim(b, n, "127.0.0.9")
	defer c.Close()
	data := hexutil.Encode(mustPack(n, "value"))
	measure := func(ask func() error) (p50, p99 time.Duration) {
		took := make([]time.Duration, 400)
		for i := range took {
			begun := time.Now()
			require.NoError(b, ask())
			took[i] = time.Since(begun)
		}
		slices.Sort(took)
		return took[len(took)/2], took[len(took)*99/100]
	}
	asks := map[string]func() error{
		"head": func() error { return c.Call(nil, "eth_blockNumber") },
		"call": func() error { return c.Call(nil, "eth_call", map[string]any{"to": addr, "input": data}, "latest") },
		"logs": func() error {
			return c.Call(nil, "eth_getLogs", map[string]any{"fromBlock": "0x0", "address": addr, "topics": []any{common.Hash{9}}})
		},
	}
	calm := map[string][2]time.Duration{}
	for name, ask := range asks {
		p50, p99 := measure(ask)
		calm[name] = [2]time.Duration{p50, p99}
	}
	for name, attack := range floods(n) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				stop := start(n, attack, "127.0.0.2", "127.0.0.3")
				for what, ask := range asks {
					p50, p99 := measure(ask)
					b.ReportMetric(float64(p50.Microseconds())/1000, what+"-p50-ms")
					b.ReportMetric(float64(p99.Microseconds())/1000, what+"-p99-ms")
					b.ReportMetric(float64(p50)/float64(calm[what][0]), what+"-p50-ratio")
					b.ReportMetric(float64(p99)/float64(calm[what][1]), what+"-p99-ratio")
				}
				stop()
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}
