package rpc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// reader is a client that subscribes and then reads message by message.
type reader struct {
	send  func(string) error
	next  func() (string, error)
	close func()
	told  func(t *testing.T, last string, err error) // how the client learns that it was too slow
}

func wsReader(t *testing.T, n *testNet) reader {
	c, _, err := websocket.DefaultDialer.Dial(n.srv.WSURL(), nil)
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(waitTime)))
	return reader{
		send:  func(s string) error { return c.WriteMessage(websocket.TextMessage, []byte(s)) },
		next:  func() (string, error) { _, b, err := c.ReadMessage(); return string(b), err },
		close: func() { c.Close() },
		told: func(t *testing.T, _ string, err error) {
			var ce *websocket.CloseError
			require.True(t, errors.As(err, &ce), "%v", err)
			require.Equal(t, websocket.CloseTryAgainLater, ce.Code)
			require.Contains(t, ce.Text, "too many notifications are waiting")
		},
	}
}

func ipcReader(t *testing.T, n *testNet) reader {
	c, err := net.Dial("unix", n.srv.cfg.IPCPath)
	require.NoError(t, err)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(waitTime)))
	r := bufio.NewReader(c)
	return reader{
		send:  func(s string) error { _, err := c.Write([]byte(s)); return err },
		next:  func() (string, error) { return r.ReadString('\n') },
		close: func() { c.Close() },
		told: func(t *testing.T, last string, err error) {
			require.False(t, errors.Is(err, os.ErrDeadlineExceeded))
			require.Contains(t, last, `"error":{"code":-32005,"message":"too many notifications are waiting`)
		},
	}
}

// A client that does not keep up, of any kind of subscription, gets everything in order up to a point, is told, and its
// connection ends; nothing is left out between.
func TestSlowClientsMissNothingSilently(t *testing.T) {
	n := newNet(t, 0, nil)
	b := n.mine()
	kinds := []struct {
		params string
		kind   kind
		item   func(i int) any
		number func(result json.RawMessage) int // of the item
	}{
		{`["newHeads"]`, kindHeads, func(i int) any {
			h := types.CopyHeader(b.Header)
			h.GasUsed = uint64(i)
			return headerOf(h, b.Hash())
		}, func(r json.RawMessage) int { return hexField(t, r, "gasUsed") }},
		{`["logs",{}]`, kindLogs, func(i int) any { return &types.Log{BlockNumber: uint64(i)} }, func(r json.RawMessage) int { return hexField(t, r, "blockNumber") }},
		{`["newPendingTransactions",true]`, kindPending, func(i int) any { return n.sign(1, uint64(i), nil, 0, nil, 1) }, func(r json.RawMessage) int { return hexField(t, r, "nonce") }},
		{`["newPendingTransactions"]`, kindPending, func(i int) any { return i }, func(r json.RawMessage) int { return plain(t, r) }},
		{`["syncing"]`, kindSyncing, func(i int) any { return SyncStatus{Syncing: true, Current: uint64(i)} }, func(r json.RawMessage) int {
			var st struct{ Status json.RawMessage }
			require.NoError(t, json.Unmarshal(r, &st))
			return hexField(t, st.Status, "currentBlock")
		}},
	}
	for _, k := range kinds {
		items := make([]any, 2*maxSubscriberItems+1024)
		for i := range items {
			items[i] = k.item(i)
		}
		for name, dial := range map[string]func(*testing.T, *testNet) reader{"ws": wsReader, "ipc": ipcReader} {
			t.Run(name+k.params, func(t *testing.T) {
				r := dial(t, n)
				defer r.close()
				require.NoError(t, r.send(`{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":`+k.params+`}`))
				answer, err := r.next()
				require.NoError(t, err)
				require.Contains(t, answer, `"result":"0x`)
				require.Eventually(t, func() bool { return n.srv.hub.listeners(k.kind) == 1 }, waitTime, pollTime)
				n.srv.hub.publish(k.kind, func(s *subscriber) { s.put(k.item(0)) })
				_, err = r.next() // the server knows that the client knows its subscription
				require.NoError(t, err)
				for i := 0; i < len(items); i += 1024 { // more than the queue holds, faster than anybody reads
					n.srv.hub.publish(k.kind, func(s *subscriber) { s.put(items[i : i+1024]...) })
				}
				n.srv.hub.publish(k.kind, func(s *subscriber) { require.True(t, s.full()) })
				count, last := 0, ""
				for {
					m, err := r.next()
					if m != "" && !strings.Contains(m, `"eth_subscription"`) {
						last = m
						continue
					}
					if err != nil {
						r.told(t, last, err)
						break
					}
					require.Empty(t, last, "nothing comes after the reason")
					var note struct{ Params struct{ Result json.RawMessage } }
					require.NoError(t, json.Unmarshal([]byte(m), &note))
					require.Equal(t, count, k.number(note.Params.Result))
					count++
				}
				require.GreaterOrEqual(t, count, 1024)
				require.Eventually(t, func() bool { return n.srv.hub.listeners(k.kind) == 0 && n.srv.hub.waiting.total() == 0 }, waitTime, pollTime)
			})
		}
	}
}

func hexField(t *testing.T, raw json.RawMessage, field string) (v int) {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(raw, &m))
	_, err := fmt.Sscanf(fmt.Sprint(m[field]), "0x%x", &v)
	require.NoError(t, err, "%s", raw)
	return v
}

func plain(t *testing.T, raw json.RawMessage) (v int) {
	t.Helper()
	require.NoError(t, json.Unmarshal(raw, &v))
	return v
}

// A subscription in a batch whose other calls take long sends nothing before its id: what comes meanwhile waits in its
// queue, bounded, and then comes in full.
func TestSubscriptionInABatch(t *testing.T) {
	for _, overflow := range []bool{false, true} {
		n := newNet(t, 0, nil)
		r := wsReader(t, n)
		defer r.close()
		require.NoError(t, n.srv.calls.enter(bg, "127.0.0.1")) // the call of the batch has to wait
		places := n.srv.calls.perHost
		for range places - 1 {
			require.NoError(t, n.srv.calls.enter(bg, "127.0.0.1"))
		}
		require.NoError(t, r.send(`[{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newPendingTransactions"]},`+
			`{"jsonrpc":"2.0","id":2,"method":"eth_call","params":[{"to":"0x0000000000000000000000000000000000000004"}]}]`))
		require.Eventually(t, func() bool { return n.srv.hub.listeners(kindPending) == 1 }, waitTime, pollTime)
		count := 1000
		if overflow {
			count = maxSubscriberItems + 1
		}
		for i := range count {
			n.srv.hub.publish(kindPending, func(s *subscriber) { s.put(i) })
		}
		if overflow {
			m, err := r.next()
			r.told(t, m, err)
		}
		for range places {
			n.srv.calls.leave("127.0.0.1")
		}
		if !overflow {
			m, err := r.next()
			require.NoError(t, err)
			require.Contains(t, m, `"id":2`)
			for i := range count {
				m, err = r.next()
				require.NoError(t, err)
				require.Contains(t, m, fmt.Sprintf(`"result":%d}`, i))
			}
		}
	}
}

// Unsubscribing and closing leave nothing behind.
func TestUnsubscribe(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.Subscriptions, c.SubscriptionsPerHost = 3, 4 })
	for _, dial := range []func(*testing.T, *testNet) reader{wsReader, ipcReader} {
		r := dial(t, n)
		ids := make([]string, 3)
		ask := func(method, params string) (answer struct {
			Result any
			Error  *struct{ Message string }
		}) {
			require.NoError(t, r.send(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))
			m, err := r.next()
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal([]byte(m), &answer))
			return answer
		}
		for i := range ids {
			ids[i], _ = ask("eth_subscribe", `["newHeads"]`).Result.(string)
			require.NotEmpty(t, ids[i])
		}
		require.Contains(t, ask("eth_subscribe", `["newHeads"]`).Error.Message, "this connection has 3 subscriptions")
		require.Equal(t, true, ask("eth_unsubscribe", `["`+ids[0]+`"]`).Result)
		require.Eventually(t, func() bool { return n.srv.hub.listeners(kindHeads) == 2 }, waitTime, pollTime)
		require.Contains(t, ask("eth_unsubscribe", `["`+ids[0]+`"]`).Error.Message, "not found")
		require.Nil(t, ask("eth_subscribe", `["logs",{}]`).Error, "there is room again")
		r.close()
		require.Eventually(t, func() bool {
			return n.srv.hub.listeners(kindHeads)+n.srv.hub.listeners(kindLogs) == 0 && n.srv.subscriptions.total() == 0
		}, waitTime, pollTime)
	}
	one, two := wsReader(t, n), wsReader(t, n)
	defer one.close()
	defer two.close()
	for i := range 5 { // of one host
		r := []reader{one, two}[i%2]
		require.NoError(t, r.send(`{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}`))
		m, err := r.next()
		require.NoError(t, err)
		require.Equal(t, i == 4, strings.Contains(m, "rpc.subscriptions_per_host"), m)
	}
}
