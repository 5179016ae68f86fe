package rpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/txpool"
)

// stored is a folder with a chain whose blocks are final, and what its methods answered while it was whole.
type stored struct {
	t       *testing.T
	dir     string
	gen     *testGenesis
	blocks  []*block.Block
	methods []question
}

// question is a call about final data and its right answer.
type question struct {
	method string
	args   []any
	want   string
}

func (q question) String() string {
	b, _ := json.Marshal(q.args)
	return q.method + string(b)
}

// opened is a store, a chain and a server over a folder, as a node opens them.
type opened struct {
	store *blockstore.Store
	chain *chain.Chain
	pool  *txpool.Pool
	srv   *Server
	rpc   *gethrpc.Client
}

// open opens the folder; an error is the store's or the chain's, who then name what is damaged.
func (s *stored) open(dir string) (*opened, error) { return s.openWith(dir, nil) }

// openWith opens the folder with readers that wait for repairs, if of gives an owner of them.
func (s *stored) openWith(dir string, of func(*blockstore.Store) Repairs) (*opened, error) {
	sc := blockstore.DefaultConfig()
	sc.Dir, sc.SegmentBytes, sc.RepairWait = filepath.Join(dir, "blocks"), 16<<10, waitTime
	store, err := blockstore.Open(sc, nil, nil)
	if err != nil {
		return nil, err
	}
	cc := chain.DefaultConfig()
	cc.Dir = filepath.Join(dir, "state")
	cc.DatabaseCacheMiB, cc.TrieCacheMiB, cc.StateCacheMiB, cc.WriteBufferMiB, cc.Handles = 16, 16, 16, 16, 32
	c, err := chain.Open(bg, cc, s.gen, store, nil, nil)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	pool, err := txpool.New(txpool.DefaultConfig(), c, txpool.Deps{})
	require.NoError(s.t, err)
	cfg := DefaultConfig()
	cfg.HTTPAddr, cfg.CallTimeout = "127.0.0.1:0", waitTime
	cfg.Namespaces = append(cfg.Namespaces, "debug")
	back := Backend{Chain: c, Pool: pool, Consensus: &extras{}, Sync: &extras{}, Network: &extras{}}
	if of != nil {
		back.Repairs = of(store)
	}
	srv, err := New(cfg, back, nil, nil)
	require.NoError(s.t, err)
	client, err := gethrpc.Dial(srv.WSURL())
	require.NoError(s.t, err)
	return &opened{store, c, pool, srv, client}, nil
}

func (o *opened) close(t *testing.T) {
	t.Helper()
	o.rpc.Close()
	require.NoError(t, o.srv.Close())
	require.NoError(t, o.pool.Close())
	require.NoError(t, o.chain.Close())
	require.NoError(t, o.store.Close())
}

// newStored makes the folder: blocks with transactions and logs, final but for the head.
func newStored(t *testing.T, count int) *stored {
	t.Helper()
	sample := newNet(t, 0, nil) // for the contract's code
	// Short epochs: a start reads the headers of the epoch under way, and refuses if one of them is damaged.
	code, gen := sample.code, newGenesisWith(t, 0, func(g *testGenesis) { g.params.EpochBlocks = 8 })
	s := &stored{t: t, dir: t.TempDir(), gen: gen, blocks: []*block.Block{gen.block}}
	o, err := s.open(s.dir)
	require.NoError(t, err)
	args, err := sample.abi.Pack("", common.Big1)
	require.NoError(t, err)
	maker := &testNet{t: t, gen: gen, chain: testChain{o.chain, t}, pool: o.pool, abi: sample.abi}
	var contract common.Address
	for i := range count {
		var txs list
		if i == 0 {
			tx := maker.sign(0, 0, nil, 0, append(slices.Clone(code), args...), 1_000_000)
			txs = list{tx}
		} else {
			data, err := sample.abi.Pack("store", common.Big1, fmt.Sprintf("value %d", i))
			require.NoError(t, err)
			for j := range 2 {
				txs = append(txs, maker.sign(1+j, uint64(i-1), &contract, 0, data, 1_000_000)) //nolint:gosec // small
			}
		}
		b := maker.build(maker.chain.Sealed(o.chain.CurrentHeader().Hash()), 1, &txs)
		res, err := o.chain.SetHead(bg, b.Hash())
		require.NoError(t, err)
		require.NoError(t, res.Reason)
		if i == 0 {
			rs, err := o.chain.Receipts(b.Hash())
			require.NoError(t, err)
			contract = rs[0].ContractAddress
		}
		s.blocks = append(s.blocks, b)
	}
	maker.finalize(s.blocks[1 : len(s.blocks)-1]...)
	for n, b := range s.blocks[:len(s.blocks)-1] {
		s.ask(n, b, contract)
	}
	s.answer(o)
	o.close(t)
	return s
}

// ask adds the questions about one block.
func (s *stored) ask(n int, b *block.Block, contract common.Address) {
	number, hash := hexutil.EncodeUint64(uint64(n)), b.Hash() //nolint:gosec // small
	add := func(method string, args ...any) {
		s.methods = append(s.methods, question{method: method, args: args})
	}
	for _, kind := range []struct {
		suffix string
		ref    any
	}{{"ByNumber", number}, {"ByHash", hash}} {
		add("eth_getBlock"+kind.suffix, kind.ref, true)
		add("eth_getHeader"+kind.suffix, kind.ref)
		add("eth_getBlockTransactionCount"+kind.suffix, kind.ref)
		add("debug_getRawBlock", kind.ref)
		add("debug_getRawHeader", kind.ref)
		add("debug_getRawReceipts", kind.ref)
		add("eth_getBlockReceipts", kind.ref)
		add("bor_getRecord", kind.ref)
		add("eth_getBalance", account(1), kind.ref)
		add("eth_getTransactionCount", account(1), kind.ref)
		add("eth_getCode", contract, kind.ref)
		add("eth_call", anyMap{"to": account(3), "from": account(1)}, kind.ref)
	}
	add("eth_getUncleCountByBlockNumber", number)
	add("eth_getUncleCountByBlockHash", hash)
	add("eth_getLogs", anyMap{"fromBlock": number, "toBlock": number})
	add("eth_getLogs", anyMap{"blockHash": hash})
	add("eth_feeHistory", "0x1", number, []float64{50})
	if n > 0 {
		add("bor_exportBlocks", number, "0x1")
		add("debug_traceBlockByNumber", number, anyMap{"tracer": "callTracer"})
	}
	for i, tx := range b.Transactions {
		index := hexutil.EncodeUint64(uint64(i)) //nolint:gosec // small
		add("eth_getTransactionByHash", tx.Hash())
		add("eth_getRawTransactionByHash", tx.Hash())
		add("eth_getTransactionReceipt", tx.Hash())
		add("eth_getTransactionByBlockNumberAndIndex", number, index)
		add("eth_getTransactionByBlockHashAndIndex", hash, index)
		add("eth_getRawTransactionByBlockNumberAndIndex", number, index)
		add("eth_getRawTransactionByBlockHashAndIndex", hash, index)
		add("debug_traceTransaction", tx.Hash(), anyMap{"tracer": "callTracer"})
	}
}

// answer notes the right answers.
func (s *stored) answer(o *opened) {
	s.methods = append(s.methods,
		question{method: "eth_getLogs", args: []any{anyMap{"fromBlock": "0x0", "toBlock": "latest"}}},
		question{method: "eth_feeHistory", args: []any{"0x400", "latest", []float64{50}}})
	for i := range s.methods {
		q := &s.methods[i]
		var raw json.RawMessage
		require.NoError(s.t, o.rpc.Call(&raw, q.method, q.args...), q)
		q.want = string(raw)
	}
}

// check asks everything: each answer is the right one or an error that says that something is damaged; it returns how
// many were errors.
func (s *stored) check(o *opened, what string) (refused int) {
	s.t.Helper()
	for _, q := range s.methods {
		var raw json.RawMessage
		err := o.rpc.Call(&raw, q.method, q.args...)
		if err == nil {
			require.Equal(s.t, q.want, string(raw), "%s: %s", what, q)
			continue
		}
		refused++
		var coded gethrpc.Error
		require.ErrorAs(s.t, err, &coded, "%s: %s", what, q)
		require.Equal(s.t, codeServer, coded.ErrorCode(), "%s: %s: %s", what, q, err)
		require.Regexp(s.t, `damaged|being rebuilt|restart the node`, err.Error(), "%s: %s", what, q)
	}
	return refused
}

// harm is one way to damage a folder.
type harm struct {
	name string
	do   func(rng *rand.Rand, blocks string) (what string)
}

func pick(t *testing.T, rng *rand.Rand, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	require.NoError(t, err)
	require.NotEmpty(t, names, pattern)
	return names[rng.IntN(len(names))]
}

func harms(t *testing.T) []harm {
	change := func(pattern string, f func(rng *rand.Rand, b []byte) []byte) func(*rand.Rand, string) string {
		return func(rng *rand.Rand, blocks string) string {
			name := pick(t, rng, filepath.Join(blocks, pattern))
			b, err := os.ReadFile(name)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(name, f(rng, b), 0o600))
			return filepath.Base(name)
		}
	}
	flip := func(rng *rand.Rand, b []byte) []byte {
		if len(b) > 0 {
			b[rng.IntN(len(b))] ^= 1 << rng.IntN(8)
		}
		return b
	}
	truncate := func(rng *rand.Rand, b []byte) []byte { return b[:rng.IntN(len(b)+1)] }
	remove := func(pattern string) func(*rand.Rand, string) string {
		return func(rng *rand.Rand, blocks string) string {
			name := pick(t, rng, filepath.Join(blocks, pattern))
			require.NoError(t, os.Remove(name))
			return filepath.Base(name)
		}
	}
	return []harm{
		{"flip in a segment", change("segments/*", flip)},
		{"truncated segment", change("segments/*", truncate)},
		{"lost segment", remove("segments/*")},
		{"flip in the height index", change("index/*", flip)},
		{"lost height index", remove("index/*")},
		{"flip in derived data", change("derived/[0M]*", flip)},
		{"lost derived data", func(_ *rand.Rand, blocks string) string {
			require.NoError(t, os.RemoveAll(filepath.Join(blocks, "derived")))
			return "derived"
		}},
	}
}

// Whatever is damaged, no method answers about final data with null, with a shorter list or with a wrong value; once
// every block that was found damaged is put back, all answers are right again.
func TestDamageIsNeverNull(t *testing.T) {
	s := newStored(t, 60)
	refused, refusedToOpen := map[string]int{}, 0
	rounds := 9
	if testing.Short() {
		rounds = 2
	}
	for i, h := range harms(t) {
		for round := range rounds {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(round))) //nolint:gosec // seeds
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(s.dir)))
			what := fmt.Sprintf("%s, round %d: %s", h.name, round, h.do(rng, filepath.Join(dir, "blocks")))
			o, err := s.open(dir)
			if err != nil { // where a start needs the block itself it says so
				require.Regexp(t, `damaged|LIB`, err.Error(), what)
				refusedToOpen++
				continue
			}
			refused[h.name] += s.check(o, what)
			s.repair(o)
			require.Zero(t, s.check(o, what+", repaired"), what)
			o.close(t)
		}
	}
	t.Logf("refused: %v; not opened: %d", refused, refusedToOpen)
	require.NotZero(t, refused["flip in a segment"])
	require.NotZero(t, refused["lost segment"])
}

// repair does what the synchronisation does, with the blocks at hand.
func (s *stored) repair(o *opened) {
	s.t.Helper()
	for range 10_000 {
		heights := o.store.Damaged()
		for _, n := range heights {
			if err := o.store.Replace(n, s.blocks[n]); err != nil {
				require.ErrorContains(s.t, err, "replace block")
			}
		}
		whole := true
		for n := range s.blocks[:len(s.blocks)-1] {
			_, err := o.store.BlockByHeight(uint64(n)) //nolint:gosec // small
			whole = whole && err == nil
		}
		if whole && len(o.store.Damaged()) == 0 {
			break
		}
	}
	require.Empty(s.t, o.store.Damaged())
	unknown := common.Hash{0xee}
	require.Eventually(s.t, func() bool { // the index of transactions is complete
		var raw json.RawMessage
		return o.rpc.Call(&raw, "eth_getTransactionByHash", unknown) == nil
	}, waitTime, pollTime)
}

// Where a damaged block can be fetched again, no method says anything of the damage: all answers are those of the whole
// folder, as long as somebody mends what readers note.
func TestReadersOfDamageAreAnsweredAfterTheRepair(t *testing.T) {
	s := newStored(t, 60)
	repaired := 0
	for i, h := range harms(t) {
		if strings.Contains(h.name, "derived") { // comes back by itself, not from a peer
			continue
		}
		for round := range 2 {
			rng := rand.New(rand.NewPCG(uint64(i), uint64(round))) //nolint:gosec // seeds
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, os.DirFS(s.dir)))
			what := fmt.Sprintf("%s, round %d: %s", h.name, round, h.do(rng, filepath.Join(dir, "blocks")))
			stop := make(chan struct{})
			var mender sync.WaitGroup
			o, err := s.openWith(dir, func(store *blockstore.Store) Repairs {
				mender.Go(func() { repaired += s.mend(store, stop) })
				return store
			})
			if err != nil {
				require.Regexp(t, `damaged|LIB`, err.Error(), what)
			} else {
				require.Zero(t, s.check(o, what), what)
			}
			close(stop)
			mender.Wait()
			if err == nil {
				o.close(t)
			}
		}
	}
	require.NotZero(t, repaired)
}

// mend is the synchronisation of a node with a sound peer: it replaces what is noted until stop is closed.
func (s *stored) mend(store *blockstore.Store, stop <-chan struct{}) (repaired int) {
	for {
		for again := true; again; {
			again = false
			for _, n := range store.Damaged() {
				if store.Replace(n, s.blocks[n]) == nil { // else a neighbour, noted by now, goes first
					repaired++
					again = true
				}
			}
		}
		select {
		case <-store.RepairsWanted():
		case <-stop:
			return repaired
		}
	}
}
