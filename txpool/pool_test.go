package txpool

import (
	"bytes"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	gethpool "github.com/ethereum/go-ethereum/core/txpool"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/holiman/uint256"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bornode/bornode/internal/leaks"
	senderscache "github.com/bornode/bornode/internal/senders"
)

const (
	waitTime = 60 * time.Second
	pollTime = 5 * time.Millisecond
)

func one(p *Pool, tx *types.Transaction) error { return p.Add([]*types.Transaction{tx}, true)[0] }

// The least fee follows the chain's parameters, which a vote may change, with the head.
func TestFloorFollowsTheHead(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	c.floor.Store(7)
	a, p := ss[0], open(t, c, nil)
	require.ErrorIs(t, one(p, a.tx(t, c, 0, 6)), errFeeBelowFloor)
	c.floor.Store(5)
	c.next(c.CurrentHeader(), func(*state.StateDB) {})
	settle(t, p)
	require.NoError(t, one(p, a.tx(t, c, 0, 6)))
	c.floor.Store(9)
	c.next(c.CurrentHeader(), func(*state.StateDB) {})
	settle(t, p)
	require.ErrorIs(t, one(p, a.tx(t, c, 1, 8)), errFeeBelowFloor)
	require.NoError(t, one(p, a.tx(t, c, 1, 9)))
	require.NoError(t, one(p, a.tx(t, c, 0, 9)), "what lies below the new fee can be replaced")
}

// A lower gas limit takes the executable transactions that fit no block any more out of the way of others.
func TestGasLimitFollowsTheHead(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	a, p := ss[0], open(t, c, nil)
	large := a.sized(t, c, 0, 1, 10_000)
	require.NoError(t, one(p, large))
	c.next(c.CurrentHeader(), func(*state.StateDB) {})
	low := types.CopyHeader(c.CurrentHeader())
	low.GasLimit = large.Gas() - 1
	c.set(low)
	settle(t, p)
	require.ErrorIs(t, one(p, a.sized(t, c, 1, 1, 10_000)), gethpool.ErrGasLimit)
	require.Empty(t, p.Pending())
}

func TestRefusals(t *testing.T) {
	ss, addrs := senders(t, 4)
	c := newFakeChain(t, addrs[0], addrs[1], addrs[3])
	c.floor.Store(7)
	a, b, poor := ss[0], ss[1], ss[2]
	p := open(t, c, func(cfg *Config, d *Deps) {
		cfg.AccountQueue = 4
		d.Allowed = func(from common.Address, create bool) error {
			if from == addrs[3] {
				return errors.New("account is not in the list of senders")
			}
			return nil
		}
	})
	require.NoError(t, one(p, a.tx(t, c, 0, 10)))
	require.NoError(t, one(p, a.tx(t, c, 1, 10)))
	foreign, err := types.SignNewTx(b.key, types.LatestSignerForChainID(big.NewInt(99)), &types.DynamicFeeTx{
		ChainID: big.NewInt(99), Gas: 21000, GasFeeCap: big.NewInt(10), To: &addrs[0]})
	require.NoError(t, err)
	blob := types.NewTx(&types.BlobTx{ChainID: uint256.MustFromBig(c.config.ChainID), BlobHashes: []common.Hash{{1}}})
	fat := ss[1].sized(t, c, 0, 10, MaxTransactionBytes)

	for _, x := range []struct {
		name string
		tx   *types.Transaction
		want error
		text string
	}{
		{"known", a.tx(t, c, 0, 10), ErrAlreadyKnown, "already known"},
		{"replacement too cheap", a.sized(t, c, 0, 10, 1), ErrUnderpriced, "replacement transaction underpriced"},
		{"poor", poor.tx(t, c, 0, 10), core.ErrInsufficientFunds, "insufficient funds"},
		{"nonce too far", a.tx(t, c, 7, 10), ErrNonceTooFar, "nonce too high: nonce 7 is 5 ahead"},
		{"below the fee floor", a.tx(t, c, 2, 6), errFeeBelowFloor, "max fee per gas less than block base fee: maxFeePerGas 6, the chain's lowest base fee is 7"},
		{"other chain", foreign, gethpool.ErrInvalidSender, "invalid sender"},
		{"blob", blob, ErrBlob, "blob transactions are not accepted"},
		{"not in the list", ss[3].tx(t, c, 0, 10), ErrNotAllowed, "sender is not allowed: account is not in the list"},
		{"too large", fat, gethpool.ErrOversizedData, "oversized data"},
	} {
		err := one(p, x.tx)
		require.ErrorIs(t, err, x.want, x.name)
		require.ErrorContains(t, err, x.text, x.name)
	}
	c.include(c.head, a.tx(t, c, 0, 10))
	settle(t, p)
	require.ErrorIs(t, one(p, a.sized(t, c, 0, 20, 1)), core.ErrNonceTooLow)
	require.Equal(t, uint64(2), p.Nonce(a.addr))
}

// Free transactions must pass where the base fee is 0.
func TestZeroTip(t *testing.T) {
	ss, _ := senders(t, 1)
	c := newFakeChain(t, ss[0].addr)
	p := open(t, c, nil)
	legacy, err := types.SignNewTx(ss[0].key, types.LatestSigner(c.config), &types.LegacyTx{Gas: 21000, GasPrice: new(big.Int), To: &common.Address{1}})
	require.NoError(t, err)
	require.NoError(t, one(p, legacy))
	require.NoError(t, one(p, ss[0].tx(t, c, 1, 0)))
	pending, queued := p.Stats()
	require.Equal(t, [2]int{2, 0}, [2]int{pending, queued})
	src := p.Source(new(big.Int))
	require.Equal(t, legacy.Hash(), src.Next().Hash())
}

// What does not fit is refused with a word; nothing accepted is dropped for it, however it is priced.
func TestFullPoolKeepsWhatItAccepted(t *testing.T) {
	ss, addrs := senders(t, 8)
	c := newFakeChain(t, addrs...)
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.GlobalSlots, cfg.AccountSlots = 40, 4 })
	var accepted, mined []*types.Transaction
	for n := uint64(0); n < 10; n++ {
		for _, s := range ss {
			tx := s.tx(t, c, n, int64(n)+1) // later ones pay more, and evict nothing
			switch err := one(p, tx); {
			case err == nil:
				accepted = append(accepted, tx)
			default:
				require.True(t, Overloaded(err), err)
			}
		}
	}
	require.Len(t, accepted, 40-8, "beyond 4 per account only the free half is used")
	for _, tx := range accepted {
		require.True(t, p.Has(tx.Hash()))
	}
	// A transaction of 128 KiB takes 4 slots and more than what is left of an account's guarantee.
	fresh, addr := senders(t, 9)
	_ = addr
	require.ErrorIs(t, one(p, fresh[8].tx(t, c, 0, 1)), core.ErrInsufficientFunds)

	// A block makes room.
	for _, s := range ss {
		mined = append(mined, s.tx(t, c, 0, 1))
	}
	c.include(c.head, mined...)
	settle(t, p)
	pending, _ := p.Stats()
	require.Equal(t, len(accepted)-8, pending)
	more := 0
	for _, s := range ss {
		for n := p.Nonce(s.addr); one(p, s.tx(t, c, n, 1)) == nil; n++ {
			more++
		}
	}
	require.Positive(t, more)
	for _, tx := range accepted {
		if tx.Nonce() > 0 {
			require.True(t, p.Has(tx.Hash()))
		}
	}
}

func TestGlobalSlotsCountSize(t *testing.T) {
	ss, addrs := senders(t, 3)
	c := newFakeChain(t, addrs...)
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.GlobalSlots, cfg.AccountSlots = 8, 4 })
	require.NoError(t, one(p, ss[0].sized(t, c, 0, 0, 100<<10))) // 4 slots
	require.NoError(t, one(p, ss[1].sized(t, c, 0, 0, 90<<10)))  // 3 slots
	err := one(p, ss[2].sized(t, c, 0, 0, 40<<10))               // 2 slots
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, "7 of 8 slots are used")
	require.NoError(t, one(p, ss[2].tx(t, c, 0, 0)))
}

func TestGappedTransactionsAreBounded(t *testing.T) {
	ss, addrs := senders(t, 5)
	c := newFakeChain(t, addrs...)
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.GlobalQueue = 3 })
	for _, s := range ss[:3] {
		require.NoError(t, one(p, s.tx(t, c, 1, 1)))
	}
	err := one(p, ss[3].tx(t, c, 1, 1))
	require.ErrorIs(t, err, ErrFull)
	require.ErrorContains(t, err, "submit nonce 0")
	// The missing nonces free the queue, and the waiting transactions become executable at once.
	require.NoError(t, one(p, ss[0].tx(t, c, 0, 1)))
	require.Equal(t, uint64(2), p.Nonce(ss[0].addr))
	require.NoError(t, one(p, ss[3].tx(t, c, 1, 1)))
}

func TestSourceOrder(t *testing.T) {
	ss, addrs := senders(t, 3)
	c := newFakeChain(t, addrs...)
	p := open(t, c, nil)
	a, b, d := ss[0], ss[1], ss[2]
	for _, tx := range []*types.Transaction{a.tx(t, c, 0, 5), a.tx(t, c, 1, 50), b.tx(t, c, 0, 5), b.tx(t, c, 1, 1), d.tx(t, c, 0, 20), d.tx(t, c, 1, 20)} {
		require.NoError(t, one(p, tx))
	}
	type step struct {
		from  common.Address
		nonce uint64
	}
	walk := func(baseFee int64, pop common.Address) (out []step) {
		src := p.Source(big.NewInt(baseFee))
		for tx := src.Next(); tx != nil; tx = src.Next() {
			from, _ := types.Sender(p.signer, tx)
			require.Same(t, tx, src.Next(), "Next must not move")
			out = append(out, step{from, tx.Nonce()})
			if from == pop {
				src.Pop()
			} else {
				src.Shift()
			}
		}
		src.Shift()
		src.Pop()
		return out
	}
	require.Equal(t, []step{{d.addr, 0}, {d.addr, 1}, {a.addr, 0}, {a.addr, 1}, {b.addr, 0}, {b.addr, 1}}, walk(0, common.Address{}))
	require.Equal(t, []step{{d.addr, 0}, {a.addr, 0}, {a.addr, 1}, {b.addr, 0}, {b.addr, 1}}, walk(0, d.addr))
	require.Equal(t, []step{{d.addr, 0}, {d.addr, 1}, {a.addr, 0}, {a.addr, 1}, {b.addr, 0}}, walk(2, common.Address{}), "nonce 1 of b cannot pay")
}

// A switch of many blocks gives every transaction back, even when the call comes while the
// chain still shows the old branch.
func TestAbandonedTransactionsReturn(t *testing.T) {
	ss, addrs := senders(t, 4)
	c := newFakeChain(t, addrs...)
	root := c.head
	p := open(t, c, nil)
	var txs types.Transactions
	h := root
	for n := uint64(0); n < 80; n++ {
		for _, s := range ss {
			tx := s.tx(t, c, n, 1)
			require.NoError(t, one(p, tx))
			txs = append(txs, tx)
		}
		h = c.include(h, txs[len(txs)-len(ss):]...)
		settle(t, p)
	}
	pending, _ := p.Stats()
	require.Zero(t, pending)
	p.Abandoned(txs)
	settle(t, p)
	pending, _ = p.Stats()
	require.Zero(t, pending, "the old branch is still the head")

	// The new branch holds only the first round.
	c.include(root, txs[:len(ss)]...)
	settle(t, p)
	pending, queued := p.Stats()
	require.Equal(t, [2]int{len(txs) - len(ss), 0}, [2]int{pending, queued})
	for _, s := range ss {
		require.Equal(t, uint64(80), p.Nonce(s.addr))
	}
}

// A head whose state is poorer drops what can no longer be paid, and says nothing else.
func TestUnpayableLeaves(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	p := open(t, c, nil)
	require.NoError(t, one(p, ss[0].tx(t, c, 0, 1)))
	c.next(c.head, func(s *state.StateDB) { s.SetBalance(addrs[0], new(uint256.Int), tracing.BalanceChangeUnspecified) })
	settle(t, p)
	pending, queued := p.Stats()
	require.Zero(t, pending+queued)
}

func TestSubscribersHearEveryTransaction(t *testing.T) {
	ss, addrs := senders(t, 16)
	c := newFakeChain(t, addrs...)
	p := open(t, c, nil)
	fast, stuck := make(chan types.Transactions, 4096), make(chan types.Transactions)
	sub := p.Subscribe(fast)
	defer sub.Unsubscribe()
	var wg sync.WaitGroup
	for _, s := range ss {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for n := uint64(0); n < 20; n++ {
				if err := one(p, s.tx(t, c, n, 1)); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	seen := make(map[common.Hash]bool)
	for len(seen) < 16*20 {
		select {
		case txs := <-fast:
			for _, tx := range txs {
				require.False(t, seen[tx.Hash()])
				seen[tx.Hash()] = true
			}
		case <-time.After(waitTime):
			t.Fatalf("%d of %d transactions were announced", len(seen), 16*20)
		}
	}
	// One that never reads stalls nobody but itself.
	stuckSub := p.Subscribe(stuck)
	defer stuckSub.Unsubscribe()
	for n := uint64(20); n < 40; n++ {
		require.NoError(t, one(p, ss[0].tx(t, c, n, 1)))
	}
	require.Equal(t, uint64(40), p.Nonce(ss[0].addr))
}

func TestBulkAdd(t *testing.T) {
	ss, addrs := senders(t, 8)
	c := newFakeChain(t, addrs...)
	p := open(t, c, nil)
	var txs []*types.Transaction
	for n := uint64(0); n < 250; n++ {
		for _, s := range ss {
			txs = append(txs, s.tx(t, c, n, 0))
		}
	}
	txs = append(txs, txs[7]) // once more in the same call
	errs := p.Add(txs, false)
	for i, err := range errs[:len(txs)-1] {
		require.NoError(t, err, i)
	}
	require.ErrorIs(t, errs[len(txs)-1], ErrAlreadyKnown)
	pending, queued := p.Stats()
	require.Equal(t, [2]int{2000, 0}, [2]int{pending, queued})
	require.Len(t, p.Pending(), 2000)
}

func TestJournalSurvivesRestart(t *testing.T) {
	ss, addrs := senders(t, 2)
	c := newFakeChain(t, addrs...)
	file := filepath.Join(t.TempDir(), "journal.rlp")
	withJournal := func(cfg *Config, _ *Deps) { cfg.Journal = file }
	p := open(t, c, withJournal)
	mine := []*types.Transaction{ss[0].tx(t, c, 0, 1), ss[0].tx(t, c, 1, 1), ss[0].tx(t, c, 2, 1)}
	for _, tx := range mine {
		require.NoError(t, one(p, tx))
	}
	require.NoError(t, p.Add([]*types.Transaction{ss[1].tx(t, c, 0, 1)}, false)[0], "from a peer: not kept")
	require.NoError(t, p.Close())

	// A kill in the middle of a write leaves a torn tail.
	whole, err := rlp.EncodeToBytes(ss[0].tx(t, c, 3, 1))
	require.NoError(t, err)
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(whole[:len(whole)/2])
	require.NoError(t, err)
	require.NoError(t, f.Close())

	c.include(c.head, mine[0])
	p = open(t, c, withJournal)
	pending, queued := p.Stats()
	require.Equal(t, [2]int{2, 0}, [2]int{pending, queued})
	require.False(t, p.Has(mine[0].Hash()))
	require.NoError(t, one(p, ss[0].tx(t, c, 3, 1)))
	require.NoError(t, p.Close())
	p = open(t, c, withJournal)
	require.Equal(t, uint64(4), p.Nonce(ss[0].addr))
	require.NoError(t, p.Close())

	_, err = New(func() Config { x := DefaultConfig(); x.Journal = filepath.Join(t.TempDir(), "no", "such"); return x }(), c, Deps{})
	require.ErrorContains(t, err, "cannot write")
}

func TestCloseEndsEverything(t *testing.T) {
	defer leaks.None(t, goleak.IgnoreCurrent())
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	p, err := New(DefaultConfig(), c, Deps{Registry: prometheus.NewRegistry()})
	require.NoError(t, err)
	stuck := make(chan types.Transactions)
	p.Subscribe(stuck)
	require.NoError(t, one(p, ss[0].tx(t, c, 0, 1)))
	require.NoError(t, p.Close())
	require.ErrorIs(t, one(p, ss[0].tx(t, c, 1, 1)), ErrClosed)
}

func TestConfigValidate(t *testing.T) {
	good := DefaultConfig()
	require.NoError(t, good.Validate())
	require.Equal(t, [2]uint64{1024, 131072}, [2]uint64{good.AccountSlots, good.GlobalSlots})
	for _, x := range []struct {
		change func(*Config)
		text   string
	}{
		{func(c *Config) { c.GlobalSlots = 0 }, "pool.global_slots is 0"},
		{func(c *Config) { c.AccountSlots = c.GlobalSlots + 1 }, "is above pool.global_slots"},
		{func(c *Config) { c.Lifetime = 0 }, "pool.lifetime"},
		{func(c *Config) { c.Journal, c.Rejournal = "x", 0 }, "pool.rejournal"},
	} {
		bad := DefaultConfig()
		x.change(&bad)
		require.ErrorContains(t, bad.Validate(), x.text)
	}
}

func FuzzJournal(f *testing.F) {
	tx := types.NewTx(&types.LegacyTx{Gas: params.TxGas, GasPrice: new(big.Int)})
	b, _ := rlp.EncodeToBytes(tx)
	f.Add(b)
	f.Add(append(b, b[:3]...))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Add([]byte{0xb9, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		txs, _ := decodeJournal(bytes.NewReader(b), 10)
		require.LessOrEqual(t, len(txs), 10)
		for _, tx := range txs {
			_ = tx.Hash()
		}
	})
}

// sharedSenders is what the other parts of a node have recovered already.
type sharedSenders struct {
	mu    sync.Mutex
	known map[common.Hash]common.Address
	asked int
	t     *testing.T
}

func (s *sharedSenders) Sender(tx *types.Transaction) (common.Address, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	from, ok := s.known[tx.Hash()]
	if !ok {
		return common.Address{}, true, types.ErrInvalidSig
	}
	senderscache.Attach(types.LatestSigner(params.MergedTestChainConfig), tx, from)
	return from, false, nil
}

// The pool takes the senders that the node knows and recovers none of its own.
func TestSharedSendersAreUsed(t *testing.T) {
	ss, addrs := senders(t, 2)
	c := newFakeChain(t, addrs...)
	shared := &sharedSenders{t: t, known: make(map[common.Hash]common.Address)}
	p := open(t, c, func(_ *Config, d *Deps) { d.Senders = shared })
	// Nobody could recover this signature: only the shared senders know whose it is.
	unsigned := types.NewTx(&types.DynamicFeeTx{ChainID: c.config.ChainID, GasTipCap: big.NewInt(1), GasFeeCap: big.NewInt(1), Gas: 21_000, To: &addrs[1]})
	require.ErrorIs(t, one(p, unsigned), gethpool.ErrInvalidSender)
	shared.known[unsigned.Hash()] = ss[0].addr
	require.NoError(t, one(p, unsigned))
	require.Equal(t, uint64(1), p.Nonce(ss[0].addr))
	require.Equal(t, 2, shared.asked)
}
