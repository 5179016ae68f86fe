package txpool

import (
	"container/heap"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// book is the transactions of the pool and all that is counted of them. It decides nothing about limits and fees. Its
// methods keep the counts and the indexes true; every change ends with update.
//
// Only the owner goroutine changes it, with Pool.mu held; others read it with Pool.mu held for reading.
type book struct {
	accounts map[common.Address]*account // those with an entry
	byHash   map[common.Hash]*entry
	heads    [][]*entry // the executable entries of every account that has some, in no order: what a Source copies
	owners   []*account // of heads
	gapped   gappedHeap // accounts with gapped entries

	delegating map[common.Address]int // entries with an authorisation of the account
	executable int
	waiting    int    // gapped entries
	slots      uint64 // of all entries
	evictable  uint64 // slots of the gapped entries that a limit may drop
	nonces     nonceCounts

	news types.Transactions // that became executable since the owner sent them on
}

func newBook() *book {
	return &book{
		accounts: make(map[common.Address]*account), byHash: make(map[common.Hash]*entry),
		delegating: make(map[common.Address]int),
	}
}

// link enters an entry into what is found and counted by entry, unlink takes it out.
func (b *book) link(e *entry) {
	b.byHash[e.hash] = e
	b.slots += e.slots
	b.nonces.add(e.nonce, 1)
	for _, authority := range e.authorities {
		b.delegating[authority]++
	}
}

func (b *book) unlink(e *entry) {
	delete(b.byHash, e.hash)
	b.slots -= e.slots
	b.nonces.add(e.nonce, -1)
	for _, authority := range e.authorities {
		if b.delegating[authority]--; b.delegating[authority] == 0 {
			delete(b.delegating, authority)
		}
	}
}

// place adds an entry whose nonce the account has no other for, and which is not below the account's.
func (b *book) place(a *account, e *entry, now time.Time) {
	b.accounts[a.addr] = a
	b.link(e)
	a.noteCaps(e)
	if e.nonce == a.next() && a.appendExecutable(e) {
		e.promised = true
		b.news = append(b.news, e.tx)
		b.promote(a)
	} else {
		e.waitsSince = now
		a.gapped = slices.Insert(a.gapped, a.gappedIndex(e.nonce), e)
	}
	b.update(a)
}

// promote moves gapped entries whose nonce is missing no more behind the executable ones.
func (b *book) promote(a *account) {
	k := 0
	for ; k < len(a.gapped) && a.gapped[k].nonce == a.next() && a.appendExecutable(a.gapped[k]); k++ {
		a.gapped[k].promised = true
		b.news = append(b.news, a.gapped[k].tx)
	}
	if a.gapped = slices.Delete(a.gapped, 0, k); len(a.gapped) == 0 {
		a.gapped = nil
	}
}

// replace puts e in the place of an entry with the same nonce.
func (b *book) replace(a *account, old, e *entry, executable bool) {
	b.unlink(old)
	b.link(e)
	a.noteCaps(e)
	e.promised, e.waitsSince = old.promised, old.waitsSince
	if executable {
		a.exchange(old, e)
		b.news = append(b.news, e.tx)
	} else {
		a.gapped[a.gappedIndex(e.nonce)] = e
	}
	b.update(a)
}

// advance moves an account to its state at a new head. It drops what the account's nonce has passed and what no block
// can take any more because of its cost or its gas; what stood behind waits for the missing nonce.
func (b *book) advance(a *account, s accountState, gasLimit uint64, now time.Time) {
	a.state.balance, a.state.delegated = s.balance, s.delegated
	if s.nonce < a.state.nonce || s.nonce > a.next() || s.balance.Lt(&a.dearest) || gasLimit < a.largestGas {
		b.relist(a, s.nonce, now, func(e *entry) bool {
			return e.nonce >= s.nonce && !s.balance.Lt(&e.cost) && e.gas <= gasLimit
		})
		return
	}
	if s.nonce > a.state.nonce {
		for _, e := range a.cutBelow(s.nonce) {
			b.unlink(e)
		}
		b.promote(a) // only after an overflow of costs there is something
		b.update(a)
	}
}

// relist keeps what keep says of an account that has this nonce, and finds again what of it is executable. It returns
// how many entries it dropped.
func (b *book) relist(a *account, nonce uint64, now time.Time, keep func(*entry) bool) (dropped int) {
	entries, ran := a.all(), len(a.executable)
	a.executable, a.gapped, a.cut, a.largestGas = nil, nil, 0, 0
	a.spent.Clear()
	a.dearest.Clear()
	a.state.nonce = nonce
	for i, e := range entries {
		if !keep(e) {
			b.unlink(e)
			dropped++
			continue
		}
		a.noteCaps(e)
		if len(a.gapped) == 0 && e.nonce == a.next() && a.appendExecutable(e) {
			if i >= ran {
				e.promised = true
				b.news = append(b.news, e.tx)
			}
			continue
		}
		if i < ran {
			e.waitsSince = now
		}
		a.gapped = append(a.gapped, e)
	}
	b.update(a)
	return dropped
}

// evictNewest drops the gapped entry with the highest nonce that a limit may drop, of the account with most of these.
// There must be one.
func (b *book) evictNewest() {
	a := b.gapped[0]
	for i := len(a.gapped) - 1; i >= 0; i-- {
		if e := a.gapped[i]; !e.promised {
			b.unlink(e)
			a.gapped = slices.Delete(a.gapped, i, i+1)
			b.update(a)
			return
		}
	}
}

// expire drops gapped entries that have waited too long for a missing nonce.
func (b *book) expire(now time.Time, lifetime time.Duration) (dropped int) {
	var due []*account
	for _, a := range b.gapped {
		if slices.ContainsFunc(a.gapped, func(e *entry) bool { return now.Sub(e.waitsSince) >= a.lifetime(lifetime) }) {
			due = append(due, a)
		}
	}
	for _, a := range due {
		next, life := a.next(), a.lifetime(lifetime)
		dropped += b.relist(a, a.state.nonce, now, func(e *entry) bool {
			return e.nonce < next || now.Sub(e.waitsSince) < life
		})
	}
	return dropped
}

func (a *account) lifetime(usual time.Duration) time.Duration {
	if a.state.isPenniless() {
		return min(usual, pennilessLifetime)
	}
	return usual
}

// tallied is an account's part of the book's counts.
type tallied struct {
	executable, gapped, evictable int
	evictableSlots                uint64
}

// update makes the book's counts and indexes true after a change of an account.
func (b *book) update(a *account) {
	was := a.tallied
	now := tallied{executable: len(a.executable), gapped: len(a.gapped)}
	for _, e := range a.gapped {
		if !e.promised {
			now.evictable++
			now.evictableSlots += e.slots
		}
	}
	a.tallied = now
	b.executable += now.executable - was.executable
	b.waiting += now.gapped - was.gapped
	b.evictable += now.evictableSlots - was.evictableSlots
	b.updateHead(a)
	switch {
	case now.gapped == 0 && a.gappedAt >= 0:
		heap.Remove(&b.gapped, a.gappedAt)
	case now.gapped > 0 && a.gappedAt < 0:
		heap.Push(&b.gapped, a)
	case now.gapped > 0:
		heap.Fix(&b.gapped, a.gappedAt)
	}
	if a.len() == 0 {
		delete(b.accounts, a.addr)
	}
}

func (b *book) updateHead(a *account) {
	last := len(b.heads) - 1
	switch {
	case len(a.executable) > 0 && a.headAt < 0:
		a.headAt = last + 1
		b.heads, b.owners = append(b.heads, a.executable), append(b.owners, a)
	case len(a.executable) > 0:
		b.heads[a.headAt] = a.executable
	case a.headAt >= 0:
		b.heads[a.headAt], b.owners[a.headAt] = b.heads[last], b.owners[last]
		b.owners[a.headAt].headAt = a.headAt
		b.heads[last], b.owners[last] = nil, nil
		b.heads, b.owners, a.headAt = b.heads[:last], b.owners[:last], -1
	}
}

// gappedHeap has the account with most evictable entries first.
type gappedHeap []*account

func (h gappedHeap) Len() int { return len(h) }
func (h gappedHeap) Less(i, j int) bool {
	if x, y := h[i].tallied.evictable, h[j].tallied.evictable; x != y {
		return x > y
	}
	return h[i].addr.Cmp(h[j].addr) < 0
}

func (h gappedHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].gappedAt, h[j].gappedAt = i, j
}

func (h *gappedHeap) Push(x any) {
	a := x.(*account)
	a.gappedAt = len(*h)
	*h = append(*h, a)
}

func (h *gappedHeap) Pop() any {
	n := len(*h) - 1
	a := (*h)[n]
	(*h)[n] = nil
	*h, a.gappedAt = (*h)[:n], -1
	return a
}

// nonceCounts counts entries by the low bits of their nonces. Other goroutines ask it without a lock: a count of 0 says
// that no entry has the nonce.
type nonceCounts [nonceBuckets]atomic.Int32

func (c *nonceCounts) add(nonce uint64, n int32)    { c[nonce%nonceBuckets].Add(n) }
func (c *nonceCounts) mayContain(nonce uint64) bool { return c[nonce%nonceBuckets].Load() > 0 }
