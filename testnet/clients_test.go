package testnet

import (
	"bytes"
	"context"
	"encoding/json"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/ethereum/go-ethereum/trie"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/genesis"
)

// The clients that developers use, against a network of processes: without fees, and with a market for them.
func TestEthereumClients(t *testing.T) {
	for name, fees := range map[string]genesis.Fees{
		"free":   {Mode: genesis.FeesFixed},
		"market": {Mode: genesis.FeesMarket, BaseFee: 1000},
	} {
		if name == "market" && !long() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			// One producer: with several, a switch of branches on a busy machine takes a receipt back between two steps of a
			// script, which clients answer with a nonce error. What clients see of switches is tested in package rpc.
			n := upNetwork(t, func(s *Spec) { s.Fees, s.Producers, s.Observers = fees, 1, 2 })
			t.Run("all", func(t *testing.T) {
				account := 0
				client := func(name string, f func(*testing.T, *Node, Account)) { // an account each, so that they run at once
					x, a := n.Nodes[account%len(n.Nodes)], n.Accounts[account]
					account++
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						f(t, x, a)
					})
				}
				for _, s := range [][]string{{"node", "ethers.mjs"}, {"node", "viem.mjs"}, {"node", "web3.mjs"}, {"node", "system.mjs"},
					{"sh", "hardhat.sh"}, {"sh", "forge.sh"}, {"sh", "cast.sh"}} {
					client(s[1], func(t *testing.T, x *Node, a Account) { runScript(t, x, a, s) })
				}
				client("ethclient", func(t *testing.T, x *Node, a Account) { goClient(t, n, x, a, fees) })
				client("gethclient", gethMethods)
				client("abigen", bindings)
			})
		})
	}
}

// runScript runs a script of the folder clients, which takes HTTP, WS and a private key.
func runScript(t *testing.T, x *Node, a Account, command []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], append(command[1:], x.HTTP, x.WS, "0x"+a.Key)...)
	cmd.Dir = "clients"
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s; `make deps` installs what it needs\n%s", command[1], out)
	require.NotContains(t, string(out), "FAILED")
	t.Logf("%s", out)
}

// sample is the contract of clients/Sample.sol.
type sample struct {
	ABI      abi.ABI       `json:"abi"`
	Bytecode hexutil.Bytes `json:"bytecode"`
}

func loadSample(t *testing.T) *sample {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("clients", "Sample.json"))
	require.NoError(t, err)
	s := new(sample)
	require.NoError(t, json.Unmarshal(b, s))
	return s
}

// sender sends transactions of one account, in order.
type sender struct {
	c     *ethclient.Client
	a     Account
	chain *big.Int
	nonce uint64
}

func newSender(t *testing.T, c *ethclient.Client, a Account) *sender {
	t.Helper()
	id, err := c.ChainID(t.Context())
	require.NoError(t, err)
	nonce, err := c.PendingNonceAt(t.Context(), a.Address)
	require.NoError(t, err)
	return &sender{c: c, a: a, chain: id, nonce: nonce}
}

// send signs a transaction of the newer kind and waits for its receipt. A nil address deploys.
func (s *sender) send(t *testing.T, to *common.Address, value int64, data []byte) *types.Receipt {
	t.Helper()
	head, err := s.c.HeaderByNumber(t.Context(), nil)
	require.NoError(t, err)
	tip, err := s.c.SuggestGasTipCap(t.Context())
	require.NoError(t, err)
	gas, err := s.c.EstimateGas(t.Context(), ethereum.CallMsg{From: s.a.Address, To: to, Value: big.NewInt(value), Data: data})
	require.NoError(t, err)
	feeCap := new(big.Int).Add(tip, new(big.Int).Mul(head.BaseFee, big.NewInt(2)))
	tx, err := types.SignNewTx(s.a.Private(), types.LatestSignerForChainID(s.chain), &types.DynamicFeeTx{
		ChainID: s.chain, Nonce: s.nonce, GasTipCap: tip, GasFeeCap: feeCap, Gas: gas, To: to, Value: big.NewInt(value), Data: data,
	})
	require.NoError(t, err)
	require.NoError(t, s.c.SendTransaction(t.Context(), tx))
	s.nonce++
	var r *types.Receipt
	require.Eventually(t, func() bool {
		r, err = s.c.TransactionReceipt(t.Context(), tx.Hash())
		return err == nil
	}, patience, pollEvery, "receipt of %s", tx.Hash())
	require.Equal(t, types.ReceiptStatusSuccessful, r.Status)
	return r
}

// goClient drives go-ethereum's own client and computes again what the node reports.
func goClient(t *testing.T, n *Network, x *Node, a Account, fees genesis.Fees) {
	ws, err := ethclient.DialContext(t.Context(), x.WS)
	require.NoError(t, err)
	defer ws.Close()
	s := newSender(t, ws, a)
	contract := loadSample(t)
	input, err := contract.ABI.Pack("", big.NewInt(7))
	require.NoError(t, err)
	deployed := s.send(t, nil, 0, append(bytes.Clone(contract.Bytecode), input...))

	heads := make(chan *types.Header, 4096) // more than there can be: a slow reader would be dropped
	hs, err := ws.SubscribeNewHead(t.Context(), heads)
	require.NoError(t, err)
	defer hs.Unsubscribe()
	logs := make(chan types.Log, 256)
	filter := ethereum.FilterQuery{Addresses: []common.Address{deployed.ContractAddress}, Topics: [][]common.Hash{{contract.ABI.Events["Stored"].ID}}}
	ls, err := ws.SubscribeFilterLogs(t.Context(), filter, logs)
	require.NoError(t, err)
	defer ls.Unsubscribe()

	const rounds = 20
	var sent []common.Hash
	for i := range int64(rounds) { // each waits for its receipt, so that blocks follow each other
		data, err := contract.ABI.Pack("store", big.NewInt(firstValue+i), "by ethclient")
		require.NoError(t, err)
		sent = append(sent, s.send(t, &deployed.ContractAddress, 0, data).TxHash)
	}
	final := finalReceipts(t, n, x, ws, sent)
	last := final[rounds-1]
	recomputed(t, ws, last.BlockNumber.Uint64(), final, fees)
	subscribedHeads(t, heads, hs, last)
	subscribedLogs(t, logs, ls, final)
	found, err := ws.FilterLogs(t.Context(), ethereum.FilterQuery{FromBlock: big.NewInt(0), ToBlock: last.BlockNumber, Addresses: filter.Addresses, Topics: filter.Topics})
	require.NoError(t, err)
	require.Len(t, found, rounds)
	tags(t, ws, last)
}

// firstValue is what goClient's first call stores.
const firstValue = 100

// finalReceipts waits until all the transactions are in final blocks of a node, whose client it is given.
func finalReceipts(t *testing.T, n *Network, x *Node, c *ethclient.Client, txs []common.Hash) []*types.Receipt {
	t.Helper()
	out := make([]*types.Receipt, len(txs))
	for i, h := range txs {
		until(t, n, x.Index, "a final receipt", func(s Status) bool {
			r, err := c.TransactionReceipt(t.Context(), h) // asked for after the status: what is final stays
			out[i] = r
			return err == nil && r.BlockNumber.Uint64() <= s.Final
		})
		require.Equal(t, types.ReceiptStatusSuccessful, out[i].Status)
	}
	return out
}

// recomputed reads the blocks up to a height and computes hashes and roots again from what they hold.
func recomputed(t *testing.T, c *ethclient.Client, last uint64, of []*types.Receipt, fees genesis.Fees) {
	t.Helper()
	with := make(map[uint64]common.Hash)
	for _, r := range of {
		with[r.BlockNumber.Uint64()] = r.BlockHash
	}
	var parent common.Hash
	for h := uint64(0); h <= last; h++ {
		number := hexutil.EncodeUint64(h)
		var reported struct {
			Hash   common.Hash    `json:"hash"`
			Number hexutil.Uint64 `json:"number"`
		}
		require.NoError(t, c.Client().CallContext(t.Context(), &reported, "eth_getBlockByNumber", number, false))
		b, err := c.BlockByNumber(t.Context(), new(big.Int).SetUint64(h))
		require.NoError(t, err)
		header := b.Header() // its hash is computed here
		require.Equal(t, reported.Hash, header.Hash(), "block %d", h)
		require.Equal(t, parent, header.ParentHash, "block %d", h)
		parent = reported.Hash
		if h > 0 {
			require.Len(t, header.Extra, common.HashLength, "block %d", h)
		}
		if fees.Mode == genesis.FeesFixed {
			require.Zero(t, header.BaseFee.Sign(), "block %d", h)
		} else {
			require.GreaterOrEqual(t, header.BaseFee.Uint64(), fees.BaseFee, "block %d", h)
		}
		require.Equal(t, header.TxHash, types.DeriveSha(b.Transactions(), trie.NewListHasher()), "transactions of block %d", h)
		receipts, err := c.BlockReceipts(t.Context(), rpc.BlockNumberOrHashWithHash(reported.Hash, false))
		require.NoError(t, err)
		require.Len(t, receipts, len(b.Transactions()), "block %d", h)
		require.Equal(t, header.ReceiptHash, types.DeriveSha(types.Receipts(receipts), trie.NewListHasher()), "receipts of block %d", h)
		require.Equal(t, header.Bloom, types.MergeBloom(receipts), "bloom of block %d", h)
		if want, ok := with[h]; ok {
			require.Equal(t, want, reported.Hash, "block %d", h)
			require.NotEmpty(t, receipts)
		}
	}
}

// subscribedHeads checks that heads came up to the receipt's block, without a gap and as the chain holds them.
func subscribedHeads(t *testing.T, heads <-chan *types.Header, sub ethereum.Subscription, last *types.Receipt) {
	t.Helper()
	byHash := make(map[common.Hash]*types.Header)
	deadline := time.After(patience)
	for byHash[last.BlockHash] == nil {
		select {
		case h := <-heads:
			byHash[h.Hash()] = h
		case err := <-sub.Err():
			require.NoError(t, err)
			require.Fail(t, "the subscription to heads ended")
		case <-deadline:
			require.Fail(t, "heads", "%s did not come, %d others did", last.BlockHash, len(byHash))
		}
	}
	chain := 0
	for h := byHash[last.BlockHash]; h != nil; h = byHash[h.ParentHash] {
		chain++
	}
	least := last.BlockNumber.Uint64()
	for _, h := range byHash {
		least = min(least, h.Number.Uint64())
	}
	require.EqualValues(t, last.BlockNumber.Uint64()-least+1, chain, "heads that follow each other")
}

// subscribedLogs checks that every event came, once more than it was taken back.
func subscribedLogs(t *testing.T, logs <-chan types.Log, sub ethereum.Subscription, final []*types.Receipt) {
	t.Helper()
	standing := make(map[common.Hash]int) // by block and transaction
	key := func(block, tx common.Hash) common.Hash { return crypto.Keccak256Hash(block[:], tx[:]) }
	all := func() bool {
		for _, r := range final {
			if standing[key(r.BlockHash, r.TxHash)] != 1 {
				return false
			}
		}
		return true
	}
	deadline := time.After(patience)
	for !all() {
		select {
		case l := <-logs:
			d := 1
			if l.Removed {
				d = -1
			}
			standing[key(l.BlockHash, l.TxHash)] += d
		case err := <-sub.Err():
			require.NoError(t, err)
			require.Fail(t, "the subscription to logs ended")
		case <-deadline:
			require.Fail(t, "logs", "wanted %d, have %v", len(final), standing)
		}
	}
	sum := 0
	for _, n := range standing {
		require.GreaterOrEqual(t, n, 0)
		sum += n
	}
	require.Equal(t, len(final), sum, "events of abandoned blocks are taken back")
	for i, r := range final {
		require.Len(t, r.Logs, 1)
		require.Equal(t, common.BigToHash(big.NewInt(firstValue+int64(i))), r.Logs[0].Topics[2])
	}
}

// tags checks that the tags safe and finalized name blocks of the chain, in order.
func tags(t *testing.T, c *ethclient.Client, last *types.Receipt) {
	t.Helper()
	at := func(n rpc.BlockNumber) *types.Header {
		h, err := c.HeaderByNumber(t.Context(), big.NewInt(int64(n)))
		require.NoError(t, err)
		return h
	}
	final := at(rpc.FinalizedBlockNumber) // each moves on, so the order of asking matters
	safe := at(rpc.SafeBlockNumber)
	head := at(rpc.LatestBlockNumber)
	require.GreaterOrEqual(t, final.Number.Uint64(), last.BlockNumber.Uint64())
	require.GreaterOrEqual(t, safe.Number.Uint64(), final.Number.Uint64())
	require.GreaterOrEqual(t, head.Number.Uint64(), safe.Number.Uint64())
	same, err := c.HeaderByNumber(t.Context(), final.Number)
	require.NoError(t, err)
	require.Equal(t, final.Hash(), same.Hash())
}
