package txpool

import (
	"math/big"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	gethpool "github.com/ethereum/go-ethereum/core/txpool"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"
)

// clocked opens a pool whose time stands still but for the test.
func clocked(t *testing.T, c *fakeChain, change func(*Config, *Deps)) (*Pool, *modelClock) {
	clock := new(modelClock)
	clock.at.Store(time.Now().UnixNano())
	return open(t, c, func(cfg *Config, d *Deps) {
		d.now = clock.now
		if change != nil {
			change(cfg, d)
		}
	}), clock
}

// On a free chain a sender corrects or cancels what it sent without a fee, once it has waited for a second, and so may
// not flood the network: each account and all together have a rate.
func TestFreeReplacementIsBounded(t *testing.T) {
	const perAccount = freeReplacementsAccount + 2
	ss, addrs := senders(t, freeReplacementsPool/freeReplacementsAccount+1)
	c := newFakeChain(t, addrs...)
	p, clock := clocked(t, c, nil)
	to := common.Address{1}
	for _, s := range ss {
		var txs []*types.Transaction
		for n := range uint64(perAccount) {
			txs = append(txs, s.signed(t, c, n, &to, 1))
		}
		for _, err := range p.Add(txs, true) {
			require.NoError(t, err)
		}
	}
	first := ss[0].signed(t, c, 0, &to, 2)
	require.ErrorIs(t, one(p, first), ErrUnderpriced, "too early")
	clock.advance(freeReplacementAge)
	replaced := 0
	for _, s := range ss {
		taken := 0
		for n := range uint64(perAccount) {
			if err := one(p, s.signed(t, c, n, &to, 2)); err != nil {
				require.ErrorIs(t, err, ErrUnderpriced)
			} else {
				taken++
			}
		}
		require.LessOrEqual(t, taken, freeReplacementsAccount)
		replaced += taken
	}
	require.Equal(t, freeReplacementsPool, replaced)
	require.True(t, p.Has(first.Hash()))

	clock.advance(time.Second)
	require.ErrorContains(t, one(p, ss[0].signed(t, c, 0, &to, 1)), "it was replaced itself", "a peer that has it still")
	require.NoError(t, one(p, ss[0].signed(t, c, 0, &to, 3)))

	// A chain with fees takes a higher one only.
	c.priced.Store(true)
	c.next(c.CurrentHeader(), func(*state.StateDB) {})
	settle(t, p)
	clock.advance(time.Hour / 2)
	require.ErrorIs(t, one(p, ss[0].signed(t, c, 0, &to, 4)), ErrUnderpriced)
	require.NoError(t, one(p, ss[0].tx(t, c, 0, 1)))
}

// An account that nobody has paid for takes little of what transactions with a missing nonce share, and not for long.
func TestPennilessAccountsCannotFillTheQueue(t *testing.T) {
	ss, addrs := senders(t, 18)
	c := newFakeChain(t, addrs[17])
	p, clock := clocked(t, c, func(cfg *Config, _ *Deps) { cfg.GlobalQueue = 2000 })
	to := common.Address{1}
	for _, s := range ss[:17] {
		accepted := 0
		for n := range uint64(100) {
			if err := one(p, s.signed(t, c, n+1, &to, 0)); err == nil {
				accepted++
			} else {
				require.ErrorIs(t, err, ErrAccountFull)
			}
		}
		require.Equal(t, pennilessQueue, accepted)
	}
	for n := range uint64(100) {
		require.NoError(t, one(p, ss[17].signed(t, c, n+1, &to, 0)), "an account with balance")
	}
	require.NoError(t, one(p, ss[0].signed(t, c, 0, &to, 0)), "the missing nonce")
	require.Equal(t, uint64(pennilessQueue+1), p.Nonce(ss[0].addr))

	clock.advance(pennilessLifetime)
	settle(t, p)
	pending, queued := p.Stats()
	require.Equal(t, [2]int{pennilessQueue + 1, 100}, [2]int{pending, queued}, "executable ones stay, an account with balance keeps its own")
	clock.advance(p.cfg.Lifetime)
	settle(t, p)
	pending, queued = p.Stats()
	require.Equal(t, [2]int{pennilessQueue + 1, 0}, [2]int{pending, queued})
}

// Of a full queue the account with most gives up its newest for one with fewer; executable transactions go for nobody.
func TestFullQueueIsShared(t *testing.T) {
	ss, addrs := senders(t, 4)
	c := newFakeChain(t, addrs...)
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.GlobalQueue, cfg.GlobalSlots, cfg.AccountSlots = 6, 10, 10 })
	to := common.Address{1}
	var first []*types.Transaction
	for n := range uint64(6) {
		first = append(first, ss[0].signed(t, c, n+1, &to, 0))
		require.NoError(t, one(p, first[n]))
	}
	for n := range uint64(3) {
		require.NoError(t, one(p, ss[1].signed(t, c, n+1, &to, 0)))
		require.False(t, p.Has(first[5-n].Hash()), "the newest leaves")
	}
	require.ErrorIs(t, one(p, ss[1].signed(t, c, 4, &to, 0)), ErrFull, "both have as many now")
	for n := range uint64(10) { // executable ones need no queue, and the slots of gapped ones
		require.NoError(t, one(p, ss[2].signed(t, c, n, &to, 0)))
	}
	pending, queued := p.Stats()
	require.Equal(t, [2]int{10, 0}, [2]int{pending, queued})
	require.ErrorIs(t, one(p, ss[3].signed(t, c, 0, &to, 0)), ErrFull)
	require.ErrorIs(t, one(p, ss[3].signed(t, c, 1, &to, 0)), ErrFull)
}

// countedSenders counts the recoveries.
type countedSenders struct {
	mu    sync.Mutex
	count int
}

func (s *countedSenders) Sender(tx *types.Transaction) (common.Address, bool, error) {
	s.mu.Lock()
	s.count++
	s.mu.Unlock()
	from, err := types.Sender(modelSigner, tx)
	return from, true, err
}

// A full pool recovers no signature of what cannot be a replacement, and few of what might be one; replacements go on.
func TestFullPoolRecoversNoSignature(t *testing.T) {
	ss, addrs := senders(t, 2)
	c := newFakeChain(t, addrs...)
	counted := new(countedSenders)
	p, clock := clocked(t, c, func(cfg *Config, d *Deps) { cfg.GlobalSlots, cfg.AccountSlots, d.Senders = 4, 4, counted })
	for n := range uint64(4) {
		require.NoError(t, one(p, ss[0].tx(t, c, n, 1)))
	}
	require.Equal(t, 4, counted.count)
	for n := range uint64(100) {
		require.ErrorIs(t, one(p, ss[1].tx(t, c, 4+n, 1)), ErrFull)
	}
	require.Equal(t, 4, counted.count)
	require.NoError(t, one(p, ss[0].tx(t, c, 2, 2)), "a replacement")
	for n := range int64(recoveriesWhenFull) {
		require.ErrorIs(t, one(p, ss[1].tx(t, c, 0, n)), ErrFull)
	}
	require.Equal(t, 4+recoveriesWhenFull, counted.count)
	require.ErrorIs(t, one(p, ss[0].tx(t, c, 3, 2)), ErrFull)
	clock.advance(time.Second)
	require.NoError(t, one(p, ss[0].tx(t, c, 3, 2)))
}

// What is known is known also when the pool is full; the answer tells a client that it need not try again.
func TestFullPoolKnowsWhatItHas(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.GlobalSlots, cfg.AccountSlots = 1, 1 })
	require.NoError(t, one(p, ss[0].tx(t, c, 0, 1)))
	require.ErrorIs(t, one(p, ss[0].tx(t, c, 0, 1)), ErrAlreadyKnown)
}

// The pool judges by nonce and balance as go-ethereum does, in the same words.
func TestStateChecksAreThoseOfGoEthereum(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	s, err := state.New(types.EmptyRootHash, modelDatabase())
	require.NoError(t, err)
	key := modelAccounts()[0]
	seen := make(map[string]int)
	for range 5000 {
		make1 := func(nonce uint64) *types.Transaction {
			tx, err := types.SignNewTx(key.key, modelSigner, &types.DynamicFeeTx{ChainID: modelConfig.ChainID, Nonce: nonce, GasFeeCap: big.NewInt(rng.Int64N(4)), Gas: 100, Value: big.NewInt(rng.Int64N(300))})
			require.NoError(t, err)
			return tx
		}
		a := newAccount(key.addr, accountState{nonce: rng.Uint64N(3), balance: *uint256.NewInt(rng.Uint64N(2000))})
		for n := range rng.Uint64N(4) {
			e, err := newEntry(make1(a.state.nonce+n), key.addr, time.Now())
			require.NoError(t, err)
			require.True(t, a.appendExecutable(e))
		}
		tx := make1(rng.Uint64N(8))
		e, err := newEntry(tx, key.addr, time.Now())
		require.NoError(t, err)
		old, executable := a.at(tx.Nonce())
		s.SetNonce(key.addr, a.state.nonce, tracing.NonceChangeUnspecified)
		s.SetBalance(key.addr, &a.state.balance, tracing.BalanceChangeUnspecified)
		want := gethpool.ValidateTransactionWithState(tx, modelSigner, &gethpool.ValidationOptionsWithState{
			State: s, ExistingExpenditure: func(common.Address) *big.Int { return a.spent.ToBig() },
			ExistingCost: func(common.Address, uint64) *big.Int {
				if executable {
					return old.tx.Cost()
				}
				return nil
			},
		})
		if got := a.checkState(e, old, executable); want == nil {
			require.NoError(t, got)
		} else {
			require.EqualError(t, got, want.Error())
		}
		seen[label(want)]++
	}
	require.Len(t, seen, 3, "accepted, nonce too low, insufficient funds: %v", seen)
}

// A source is whole while the pool changes: no transaction twice, none before its predecessor.
func TestSourceOfAChangingPool(t *testing.T) {
	state := make(map[common.Address]accountState)
	for _, a := range modelAccounts() {
		state[a.addr] = accountState{balance: *uint256.NewInt(1 << 60)}
	}
	c := newModelChain(state)
	p, err := New(DefaultConfig(), c, Deps{Senders: modelSenders{}})
	require.NoError(t, err)
	defer p.Close()
	rng := rand.New(rand.NewPCG(3, 3))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				last := make(map[common.Address]uint64)
				src := p.Source(nil)
				for tx := src.Next(); tx != nil; tx = src.Next() {
					from, _, _ := modelSenders{}.Sender(tx)
					if n, ok := last[from]; ok && tx.Nonce() != n+1 {
						t.Errorf("nonce %d follows %d", tx.Nonce(), n)
					}
					last[from] = tx.Nonce()
					src.Shift()
				}
				_, _ = p.Content()
				_ = p.Pending()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for round := range 300 {
		var txs []*types.Transaction
		for range 8 {
			a := modelAccounts()[rng.IntN(6)].addr
			at := c.current().state[a].nonce
			fee := rng.Uint64N(9)
			txs = append(txs, modelOffer{from: a, nonce: at + rng.Uint64N(6), fee: fee, tip: fee, gas: 30_000, salt: rng.Uint64(), seen: time.Now()}.transaction())
		}
		p.Add(txs, false)
		b := c.child(c.current(), rng)
		for _, a := range modelAccounts() {
			s := b.state[a.addr]
			if next := p.Nonce(a.addr); next > s.nonce {
				s.nonce += rng.Uint64N(next - s.nonce + 1)
			} else if round%7 == 0 && s.nonce > 0 {
				s.nonce-- // a switched branch
			}
			b.set(a.addr, s)
		}
		c.put(b)
		p.HeadChanged()
	}
	close(done)
	wg.Wait()
}

// A transaction that was executable gives its place to none, also when it waits for a missing nonce now and is the newest.
func TestWhatWasExecutableStaysBehindAGap(t *testing.T) {
	ss, addrs := senders(t, 2)
	c := newFakeChain(t, addrs...)
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.GlobalQueue = 3 })
	a, to := ss[0], common.Address{1}
	var txs []*types.Transaction
	for n, value := range []int64{0, 9, 9, 9, 0} {
		txs = append(txs, a.signed(t, c, uint64(n), &to, value)) //nolint:gosec // small
		require.NoError(t, one(p, txs[n]))
	}
	c.next(c.CurrentHeader(), func(s *state.StateDB) {
		s.SetBalance(a.addr, uint256.NewInt(1), tracing.BalanceChangeUnspecified)
	})
	settle(t, p)
	require.Equal(t, uint64(1), p.Nonce(a.addr))
	second, third := a.signed(t, c, 2, &to, 0), a.signed(t, c, 3, &to, 0)
	require.NoError(t, one(p, second))
	require.NoError(t, one(p, third))
	require.NoError(t, one(p, ss[1].signed(t, c, 1, &to, 0)), "in the place of the third")
	require.Equal(t, []bool{true, false, true}, []bool{p.Has(second.Hash()), p.Has(third.Hash()), p.Has(txs[4].Hash())})
}

// What comes back may exceed the pool's slots, as it was accepted once, but not without end.
func TestReturnedTransactionsAreBounded(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.GlobalSlots, cfg.AccountSlots = 4, 4 })
	var txs types.Transactions
	for n := range uint64(20) {
		txs = append(txs, ss[0].tx(t, c, n, 1))
	}
	p.Abandoned(txs)
	settle(t, p)
	settle(t, p)
	require.Equal(t, uint64(4*maxReturnedShare), p.Nonce(ss[0].addr))
	require.ErrorIs(t, one(p, ss[0].tx(t, c, 16, 1)), ErrFull)
}

// A replacement that takes more slots needs room for them; one that takes no more has it.
func TestReplacementInAFullPool(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.GlobalSlots, cfg.AccountSlots = 2, 2 })
	require.NoError(t, one(p, ss[0].tx(t, c, 0, 1)))
	require.NoError(t, one(p, ss[0].tx(t, c, 1, 1)))
	require.ErrorIs(t, one(p, ss[0].sized(t, c, 1, 2, 40<<10)), ErrFull)
	require.NoError(t, one(p, ss[0].sized(t, c, 1, 2, 20<<10)))
}
