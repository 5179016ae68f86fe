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
	"go.uber.org/zap"
)

// Add offers transactions to the pool and returns one error per transaction, nil where it was accepted: it then stays
// until it is in a block or can no longer be (its nonce was used, its sender cannot pay or is no longer allowed). local marks transactions
// submitted at this node; they go to the journal. Add returns when the pool's nonces show the result. The pool keeps
// the transactions; they must not be changed.
func (p *Pool) Add(txs []*types.Transaction, local bool) []error {
	r := &request{txs: txs, local: local, errs: make([]error, len(txs)), done: make(chan struct{})}
	if p.precheck(r.txs, r.errs) {
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

// precheck does what needs neither state nor the owner goroutine, spread over the processors: known hashes, form,
// signature (the sender stays attached to the transaction), allow lists. It reports whether any transaction is left.
func (p *Pool) precheck(txs []*types.Transaction, errs []error) bool {
	var (
		next atomic.Int64
		left atomic.Bool
		wg   sync.WaitGroup
	)
	work := func() {
		for {
			i := int(next.Add(1) - 1)
			if i >= len(txs) {
				return
			}
			if errs[i] = p.check(txs[i]); errs[i] == nil {
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
	return left.Load()
}

func (p *Pool) check(tx *types.Transaction) error {
	if p.legacy.Has(tx.Hash()) {
		return ErrAlreadyKnown
	}
	if tx.Type() == types.BlobTxType {
		return ErrBlob
	}
	if tx.Size() > MaxTransactionBytes { // before its signature costs anything
		return fmt.Errorf("%w: transaction size %d, limit %d", gethpool.ErrOversizedData, tx.Size(), MaxTransactionBytes)
	}
	from, err := p.sender(tx)
	if err != nil {
		return err
	}
	if err := p.legacy.ValidateTxBasics(tx); err != nil {
		return err
	}
	if floor := p.floor.Load(); tx.GasFeeCapIntCmp(floor) < 0 {
		return fmt.Errorf("%w: maxFeePerGas %s, the chain's lowest base fee is %s", errFeeBelowFloor, tx.GasFeeCap(), floor)
	}
	return p.checkAllowed(from, tx)
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

func (p *Pool) checkAllowed(from common.Address, tx *types.Transaction) error {
	if p.deps.Allowed != nil {
		err := p.deps.Allowed(from, tx.To() == nil)
		if errors.Is(err, ErrUnreadable) {
			return err
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotAllowed, err)
		}
	}
	return nil
}

// item is a transaction on its way into the pool, and where its answer goes.
type item struct {
	tx  *types.Transaction
	err *error
}

// admit checks room and hands the transactions of all requests to legacypool, in the order they came. One round is
// enough unless so many wait for a missing nonce that the answer to one transaction decides on the room for those
// behind it.
func (p *Pool) admit(rs []*request) {
	var work []item
	for _, r := range rs {
		for i, tx := range r.txs {
			if r.errs[i] == nil {
				work = append(work, item{tx, &r.errs[i]})
			}
		}
	}
	for wave := 0; len(work) > 0; wave++ {
		work = p.admitWave(work, wave == maxWaves-1)
	}
	if p.journal != nil {
		p.journalAccepted(rs)
	}
	for _, r := range rs {
		close(r.done)
	}
}

// admitWave is one round of legacypool. It returns what is to be tried again when the answers of this round are known;
// the last wave refuses it.
func (p *Pool) admitWave(work []item, last bool) (later []item) {
	var (
		batch []*types.Transaction
		where []*error
		room  = admission{p: p, next: make(map[common.Address]uint64), later: make(map[common.Address]bool)}
	)
	for _, x := range work {
		err := room.check(x.tx)
		switch {
		case errors.Is(err, errLater) && !last:
			later = append(later, x)
		case err != nil:
			*x.err = err
		default:
			batch, where = append(batch, x.tx), append(where, x.err)
		}
	}
	if len(batch) > 0 {
		for i, err := range p.legacy.Add(batch, true) {
			if *where[i] = err; err == nil {
				p.slots += slotsOf(batch[i])
			}
		}
	}
	return later
}

// errLater says that the room for a transaction depends on those before it in the same wave.
var errLater = fmt.Errorf("%w: too many transactions wait for a missing nonce; send it again after the next block", ErrFull)

// admission is the room check of one wave.
type admission struct {
	p       *Pool
	taken   uint64 // slots given away in this wave
	next    map[common.Address]uint64
	later   map[common.Address]bool // accounts with a transaction put off
	gapped  int                     // in the pool, and in this wave what may turn out gapped
	unsure  int                     // of these, those whose predecessor is in this wave: legacypool may refuse it
	counted bool                    // gapped holds the pool's count
}

func (a *admission) check(tx *types.Transaction) error {
	p := a.p
	from, err := types.Sender(p.signer, tx)
	if err != nil {
		return err
	}
	if err := p.checkAllowed(from, tx); err != nil { // once more: the lists may have changed since, and dropForbidden has passed
		return err
	}
	inPool := p.legacy.Nonce(from)
	next, ok := a.next[from]
	if !ok {
		next = inPool
	}
	size := slotsOf(tx)
	if p.slots+a.taken+size > p.cfg.GlobalSlots {
		p.recount()
		if p.slots+a.taken+size > p.cfg.GlobalSlots {
			return fmt.Errorf("%w: %d of %d slots are used; send it again after the next block", ErrFull, p.slots+a.taken, p.cfg.GlobalSlots)
		}
	}
	if tx.Nonce() >= next {
		if a.later[from] {
			return errLater
		}
		if err := a.checkAccount(from, next); err != nil {
			return err
		}
	}
	if tx.Nonce() > inPool && tx.Nonce() >= next {
		if err := a.checkGap(from, tx.Nonce(), next); err != nil {
			return err
		}
	}
	if tx.Nonce() == next {
		a.next[from] = next + 1
	}
	a.taken += size
	return nil
}

// checkGap bounds what waits for a missing nonce: per account by distance, over the pool by count. A transaction that
// follows one of this wave counts too: should legacypool refuse that one, this one waits.
func (a *admission) checkGap(from common.Address, nonce, next uint64) error {
	p := a.p
	if nonce-next > p.cfg.AccountQueue {
		return fmt.Errorf("%w: nonce %d is %d ahead of the next nonce %d of %s, %d are allowed", ErrNonceTooFar, nonce, nonce-next, next, from, p.cfg.AccountQueue)
	}
	if !a.counted {
		_, a.gapped = p.legacy.Stats()
		a.counted = true
	}
	if uint64(a.gapped) >= p.cfg.GlobalQueue {
		if nonce == next || a.unsure > 0 {
			a.later[from] = true
			return errLater
		}
		return fmt.Errorf("%w: %d transactions wait for a missing nonce; submit nonce %d of %s first", ErrFull, a.gapped, next, from)
	}
	a.gapped++
	if nonce == next {
		a.unsure++
	}
	return nil
}

// checkAccount keeps one account from filling the pool: beyond AccountSlots it gets room only while half is free.
func (a *admission) checkAccount(from common.Address, next uint64) error {
	p := a.p
	if 2*(p.slots+a.taken) >= p.cfg.GlobalSlots {
		p.recount()
	}
	if 2*(p.slots+a.taken) < p.cfg.GlobalSlots {
		return nil
	}
	pending, queued := p.legacy.ContentFrom(from)
	waiting := uint64(len(pending)+len(queued)) + next - p.legacy.Nonce(from)
	if waiting < p.cfg.AccountSlots {
		return nil
	}
	return fmt.Errorf("%w: %s has %d transactions waiting and the pool is more than half full; send it again after the next block", ErrAccountFull, from, waiting)
}

// recount makes slots exact, once per head: blocks free slots that nobody subtracts.
func (p *Pool) recount() {
	if !p.recounted {
		p.slots, p.recounted = p.count(), true
	}
}

// count is the exact number of slots in use.
func (p *Pool) count() uint64 {
	var n uint64
	pending, queued := p.legacy.Content()
	for _, m := range []map[common.Address][]*types.Transaction{pending, queued} {
		for _, txs := range m {
			for _, tx := range txs {
				n += slotsOf(tx)
			}
		}
	}
	return n
}

func slotsOf(tx *types.Transaction) uint64 { return (tx.Size() + slotBytes - 1) / slotBytes }

// abandoned are transactions of blocks that left the executed branch.
type abandoned struct {
	txs   types.Transactions
	tries int
	head  common.Hash // head at the last try
}

// abandonedTries is how many heads a returned transaction is offered to. The first ones may still contain it, when the
// call came before the chain had left the old branch.
const abandonedTries = 4

// Abandoned gives the pool the transactions of blocks that left the executed branch, oldest block first. They were
// accepted once, so no limit applies to them. It never blocks.
func (p *Pool) Abandoned(txs types.Transactions) {
	if len(txs) == 0 {
		return
	}
	p.mu.Lock()
	p.mu.abandoned = append(p.mu.abandoned, abandoned{txs: txs})
	p.mu.Unlock()
	p.HeadChanged()
}

func (p *Pool) readd(head common.Hash) {
	p.mu.Lock()
	work := p.mu.abandoned
	p.mu.abandoned = nil
	p.mu.Unlock()
	var again []abandoned
	for _, w := range work {
		if w.head == head {
			again = append(again, w)
			continue
		}
		errs := make([]error, len(w.txs))
		p.precheck(w.txs, errs)
		txs, left := p.splitAllowed(w.txs, errs)
		added := 0
		for i, err := range p.legacy.Add(txs, true) {
			if err == nil {
				added++
				p.slots += slotsOf(txs[i])
			} else if label(err) == "nonce_too_low" {
				left = append(left, txs[i])
			}
		}
		p.metrics.readded.Add(float64(added))
		if added > 0 {
			p.log.Info("transactions of abandoned blocks are back in the pool", zap.Int("added", added), zap.Int("abandoned", len(w.txs)))
		}
		if w.tries++; len(left) > 0 && w.tries < abandonedTries {
			again = append(again, abandoned{txs: left, tries: w.tries, head: head})
		}
	}
	if len(again) > 0 {
		p.mu.Lock()
		p.mu.abandoned = append(again, p.mu.abandoned...)
		p.mu.Unlock()
	}
}
