package rpc

import (
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
)

// Contracts whose work depends on the block that they run in, as that of a pair of Uniswap V2 does: it writes its
// accumulators only if time has passed since the last call. With data each remembers the block in slot 0.
var (
	// if data { slot0 = TIMESTAMP } else if slot0 != TIMESTAMP { slot1 = NUMBER; slot2 = NUMBER }
	worksLater = common.FromHex("0x3615600957425f55005b425f541460005743600155436002555b00")
	// the same, with work in the second that is remembered
	worksAtOnce = common.FromHex("0x3615600957425f55005b425f54141560005743600155436002555b00")
	// if data { slot0 = NUMBER } else if slot0 != NUMBER { slot1 = NUMBER; slot2 = NUMBER }
	worksNext = common.FromHex("0x3615600957435f55005b435f541460005743600155436002555b00")
)

// withTarget fills in where the jump over the work leads: to the last JUMPDEST.
func withTarget(code []byte) []byte {
	out := append([]byte(nil), code...)
	for i := 10; i < len(out)-2; i++ {
		if out[i] == 0x60 && out[i+2] == 0x57 {
			out[i+1] = byte(len(out) - 2)
		}
	}
	return out
}

func TestEstimatesSufficeInTheNextBlock(t *testing.T) {
	codes := map[common.Address][]byte{
		{0xa1}: withTarget(worksLater), {0xa2}: withTarget(worksAtOnce), {0xa3}: withTarget(worksNext),
	}
	n := newNetOn(t, newGenesisWith(t, 0, func(g *testGenesis) {
		for a, code := range codes {
			g.alloc[a] = types.Account{Code: code, Balance: new(big.Int)}
		}
	}), nil)
	nonces := make(map[int]uint64)
	next := func(i int, to common.Address, data []byte, gas uint64) *types.Transaction {
		nonces[i]++
		return n.sign(i, nonces[i]-1, &to, 0, data, gas)
	}
	for round := range 6 { // head in either half of a second, the next block one to three slots later
		var touch list
		for a := range codes {
			touch = append(touch, next(0, a, []byte{1}, 100_000))
		}
		n.adopt(n.build(n.chain.Sealed(n.chain.CurrentHeader().Hash()), 1, &touch))
		var calls list
		for a := range codes {
			msg := ethereum.CallMsg{From: account(1), To: &a}
			gas, err := n.eth.EstimateGas(bg, msg)
			require.NoError(t, err)
			pending := hexutil.Uint64(0)
			require.NoError(t, n.call(&pending, "eth_estimateGas", anyMap{"from": account(1), "to": a}, "pending"))
			require.EqualValues(t, gas, pending)
			var filled struct{ Tx *types.Transaction }
			require.NoError(t, n.call(&filled, "eth_fillTransaction", anyMap{"from": account(1), "to": a}))
			require.Equal(t, gas, filled.Tx.Gas())
			calls = append(calls, next(1, a, nil, gas))
		}
		b := n.build(n.chain.Sealed(n.chain.CurrentHeader().Hash()), 1+uint64(round/2), &calls)
		n.adopt(b)
		require.Len(t, b.Transactions, len(codes))
		rs, err := n.chain.Receipts(b.Hash())
		require.NoError(t, err)
		for i, r := range rs {
			require.EqualValues(t, 1, r.Status, "round %d, contract %s: %d of %d gas", round, b.Transactions[i].To(), r.GasUsed, b.Transactions[i].Gas())
		}
	}
}

// What executes at pending sees the block after the head; what only reads sees the head.
func TestPendingIsTheNextBlock(t *testing.T) {
	n := newNet(t, 100, nil)
	n.deploy()
	for range 2 { // the next block bears the head's second in one of them
		head := n.mine().Header
		// returns NUMBER, TIMESTAMP, BLOCKHASH(NUMBER-1)
		code := hexutil.Bytes(common.FromHex("0x435f52426020526001430340604052" + "60605ff3"))
		times := map[uint64]bool{head.Time: true, head.Time + 1: true}
		check := func(out []byte, pending bool) {
			number, time := new(big.Int).SetBytes(out[:32]).Uint64(), new(big.Int).SetBytes(out[32:64]).Uint64()
			hash := common.BytesToHash(out[64:])
			if !pending {
				require.Equal(t, []uint64{head.Number.Uint64(), head.Time}, []uint64{number, time})
				require.Equal(t, head.ParentHash, hash)
				return
			}
			require.EqualValues(t, head.Number.Uint64()+1, number)
			require.True(t, times[time] && time > head.Time, "time %d", time)
			require.Equal(t, head.Hash(), hash)
		}
		for tag, pending := range map[string]bool{"latest": false, "pending": true} {
			var out hexutil.Bytes
			require.NoError(t, n.call(&out, "eth_call", anyMap{"input": code}, tag))
			check(out, pending)
			var traced struct{ Output hexutil.Bytes }
			require.NoError(t, n.call(&traced, "debug_traceCall", anyMap{"input": code}, tag, anyMap{"tracer": "callTracer"}))
			check(traced.Output, pending)
			var sim []simulatedTest
			require.NoError(t, n.call(&sim, "eth_simulateV1", anyMap{"blockStateCalls": []any{anyMap{"calls": []any{anyMap{"input": code}}}}}, tag))
			check(sim[0].Calls[0].ReturnData, true)
			var list struct {
				AccessList types.AccessList
				Error      string
			}
			// SLOAD(NUMBER): the list names the slot
			require.NoError(t, n.call(&list, "eth_createAccessList", anyMap{"input": hexutil.Bytes(common.FromHex("0x435400")), "from": account(7)}, tag))
			require.Empty(t, list.Error)
		}
		var raw anyMap
		require.NoError(t, n.call(&raw, "eth_getBlockByNumber", "pending", false))
		require.Equal(t, head.Hash().Hex(), raw["hash"])
	}
}

// As go-ethereum 1.17.10 does: a range that goes beyond the head is refused, never cut.
func TestLogRangesBeyondTheHead(t *testing.T) {
	n := newNet(t, 0, nil)
	addr := n.deploy()
	n.store(1, addr, 7, "seven")
	head := int64(n.mine().Number()) //nolint:gosec // a few blocks
	at := func(v int64) *big.Int { return big.NewInt(v) }
	tag := func(b gethrpc.BlockNumber) *big.Int { return big.NewInt(int64(b)) }
	for name, x := range map[string]struct {
		from, to *big.Int
		words    string // "": answered
		stream   string // of filters and subscriptions
	}{
		"to the head":               {at(0), at(head), "", ""},
		"to one above":              {at(0), at(head + 1), "block range extends beyond current head block", ""},
		"far above":                 {at(head + 5), at(head + 9), "block range extends beyond current head block", ""},
		"from above to latest":      {at(head + 1), nil, "invalid block range params", ""},
		"from above to the tag":     {at(head + 1), tag(gethrpc.LatestBlockNumber), "invalid block range params", ""},
		"from latest to above":      {nil, at(head + 1), "block range extends beyond current head block", "invalid block range params"},
		"from latest to below":      {nil, at(head - 1), "invalid block range params", "invalid block range params"},
		"turned round":              {at(2), at(1), "invalid block range params", "invalid block range params"},
		"from pending":              {tag(gethrpc.PendingBlockNumber), nil, "pending logs are not supported", "pending logs are not supported"},
		"to pending":                {at(0), tag(gethrpc.PendingBlockNumber), "pending logs are not supported", "pending logs are not supported"},
		"from the first to a block": {tag(gethrpc.EarliestBlockNumber), at(head), "", ""},
		"to the last final":         {at(0), tag(gethrpc.FinalizedBlockNumber), "", "invalid block range params"},
		"the head alone":            {nil, nil, "", ""},
	} {
		arg := anyMap{}
		if x.from != nil {
			arg["fromBlock"] = gethrpc.BlockNumber(x.from.Int64())
		}
		if x.to != nil {
			arg["toBlock"] = gethrpc.BlockNumber(x.to.Int64())
		}
		expect := func(err error, words string) {
			t.Helper()
			if words == "" {
				require.NoError(t, err, name)
			} else {
				requireCode(t, err, codeInvalidParams, words)
			}
		}
		expect(n.call(nil, "eth_getLogs", arg), x.words)
		var id string
		expect(n.call(&id, "eth_newFilter", arg), x.stream)
		if x.stream == "" {
			expect(n.call(nil, "eth_getFilterLogs", id), x.words)
			require.NoError(t, n.call(nil, "eth_getFilterChanges", id), name)
		}
		sub, err := n.rpc.EthSubscribe(bg, make(chan *types.Log, 16), "logs", arg)
		expect(err, x.stream)
		if sub != nil {
			sub.Unsubscribe()
		}
	}
}
