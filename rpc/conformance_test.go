package rpc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/ethclient/gethclient"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"
)

// What JSON-RPC 2.0 asks of requests and batches, byte for byte as a client sees it over HTTP.
func TestRequestForms(t *testing.T) {
	n := newNet(t, 0, nil)
	type answer struct {
		Jsonrpc string
		ID      json.RawMessage
		Result  json.RawMessage
		Error   *struct {
			Code    int
			Message string
		}
	}
	id := `{"jsonrpc":"2.0","id":%s,"method":"eth_chainId"%s}`
	for name, x := range map[string]struct {
		body string
		code int // 0: a result
		text string
		id   string
	}{
		"number id":        {fmt.Sprintf(id, "7", ""), 0, `"0x1e61"`, "7"},
		"string id":        {fmt.Sprintf(id, `"a b"`, `,"params":[]`), 0, `"0x1e61"`, `"a b"`},
		"null params":      {fmt.Sprintf(id, "1", `,"params":null`), 0, `"0x1e61"`, "1"},
		"no json":          {`{"jsonrpc":"2.0",`, -32700, "", "null"},
		"no request":       {`{}`, -32600, "invalid request", "null"},
		"a number":         {`5`, -32600, "", "null"},
		"empty batch":      {`[]`, -32600, "empty batch", "null"},
		"no such method":   {`{"jsonrpc":"2.0","id":1,"method":"eth_nothing"}`, -32601, "the method eth_nothing does not exist/is not available", "1"},
		"no such space":    {`{"jsonrpc":"2.0","id":1,"method":"nothing"}`, -32601, "the method nothing does not exist", "1"},
		"keys of the node": {`{"jsonrpc":"2.0","id":1,"method":"eth_sendTransaction","params":[{}]}`, -32601, "does not exist", "1"},
		"params by name":   {fmt.Sprintf(id, "1", `,"params":{"a":1}`), -32602, "non-array args", "1"},
		"too many params":  {fmt.Sprintf(id, "1", `,"params":[1]`), -32602, "too many arguments, want at most 0", "1"},
		"missing params":   {`{"jsonrpc":"2.0","id":1,"method":"eth_getBalance"}`, -32602, "missing value for required argument 0", "1"},
		"leading zeros":    {`{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["0x01",false]}`, -32602, "hex number with leading zero digits", "1"},
		"no prefix":        {`{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["1",false]}`, -32602, "hex string without 0x prefix", "1"},
		"no such tag":      {`{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["newest",false]}`, -32602, "invalid argument 0", "1"},
		"short hash":       {`{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByHash","params":["0x12",false]}`, -32602, "hex string has length 2, want 64", "1"},
		"odd bytes":        {`{"jsonrpc":"2.0","id":1,"method":"web3_sha3","params":["0x123"]}`, -32602, "hex string of odd length", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			status, body, _ := post(t, n.srv.HTTPURL(), x.body, nil)
			require.Equal(t, http.StatusOK, status)
			var a answer
			require.NoError(t, json.Unmarshal([]byte(body), &a), body)
			require.Equal(t, "2.0", a.Jsonrpc)
			require.Equal(t, x.id, string(a.ID))
			if x.code == 0 {
				require.Nil(t, a.Error)
				require.Equal(t, x.text, string(a.Result))
				return
			}
			require.NotNil(t, a.Error, body)
			require.Equal(t, x.code, a.Error.Code, body)
			require.Contains(t, a.Error.Message, x.text)
		})
	}
	// Answers to a batch keep its order; what is no request gets an answer, what has no id none.
	_, body, _ := post(t, n.srv.HTTPURL(), `[{"jsonrpc":"2.0","id":1,"method":"eth_chainId"},{"jsonrpc":"2.0","method":"eth_chainId"},5,`+
		`{"jsonrpc":"2.0","id":2,"method":"eth_nothing"},{"jsonrpc":"2.0","id":3,"method":"eth_getTransactionByHash","params":["`+common.Hash{9}.Hex()+`"]}]`, nil)
	var all []answer
	require.NoError(t, json.Unmarshal([]byte(body), &all), body)
	require.Len(t, all, 4, body)
	require.Equal(t, `"0x1e61"`, string(all[0].Result))
	require.Equal(t, -32600, all[1].Error.Code)
	require.Equal(t, -32601, all[2].Error.Code)
	require.Equal(t, "null", string(all[3].Result), "an unknown transaction is null, not absent")
	for _, quiet := range []string{`{"jsonrpc":"2.0","method":"eth_chainId"}`, `[{"jsonrpc":"2.0","method":"eth_chainId"}]`} {
		_, body, _ = post(t, n.srv.HTTPURL(), quiet, nil)
		require.Empty(t, strings.TrimSpace(body), "nobody asked for an answer")
	}
}

// Every method that takes a block takes every form of it.
func TestBlockReferences(t *testing.T) {
	n := newNet(t, 0, nil)
	addr := n.deploy() // block 1
	b1 := n.chain.BlockByNumber(1)
	n.store(1, addr, 7, "")
	b2 := n.mine()
	n.finalize(b1)
	n.chain.SetSafe(b2.Hash())
	n.store(1, addr, 8, "")
	b3 := n.mine()
	side := n.build(b2.SealedHeader, 9, nil) // a sibling of block 3 that is not adopted
	value := func(ref any) (string, error) {
		var out common.Hash
		err := n.call(&out, "eth_getStorageAt", addr, "0x0", ref)
		return hexutil.EncodeBig(out.Big()), err
	}
	for _, x := range []struct {
		ref  any
		want string
	}{
		{"earliest", "0x0"}, {"finalized", "0x5"}, {"safe", "0x7"}, {"latest", "0x8"}, {"pending", "0x8"}, {nil, "0x8"}, {"0x2", "0x7"},
		{b2.Hash(), "0x7"}, {anyMap{"blockNumber": "0x1"}, "0x5"}, {anyMap{"blockNumber": "finalized"}, "0x5"},
		{anyMap{"blockHash": b2.Hash()}, "0x7"}, {anyMap{"blockHash": b3.Hash(), "requireCanonical": true}, "0x8"},
	} {
		got, err := value(x.ref)
		require.NoError(t, err, "%v", x.ref)
		require.Equal(t, x.want, got, "%v", x.ref)
	}
	_, err := value(anyMap{"blockHash": side.Hash(), "requireCanonical": true})
	requireCode(t, err, codeServer, "hash is not currently canonical")
	_, err = value(anyMap{"blockHash": common.Hash{1}})
	requireCode(t, err, codeServer, "header for hash not found")
	_, err = value("0x99")
	requireCode(t, err, codeServer, "header not found")
	_, err = value(anyMap{"blockHash": b2.Hash(), "blockNumber": "0x1"})
	requireCode(t, err, codeInvalidParams, "cannot specify both BlockHash and BlockNumber")

	call := anyMap{"to": addr, "input": hexutil.Bytes(n.abi.Methods["value"].ID)}
	for _, tag := range []string{"earliest", "finalized", "safe", "latest", "pending"} {
		for method, args := range map[string][]any{
			"eth_getBalance": {addr, tag}, "eth_getCode": {addr, tag}, "eth_getTransactionCount": {addr, tag},
			"eth_getStorageValues": {anyMap{addr.Hex(): []common.Hash{{}}}, tag}, "eth_getProof": {addr, []string{"0x0"}, tag}, "eth_call": {call, tag}, "eth_estimateGas": {call, tag},
			"eth_createAccessList": {call, tag}, "eth_simulateV1": {anyMap{"blockStateCalls": []any{anyMap{"calls": []any{call}}}}, tag},
			"eth_getBlockByNumber": {tag, true}, "eth_getHeaderByNumber": {tag}, "eth_getBlockReceipts": {tag},
			"eth_getBlockTransactionCountByNumber": {tag}, "eth_getUncleCountByBlockNumber": {tag},
			"eth_getTransactionByBlockNumberAndIndex": {tag, "0x0"}, "eth_getRawTransactionByBlockNumberAndIndex": {tag, "0x0"},
			"eth_feeHistory":  {"0x1", tag, []float64{50}},
			"debug_traceCall": {call, tag, anyMap{"tracer": "callTracer"}}, "debug_getRawHeader": {tag}, "debug_getRawBlock": {tag},
			"debug_getRawReceipts": {tag}, "bor_getRecord": {tag},
		} {
			require.NoError(t, n.call(nil, method, args...), "%s at %s", method, tag)
		}
		if err := n.call(nil, "eth_getLogs", anyMap{"fromBlock": tag, "toBlock": tag}); tag == "pending" {
			requireCode(t, err, codeInvalidParams, "pending logs are not supported")
		} else {
			require.NoError(t, err, tag)
		}
	}
	// What is not there is null where the specification says so.
	for method, args := range map[string][]any{
		"eth_getBlockByNumber": {"0x99", false}, "eth_getBlockByHash": {common.Hash{1}, false}, "eth_getHeaderByNumber": {"0x99"},
		"eth_getHeaderByHash": {common.Hash{1}}, "eth_getBlockReceipts": {"0x99"}, "eth_getBlockTransactionCountByNumber": {"0x99"},
		"eth_getBlockTransactionCountByHash": {common.Hash{1}}, "eth_getUncleCountByBlockHash": {common.Hash{1}},
		"eth_getTransactionByHash": {common.Hash{1}}, "eth_getTransactionReceipt": {common.Hash{1}},
		"eth_getTransactionByBlockHashAndIndex": {common.Hash{1}, "0x0"}, "eth_getTransactionByBlockNumberAndIndex": {"latest", "0x9"},
	} {
		var raw rawJSON
		require.NoError(t, n.call(&raw, method, args...), method)
		require.Equal(t, "null", string(raw), method)
	}
	var raw rawJSON
	require.NoError(t, n.call(&raw, "eth_getBlockReceipts", "earliest"))
	require.Equal(t, "[]", string(raw), "a block without transactions has no receipts, but is there")
}

// The words that clients look for in the refusals of transactions and calls, with their codes.
func TestErrorWords(t *testing.T) {
	n := newNet(t, 100, nil)
	addr, to := n.deploy(), account(2)
	blob := types.MustSignNewTx(key(3), types.LatestSigner(n.gen.config), &types.BlobTx{
		ChainID: uint256.MustFromBig(n.gen.config.ChainID), Gas: 21_000, GasFeeCap: uint256.NewInt(1000), BlobFeeCap: uint256.NewInt(10), BlobHashes: []common.Hash{{1}},
	})
	other := types.MustSignNewTx(key(3), types.LatestSignerForChainID(big.NewInt(1)), &types.DynamicFeeTx{ChainID: common.Big1, Gas: 21_000, To: &to})
	tip := types.MustSignNewTx(key(3), types.LatestSigner(n.gen.config), &types.DynamicFeeTx{ChainID: n.gen.config.ChainID, Gas: 21_000, To: &to, GasFeeCap: big.NewInt(200), GasTipCap: big.NewInt(300)})
	fat := n.sign(3, 0, nil, 0, make([]byte, params.MaxInitCodeSize+1), 10_000_000)
	for _, x := range []struct {
		tx   *types.Transaction
		text string
	}{
		{blob, "transaction type not supported"},
		{other, "invalid sender"},
		{tip, "max priority fee per gas higher than max fee per gas"},
		{fat, "max initcode size exceeded"},
		{n.sign(3, 0, &to, 0, make([]byte, 2000), 30_000), "insufficient gas for floor data gas cost"},
	} {
		raw, err := x.tx.MarshalBinary()
		require.NoError(t, err)
		requireCode(t, n.call(nil, "eth_sendRawTransaction", hexutil.Bytes(raw)), codeServer, x.text)
	}
	// The remedy follows the words.
	require.NoError(t, n.eth.SendTransaction(bg, n.sign(3, 0, &to, 0, nil, 21_000)))
	require.ErrorContains(t, n.eth.SendTransaction(bg, n.sign(3, 0, &to, 1, nil, 21_000)), "replacement transaction underpriced; offer 10 % more")
	require.ErrorContains(t, n.eth.SendTransaction(bg, n.sign(30, 0, &to, 1, nil, 21_000)), "; send ether to the account")
	poor := common.Address{0xee}
	for _, method := range []string{"eth_call", "eth_estimateGas", "eth_createAccessList"} {
		err := n.call(nil, method, anyMap{"from": poor, "to": addr, "value": "0x1"}, "latest")
		requireCode(t, err, codeServer, "insufficient funds for")
		if method != "eth_estimateGas" { // which looks for a gas that is enough
			err = n.call(nil, method, anyMap{"from": account(1), "to": to, "gas": "0x10"}, "latest")
			requireCode(t, err, codeServer, "intrinsic gas too low")
		}
		err = n.call(nil, method, anyMap{"from": account(1), "to": to, "gasPrice": "0x1"}, "latest")
		requireCode(t, err, codeServer, "max fee per gas less than block base fee")
	}
	requireCode(t, n.call(nil, "eth_estimateGas", anyMap{"from": account(1), "to": addr, "input": "0x12345678"}), codeReverted, "execution reverted")
	requireCode(t, n.call(nil, "eth_call", anyMap{"to": addr, "input": "0x", "data": "0x00"}), codeInvalidParams, `both "data" and "input"`)
	require.ErrorContains(t, n.call(nil, "eth_call", anyMap{"to": addr, "input": "0x12345678", "data": "0x12345678"}), "execution reverted", "the same twice is no conflict")
	for _, bad := range []anyMap{{"beaconRoot": common.Hash{}}, {"withdrawals": []any{}}, {"number": "0x10000000000000000"}} {
		for _, method := range []string{"eth_call", "eth_estimateGas"} {
			requireCode(t, n.call(nil, method, anyMap{"to": addr}, "latest", anyMap{}, bad), codeInvalidParams, "block override")
		}
	}
}

// The nonce of a contract's creation is the overridden one.
func TestAccessListUnderOverrides(t *testing.T) {
	n := newNet(t, 0, nil)
	from := account(1)
	// Reads the balance of itself, whose address follows from the nonce: it is warm and must not be listed.
	list := n.get("eth_createAccessList", anyMap{"from": from, "input": "0x30315000"}, "latest", anyMap{from.Hex(): anyMap{"nonce": "0x7"}})
	require.Equal(t, []any{}, list["accessList"])
}

// A call that is told another block number sees the hashes of the chain's blocks all the same.
func TestBlockHashesUnderOverrides(t *testing.T) {
	n := newNet(t, 0, nil)
	b1, b2 := n.mine(), n.mine()
	ghost := common.Address{0x77}
	ask := func(of, number uint64) common.Hash {
		var out common.Hash
		require.NoError(t, n.call(&out, "eth_call", anyMap{"to": ghost, "input": common.BigToHash(new(big.Int).SetUint64(of))}, "latest",
			anyMap{ghost.Hex(): anyMap{"code": "0x5f35405f5260205ff3"}}, anyMap{"number": hexutil.Uint64(number)}))
		return out
	}
	require.Equal(t, b1.Hash(), ask(1, 2))
	require.Equal(t, common.Hash{}, ask(2, 2), "a block does not see its own hash")
	require.Equal(t, b2.Hash(), ask(2, 3))
	require.Equal(t, b1.Hash(), ask(1, 3))
	require.Equal(t, b1.Hash(), ask(1, 100))
	require.Equal(t, common.Hash{}, ask(99, 100), "a block that nobody made has no hash")
}

// Proofs as a client checks them: of accounts, of slots, and of their absence, with keys in every form.
func TestProofs(t *testing.T) {
	n := newNet(t, 0, nil)
	addr := n.deploy()
	b := n.chain.CurrentHeader()
	client := gethclient.New(n.rpc)
	p, err := client.GetProof(bg, addr, []string{"0x0", "0x", "0x00", common.Hash{}.Hex(), "0xA", "7"}, nil)
	require.NoError(t, err)
	names := []string{"0x0", "0x0", "0x0", common.Hash{}.Hex(), "0xa", "0x7"}
	for i, s := range p.StorageProof {
		require.Equal(t, names[i], s.Key)
		slot := common.HexToHash(s.Key)
		want := []byte(nil)
		if i < 4 {
			want = []byte{5}
		}
		checkProof(t, p.StorageHash, crypto.Keccak256(slot[:]), s.Proof, func(v []byte) { require.Equal(t, want, v) })
		require.Equal(t, new(big.Int).SetBytes(want).String(), s.Value.String())
	}
	for _, x := range []common.Address{addr, account(1), {0x31}} {
		p, err := client.GetProof(bg, x, []string{"0x1"}, nil)
		require.NoError(t, err)
		checkProof(t, b.Root, crypto.Keccak256(x[:]), p.AccountProof, func(v []byte) {
			if x == (common.Address{0x31}) {
				require.Nil(t, v, "the proof shows that it is absent")
				require.Zero(t, p.Balance.Sign()+int(p.Nonce))
				require.Equal(t, common.Hash{}, p.CodeHash)
				return
			}
			var acc types.StateAccount
			require.NoError(t, rlp.DecodeBytes(v, &acc))
			require.Equal(t, types.StateAccount{Nonce: p.Nonce, Balance: uint256.MustFromBig(p.Balance), Root: p.StorageHash, CodeHash: p.CodeHash[:]}, acc)
		})
		if x != addr {
			require.Empty(t, p.StorageProof[0].Proof)
			require.Equal(t, types.EmptyRootHash, p.StorageHash)
		}
	}
	for key, text := range map[string]string{"0x" + strings.Repeat("0", 65): "longer than 32 bytes", "0xg": "not hexadecimal"} {
		requireCode(t, n.call(nil, "eth_getProof", addr, []string{key}, "latest"), codeInvalidParams, text)
	}
}

func TestConfigMethod(t *testing.T) {
	n := newNet(t, 0, nil)
	got := n.get("eth_config")
	require.Nil(t, got["next"])
	require.Nil(t, got["last"])
	current := got["current"].(map[string]any)
	require.Equal(t, 0.0, current["activationTime"], "a number, as EIP-7910 has it")
	require.Equal(t, "0x1e61", current["chainId"])
	require.Regexp(t, `^0x[0-9a-f]{8}$`, current["forkId"])
	require.Equal(t, "0x0000000000000000000000000000000000000100", current["precompiles"].(map[string]any)["P256VERIFY"])
	require.Equal(t, map[string]any{
		"BEACON_ROOTS_ADDRESS": lower(params.BeaconRootsAddress), "HISTORY_STORAGE_ADDRESS": lower(params.HistoryStorageAddress),
		"WITHDRAWAL_REQUEST_PREDEPLOY_ADDRESS": lower(params.WithdrawalQueueAddress), "CONSOLIDATION_REQUEST_PREDEPLOY_ADDRESS": lower(params.ConsolidationQueueAddress),
	}, current["systemContracts"])
	require.Contains(t, current["blobSchedule"], "target")

	cfg, later := *n.gen.config, uint64(1<<40)
	cfg.AmsterdamTime = &later
	c, err := (&ethAPI{&service{back: Backend{Chain: laterChain{n.chain.Chain, &cfg}}}}).Config()
	require.NoError(t, err)
	require.EqualValues(t, later, c.Next.ActivationTime)
	require.Equal(t, c.Next, c.Last)
	require.NotEqual(t, c.Current.ForkID, c.Next.ForkID)
	require.Len(t, c.Next.SystemContracts, 6)
}

// laterChain is a chain with a fork to come.
type laterChain struct {
	Chain
	config *params.ChainConfig
}

func (c laterChain) Config() *params.ChainConfig { return c.config }

func lower(a common.Address) string { return strings.ToLower(a.Hex()) }

// Old blocks: states are read from the history, proofs and simulations are refused in words, traces go on.
func TestOldBlocks(t *testing.T) {
	n := newNet(t, 0, nil)
	addr := n.deploy() // block 1
	tx := n.store(1, addr, 7, "seven")
	for n.chain.CurrentHeader().Number.Uint64() < 150 {
		n.mine()
	}
	slot := func() (out common.Hash, err error) { return out, n.call(&out, "eth_getStorageAt", addr, "0x0", "0x1") }
	require.Eventually(t, func() bool { _, err := slot(); return err == nil }, waitTime, pollTime, "the history is indexed in the background")
	got, err := slot()
	require.NoError(t, err)
	require.Equal(t, common.Hash{31: 5}, got)
	call := anyMap{"to": addr, "input": hexutil.Bytes(n.abi.Methods["value"].ID)}
	require.NoError(t, n.call(&got, "eth_call", call, "0x1"))
	require.Equal(t, common.Hash{31: 5}, got)
	require.NoError(t, n.call(nil, "eth_estimateGas", call, "0x1"))
	frame := n.get("debug_traceTransaction", tx.Hash(), anyMap{"tracer": "callTracer"})
	require.Equal(t, lower(account(1)), frame["from"])
	capable := n.get("eth_capabilities")
	require.Equal(t, anyMap{"number": "0x96", "hash": n.chain.CurrentHeader().Hash().Hex()}, capable["head"])
	for _, k := range []string{"tx", "logs", "receipts", "blocks"} {
		require.Equal(t, anyMap{"disabled": false, "oldestBlock": "0x0"}, capable[k])
	}
	require.Equal(t, anyMap{"disabled": false, "oldestBlock": "0x0", "deleteStrategy": anyMap{"type": "window", "retentionBlocks": hexutil.EncodeUint64(90_128)}}, capable["state"])
	proofs := capable["stateproofs"].(anyMap)
	require.Equal(t, anyMap{"type": "window", "retentionBlocks": "0x80"}, proofs["deleteStrategy"])
	require.Equal(t, "0x17", proofs["oldestBlock"])
	require.NoError(t, n.call(nil, "eth_getProof", addr, []string{"0x0"}, proofs["oldestBlock"]), "as far as it says")
	requireCode(t, n.call(nil, "eth_getProof", addr, []string{}, "0x1"), codeServer, "the newest blocks only")
	require.NoError(t, n.call(nil, "eth_simulateV1", anyMap{"blockStateCalls": []any{anyMap{}}}, proofs["oldestBlock"]))
	requireCode(t, n.call(nil, "eth_simulateV1", anyMap{"blockStateCalls": []any{anyMap{}}}, "0x1"), codeServer, "only the newest blocks have")
}

// ethclient reads what a simulation answers.
func TestSimulateByClient(t *testing.T) {
	n := newNet(t, 0, nil)
	to := account(2)
	res, err := n.eth.SimulateV1(bg, ethclient.SimulateOptions{TraceTransfers: true, BlockStateCalls: []ethclient.SimulateBlock{{Calls: []ethereum.CallMsg{{From: account(1), To: &to, Value: big.NewInt(5)}}}}}, nil)
	require.NoError(t, err)
	require.Len(t, res, 1)
	require.EqualValues(t, params.TxGas, res[0].Calls[0].GasUsed)
	require.True(t, bytes.Equal(res[0].Calls[0].Logs[0].Data, common.Hash{31: 5}.Bytes()))
}
