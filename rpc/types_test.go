package rpc

import (
	"encoding/json"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"
)

// quantities are the keys whose values are numbers: hex without leading zeros. All other 0x values are bytes.
var quantities = strings.Fields(`number difficulty gasLimit gasUsed timestamp baseFeePerGas blobGasUsed excessBlobGas size
	blockNumber blockTimestamp gas gasPrice maxFeePerGas maxPriorityFeePerGas transactionIndex value type chainId v r s yParity
	cumulativeGasUsed effectiveGasPrice status logIndex balance oldestBlock maxUsedGas`)

var (
	quantity = regexp.MustCompile(`^0x(0|[1-9a-f][0-9a-f]*)$`)
	rawBytes = regexp.MustCompile(`^0x([0-9a-f]{2})*$`)
)

// checkForms holds every value of an answer against the forms of the specification.
func checkForms(t *testing.T, where string, v any) {
	t.Helper()
	switch x := v.(type) {
	case map[string]any:
		for k, v := range x {
			s, ok := v.(string)
			switch {
			case !ok:
				checkForms(t, where+"."+k, v)
			case k == "nonce" && len(s) == 18: // of a block: 8 bytes
			case slices.Contains(quantities, k) || k == "nonce":
				require.Regexp(t, quantity, s, "%s.%s", where, k)
			case strings.HasPrefix(s, "0x"):
				require.Regexp(t, rawBytes, strings.ToLower(s), "%s.%s", where, k)
			}
		}
	case []any:
		for _, v := range x {
			checkForms(t, where+"[]", v)
		}
	}
}

// sameAs requires that every value that go-ethereum writes for x is in the answer.
func sameAs(t *testing.T, answer map[string]any, x any, except ...string) {
	t.Helper()
	b, err := json.Marshal(x)
	require.NoError(t, err)
	var want map[string]any
	require.NoError(t, json.Unmarshal(b, &want))
	for k, v := range want {
		if v == nil && k == "gasPrice" || slices.Contains(except, k) { // ours tells what is paid
			continue
		}
		require.Equal(t, v, answer[k], k)
	}
}

func (n *testNet) get(method string, args ...any) map[string]any {
	n.t.Helper()
	var out map[string]any
	require.NoError(n.t, n.call(&out, method, args...), method)
	return out
}

func (n *testNet) submit(i int, data types.TxData) *types.Transaction {
	n.t.Helper()
	tx := types.MustSignNewTx(key(i), types.LatestSigner(n.gen.config), data)
	require.NoError(n.t, n.eth.SendTransaction(bg, tx))
	return tx
}

// Transactions of all types, as go-ethereum itself writes them and with the specification's fields for each type.
func TestTransactionTypes(t *testing.T) {
	n := newNet(t, 100, nil)
	addr := n.deploy()
	to, id := account(6), n.gen.config.ChainID
	list := types.AccessList{{Address: addr, StorageKeys: []common.Hash{{31: 1}}}}
	auth, err := types.SignSetCode(key(5), types.SetCodeAuthorization{ChainID: *uint256.MustFromBig(id), Address: addr})
	require.NoError(t, err)
	price := big.NewInt(150)
	sent := []*types.Transaction{
		n.submit(1, &types.LegacyTx{To: &to, Gas: 30_000, GasPrice: price, Value: big.NewInt(9), Data: []byte{1}}),
		n.submit(2, &types.AccessListTx{ChainID: id, To: &to, Gas: 60_000, GasPrice: price, AccessList: list}),
		n.submit(3, &types.DynamicFeeTx{ChainID: id, To: &to, Gas: 30_000, GasFeeCap: big.NewInt(1000), GasTipCap: big.NewInt(7)}),
		n.submit(4, &types.SetCodeTx{ChainID: uint256.MustFromBig(id), To: addr, Gas: 200_000, GasFeeCap: uint256.NewInt(103), GasTipCap: uint256.NewInt(7), AuthList: []types.SetCodeAuthorization{auth}}),
	}
	common0 := strings.Fields("blockHash blockNumber blockTimestamp from gas gasPrice hash input nonce to transactionIndex type value v r s chainId")
	more := [][]string{{}, {"accessList", "yParity"}, {"accessList", "yParity", "maxFeePerGas", "maxPriorityFeePerGas"},
		{"accessList", "yParity", "maxFeePerGas", "maxPriorityFeePerGas", "authorizationList"}}
	paid := []string{"0x96", "0x96", "0x6b", "0x67"}
	fields := func(got map[string]any, i int) {
		checkForms(t, "tx", got)
		want := slices.Concat(common0, more[i])
		require.ElementsMatch(t, want, slices.Collect(maps.Keys(got)))
		sameAs(t, got, sent[i])
		require.Equal(t, strings.ToLower(account(i+1).Hex()), got["from"])
		if i > 0 {
			require.Equal(t, got["v"], got["yParity"])
		}
	}
	for i, tx := range sent {
		got := n.get("eth_getTransactionByHash", tx.Hash())
		fields(got, i)
		for _, k := range []string{"blockHash", "blockNumber", "blockTimestamp", "transactionIndex"} {
			require.Nil(t, got[k], "%s of a waiting transaction", k)
		}
		require.Equal(t, hexutil.EncodeBig(tx.GasFeeCap()), got["gasPrice"])
		pooled := n.get("txpool_contentFrom", account(i+1))["pending"].(map[string]any)["0"]
		require.Equal(t, got, pooled)
	}
	b := n.mine()
	require.Len(t, b.Transactions, 4)
	block := n.get("eth_getBlockByHash", b.Hash(), true)
	var receipts []map[string]any
	require.NoError(t, n.call(&receipts, "eth_getBlockReceipts", b.Hash()))
	for at, tx := range b.Transactions {
		i := slices.IndexFunc(sent, func(x *types.Transaction) bool { return x.Hash() == tx.Hash() })
		got := n.get("eth_getTransactionByHash", tx.Hash())
		fields(got, i)
		require.Equal(t, block["transactions"].([]any)[at], any(got))
		require.Equal(t, n.get("eth_getTransactionByBlockHashAndIndex", b.Hash(), hexutil.Uint64(at)), got)
		require.Equal(t, n.get("eth_getTransactionByBlockNumberAndIndex", "latest", hexutil.Uint64(at)), got)
		require.Equal(t, paid[i], got["gasPrice"])
		r, err := n.eth.TransactionReceipt(bg, tx.Hash())
		require.NoError(t, err)
		receipt := n.get("eth_getTransactionReceipt", tx.Hash())
		checkForms(t, "receipt", receipt)
		sameAs(t, receipt, r, "contractAddress", "root") // go-ethereum's type cannot say null
		require.Nil(t, receipt["contractAddress"])
		require.Equal(t, paid[i], receipt["effectiveGasPrice"])
		require.Equal(t, got["type"], receipt["type"])
		require.Equal(t, receipts[at], receipt)
		require.ElementsMatch(t, strings.Fields(`blockHash blockNumber transactionHash transactionIndex from to gasUsed cumulativeGasUsed
			contractAddress logs logsBloom type effectiveGasPrice status`), slices.Collect(maps.Keys(receipt)))
	}
	checkForms(t, "block", block)
	sameAs(t, block, b.Header)
	require.ElementsMatch(t, slices.Concat(slices.Collect(maps.Keys(n.get("eth_getHeaderByHash", b.Hash()))), []string{"size", "transactions", "uncles", "withdrawals"}),
		slices.Collect(maps.Keys(block)))
	sameAs(t, n.get("eth_getHeaderByNumber", "latest"), b.Header)
}

// A set-code transaction (EIP-7702) from its estimate to the delegated account that it leaves.
func TestSetCode(t *testing.T) {
	n := newNet(t, 100, nil)
	addr := n.deploy()
	id := uint256.MustFromBig(n.gen.config.ChainID)
	wallet := account(5)
	auth, err := types.SignSetCode(key(5), types.SetCodeAuthorization{ChainID: *id, Address: addr})
	require.NoError(t, err)
	data, err := n.abi.Pack("store", big.NewInt(9), "mine")
	require.NoError(t, err)
	msg := anyMap{"from": account(4), "to": wallet, "input": hexutil.Bytes(data), "authorizationList": []any{auth}}

	var ret hexutil.Bytes
	require.NoError(t, n.call(&ret, "eth_call", msg, "latest"))
	require.Equal(t, common.Hash{}.Bytes(), []byte(ret), "the wallet's own storage is empty, the contract's is not")
	var gas hexutil.Uint64
	require.NoError(t, n.call(&gas, "eth_estimateGas", msg))
	require.Greater(t, uint64(gas), params.TxGas+params.CallNewAccountGas/2)
	list := n.get("eth_createAccessList", msg)
	require.NotContains(t, list, "error")

	var filled struct {
		Raw hexutil.Bytes
		Tx  *types.Transaction
	}
	require.NoError(t, n.call(&filled, "eth_fillTransaction", msg))
	require.EqualValues(t, types.SetCodeTxType, filled.Tx.Type())
	require.Equal(t, uint64(gas), filled.Tx.Gas())
	require.EqualValues(t, 200, filled.Tx.GasFeeCap().Int64(), "twice the base fee")
	require.Equal(t, []types.SetCodeAuthorization{auth}, filled.Tx.SetCodeAuthorizations())

	signed, err := types.SignTx(filled.Tx, types.LatestSigner(n.gen.config), key(4))
	require.NoError(t, err)
	require.NoError(t, n.eth.SendTransaction(bg, signed))
	n.mine()
	r, err := n.eth.TransactionReceipt(bg, signed.Hash())
	require.NoError(t, err)
	require.EqualValues(t, 1, r.Status)
	require.EqualValues(t, types.SetCodeTxType, r.Type)
	require.Equal(t, wallet, r.Logs[0].Address, "the code ran as the wallet")
	code, err := n.eth.CodeAt(bg, wallet, nil)
	require.NoError(t, err)
	require.Equal(t, types.AddressToDelegation(addr), code)
	stored, err := n.eth.StorageAt(bg, wallet, common.Hash{}, nil)
	require.NoError(t, err)
	require.Equal(t, common.Hash{31: 9}.Bytes(), stored)
	nonce, err := n.eth.NonceAt(bg, wallet, nil)
	require.NoError(t, err)
	require.EqualValues(t, 1, nonce, "the authorization used one")

	// A delegated account still sends, one transaction at a time: others could spend its funds meanwhile.
	n.send(5, &addr, 0, data)
	requireCode(t, n.eth.SendTransaction(bg, n.sign(5, 2, &addr, 0, data, 100_000)), codeServer, "in-flight transaction limit reached for delegated accounts")
	n.mine()

	for _, x := range []struct {
		args anyMap
		text string
	}{
		{anyMap{"from": account(4), "input": "0x00", "authorizationList": []any{auth}}, `authorizationList needs a "to"`},
		{anyMap{"from": account(4), "to": wallet, "gasPrice": "0x64", "authorizationList": []any{auth}}, "both gasPrice and authorizationList"},
	} {
		requireCode(t, n.call(nil, "eth_fillTransaction", x.args), codeInvalidParams, x.text)
	}
	require.ErrorContains(t, n.call(nil, "eth_call", anyMap{"to": wallet, "authorizationList": []any{}}), "empty auth list")
	none := types.MustSignNewTx(key(4), types.LatestSigner(n.gen.config), &types.SetCodeTx{ChainID: id, Nonce: 1, To: wallet, Gas: 100_000, GasFeeCap: uint256.NewInt(200)})
	requireCode(t, n.eth.SendTransaction(bg, none), codeServer, "set code tx must have at least one authorization tuple")
}

func TestFillTransaction(t *testing.T) {
	n := newNet(t, 100, nil)
	to := account(2)
	fill := func(args anyMap) (tx *types.Transaction, err error) {
		var out struct {
			Raw hexutil.Bytes
			Tx  *types.Transaction
		}
		if err = n.call(&out, "eth_fillTransaction", args); err == nil {
			raw := new(types.Transaction)
			require.NoError(t, raw.UnmarshalBinary(out.Raw))
			require.Equal(t, out.Tx.Hash(), raw.Hash())
		}
		return out.Tx, err
	}
	n.send(1, &to, 1, nil)
	tx, err := fill(anyMap{"from": account(1), "to": to, "value": "0x5"})
	require.NoError(t, err)
	require.EqualValues(t, types.DynamicFeeTxType, tx.Type())
	require.Equal(t, [4]uint64{1, 21_000, 200, 0}, [4]uint64{tx.Nonce(), tx.Gas(), tx.GasFeeCap().Uint64(), tx.GasTipCap().Uint64()})
	require.Equal(t, n.gen.config.ChainID, tx.ChainId())
	signed, err := types.SignTx(tx, types.LatestSigner(n.gen.config), key(1))
	require.NoError(t, err)
	require.NoError(t, n.eth.SendTransaction(bg, signed), "what was filled in is accepted")
	tx, err = fill(anyMap{"from": account(1), "to": to, "gasPrice": "0x96", "nonce": "0x7", "gas": "0x7530"})
	require.NoError(t, err)
	require.EqualValues(t, types.LegacyTxType, tx.Type())
	require.Equal(t, [3]uint64{7, 30_000, 150}, [3]uint64{tx.Nonce(), tx.Gas(), tx.GasPrice().Uint64()})
	tx, err = fill(anyMap{"from": account(1), "to": to, "gasPrice": "0x96", "accessList": []any{}})
	require.NoError(t, err)
	require.EqualValues(t, types.AccessListTxType, tx.Type())
	for _, x := range []struct {
		args anyMap
		text string
	}{
		{anyMap{"from": account(1)}, "contract creation without any data"},
		{anyMap{"from": account(1), "to": to, "maxFeePerGas": "0x1", "maxPriorityFeePerGas": "0x2"}, "maxFeePerGas (1) < maxPriorityFeePerGas (2)"},
		{anyMap{"from": account(1), "to": to, "gasPrice": "0x1", "maxPriorityFeePerGas": "0x2"}, "both gasPrice and"},
		{anyMap{"from": account(1), "to": to, "chainId": "0x1"}, "chainId is 1, this chain's is 7777"},
		{anyMap{"from": account(1), "to": to, "blobs": []string{"0x00"}}, "blob transactions"},
	} {
		_, err := fill(x.args)
		requireCode(t, err, codeInvalidParams, x.text)
	}
}
