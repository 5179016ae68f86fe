package rpc

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/event"
	"github.com/ethereum/go-ethereum/params"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/txpool"
)

const (
	waitTime = 60 * time.Second
	pollTime = 5 * time.Millisecond
	chainID  = 7777
)

// testGenesis is a small chain with a constant base fee.
type testGenesis struct {
	params   block.Parameters
	config   *params.ChainConfig
	alloc    types.GenesisAlloc
	schedule block.Schedule
	block    *block.Block
	upgrades []genesis.Upgrade
}

func (g *testGenesis) Parameters() block.Parameters     { return g.params }
func (g *testGenesis) Schedule() block.Schedule         { return g.schedule }
func (g *testGenesis) ChainConfig() *params.ChainConfig { return g.config }
func (g *testGenesis) Alloc() types.GenesisAlloc        { return g.alloc }
func (g *testGenesis) Block() (*block.Block, error)     { return g.block, nil }
func (g *testGenesis) Upgrades() []genesis.Upgrade      { return g.upgrades }

func newGenesis(t testing.TB, baseFee uint64) *testGenesis {
	return newGenesisWith(t, baseFee, func(*testGenesis) {})
}

func newGenesisWith(t testing.TB, baseFee uint64, change func(*testGenesis)) *testGenesis {
	zero := uint64(0)
	config := *params.AllDevChainProtocolChanges
	config.ChainID = big.NewInt(chainID)
	config.OsakaTime, config.AmsterdamTime, config.BogotaTime, config.BPO1Time, config.BPO2Time = &zero, nil, nil, nil, nil
	g := &testGenesis{
		config: &config,
		params: block.Parameters{
			ChainID: chainID, GenesisTime: 1_700_000_000, SlotMillis: 500, TurnSlots: 2, EpochBlocks: 1200, MaxReversible: 3600,
			MinProducers: 1, MaxBlockBytes: 4 << 20, GasLimit: 300_000_000, BaseFeeFixed: true, BaseFee: baseFee,
		},
		alloc: types.GenesisAlloc{
			params.BeaconRootsAddress:        {Nonce: 1, Code: params.BeaconRootsCode, Balance: new(big.Int)},
			params.HistoryStorageAddress:     {Nonce: 1, Code: params.HistoryStorageCode, Balance: new(big.Int)},
			params.WithdrawalQueueAddress:    {Nonce: 1, Code: params.WithdrawalQueueCode, Balance: new(big.Int)},
			params.ConsolidationQueueAddress: {Nonce: 1, Code: params.ConsolidationQueueCode, Balance: new(big.Int)},
		},
	}
	for i := range 4 {
		g.schedule = append(g.schedule, block.Producer{Account: account(1000 + i), Key: block.BLSKey{0x80, byte(i)}})
	}
	for i := range 8 {
		g.alloc[account(i)] = types.Account{Balance: new(big.Int).Mul(big.NewInt(1000), big.NewInt(params.Ether))}
	}
	change(g)
	rec := &block.Record{Version: block.RecordVersion, BodyDigest: common.Hash{1}}
	used, excess, beacon, wd, req := uint64(0), uint64(0), common.Hash{}, types.EmptyWithdrawalsHash, types.EmptyRequestsHash
	g.block = &block.Block{SealedHeader: &block.SealedHeader{Record: rec, Header: &types.Header{
		UncleHash: types.EmptyUncleHash, Root: allocRoot(t, g.alloc), TxHash: types.EmptyTxsHash, ReceiptHash: types.EmptyReceiptsHash,
		Difficulty: new(big.Int), Number: new(big.Int), GasLimit: g.params.GasLimit, Time: g.params.GenesisTime, Extra: rec.Hash().Bytes(),
		BaseFee: new(big.Int).SetUint64(baseFee), WithdrawalsHash: &wd, BlobGasUsed: &used, ExcessBlobGas: &excess, ParentBeaconRoot: &beacon, RequestsHash: &req,
	}}}
	return g
}

func allocRoot(t testing.TB, alloc types.GenesisAlloc) common.Hash {
	db, err := state.New(types.EmptyRootHash, state.NewDatabase(triedb.NewDatabase(rawdb.NewMemoryDatabase(), nil), nil))
	require.NoError(t, err)
	for a, x := range alloc {
		db.AddBalance(a, uint256.MustFromBig(x.Balance), tracing.BalanceIncreaseGenesisBalance)
		db.SetCode(a, x.Code, tracing.CodeChangeGenesis)
		db.SetNonce(a, x.Nonce, tracing.NonceChangeGenesis)
		for k, v := range x.Storage {
			db.SetState(a, k, v)
		}
	}
	root, err := db.Commit(params.Rules{}, 0)
	require.NoError(t, err)
	return root
}

func key(i int) *ecdsa.PrivateKey {
	k, err := crypto.ToECDSA(crypto.Keccak256([]byte("rpc test account"), []byte{byte(i), byte(i >> 8)}))
	if err != nil {
		panic(err)
	}
	return k
}

func account(i int) common.Address { return crypto.PubkeyToAddress(key(i).PublicKey) }

// testNet is a chain, a pool and a server, wired as a node wires them. Blocks are made by the test.
type testNet struct {
	t     testing.TB
	gen   *testGenesis
	chain testChain

	watched chan struct{} // the server has subscribed to the chain's events
	pool    *txpool.Pool
	srv     *Server
	rpc     *gethrpc.Client // WebSocket
	eth     *ethclient.Client
	extra   extras
	abi     abi.ABI
	code    []byte
}

// testChain is a chain in which no block is damaged.
type testChain struct {
	*chain.Chain
	t testing.TB
}

func readable[T any](t testing.TB, x T, err error) T {
	t.Helper()
	require.NoError(t, err)
	return x
}

func (c testChain) Sealed(h common.Hash) *block.SealedHeader {
	s, err := c.Chain.Sealed(h)
	return readable(c.t, s, err)
}

func (c testChain) HeaderByNumber(n uint64) *types.Header {
	h, err := c.Chain.HeaderByNumber(n)
	return readable(c.t, h, err)
}

func (c testChain) CanonicalHash(n uint64) common.Hash {
	h, err := c.Chain.CanonicalHash(n)
	return readable(c.t, h, err)
}

func (c testChain) BlockByNumber(n uint64) *block.Block {
	b, err := c.Chain.BlockByNumber(n)
	return readable(c.t, b, err)
}

// extras answers for the parts of a node that are no part of these tests.
type extras struct {
	mu      sync.Mutex
	syncing SyncStatus
	stalled bool
	signer  *SignerStatus
	silence string
	sched   block.Schedule
	peers   []PeerInfo
	added   []string
}

func (e *extras) Schedule() (block.Schedule, error) { return e.sched, nil }
func (e *extras) Stalled() bool                     { return e.stalled }
func (e *extras) Silence() string                   { return e.silence }
func (e *extras) Alarms() []Alarm {
	return []Alarm{{Kind: "fork", Since: 7, Text: "two histories", File: "fork-x.evidence"}}
}
func (e *extras) Signer() *SignerStatus { return e.signer }

func (e *extras) AcceptAnswers(context.Context) (*SignerStatus, error) {
	return nil, errors.New("nothing to accept")
}
func (e *extras) SyncStatus() SyncStatus { e.mu.Lock(); defer e.mu.Unlock(); return e.syncing }
func (e *extras) ID() string             { return "12D3KooWself" }
func (e *extras) Listening() bool        { return true }
func (e *extras) Peers() []PeerInfo      { return e.peers }
func (e *extras) AddPeer(_ context.Context, a string) error {
	e.added = append(e.added, a)
	return nil
}
func (e *extras) RemovePeer(context.Context, string) error { return nil }
func (e *extras) BackupCut() (any, error)                  { return nil, nil }

func newNet(t testing.TB, baseFee uint64, change func(*Config)) *testNet {
	return newNetOn(t, newGenesis(t, baseFee), change)
}

func newNetOn(t testing.TB, gen *testGenesis, change func(*Config)) *testNet {
	n := &testNet{t: t, gen: gen, watched: make(chan struct{}, 1)}
	n.extra.sched = n.gen.schedule
	n.extra.peers = []PeerInfo{{ID: "12D3KooWother", Provider: "shm"}}
	dir, err := os.MkdirTemp("", "bor") // short: a socket's path is bounded
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	sc := blockstore.DefaultConfig()
	sc.Dir = filepath.Join(dir, "blocks")
	store, err := blockstore.Open(sc, nil, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	cc := chain.DefaultConfig()
	cc.Dir = filepath.Join(dir, "state")
	cc.DatabaseCacheMiB, cc.TrieCacheMiB, cc.StateCacheMiB, cc.WriteBufferMiB, cc.Handles = 16, 16, 16, 16, 32
	opened, err := chain.Open(context.Background(), cc, n.gen, store, nil, nil)
	require.NoError(t, err)
	n.chain = testChain{opened, t}
	t.Cleanup(func() { require.NoError(t, n.chain.Close()) })
	n.pool, err = txpool.New(txpool.DefaultConfig(), n.chain, txpool.Deps{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.pool.Close()) })

	cfg := DefaultConfig()
	cfg.HTTPAddr, cfg.IPCPath = "127.0.0.1:0", filepath.Join(dir, "ipc")
	cfg.Namespaces = append(cfg.Namespaces, "debug")
	cfg.CallTimeout = waitTime
	if change != nil {
		change(&cfg)
	}
	n.srv, err = New(cfg, Backend{
		Chain: watchedChain{n.chain.Chain, n.watched}, Pool: n.pool, Consensus: &n.extra, Sync: &n.extra, Network: &n.extra, Admin: &n.extra, Version: "bornode/v0",
	}, nil, nil)
	require.NoError(t, err)
	n.wire()
	t.Cleanup(func() { require.NoError(t, n.srv.Close()) })
	n.rpc, err = gethrpc.Dial(n.srv.WSURL())
	require.NoError(t, err)
	t.Cleanup(n.rpc.Close)
	n.eth = ethclient.NewClient(n.rpc)

	b, err := os.ReadFile("testdata/Sample.json")
	require.NoError(t, err)
	var sample struct {
		ABI      json.RawMessage
		Bytecode string
	}
	require.NoError(t, json.Unmarshal(b, &sample))
	n.abi, err = abi.JSON(bytes.NewReader(sample.ABI))
	require.NoError(t, err)
	n.code = common.FromHex(sample.Bytecode)
	return n
}

// wire does what node does: events to the server, head changes and abandoned transactions to the pool.
func (n *testNet) wire() {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	heads, reorgs := make(chan chain.HeadEvent), make(chan chain.ReorgEvent)
	hs, rs := n.chain.SubscribeHead(heads), n.chain.SubscribeReorg(reorgs)
	wg.Add(2)
	go func() { defer wg.Done(); _ = n.srv.Run(ctx) }()
	<-n.watched // what is mined from now on is published
	go func() {
		defer wg.Done()
		for {
			select {
			case <-heads:
				n.pool.HeadChanged()
			case r := <-reorgs:
				for _, b := range r.Removed {
					n.pool.Abandoned(b.Transactions)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	n.t.Cleanup(func() { cancel(); hs.Unsubscribe(); rs.Unsubscribe(); wg.Wait() })
}

// mine makes a block of what the pool has and adopts it.
func (n *testNet) mine() *block.Block {
	n.t.Helper()
	h := n.chain.CurrentHeader()
	b := n.build(n.chain.Sealed(h.Hash()), 1, n.pool.Source(h.BaseFee))
	n.adopt(b)
	return b
}

// build makes a block on an executed parent, skip slots above it.
func (n *testNet) build(p *block.SealedHeader, skip uint64, src chain.TxSource) *block.Block {
	n.t.Helper()
	slot := p.Slot() + skip
	built, err := n.chain.Build(context.Background(), chain.BuildRequest{
		Parent: p.Hash(), Slot: slot, Coinbase: n.gen.schedule.Owner(slot, n.gen.params.TurnSlots).Account, Txs: src, Budget: waitTime,
	})
	require.NoError(n.t, err)
	require.NoError(n.t, n.chain.InsertBuilt(built, [65]byte{1}))
	return built.Block
}

func (n *testNet) adopt(b *block.Block) {
	n.t.Helper()
	res, err := n.chain.SetHead(context.Background(), b.Hash())
	require.NoError(n.t, err)
	require.NoError(n.t, res.Reason)
	require.Eventually(n.t, func() bool { // the pool has moved
		for _, tx := range b.Transactions {
			if n.pool.Has(tx.Hash()) {
				return false
			}
		}
		return true
	}, waitTime, pollTime)
}

func (n *testNet) finalize(bs ...*block.Block) {
	n.t.Helper()
	var f block.FinalUpdate
	for _, b := range bs {
		f.Hashes = append(f.Hashes, b.Hash())
	}
	n.chain.SetSafe(f.Hashes[len(f.Hashes)-1])
	require.NoError(n.t, n.chain.Finalize(f))
}

// sign makes a transaction of account i at this nonce.
func (n *testNet) sign(i int, nonce uint64, to *common.Address, value int64, data []byte, gas uint64) *types.Transaction {
	return types.MustSignNewTx(key(i), types.LatestSigner(n.gen.config), &types.DynamicFeeTx{
		ChainID: n.gen.config.ChainID, Nonce: nonce, To: to, Value: big.NewInt(value), Data: data, Gas: gas,
		GasFeeCap: big.NewInt(params.GWei), GasTipCap: big.NewInt(1),
	})
}

// send submits account i's next transaction over JSON-RPC.
func (n *testNet) send(i int, to *common.Address, value int64, data []byte) *types.Transaction {
	n.t.Helper()
	nonce, err := n.eth.PendingNonceAt(context.Background(), account(i))
	require.NoError(n.t, err)
	tx := n.sign(i, nonce, to, value, data, 1_000_000)
	require.NoError(n.t, n.eth.SendTransaction(context.Background(), tx))
	return tx
}

// deploy puts the sample contract on the chain.
func (n *testNet) deploy() common.Address {
	n.t.Helper()
	args, err := n.abi.Pack("", big.NewInt(5))
	require.NoError(n.t, err)
	tx := n.send(0, nil, 0, append(bytes.Clone(n.code), args...))
	n.mine()
	r, err := n.eth.TransactionReceipt(context.Background(), tx.Hash())
	require.NoError(n.t, err)
	require.EqualValues(n.t, 1, r.Status)
	return r.ContractAddress
}

func (n *testNet) store(i int, to common.Address, v int64, note string) *types.Transaction {
	n.t.Helper()
	data, err := n.abi.Pack("store", big.NewInt(v), note)
	require.NoError(n.t, err)
	return n.send(i, &to, 0, data)
}

// list is a source over a fixed list.
type list []*types.Transaction

func (l *list) Next() *types.Transaction {
	if len(*l) == 0 {
		return nil
	}
	return (*l)[0]
}
func (l *list) Shift() { *l = (*l)[1:] }
func (l *list) Pop()   { *l = (*l)[1:] }

// raw calls over HTTP and returns the whole answer.
func (n *testNet) call(result any, method string, args ...any) error {
	return n.rpc.CallContext(context.Background(), result, method, args...)
}

// receive waits for the next value of a channel.
func receive[T any](t testing.TB, ch <-chan T, sub interface{ Err() <-chan error }) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case err := <-sub.Err():
		require.NoError(t, err, "the subscription ended")
	case <-time.After(waitTime):
		t.Fatal("nothing was received")
	}
	panic("unreachable")
}

// watchedChain tells when somebody has subscribed to both kinds of its events, as a server that runs does.
type watchedChain struct {
	*chain.Chain
	watched chan struct{}
}

func (c watchedChain) SubscribeReorg(to chan<- chain.ReorgEvent) event.Subscription {
	sub := c.Chain.SubscribeReorg(to)
	select {
	case c.watched <- struct{}{}:
	default:
	}
	return sub
}
