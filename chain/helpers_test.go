package chain

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/genesis"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"
)

func long() bool { return os.Getenv("BORNODE_LONG") == "1" }

// testGenesis is a small chain of four producers. Accounts are derived from their index.
type testGenesis struct {
	params   block.Parameters
	schedule block.Schedule
	alloc    types.GenesisAlloc
	config   *params.ChainConfig
	block    *block.Block
	upgrades []genesis.Upgrade
}

func (g *testGenesis) Parameters() block.Parameters     { return g.params }
func (g *testGenesis) Schedule() block.Schedule         { return g.schedule }
func (g *testGenesis) ChainConfig() *params.ChainConfig { return g.config }
func (g *testGenesis) Alloc() types.GenesisAlloc        { return g.alloc }
func (g *testGenesis) Block() (*block.Block, error)     { return g.block, nil }
func (g *testGenesis) Upgrades() []genesis.Upgrade      { return g.upgrades }

func testKey(i int) *ecdsa.PrivateKey {
	k, err := crypto.ToECDSA(crypto.Keccak256(fmt.Appendf(nil, "chain test account %d", i)))
	if err != nil {
		panic(err)
	}
	return k
}

func testAccount(i int) common.Address { return crypto.PubkeyToAddress(testKey(i).PublicKey) }

func testProducer(i int) block.Producer {
	p := block.Producer{Account: testAccount(1000 + i)}
	p.Key[0], p.Key[1] = 0x80, byte(i)
	return p
}

const funded = 16 // accounts with money

func newTestGenesis(t testing.TB, change func(*testGenesis)) *testGenesis {
	zero := uint64(0)
	config := *params.AllDevChainProtocolChanges
	config.ChainID = big.NewInt(7777)
	config.OsakaTime, config.AmsterdamTime = &zero, nil
	config.BogotaTime, config.BPO1Time, config.BPO2Time = nil, nil, nil
	g := &testGenesis{
		config: &config,
		params: block.Parameters{
			ChainID: 7777, GenesisTime: 1_700_000_000, SlotMillis: 500, TurnSlots: 2, EpochBlocks: 1200, MaxReversible: 3600,
			MinProducers: 1, MaxBlockBytes: 4 << 20, GasLimit: 300_000_000, BaseFeeFixed: true,
		},
		alloc: types.GenesisAlloc{
			params.BeaconRootsAddress:        {Nonce: 1, Code: params.BeaconRootsCode, Balance: new(big.Int)},
			params.HistoryStorageAddress:     {Nonce: 1, Code: params.HistoryStorageCode, Balance: new(big.Int)},
			params.WithdrawalQueueAddress:    {Nonce: 1, Code: params.WithdrawalQueueCode, Balance: new(big.Int)},
			params.ConsolidationQueueAddress: {Nonce: 1, Code: params.ConsolidationQueueCode, Balance: new(big.Int)},
		},
	}
	for i := range 4 {
		g.schedule = append(g.schedule, testProducer(i))
	}
	for i := range funded {
		g.alloc[testAccount(i)] = types.Account{Balance: new(big.Int).Mul(big.NewInt(1000), big.NewInt(params.Ether))}
	}
	if change != nil {
		change(g)
	}
	rec := &block.Record{Version: block.RecordVersion, BodyDigest: common.Hash{1}}
	z2, z3, beacon, wd, req := uint64(0), uint64(0), common.Hash{}, types.EmptyWithdrawalsHash, types.EmptyRequestsHash
	h := &types.Header{
		UncleHash: types.EmptyUncleHash, Root: allocRoot(t, g.alloc), TxHash: types.EmptyTxsHash, ReceiptHash: types.EmptyReceiptsHash,
		Difficulty: new(big.Int), Number: new(big.Int), GasLimit: g.params.GasLimit, Time: g.params.GenesisTime, Extra: rec.Hash().Bytes(),
		BaseFee: new(big.Int).SetUint64(g.params.BaseFee), WithdrawalsHash: &wd, BlobGasUsed: &z2, ExcessBlobGas: &z3, ParentBeaconRoot: &beacon, RequestsHash: &req,
	}
	g.block = &block.Block{SealedHeader: &block.SealedHeader{Header: h, Record: rec}}
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

// memStore is a Store in memory.
type memStore struct {
	mu       sync.Mutex
	blocks   map[common.Hash]*block.Block
	order    []common.Hash // reversible, as put
	final    []*block.Block
	receipts map[common.Hash]types.Receipts
	txs      map[common.Hash]memPlace
	bad      map[uint64]error // heights whose blocks cannot be read
	unsynced int              // receipts put since SyncDerived
}

type memPlace struct {
	block         common.Hash
	height, index uint64
}

func newMemStore() *memStore {
	return &memStore{blocks: map[common.Hash]*block.Block{}, receipts: map[common.Hash]types.Receipts{}, txs: map[common.Hash]memPlace{}}
}

// copyOf decodes the block anew, as a store on disk would.
func copyOf(b *block.Block) *block.Block {
	x, err := block.DecodeBlock(b.Encode(), 0)
	if err != nil {
		panic(err)
	}
	return x
}

func (s *memStore) PutReversible(bs []*block.Block) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range bs {
		if s.blocks[b.Hash()] == nil {
			s.blocks[b.Hash()] = copyOf(b)
			s.order = append(s.order, b.Hash())
		}
	}
	return nil
}

func (s *memStore) Block(h common.Hash) (*block.Block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.blocks[h]; b != nil {
		return b, s.bad[b.Number()]
	}
	return nil, ErrNotFound
}

func (s *memStore) BlockByHeight(n uint64) (*block.Block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.bad[n]; err != nil {
		return nil, err
	}
	if n < uint64(len(s.final)) {
		return s.final[n], nil
	}
	return nil, ErrNotFound
}

func (s *memStore) HeaderByHeight(n uint64) (*block.SealedHeader, error) {
	b, err := s.BlockByHeight(n)
	if err != nil {
		return nil, err
	}
	return b.SealedHeader, nil
}

func (s *memStore) Header(h common.Hash) (*block.SealedHeader, error) {
	b, err := s.Block(h)
	if err != nil {
		return nil, err
	}
	return b.SealedHeader, nil
}

func (s *memStore) Reversible() ([]*block.Block, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*block.Block
	for _, h := range s.order {
		if b := s.blocks[h]; b != nil && b.Number() >= uint64(len(s.final)) {
			out = append(out, b)
		}
	}
	return out, nil
}

func (s *memStore) Finalize(f block.FinalUpdate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range f.Hashes {
		b := s.blocks[h]
		if b != nil && b.Number() < uint64(len(s.final)) && s.final[b.Number()].Hash() == h {
			continue // irreversible already
		}
		if b == nil || b.Number() != uint64(len(s.final)) {
			return fmt.Errorf("finalize %s: not the next block", h)
		}
		s.final = append(s.final, b)
	}
	for _, h := range f.Drop {
		delete(s.blocks, h)
	}
	return nil
}

func (s *memStore) AppendFinal(bs []*block.Block, f block.FinalUpdate) error {
	if err := s.PutReversible(bs); err != nil {
		return err
	}
	f.Hashes = nil
	for _, b := range bs {
		f.Hashes = append(f.Hashes, b.Hash())
	}
	return s.Finalize(f)
}

func (s *memStore) LIB() (uint64, common.Hash) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.final) == 0 {
		return 0, common.Hash{}
	}
	b := s.final[len(s.final)-1]
	return b.Number(), b.Hash()
}

func (s *memStore) SyncDerived() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsynced = 0
	return nil
}

func (s *memStore) ReceiptsLost(height uint64, _ common.Hash, cause error) error {
	if last, _ := s.LIB(); height > last {
		return cause
	}
	return block.ErrNoReceipts{Height: height, Cause: cause}
}

func (s *memStore) PutReceipts(h common.Hash, height uint64, rs types.Receipts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := make(types.Receipts, len(rs))
	for i, r := range rs { // what a consensus encoding keeps
		logs := make([]*types.Log, len(r.Logs))
		for j, l := range r.Logs {
			logs[j] = &types.Log{Address: l.Address, Topics: l.Topics, Data: l.Data}
		}
		kept[i] = &types.Receipt{Type: r.Type, Status: r.Status, CumulativeGasUsed: r.CumulativeGasUsed, Bloom: r.Bloom, Logs: logs}
		s.txs[r.TxHash] = memPlace{h, height, uint64(i)}
	}
	s.receipts[h] = kept
	s.unsynced++
	return nil
}

func (s *memStore) Receipts(h common.Hash) (types.Receipts, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, ok := s.receipts[h]; ok {
		return r, nil
	}
	return nil, ErrNotFound
}

func (s *memStore) Transaction(h common.Hash) (common.Hash, uint64, uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p, ok := s.txs[h]; ok {
		return p.block, p.height, p.index, nil
	}
	return common.Hash{}, 0, 0, ErrNotFound
}

func (s *memStore) FirstHeight() uint64 { return 0 }

// testNode is a chain with what a test needs to feed it.
type testNode struct {
	*Chain
	t     testing.TB
	gen   *testGenesis
	store *memStore
	cfg   Config
	nonce map[int]uint64
}

// The readers below are those of Chain, for tests in which no block is damaged.

func mustRead[T any](t testing.TB, x T, err error) T {
	t.Helper()
	require.NoError(t, err)
	return x
}

func (n *testNode) Sealed(h common.Hash) *block.SealedHeader {
	s, err := n.Chain.Sealed(h)
	return mustRead(n.t, s, err)
}

func (n *testNode) HeaderByNumber(height uint64) *types.Header {
	h, err := n.Chain.HeaderByNumber(height)
	return mustRead(n.t, h, err)
}

func (n *testNode) CanonicalHash(height uint64) common.Hash {
	h, err := n.Chain.CanonicalHash(height)
	return mustRead(n.t, h, err)
}

func (n *testNode) BlockByNumber(height uint64) *block.Block {
	b, err := n.Chain.BlockByNumber(height)
	return mustRead(n.t, b, err)
}

func (n *testNode) NextSchedule(h common.Hash) block.Schedule {
	s, err := n.Chain.NextSchedule(h)
	return mustRead(n.t, s, err)
}

func (n *testNode) Transaction(h common.Hash) (tx *types.Transaction, hash common.Hash, height, index uint64, ok bool) {
	x, err := n.Chain.Transaction(h)
	if mustRead(n.t, x, err) == nil {
		return nil, common.Hash{}, 0, 0, false
	}
	return x.Transaction, x.Block, x.Height, x.Index, true
}

func testConfig(dir string) Config {
	cfg := DefaultConfig()
	cfg.Dir = filepath.Join(dir, "state")
	cfg.DatabaseCacheMiB, cfg.TrieCacheMiB, cfg.StateCacheMiB, cfg.WriteBufferMiB, cfg.Handles = 16, 16, 16, 16, 32
	return cfg
}

func newTestNode(t testing.TB, gen *testGenesis) *testNode {
	n := &testNode{t: t, gen: gen, store: newMemStore(), cfg: testConfig(t.TempDir()), nonce: map[int]uint64{}}
	n.open()
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

func (n *testNode) open() {
	c, err := Open(context.Background(), n.cfg, n.gen, n.store, nil, nil)
	require.NoError(n.t, err)
	n.Chain = c
}

// tx makes account i's next transaction.
func (n *testNode) tx(i int, to *common.Address, value int64, data []byte, gas uint64) *types.Transaction {
	tx := types.MustSignNewTx(testKey(i), types.LatestSigner(n.gen.config), &types.DynamicFeeTx{
		ChainID: n.gen.config.ChainID, Nonce: n.nonce[i], To: to, Value: big.NewInt(value), Data: data, Gas: gas,
		GasFeeCap: big.NewInt(params.GWei), GasTipCap: new(big.Int),
	})
	n.nonce[i]++
	return tx
}

func (n *testNode) transfer(i, j int) *types.Transaction {
	to := testAccount(j)
	return n.tx(i, &to, 1, nil, 21_000)
}

// listSource is a TxSource over a list.
type listSource struct {
	txs     types.Transactions
	popped  []*types.Transaction
	shifted int
}

func (s *listSource) Next() *types.Transaction {
	if len(s.txs) == 0 {
		return nil
	}
	return s.txs[0]
}
func (s *listSource) Shift() { s.shifted++; s.txs = s.txs[1:] }
func (s *listSource) Pop()   { s.popped = append(s.popped, s.txs[0]); s.txs = s.txs[1:] }

// build makes, stores and adopts a block on the head; slots may be left empty before it.
func (n *testNode) build(skip uint64, txs ...*types.Transaction) *block.Block {
	n.t.Helper()
	b := n.buildOn(n.Head(), skip, txs...)
	res, err := n.SetHead(context.Background(), b.Hash())
	require.NoError(n.t, err)
	require.NoError(n.t, res.Reason)
	return b
}

// buildOn makes and stores a block on an executed parent.
func (n *testNode) buildOn(p *block.SealedHeader, skip uint64, txs ...*types.Transaction) *block.Block {
	n.t.Helper()
	slot := p.Slot() + 1 + skip
	built, err := n.Build(context.Background(), BuildRequest{
		Parent: p.Hash(), Slot: slot, Coinbase: n.gen.schedule.Owner(slot, n.gen.params.TurnSlots).Account, Txs: &listSource{txs: txs},
	})
	require.NoError(n.t, err)
	require.Len(n.t, built.Block.Transactions, len(txs))
	require.NoError(n.t, n.InsertBuilt(built, [65]byte{1}))
	return built.Block
}

// give makes another node check, store and adopt copies of the blocks.
func (n *testNode) give(bs ...*block.Block) {
	n.t.Helper()
	for _, b := range bs {
		x := copyOf(b)
		require.NoError(n.t, n.CheckBody(x, false))
		require.NoError(n.t, n.Add([]*block.Block{x}))
		res, err := n.SetHead(context.Background(), x.Hash())
		require.NoError(n.t, err)
		require.NoError(n.t, res.Reason)
	}
}

func (n *testNode) finalize(bs ...*block.Block) {
	n.t.Helper()
	require.NoError(n.t, n.Finalize(finalOf(bs)))
}

func finalOf(bs []*block.Block) block.FinalUpdate {
	var f block.FinalUpdate
	for _, b := range bs {
		f.Hashes = append(f.Hashes, b.Hash())
	}
	return f
}
