package txpool

import (
	"bytes"
	"errors"
	"math/big"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
)

// model is the pool's rules in their plainest form: one map per account, and everything counted again each time.
type model struct {
	cfg        Config
	free       bool
	gasLimit   uint64
	state      map[common.Address]accountState
	txs        map[common.Address]map[uint64]*modelTx
	superseded map[common.Hash]bool
	abandoned  []modelAbandoned
	announced  map[common.Hash]int // times that a transaction became executable
}

type modelTx struct {
	*types.Transaction
	from                common.Address
	entered, waits      time.Time
	executable, promise bool
}

type modelAbandoned struct {
	txs   types.Transactions
	tries int
	head  common.Hash
}

func newModel(cfg Config, b *modelBlock) *model {
	return &model{cfg: cfg, free: true, gasLimit: b.header.GasLimit, state: b.state, txs: make(map[common.Address]map[uint64]*modelTx),
		superseded: make(map[common.Hash]bool), announced: make(map[common.Hash]int)}
}

// next is the account's nonce behind its executable transactions.
func (m *model) next(a common.Address) uint64 {
	n := m.state[a].nonce
	for m.txs[a][n] != nil {
		n++
	}
	return n
}

// split lists an account's executable and its gapped transactions.
func (m *model) split(a common.Address) (executable, gapped []*modelTx) {
	for _, x := range m.txs[a] {
		if x.Nonce() < m.next(a) {
			executable = append(executable, x)
		} else {
			gapped = append(gapped, x)
		}
	}
	byNonce := func(x, y *modelTx) int { return int(x.Nonce()) - int(y.Nonce()) } //nolint:gosec // small
	slices.SortFunc(executable, byNonce)
	slices.SortFunc(gapped, byNonce)
	return executable, gapped
}

// refresh notes what became executable and what begins to wait.
func (m *model) refresh(now time.Time) {
	for a, txs := range m.txs {
		next := m.next(a)
		for _, x := range txs {
			switch is := x.Nonce() < next; {
			case is && !x.executable:
				x.executable, x.promise = true, true
				m.announced[x.Hash()]++
			case !is && x.executable:
				x.executable, x.waits = false, now
			}
		}
		if len(txs) == 0 {
			delete(m.txs, a)
		}
	}
}

type modelCounts struct{ slots, evictable, gapped int }

func (m *model) count() (c modelCounts) {
	for a := range m.txs {
		executable, gapped := m.split(a)
		c.gapped += len(gapped)
		for _, x := range append(executable, gapped...) {
			c.slots += int(slotsOf(x.Transaction)) //nolint:gosec // small
		}
		for _, x := range gapped {
			if !x.promise {
				c.evictable += int(slotsOf(x.Transaction)) //nolint:gosec // small
			}
		}
	}
	return c
}

// victim is the newest evictable transaction of the account with most, and how many it has.
func (m *model) victim() (v *modelTx, most int) {
	for a := range m.txs {
		_, gapped := m.split(a)
		gapped = slices.DeleteFunc(gapped, func(x *modelTx) bool { return x.promise })
		if n := len(gapped); n > most || n > 0 && n == most && a.Cmp(v.from) < 0 {
			most, v = n, gapped[n-1]
		}
	}
	return v, most
}

// add is Pool.Add of one transaction; limited is false for what was accepted once.
func (m *model) add(tx *types.Transaction, now time.Time, limited bool) error {
	from, _, _ := modelSenders{}.Sender(tx)
	x := &modelTx{Transaction: tx, from: from, entered: now, waits: now}
	size := int(slotsOf(tx)) //nolint:gosec // small
	old := m.txs[from][tx.Nonce()]
	c := m.count()
	global := int(m.cfg.GlobalSlots) //nolint:gosec // small
	switch {
	case old != nil && old.Hash() == tx.Hash():
		return ErrAlreadyKnown
	case old == nil && limited && c.slots-c.evictable+size > global, old == nil && !limited && c.slots+size > maxReturnedShare*global:
		return ErrFull
	}
	if err := m.affordable(x, old); err != nil {
		return err
	}
	if err := m.delegation(x, old); err != nil {
		return err
	}
	if old != nil {
		return m.replace(x, old, now, limited, c)
	}
	if limited {
		if err := m.limits(x, c); err != nil {
			return err
		}
		evict := func() {
			v, _ := m.victim()
			delete(m.txs[v.from], v.Nonce())
		}
		for m.count().slots+size > global {
			evict()
		}
		// One for one: what came back, or lost its predecessor, may hold more than the limit for a while.
		if tx.Nonce() > m.next(from) && m.count().gapped >= int(m.cfg.GlobalQueue) { //nolint:gosec // small
			evict()
		}
	}
	if m.txs[from] == nil {
		m.txs[from] = make(map[uint64]*modelTx)
	}
	m.txs[from][tx.Nonce()] = x
	m.refresh(now)
	return nil
}

func (m *model) affordable(x, old *modelTx) error {
	s := m.state[x.from]
	sum := x.Cost()
	executable, _ := m.split(x.from)
	for _, o := range executable {
		if o != old {
			sum.Add(sum, o.Cost())
		}
	}
	switch {
	case x.Nonce() < s.nonce:
		return ErrNonceTooLow
	case sum.Cmp(s.balance.ToBig()) > 0:
		return ErrInsufficient
	}
	return nil
}

func (m *model) delegation(x, old *modelTx) error {
	delegated := m.state[x.from].delegated
	for _, txs := range m.txs {
		for _, o := range txs {
			delegated = delegated || slices.Contains(o.SetCodeAuthorities(), x.from)
		}
	}
	executable, _ := m.split(x.from)
	switch {
	case delegated && (old == nil || !old.executable) && len(executable) > 0:
		return errInflight
	case delegated && (old == nil || !old.executable) && x.Nonce() != m.next(x.from):
		return errGappedDelegated
	}
	for _, a := range x.SetCodeAuthorities() {
		if len(m.txs[a]) > 1 {
			return errAuthorityReserved
		}
	}
	return nil
}

func (m *model) replace(x, old *modelTx, now time.Time, limited bool, c modelCounts) error {
	grown := int(slotsOf(x.Transaction)) - int(slotsOf(old.Transaction)) //nolint:gosec // small
	if limited && grown > 0 && c.slots+grown > int(m.cfg.GlobalSlots) {  //nolint:gosec // small
		return ErrFull
	}
	if !m.bumped(old.GasFeeCap(), x.GasFeeCap()) || !m.bumped(old.GasTipCap(), x.GasTipCap()) {
		if !limited || !m.free || m.superseded[x.Hash()] || now.Sub(old.entered) < freeReplacementAge {
			return ErrUnderpriced
		}
		m.superseded[old.Hash()] = true
	}
	x.promise, x.waits = old.promise, old.waits
	m.txs[x.from][x.Nonce()] = x
	m.refresh(now)
	return nil
}

func (m *model) bumped(old, next *big.Int) bool {
	least := new(big.Int).Mul(old, big.NewInt(100+int64(m.cfg.PriceBump))) //nolint:gosec // small
	return next.Cmp(old) > 0 && next.Cmp(least.Div(least, big.NewInt(100))) >= 0
}

func (m *model) limits(x *modelTx, c modelCounts) error {
	s, next := m.state[x.from], m.next(x.from)
	_, gapped := m.split(x.from)
	if len(m.txs[x.from]) >= int(m.cfg.AccountSlots) && 2*c.slots >= int(m.cfg.GlobalSlots) { //nolint:gosec // small
		return ErrAccountFull
	}
	if x.Nonce() <= next {
		return nil
	}
	if x.Nonce()-next > m.cfg.AccountQueue {
		return ErrNonceTooFar
	}
	if s.nonce == 0 && s.balance.IsZero() && len(gapped) >= pennilessQueue {
		return ErrAccountFull
	}
	size := int(slotsOf(x.Transaction))                                              //nolint:gosec // small
	if c.slots+size <= int(m.cfg.GlobalSlots) && c.gapped < int(m.cfg.GlobalQueue) { //nolint:gosec // small
		return nil
	}
	own := 0
	for _, o := range gapped {
		if !o.promise {
			own++
		}
	}
	if _, most := m.victim(); most <= own+1 || c.slots+size > int(m.cfg.GlobalSlots)+1 { //nolint:gosec // small
		return ErrFull
	}
	return nil
}

// follow is what a new head does, abandoned transactions included.
func (m *model) follow(b *modelBlock, now time.Time) {
	m.state, m.gasLimit = b.state, b.header.GasLimit
	m.dropIf(now, func(x *modelTx) bool {
		s := m.state[x.from]
		return x.Nonce() < s.nonce || x.Cost().Cmp(s.balance.ToBig()) > 0 || x.Gas() > m.gasLimit
	})
	m.dropIf(now, func(x *modelTx) bool { return b.noSend[x.from] || x.To() == nil && b.noMake[x.from] })
}

func (m *model) readd(b *modelBlock, now time.Time) {
	work := m.abandoned
	m.abandoned = nil
	for _, w := range work {
		if w.head == b.header.Hash() {
			m.abandoned = append(m.abandoned, w)
			continue
		}
		var left types.Transactions
		for _, tx := range w.txs {
			from, _, _ := modelSenders{}.Sender(tx)
			err := error(nil)
			switch {
			case tx.Gas() > m.gasLimit:
				err = ErrFull
			case b.noSend[from] || tx.To() == nil && b.noMake[from]:
				err = ErrNonceTooLow
			default:
				err = m.add(tx, now, false)
			}
			if errors.Is(err, ErrNonceTooLow) {
				left = append(left, tx)
			}
		}
		if w.tries++; len(left) > 0 && w.tries < abandonedTries {
			m.abandoned = append(m.abandoned, modelAbandoned{left, w.tries, b.header.Hash()})
		}
	}
}

// expire drops what has waited too long.
func (m *model) expire(now time.Time) {
	m.dropIf(now, func(x *modelTx) bool {
		s, life := m.state[x.from], m.cfg.Lifetime
		if s.nonce == 0 && s.balance.IsZero() {
			life = min(life, pennilessLifetime)
		}
		return !x.executable && now.Sub(x.waits) >= life
	})
}

func (m *model) dropIf(now time.Time, gone func(*modelTx) bool) {
	for _, txs := range m.txs {
		for n, x := range txs {
			if gone(x) {
				delete(txs, n)
			}
		}
	}
	m.refresh(now)
}

// order is what a Source must give, always the best of the accounts' first ones.
func (m *model) order(baseFee int64, popped common.Address) (out []common.Hash) {
	left := make(map[common.Address][]*modelTx)
	for a := range m.txs {
		left[a], _ = m.split(a)
	}
	fee := big.NewInt(baseFee)
	for {
		var best *modelTx
		for _, txs := range left {
			if len(txs) == 0 || txs[0].GasFeeCap().Cmp(fee) < 0 {
				continue
			}
			if best == nil || m.before(txs[0], best, fee) {
				best = txs[0]
			}
		}
		if best == nil {
			return out
		}
		out = append(out, best.Hash())
		if left[best.from] = left[best.from][1:]; best.from == popped {
			delete(left, best.from)
		}
	}
}

func (m *model) before(x, y *modelTx, fee *big.Int) bool {
	tx, _ := x.EffectiveGasTip(fee)
	ty, _ := y.EffectiveGasTip(fee)
	if c := tx.Cmp(ty); c != 0 {
		return c > 0
	}
	if !x.Time().Equal(y.Time()) {
		return x.Time().Before(y.Time())
	}
	return bytes.Compare(x.from[:], y.from[:]) < 0
}
