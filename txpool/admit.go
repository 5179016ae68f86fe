package txpool

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ethereum/go-ethereum/common"
	gethpool "github.com/ethereum/go-ethereum/core/txpool"
	"github.com/ethereum/go-ethereum/core/types"
)

// Add offers transactions to the pool and returns one error per transaction, nil where it was accepted: once it is
// executable it stays until it is in a block or can no longer be (its nonce was used, its sender cannot pay or is no
// longer allowed, or has replaced it). local marks transactions submitted at this node; they go to the journal. Add
// returns when the pool's nonces show the result. The pool keeps the transactions; they must not be changed.
func (p *Pool) Add(txs []*types.Transaction, local bool) []error {
	r := &request{txs: txs, local: local, errs: make([]error, len(txs)), listed: p.listed.Load(), done: make(chan struct{})}
	if r.entries = p.precheck(r.txs, r.errs, true); r.entries != nil {
		select {
		case p.requests <- r:
			select {
			case <-r.done:
			case <-p.ctx.Done():
				// The owner may be writing r.errs still.
				return p.closedErrors(len(txs))
			}
		case <-p.ctx.Done():
			return p.closedErrors(len(txs))
		}
	}
	accepted := 0
	for _, err := range r.errs {
		if err == nil {
			accepted++
		} else {
			p.metrics.refused.WithLabelValues(label(err)).Inc()
		}
	}
	origin := "remote"
	if local {
		origin = "local"
	}
	p.metrics.accepted.WithLabelValues(origin).Add(float64(accepted))
	return r.errs
}

func (p *Pool) closedErrors(n int) []error {
	errs := make([]error, n)
	for i := range errs {
		errs[i] = ErrClosed
	}
	return errs
}

// precheck does what needs neither state nor the owner goroutine, spread over the processors: known hashes, room, form,
// signature (the sender stays attached to the transaction), allow lists. It returns the entries of what got as far as the
// allow lists, nil if nothing did. limited is false for transactions that were accepted once.
func (p *Pool) precheck(txs []*types.Transaction, errs []error, limited bool) []*entry {
	var (
		next    atomic.Int64
		left    atomic.Bool
		wg      sync.WaitGroup
		entries = make([]*entry, len(txs))
	)
	work := func() {
		for {
			i := int(next.Add(1) - 1)
			if i >= len(txs) {
				return
			}
			if entries[i], errs[i] = p.check(txs[i], limited); entries[i] != nil {
				left.Store(true)
			}
		}
	}
	for n := min(runtime.GOMAXPROCS(0), (len(txs)+7)/8) - 1; n > 0; n-- {
		wg.Add(1)
		go func() { defer wg.Done(); work() }()
	}
	work()
	wg.Wait()
	if !left.Load() {
		return nil
	}
	return entries
}

// check refuses what it can for little first: above all a full pool costs no recovery of a signature, which takes most
// of the time, for what cannot be a replacement.
func (p *Pool) check(tx *types.Transaction, limited bool) (*entry, error) {
	if tx.Type() == types.BlobTxType {
		return nil, ErrBlob
	}
	if tx.Size() > MaxTransactionBytes {
		return nil, fmt.Errorf("%w: transaction size %d, limit %d", gethpool.ErrOversizedData, tx.Size(), MaxTransactionBytes)
	}
	if p.Has(tx.Hash()) {
		return nil, ErrAlreadyKnown
	}
	if limited && int64(slotsOf(tx)) > p.room.Load() && !p.mayReplaceInFull(tx.Nonce()) { //nolint:gosec // small
		return nil, p.errFull(p.room.Load())
	}
	from, err := p.sender(tx)
	if err != nil {
		return nil, err
	}
	if err := p.validate(tx); err != nil {
		return nil, err
	}
	if floor := p.fees.Load().floor; tx.GasFeeCapIntCmp(floor) < 0 {
		return nil, fmt.Errorf("%w: maxFeePerGas %s, the chain's lowest base fee is %s", errFeeBelowFloor, tx.GasFeeCap(), floor)
	}
	e, err := newEntry(tx, from, p.now())
	if err != nil {
		return nil, err
	}
	return e, p.checkAllowed(e)
}

// mayReplaceInFull reports whether a transaction is worth the recovery of its signature while there is no room for it:
// one with its nonce waits, and not too many were tried in this second.
func (p *Pool) mayReplaceInFull(nonce uint64) bool {
	if !p.book.nonces.mayContain(nonce) {
		return false
	}
	p.fullRecoveries.Lock()
	defer p.fullRecoveries.Unlock()
	return p.fullRecoveries.take(p.now(), recoveriesWhenFull)
}

func (p *Pool) errFull(room int64) error {
	return fmt.Errorf("%w: %d of %d slots are used; send it again after the next block", ErrFull, int64(p.cfg.GlobalSlots)-room, p.cfg.GlobalSlots) //nolint:gosec // validated
}

// validate checks a transaction by the rules of the head, without state.
func (p *Pool) validate(tx *types.Transaction) error {
	return gethpool.ValidateTransaction(tx, p.view.Load().header, p.signer, &gethpool.ValidationOptions{
		Config:  p.chain.Config(),
		Accept:  1<<types.LegacyTxType | 1<<types.AccessListTxType | 1<<types.DynamicFeeTxType | 1<<types.SetCodeTxType,
		MaxSize: MaxTransactionBytes,
		MinTip:  common.Big0,
	})
}

// sender recovers the sender, once in this node for a node that shares what it recovered, and attaches it to tx.
func (p *Pool) sender(tx *types.Transaction) (common.Address, error) {
	if p.deps.Senders == nil {
		from, err := types.Sender(p.signer, tx)
		if err != nil {
			return common.Address{}, fmt.Errorf("%w: %w", gethpool.ErrInvalidSender, err)
		}
		return from, nil
	}
	from, _, err := p.deps.Senders.Sender(tx)
	if err != nil {
		return common.Address{}, fmt.Errorf("%w: %w", gethpool.ErrInvalidSender, err)
	}
	return from, nil
}

func (p *Pool) checkAllowed(e *entry) error {
	if p.deps.Allowed == nil {
		return nil
	}
	err := p.deps.Allowed(e.from, e.tx.To() == nil)
	if err != nil && !errors.Is(err, ErrUnreadable) {
		return fmt.Errorf("%w: %w", ErrNotAllowed, err)
	}
	return err
}

// admit judges the transactions of all requests in the order they came and enters what it accepts. The journal has them
// before they are answered.
func (p *Pool) admit(rs []*request) {
	for _, r := range rs {
		changed := r.listed != p.listed.Load()
		for i, e := range r.entries {
			if r.errs[i] != nil {
				continue
			}
			if changed { // since precheck asked
				r.errs[i] = p.checkAllowed(e)
			}
			if r.errs[i] == nil {
				r.errs[i] = p.enter(e, true)
			}
		}
	}
	if p.journal != nil {
		p.journalAccepted(rs)
	}
	p.publish()
	for _, r := range rs {
		close(r.done)
	}
}

// enter judges one transaction by the pool and the state, and places it. No limit but the widest applies to one that is
// not limited: it was accepted once.
func (p *Pool) enter(e *entry, limited bool) error {
	if p.book.byHash[e.hash] != nil {
		return ErrAlreadyKnown
	}
	a := p.book.accounts[e.from]
	var old *entry
	var executable bool
	if a != nil {
		old, executable = a.at(e.nonce)
	}
	if old == nil {
		if err := p.checkRoom(e, limited); err != nil {
			return err
		}
	}
	if a == nil {
		s, err := p.accountAt(e.from)
		if err != nil {
			return err
		}
		a = newAccount(e.from, s)
	}
	if err := a.checkState(e, old, executable); err != nil {
		return err
	}
	if err := p.book.checkDelegation(a, e, executable); err != nil {
		return err
	}
	now := p.now()
	if old != nil {
		return p.replace(a, old, e, executable, limited)
	}
	if limited {
		if err := p.checkLimits(a, e); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for limited && p.book.slots+e.slots > p.cfg.GlobalSlots {
		p.book.evictNewest()
	}
	if p.isQueueFull() && limited && e.nonce > a.next() {
		p.book.evictNewest()
	}
	p.book.place(a, e, now)
	return nil
}

// checkRoom refuses what finds no slots, even if every gapped entry that may be dropped gave up its own.
func (p *Pool) checkRoom(e *entry, limited bool) error {
	b := p.book
	if !limited {
		if b.slots+e.slots > maxReturnedShare*p.cfg.GlobalSlots {
			return fmt.Errorf("%w: the transactions that came back take %d slots, %d are allowed", ErrFull, b.slots, maxReturnedShare*p.cfg.GlobalSlots)
		}
		return nil
	}
	if b.slots-b.evictable+e.slots > p.cfg.GlobalSlots {
		return p.errFull(int64(p.cfg.GlobalSlots) - int64(b.slots) + int64(b.evictable)) //nolint:gosec // validated
	}
	return nil
}

// checkLimits keeps an account from filling the pool, and bounds what waits for a missing nonce: per account by
// distance, over the pool by count. It says no to what could have room only at the cost of an account with as few.
func (p *Pool) checkLimits(a *account, e *entry) error {
	b, next := p.book, a.next()
	if waiting := uint64(a.len()); waiting >= p.cfg.AccountSlots && 2*b.slots >= p.cfg.GlobalSlots {
		return fmt.Errorf("%w: %s has %d transactions waiting and the pool is more than half full; send it again after the next block", ErrAccountFull, a.addr, waiting)
	}
	if e.nonce <= next {
		return nil
	}
	if ahead := e.nonce - next; ahead > p.cfg.AccountQueue {
		return fmt.Errorf("%w: nonce %d is %d ahead of the next nonce %d of %s, %d are allowed", ErrNonceTooFar, e.nonce, ahead, next, a.addr, p.cfg.AccountQueue)
	}
	if a.state.isPenniless() && len(a.gapped) >= pennilessQueue {
		return fmt.Errorf("%w: %s has no balance and no transaction in a block yet, so only %d of its transactions may wait for a missing nonce; submit nonce %d first", ErrAccountFull, a.addr, pennilessQueue, next)
	}
	isTight := b.slots+e.slots > p.cfg.GlobalSlots
	if !isTight && !p.isQueueFull() {
		return nil
	}
	// One entry of the account with most must make the room; one of an account with no more than this one would then have
	// to go for its newcomer, and so on without end.
	if len(b.gapped) == 0 || b.gapped[0].tallied.evictable <= a.tallied.evictable+1 || isTight && b.slots-minSlots+e.slots > p.cfg.GlobalSlots {
		return fmt.Errorf("%w: %d transactions wait for a missing nonce; submit nonce %d of %s first", ErrFull, b.waiting, next, a.addr)
	}
	return nil
}

// minSlots is what every entry gives up at least.
const minSlots = 1

func (p *Pool) isQueueFull() bool { return uint64(p.book.waiting) >= p.cfg.GlobalQueue } //nolint:gosec // a count
