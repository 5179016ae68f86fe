package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

// rpcError is an error that the fake server answers with.
type rpcError struct {
	code int
	msg  string
	data any
}

func (e *rpcError) Error() string { return e.msg }

// httpStatus is an answer that is none of JSON-RPC.
type httpStatus struct{ code int }

func (e *httpStatus) Error() string { return http.StatusText(e.code) }

// fakeServer is a JSON-RPC server made of functions.
type fakeServer struct {
	url string

	mu       sync.Mutex
	handlers map[string]func(params []json.RawMessage) (any, error)
	calls    map[string]int
	token    string // asked for if it is set
	status   int    // answered instead if it is set
}

func newServer(t *testing.T) *fakeServer {
	f := &fakeServer{handlers: map[string]func([]json.RawMessage) (any, error){}, calls: map[string]int{}}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

// onSocket serves the same on a Unix socket, which speaks JSON lines as go-ethereum's do.
func (f *fakeServer) onSocket(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				dec := json.NewDecoder(c)
				for {
					var q request
					if dec.Decode(&q) != nil {
						return
					}
					_ = json.NewEncoder(c).Encode(f.answer(&q))
				}
			})
		}
	})
	return path
}

type request struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

func (f *fakeServer) on(method string, h func(params []json.RawMessage) (any, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handlers[method] = h
}

// says makes a method answer always the same.
func (f *fakeServer) says(method string, v any) {
	f.on(method, func([]json.RawMessage) (any, error) {
		if err, ok := v.(error); ok {
			return nil, err
		}
		return v, nil
	})
}

func (f *fakeServer) called(method string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls[method]
}

func (f *fakeServer) answer(q *request) map[string]any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[q.Method]++
	out := map[string]any{"jsonrpc": "2.0", "id": q.ID}
	h, ok := f.handlers[q.Method]
	if !ok {
		out["error"] = map[string]any{"code": -32601, "message": fmt.Sprintf("the method %s does not exist/is not available", q.Method)}
		return out
	}
	v, err := h(q.Params)
	if s, ok := err.(*httpStatus); ok {
		return map[string]any{"status": s.code}
	}
	if err != nil {
		e := err.(*rpcError)
		body := map[string]any{"code": e.code, "message": e.msg}
		if e.data != nil {
			body["data"] = e.data
		}
		out["error"] = body
		return out
	}
	out["result"] = v
	return out
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.status != 0 {
		http.Error(w, "no", f.status)
		return
	}
	if f.token != "" && r.Header.Get("Authorization") != "Bearer "+f.token {
		http.Error(w, "no", http.StatusUnauthorized)
		return
	}
	var q request
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	out := f.answer(&q)
	if status, ok := out["status"].(int); ok {
		http.Error(w, "no", status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

const (
	testKey   = "4f3edf983ac636a65a842ce7c78d9aa706d3b113bce9c46f30d7d21715b23b1d"
	someone   = "0x52908400098527886E0F7030069857D2E4169EE7"
	testChain = 71337
)

// testAddress is the address of testKey.
func testAddress() common.Address {
	k, _ := crypto.HexToECDSA(testKey)
	return crypto.PubkeyToAddress(k.PublicKey)
}

// newNode is a node with one account, a fixed base fee of 0 and blocks that take in what is sent at once.
func newNode(t *testing.T) *fakeServer {
	f := newServer(t)
	f.says("eth_chainId", hexutil.Uint64(testChain))
	f.says("eth_getTransactionCount", "0x5")
	f.says("eth_maxPriorityFeePerGas", "0x0")
	f.says("eth_estimateGas", "0x5208")
	f.says("eth_getCode", "0x6001")
	f.on("eth_getBlockByNumber", func(p []json.RawMessage) (any, error) {
		return map[string]any{"number": "0x9", "hash": common.Hash{9}, "baseFeePerGas": "0x0", "gasLimit": "0x1000000", "transactions": []string{}}, nil
	})
	var sent *types.Transaction
	f.on("eth_sendRawTransaction", func(p []json.RawMessage) (any, error) {
		sent = decodeSent(p)
		return sent.Hash(), nil
	})
	f.on("eth_getTransactionReceipt", func([]json.RawMessage) (any, error) {
		if sent == nil {
			return nil, nil
		}
		return receipt(sent.Hash(), 9, 1), nil
	})
	return f
}

func decodeSent(p []json.RawMessage) *types.Transaction {
	var raw hexutil.Bytes
	if err := json.Unmarshal(p[0], &raw); err != nil {
		panic(err)
	}
	tx := new(types.Transaction)
	if err := tx.UnmarshalBinary(raw); err != nil {
		panic(err)
	}
	return tx
}

func receipt(hash common.Hash, block uint64, status uint64) map[string]any {
	return map[string]any{
		"transactionHash": hash, "blockHash": common.Hash{byte(block)}, "blockNumber": hexutil.Uint64(block), "status": hexutil.Uint64(status),
		"gasUsed": "0x5208", "cumulativeGasUsed": "0x5208", "logsBloom": hexutil.Bytes(make([]byte, 256)), "logs": []any{}, "effectiveGasPrice": "0x0",
		"type": "0x2", "transactionIndex": "0x0",
	}
}

// keyFileOf writes a raw key of mode 0600.
func keyFileOf(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "test.key")
	require.NoError(t, os.WriteFile(path, []byte(testKey+"\n"), 0o600))
	return path
}

// outcome is what a command line did.
type outcome struct {
	code     int
	out, err string
}

// runWith runs a command line in this process.
func runWith(t *testing.T, stdin string, environ []string, args ...string) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	code := execute(t.Context(), args, surroundings{in: strings.NewReader(stdin), out: &out, errOut: &errOut, environ: environ, home: t.TempDir()})
	return outcome{code, out.String(), errOut.String()}
}

func run(t *testing.T, args ...string) outcome {
	t.Helper()
	return runWith(t, "", nil, args...)
}

// fails asks for an exit code and for parts of the sentence, which is one line.
func (o outcome) fails(t *testing.T, code int, parts ...string) {
	t.Helper()
	require.Equal(t, code, o.code, "%s%s", o.out, o.err)
	for _, p := range parts {
		require.Contains(t, o.err, p)
	}
	last := o.err[strings.LastIndex(strings.TrimSuffix(o.err, "\n"), "\n")+1:]
	require.True(t, strings.HasPrefix(last, "borcli: "), "%q", o.err)
}

// failsIn is fails for a sentence that may stand in JSON.
func (o outcome) failsIn(t *testing.T, code int, part string) {
	t.Helper()
	require.Equal(t, code, o.code, "%s%s", o.out, o.err)
	require.Contains(t, o.err, part)
}

func (o outcome) succeeds(t *testing.T) outcome {
	t.Helper()
	require.Equal(t, exitOK, o.code, "%s%s", o.out, o.err)
	return o
}

// json reads the output.
func (o outcome) json(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(o.out), &v), "%s%s", o.out, o.err)
	return v
}
