package rpc

import (
	"context"
	"errors"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient/gethclient"
	"github.com/ethereum/go-ethereum/ethdb/memorydb"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rlp"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/stretchr/testify/require"
)

var bg = context.Background()

// What ethclient recomputes from the answers must be the block's own hash, roots included.
func TestBlocksHashAsServed(t *testing.T) {
	n := newNet(t, 0, nil)
	addr := n.deploy()
	n.store(1, addr, 7, "seven")
	to := account(3)
	n.send(2, &to, 12, nil)
	b := n.mine()
	require.Len(t, b.Transactions, 2)
	n.mine() // empty

	for number := int64(0); number <= 3; number++ {
		want := n.chain.BlockByNumber(uint64(number))
		got, err := n.eth.BlockByNumber(bg, big.NewInt(number))
		require.NoError(t, err, number)
		require.Equal(t, want.Hash(), got.Hash(), "computed from the header's fields")
		require.Equal(t, want.Ethereum().Size(), got.Size())
		require.Equal(t, got.TxHash(), types.DeriveSha(got.Transactions(), trie.NewStackTrie(nil)))
		require.Empty(t, got.Withdrawals())
		require.NotNil(t, got.Withdrawals())
		same, err := n.eth.BlockByHash(bg, want.Hash())
		require.NoError(t, err)
		require.Equal(t, want.Hash(), same.Hash())
		h, err := n.eth.HeaderByHash(bg, want.Hash())
		require.NoError(t, err)
		require.Equal(t, want.Hash(), h.Hash())
	}

	var raw map[string]any
	require.NoError(t, n.call(&raw, "eth_getBlockByNumber", "0x2", false))
	require.NotContains(t, raw, "totalDifficulty")
	require.Equal(t, []any{}, raw["uncles"])
	require.Equal(t, []any{}, raw["withdrawals"])
	require.Equal(t, b.Hash().Hex(), raw["hash"])
	require.Len(t, raw["extraData"], 2+64, "web3.py refuses longer extra data")
	require.Equal(t, hexutil.EncodeUint64(b.Ethereum().Size()), raw["size"])
	for _, k := range []string{"requestsHash", "parentBeaconBlockRoot", "withdrawalsRoot", "baseFeePerGas", "blobGasUsed", "excessBlobGas", "mixHash"} {
		require.Contains(t, raw, k)
	}
	var none map[string]any
	require.NoError(t, n.call(&none, "eth_getBlockByNumber", "0x99", false))
	require.Nil(t, none)
	require.NoError(t, n.call(&none, "eth_getBlockByHash", common.Hash{1}, true))
	require.Nil(t, none)
}

func TestTagsAndFinality(t *testing.T) {
	n := newNet(t, 0, nil)
	b1, b2, b3 := n.mine(), n.mine(), n.mine()
	n.finalize(b1)
	n.chain.SetSafe(b2.Hash())
	for tag, want := range map[string]uint64{"earliest": 0, "finalized": 1, "safe": 2, "latest": 3, "pending": 3} {
		var got struct{ Number hexutil.Uint64 }
		require.NoError(t, n.call(&got, "eth_getBlockByNumber", tag, false))
		require.EqualValues(t, want, got.Number, tag)
	}
	var f finalityJSON
	require.NoError(t, n.call(&f, "bor_finality"))
	require.Equal(t, pointJSON{Number: 3, Slot: 3, Hash: b3.Hash()}, f.Head)
	require.Equal(t, pointJSON{Number: 1, Slot: 1, Hash: b1.Hash()}, f.Final)
	require.Equal(t, [3]hexutil.Uint64{1, 2, 2}, [3]hexutil.Uint64{f.SafeLag, f.FinalLag, f.FinalLagSlots})

	var rec recordJSON
	require.NoError(t, n.call(&rec, "bor_getRecord", "latest"))
	require.Equal(t, b3.Hash(), rec.Hash)
	require.Equal(t, hexutil.Bytes(b3.SealedHeader.Encode()), rec.Raw)
}

func TestTransactionsAndReceipts(t *testing.T) {
	n := newNet(t, 100, nil)
	addr := n.deploy()
	tx := n.store(1, addr, 7, "seven")
	got, pending, err := n.eth.TransactionByHash(bg, tx.Hash())
	require.NoError(t, err)
	require.True(t, pending)
	require.Equal(t, tx.Hash(), got.Hash())
	b := n.mine()

	got, pending, err = n.eth.TransactionByHash(bg, tx.Hash())
	require.NoError(t, err)
	require.False(t, pending)
	require.Equal(t, tx.Hash(), got.Hash())
	from, err := n.eth.TransactionSender(bg, got, b.Hash(), 0)
	require.NoError(t, err)
	require.Equal(t, account(1), from)
	r, err := n.eth.TransactionReceipt(bg, tx.Hash())
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Status)
	require.Equal(t, b.Hash(), r.BlockHash)
	require.EqualValues(t, 101, r.EffectiveGasPrice.Int64(), "base fee 100 + tip 1")
	require.Len(t, r.Logs, 1)
	require.Equal(t, n.abi.Events["Stored"].ID, r.Logs[0].Topics[0])
	require.Equal(t, b.Hash(), r.Logs[0].BlockHash)
	rs, err := n.eth.BlockReceipts(bg, gethrpc.BlockNumberOrHashWithHash(b.Hash(), false))
	require.NoError(t, err)
	require.Equal(t, []*types.Receipt{r}, rs)
	require.Equal(t, b.Header.ReceiptHash, types.DeriveSha(types.Receipts(rs), trie.NewStackTrie(nil)))

	inBlock, err := n.eth.TransactionInBlock(bg, b.Hash(), 0)
	require.NoError(t, err)
	require.Equal(t, tx.Hash(), inBlock.Hash())
	count, err := n.eth.TransactionCount(bg, b.Hash())
	require.NoError(t, err)
	require.EqualValues(t, 1, count)
	raw, err := tx.MarshalBinary()
	require.NoError(t, err)
	for _, c := range []struct {
		method string
		args   []any
	}{
		{"eth_getRawTransactionByHash", []any{tx.Hash()}},
		{"eth_getRawTransactionByBlockHashAndIndex", []any{b.Hash(), "0x0"}},
		{"eth_getRawTransactionByBlockNumberAndIndex", []any{"latest", "0x0"}},
	} {
		var bs hexutil.Bytes
		require.NoError(t, n.call(&bs, c.method, c.args...), c.method)
		require.Equal(t, raw, []byte(bs), c.method)
	}
	for _, c := range []struct {
		method string
		args   []any
		want   string
	}{
		{"eth_getUncleCountByBlockHash", []any{b.Hash()}, `"0x0"`},
		{"eth_getUncleCountByBlockNumber", []any{"0x55"}, `null`},
		{"eth_getUncleByBlockNumberAndIndex", []any{"0x0", "0x0"}, `null`},
		{"eth_getTransactionByHash", []any{common.Hash{9}}, `null`},
		{"eth_getTransactionReceipt", []any{common.Hash{9}}, `null`},
		{"eth_getTransactionByBlockNumberAndIndex", []any{"latest", "0x7"}, `null`},
		{"eth_getBlockTransactionCountByNumber", []any{"latest"}, `"0x1"`},
		{"eth_accounts", nil, `[]`},
		{"eth_syncing", nil, `false`},
		{"eth_chainId", nil, `"0x1e61"`},
		{"net_version", nil, `"7777"`},
		{"net_listening", nil, `true`},
		{"net_peerCount", nil, `"0x1"`},
		{"web3_sha3", []any{"0x"}, `"` + crypto.Keccak256Hash().Hex() + `"`},
		{"txpool_status", nil, `{"pending":"0x0","queued":"0x0"}`},
	} {
		var got rawJSON
		require.NoError(t, n.call(&got, c.method, c.args...), c.method)
		require.JSONEq(t, c.want, string(got), c.method)
	}
	var version string
	require.NoError(t, n.call(&version, "web3_clientVersion"))
	require.Contains(t, version, "bornode/v0/")
}

type rawJSON []byte

func (r *rawJSON) UnmarshalJSON(b []byte) error { *r = append((*r)[:0], b...); return nil }

func TestStateAndProof(t *testing.T) {
	n := newNet(t, 0, nil)
	addr := n.deploy()
	n.store(1, addr, 7, "seven")
	b := n.mine()
	old, err := n.eth.CallContract(bg, ethereum.CallMsg{To: &addr, Data: n.abi.Methods["value"].ID}, big.NewInt(1))
	require.NoError(t, err)
	require.EqualValues(t, 5, new(big.Int).SetBytes(old).Int64(), "state of an older block")
	now, err := n.eth.StorageAt(bg, addr, common.Hash{}, nil)
	require.NoError(t, err)
	require.EqualValues(t, 7, new(big.Int).SetBytes(now).Int64())
	code, err := n.eth.CodeAt(bg, addr, nil)
	require.NoError(t, err)
	require.NotEmpty(t, code)
	nonce, err := n.eth.NonceAt(bg, account(1), nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, nonce)
	balance, err := n.eth.BalanceAt(bg, account(7), nil)
	require.NoError(t, err)
	require.Equal(t, n.gen.alloc[account(7)].Balance, balance)

	p, err := gethclient.New(n.rpc).GetProof(bg, addr, []string{"0x0", common.Hash{31: 9}.Hex()}, nil)
	require.NoError(t, err)
	checkProof(t, b.Header.Root, crypto.Keccak256(addr[:]), p.AccountProof, func(v []byte) {
		var acc types.StateAccount
		require.NoError(t, rlp.DecodeBytes(v, &acc))
		require.Equal(t, p.StorageHash, acc.Root)
		require.Equal(t, p.CodeHash[:], acc.CodeHash)
	})
	checkProof(t, p.StorageHash, crypto.Keccak256(common.Hash{}.Bytes()), p.StorageProof[0].Proof, func(v []byte) {
		require.Equal(t, []byte{7}, v)
	})
	require.EqualValues(t, 7, p.StorageProof[0].Value.Int64())
	require.Zero(t, p.StorageProof[1].Value.Sign())
	require.Equal(t, common.Hash{31: 9}.Hex(), p.StorageProof[1].Key)

	var values map[common.Address][]common.Hash
	require.NoError(t, n.call(&values, "eth_getStorageValues", map[common.Address][]common.Hash{addr: {{}, {1}}, account(1): {{}}}, "latest"))
	require.Equal(t, map[common.Address][]common.Hash{addr: {{31: 7}, {}}, account(1): {{}}}, values)
	requireCode(t, n.call(nil, "eth_getStorageValues", anyMap{}), codeInvalidParams, "no slots")
	requireCode(t, n.call(nil, "eth_getStorageValues", map[common.Address][]common.Hash{addr: make([]common.Hash, maxStorageSlots+1)}), codeLimit, "1025 slots")
}

func checkProof(t *testing.T, root common.Hash, key []byte, nodes []string, check func([]byte)) {
	t.Helper()
	db := memorydb.New()
	defer db.Close()
	for _, x := range nodes {
		b := hexutil.MustDecode(x)
		require.NoError(t, db.Put(crypto.Keccak256(b), b))
	}
	v, err := trie.VerifyProof(root, key, db)
	require.NoError(t, err)
	check(v)
}

func TestCalls(t *testing.T) {
	n := newNet(t, 100, nil)
	addr := n.deploy()
	pack := func(method string, args ...any) []byte {
		b, err := n.abi.Pack(method, args...)
		require.NoError(t, err)
		return b
	}
	t.Run("reverts tell reason and data", func(t *testing.T) {
		for _, x := range []struct {
			v    int64
			text string
			data string
		}{
			{13, "execution reverted: thirteen is refused", "0x08c379a0"},
			{2000, "execution reverted", hexutil.Encode(n.abi.Errors["TooLarge"].ID.Bytes()[:4])},
		} {
			msg := ethereum.CallMsg{From: account(1), To: &addr, Data: pack("store", big.NewInt(x.v), "")}
			_, callErr := n.eth.CallContract(bg, msg, nil)
			_, gasErr := n.eth.EstimateGas(bg, msg)
			for _, err := range []error{callErr, gasErr} {
				require.EqualError(t, err, x.text)
				var e gethrpc.Error
				require.ErrorAs(t, err, &e)
				require.Equal(t, 3, e.ErrorCode())
				var d gethrpc.DataError
				require.ErrorAs(t, err, &d)
				require.Contains(t, d.ErrorData(), x.data)
			}
		}
	})
	t.Run("an estimate is enough and hardly more", func(t *testing.T) {
		msg := ethereum.CallMsg{From: account(1), To: &addr, Data: pack("store", big.NewInt(7), "note")}
		gas, err := n.eth.EstimateGas(bg, msg)
		require.NoError(t, err)
		nonce, err := n.eth.PendingNonceAt(bg, account(1))
		require.NoError(t, err)
		tx := n.sign(1, nonce, &addr, 0, msg.Data, gas)
		require.NoError(t, n.eth.SendTransaction(bg, tx))
		n.mine()
		r, err := n.eth.TransactionReceipt(bg, tx.Hash())
		require.NoError(t, err)
		require.EqualValues(t, 1, r.Status)
		require.Less(t, float64(gas), float64(r.GasUsed)*1.3)
		plain, err := n.eth.EstimateGas(bg, ethereum.CallMsg{From: account(1), To: &common.Address{5}, Value: common.Big1})
		require.NoError(t, err)
		require.EqualValues(t, params.TxGas, plain)
	})
	t.Run("access list", func(t *testing.T) {
		al, gas, vmErr, err := gethclient.New(n.rpc).CreateAccessList(bg, ethereum.CallMsg{From: account(1), To: &addr, Data: pack("store", big.NewInt(9), ""), GasFeeCap: big.NewInt(200), GasTipCap: common.Big1, Gas: 200_000})
		require.NoError(t, err)
		require.Empty(t, vmErr)
		require.Positive(t, gas)
		require.Equal(t, types.AccessList{{Address: addr, StorageKeys: []common.Hash{{}}}}, *al)
	})
	t.Run("overrides", func(t *testing.T) {
		ghost := common.Address{0x77}
		var out hexutil.Bytes
		// NUMBER, TIMESTAMP and the ghost's balance, by code that exists in the override alone.
		code := hexutil.Bytes(common.FromHex("0x43600052426020524760405260606000f3"))
		require.NoError(t, n.call(&out, "eth_call", map[string]any{"to": ghost}, "latest",
			map[string]any{ghost.Hex(): map[string]any{"code": code, "balance": "0x10"}}, map[string]any{"number": "0x1234", "time": "0x99"}))
		require.Equal(t, common.BigToHash(big.NewInt(0x1234)).Bytes(), []byte(out[:32]))
		require.Equal(t, common.BigToHash(big.NewInt(0x99)).Bytes(), []byte(out[32:64]))
		require.Equal(t, common.BigToHash(big.NewInt(0x10)).Bytes(), []byte(out[64:]))
		require.NoError(t, n.call(&out, "eth_call", map[string]any{"to": addr, "input": hexutil.Bytes(n.abi.Methods["value"].ID)}, "latest",
			map[string]any{addr.Hex(): map[string]any{"stateDiff": map[string]any{common.Hash{}.Hex(): common.Hash{31: 42}.Hex()}}}))
		require.Equal(t, common.Hash{31: 42}.Bytes(), []byte(out))
		err := n.call(&out, "eth_call", map[string]any{"to": addr}, "latest",
			map[string]any{addr.Hex(): map[string]any{"state": map[string]any{}, "stateDiff": map[string]any{}}})
		requireCode(t, err, codeInvalidParams, "both state and stateDiff")
	})
	t.Run("a call without fees needs no funds, one with fees does", func(t *testing.T) {
		poor := common.Address{0xee}
		_, err := n.eth.CallContract(bg, ethereum.CallMsg{From: poor, To: &addr, Data: n.abi.Methods["value"].ID}, nil)
		require.NoError(t, err)
		_, err = n.eth.CallContract(bg, ethereum.CallMsg{From: poor, To: &addr, Data: n.abi.Methods["value"].ID, GasPrice: big.NewInt(500), Gas: 50_000}, nil)
		require.ErrorContains(t, err, "insufficient funds")
	})
	t.Run("wrong arguments", func(t *testing.T) {
		for _, x := range []struct {
			args map[string]any
			text string
		}{
			{map[string]any{"to": addr, "data": "0x01", "input": "0x02"}, `both "data" and "input"`},
			{map[string]any{"to": addr, "gasPrice": "0x1", "maxFeePerGas": "0x1"}, "both gasPrice and"},
			{map[string]any{"to": addr, "chainId": "0x1"}, "chainId is 1, this chain's is 7777"},
			{map[string]any{"to": addr, "blobVersionedHashes": []common.Hash{{1}}}, "blob transactions"},
			{map[string]any{"to": "0x12"}, "invalid argument 0"},
		} {
			requireCode(t, n.call(nil, "eth_call", x.args, "latest"), codeInvalidParams, x.text)
		}
		require.ErrorContains(t, n.call(nil, "eth_call", map[string]any{"to": addr}, "0x999"), "header not found: this node has no block")
	})
	t.Run("an endless call ends", func(t *testing.T) {
		err := n.call(nil, "eth_call", map[string]any{"to": addr, "input": hexutil.Bytes(pack("burn", big.NewInt(1<<40)))}, "latest")
		require.ErrorContains(t, err, "out of gas")
	})
}

func requireCode(t testing.TB, err error, code int, text string) {
	t.Helper()
	var e gethrpc.Error
	require.True(t, errors.As(err, &e), "%v", err)
	require.ErrorContains(t, err, text)
	require.Equal(t, code, e.ErrorCode(), err)
}

func TestSubmit(t *testing.T) {
	n := newNet(t, 100, nil)
	to := account(2)
	good := n.sign(0, 0, &to, 1, nil, 21_000)
	require.NoError(t, n.eth.SendTransaction(bg, good))
	unprotected := types.MustSignNewTx(key(0), types.HomesteadSigner{}, &types.LegacyTx{Nonce: 1, To: &to, Gas: 21_000, GasPrice: big.NewInt(200)})
	cheap := types.MustSignNewTx(key(0), types.LatestSigner(n.gen.config), &types.LegacyTx{Nonce: 1, To: &to, Gas: 21_000, GasPrice: big.NewInt(99)})
	for _, x := range []struct {
		tx   *types.Transaction
		code int
		text string
	}{
		{good, codeServer, "already known"},
		{n.sign(0, 0, &to, 2, nil, 21_000), codeServer, "replacement transaction underpriced"},
		{n.sign(0, 5000, &to, 1, nil, 21_000), codeServer, "nonce too high"},
		{n.sign(20, 0, &to, 1, nil, 21_000), codeServer, "insufficient funds for gas * price + value"},
		{n.sign(0, 1, &to, 1, nil, 20_000), codeServer, "intrinsic gas too low"},
		{n.sign(0, 1, &to, 1, nil, 20_000_000), codeServer, "transaction gas limit too high"},
		{unprotected, codeServer, "only replay-protected (EIP-155) transactions allowed"},
		{cheap, codeServer, "max fee per gas less than block base fee"},
	} {
		requireCode(t, n.eth.SendTransaction(bg, x.tx), x.code, x.text)
	}
	requireCode(t, n.call(nil, "eth_sendRawTransaction", "0x02f8"), codeInvalidParams, "no signed transaction")

	var content map[string]map[string]map[string]transactionJSON
	require.NoError(t, n.call(&content, "txpool_content"))
	require.Equal(t, good.Hash(), content["pending"][account(0).Hex()]["0"].Hash)
	gap := n.sign(0, 3, &to, 1, nil, 21_000)
	require.NoError(t, n.eth.SendTransaction(bg, gap))
	var from map[string]map[string]transactionJSON
	require.NoError(t, n.call(&from, "txpool_contentFrom", account(0)))
	require.Equal(t, gap.Hash(), from["queued"]["3"].Hash)
	var inspect map[string]map[string]map[string]string
	require.NoError(t, n.call(&inspect, "txpool_inspect"))
	require.Equal(t, to.Hex()+": 1 wei + 21000 gas × 1000000000 wei", inspect["pending"][account(0).Hex()]["0"])
	nonce, err := n.eth.PendingNonceAt(bg, account(0))
	require.NoError(t, err)
	require.EqualValues(t, 1, nonce)

	n.mine()
	requireCode(t, n.eth.SendTransaction(bg, n.sign(0, 0, &to, 3, nil, 21_000)), codeServer, "nonce too low: next nonce 1, tx nonce 0")
}

func TestSubmitSync(t *testing.T) {
	n := newNet(t, 0, nil)
	to := account(2)
	tx := n.sign(0, 0, &to, 1, nil, 21_000)
	raw, err := tx.MarshalBinary()
	require.NoError(t, err)
	done := make(chan error, 1)
	var r types.Receipt
	go func() { done <- n.call(&r, "eth_sendRawTransactionSync", hexutil.Bytes(raw), "0xea60") }()
	require.Eventually(t, func() bool { return n.pool.Has(tx.Hash()) }, waitTime, pollTime)
	b := n.mine()
	require.NoError(t, <-done)
	require.Equal(t, b.Hash(), r.BlockHash)

	tx = n.sign(0, 1, &to, 1, nil, 21_000)
	raw, err = tx.MarshalBinary()
	require.NoError(t, err)
	err = n.call(nil, "eth_sendRawTransactionSync", hexutil.Bytes(raw), "0x1")
	requireCode(t, err, codeSyncTimeout, "is in no block after 1 ms")
	var d gethrpc.DataError
	require.ErrorAs(t, err, &d)
	require.Equal(t, tx.Hash().Hex(), d.ErrorData())
	require.True(t, n.pool.Has(tx.Hash()), "it stays in the pool")
	n.mine()

	for i, wait := range []any{60_000, 0, "0x0", "60000", uint64(1 << 60), "0xffffffffffffffff", nil} {
		tx = n.sign(0, uint64(i+2), &to, 1, nil, 21_000)
		raw, err = tx.MarshalBinary()
		require.NoError(t, err)
		go func() { done <- n.call(&r, "eth_sendRawTransactionSync", hexutil.Bytes(raw), wait) }()
		require.Eventually(t, func() bool { return n.pool.Has(tx.Hash()) || len(done) > 0 }, waitTime, pollTime)
		b = n.mine()
		require.NoError(t, <-done, "%v", wait)
		require.Equal(t, b.Hash(), r.BlockHash)
	}
	requireCode(t, n.call(nil, "eth_sendRawTransactionSync", hexutil.Bytes(raw), "soon"), codeInvalidParams, "soon")
	requireCode(t, n.call(nil, "eth_sendRawTransactionSync", hexutil.Bytes(raw), -1), codeInvalidParams, "-1")
}

func TestFees(t *testing.T) {
	n := newNet(t, 100, nil)
	to := account(2)
	for i := 0; i < 3; i++ {
		n.send(0, &to, 1, nil)
		n.mine()
	}
	price, err := n.eth.SuggestGasPrice(bg)
	require.NoError(t, err)
	require.EqualValues(t, 100, price.Int64(), "blocks have room: base fee and no tip")
	tip, err := n.eth.SuggestGasTipCap(bg)
	require.NoError(t, err)
	require.Zero(t, tip.Sign())
	h, err := n.eth.FeeHistory(bg, 2, nil, []float64{0, 50, 100})
	require.NoError(t, err)
	require.EqualValues(t, 2, h.OldestBlock.Int64())
	require.Len(t, h.BaseFee, 3)
	for _, f := range h.BaseFee {
		require.EqualValues(t, 100, f.Int64(), "the base fee is constant, the next one too")
	}
	require.Equal(t, []float64{21000. / 3e8, 21000. / 3e8}, h.GasUsedRatio)
	require.EqualValues(t, 1, h.Reward[0][1].Int64())
	for _, x := range []struct {
		args []any
		text string
	}{
		{[]any{"0x1", "latest", []float64{50, 20}}, "percentiles rise"},
		{[]any{"0x1", "0x77", nil}, "beyond the head"},
	} {
		requireCode(t, n.call(nil, "eth_feeHistory", x.args...), codeInvalidParams, x.text)
	}
	_, err = n.eth.FeeHistory(bg, 1<<40, nil, nil)
	require.NoError(t, err, "more than there are is cut")
}

func TestTracing(t *testing.T) {
	n := newNet(t, 0, nil)
	addr := n.deploy()
	n.store(1, addr, 7, "seven")
	tx := n.store(1, addr, 8, "eight")
	n.mine()
	var frame struct {
		From, To common.Address
		Output   hexutil.Bytes
		GasUsed  hexutil.Uint64
	}
	require.NoError(t, n.call(&frame, "debug_traceTransaction", tx.Hash(), map[string]any{"tracer": "callTracer"}))
	require.Equal(t, account(1), frame.From)
	require.Equal(t, addr, frame.To)
	require.Equal(t, common.Hash{31: 7}.Bytes(), []byte(frame.Output), "the transaction before it in the block was executed")
	r, err := n.eth.TransactionReceipt(bg, tx.Hash())
	require.NoError(t, err)
	require.EqualValues(t, r.GasUsed, frame.GasUsed)
	require.NoError(t, n.call(&frame, "debug_traceCall", map[string]any{"to": addr, "input": hexutil.Bytes(n.abi.Methods["value"].ID)}, "latest", map[string]any{"tracer": "callTracer"}))
	require.Equal(t, common.Hash{31: 8}.Bytes(), []byte(frame.Output))
	var traces []map[string]any
	require.NoError(t, n.call(&traces, "debug_traceBlockByNumber", "latest", map[string]any{"tracer": "callTracer"}))
	require.Len(t, traces, 2)
	require.ErrorContains(t, n.call(nil, "debug_traceBlockFromFile", "/etc/passwd"), "does not exist")
}
