package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/consensus"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/eth/tracers"
	"github.com/ethereum/go-ethereum/ethdb"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rlp"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// deployCode puts runtime code on the chain.
func (n *testNet) deployCode(code []byte) common.Address {
	n.t.Helper()
	init := append([]byte{0x61, byte(len(code) >> 8), byte(len(code)), 0x80, 0x60, 0x0a, 0x5f, 0x39, 0x5f, 0xf3}, code...)
	tx := n.send(0, nil, 0, init)
	n.mine()
	r, err := n.eth.TransactionReceipt(bg, tx.Hash())
	require.NoError(n.t, err)
	require.EqualValues(n.t, 1, r.Status)
	return r.ContractAddress
}

// busyCode logs, sends ether, makes a call that reverts, creates a contract that writes, writes itself, and delegates.
func busyCode(sample, to common.Address) []byte {
	call := func(value byte, a common.Address, op string) string {
		v := fmt.Sprintf("60%02x", value)
		if op == "f4" {
			v = ""
		}
		return "5f5f5f5f" + v + "73" + fmt.Sprintf("%x", a[:]) + "5a" + op + "50"
	}
	return common.FromHex("60015f5fa1" + call(1, to, "f1") + call(0, sample, "f1") +
		"6660015f555f5ff3" + "5f52" + "600760196001f050" + "6003600255" + call(0, sample, "f4") + "00")
}

// tracedNet is a chain with one block of varied transactions, and go-ethereum's own tracing API over it.
type tracedNet struct {
	*testNet
	sample, busy common.Address
	creation     []byte
	txs          []*types.Transaction
	block        *block.Block
	ref          *tracers.API
}

func newTracedNet(t *testing.T) *tracedNet {
	n := &tracedNet{testNet: newNet(t, 100, nil)}
	n.sample = n.deploy()
	n.busy = n.deployCode(busyCode(n.sample, common.Address{0x73}))
	args, err := n.abi.Pack("", big.NewInt(5))
	require.NoError(t, err)
	n.creation = append(bytes.Clone(n.code), args...)
	n.txs = []*types.Transaction{
		n.store(1, n.sample, 0, "a refund"), n.store(1, n.sample, 7, "seven"), n.send(1, &n.busy, 10, nil), n.send(1, nil, 0, n.creation), n.store(1, n.sample, 13, "refused"),
	}
	n.block = n.mine()
	require.Len(t, n.block.Transactions, len(n.txs))
	n.ref = tracers.NewAPI(&refBackend{n.srv.service, rawdb.NewMemoryDatabase()})
	return n
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return string(b)
}

// Traces are those of go-ethereum's own API over the same chain: nested calls, creations, reverts, logs, transfers.
func TestTracesAreGoEthereums(t *testing.T) {
	n := newTracedNet(t)
	raw := n.rawBlock(n.block.Hash())
	for name, cfg := range map[string]anyMap{
		"opcodes":      {},
		"opcodes, all": {"enableMemory": true, "enableReturnData": true},
		"some opcodes": {"disableStack": true, "disableStorage": true, "limit": 500},
		"calls":        {"tracer": "callTracer", "tracerConfig": anyMap{"withLog": true}},
		"top call":     {"tracer": "callTracer", "tracerConfig": anyMap{"onlyTopCall": true}},
		"prestate":     {"tracer": "prestateTracer"},
		"diff":         {"tracer": "prestateTracer", "tracerConfig": anyMap{"diffMode": true}},
		"flat":         {"tracer": "flatCallTracer"},
		"selectors":    {"tracer": "4byteTracer"},
		"preimages":    {"tracer": "keccak256PreimageTracer"},
		"user op":      {"tracer": "erc7562Tracer"},
		"nothing":      {"tracer": "noopTracer"},
		"two":          {"tracer": "muxTracer", "tracerConfig": anyMap{"callTracer": nil, "4byteTracer": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			var theirs tracers.TraceConfig
			require.NoError(t, json.Unmarshal([]byte(asJSON(t, cfg)), &theirs))
			for i, tx := range n.txs {
				want, err := n.ref.TraceTransaction(bg, tx.Hash(), &theirs)
				require.NoError(t, err)
				var got rawJSON
				require.NoError(t, n.call(&got, "debug_traceTransaction", tx.Hash(), cfg))
				require.JSONEq(t, asJSON(t, want), string(got), "transaction %d", i)
			}
			want, err := n.ref.TraceBlockByHash(bg, n.block.Hash(), &theirs)
			require.NoError(t, err)
			for method, arg := range map[string]any{"debug_traceBlockByHash": n.block.Hash(), "debug_traceBlockByNumber": "latest", "debug_traceBlock": raw} {
				var got rawJSON
				require.NoError(t, n.call(&got, method, arg, cfg))
				require.JSONEq(t, asJSON(t, want), string(got), method)
			}
		})
	}
}

// Traces of calls, too, with overrides and in the middle of a block.
func TestTracedCallsAreGoEthereums(t *testing.T) {
	n := newTracedNet(t)
	ghost := common.Address{0x99}
	for name, x := range map[string]struct {
		args, cfg anyMap
	}{
		"plain":      {anyMap{"from": account(1), "to": n.busy, "value": "0x3"}, anyMap{"tracer": "callTracer"}},
		"pays":       {anyMap{"from": account(1), "to": n.busy, "value": "0x3", "gasPrice": "0x96", "gas": "0x493e0"}, anyMap{"tracer": "prestateTracer", "tracerConfig": anyMap{"diffMode": true}}},
		"creates":    {anyMap{"from": account(1), "input": hexutil.Bytes(n.creation)}, anyMap{"tracer": "callTracer"}},
		"in a block": {anyMap{"from": account(1), "to": n.sample, "input": hexutil.Bytes(n.abi.Methods["value"].ID)}, anyMap{"tracer": "callTracer", "txIndex": "0x1"}},
		"overrides":  {anyMap{"to": ghost}, anyMap{"tracer": "callTracer", "stateOverrides": anyMap{ghost.Hex(): anyMap{"code": "0x43405f5260206040f3", "balance": "0x1"}}, "blockOverrides": anyMap{"number": hexutil.Uint64(n.block.Number() + 1)}}},
		"next":       {anyMap{"to": ghost}, anyMap{"tracer": "callTracer", "stateOverrides": anyMap{ghost.Hex(): anyMap{"code": "0x60014303405f5260205ff3"}}, "blockOverrides": anyMap{"number": hexutil.Uint64(n.block.Number() + 1)}}},
		"opcodes":    {anyMap{"to": n.sample, "input": "0x01"}, anyMap{}},
	} {
		t.Run(name, func(t *testing.T) {
			var theirs tracers.TraceCallConfig
			require.NoError(t, json.Unmarshal([]byte(asJSON(t, x.cfg)), &theirs))
			latest := byNumber(gethrpc.LatestBlockNumber)
			want, err := refCall(bg, n.ref.TraceCall, []byte(asJSON(t, x.args)), &latest, &theirs)
			require.NoError(t, err)
			var got rawJSON
			require.NoError(t, n.call(&got, "debug_traceCall", x.args, "pending", x.cfg))
			require.JSONEq(t, asJSON(t, want), string(got))
			if name == "next" {
				require.Contains(t, string(got), n.block.Hash().Hex()[2:], "the block after the head sees the head's hash")
				var ret hexutil.Bytes
				require.NoError(t, n.call(&ret, "eth_call", x.args, "latest", x.cfg["stateOverrides"], x.cfg["blockOverrides"]))
				require.Equal(t, n.block.Hash().Bytes(), []byte(ret))
			}
		})
	}
}

func (n *testNet) rawBlock(h common.Hash) hexutil.Bytes {
	n.t.Helper()
	var raw hexutil.Bytes
	require.NoError(n.t, n.call(&raw, "debug_getRawBlock", h))
	return raw
}

func TestRawEncodings(t *testing.T) {
	n := newNet(t, 0, nil)
	addr := n.deploy()
	tx := n.store(1, addr, 7, "seven")
	b := n.mine()
	var raw hexutil.Bytes
	require.NoError(t, n.call(&raw, "debug_getRawHeader", "latest"))
	var h types.Header
	require.NoError(t, rlp.DecodeBytes(raw, &h))
	require.Equal(t, b.Hash(), h.Hash())
	var eb types.Block
	require.NoError(t, rlp.DecodeBytes(n.rawBlock(b.Hash()), &eb))
	require.Equal(t, b.Hash(), eb.Hash())
	require.Equal(t, tx.Hash(), eb.Transactions()[0].Hash())
	require.NoError(t, n.call(&raw, "debug_getRawTransaction", tx.Hash()))
	want, err := tx.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, want, []byte(raw))
	var rs []hexutil.Bytes
	require.NoError(t, n.call(&rs, "debug_getRawReceipts", "latest"))
	r := new(types.Receipt)
	require.NoError(t, r.UnmarshalBinary(rs[0]))
	require.Len(t, r.Logs, 1)
	var none rawJSON
	require.NoError(t, n.call(&none, "debug_getRawTransaction", common.Hash{1}))
	require.Equal(t, `"0x"`, string(none), "as eth_getRawTransactionByHash answers")
	require.NoError(t, n.call(&none, "debug_getBadBlocks"))
	require.Equal(t, "[]", string(none))
	for _, m := range []string{"debug_getRawHeader", "debug_getRawBlock", "debug_getRawReceipts"} {
		require.ErrorContains(t, n.call(nil, m, "0x99"), "not found: this node has no block 0x99")
	}
}

// Traces cost seconds and megabytes: without being told to, a node makes none for the network.
func TestDebugIsOptional(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.Namespaces = DefaultConfig().Namespaces })
	local := n.srv.Client()
	defer local.Close()
	for _, m := range Methods() {
		if m.Namespace() == "debug" {
			requireCode(t, n.call(nil, m.Name), -32601, "does not exist/is not available")
			err := local.Call(nil, m.Name)
			require.False(t, err != nil && strings.Contains(err.Error(), "does not exist"), "%s on the Unix socket: %v", m.Name, err)
		}
	}
}

// What a trace may take is bounded, whatever it traces and however.
func TestTraceBounds(t *testing.T) {
	n := newNet(t, 0, nil)
	loop, caller, nested := common.Address{0x71}, common.Address{0x72}, common.Address{0x73}
	over := anyMap{
		loop.Hex(): anyMap{"code": "0x5b5f56"},
		// Calls an account without code for ever, with 64 KiB of input.
		caller.Hex(): anyMap{"code": "0x5b5f5f620100005f5f61ffff5af1505f56"},
		// Calls itself with 4 KiB of input as deep as the gas goes: 5 MB, but each level is encoded once more.
		nested.Hex(): anyMap{"code": "0x5f5f6110005f5f305af100"},
	}
	gas := map[common.Address]string{loop: "0x3d0900", caller: "0x61a80", nested: "0x3d0900"}
	trace := func(to common.Address, cfg anyMap) error {
		cfg["stateOverrides"] = over
		return n.call(nil, "debug_traceCall", anyMap{"to": to, "gas": gas[to]}, "latest", cfg)
	}
	requireCode(t, trace(loop, anyMap{}), codeLimit, "the trace is larger than 64 MiB")
	requireCode(t, trace(caller, anyMap{"tracer": "callTracer"}), codeLimit, "the trace is larger than 64 MiB")
	requireCode(t, trace(caller, anyMap{"tracer": "flatCallTracer"}), codeLimit, "the trace is larger than 64 MiB")
	requireCode(t, trace(nested, anyMap{"tracer": "callTracer"}), codeLimit, "the trace is larger than 64 MiB")
	require.NoError(t, trace(caller, anyMap{"tracer": "callTracer", "tracerConfig": anyMap{"onlyTopCall": true}, "timeout": "50s"}), "a trace that keeps nothing")
	require.NoError(t, trace(loop, anyMap{"limit": 1000}))
	requireCode(t, trace(loop, anyMap{"tracer": "noopTracer", "timeout": "1ns"}), codeServer, "execution timeout")
	for _, x := range []struct {
		cfg  anyMap
		text string
	}{
		{anyMap{"timeout": "soon"}, `timeout "soon" is no time`},
		{anyMap{"timeout": "-1s"}, "is no time"},
		{anyMap{"tracer": "{step: function() {}}"}, "(no JavaScript)"},
		{anyMap{"tracer": "callTracer", "tracerConfig": 5}, "tracerConfig"},
		{anyMap{"tracer": "prestateTracer", "tracerConfig": anyMap{"diffMode": true, "includeEmpty": true}}, "diffMode"},
		{anyMap{"tracer": "muxTracer", "tracerConfig": anyMap{"muxTracer": anyMap{}}}, "cannot hold another one"},
		{anyMap{"overrides": anyMap{"chainId": 1}}, "overrides of the chain's rules"},
		{anyMap{"blockOverrides": anyMap{"beaconRoot": common.Hash{}}}, "beaconRoot"},
		{anyMap{"txIndex": "0x5"}, "has no transaction 5"},
	} {
		requireCode(t, trace(loop, x.cfg), codeInvalidParams, x.text)
	}
	require.ErrorContains(t, n.call(nil, "debug_traceTransaction", common.Hash{7}), "transaction not found")
	require.ErrorContains(t, n.call(nil, "debug_traceBlockByNumber", "0x99"), "block not found")
	require.ErrorContains(t, n.call(nil, "debug_traceBlockByNumber", "earliest"), "genesis is not traceable")
	requireCode(t, n.call(nil, "debug_traceBlock", "0xc0"), codeInvalidParams, "no block in RLP")
	for text, change := range map[string]func(*types.Header){
		"lacks fields":               func(h *types.Header) { *h = types.Header{Number: common.Big1, Difficulty: new(big.Int)} },
		"excess blob gas":            func(h *types.Header) { h.ExcessBlobGas = new(uint64(1 << 60)) },
		"bitlen":                     func(h *types.Header) { h.BaseFee = new(big.Int).Lsh(common.Big1, 300) },
		"has height 7, its parent 0": func(h *types.Header) { h.Number = big.NewInt(7) },
	} {
		h := types.CopyHeader(n.mine().Header)
		h.ParentHash = n.chain.HeaderByNumber(0).Hash()
		change(h)
		raw, err := rlp.EncodeToBytes(types.NewBlockWithHeader(h).WithBody(types.Body{Withdrawals: types.Withdrawals{}}))
		require.NoError(t, err)
		requireCode(t, n.call(nil, "debug_traceBlock", hexutil.Bytes(raw)), codeInvalidParams, text)
	}

	require.Zero(t, n.srv.traces.running, "every place was given back")
	for i := range maxTraces {
		require.NoError(t, n.srv.traces.enter(bg, fmt.Sprint(i)))
	}
	ended, cancel := context.WithCancel(bg)
	cancel()
	_, err := n.srv.newTrace(ended, nil)
	requireCode(t, err, codeLimit, "4 of all")
}

// refBackend is the chain as go-ethereum's tracing API wants it.
type refBackend struct {
	*service
	none ethdb.Database
}

func (b *refBackend) HeaderByHash(_ context.Context, h common.Hash) (*types.Header, error) {
	return b.back.mustHeader(byHash(h))
}

func (b *refBackend) HeaderByNumber(_ context.Context, n gethrpc.BlockNumber) (*types.Header, error) {
	return b.back.mustHeader(byNumber(n))
}
func (b *refBackend) CurrentHeader() *types.Header { return b.back.Chain.CurrentHeader() }

func (b *refBackend) BlockByHash(_ context.Context, h common.Hash) (*types.Block, error) {
	x, err := b.back.block(byHash(h))
	return x.Ethereum(), err
}

func (b *refBackend) BlockByNumber(_ context.Context, n gethrpc.BlockNumber) (*types.Block, error) {
	x, err := b.back.block(byNumber(n))
	return x.Ethereum(), err
}

func (b *refBackend) GetCanonicalTransaction(h common.Hash) (bool, *types.Transaction, common.Hash, uint64, uint64) {
	x, err := b.back.Chain.Transaction(h)
	if x == nil || err != nil {
		return false, nil, common.Hash{}, 0, 0
	}
	return true, x.Transaction, x.Block, x.Height, x.Index
}
func (b *refBackend) TxIndexDone() bool                { return true }
func (b *refBackend) RPCGasCap() uint64                { return b.cfg.GasCap }
func (b *refBackend) ChainConfig() *params.ChainConfig { return b.back.Chain.Config() }
func (b *refBackend) Engine() consensus.Engine         { return coinbaseEngine{} }
func (b *refBackend) ChainDb() ethdb.Database          { return b.none }

func (b *refBackend) StateAtBlock(_ context.Context, blk *types.Block, _ *state.StateDB, _, _ bool) (*state.StateDB, tracers.StateReleaseFunc, error) {
	s, err := b.back.Chain.StateAt(blk.Header())
	return s, func() {}, err
}

func (b *refBackend) StateAtTransaction(ctx context.Context, blk *types.Block, index int) (*types.Transaction, vm.BlockContext, *state.StateDB, tracers.StateReleaseFunc, error) {
	parent, err := b.back.mustHeader(byHash(blk.ParentHash()))
	if err != nil {
		return nil, vm.BlockContext{}, nil, nil, err
	}
	s, err := b.back.Chain.StateAt(parent)
	if err != nil {
		return nil, vm.BlockContext{}, nil, nil, err
	}
	h, cfg := blk.Header(), b.back.Chain.Config()
	bc := core.NewEVMBlockContext(h, evmContext{b.back.Chain.Context()}, &h.Coinbase)
	evm := vm.NewEVM(bc, s, cfg, vm.Config{})
	defer evm.Release()
	core.PreExecution(ctx, h.ParentBeaconRoot, parent, cfg, evm, h.Number, h.Time)
	for i, tx := range blk.Transactions()[:index] {
		msg, err := core.TransactionToMessage(tx, b.signer, h.BaseFee)
		if err != nil {
			return nil, bc, nil, nil, err
		}
		s.SetTxContext(tx.Hash(), i, uint32(i+1))
		if _, err := core.ApplyMessage(evm, msg, core.NewGasPool(h.GasLimit)); err != nil {
			return nil, bc, nil, nil, err
		}
		s.Finalise(evm.GetRules())
	}
	return blk.Transactions()[index], bc, s, func() {}, nil
}

// refCall decodes the arguments into A: the tracers' own type, which go-ethereum does not export.
func refCall[A any](ctx context.Context, trace func(context.Context, A, *gethrpc.BlockNumberOrHash, *tracers.TraceCallConfig) (any, error),
	raw []byte, ref *gethrpc.BlockNumberOrHash, cfg *tracers.TraceCallConfig,
) (any, error) {
	var args A
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, err
	}
	return trace(ctx, args, ref, cfg)
}

// Whatever a tracer tells while it works, its result counts, and only that once it is done.
func TestResultsOfAllTracersCount(t *testing.T) {
	n := newNet(t, 0, nil)
	code := hexutil.Bytes(common.FromHex("60005b60010180600052600060006004601c600061dead5af150600256")) // calls with ever new selectors
	to, gas := common.Address{0xaa}, hexutil.Uint64(500_000)
	opcodes := ""
	for _, name := range []string{opcodes, "callTracer", "flatCallTracer", "prestateTracer", "4byteTracer", "keccak256PreimageTracer", "erc7562Tracer", "noopTracer"} {
		cfg := &traceCallConfig{traceConfig: traceConfig{Tracer: &name}, StateOverrides: &stateOverride{to: accountOverride{Code: &code}}}
		x, err := n.srv.newTrace(bg, &cfg.traceConfig)
		require.NoError(t, err)
		size := 0
		for range 2 {
			res, err := x.call(&callArgs{To: &to, Gas: &gas}, byNumber(gethrpc.LatestBlockNumber), cfg)
			require.NoError(t, err, name)
			size += len(res)
			require.EqualValues(t, maxTraceBytes-size, x.budget.left, name)
			require.GreaterOrEqual(t, x.budget.held.size, int64(size), name)
		}
		for _, left := range []int{size / 4, 1, 0} {
			x.budget.left, x.budget.err = int64(left), nil
			_, err = x.call(&callArgs{To: &to, Gas: &gas}, byNumber(gethrpc.LatestBlockNumber), cfg)
			require.ErrorIs(t, err, errTraceSize, "%s with %d bytes", name, left)
		}
		x.end()
	}
	require.Zero(t, n.srv.inFlight.total())
}
