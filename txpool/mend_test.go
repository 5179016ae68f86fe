package txpool

import (
	"errors"
	"fmt"
	"math/big"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
)

// signed is a transaction of any size of gas and value; a nil receiver creates a contract.
func (s sender) signed(t *testing.T, c *fakeChain, nonce uint64, to *common.Address, value int64) *types.Transaction {
	tx, err := types.SignNewTx(s.key, types.LatestSigner(c.config), &types.DynamicFeeTx{
		ChainID: c.config.ChainID, Nonce: nonce, GasTipCap: new(big.Int), GasFeeCap: new(big.Int), Gas: 100_000, To: to, Value: big.NewInt(value),
	})
	require.NoError(t, err)
	return tx
}

// An account that no block has touched yet is an ordinary one: on a free chain it may send many transactions.
func TestAbsentAccount(t *testing.T) {
	ss, _ := senders(t, 2)
	c := newFakeChain(t)
	p := open(t, c, nil)
	to := common.Address{1}
	for n := uint64(0); n < 3; n++ {
		require.NoError(t, one(p, ss[0].signed(t, c, n, &to, 0)))
	}
	require.NoError(t, one(p, ss[1].signed(t, c, 1, &to, 0)), "with a gap")
	pending, queued := p.Stats()
	require.Equal(t, [2]int{3, 1}, [2]int{pending, queued})
	c.next(c.head, func(*state.StateDB) {})
	settle(t, p)
	require.NoError(t, one(p, ss[0].signed(t, c, 3, &to, 0)), "after a reset")
	require.Equal(t, uint64(4), p.Nonce(ss[0].addr))
}

// An account with code that is delegated still has one transaction in flight.
func TestDelegatedAccount(t *testing.T) {
	ss, addrs := senders(t, 1)
	c := newFakeChain(t, addrs...)
	c.next(c.head, func(s *state.StateDB) {
		s.SetCode(addrs[0], types.AddressToDelegation(common.Address{5}), 0)
	})
	p := open(t, c, nil)
	require.NoError(t, one(p, ss[0].tx(t, c, 0, 1)))
	require.ErrorContains(t, one(p, ss[0].tx(t, c, 1, 1)), "in-flight transaction limit")
}

// Blocks free the room they took: an empty pool is not half full, however much went through it.
func TestAccountLimitAfterManyTransactions(t *testing.T) {
	ss, addrs := senders(t, 9)
	c := newFakeChain(t, addrs...)
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.GlobalSlots, cfg.AccountSlots = 40, 4 })
	for round := uint64(0); round < 8; round++ {
		var mined []*types.Transaction
		for _, s := range ss[:4] {
			tx := s.tx(t, c, round, 1)
			require.NoError(t, one(p, tx))
			mined = append(mined, tx)
		}
		c.include(c.head, mined...)
		settle(t, p)
	}
	pending, queued := p.Stats()
	require.Zero(t, pending+queued)
	for n := uint64(0); n < 10; n++ {
		require.NoError(t, one(p, ss[8].tx(t, c, n, 1)), n)
	}
}

// Transactions behind one that the pool refuses wait for a nonce, and are bounded like all that do.
func TestFollowersOfARefusedTransactionAreBounded(t *testing.T) {
	ss, addrs := senders(t, 50)
	c := newFakeChain(t, addrs[:1]...)
	p := open(t, c, func(cfg *Config, _ *Deps) { cfg.GlobalQueue = 3 })
	to := common.Address{1}
	var batch []*types.Transaction
	for _, s := range ss[1:] {
		batch = append(batch, s.signed(t, c, 0, &to, 1)) // cannot pay
		for n := uint64(1); n < 20; n++ {
			batch = append(batch, s.signed(t, c, n, &to, 0))
		}
	}
	for i, err := range p.Add(batch, false) {
		if i%20 == 0 {
			require.ErrorContains(t, err, "insufficient funds", i)
		} else if err != nil {
			require.True(t, Overloaded(err), err)
		}
	}
	pending, queued := p.Stats()
	require.Zero(t, pending)
	require.LessOrEqual(t, queued, 3)

	// Those behind a good one still enter together, although the queue is full.
	var good []*types.Transaction
	for n := uint64(0); n < 20; n++ {
		good = append(good, ss[0].signed(t, c, n, &to, 1))
	}
	for i, err := range p.Add(good, false) {
		require.NoError(t, err, i)
	}
	pending, queued = p.Stats()
	require.Equal(t, 20, pending)
	require.LessOrEqual(t, queued, 3)
}

// allowList answers Allowed from lists that a test changes together with a head, as the Members contract does.
type allowList struct {
	mu               sync.Mutex
	noSend, noCreate map[common.Address]bool
	version          byte
	unreadable       bool
}

func (l *allowList) check(from common.Address, create bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unreadable {
		return fmt.Errorf("%w at block 7", ErrUnreadable)
	}
	if l.noSend[from] || create && l.noCreate[from] {
		return errors.New("not in the list")
	}
	return nil
}

// change makes a block after which the lists are these.
func (l *allowList) change(c *fakeChain, noSend, noCreate map[common.Address]bool) {
	c.next(c.head, func(s *state.StateDB) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.version++
		l.noSend, l.noCreate = noSend, noCreate
		s.SetNonce(contracts.MembersAddress, 1, 0)
		s.SetState(contracts.MembersAddress, common.Hash{1}, common.Hash{l.version})
	})
}

// While the lists cannot be read nobody new is admitted, and nothing that was accepted is dropped; what is not allowed
// goes with the first head at which they can be read.
func TestUnreadableListsDropNothing(t *testing.T) {
	ss, addrs := senders(t, 2)
	c := newFakeChain(t, addrs...)
	list := new(allowList)
	file := filepath.Join(t.TempDir(), "journal.rlp")
	config := func(cfg *Config, d *Deps) { cfg.Journal, d.Allowed = file, list.check }
	p := open(t, c, config)
	to := common.Address{1}
	gone, stays := ss[0].signed(t, c, 0, &to, 1), ss[1].signed(t, c, 0, &to, 1)
	for _, err := range p.Add([]*types.Transaction{gone, stays}, true) {
		require.NoError(t, err)
	}
	setReadable := func(readable bool) {
		list.mu.Lock()
		defer list.mu.Unlock()
		list.unreadable = !readable
	}
	setReadable(false)
	list.change(c, map[common.Address]bool{ss[0].addr: true}, nil)
	settle(t, p)
	require.True(t, p.Has(gone.Hash()))
	require.True(t, p.Has(stays.Hash()))
	err := one(p, ss[1].signed(t, c, 1, &to, 1))
	require.ErrorIs(t, err, ErrUnreadable)
	require.NotErrorIs(t, err, ErrNotAllowed)
	require.NoError(t, p.Close())
	p = open(t, c, config) // the journal keeps what was accepted
	require.True(t, p.Has(stays.Hash()))

	setReadable(true)
	c.next(c.head, func(*state.StateDB) {})
	settle(t, p)
	require.False(t, p.Has(gone.Hash()))
	require.True(t, p.Has(stays.Hash()))
}

func TestForbiddenTransactionsLeave(t *testing.T) {
	ss, addrs := senders(t, 4)
	c := newFakeChain(t, addrs...)
	list := new(allowList)
	file := filepath.Join(t.TempDir(), "journal.rlp")
	config := func(cfg *Config, d *Deps) { cfg.Journal, d.Allowed = file, list.check }
	p := open(t, c, config)
	to := common.Address{1}
	none, deployer, both := ss[0], ss[1], ss[2]
	var txs []*types.Transaction
	for n := uint64(0); n < 3; n++ {
		txs = append(txs, none.signed(t, c, n, &to, 1), both.signed(t, c, n, &to, 1))
	}
	txs = append(txs, none.signed(t, c, 9, &to, 1)) // waits for a nonce
	deploys := []*types.Transaction{deployer.signed(t, c, 0, &to, 1), deployer.signed(t, c, 1, nil, 0), deployer.signed(t, c, 2, &to, 1)}
	for i, err := range p.Add(append(txs, deploys...), true) {
		require.NoError(t, err, i)
	}

	list.change(c, map[common.Address]bool{none.addr: true}, map[common.Address]bool{deployer.addr: true})
	settle(t, p)
	pending, queued := p.ContentFrom(none.addr)
	require.Empty(t, append(pending, queued...))
	require.Equal(t, uint64(0), p.Nonce(none.addr), "the nonce is the account's again")
	require.False(t, p.Has(deploys[1].Hash()))
	pending, queued = p.ContentFrom(deployer.addr)
	require.Equal(t, []common.Hash{deploys[0].Hash()}, []common.Hash{pending[0].Hash()})
	require.Equal(t, []common.Hash{deploys[2].Hash()}, []common.Hash{queued[0].Hash()}, "kept: its nonce is missing now")
	pending, _ = p.ContentFrom(both.addr)
	require.Len(t, pending, 3)
	require.ErrorIs(t, one(p, none.signed(t, c, 0, &to, 1)), ErrNotAllowed)
	require.NoError(t, one(p, deployer.signed(t, c, 1, &to, 1)), "fills the gap")
	require.Equal(t, uint64(3), p.Nonce(deployer.addr))

	// What comes back from an abandoned block or from the journal is judged by the lists too.
	c.next(c.head, func(*state.StateDB) {})
	p.Abandoned(types.Transactions{none.signed(t, c, 0, &to, 1), ss[3].signed(t, c, 0, &to, 1)})
	settle(t, p)
	require.True(t, p.Has(ss[3].signed(t, c, 0, &to, 1).Hash()))
	require.False(t, p.Has(none.signed(t, c, 0, &to, 1).Hash()))
	require.NoError(t, p.Close())
	list.change(c, map[common.Address]bool{none.addr: true, both.addr: true}, nil)
	p = open(t, c, config)
	pending, _ = p.ContentFrom(both.addr)
	require.Empty(t, pending)
	require.Equal(t, uint64(3), p.Nonce(deployer.addr))

	list.change(c, nil, nil)
	settle(t, p)
	require.NoError(t, one(p, none.signed(t, c, 0, &to, 1)), "allowed again")
}
