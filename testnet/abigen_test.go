package testnet

import (
	"bytes"
	"encoding/json"
	"math/big"
	"os"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi/abigen"
	"github.com/ethereum/go-ethereum/accounts/abi/bind/v2"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
)

// bindingFile is what abigen makes of clients/Sample.json.
const bindingFile = "sample_gen_test.go"

// The binding in the tree is the one that abigen makes; BORNODE_UPDATE=1 writes it again.
func TestBindingIsGenerated(t *testing.T) {
	var contract struct {
		ABI      json.RawMessage `json:"abi"`
		Bytecode hexutil.Bytes   `json:"bytecode"`
	}
	b, err := os.ReadFile("clients/Sample.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &contract))
	var compact bytes.Buffer
	require.NoError(t, json.Compact(&compact, contract.ABI))
	code, err := abigen.BindV2([]string{"Sample"}, []string{compact.String()}, []string{contract.Bytecode.String()}, "testnet", nil, nil)
	require.NoError(t, err)
	if os.Getenv("BORNODE_UPDATE") != "" {
		require.NoError(t, os.WriteFile(bindingFile, []byte(code), 0o600))
	}
	have, err := os.ReadFile(bindingFile)
	require.NoError(t, err, "run the test with BORNODE_UPDATE=1")
	require.Equal(t, code, string(have), "clients/Sample.json changed: run the test with BORNODE_UPDATE=1")
}

// bindings drives contracts through abigen's bindings and go-ethereum's bind package.
func bindings(t *testing.T, x *Node, a Account) {
	c, err := ethclient.DialContext(t.Context(), x.WS)
	require.NoError(t, err)
	defer c.Close()
	chain, err := c.ChainID(t.Context())
	require.NoError(t, err)
	opts := bind.NewKeyedTransactor(a.Private(), chain)
	opts.Context = t.Context()
	binding := NewSample()

	at, tx, err := bind.DeployContract(opts, common.FromHex(SampleMetaData.Bin), c, binding.PackConstructor(big.NewInt(5)))
	require.NoError(t, err)
	deployed, err := bind.WaitDeployed(t.Context(), c, tx.Hash())
	require.NoError(t, err)
	require.Equal(t, at, deployed)
	contract := binding.Instance(c, at)

	seen := make(chan *SampleStored, 16)
	sub, err := bind.WatchEvents(contract, &bind.WatchOpts{Context: t.Context()}, binding.UnpackStoredEvent, seen, []any{a.Address})
	require.NoError(t, err)
	defer sub.Unsubscribe()
	tx, err = bind.Transact(contract, opts, binding.PackStore(big.NewInt(46), "by abigen"))
	require.NoError(t, err)
	receipt, err := bind.WaitMined(t.Context(), c, tx.Hash())
	require.NoError(t, err)
	require.Equal(t, types.ReceiptStatusSuccessful, receipt.Status)
	value, err := bind.Call(contract, nil, binding.PackValue(), binding.UnpackValue)
	require.NoError(t, err)
	require.EqualValues(t, 46, value.Int64())
	select {
	case e := <-seen:
		require.Equal(t, "by abigen", e.Note)
		require.Equal(t, tx.Hash(), e.Raw.TxHash)
	case err := <-sub.Err():
		require.NoError(t, err, "the subscription ended")
	case <-time.After(patience):
		require.Fail(t, "the event did not come")
	}
	number := receipt.BlockNumber.Uint64()
	found, err := bind.FilterEvents(contract, &bind.FilterOpts{Start: number, End: &number, Context: t.Context()}, binding.UnpackStoredEvent, []any{a.Address})
	require.NoError(t, err)
	require.True(t, found.Next())
	require.EqualValues(t, 46, found.Value().Value.Int64())
	require.NoError(t, found.Close())

	_, err = bind.Call(contract, &bind.CallOpts{From: a.Address}, binding.PackStore(big.NewInt(2000), ""), binding.UnpackStore)
	var refused rpc.DataError
	require.ErrorAs(t, err, &refused)
	data, err := hexutil.Decode(refused.ErrorData().(string))
	require.NoError(t, err)
	decoded, err := binding.UnpackError(data)
	require.NoError(t, err)
	require.EqualValues(t, 1000, decoded.(*SampleTooLarge).Limit.Int64())

	// The bindings of the system contracts are abigen's too.
	producers := contracts.NewProducers()
	schedule, err := bind.Call(producers.Instance(c, genesis.ProducersAddress), nil, producers.PackSchedule(), producers.UnpackSchedule)
	require.NoError(t, err)
	require.Len(t, schedule.Accounts, 1)
}
