package testnet

import (
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/ethclient/gethclient"
	"github.com/ethereum/go-ethereum/ethdb/memorydb"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"
)

// gethMethods asks through go-ethereum's clients what ethclient and gethclient offer beyond blocks and logs.
func gethMethods(t *testing.T, x *Node, a Account) {
	ws, err := ethclient.DialContext(t.Context(), x.WS)
	require.NoError(t, err)
	defer ws.Close()
	geth := gethclient.New(ws.Client())
	s := newSender(t, ws, a)
	contract := loadSample(t)
	input, err := contract.ABI.Pack("", big.NewInt(77))
	require.NoError(t, err)

	pending := make(chan common.Hash, 1024)
	ps, err := geth.SubscribePendingTransactions(t.Context(), pending)
	require.NoError(t, err)
	defer ps.Unsubscribe()
	deployed := s.send(t, nil, 0, append(common.CopyBytes(contract.Bytecode), input...))
	for h := (common.Hash{}); h != deployed.TxHash; {
		select {
		case h = <-pending:
		case err := <-ps.Err():
			require.NoError(t, err, "the subscription to pending transactions ended")
		case <-time.After(patience):
			require.Fail(t, "the pending transaction was not told")
		}
	}
	proven(t, ws, geth, deployed.ContractAddress, a.Address)
	typed(t, s, contract, deployed.ContractAddress)
	traced(t, geth, ws, contract, deployed)
	simulated(t, ws, contract, deployed.ContractAddress, a.Address)
	batched(t, ws, deployed)
}

// proven checks accounts and a slot against the state root of a header whose hash is computed here.
func proven(t *testing.T, c *ethclient.Client, geth *gethclient.Client, contract, account common.Address) {
	t.Helper()
	head, err := c.HeaderByNumber(t.Context(), nil)
	require.NoError(t, err)
	missing := common.HexToAddress("0x00000000000000000000000000000000000c11ff")
	for _, of := range []common.Address{contract, account, missing} {
		got, err := geth.GetProof(t.Context(), of, []string{common.Hash{}.Hex(), common.BigToHash(big.NewInt(1)).Hex()}, head.Number)
		require.NoError(t, err)
		leaf := prove(t, head.Root, of.Bytes(), got.AccountProof)
		if of == missing {
			require.Nil(t, leaf, "an account that there is not")
			continue
		}
		var stored types.StateAccount
		require.NoError(t, rlp.DecodeBytes(leaf, &stored))
		require.Equal(t, types.StateAccount{Nonce: got.Nonce, Balance: uint256.MustFromBig(got.Balance), Root: got.StorageHash, CodeHash: got.CodeHash.Bytes()}, stored)
		if of != contract {
			continue
		}
		code, err := c.CodeAt(t.Context(), of, head.Number)
		require.NoError(t, err)
		require.Equal(t, crypto.Keccak256Hash(code), got.CodeHash)
		var value []byte
		require.NoError(t, rlp.DecodeBytes(prove(t, got.StorageHash, make([]byte, 32), got.StorageProof[0].Proof), &value))
		require.EqualValues(t, 77, new(big.Int).SetBytes(value).Int64())
		require.Nil(t, prove(t, got.StorageHash, common.BigToHash(big.NewInt(1)).Bytes(), got.StorageProof[1].Proof), "a slot that is empty")
	}
}

// prove is the value of a key in the trie of this root; nil where the proof shows that there is none.
func prove(t *testing.T, root common.Hash, key []byte, proof []string) []byte {
	t.Helper()
	nodes := memorydb.New()
	for _, n := range proof {
		b, err := hexutil.Decode(n)
		require.NoError(t, err)
		require.NoError(t, nodes.Put(crypto.Keccak256(b), b))
	}
	value, err := trie.VerifyProof(root, crypto.Keccak256(key), nodes)
	require.NoError(t, err)
	return value
}

// typed sends a transaction of each type.
func typed(t *testing.T, s *sender, contract *sample, at common.Address) {
	t.Helper()
	data, err := contract.ABI.Pack("store", big.NewInt(3), "typed")
	require.NoError(t, err)
	price, err := s.c.SuggestGasPrice(t.Context())
	require.NoError(t, err)
	price.Mul(price, big.NewInt(2))
	list := types.AccessList{{Address: at, StorageKeys: []common.Hash{{}}}}
	other, err := crypto.GenerateKey()
	require.NoError(t, err)
	lent := crypto.PubkeyToAddress(other.PublicKey)
	auth, err := types.SignSetCode(other, types.SetCodeAuthorization{ChainID: *uint256.MustFromBig(s.chain), Address: at})
	require.NoError(t, err)
	const gas = 200_000
	for kind, make := range []func(nonce uint64) types.TxData{
		func(n uint64) types.TxData {
			return &types.LegacyTx{Nonce: n, GasPrice: price, Gas: gas, To: &at, Data: data}
		},
		func(n uint64) types.TxData {
			return &types.AccessListTx{ChainID: s.chain, Nonce: n, GasPrice: price, Gas: gas, To: &at, Data: data, AccessList: list}
		},
		func(n uint64) types.TxData {
			return &types.DynamicFeeTx{ChainID: s.chain, Nonce: n, GasFeeCap: price, GasTipCap: new(big.Int), Gas: gas, To: &at, Data: data, AccessList: list}
		},
		func(n uint64) types.TxData {
			return &types.SetCodeTx{ChainID: uint256.MustFromBig(s.chain), Nonce: n, GasFeeCap: uint256.MustFromBig(price), GasTipCap: new(uint256.Int),
				Gas: gas, To: lent, Data: data, AuthList: []types.SetCodeAuthorization{auth}}
		},
	} {
		tx, err := types.SignNewTx(s.a.Private(), types.LatestSignerForChainID(s.chain), make(s.nonce))
		require.NoError(t, err)
		wait := time.Minute // the most that a node waits
		receipts, err := s.c.SendTransactionSync(t.Context(), tx, &wait)
		require.NoError(t, err, "type %d", tx.Type())
		s.nonce++
		require.Equal(t, types.ReceiptStatusSuccessful, receipts.Status, "type %d", tx.Type())
		require.Equal(t, tx.Type(), receipts.Type)
		got, isPending, err := s.c.TransactionByHash(t.Context(), tx.Hash())
		require.NoError(t, err, "entry %d", kind)
		require.False(t, isPending)
		require.Equal(t, tx.Hash(), got.Hash(), "the hash of what came back, computed here")
		from, err := types.Sender(types.LatestSignerForChainID(s.chain), got)
		require.NoError(t, err)
		require.Equal(t, s.a.Address, from)
	}
	code, err := s.c.CodeAt(t.Context(), lent, nil)
	require.NoError(t, err)
	require.Equal(t, types.AddressToDelegation(at), code)
}

// traced traces a call that ends well and one that does not.
func traced(t *testing.T, geth *gethclient.Client, c *ethclient.Client, contract *sample, deployed *types.Receipt) {
	t.Helper()
	frame, err := geth.TraceTransactionWithCallTracer(t.Context(), deployed.TxHash, nil)
	require.NoError(t, err)
	require.Equal(t, "CREATE", frame.Type)
	require.Equal(t, deployed.GasUsed, frame.GasUsed)
	data, err := contract.ABI.Pack("store", big.NewInt(13), "")
	require.NoError(t, err)
	msg := ethereum.CallMsg{To: &deployed.ContractAddress, Data: data}
	frame, err = geth.TraceCallWithCallTracer(t.Context(), msg, rpc.BlockNumberOrHashWithNumber(rpc.LatestBlockNumber), nil, nil, nil)
	require.NoError(t, err)
	require.Equal(t, "thirteen is refused", frame.RevertReason)
	list, gas, failure, err := geth.CreateAccessList(t.Context(), ethereum.CallMsg{To: &deployed.ContractAddress, Data: contract.ABI.Methods["value"].ID})
	require.NoError(t, err)
	require.Empty(t, failure)
	require.NotZero(t, gas)
	require.Equal(t, 1, list.StorageKeys())
	out, err := geth.CallContract(t.Context(), ethereum.CallMsg{To: &deployed.ContractAddress, Data: contract.ABI.Methods["value"].ID}, nil,
		&map[common.Address]gethclient.OverrideAccount{deployed.ContractAddress: {StateDiff: map[common.Hash]common.Hash{{}: common.BigToHash(big.NewInt(99))}}})
	require.NoError(t, err)
	require.EqualValues(t, 99, new(big.Int).SetBytes(out).Int64())
	history, err := c.FeeHistory(t.Context(), 4, nil, []float64{50})
	require.NoError(t, err)
	require.Len(t, history.BaseFee, len(history.GasUsedRatio)+1)
}

// simulated plays two blocks that nobody makes: the second sees what the first did, the chain does not.
func simulated(t *testing.T, c *ethclient.Client, contract *sample, at, from common.Address) {
	t.Helper()
	before, err := c.StorageAt(t.Context(), at, common.Hash{}, nil)
	require.NoError(t, err)
	store, err := contract.ABI.Pack("store", big.NewInt(500), "simulated")
	require.NoError(t, err)
	call := func(data []byte) ethereum.CallMsg { return ethereum.CallMsg{From: from, To: &at, Data: data} }
	blocks, err := c.SimulateV1(t.Context(), ethclient.SimulateOptions{BlockStateCalls: []ethclient.SimulateBlock{
		{Calls: []ethereum.CallMsg{call(store), call([]byte{1, 2, 3, 4})}}, {Calls: []ethereum.CallMsg{call(contract.ABI.Methods["value"].ID)}},
	}}, nil)
	require.NoError(t, err)
	require.Len(t, blocks, 2)
	require.EqualValues(t, types.ReceiptStatusSuccessful, blocks[0].Calls[0].Status)
	require.Len(t, blocks[0].Calls[0].Logs, 1)
	require.EqualValues(t, types.ReceiptStatusFailed, blocks[0].Calls[1].Status)
	require.Equal(t, 3, blocks[0].Calls[1].Error.Code, "reverted")
	require.EqualValues(t, 500, new(big.Int).SetBytes(blocks[1].Calls[0].ReturnValue).Int64())
	after, err := c.StorageAt(t.Context(), at, common.Hash{}, nil)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// batched asks for several things in one request; one of them fails alone.
func batched(t *testing.T, c *ethclient.Client, deployed *types.Receipt) {
	t.Helper()
	var number hexutil.Uint64
	var receipt *types.Receipt
	batch := []rpc.BatchElem{
		{Method: "eth_blockNumber", Result: &number},
		{Method: "eth_getTransactionReceipt", Args: []any{deployed.TxHash}, Result: &receipt},
		{Method: "eth_doesNotExist", Result: new(any)},
	}
	require.NoError(t, c.Client().BatchCallContext(t.Context(), batch))
	require.NoError(t, batch[0].Error)
	require.NoError(t, batch[1].Error)
	require.GreaterOrEqual(t, uint64(number), deployed.BlockNumber.Uint64())
	require.Equal(t, deployed.TxHash, receipt.TxHash)
	var unknown rpc.Error
	require.ErrorAs(t, batch[2].Error, &unknown)
	require.Equal(t, -32601, unknown.ErrorCode())
}
