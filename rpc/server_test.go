package rpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/gorilla/websocket"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

func finalUpdate(hs []common.Hash) block.FinalUpdate { return block.FinalUpdate{Hashes: hs} }

// post sends a body over HTTP and returns status and answer.
func post(t *testing.T, url, body string, header map[string]string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for k, v := range header {
		if k == "Host" {
			req.Host = v
		}
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return resp.StatusCode, string(b), resp.Header
}

func TestRequestLimits(t *testing.T) {
	n := newNet(t, 0, func(c *Config) {
		c.BodyBytes, c.BatchItems, c.BatchBytes, c.Subscriptions, c.Filters = 4096, 10, 8000, 2, 2
	})
	url := n.srv.HTTPURL()
	big := `{"jsonrpc":"2.0","id":1,"method":"web3_sha3","params":["0x` + strings.Repeat("00", 4096) + `"]}`
	code, body, _ := post(t, url, big, nil)
	require.Equal(t, http.StatusRequestEntityTooLarge, code)
	require.Contains(t, body, "content length too large")

	batch := func(k int, call string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(call+",", k), ",") + "]"
	}
	_, body, _ = post(t, url, batch(11, `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`), nil)
	require.Contains(t, body, "batch too large")
	_, body, _ = post(t, url, batch(10, `{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["latest",false]}`), nil)
	var answers []struct {
		Error *struct {
			Code    int
			Message string
		}
	}
	require.NoError(t, json.Unmarshal([]byte(body), &answers))
	require.Nil(t, answers[0].Error)
	require.Equal(t, -32003, answers[9].Error.Code)
	require.Equal(t, "response too large", answers[9].Error.Message)

	_, body, _ = post(t, url, `{"jsonrpc":"2.0","id":1,"method":"eth_nothing"}`, nil)
	require.Contains(t, body, `"code":-32601`)
	_, body, _ = post(t, url, `{"jsonrpc":"2.0","id":1,`, nil)
	require.Contains(t, body, `"code":-32700`)
	_, body, _ = post(t, url, `{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0x12"]}`, nil)
	require.Contains(t, body, `"code":-32602`)
	_, body, _ = post(t, url, `{"jsonrpc":"2.0","id":1,"method":"eth_subscribe","params":["newHeads"]}`, nil)
	require.Contains(t, body, "notifications not supported")

	heads := make(chan *types.Header, 8)
	for range 2 {
		_, err := n.eth.SubscribeNewHead(bg, heads)
		require.NoError(t, err)
	}
	_, err := n.eth.SubscribeNewHead(bg, heads)
	requireCode(t, err, codeLimit, "this connection has 2 subscriptions")
	other, err := ethclient.Dial(n.srv.WSURL())
	require.NoError(t, err)
	defer other.Close()
	sub, err := other.SubscribeNewHead(bg, heads)
	require.NoError(t, err, "the limit is the connection's")
	sub.Unsubscribe()
	for range 2 {
		require.NoError(t, n.call(nil, "eth_newBlockFilter"))
	}
	requireCode(t, n.call(nil, "eth_newBlockFilter"), codeLimit, "or 2 of all")

	conn, _, err := websocket.DefaultDialer.Dial(n.srv.WSURL(), nil)
	require.NoError(t, err)
	defer conn.Close()
	_ = conn.WriteMessage(websocket.TextMessage, []byte(big)) // the server may end the connection before all is written
	_, _, err = conn.ReadMessage()
	require.Error(t, err, "the connection is ended")
	var ended *websocket.CloseError
	if errors.As(err, &ended) { // unless its reset overtook the reason
		require.Equal(t, websocket.CloseMessageTooBig, ended.Code)
	}
}

func TestMoreLimits(t *testing.T) {
	n := newNet(t, 0, nil)
	keys := make([]string, maxStorageKeys+1)
	for i := range keys {
		keys[i] = "0x0"
	}
	requireCode(t, n.call(nil, "eth_getProof", common.Address{}, keys, "latest"), codeLimit, "1025 storage keys")
	requireCode(t, n.call(nil, "eth_getStorageAt", common.Address{}, "0x"+strings.Repeat("1", 65), "latest"), codeInvalidParams, "longer than 32 bytes")
	requireCode(t, n.call(nil, "eth_call", map[string]any{"input": hexutil.Bytes(make([]byte, maxCallDataBytes+1))}, "latest"), codeLimit, "input of 1048577 bytes")
	requireCode(t, n.call(nil, "bor_schedule", "0x0", "0x401"), codeLimit, "1025 turns")
	requireCode(t, n.call(nil, "eth_feeHistory", "0x1", "latest", make([]float64, maxPercentiles+1)), codeLimit, "101 percentiles")
}

func TestConnectionLimit(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.Connections, c.ConnectionsPerHost = 9, 2 }) // one is the test's own
	addr := strings.TrimPrefix(n.srv.HTTPURL(), "http://")
	a, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	ask := func(c net.Conn) (string, error) {
		if _, err := fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}", addr); err != nil {
			return "", err
		}
		buf := make([]byte, 4096)
		k, err := c.Read(buf)
		return string(buf[:k]), err
	}
	first, err := ask(a)
	require.NoError(t, err)
	require.Contains(t, first, "200 OK")
	b, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer b.Close()
	answer, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Contains(t, string(answer), "503 Service Unavailable")
	require.Contains(t, string(answer), "rpc.connections")
	require.NoError(t, a.Close())
	require.Eventually(t, func() bool { // room again
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return false
		}
		defer c.Close()
		answer, err := ask(c) // a refused connection may be reset before it is read
		return err == nil && strings.Contains(answer, "200 OK")
	}, waitTime, pollTime)
}

func TestHostsAndOrigins(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.VHosts, c.Origins = []string{"node.example"}, []string{"https://app.example"} })
	url, call := n.srv.HTTPURL(), `{"jsonrpc":"2.0","id":1,"method":"eth_chainId"}`
	code, body, _ := post(t, url, call, map[string]string{"Host": "evil.example"})
	require.Equal(t, http.StatusForbidden, code)
	require.Contains(t, body, "rpc.vhosts")
	code, _, h := post(t, url, call, map[string]string{"Host": "node.example:99", "Origin": "https://app.example"})
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "https://app.example", h.Get("Access-Control-Allow-Origin"))
	_, _, h = post(t, url, call, map[string]string{"Origin": "https://evil.example"})
	require.Empty(t, h.Get("Access-Control-Allow-Origin"))

	_, resp, err := websocket.DefaultDialer.Dial(n.srv.WSURL(), http.Header{"Origin": {"https://evil.example"}})
	require.Error(t, err)
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	conn, _, err := websocket.DefaultDialer.Dial(n.srv.WSURL(), http.Header{"Origin": {"https://app.example"}})
	require.NoError(t, err)
	conn.Close()

	req, err := http.NewRequest(http.MethodOptions, url, nil)
	require.NoError(t, err)
	req.Header.Set("Origin", "https://app.example")
	pre, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	pre.Body.Close()
	require.Equal(t, http.StatusNoContent, pre.StatusCode)
	require.Equal(t, "POST, GET", pre.Header.Get("Access-Control-Allow-Methods"))
}

// admin_ and everything that is no method of a namespace stay off HTTP and WebSocket.
func TestAdminIsLocal(t *testing.T) {
	n := newNet(t, 0, nil)
	err := n.call(nil, "admin_addPeer", "/ip4/1.2.3.4/tcp/1/p2p/x")
	requireCode(t, err, -32601, "does not exist")
	for _, m := range []string{"eth_close", "eth_run", "eth_newBlock", "eth_client", "eth_httpURL", "bor_close", "debug_traceBlockFromFile", "debug_standardTraceBlockToFile"} {
		requireCode(t, n.call(nil, m), -32601, "does not exist")
	}
	fi, err := os.Stat(n.srv.cfg.IPCPath)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), fi.Mode().Perm())
	ipc, err := gethrpc.Dial(n.srv.cfg.IPCPath)
	require.NoError(t, err)
	defer ipc.Close()
	var ok bool
	require.NoError(t, ipc.Call(&ok, "admin_addPeer", "/ip4/1.2.3.4/tcp/1/p2p/x"))
	require.True(t, ok)
	require.Equal(t, []string{"/ip4/1.2.3.4/tcp/1/p2p/x"}, n.extra.added)
	heads := make(chan *types.Header, 8)
	sub, err := ethclient.NewClient(ipc).SubscribeNewHead(bg, heads)
	require.NoError(t, err)
	b := n.mine()
	require.Equal(t, b.Hash(), receive(t, heads, sub).Hash())
}

func TestBor(t *testing.T) {
	n := newNet(t, 0, nil)
	var ps []producerJSON
	require.NoError(t, n.call(&ps, "bor_producers"))
	require.Len(t, ps, 4)
	require.Equal(t, account(1002), ps[2].Account)
	var turns []turnJSON
	require.NoError(t, n.call(&turns, "bor_schedule", "0x5", "0x3"))
	require.Equal(t, []turnJSON{
		{First: 4, Last: 5, Start: hexutil.Uint64(1_700_000_000_000 + 2000), Account: account(1002)},
		{First: 6, Last: 7, Start: hexutil.Uint64(1_700_000_000_000 + 3000), Account: account(1003)},
		{First: 8, Last: 9, Start: hexutil.Uint64(1_700_000_000_000 + 4000), Account: account(1000)},
	}, turns)
	var peers []PeerInfo
	require.NoError(t, n.call(&peers, "bor_peers"))
	require.Equal(t, n.extra.peers, peers)
	var st SyncStatus
	require.NoError(t, n.call(&st, "bor_syncStatus"))
	require.False(t, st.Syncing)

	bare, err := New(func() Config { c := DefaultConfig(); c.HTTPAddr = ""; return c }(), Backend{Chain: n.chain.Chain, Pool: n.pool}, nil, prometheus.NewRegistry())
	require.NoError(t, err)
	defer bare.Close()
	client := bare.Client()
	defer client.Close()
	for _, m := range []string{"bor_producers", "bor_peers", "bor_syncStatus", "admin_nodeInfo"} {
		requireCode(t, client.Call(nil, m), codeServer, "is not offered by this node")
	}
	var head hexutil.Uint64
	require.NoError(t, client.Call(&head, "eth_blockNumber"))
}

// Many clients at once, over HTTP and WebSocket, while blocks are made.
func TestConcurrentClients(t *testing.T) {
	n := newNet(t, 0, nil)
	addr := n.deploy()
	stop, made := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(made)
		for {
			select {
			case <-stop:
				return
			default:
				n.mine()
			}
		}
	}()
	var wg sync.WaitGroup
	for i := 1; i < 7; i++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			url := n.srv.HTTPURL()
			if i%2 == 0 {
				url = n.srv.WSURL()
			}
			c, err := ethclient.Dial(url)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			data, err := n.abi.Pack("store", big.NewInt(int64(i)), "x")
			if err != nil {
				t.Error(err)
				return
			}
			for k := uint64(0); k < 15; k++ {
				tx := n.sign(i, k, &addr, 0, data, 200_000)
				if err := c.SendTransaction(bg, tx); err != nil {
					t.Error(err)
					return
				}
				for { // until it is in a block
					r, err := c.TransactionReceipt(bg, tx.Hash())
					if err == nil {
						if b, err := c.BlockByHash(bg, r.BlockHash); err != nil || b.Hash() != r.BlockHash {
							t.Errorf("block of receipt: %v", err)
						}
						break
					}
				}
			}
		}()
	}
	wg.Wait()
	close(stop)
	<-made
	for i := 1; i < 7; i++ {
		nonce, err := n.eth.NonceAt(bg, account(i), nil)
		require.NoError(t, err)
		require.EqualValues(t, 15, nonce)
	}
}

func TestConfig(t *testing.T) {
	good := DefaultConfig()
	require.NoError(t, good.Validate())
	for _, x := range []struct {
		change func(*Config)
		text   string
	}{
		{func(c *Config) { c.HTTPAddr = "nowhere" }, "rpc.http_addr"},
		{func(c *Config) { c.Namespaces = []string{"eth", "admin"} }, `rpc.namespaces names "admin"`},
		{func(c *Config) { c.IPCPath = strings.Repeat("x", 101) }, "rpc.ipc_path"},
		{func(c *Config) { c.LogRange = 0 }, "rpc.log_range must be above 0"},
	} {
		bad := DefaultConfig()
		x.change(&bad)
		require.ErrorContains(t, bad.Validate(), x.text)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	n := newNet(t, 0, nil)
	_, err = New(func() Config { c := DefaultConfig(); c.HTTPAddr = l.Addr().String(); return c }(), Backend{Chain: n.chain.Chain, Pool: n.pool}, nil, nil)
	require.ErrorContains(t, err, "set rpc.http_addr or rpc.ws_addr to a free address")
}
