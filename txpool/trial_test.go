package txpool

import (
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	gethpool "github.com/ethereum/go-ethereum/core/txpool"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/event"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

var errInflight = gethpool.ErrInflightTxLimitReached

// trial drives a pool and a model of it through the same random events and compares all that can be seen.
type trial struct {
	*require.Assertions
	rng   *rand.Rand
	chain *modelChain
	clock *modelClock
	pool  *Pool
	model *model
	known []*types.Transaction // offered once, to be offered again
	heard chan types.Transactions
	sub   event.Subscription
	salt  uint64
}

func newTrial(t testing.TB, seed uint64) *trial {
	x := &trial{Assertions: require.New(t), rng: rand.New(rand.NewPCG(seed, 0)), clock: new(modelClock), heard: make(chan types.Transactions, 1024)}
	x.clock.at.Store(1e18)
	state := make(map[common.Address]accountState)
	for i, a := range modelAccounts() {
		if i > 1 { // two have nothing
			state[a.addr] = accountState{balance: *uint256.NewInt(x.rng.Uint64N(30_000_000))}
		}
	}
	x.chain = newModelChain(state)
	cfg := DefaultConfig()
	cfg.GlobalSlots, cfg.AccountSlots, cfg.AccountQueue, cfg.GlobalQueue = 12+x.rng.Uint64N(30), 1+x.rng.Uint64N(8), 1+x.rng.Uint64N(40), 1+x.rng.Uint64N(24)
	cfg.Lifetime = time.Duration(2+x.rng.IntN(30)) * time.Second
	var err error
	x.pool, err = New(cfg, x.chain, Deps{Senders: modelSenders{}, Allowed: x.chain.allowed, now: x.clock.now})
	x.NoError(err)
	x.sub = x.pool.Subscribe(x.heard)
	x.model = newModel(cfg, x.chain.head)
	return x
}

// synced returns when the owner has done all that was asked before.
func (x *trial) synced() {
	x.pool.HeadChanged()
	r := &request{done: make(chan struct{})}
	for { // select may serve the request first
		x.pool.requests <- r
		<-r.done
		if len(x.pool.moved) == 0 {
			break
		}
		r = &request{done: make(chan struct{})}
	}
	r = &request{done: make(chan struct{})}
	x.pool.requests <- r
	<-r.done
}

func (x *trial) account() *modelAccount {
	return &modelAccounts()[x.rng.IntN(len(modelAccounts()))]
}

// offer makes a transaction, most often the next of its account, and offers it to both.
func (x *trial) offer() {
	if len(x.known) > 0 && x.rng.IntN(10) == 0 {
		x.add(x.known[x.rng.IntN(len(x.known))])
		return
	}
	a := x.account()
	x.salt++
	o := modelOffer{from: a.addr, gas: 21_000 + x.rng.Uint64N(20_000), value: x.rng.Uint64N(3), salt: x.salt, seen: time.Unix(int64(x.rng.IntN(20)), 0)}
	switch next, at := x.model.next(a.addr), x.model.state[a.addr].nonce; x.rng.IntN(8) {
	case 0:
		o.nonce = at + x.rng.Uint64N(next-at+1) // a replacement
	case 1, 2, 3:
		o.nonce = next + x.rng.Uint64N(20)
	case 4:
		o.nonce = max(at, 1) - 1
	default:
		o.nonce = next
	}
	if x.rng.IntN(2) == 0 {
		o.fee = x.rng.Uint64N(40)
		o.tip = x.rng.Uint64N(o.fee + 1)
	}
	if o.fee == 0 && x.rng.IntN(2) == 0 {
		o.value = 0
	}
	switch x.rng.IntN(20) {
	case 0:
		o.authority = x.account()
	case 1:
		o.create = true
	case 2:
		o.size = 33_000 * x.rng.IntN(3) / 4
		o.gas += uint64(10 * o.size) //nolint:gosec // small
	}
	x.add(o.transaction())
}

func (x *trial) add(tx *types.Transaction) {
	x.known = append(x.known, tx)
	from, _, _ := modelSenders{}.Sender(tx)
	head := x.chain.current()
	err := x.pool.Add([]*types.Transaction{tx}, false)[0]
	if tx.Gas() > head.header.GasLimit || head.noSend[from] || tx.To() == nil && head.noMake[from] {
		x.Error(err)
		return
	}
	want := x.model.add(tx, x.clock.now(), true)
	if want == nil {
		x.NoError(err, "nonce %d of %s", tx.Nonce(), from)
	} else {
		x.ErrorIs(err, want, "nonce %d of %s", tx.Nonce(), from)
	}
}

// build makes a block on a parent: of the pool's transactions and of others, and with what contracts do to balances.
func (x *trial) build(parent *modelBlock) *modelBlock {
	b := x.chain.child(parent, x.rng)
	src := x.pool.Source(nil)
	for tx := src.Next(); tx != nil && x.rng.IntN(6) > 0; tx = src.Next() {
		from, _, _ := modelSenders{}.Sender(tx)
		s := b.state[from]
		if cost := uint256.MustFromBig(tx.Cost()); s.nonce != tx.Nonce() || s.balance.Lt(cost) || x.rng.IntN(8) == 0 {
			src.Pop()
			continue
		} else {
			s.balance.Sub(&s.balance, cost)
		}
		s.nonce++
		b.txs = append(b.txs, tx)
		b.set(from, s)
		src.Shift()
	}
	for range x.rng.IntN(3) {
		a := x.account().addr
		s := b.state[a]
		switch x.rng.IntN(5) {
		case 0:
			s.nonce += 1 + x.rng.Uint64N(3) // by transactions that the pool never saw
		case 1, 2:
			s.balance = *uint256.NewInt(x.rng.Uint64N(6_000_000))
		case 3:
			s.balance.Clear()
		case 4:
			s.delegated = !s.delegated
		}
		b.set(a, s)
	}
	if x.rng.IntN(10) == 0 {
		b.listed = x.rng.Uint64()
		b.noSend, b.noMake = map[common.Address]bool{x.account().addr: x.rng.IntN(2) == 0}, map[common.Address]bool{x.account().addr: true}
	}
	if x.rng.IntN(10) == 0 {
		b.header.GasLimit = 100_000 + x.rng.Uint64N(1_000_000)
	}
	return b
}

// grow puts one to three blocks on the head.
func (x *trial) grow() {
	for range 1 + x.rng.IntN(3) {
		x.chain.put(x.build(x.chain.head))
	}
	x.follow()
}

func (x *trial) follow() {
	x.chain.mu.Lock()
	x.chain.forgets = x.rng.IntN(4) == 0
	x.chain.mu.Unlock()
	x.synced()
	x.model.follow(x.chain.head, x.clock.now())
	x.model.readd(x.chain.head, x.clock.now())
}

// turn switches to another branch; the pool hears of what the old one held before or after.
func (x *trial) turn() {
	fork := x.chain.head
	var txs types.Transactions
	for range 1 + x.rng.IntN(4) {
		if fork.parent == nil {
			return
		}
		txs = append(slices.Clone(fork.txs), txs...)
		fork = fork.parent
	}
	early := x.rng.IntN(2) == 0
	abandon := func() {
		x.pool.Abandoned(txs)
		if len(txs) > 0 {
			x.model.abandoned = append(x.model.abandoned, modelAbandoned{txs: txs})
		}
	}
	if early {
		abandon()
		x.synced()
		x.model.readd(x.chain.head, x.clock.now())
	}
	for range 1 + x.rng.IntN(3) {
		fork = x.build(fork)
		x.chain.put(fork)
	}
	if !early {
		abandon()
	}
	x.follow()
}

// wait lets time pass.
func (x *trial) wait() {
	x.clock.advance(time.Second + time.Duration(x.rng.IntN(12_000))*time.Millisecond)
	x.synced()
	x.model.expire(x.clock.now())
}

// price makes fees free or not.
func (x *trial) price() {
	p := block.Parameters{BaseFeeFixed: x.rng.IntN(2) == 0}
	x.chain.fees.Store(&p)
	x.chain.put(x.build(x.chain.head))
	x.follow()
	x.model.free = p.BaseFeeFixed
}

func (x *trial) step() {
	switch x.rng.IntN(24) {
	case 0, 1, 2:
		x.grow()
	case 3, 4:
		x.turn()
	case 5, 6:
		x.wait()
	case 7:
		x.price()
	default:
		x.offer()
	}
}

// compare checks everything that the pool shows.
func (x *trial) compare() {
	pending, queued := x.pool.Content()
	var nPending, nQueued int
	for _, a := range modelAccounts() {
		executable, gapped := x.model.split(a.addr)
		x.same(executable, pending[a.addr], "executable of", a.addr)
		x.same(gapped, queued[a.addr], "gapped of", a.addr)
		x.Equal(x.model.next(a.addr), x.pool.Nonce(a.addr))
		nPending, nQueued = nPending+len(executable), nQueued+len(gapped)
	}
	gotPending, gotQueued := x.pool.Stats()
	x.Equal([2]int{nPending, nQueued}, [2]int{gotPending, gotQueued})
	x.Len(x.pool.Pending(), nPending)
	x.pool.mu.RLock()
	x.pool.book.checkCounts(x.Assertions)
	x.pool.mu.RUnlock()
}

func (x *trial) same(want []*modelTx, got []*types.Transaction, what string, a common.Address) {
	if w, g := hashesOfModel(want), hashesOf(got); !slices.Equal(w, g) {
		x.Equal(w, g, "%s %s", what, a)
	}
}

func (x *trial) compareOrder() {
	fee, popped := x.rng.Int64N(20), x.account().addr
	var got []common.Hash
	src := x.pool.Source(big.NewInt(fee))
	for tx := src.Next(); tx != nil; tx = src.Next() {
		got = append(got, tx.Hash())
		if from, _, _ := (modelSenders{}).Sender(tx); from == popped {
			src.Pop()
		} else {
			src.Shift()
		}
	}
	x.Equal(x.model.order(fee, popped), got)
}

// finish compares what was announced, and closes the pool.
func (x *trial) finish() {
	got := make(map[common.Hash]int)
	left := 0
	for _, n := range x.model.announced {
		left += n
	}
	deadline := time.After(waitTime)
	for left > 0 {
		select {
		case txs := <-x.heard:
			for _, tx := range txs {
				got[tx.Hash()]++
				left--
			}
		case <-deadline:
			x.FailNow("announcements are missing", "%d", left)
		}
	}
	x.True(maps.Equal(x.model.announced, got), "what was announced")
	x.sub.Unsubscribe()
	x.NoError(x.pool.Close())
}

func hashesOf(txs []*types.Transaction) (out []common.Hash) {
	for _, tx := range txs {
		out = append(out, tx.Hash())
	}
	return out
}

func hashesOfModel(txs []*modelTx) (out []common.Hash) {
	for _, tx := range txs {
		out = append(out, tx.Hash())
	}
	return out
}

// checkCounts counts everything again.
func (b *book) checkCounts(t *require.Assertions) {
	var slots, evictable, executable, waiting, entries, heads, queues int
	delegating, nonces := make(map[common.Address]int), make(map[uint64]int32)
	for addr, a := range b.accounts {
		t.Equal(addr, a.addr)
		t.Positive(a.len())
		spent := new(uint256.Int)
		for i, e := range a.all() {
			if b.byHash[e.hash] != e {
				t.Fail("an entry is not found by its hash")
			}
			entries, slots = entries+1, slots+int(e.slots) //nolint:gosec // small
			nonces[e.nonce%nonceBuckets]++
			for _, authority := range e.authorities {
				delegating[authority]++
			}
			if a.dearest.Lt(&e.cost) || e.gas > a.largestGas {
				t.Fail("an account's caps are below an entry")
			}
			switch {
			case i < len(a.executable):
				if a.state.nonce+uint64(i) != e.nonce || !e.promised { //nolint:gosec // small
					t.Fail("an executable entry is at the wrong place")
				}
				spent.Add(spent, &e.cost)
			case e.nonce <= a.next():
				t.Fail("a gapped entry has no gap before it")
			case !e.promised:
				evictable += int(e.slots) //nolint:gosec // small
			}
		}
		t.Equal(*spent, a.spent)
		executable, waiting = executable+len(a.executable), waiting+len(a.gapped)
		if len(a.executable) > 0 {
			heads++
			t.Same(a, b.owners[a.headAt])
			if !slices.Equal(a.executable, b.heads[a.headAt]) {
				t.Fail("an account's executable entries are not those that a source gets")
			}
		}
		if len(a.gapped) > 0 {
			queues++
			t.Same(a, b.gapped[a.gappedAt])
		}
	}
	t.Equal([]int{entries, heads, heads, queues, executable, waiting}, []int{len(b.byHash), len(b.heads), len(b.owners), len(b.gapped), b.executable, b.waiting})
	t.Equal([2]uint64{uint64(slots), uint64(evictable)}, [2]uint64{b.slots, b.evictable}) //nolint:gosec // small
	if !maps.Equal(delegating, b.delegating) {
		t.Equal(delegating, b.delegating)
	}
	for i := range uint64(64) { // where a trial's nonces lie
		if nonces[i] != b.nonces[i].Load() {
			t.Fail("a nonce is counted wrong")
		}
	}
}

// The pool does what the plain rules say, whatever happens in whichever order: offers, replacements, blocks with and
// without its transactions, switched branches, balances that contracts change, delegations, lists, limits, lost time.
func TestPoolFollowsTheModel(t *testing.T) {
	seeds := uint64(2000)
	if !testing.Short() {
		seeds = 10_000
	}
	var wg sync.WaitGroup
	const workers = 4
	for w := range uint64(workers) {
		wg.Go(func() {
			for seed := w; seed < seeds && !t.Failed(); seed += workers {
				runTrial(t, seed)
			}
		})
	}
	wg.Wait()
}

func runTrial(t *testing.T, seed uint64) {
	t.Run("", func(t *testing.T) {
		t.Logf("seed %d", seed)
		x := newTrial(t, seed)
		defer x.pool.Close()
		for range 40 {
			x.step()
			x.compare()
		}
		x.compareOrder()
		x.finish()
	})
}
