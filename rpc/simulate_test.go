package rpc

import (
	"encoding/json"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/stretchr/testify/require"
)

// simulatedTest is an answer of eth_simulateV1 as a client reads it.
type simulatedTest struct {
	Header       *types.Header // decoded by go-ethereum: its hash must be the one told
	Number       hexutil.Uint64
	Hash         common.Hash
	ParentHash   common.Hash
	StateRoot    common.Hash
	GasUsed      hexutil.Uint64
	Timestamp    hexutil.Uint64
	Transactions json.RawMessage
	Calls        []struct {
		ReturnData hexutil.Bytes
		Logs       []*types.Log
		GasUsed    hexutil.Uint64
		MaxUsedGas hexutil.Uint64
		Status     hexutil.Uint64
		Error      *struct {
			Code    int
			Message string
			Data    hexutil.Bytes
		}
	}
}

func (s *simulatedTest) UnmarshalJSON(b []byte) error {
	type plain simulatedTest
	if err := json.Unmarshal(b, (*plain)(s)); err != nil {
		return err
	}
	return json.Unmarshal(b, &s.Header)
}

type anyMap = map[string]any

func (n *testNet) simulate(opts anyMap) ([]simulatedTest, error) {
	var out []simulatedTest
	err := n.call(&out, "eth_simulateV1", opts, "latest")
	return out, err
}

// A simulation with the header's values of a block gives the roots of that block.
func TestSimulatedBlockIsTheRealOne(t *testing.T) {
	n := newNet(t, 100, nil)
	addr := n.deploy()
	parent := n.chain.CurrentHeader()
	tx := n.store(1, addr, 7, "seven")
	b := n.build(n.chain.Sealed(parent.Hash()), 4, n.pool.Source(parent.BaseFee)) // slots later: its time is another
	n.adopt(b)
	h := b.Header
	var got []simulatedTest
	require.NoError(t, n.call(&got, "eth_simulateV1", anyMap{
		"validation": true, "returnFullTransactions": true,
		"blockStateCalls": []any{anyMap{
			"blockOverrides": anyMap{"time": hexutil.Uint64(h.Time), "feeRecipient": h.Coinbase, "prevRandao": h.MixDigest},
			"calls": []any{anyMap{
				"from": account(1), "to": addr, "input": hexutil.Bytes(tx.Data()), "gas": hexutil.Uint64(tx.Gas()),
				"maxFeePerGas": (*hexutil.Big)(tx.GasFeeCap()), "maxPriorityFeePerGas": (*hexutil.Big)(tx.GasTipCap()), "nonce": "0x0",
			}},
		}},
	}, parent.Hash()))
	require.Len(t, got, 1)
	r, err := n.eth.TransactionReceipt(bg, tx.Hash())
	require.NoError(t, err)
	require.Equal(t, got[0].Header.ReceiptHash, h.ReceiptHash)
	require.Equal(t, got[0].Header.Root, h.Root)
	require.Equal(t, got[0].Header.RequestsHash, h.RequestsHash)
	require.Equal(t, got[0].Header.Bloom, h.Bloom)
	require.Equal(t, got[0].Header.BaseFee, h.BaseFee)
	require.Equal(t, parent.Hash(), got[0].ParentHash)
	require.EqualValues(t, r.GasUsed, got[0].Calls[0].GasUsed)
	require.EqualValues(t, h.GasUsed, got[0].GasUsed)
	require.Equal(t, r.Logs[0].Topics, got[0].Calls[0].Logs[0].Topics)
	require.Equal(t, got[0].Hash, got[0].Calls[0].Logs[0].BlockHash)
	var txs types.Transactions
	require.NoError(t, json.Unmarshal(got[0].Transactions, &txs))
	require.Equal(t, got[0].Header.TxHash, types.DeriveSha(txs, trie.NewStackTrie(nil)))
	var froms []struct{ From common.Address }
	require.NoError(t, json.Unmarshal(got[0].Transactions, &froms))
	require.Equal(t, account(1), froms[0].From)
	require.Equal(t, got[0].Hash, got[0].Header.Hash())
}

// Blocks build on each other, gaps are filled, and state, hashes and times go on from block to block.
func TestSimulatedBlocksAreAChain(t *testing.T) {
	n := newNet(t, 100, nil)
	addr := n.deploy()
	head := n.chain.CurrentHeader()
	pack := func(name string, args ...any) hexutil.Bytes {
		b, err := n.abi.Pack(name, args...)
		require.NoError(t, err)
		return b
	}
	poor, ghost := common.Address{0xee}, common.Address{0x77}
	// BLOCKHASH of the given number.
	hashOf := hexutil.Bytes(common.FromHex("0x5f35405f5260205ff3"))
	number := head.Number.Uint64() + 4
	got, err := n.simulate(anyMap{"blockStateCalls": []any{
		anyMap{"calls": []any{
			anyMap{"from": poor, "to": addr, "input": pack("store", big.NewInt(11), "x")},
			anyMap{"from": poor, "to": addr, "input": pack("store", big.NewInt(12), "y")},
			anyMap{"from": poor, "to": addr, "input": pack("store", big.NewInt(13), "")},
			anyMap{"from": poor, "to": addr, "input": pack("burn", big.NewInt(1_000_000)), "gas": "0x7530"},
		}},
		anyMap{
			"blockOverrides": anyMap{"number": hexutil.Uint64(number)},
			"stateOverrides": anyMap{ghost.Hex(): anyMap{"code": hashOf}},
			"calls": []any{
				anyMap{"to": addr, "input": pack("value")},
				anyMap{"to": ghost, "input": hexutil.Bytes(common.BigToHash(new(big.Int).SetUint64(number - 2)).Bytes())},
				anyMap{"to": ghost, "input": hexutil.Bytes(common.BigToHash(head.Number).Bytes())},
			},
		},
	}})
	require.NoError(t, err)
	require.Len(t, got, 4, "two blocks fill the gap")
	prev := head.Hash()
	for i, b := range got {
		require.EqualValues(t, head.Number.Uint64()+1+uint64(i), b.Number)
		require.EqualValues(t, head.Time+1+uint64(i), b.Timestamp, "a slot is below a second, times rise all the same")
		require.Equal(t, prev, b.ParentHash)
		require.Equal(t, b.Hash, b.Header.Hash(), "computed from the fields")
		prev = b.Hash
	}
	c := got[0].Calls
	require.EqualValues(t, 1, c[1].Status)
	require.EqualValues(t, 11, new(big.Int).SetBytes(c[1].ReturnData).Int64())
	require.EqualValues(t, 1, c[1].Logs[0].Index, "logs are counted in the block")
	require.EqualValues(t, 1, c[1].Logs[0].TxIndex)
	require.Equal(t, 3, c[2].Error.Code)
	require.Equal(t, "execution reverted: thirteen is refused", c[2].Error.Message)
	require.Equal(t, common.FromHex("0x08c379a0"), []byte(c[2].Error.Data[:4]))
	require.Empty(t, c[2].ReturnData, "what a revert returns is the error's data")
	require.Empty(t, c[2].Logs)
	require.NotNil(t, c[2].Logs)
	require.Equal(t, codeVM, c[3].Error.Code)
	require.Contains(t, c[3].Error.Message, "out of gas")
	c = got[3].Calls
	require.EqualValues(t, 12, new(big.Int).SetBytes(c[0].ReturnData).Int64())
	require.Equal(t, got[1].Hash.Bytes(), []byte(c[1].ReturnData), "the hash of a simulated block")
	require.Equal(t, head.Hash().Bytes(), []byte(c[2].ReturnData), "the hash of a real block")
	var empty []common.Hash
	require.NoError(t, json.Unmarshal(got[1].Transactions, &empty))
	require.Empty(t, empty)
	require.Equal(t, head.Hash(), n.chain.CurrentHeader().Hash(), "nothing is kept")
	value, err := n.eth.StorageAt(bg, addr, common.Hash{}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 5, new(big.Int).SetBytes(value).Int64())
}

// Calls of two senders that differ in nothing else have one transaction hash, but logs of their own.
func TestSimulatedTwins(t *testing.T) {
	n := newNet(t, 0, nil)
	addr := n.deploy()
	data, err := n.abi.Pack("store", big.NewInt(9), "x")
	require.NoError(t, err)
	run := func(nonce string) simulatedTest {
		got, err := n.simulate(anyMap{"blockStateCalls": []any{anyMap{"calls": []any{
			anyMap{"from": account(1), "to": addr, "input": hexutil.Bytes(data), "nonce": "0x0", "gas": "0x30000"},
			anyMap{"from": account(2), "to": addr, "input": hexutil.Bytes(data), "nonce": nonce, "gas": "0x30000"},
		}}}})
		require.NoError(t, err)
		require.Len(t, got[0].Calls[1].Logs, 1)
		return got[0]
	}
	twins, others := run("0x0"), run("0x5")
	var hashes []common.Hash
	require.NoError(t, json.Unmarshal(twins.Transactions, &hashes))
	require.Equal(t, hashes[0], hashes[1])
	require.Equal(t, others.Header.ReceiptHash, twins.Header.ReceiptHash)
}

func TestSimulatedTransfers(t *testing.T) {
	n := newNet(t, 0, nil)
	forward, refuse, end := common.Address{0x71}, common.Address{0x72}, common.Address{0x73}
	// Sends all it was given on to the address in its input; reverts if that fails.
	code := common.FromHex("0x5f5f5f5f345f355af115600e57005b5f5ffd")
	got, err := n.simulate(anyMap{"traceTransfers": true, "blockStateCalls": []any{anyMap{
		"stateOverrides": anyMap{forward.Hex(): anyMap{"code": hexutil.Bytes(code)}, refuse.Hex(): anyMap{"code": "0x5f5ffd"}},
		"calls": []any{
			anyMap{"from": account(1), "to": forward, "value": "0x5", "input": hexutil.Bytes(common.BytesToHash(end[:]).Bytes())},
			anyMap{"from": account(1), "to": forward, "value": "0x6", "input": hexutil.Bytes(common.BytesToHash(refuse[:]).Bytes())},
			anyMap{"from": account(1), "to": end, "value": "0x7"},
		},
	}}})
	require.NoError(t, err)
	show := func(i int) (out []string) {
		for _, l := range got[0].Calls[i].Logs {
			require.Equal(t, transferAddress, l.Address)
			require.Equal(t, transferEvent, l.Topics[0])
			out = append(out, fmt.Sprintf("%x>%x:%d@%d", l.Topics[1][12:14], l.Topics[2][12:14], new(big.Int).SetBytes(l.Data), l.Index))
		}
		return out
	}
	from := account(1)
	require.Equal(t, []string{fmt.Sprintf("%x>7100:5@0", from[:2]), "7100>7300:5@1"}, show(0))
	require.Empty(t, show(1), "what was undone is not told")
	require.Equal(t, []string{fmt.Sprintf("%x>7300:7@2", from[:2])}, show(2))

	plain, err := n.simulate(anyMap{"blockStateCalls": []any{anyMap{"calls": []any{anyMap{"from": account(1), "to": end, "value": "0x7"}}}}})
	require.NoError(t, err)
	require.Empty(t, plain[0].Calls[0].Logs)
}

func TestSimulateErrors(t *testing.T) {
	n := newNet(t, 100, nil)
	addr := n.deploy()
	head := n.chain.CurrentHeader()
	one := func(call anyMap) []any { return []any{anyMap{"calls": []any{call}}} }
	fees := func(call anyMap) anyMap { call["maxFeePerGas"] = "0x3e8"; return call }
	to := account(2)
	moved := func(overrides anyMap) []any { return []any{anyMap{"stateOverrides": overrides}} }
	sha, identity := common.Address{19: 2}.Hex(), common.Address{19: 4}.Hex()
	gap := make([]any, maxSimulateBlocks+1)
	for i := range gap {
		gap[i] = anyMap{}
	}
	many := make([]any, maxSimulateCalls+1)
	for i := range many {
		many[i] = anyMap{}
	}
	for name, x := range map[string]struct {
		blocks     any
		validation bool
		code       int
		text       string
	}{
		"no block":          {[]any{}, false, codeInvalidParams, "blockStateCalls is empty"},
		"nonce too low":     {one(fees(anyMap{"from": account(0), "to": to, "nonce": "0x0"})), true, -38010, "nonce too low"},
		"nonce too high":    {one(fees(anyMap{"from": account(0), "to": to, "nonce": "0x9"})), true, -38011, "nonce too high"},
		"base fee":          {one(anyMap{"from": account(0), "to": to, "maxFeePerGas": "0x1"}), true, -38012, "max fee per gas less than block base fee"},
		"intrinsic gas":     {one(fees(anyMap{"from": account(0), "to": to, "gas": "0x1"})), true, -38013, "intrinsic gas too low"},
		"funds":             {one(fees(anyMap{"from": common.Address{0xee}, "to": to})), true, -38014, "insufficient funds for gas * price + value"},
		"funds to transfer": {one(anyMap{"from": common.Address{0xee}, "to": to, "value": "0x1"}), false, -38014, "insufficient funds"},
		"block gas": {[]any{anyMap{"blockOverrides": anyMap{"gasLimit": "0x7530"}, "calls": []any{anyMap{"to": to, "gas": "0x7531"}}}},
			false, -38015, "block gas limit reached: remaining: 30000, required: 30001"},
		"number":       {[]any{anyMap{"blockOverrides": anyMap{"number": hexutil.Uint64(head.Number.Uint64())}}}, false, -38020, "block numbers must be in order"},
		"huge number":  {[]any{anyMap{"blockOverrides": anyMap{"number": "0x10000000000000000"}}}, false, codeInvalidParams, "does not fit 64 bits"},
		"time":         {[]any{anyMap{"blockOverrides": anyMap{"time": hexutil.Uint64(head.Time)}}}, false, -38021, "block timestamps must be in order"},
		"time wraps":   {[]any{anyMap{"blockOverrides": anyMap{"time": "0xffffffffffffffff"}}, anyMap{}}, false, -38021, "block timestamps must be in order"},
		"onto itself":  {moved(anyMap{sha: anyMap{"movePrecompileToAddress": sha}}), false, -38022, "onto itself"},
		"moved twice":  {moved(anyMap{sha: anyMap{"movePrecompileToAddress": to}, identity: anyMap{"movePrecompileToAddress": to}}), false, -38023, "overridden too"},
		"no such one":  {moved(anyMap{to.Hex(): anyMap{"movePrecompileToAddress": sha}}), false, codeInvalidParams, "is no precompile"},
		"init code":    {one(fees(anyMap{"from": account(0), "input": hexutil.Bytes(make([]byte, params.MaxInitCodeSize+1)), "gas": "0x989680"})), true, -38025, "max initcode size exceeded"},
		"blocks":       {gap, false, -38026, "too many blocks"},
		"wide gap":     {[]any{anyMap{"blockOverrides": anyMap{"number": hexutil.Uint64(head.Number.Uint64() + maxSimulateBlocks + 1)}}}, false, -38026, "too many blocks"},
		"calls":        {[]any{anyMap{"calls": many}}, false, -38026, "too many calls"},
		"unknown key":  {[]any{anyMap{"blockOverrides": anyMap{"tim": "0x1"}}}, false, codeInvalidParams, `unknown field "tim"`},
		"account key":  {moved(anyMap{sha: anyMap{"balanc": "0x1"}}), false, codeInvalidParams, `unknown field "balanc"`},
		"both inputs":  {one(anyMap{"to": addr, "data": "0x01", "input": "0x02"}), false, codeInvalidParams, `both "data" and "input"`},
		"both fees":    {one(anyMap{"to": addr, "gasPrice": "0x1", "maxFeePerGas": "0x2"}), false, codeInvalidParams, "both gasPrice and"},
		"withdrawals":  {[]any{anyMap{"blockOverrides": anyMap{"withdrawals": []any{anyMap{"index": "0x1", "validatorIndex": "0x1", "address": to, "amount": "0x1"}}}}}, false, codeInvalidParams, "this chain has none"},
		"tip over cap": {one(anyMap{"from": account(0), "to": to, "maxFeePerGas": "0x3e8", "maxPriorityFeePerGas": "0x3e9"}), true, codeInvalidParams, "max priority fee per gas higher than max fee per gas"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := n.simulate(anyMap{"blockStateCalls": x.blocks, "validation": x.validation})
			requireCode(t, err, x.code, x.text)
		})
	}
	require.ErrorContains(t, n.call(nil, "eth_simulateV1", anyMap{"blockStateCalls": []any{anyMap{}}}, "0x999"), "header not found")
	require.NoError(t, n.call(nil, "eth_simulateV1", anyMap{"blockStateCalls": []any{anyMap{"blockOverrides": anyMap{"withdrawals": []any{}, "beaconRoot": common.Hash{1}}}}}))
}

// All calls of a simulation share the gas that one call may use, and what they return is bounded.
func TestSimulateBounds(t *testing.T) {
	n := newNet(t, 0, func(c *Config) { c.GasCap = 1_000_000 })
	burner := common.Address{0x71}
	run := func(calls ...any) ([]simulatedTest, error) { // an endless loop
		return n.simulate(anyMap{"blockStateCalls": []any{anyMap{
			"stateOverrides": anyMap{burner.Hex(): anyMap{"code": "0x5b5f56"}}, "calls": calls,
		}}})
	}
	got, err := run(anyMap{"to": burner, "gas": "0xc3500"}, anyMap{"to": burner})
	require.NoError(t, err)
	require.EqualValues(t, 800_000, got[0].Calls[0].GasUsed)
	require.EqualValues(t, 200_000, got[0].Calls[1].GasUsed)
	require.Contains(t, got[0].Calls[1].Error.Message, "rpc.gas_cap")
	_, err = run(anyMap{"to": burner}, anyMap{"to": burner})
	requireCode(t, err, codeIntrinsicGas, "intrinsic gas too low")

	big := newNet(t, 0, func(c *Config) { c.GasCap = 50_000_000 })
	calls := make([]any, 400) // each returns 128 KiB
	for i := range calls {
		calls[i] = anyMap{"to": burner}
	}
	_, err = big.simulate(anyMap{"blockStateCalls": []any{anyMap{
		"stateOverrides": anyMap{burner.Hex(): anyMap{"code": "0x620200005ff3"}}, "calls": calls,
	}}})
	requireCode(t, err, codeSimulateLimit, "return and log more than")
}

func TestSimulateMovesPrecompiles(t *testing.T) {
	n := newNet(t, 0, nil)
	identity, to := common.Address{19: 4}, common.Address{0x99}
	got, err := n.simulate(anyMap{"blockStateCalls": []any{
		anyMap{
			"stateOverrides": anyMap{identity.Hex(): anyMap{"movePrecompileToAddress": to, "code": "0x60ff5f5260205ff3"}},
			"calls":          []any{anyMap{"to": to, "input": "0x0102"}, anyMap{"to": identity, "input": "0x0102"}},
		},
		anyMap{"calls": []any{anyMap{"to": to, "input": "0x0102"}}},
	}})
	require.NoError(t, err)
	require.Equal(t, hexutil.Bytes{1, 2}, got[0].Calls[0].ReturnData)
	require.Equal(t, common.Hash{31: 0xff}.Bytes(), []byte(got[0].Calls[1].ReturnData))
	require.Empty(t, got[1].Calls[0].ReturnData, "a move holds for its block")
}
