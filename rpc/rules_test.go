package rpc

import (
	"encoding/json"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
)

// A chain on which account 0 decides, an upgrade of Members' code and another gas limit stand at block 70.
func newRuledNet(t *testing.T) *testNet {
	up := genesis.Upgrade{
		Height: 70, Name: "answer", Parameters: map[string]string{genesis.Seats: "7"},
		Code: map[common.Address]hexutil.Bytes{contracts.MembersAddress: hexutil.MustDecode("0x602a60005260206000f3")}, // always 42
	}
	n := newNetOn(t, newGenesisWith(t, 0, func(g *testGenesis) {
		p := contracts.ProducersGenesis{GenesisTime: 1, SlotMillis: 500, EpochBlocks: 1200, Seats: 4, MinProducers: 2, JailTurns: 3, SlashPercent: 50, MinStake: big.NewInt(1000)}
		for _, x := range g.schedule {
			p.Producers = append(p.Producers, contracts.ProducerGenesis{Account: x.Account, Key: x.Key, Stake: big.NewInt(1000)})
		}
		m := contracts.MembersGenesis{Admin: account(0), ProposalSeconds: 3600}
		g.alloc[contracts.ProducersAddress] = types.Account{Nonce: 1, Code: contracts.ProducersCode(), Storage: contracts.ProducersStorage(p), Balance: p.TotalStake()}
		g.alloc[contracts.MembersAddress] = types.Account{Nonce: 1, Code: contracts.MembersCode(), Storage: contracts.MembersStorage(m), Balance: new(big.Int)}
		g.upgrades = []genesis.Upgrade{up}
	}), nil)
	vote := func(data []byte, err error) {
		require.NoError(t, err)
		require.NoError(t, n.pool.Add([]*types.Transaction{n.sign(0, n.pool.Nonce(account(0)), &contracts.MembersAddress, 0, data, 2_000_000)}, true)[0])
	}
	vote(contracts.UpgradeCall(70, "answer", up.Digest()))
	vote(contracts.ParameterCall(70, genesis.GasLimit, contracts.ParameterValue(40_000_000)))
	vote(contracts.ParameterCall(71, genesis.BaseFee, contracts.ParameterValue(5)))
	vote(contracts.ParameterCall(90, "nonsense", []byte{1}))
	vote(contracts.UpgradeCall(95, "later", common.Hash{3}))
	rs, err := n.chain.Receipts(n.mine().Hash())
	require.NoError(t, err)
	require.Len(t, rs, 5)
	for _, r := range rs {
		require.EqualValues(t, 1, r.Status, "%d gas", r.GasUsed)
	}
	for n.chain.CurrentHeader().Number.Uint64() < 69 {
		n.mine()
	}
	return n
}

// What comes into force with a block is seen by whoever executes the block again, and by nobody who asks for the state
// before it.
func TestTracesAndSimulationsFollowTheRules(t *testing.T) {
	n := newRuledNet(t)
	var simulated []struct {
		GasLimit      hexutil.Uint64
		BaseFeePerGas *hexutil.Big
		Calls         []struct{ ReturnData hexutil.Bytes }
	}
	ask := map[string]any{"to": contracts.MembersAddress, "input": hexutil.Bytes(contracts.MembersCallData())}
	paid := map[string]any{"from": account(2), "to": contracts.MembersAddress, "input": hexutil.Bytes(contracts.MembersCallData()), "maxFeePerGas": "0x5", "gas": "0xf4240"}
	calls := map[string]any{"calls": []any{paid}}
	require.NoError(t, n.call(&simulated, "eth_simulateV1", map[string]any{"blockStateCalls": []any{calls, calls}, "validation": true}, "latest"))
	answer := common.BigToHash(big.NewInt(42)).Bytes()
	require.EqualValues(t, answer, simulated[0].Calls[0].ReturnData)
	require.EqualValues(t, 40_000_000, simulated[0].GasLimit)
	require.EqualValues(t, 5, simulated[1].BaseFeePerGas.ToInt().Uint64())

	tx := n.send(1, &contracts.MembersAddress, 0, contracts.MembersCallData())
	b := n.mine()
	require.EqualValues(t, 70, b.Number())
	type frame struct{ Output hexutil.Bytes }
	var one frame
	tracer := map[string]any{"tracer": "callTracer"}
	require.NoError(t, n.call(&one, "debug_traceTransaction", tx.Hash(), tracer))
	require.EqualValues(t, answer, one.Output)
	for method, ref := range map[string]any{"debug_traceBlockByNumber": "0x46", "debug_traceBlockByHash": b.Hash()} {
		var all []struct{ Result frame }
		require.NoError(t, n.call(&all, method, ref, tracer))
		require.EqualValues(t, answer, all[0].Result.Output, method)
	}
	for at, same := range map[string]bool{"0x45": false, "0x46": true} {
		require.NoError(t, n.call(&one, "debug_traceCall", ask, at, tracer))
		require.Equal(t, same, string(answer) == string(one.Output), "debug_traceCall at %s", at)
		var ret hexutil.Bytes
		require.NoError(t, n.call(&ret, "eth_call", ask, at))
		require.Equal(t, same, string(answer) == string(ret), "eth_call at %s", at)
	}
	var fee hexutil.Big
	require.NoError(t, n.call(&fee, "eth_baseFee"))
	require.EqualValues(t, 5, fee.ToInt().Uint64(), "the next block's")
}

func TestBorParameters(t *testing.T) {
	n := newRuledNet(t)
	var raw json.RawMessage
	require.NoError(t, n.call(&raw, "bor_parameters"))
	var got rulesJSON
	require.NoError(t, json.Unmarshal(raw, &got))
	require.EqualValues(t, 70, got.Number)
	require.EqualValues(t, 40_000_000, got.Parameters.GasLimit)
	require.EqualValues(t, 0, got.Parameters.BaseFee)
	require.EqualValues(t, 7, *got.Parameters.Seats, "as the next block finds them")
	require.EqualValues(t, 2, *got.Parameters.MinProducers)
	require.EqualValues(t, 1000, got.Parameters.MinStake.ToInt().Uint64())
	require.Len(t, got.Applied, 2)
	require.Equal(t, "answer", got.Applied[0].Name)
	require.True(t, got.Applied[0].Known)
	require.Equal(t, got.Known[0].Digest, *got.Applied[0].Digest)
	require.EqualValues(t, 40_000_000, got.Applied[1].Value.ToInt().Uint64())
	require.Len(t, got.Pending, 3)
	require.Equal(t, "base_fee", got.Pending[0].Name)
	require.Contains(t, got.Pending[1].Invalid, "cannot change by vote")
	require.Equal(t, changeJSON{Kind: "upgrade", Name: "later", Number: 95, Raw: common.Hash{3}.Bytes(), Digest: &common.Hash{3}}, got.Pending[2])
	require.Len(t, got.Known, 1)
}
