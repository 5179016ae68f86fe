package chain

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/internal/leaks"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

var (
	_ Genesis = (*genesis.Genesis)(nil)
	_ Store   = (*blockstore.Store)(nil)
)

func TestCleanRestart(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	bs := n.branch(n.Head(), 200, 0, 50)
	n.finalize(bs[:190]...)
	root := n.Head().Header.Root
	for range 3 {
		require.NoError(t, n.Close())
		require.NoError(t, n.Close(), "a second Close does nothing")
		_, err := n.SetHead(context.Background(), bs[0].Hash())
		require.ErrorIs(t, err, ErrClosed)
		_, err = n.StateAt(bs[0].Header)
		require.ErrorIs(t, err, ErrClosed)
		n.open()
		require.Equal(t, bs[199].Hash(), n.Head().Hash(), "the reversible head survives")
		require.EqualValues(t, 190, n.Final().Number())
		require.True(t, n.HasState(root))
		require.True(t, n.HasState(bs[100].Header.Root), "the layers came back from the journal")
	}
	n.nonce = map[int]uint64{0: 200}
	n.build(0, n.transfer(0, 50))
}

func TestLostStateIsMadeAgain(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	bs := n.branch(n.Head(), 40, 0, 50)
	n.finalize(bs[:30]...)
	require.NoError(t, n.Close())
	require.NoError(t, os.RemoveAll(n.cfg.Dir))
	n.open()
	require.EqualValues(t, 30, n.Head().Number(), "without states the head is the last irreversible block")
	db, err := n.StateAt(n.CurrentHeader())
	require.NoError(t, err)
	require.EqualValues(t, 30, db.GetBalance(testAccount(50)).Uint64())
	res, err := n.SetHead(context.Background(), bs[39].Hash())
	require.NoError(t, err)
	require.Len(t, res.Executed, 10)

	// A state directory of another chain is noticed and replaced.
	other := newTestNode(t, newTestGenesis(t, func(g *testGenesis) { g.alloc[common.Address{9}] = types.Account{Balance: common.Big1} }))
	other.branch(other.Head(), 5, 0, 50)
	require.NoError(t, other.Close())
	require.NoError(t, n.Close())
	require.NoError(t, os.RemoveAll(n.cfg.Dir))
	require.NoError(t, os.Rename(other.cfg.Dir, n.cfg.Dir))
	n.open()
	require.EqualValues(t, 30, n.Head().Number())
	other.open()
}

// TestCloseDespiteADeafSubscriber: execution waits for a subscriber that does not drain; Close must not.
func TestCloseDespiteADeafSubscriber(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	n.SubscribeHead(make(chan HeadEvent))
	busy := make(chan struct{})
	go func() {
		defer close(busy)
		for range eventQueue + 3 {
			h := n.Head()
			b, err := n.Build(context.Background(), BuildRequest{Parent: h.Hash(), Slot: h.Slot() + 1})
			if err != nil {
				return
			}
			if n.InsertBuilt(b, [65]byte{}) != nil {
				return
			}
			if _, err := n.SetHead(context.Background(), b.Block.Hash()); err != nil {
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return len(n.events) == eventQueue }, 60*time.Second, 10*time.Millisecond)
	require.NoError(t, n.Close())
	<-busy
}

func TestForeignStoreIsRefused(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	gen := newTestGenesis(t, func(g *testGenesis) { g.params.GenesisTime++ })
	cfg := testConfig(t.TempDir())
	_, err := Open(context.Background(), cfg, gen, n.store, nil, nil)
	require.ErrorContains(t, err, "belongs to another chain")
	cfg.Dir = ""
	_, err = Open(context.Background(), cfg, gen, n.store, nil, nil)
	require.ErrorContains(t, err, "dir is empty")
}

func TestCloseEndsEverything(t *testing.T) {
	defer leaks.None(t, goleak.IgnoreCurrent())
	gen := newTestGenesis(t, nil)
	n := &testNode{t: t, gen: gen, store: newMemStore(), cfg: testConfig(t.TempDir()), nonce: map[int]uint64{}}
	n.open()
	heads := make(chan HeadEvent, 8)
	sub := n.SubscribeHead(heads)
	n.build(0, n.transfer(0, 50))
	require.EqualValues(t, 1, (<-heads).Block.Number())
	require.NoError(t, n.Close())
	require.NoError(t, <-sub.Err(), "closed")
	n.SetSafe(n.Head().Hash())
}

// TestReadersWhileSwitching reads everything from other goroutines while the head goes back and forth.
func TestReadersWhileSwitching(t *testing.T) {
	gen := newTestGenesis(t, nil)
	n := newTestNode(t, gen)
	base := n.branch(n.Head(), 3, 0, 50)
	left := n.branch(base[2].SealedHeader, 4, 0, 51)
	right := n.branch(base[2].SealedHeader, 5, 1, 52)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				h := n.CurrentHeader()
				if db, err := n.StateAt(h); err == nil {
					_ = db.GetBalance(testAccount(50))
				}
				_, _ = n.Receipts(h.Hash())
				_, _, _, _, ok := n.Transaction(base[1].Transactions[0].Hash())
				if !ok {
					t.Error("a transaction below the fork is always found")
					return
				}
				core.GetHashFn(h, n.Context())(1)
				_, _, _ = n.BlockByNumber(4), n.SafeHeader(), n.FinalHeader()
			}
		})
	}
	for range 20 {
		for _, x := range [][]*block.Block{left, right} {
			res, err := n.SetHead(context.Background(), x[len(x)-1].Hash())
			require.NoError(t, err)
			require.NoError(t, res.Reason)
			n.SetSafe(x[0].Hash())
		}
	}
	close(stop)
	wg.Wait()
	require.Equal(t, right[0].Hash(), n.Safe().Hash())
	n.finalize(base...)
	require.Equal(t, right[0].Hash(), n.Safe().Hash())
	require.Equal(t, base[0].Hash(), core.GetHashFn(n.CurrentHeader(), n.Context())(1))
	author, err := n.Context().Engine().Author(right[1].Header)
	require.NoError(t, err)
	require.Equal(t, right[1].Header.Coinbase, author)
}

func TestFinalizeExecutesWhatIsMissing(t *testing.T) {
	gen := newTestGenesis(t, nil)
	maker, n := newTestNode(t, gen), newTestNode(t, gen)
	bs := maker.branch(maker.Head(), 3, 0, 50)
	finals := make(chan FinalEvent, 4)
	n.SubscribeFinal(finals)
	for _, b := range bs {
		x := copyOf(b)
		require.NoError(t, n.CheckBody(x, true))
		require.NoError(t, n.Add([]*block.Block{x}))
	}
	n.finalize(bs[:2]...)
	require.EqualValues(t, 2, n.Head().Number())
	require.EqualValues(t, 2, (<-finals).Final.Number.Uint64())
	require.Zero(t, n.SenderRecoveries())
	from, err := types.Sender(types.LatestSigner(gen.config), n.BlockByNumber(1).Transactions[0])
	require.NoError(t, err)
	require.Equal(t, testAccount(0), from, "trusted senders serve everyone")
	require.ErrorIs(t, n.Finalize(block.FinalUpdate{Hashes: []common.Hash{{1}}}), ErrUnknownBlock)
	require.NoError(t, n.Finalize(block.FinalUpdate{}), "an update of nothing")
}

func TestBodyCacheIsBounded(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	c := newBodyCache(10_000)
	var last *block.Block
	for range 20 {
		last = n.build(0)
		c.put(last)
		c.put(last)
	}
	require.LessOrEqual(t, c.size, c.limit)
	require.Less(t, c.order.Len(), 20)
	require.Same(t, last, c.get(last.Hash()))
	require.Len(t, c.byID, c.order.Len())
}

func TestConfigValidate(t *testing.T) {
	cfg := DefaultConfig()
	require.NoError(t, cfg.Validate())
	for name, change := range map[string]func(*Config){
		"write_buffer_mib": func(c *Config) { c.WriteBufferMiB = 257 },
		"flush_blocks":     func(c *Config) { c.FlushBlocks = 1 },
		"flush_gas":        func(c *Config) { c.FlushGas = 0 },
		"flush_interval":   func(c *Config) { c.FlushInterval = time.Millisecond },
		"sender_workers":   func(c *Config) { c.SenderWorkers = -1 },
	} {
		x := DefaultConfig()
		change(&x)
		require.ErrorContains(t, x.Validate(), name)
	}
	require.EqualValues(t, 90_000, cfg.history(3600))
	require.EqualValues(t, 100_000, cfg.history(50_000))
	cfg.StateHistory = 0
	require.Zero(t, cfg.history(3600))
}

// Before the state of blocks is on disk their receipts are durable: such blocks are not executed again.
func TestReceiptsAreDurableBeforeTheState(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	require.NoError(t, n.Close())
	n.cfg.FlushBlocks = layersKept
	n.open()
	flushed, late := 0, 0
	disarm := failpoint.Arm("chain/flush-before", 1, func() {
		n.store.mu.Lock()
		defer n.store.mu.Unlock()
		flushed, late = len(n.store.receipts), n.store.unsynced
	})
	defer disarm()
	n.branch(n.Head(), 3*layersKept, 0, 50)
	require.Greater(t, flushed, layersKept/2, "receipts were put before")
	require.Zero(t, late)
}

// A state database that lost the root of its newest state, or that state's number, is neither new nor whole.
func TestHalfAnIdentityIsDamage(t *testing.T) {
	const node = stateRootKey + "\x01"
	for name, c := range map[string]struct {
		keys  []string
		error string
	}{
		"new":                       {nil, ""},
		"whole":                     {[]string{stateIDKey, stateRootKey, node}, ""},
		"without the root":          {[]string{stateIDKey, node}, "only one of"},
		"without the number":        {[]string{stateRootKey, node}, "only one of"},
		"without both, with a node": {[]string{node}, "neither"},
	} {
		db := rawdb.NewMemoryDatabase()
		for _, key := range c.keys {
			require.NoError(t, db.Put([]byte(key), []byte{1}))
		}
		if err := checkReadable(db); c.error == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.error, name)
		}
	}
}

// Who may connect at LIB is known when a start has ended, whatever the branch above pushes out of the state layers.
func TestMembersAreReadByTheStart(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, withMembers))
	bs := n.branch(n.Head(), layersKept+20, 0, 50)
	n.finalize(bs[:2]...)
	n.reopen()
	require.NotNil(t, n.Chain.members.Load())
}

// The state is written when the time since it was written last is over, however few blocks there were.
func TestStateIsWrittenByTime(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	written := func(id uint64) {
		t.Helper()
		require.Eventually(t, func() bool { return n.Chain.states.persistentID() == id }, time.Minute, time.Millisecond, "pathdb writes in the background")
	}
	n.branch(n.Head(), 5, 0, 50)
	written(1) // genesis
	require.Zero(t, n.StateFlushes())
	n.Chain.cfg.FlushInterval = DefaultConfig().FlushInterval
	n.Chain.sinceFlush = flushed{id: 1, blocks: n.Chain.sinceFlush.blocks, at: time.Now().Add(-n.Chain.cfg.FlushInterval)}
	n.branch(n.Head(), 1, 0, 50)
	written(1 + 5) // with the head that was there
	n.branch(n.Head(), 3, 0, 50)
	require.EqualValues(t, 1, n.StateFlushes(), "the time began again")

	s, now := flushed{blocks: 1, at: time.Now()}, time.Now().Add(time.Hour)
	require.True(t, s.isDue(&Config{FlushBlocks: 1 << 20, FlushGas: 1 << 40, FlushInterval: time.Minute}, now))
	require.False(t, s.isDue(&Config{FlushBlocks: 1 << 20, FlushGas: 1 << 40}, now), "0 is never")
	s.blocks = 0
	require.False(t, s.isDue(&Config{FlushBlocks: 1 << 20, FlushGas: 1 << 40, FlushInterval: time.Minute}, now), "nothing to write")
}
