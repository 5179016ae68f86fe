package main

import (
	"bytes"
	"context"
	"encoding/json"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
)

// capture keeps what the node is sent.
func capture(f *fakeServer) *types.Transaction {
	got := new(types.Transaction)
	f.on("eth_sendRawTransaction", func(p []json.RawMessage) (any, error) {
		*got = *decodeSent(p) //nolint:govet // a copy of a test's own
		return got.Hash(), nil
	})
	f.on("eth_getTransactionReceipt", func([]json.RawMessage) (any, error) { return receipt(got.Hash(), 9, 1), nil })
	return got
}

func TestSendFillsInTheTransaction(t *testing.T) {
	f := newNode(t)
	tx := capture(f)
	o := run(t, "send", someone, "1.5ether", "--node", f.url, "--key", keyFileOf(t), "--wait", "final", "--json").succeeds(t)
	v := o.json(t)
	require.Equal(t, tx.Hash().Hex(), v["hash"])
	require.Equal(t, "final", v["status"])
	require.Equal(t, "1500000000000000000", v["value"])
	require.Empty(t, o.err, "with --json nothing but the result is printed")

	from, err := types.Sender(types.LatestSignerForChainID(big.NewInt(testChain)), tx)
	require.NoError(t, err)
	require.Equal(t, testAddress(), from)
	require.EqualValues(t, types.DynamicFeeTxType, tx.Type())
	require.EqualValues(t, 5, tx.Nonce())
	require.EqualValues(t, 21000, tx.Gas())
	require.Zero(t, tx.GasTipCap().Sign())
	require.Zero(t, tx.GasFeeCap().Sign())
	require.EqualValues(t, testChain, tx.ChainId().Uint64())
}

func TestFeesAndFlags(t *testing.T) {
	f := newNode(t)
	tx := capture(f)
	f.says("eth_maxPriorityFeePerGas", hexutil.Uint64(3))
	f.says("eth_estimateGas", hexutil.Uint64(100_000))
	f.says("eth_getBlockByNumber", map[string]any{"number": "0x9", "baseFeePerGas": hexutil.Uint64(1000)})
	send := func(args ...string) outcome {
		return run(t, append([]string{"send", someone, "0", "--node", f.url, "--key", keyFileOf(t)}, args...)...)
	}
	send().succeeds(t)
	require.EqualValues(t, 2003, tx.GasFeeCap().Uint64(), "twice the base fee and the tip")
	require.EqualValues(t, 3, tx.GasTipCap().Uint64())
	require.EqualValues(t, 120_000, tx.Gas(), "a fifth more than estimated")
	send("--gas-price", "7wei", "--legacy", "--gas", "50000", "--nonce", "3").succeeds(t)
	require.EqualValues(t, types.LegacyTxType, tx.Type())
	require.EqualValues(t, 7, tx.GasPrice().Uint64())
	require.EqualValues(t, 50_000, tx.Gas())
	require.EqualValues(t, 3, tx.Nonce())
	require.True(t, tx.Protected())
	send("--max-fee", "1gwei", "--tip", "2wei", "--data", "0xabcd").succeeds(t)
	require.EqualValues(t, 1e9, tx.GasFeeCap().Uint64())
	require.Equal(t, []byte{0xab, 0xcd}, tx.Data())
	list := filepath.Join(t.TempDir(), "list.json")
	require.NoError(t, os.WriteFile(list, []byte(`[{"address":"`+someone+`","storageKeys":[]}]`), 0o600))
	send("--access-list", list).succeeds(t)
	require.Len(t, tx.AccessList(), 1)
	send("--access-list", list, "--legacy").succeeds(t)
	require.EqualValues(t, types.AccessListTxType, tx.Type())

	send("--tip", "2gwei", "--max-fee", "1gwei").fails(t, exitUsage, "--tip 2 gwei is above --max-fee 1 gwei")
	send("--gas-price", "1gwei", "--tip", "1gwei").fails(t, exitUsage, "one or the other")
	send("--gas-price", "5").fails(t, exitUsage, "--gas-price", "has no unit")
	send("--access-list", "/none").fails(t, exitUsage, "--access-list")
}

func TestALyingNodeCannotMakeItExpensive(t *testing.T) {
	f := newNode(t)
	f.says("eth_maxPriorityFeePerGas", (*hexutil.Big)(new(big.Int).Lsh(big.NewInt(1), 70)))
	run(t, "send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t)).fails(t, exitUsage, "--most-fee allows 1 ether")
	f.says("eth_maxPriorityFeePerGas", "0x1")
	f.says("eth_estimateGas", hexutil.Uint64(1<<60))
	run(t, "send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t)).fails(t, exitUsage, "--most-fee")
	run(t, "send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t), "--chain-id", "1").fails(t, exitUsage, "is of chain 71337, --chain-id asks for 1")
	require.Zero(t, f.called("eth_sendRawTransaction"))
}

// A receipt that moves to another block, or goes away, is noticed until its block is final.
func TestWaitFollowsBranchSwitches(t *testing.T) {
	f := newNode(t)
	tx := capture(f)
	looks := 0
	f.on("eth_getTransactionReceipt", func([]json.RawMessage) (any, error) {
		switch looks++; looks {
		case 1, 3:
			return nil, nil
		case 2:
			return receipt(tx.Hash(), 10, 0), nil // failed on the branch that is left
		}
		return receipt(tx.Hash(), 11, 1), nil
	})
	f.on("eth_getBlockByNumber", func(p []json.RawMessage) (any, error) {
		n := 9
		if looks > 4 {
			n = 11
		}
		return map[string]any{"number": hexutil.Uint64(n), "baseFeePerGas": "0x0"}, nil
	})
	v := run(t, "send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t), "--wait", "final", "--json").succeeds(t).json(t)
	require.Equal(t, "0xb", v["block"])
	require.Equal(t, "final", v["status"])
	require.Equal(t, true, v["final"])
}

// A transaction whose nonce another one of the account took is made again with the next, unless the user chose the nonce.
func TestANonceThatIsTakenMeanwhile(t *testing.T) {
	f := newNode(t)
	tx := capture(f)
	taken := []string{"nonce too low: next nonce 6, tx nonce 5", "replacement transaction underpriced; offer 10 % more"}
	next := uint64(5)
	f.on("eth_getTransactionCount", func([]json.RawMessage) (any, error) { return hexutil.Uint64(next), nil })
	f.on("eth_sendRawTransaction", func(p []json.RawMessage) (any, error) {
		*tx = *decodeSent(p) //nolint:govet // a copy of a test's own
		if n := tx.Nonce() - 5; n < uint64(len(taken)) {
			next++
			return nil, &rpcError{code: -32000, msg: taken[n]}
		}
		return tx.Hash(), nil
	})
	send := []string{"send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t)}
	f.says("eth_getTransactionByHash", map[string]any{"nonce": "0x5"})
	run(t, send...).fails(t, exitRefused, "nonce too low") // by whoever handed it over twice
	next = 5
	f.says("eth_getTransactionByHash", nil)
	o := run(t, send...).succeeds(t)
	require.EqualValues(t, 7, tx.Nonce())
	require.Contains(t, o.err, "another transaction of "+testAddress().Hex()+" took nonce 6 before")
	next = 5
	run(t, append(send, "--nonce", "5")...).fails(t, exitRefused, "nonce too low")
	f.on("eth_sendRawTransaction", func([]json.RawMessage) (any, error) { return nil, &rpcError{code: -32000, msg: taken[1]} })
	run(t, send...).fails(t, exitRefused, "replacement transaction underpriced")
}

func TestWaitEndsForTransactionsThatCannotCome(t *testing.T) {
	f := newNode(t)
	tx := capture(f)
	f.says("eth_getTransactionReceipt", nil)
	key := keyFileOf(t)
	send := func(args ...string) outcome {
		return run(t, append([]string{"send", someone, "1wei", "--node", f.url, "--key", key}, args...)...)
	}
	o := send("--timeout", "1ms")
	o.fails(t, exitTimeout, "is in no block after 1ms", tx.Hash().Hex())
	require.Contains(t, o.out, tx.Hash().Hex(), "the hash is never lost")
	require.True(t, strings.HasPrefix(o.err, "transaction "+tx.Hash().Hex()), "it is told before the waiting: %s", o.err)
	o = send("--timeout", "1ms", "--json")
	require.Equal(t, "pending", o.json(t)["status"])
	require.Equal(t, exitTimeout, o.code)

	f.on("eth_getTransactionCount", func(p []json.RawMessage) (any, error) {
		if string(p[1]) == `"latest"` {
			return "0x3", nil
		}
		return "0x5", nil
	})
	send("--timeout", "1ms").fails(t, exitTimeout, "waits for nonce 3")
	f.on("eth_getTransactionCount", func(p []json.RawMessage) (any, error) {
		if string(p[1]) == `"finalized"` {
			return "0x6", nil
		}
		return "0x5", nil
	})
	send().fails(t, exitRefused, "another one with nonce 5", "has become final in its place")
	send("--wait", "none").succeeds(t)
	f.says("eth_getTransactionReceipt", map[string]any{})
	f.says("eth_getTransactionCount", "0x5")
	f.on("eth_getTransactionReceipt", func([]json.RawMessage) (any, error) { return receipt(tx.Hash(), 50, 1), nil })
	send("--wait", "final", "--timeout", "2s").fails(t, exitTimeout, "is in block 50, which is not final")
}

// A node that is started again while a transaction waits is asked again.
func TestWaitOutlivesARestart(t *testing.T) {
	f := newNode(t)
	tx := capture(f)
	var looks atomic.Int32
	f.on("eth_getTransactionReceipt", func([]json.RawMessage) (any, error) {
		if looks.Add(1) <= 3 {
			panic(http.ErrAbortHandler) // the connection breaks
		}
		return receipt(tx.Hash(), 9, 1), nil
	})
	run(t, "send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t)).succeeds(t)
	require.Equal(t, int32(4), looks.Load())
	f.on("eth_getTransactionReceipt", func([]json.RawMessage) (any, error) { panic(http.ErrAbortHandler) })
	run(t, "send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t), "--timeout", "1s").fails(t, exitUnreachable, "was sent: look again with borcli tx wait")
}

func TestFailedTransactionsTellWhy(t *testing.T) {
	f := newNode(t)
	tx := capture(f)
	f.says("eth_estimateGas", hexutil.Uint64(90_000))
	f.on("eth_getTransactionReceipt", func([]json.RawMessage) (any, error) { return receipt(tx.Hash(), 9, 0), nil })
	f.says("eth_call", &rpcError{3, "execution reverted: closed", "0x"})
	o := run(t, "send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t))
	o.fails(t, exitReverted, "is in block 9 but failed: the call is reverted by the contract: closed")
	require.Contains(t, o.out, "failed")
	f.on("eth_getTransactionReceipt", func([]json.RawMessage) (any, error) {
		r := receipt(tx.Hash(), 9, 0)
		r["gasUsed"] = hexutil.Uint64(108_000)
		return r, nil
	})
	run(t, "send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t)).fails(t, exitReverted, "used up its gas")
}

// If the answer to the sending is lost, the transaction may be on its way: its hash is told.
func TestLostAnswersNameTheTransaction(t *testing.T) {
	f := newNode(t)
	arrived := make(chan common.Hash, 1) // the broken connection orders nothing
	proxy := newServer(t)
	proxy.handlers = f.handlers
	proxy.on("eth_sendRawTransaction", func(p []json.RawMessage) (any, error) {
		arrived <- decodeSent(p).Hash()
		panic(http.ErrAbortHandler) // the connection breaks
	})
	o := run(t, "send", someone, "1wei", "--node", proxy.url, "--key", keyFileOf(t))
	o.fails(t, exitUnreachable, "Transaction "+(<-arrived).Hex()+" may have arrived", "borcli tx show")
}

// An answer that says nothing about the transaction is no refusal: whoever repeats the command would pay twice.
func TestAnswersThatLeaveItOpen(t *testing.T) {
	key := keyFileOf(t)
	for name, c := range map[string]struct {
		status int // of a proxy that has passed the transaction on
		code   int // else a JSON-RPC error
		exit   int
	}{
		"502": {http.StatusBadGateway, 0, exitTimeout}, "503": {http.StatusServiceUnavailable, 0, exitTimeout}, "504": {http.StatusGatewayTimeout, 0, exitTimeout},
		"408": {http.StatusRequestTimeout, 0, exitTimeout}, "429": {http.StatusTooManyRequests, 0, exitTimeout},
		"time limit": {0, -32002, exitTimeout}, "internal": {0, -32603, exitTimeout},
		"413": {http.StatusRequestEntityTooLarge, 0, exitRefused}, "refused": {0, -32000, exitRefused},
	} {
		t.Run(name, func(t *testing.T) {
			f := newNode(t)
			var hash common.Hash
			f.on("eth_sendRawTransaction", func(p []json.RawMessage) (any, error) {
				if hash = decodeSent(p).Hash(); c.status != 0 {
					return nil, &httpStatus{c.status}
				}
				return nil, &rpcError{c.code, "something happened", nil}
			})
			send := func(args ...string) outcome {
				return run(t, append([]string{"send", someone, "1wei", "--node", f.url, "--key", key}, args...)...)
			}
			open := c.exit != exitRefused
			o := send()
			o.fails(t, c.exit)
			require.Equal(t, open, strings.Contains(o.err, "Transaction "+hash.Hex()+" may have arrived: look with borcli tx show "+hash.Hex()+" before you send it again"), o.err)
			o = send("--json")
			require.Equal(t, open, strings.Contains(o.err, hash.Hex()), "the hash is told if the transaction may be on its way: %s", o.err)
			if !open {
				require.Empty(t, o.out)
				return
			}
			require.Contains(t, o.err, `"hash": "`+hash.Hex()+`"`)
			require.Equal(t, "unknown", o.json(t)["status"])
			require.Equal(t, hash.Hex(), o.json(t)["hash"])
		})
	}
}

// An interrupt while the node has the transaction leaves it open, too.
func TestInterruptedSending(t *testing.T) {
	f := newNode(t)
	ctx, cancel := context.WithCancel(t.Context())
	var out, errOut bytes.Buffer
	release := make(chan struct{})
	f.on("eth_sendRawTransaction", func([]json.RawMessage) (any, error) { cancel(); <-release; return nil, nil })
	code := execute(ctx, []string{"send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t)},
		surroundings{in: strings.NewReader(""), out: &out, errOut: &errOut, home: t.TempDir()})
	close(release)
	require.Equal(t, exitOther, code)
	require.Contains(t, errOut.String(), "interrupted. Transaction 0x")
	require.Contains(t, errOut.String(), "may have arrived")
}

// A node's receipt is foreign: without a block, or of another transaction, it is no crash and no success.
func TestReceiptsThatCannotBeRead(t *testing.T) {
	f := newNode(t)
	tx := capture(f)
	for name, change := range map[string]func(map[string]any){
		"no block": func(r map[string]any) { delete(r, "blockNumber") }, "null": func(r map[string]any) { r["blockNumber"] = nil },
		"huge": func(r map[string]any) { r["blockNumber"] = "0x10000000000000000" }, "other": func(r map[string]any) { r["transactionHash"] = common.Hash{1} },
	} {
		t.Run(name, func(t *testing.T) {
			f.on("eth_getTransactionReceipt", func([]json.RawMessage) (any, error) {
				r := receipt(tx.Hash(), 9, 1)
				change(r)
				return r, nil
			})
			o := run(t, "send", someone, "1wei", "--node", f.url, "--key", keyFileOf(t))
			o.fails(t, exitOther, "receipt of transaction "+tx.Hash().Hex()+" cannot be read", "was sent: look again with borcli tx wait")
		})
	}
}

func TestTxCommands(t *testing.T) {
	f := newNode(t)
	tx := capture(f)
	key := keyFileOf(t)
	run(t, "send", someone, "1wei", "--node", f.url, "--key", key).succeeds(t)
	raw, err := tx.MarshalBinary()
	require.NoError(t, err)
	f.says("eth_getRawTransactionByHash", hexutil.Bytes(raw))
	require.Equal(t, hexutil.Encode(raw)+"\n", run(t, "tx", "raw", tx.Hash().Hex(), "--node", f.url).succeeds(t).out)
	o := runWith(t, hexutil.Encode(raw)+"\n", nil, "tx", "send-raw", "-", "--node", f.url, "--json").succeeds(t)
	require.Equal(t, tx.Hash().Hex(), o.json(t)["hash"])
	run(t, "tx", "send-raw", "0x1234", "--node", f.url).fails(t, exitUsage, "no signed transaction")

	f.says("eth_getTransactionByHash", nil)
	run(t, "tx", "show", tx.Hash().Hex(), "--node", f.url).fails(t, exitNotFound, "knows no transaction")
	text, err := tx.MarshalJSON()
	require.NoError(t, err)
	var m map[string]any
	require.NoError(t, json.Unmarshal(text, &m))
	m["from"] = testAddress()
	f.says("eth_getTransactionByHash", m)
	o = run(t, "tx", "show", tx.Hash().Hex(), "--node", f.url).succeeds(t)
	require.Contains(t, o.out, "final")
	require.Contains(t, o.out, "1 wei")
	run(t, "tx", "wait", tx.Hash().Hex(), "--wait", "final", "--node", f.url).succeeds(t)

	f.says("eth_chainId", "0x1")
	run(t, "tx", "send-raw", hexutil.Encode(raw), "--node", f.url).fails(t, exitUsage, "signed for chain 71337, the node is of chain 1")
}
