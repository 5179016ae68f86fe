package txpool

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"
)

// modelPool is a pool on a chain of maps, whose accounts can pay.
func modelPool(t *testing.T) (*Pool, *modelChain) {
	state := make(map[common.Address]accountState)
	for _, a := range modelAccounts() {
		state[a.addr] = accountState{balance: *uint256.NewInt(1 << 60)}
	}
	c := newModelChain(state)
	p, err := New(DefaultConfig(), c, Deps{Senders: modelSenders{}})
	require.NoError(t, err)
	t.Cleanup(func() { p.Close() })
	return p, c
}

func modelTransfer(a modelAccount, nonce, fee uint64) *types.Transaction {
	return modelOffer{from: a.addr, nonce: nonce, fee: fee, tip: fee, gas: 30_000, seen: time.Unix(int64(nonce), 0)}.transaction() //nolint:gosec // small
}

// What a source was made of does not change in it: neither by a replacement nor by a block nor by a switched branch.
func TestSourceIsASnapshot(t *testing.T) {
	p, c := modelPool(t)
	a := modelAccounts()[0]
	txs := []*types.Transaction{modelTransfer(a, 0, 1), modelTransfer(a, 1, 1), modelTransfer(a, 2, 1)}
	for _, tx := range txs {
		require.NoError(t, one(p, tx))
	}
	rng := rand.New(rand.NewPCG(1, 1))
	sources := []*Source{p.Source(nil), p.Source(nil), p.Source(nil)}
	require.NoError(t, one(p, modelTransfer(a, 1, 9)))
	for i, nonce := range []uint64{2, 0} {
		b := c.child(c.current(), rng)
		s := b.state[a.addr]
		s.nonce = nonce
		b.set(a.addr, s)
		c.put(b)
		p.HeadChanged()
		benchSync(p)
		require.NoError(t, one(p, modelTransfer(a, 3, uint64(9+i)))) //nolint:gosec // small
		for _, tx := range txs {
			require.Same(t, tx, sources[i].Next())
			sources[i].Shift()
		}
		require.Nil(t, sources[i].Next())
	}
}

// An account that cannot be read at a head is examined at the next one, although that one changes nothing of it; while
// it cannot be read nothing of it is accepted or refused for good.
func TestUnreadableAccountIsExaminedAgain(t *testing.T) {
	p, c := modelPool(t)
	a := modelAccounts()[0]
	tx := modelTransfer(a, 0, 1)
	require.NoError(t, one(p, tx))
	rng := rand.New(rand.NewPCG(1, 1))
	b := c.child(c.current(), rng)
	b.set(a.addr, accountState{nonce: 1})
	c.put(b)
	c.broken.Store(true)
	benchSync(p)
	require.True(t, p.Has(tx.Hash()))
	err := one(p, modelTransfer(modelAccounts()[1], 0, 1))
	require.ErrorContains(t, err, "the pool cannot read the state of block 1: the disk is broken")
	require.True(t, Overloaded(err))

	c.broken.Store(false)
	c.put(c.child(c.current(), rng))
	benchSync(p)
	require.False(t, p.Has(tx.Hash()))
	require.Equal(t, uint64(1), p.Nonce(a.addr))
}

// What the rules of a later fork exclude leaves with its first block.
func TestRulesFollowTheHead(t *testing.T) {
	c := newModelChain(map[common.Address]accountState{})
	cfg := *modelConfig
	osaka := uint64(5)
	cfg.OsakaTime, cfg.BPO1Time, cfg.BPO2Time, cfg.AmsterdamTime, cfg.BogotaTime = &osaka, nil, nil, nil, nil
	c.config = &cfg
	c.head.header.GasLimit = 60_000_000
	delete(c.blocks, c.head.header.Hash())
	c.blocks = map[common.Hash]*modelBlock{c.head.header.Hash(): c.head}
	p, err := New(DefaultConfig(), c, Deps{Senders: modelSenders{}})
	require.NoError(t, err)
	defer p.Close()
	a := modelAccounts()[0]
	large := modelOffer{from: a.addr, gas: MaxTransactionGas}.transaction()
	require.NoError(t, one(p, large), "above the limit of EIP-7825, which is not in force")
	require.NoError(t, one(p, modelTransfer(a, 1, 0)))
	b := c.child(c.current(), rand.New(rand.NewPCG(1, 1)))
	b.header.Time = osaka
	c.put(b)
	benchSync(p)
	pending, queued := p.Stats()
	require.Equal(t, [2]int{0, 1}, [2]int{pending, queued})
}

// What came in while the chain stood on a branch with other lists is judged again when it is back on the first one, although
// the lists that the pool knows are the same as before.
func TestListsOfAnotherBranch(t *testing.T) {
	a := modelAccounts()[0]
	c := newModelChain(map[common.Address]accountState{})
	rng := rand.New(rand.NewPCG(1, 1))
	strict := c.child(c.head, rng)
	strict.listed, strict.noSend = 1, map[common.Address]bool{a.addr: true}
	c.put(strict)
	p, err := New(DefaultConfig(), c, Deps{Senders: modelSenders{}, Allowed: c.allowed})
	require.NoError(t, err)
	defer p.Close()
	tx := modelTransfer(a, 0, 0)
	require.ErrorIs(t, one(p, tx), ErrNotAllowed)

	c.put(c.child(strict.parent, rng)) // the pool hears of it too late
	require.NoError(t, one(p, tx))
	c.put(c.child(strict, rng))
	p.Abandoned(types.Transactions{modelTransfer(modelAccounts()[1], 0, 0)})
	benchSync(p)
	require.False(t, p.Has(tx.Hash()))
}

// Between the question whether a sender is allowed and its admission the lists may change, and what waits is judged.
func TestListsChangeBeforeAdmission(t *testing.T) {
	a := modelAccounts()[0]
	c := newModelChain(map[common.Address]accountState{})
	p, err := New(DefaultConfig(), c, Deps{Senders: modelSenders{}, Allowed: c.allowed})
	require.NoError(t, err)
	defer p.Close()
	r := &request{txs: []*types.Transaction{modelTransfer(a, 0, 0)}, errs: make([]error, 1), listed: p.listed.Load(), done: make(chan struct{})}
	r.entries = p.precheck(r.txs, r.errs, true)
	require.NoError(t, r.errs[0])
	strict := c.child(c.head, rand.New(rand.NewPCG(1, 1)))
	strict.listed, strict.noSend = 1, map[common.Address]bool{a.addr: true}
	c.put(strict)
	benchSync(p)
	p.requests <- r
	<-r.done
	require.ErrorIs(t, r.errs[0], ErrNotAllowed)
	require.False(t, p.Has(r.txs[0].Hash()))
}
