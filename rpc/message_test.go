package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

func holding(b *budget, host string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.hosts[host]
}

// allocated is how many bytes the process allocates while f runs.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A message whose end does not come is counted as far as it came, and ends its connection where the share ends.
func TestUnfinishedMessagesAreCounted(t *testing.T) {
	n := newNet(t, 0, smallLimits)
	size := n.srv.cfg.BodyBytes - 1000
	part := []byte(`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("x", size))
	open := func() *websocket.Conn {
		c, _, err := websocket.DefaultDialer.Dial(n.srv.WSURL(), nil)
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		w, err := c.NextWriter(websocket.TextMessage)
		require.NoError(t, err)
		_, _ = w.Write(part)
		_, _ = w.Write(bytes.Repeat([]byte(" "), 4096)) // pushes what is buffered
		return c
	}
	open()
	require.Eventually(t, func() bool { return holding(n.srv.inFlight, "127.0.0.1") >= messageCopies*int64(size) }, waitTime, pollTime)
	for range n.srv.cfg.InFlightPerHost / (messageCopies * size) {
		open()
	}
	require.Eventually(t, func() bool {
		n.srv.conns.mu.Lock()
		defer n.srv.conns.mu.Unlock()
		return len(n.srv.conns.byID)-1 < 1+n.srv.cfg.InFlightPerHost/(messageCopies*size) // one more was opened
	}, waitTime, pollTime, "a connection above the host's share is closed")
	within(t, n.srv)

	c, err := net.Dial("unix", n.srv.cfg.IPCPath)
	require.NoError(t, err)
	_, err = c.Write(part)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return holding(n.srv.inFlight, local) >= messageCopies*int64(size) }, waitTime, pollTime)
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return holding(n.srv.inFlight, local) == 0 }, waitTime, pollTime)
}

// Notifications are read and understood only in a place of their host.
func TestNotificationsTakeAPlace(t *testing.T) {
	n := newNet(t, 0, smallLimits)
	for _, dial := range []func(*testing.T, *testNet) reader{wsReader, ipcReader} {
		r := dial(t, n)
		for i := range n.srv.requests.places {
			require.NoError(t, n.srv.requests.enter(bg, fmt.Sprint("host ", i)))
		}
		note := repeated(10, `{"jsonrpc":"2.0","method":"eth_chainId"}`)
		for range 3 {
			require.NoError(t, r.send(note))
		}
		require.Eventually(t, func() bool { return n.srv.inFlight.total() >= messageCopies*int64(len(note)) }, waitTime, pollTime)
		waiting := func() (k int) {
			n.srv.requests.mu.Lock()
			defer n.srv.requests.mu.Unlock()
			for _, h := range n.srv.requests.line {
				k += len(h.waiting)
			}
			return k
		}
		require.Eventually(t, func() bool { return waiting() == 1 }, waitTime, pollTime)
		for i := range n.srv.requests.places {
			n.srv.requests.leave(fmt.Sprint("host ", i))
		}
		require.NoError(t, r.send(`{"jsonrpc":"2.0","id":7,"method":"eth_chainId"}`))
		m, err := r.next()
		require.NoError(t, err)
		require.Contains(t, m, `"id":7`)
		require.Eventually(t, func() bool { return idle(n.srv) == "" }, waitTime, pollTime)
		r.close()
	}
}

// Of a batch with too many items, however small they are, and of parameters with too many values nothing is decoded.
func TestManyValuesAreRefusedAsBytes(t *testing.T) {
	n := newNet(t, 0, nil)
	first := `{"jsonrpc":"2.0","id":77,"method":"eth_chainId"}`
	batch := "[" + first + strings.Repeat(",0", 2_000_000) + "]"
	calls := `{"jsonrpc":"2.0","id":1,"method":"eth_simulateV1","params":[{"blockStateCalls":[{"calls":` + repeated(1_500_000, "{}") + `}]}]}`
	const most = 100 << 20 // decoded they take several times as much
	ask := func(body string) (code int, answer string) {
		require.Less(t, allocated(func() { code, answer, _ = post(t, n.srv.HTTPURL(), body, nil) }), uint64(most))
		return code, answer
	}
	code, answer := ask(batch)
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `[{"jsonrpc":"2.0","id":77,"error":{"code":-32600,"message":"batch too large"}}]`, answer)
	code, answer = ask(calls)
	require.Equal(t, http.StatusRequestEntityTooLarge, code)
	require.Contains(t, answer, "too many values")

	for _, dial := range []func(*testing.T, *testNet) reader{wsReader, ipcReader} {
		r := dial(t, n)
		require.Less(t, allocated(func() {
			require.NoError(t, r.send(batch))
			m, err := r.next()
			require.NoError(t, err)
			require.JSONEq(t, `[{"jsonrpc":"2.0","id":77,"error":{"code":-32600,"message":"batch too large"}}]`, m)
		}), uint64(most))
		r.close()
	}
	r := wsReader(t, n)
	require.NoError(t, r.send(calls))
	_, err := r.next()
	var ce *websocket.CloseError
	require.ErrorAs(t, err, &ce)
	require.Contains(t, ce.Text, "too many values")
	require.Eventually(t, func() bool { return idle(n.srv) == "" }, waitTime, pollTime)
}

// Of several requests of a connection the smallest is given back first: never is less counted than is held.
func TestAnsweredGivesBackTheSmallest(t *testing.T) {
	s := &service{cfg: DefaultConfig(), ctx: bg}
	s.bound()
	c := s.newCaller("x", "x", nil)
	for _, size := range []int64{5 << 20, 100, 3000} {
		require.True(t, s.inFlight.take("x", size))
		require.NoError(t, c.begin(bg, size))
	}
	c.answered()
	require.EqualValues(t, 5<<20+3000, s.inFlight.total())
	c.over(100) // what was given back for the answer was this one's: the answered one's is left
	require.EqualValues(t, 5<<20, s.inFlight.total())
	c.over(5 << 20)
	require.Zero(t, s.inFlight.total())
	require.True(t, s.inFlight.take("x", 7))
	require.NoError(t, c.begin(bg, 7))
	c.finish()
	require.Zero(t, s.inFlight.total())
	require.Zero(t, s.requests.running)
}

// What a message's shape says holds of what it decodes to.
func FuzzShape(f *testing.F) {
	for _, x := range []string{`[]`, ` [ {"a":[1,2]} , "],[" , "\\\",", {} ]`, `{"a":[[],[0,0]],"b":"{"}`, `[1]`, `7`, `["\\",""]`, "[0,0"} {
		f.Add([]byte(x))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := shapeOf(b)
		var v any
		if json.Unmarshal(b, &v) != nil {
			return
		}
		list, isList := v.([]any)
		switch {
		case !isList:
			require.Zero(t, s.items)
		case len(list) > 0:
			require.Equal(t, len(list), s.items)
			cut := refusedBatch(b[:s.first], 3)
			var short []any
			require.NoError(t, json.Unmarshal(cut, &short))
			require.Len(t, short, 4)
			if len(list) > 1 {
				require.Equal(t, list[0], short[0])
			}
		}
		require.GreaterOrEqual(t, 2*s.values+1, count(v))
	})
}

// count is how many values there are in a decoded one.
func count(v any) int {
	k := 1
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			k += count(x)
		}
	case map[string]any:
		for _, x := range v {
			k += count(x)
		}
	}
	return k
}

// What the pool shows is bounded in bytes, in memory and in work; the list of lines stays short.
func TestPoolContentIsBounded(t *testing.T) {
	n := newNet(t, 0, smallLimits)
	to, data := account(2), make([]byte, 120<<10)
	add := func(first, past int) {
		for i := first; i < past; i++ {
			require.NoError(t, n.pool.Add([]*types.Transaction{n.sign(1, uint64(i+5), &to, 0, data, 2_000_000)}, true)[0])
		}
	}
	ipc, err := gethrpc.Dial(n.srv.cfg.IPCPath)
	require.NoError(t, err)
	defer ipc.Close()
	add(0, 1)
	all := map[string][]any{"txpool_content": nil, "txpool_contentFrom": {account(1)}, "txpool_inspect": nil}
	for method, args := range all {
		require.NoError(t, n.call(nil, method, args...))
	}
	require.Eventually(t, func() bool { return idle(n.srv) == "" }, waitTime, pollTime)
	add(1, 10) // more than the host's share
	for _, method := range []string{"txpool_content", "txpool_contentFrom"} {
		requireCode(t, n.call(nil, method, all[method]...), codeLimit, "rpc.in_flight_bytes_per_host")
	}
	require.NoError(t, n.call(nil, "txpool_inspect"))
	add(10, maxPoolBytes/(2*len(data)))
	n.srv.inFlight.mu.Lock()
	n.srv.inFlight.most = 1 << 30 // the Unix socket has no other share
	n.srv.inFlight.mu.Unlock()
	for _, method := range []string{"txpool_content", "txpool_contentFrom"} {
		requireCode(t, ipc.Call(nil, method, all[method]...), codeLimit, "more than 32 MiB")
	}
	require.NoError(t, n.call(nil, "txpool_inspect"))
	require.Eventually(t, func() bool { return idle(n.srv) == "" }, waitTime, pollTime)

	n.srv.cfg.CallTimeout = 1
	for i := range n.srv.calls.places {
		require.NoError(t, n.srv.calls.enter(bg, fmt.Sprint("host ", i)))
	}
	for method, args := range all {
		requireCode(t, n.call(nil, method, args...), codeLimit, "rpc.calls_per_host")
	}
}

// Blocks that are exported, and traces, count while they are gathered.
func TestAnswersCountWhileTheyAreMade(t *testing.T) {
	n := newNet(t, 0, smallLimits)
	to := account(2)
	for i := range 6 {
		require.NoError(t, n.pool.Add([]*types.Transaction{n.sign(1, uint64(i), &to, 0, make([]byte, 110<<10), 2_000_000)}, true)[0])
	}
	b := n.mine()
	require.Len(t, b.Transactions, 6)
	n.finalize(b)
	requireCode(t, n.call(nil, "bor_exportBlocks", "0x1"), codeLimit, "rpc.in_flight_bytes_per_host")
	trace := func() error {
		return n.call(nil, "debug_traceBlockByNumber", "0x1", map[string]any{"tracer": "callTracer"})
	}
	require.NoError(t, trace())
	require.Eventually(t, func() bool { return idle(n.srv) == "" }, waitTime, pollTime, "its answer is given back")
	n.srv.inFlight.force("127.0.0.1", 1<<20)
	requireCode(t, trace(), codeLimit, "rpc.in_flight_bytes_per_host")
	n.srv.inFlight.give("127.0.0.1", 1<<20)
	require.NoError(t, n.call(nil, "debug_traceTransaction", b.Transactions[0].Hash(), map[string]any{"tracer": "callTracer"}))
	require.Eventually(t, func() bool { return idle(n.srv) == "" }, waitTime, pollTime)
}

// Of a simulation with too many blocks or calls none is made.
func TestSimulationIsCountedBeforeItIsMade(t *testing.T) {
	for _, raw := range []string{`{"blockStateCalls":[{"calls":` + repeated(1_500_000, "{}") + `}]}`, `{"blockStateCalls":` + repeated(1_500_000, "{}") + `}`} {
		var o simulateOptions
		require.Less(t, allocated(func() { require.NoError(t, json.Unmarshal([]byte(raw), &o)) }), uint64(64<<20))
		var refused *Error
		require.ErrorAs(t, o.check(), &refused)
		require.Equal(t, codeSimulateLimit, refused.Code)
		require.Contains(t, refused.Message, ": 1500000, ")
	}
}

// written notes when a handler sets the deadline of its answer, and when it writes.
type written struct {
	http.ResponseWriter
	done  []string
	until []time.Time
}

func (w *written) SetWriteDeadline(t time.Time) error {
	w.done, w.until = append(w.done, "deadline"), append(w.until, t)
	return nil
}

func (w *written) Write(b []byte) (int, error) {
	w.done = append(w.done, "write")
	return w.ResponseWriter.Write(b)
}

// An answer has its whole time, however long the body took and the request waited.
func TestAnswersHaveTheirTime(t *testing.T) {
	n := newNet(t, 0, nil)
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`))
	r.Header.Set("Content-Type", "application/json")
	begun := time.Now()
	w := &written{ResponseWriter: httptest.NewRecorder()}
	n.srv.serveCall(w, r, n.srv.public)
	require.Equal(t, []string{"deadline", "deadline", "write"}, w.done)
	for _, until := range w.until {
		require.False(t, until.Before(begun.Add(n.srv.cfg.WriteTimeout)))
	}
}
