package txpool

import (
	"crypto/ecdsa"
	"maps"
	"math/big"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

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

	"github.com/bornode/bornode/block"
)

// fakeChain is a chain whose blocks only move nonces and balances, over a real state database in memory.
type fakeChain struct {
	t      *testing.T
	db     state.Database
	config *params.ChainConfig
	floor  atomic.Uint64
	priced atomic.Bool // the base fee follows the market

	mu      sync.Mutex
	head    *types.Header
	changes map[common.Hash]fakeChange
}

// fakeChange is what a block changed of its parent's accounts.
type fakeChange struct {
	parent   *types.Header
	accounts []common.Address
}

func newFakeChain(t *testing.T, rich ...common.Address) *fakeChain {
	cfg := *params.MergedTestChainConfig
	c := &fakeChain{t: t, config: &cfg, changes: make(map[common.Hash]fakeChange), db: state.NewDatabase(triedb.NewDatabase(rawdb.NewMemoryDatabase(), nil), nil)}
	c.head = &types.Header{Number: new(big.Int), Root: types.EmptyRootHash, Difficulty: new(big.Int), GasLimit: 300_000_000, BaseFee: new(big.Int), Time: 1}
	c.next(c.head, func(s *state.StateDB) {
		for _, a := range rich {
			s.SetBalance(a, uint256.NewInt(params.Ether), tracing.BalanceChangeUnspecified)
		}
	})
	return c
}

// next makes a block on parent the head.
func (c *fakeChain) next(parent *types.Header, change func(*state.StateDB)) *types.Header {
	s, err := state.New(parent.Root, c.db)
	require.NoError(c.t, err)
	change(s)
	root, update, err := s.CommitWithUpdate(c.config.Rules(common.Big1, true, 1), parent.Number.Uint64()+1)
	require.NoError(c.t, err)
	h := types.CopyHeader(parent)
	h.ParentHash, h.Number, h.Root, h.Time = parent.Hash(), new(big.Int).Add(parent.Number, common.Big1), root, parent.Time+1
	c.mu.Lock()
	c.changes[h.Hash()] = fakeChange{parent, slices.Collect(maps.Keys(update.AccountsOrigin))}
	c.mu.Unlock()
	c.set(h)
	return h
}

// ChangedAccounts knows all blocks that next made.
func (c *fakeChain) ChangedAccounts(from, to *types.Header) (changed []common.Address, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for from.Hash() != to.Hash() {
		higher := &to
		if from.Number.Cmp(to.Number) > 0 {
			higher = &from
		}
		x, ok := c.changes[(*higher).Hash()]
		if !ok {
			return nil, false
		}
		changed, *higher = append(changed, x.accounts...), x.parent
	}
	return changed, true
}

func (c *fakeChain) set(h *types.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head = h
}

func (c *fakeChain) Config() *params.ChainConfig { return c.config }

func (c *fakeChain) Params() block.Parameters {
	return block.Parameters{BaseFeeFixed: !c.priced.Load(), BaseFee: c.floor.Load()}
}

func (c *fakeChain) CurrentHeader() *types.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head
}

func (c *fakeChain) StateAt(h *types.Header) (*state.StateDB, error) { return state.New(h.Root, c.db) }

// include makes a block that holds the transactions.
func (c *fakeChain) include(parent *types.Header, txs ...*types.Transaction) *types.Header {
	signer := types.LatestSigner(c.config)
	return c.next(parent, func(s *state.StateDB) {
		for _, tx := range txs {
			from, err := types.Sender(signer, tx)
			require.NoError(c.t, err)
			s.SetNonce(from, tx.Nonce()+1, tracing.NonceChangeUnspecified)
		}
	})
}

type sender struct {
	key  *ecdsa.PrivateKey
	addr common.Address
}

func senders(t *testing.T, n int) ([]sender, []common.Address) {
	out, addrs := make([]sender, n), make([]common.Address, n)
	for i := range out {
		key, err := crypto.ToECDSA(crypto.Keccak256([]byte{byte(i), byte(i >> 8), 7}))
		require.NoError(t, err)
		out[i] = sender{key, crypto.PubkeyToAddress(key.PublicKey)}
		addrs[i] = out[i].addr
	}
	return out, addrs
}

// tx is a transfer of 1 wei with the given fees per gas.
func (s sender) tx(t *testing.T, c *fakeChain, nonce uint64, tip int64) *types.Transaction {
	return s.sized(t, c, nonce, tip, 0)
}

func (s sender) sized(t *testing.T, c *fakeChain, nonce uint64, tip int64, data int) *types.Transaction {
	tx, err := types.SignNewTx(s.key, types.LatestSigner(c.config), &types.DynamicFeeTx{
		ChainID: c.config.ChainID, Nonce: nonce, GasTipCap: big.NewInt(tip), GasFeeCap: big.NewInt(tip), Gas: 21_000 + uint64(data)*10,
		To: &common.Address{1}, Value: common.Big1, Data: make([]byte, data),
	})
	require.NoError(t, err)
	return tx
}

func open(t *testing.T, c *fakeChain, change func(*Config, *Deps)) *Pool {
	cfg, deps := DefaultConfig(), Deps{}
	if change != nil {
		change(&cfg, &deps)
	}
	p, err := New(cfg, c, deps)
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p
}

// settle waits until the pool stands at the chain's head and has put back what was abandoned.
func settle(t *testing.T, p *Pool) {
	p.HeadChanged()
	require.Eventually(t, func() bool {
		return p.view.Load().hash == p.chain.CurrentHeader().Hash()
	}, waitTime, pollTime)
	// The owner goroutine serves one thing at a time: once it answers, it has finished moving.
	r := &request{done: make(chan struct{})}
	p.requests <- r
	<-r.done
}
