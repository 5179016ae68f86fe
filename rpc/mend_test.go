package rpc

import (
	"context"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/math"
	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// A query by block hash keeps the limits of one by range.
func TestLogLimitsByHash(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.LogCount, c.LogQueries, c.LogTimeout = 3, 1, waitTime })
	addr := n.deploy()
	for i := int64(0); i < 4; i++ {
		n.store(1, addr, i, "x")
	}
	hash := n.mine().Hash()
	requireCode(t, logsErr(n, ethereum.FilterQuery{BlockHash: &hash}), codeLimit, "more than 3 results")
	one := []common.Hash{common.BigToHash(big.NewInt(2))}
	got, err := n.eth.FilterLogs(bg, ethereum.FilterQuery{BlockHash: &hash, Topics: [][]common.Hash{nil, nil, one}})
	require.NoError(t, err)
	require.Len(t, got, 1)

	require.NoError(t, n.srv.logQueries.enter(bg, "x")) // the only place is taken
	ctx, cancel := context.WithCancel(bg)
	cancel()
	_, err = n.srv.getLogs(ctx, &logQuery{block: &hash})
	requireCode(t, err, codeLimit, "rpc.log_queries")
	n.srv.logQueries.leave("x")
}

// Logs of one block are counted while they are collected, with their bytes.
func TestLogBytes(t *testing.T) {
	n := newNet(t, 0, nil)
	fat := &types.Log{Data: make([]byte, maxLogBytes/4)}
	h := &types.Header{Number: new(big.Int)}
	h.Bloom.Add([]byte{1})
	c := fatChain{Chain: n.chain.Chain, logs: []*types.Log{fat, fat, fat, fat, fat}}
	x := newLogIndex(&c)
	budget := &logBudget{most: 100}
	_, err := x.logsIn(h, common.Hash{}, &logQuery{}, nil, budget)
	require.ErrorIs(t, err, errTooManyLogs)
	require.EqualValues(t, 4, budget.count.Load(), "the search ends at the log that is too much")
	c.logs = c.logs[:3]
	logs, err := x.logsIn(h, common.Hash{}, &logQuery{}, nil, &logBudget{most: 100})
	require.NoError(t, err)
	require.Len(t, logs, 3)
}

type fatChain struct {
	Chain
	logs []*types.Log
}

func (c *fatChain) Receipts(common.Hash) (types.Receipts, error) {
	return types.Receipts{{Logs: c.logs}}, nil
}

func TestQueueBytes(t *testing.T) {
	h := newHub()
	fat := &types.Log{Data: make([]byte, maxQueueBytes/4)} // shared: the test needs no more memory than this
	a := h.subscribe(want{kind: kindLogs, limit: 100})
	a.put(fat, fat, fat)
	a.put(fat)
	items, err := a.take()
	require.NoError(t, err)
	require.Len(t, items, 3)
	_, err = a.take()
	require.ErrorIs(t, err, errOverflow)
	require.Zero(t, h.waiting.total())
	a.put(fat)
	require.Zero(t, h.waiting.total(), "nothing is kept for one that overflowed")

	// All together are bounded too, but each may hold a little.
	var all []*subscriber
	for sum := int64(0); sum+3*logBytes(fat) <= maxAllQueueBytes; sum += 3 * logBytes(fat) {
		s := h.subscribe(want{kind: kindLogs, limit: 100})
		s.put(fat, fat, fat)
		require.False(t, s.full())
		all = append(all, s)
	}
	b, c := h.subscribe(want{kind: kindLogs, limit: 100}), h.subscribe(want{kind: kindLogs, limit: 100})
	b.put(&types.Log{Data: make([]byte, maxAllQueueBytes-h.waiting.total()-1024)})
	require.False(t, b.full())
	small := &types.Log{Data: make([]byte, minQueueBytes/2)}
	c.put(small)
	require.False(t, c.full())
	require.Greater(t, h.waiting.total(), int64(maxAllQueueBytes))
	c.put(small)
	require.True(t, c.full())
	for _, s := range append(all, b, c) {
		s.close()
		s.put(fat)
	}
	require.Zero(t, h.waiting.total(), "closed ones hold nothing")
}

// A filter or subscriber that asked for hashes keeps hashes, not whole transactions.
func TestHashesWaitAsHashes(t *testing.T) {
	n := newNet(t, 0, nil)
	var short, full, heads gethrpc.ID
	require.NoError(t, n.call(&short, "eth_newPendingTransactionFilter"))
	require.NoError(t, n.call(&full, "eth_newPendingTransactionFilter", true))
	require.NoError(t, n.call(&heads, "eth_newBlockFilter"))
	to := account(3)
	tx := n.send(1, &to, 1, nil)
	waiting := func(id gethrpc.ID) []any {
		s := n.srv.filters.get(id).sub
		s.mu.Lock()
		defer s.mu.Unlock()
		return append([]any(nil), s.items...)
	}
	require.Eventually(t, func() bool { return len(waiting(short)) == 1 && len(waiting(full)) == 1 }, waitTime, pollTime)
	require.Equal(t, tx.Hash(), waiting(short)[0])
	require.IsType(t, new(types.Transaction), waiting(full)[0])
	b := n.mine()
	require.Eventually(t, func() bool { return len(waiting(heads)) == 1 }, waitTime, pollTime)
	require.Equal(t, b.Hash(), waiting(heads)[0])
	var txs []transactionJSON
	require.NoError(t, n.call(&txs, "eth_getFilterChanges", full))
	require.Equal(t, tx.Hash(), txs[0].Hash)
}

// Only a dead socket is removed from the path.
func TestIPCPathIsOurs(t *testing.T) {
	n := newNet(t, 0, nil)
	dir := filepath.Dir(n.srv.cfg.IPCPath)
	start := func(path string) (*Server, error) {
		c := DefaultConfig()
		c.HTTPAddr, c.IPCPath = "", path
		return New(c, Backend{Chain: n.chain.Chain, Pool: n.pool}, nil, nil)
	}
	notes := filepath.Join(dir, "notes")
	require.NoError(t, os.WriteFile(notes, []byte("mine"), 0o600))
	_, err := start(notes)
	require.ErrorContains(t, err, "exists and is no socket")
	b, err := os.ReadFile(notes)
	require.NoError(t, err)
	require.Equal(t, "mine", string(b))

	_, err = start(n.srv.cfg.IPCPath)
	require.ErrorContains(t, err, "another process answers there")
	c, err := gethrpc.Dial(n.srv.cfg.IPCPath)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Call(nil, "eth_chainId"), "it answers still")

	// One that was left by a kill.
	dead := filepath.Join(dir, "dead")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead, Net: "unix"})
	require.NoError(t, err)
	l.SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	s, err := start(dead)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	_, err = os.Lstat(dead)
	require.ErrorIs(t, err, os.ErrNotExist, "removed in the end")
}

func TestOrderlyStopLogsNoError(t *testing.T) {
	n := newNet(t, 0, nil)
	core, logs := observer.New(zapcore.WarnLevel)
	c := DefaultConfig()
	c.HTTPAddr, c.WSAddr, c.IPCPath = "127.0.0.1:0", "127.0.0.1:0", filepath.Join(filepath.Dir(n.srv.cfg.IPCPath), "other")
	s, err := New(c, Backend{Chain: n.chain.Chain, Pool: n.pool}, zap.New(core), nil)
	require.NoError(t, err)
	client, err := gethrpc.Dial(s.HTTPURL())
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.Call(nil, "eth_chainId"))
	require.NoError(t, s.Close())
	require.Empty(t, logs.All())
}

// failing is a listener whose first calls of Accept fail as when there are no file descriptors left.
type failing struct {
	net.Listener
	left int
}

func (f *failing) Accept() (net.Conn, error) {
	if f.left--; f.left >= 0 {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	return f.Listener.Accept()
}

func TestIPCSurvivesAcceptErrors(t *testing.T) {
	n := newNet(t, 0, nil)
	core, logs := observer.New(zapcore.WarnLevel)
	n.srv.log = zap.New(core)
	path := filepath.Join(filepath.Dir(n.srv.cfg.IPCPath), "failing")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() { defer close(ended); n.srv.acceptIPC(&failing{l, 3}) }()
	c, err := gethrpc.Dial(path)
	require.NoError(t, err)
	require.NoError(t, c.Call(nil, "eth_chainId"))
	c.Close()
	require.Equal(t, 3, logs.FilterMessageSnippet("cannot take a connection").Len())
	require.NoError(t, l.Close())
	<-ended
	require.Equal(t, 1, logs.FilterMessageSnippet("JSON-RPC socket ended").Len(), "a listener that ends by itself is told of")
}

func TestEstimateGasOverrides(t *testing.T) {
	n := newNet(t, 0, nil)
	identity := common.Address{19: 4}
	move := map[string]any{identity.Hex(): map[string]any{"movePrecompileToAddress": common.Address{9, 9}}}
	msg := map[string]any{"to": common.Address{9, 9}, "input": "0x0102"}
	requireCode(t, n.call(nil, "eth_estimateGas", msg, "latest", move), codeInvalidParams, "eth_estimateGas cannot move precompiles; eth_call can")
	var out string
	require.NoError(t, n.call(&out, "eth_call", msg, "latest", move))
	require.Equal(t, "0x0102", out)
}

// Fee histories with percentiles read whole blocks: they take a place among the calls and end with their caller.
func TestFeeHistoryTakesAPlace(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.Calls = 1 })
	n.mine()
	api := &ethAPI{n.srv.service}
	ended, cancel := context.WithCancel(bg)
	cancel()
	require.NoError(t, n.srv.calls.enter(bg, "x"))
	some := []float64{50}
	_, err := api.FeeHistory(ended, math.HexOrDecimal64(2), gethrpc.LatestBlockNumber, &some)
	requireCode(t, err, codeLimit, "rpc.calls")
	h, err := api.FeeHistory(bg, math.HexOrDecimal64(2), gethrpc.LatestBlockNumber, nil)
	require.NoError(t, err, "headers alone need no place")
	require.Len(t, h.BaseFee, 3)
	n.srv.calls.leave("x")
	_, err = api.FeeHistory(ended, math.HexOrDecimal64(2), gethrpc.LatestBlockNumber, nil)
	requireCode(t, err, codeLimit, "rpc.call_timeout")
	h, err = api.FeeHistory(bg, math.HexOrDecimal64(2), gethrpc.LatestBlockNumber, &some)
	require.NoError(t, err)
	require.Len(t, h.Reward, 2)
	require.Zero(t, n.srv.calls.running, "the place is free again")
}

// Only a client that does not keep up is a slow one; one that goes away is not.
func TestSlowIsNotGone(t *testing.T) {
	require.True(t, slow(errOverflow))
	require.True(t, slow(&net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}))
	for _, err := range []error{io.EOF, net.ErrClosed, syscall.EPIPE, websocket.ErrCloseSent, gethrpc.ErrClientQuit,
		&net.OpError{Op: "write", Err: syscall.ECONNRESET}, errors.New("connection closed")} {
		require.False(t, slow(err), err)
	}
}
