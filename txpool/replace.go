package txpool

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"
)

// replace puts an entry in the place of one with its sender and nonce. It costs a higher fee; on a chain whose fees are
// fixed at 0 it is free as well, within the bounds of limits.go. An abandoned transaction replaces nothing for free: its
// sender has chosen the other since.
func (p *Pool) replace(a *account, old, e *entry, executable, limited bool) error {
	if grown := p.book.slots - old.slots + e.slots; limited && grown > p.cfg.GlobalSlots && e.slots > old.slots {
		return fmt.Errorf("%w: the replacement takes %d slots more; send it again after the next block", ErrFull, e.slots-old.slots)
	}
	if !old.isBumped(e, p.cfg.PriceBump) {
		if err := p.checkFree(a, old, e, limited); err != nil {
			return err
		}
		p.superseded.put(old.hash)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.book.replace(a, old, e, executable)
	return nil
}

// checkFree bounds replacement without a higher fee. What was replaced so never replaces its successor: a peer that
// missed the successor relays it again, and the two would take turns in every pool.
func (p *Pool) checkFree(a *account, old, e *entry, limited bool) error {
	now := p.now()
	switch {
	case !limited || !p.fees.Load().free:
		return ErrUnderpriced
	case p.superseded.has(e.hash):
		return fmt.Errorf("%w: it was replaced itself", ErrUnderpriced)
	case now.Sub(old.entered) < freeReplacementAge:
		return fmt.Errorf("%w: one without a higher fee is taken %s after the transaction it replaces", ErrUnderpriced, freeReplacementAge)
	case !a.replaced.take(now, freeReplacementsAccount):
		return fmt.Errorf("%w: an account may make %d without a higher fee in a second", ErrUnderpriced, freeReplacementsAccount)
	case !p.replacements.take(now, freeReplacementsPool):
		return fmt.Errorf("%w: all accounts together may make %d without a higher fee in a second", ErrUnderpriced, freeReplacementsPool)
	}
	return nil
}

// superseded remembers the hashes put last, in two generations of at most supersededKept.
type superseded struct{ young, aged map[common.Hash]struct{} }

func (s *superseded) put(h common.Hash) {
	if s.young == nil || len(s.young) >= supersededKept {
		s.aged, s.young = s.young, make(map[common.Hash]struct{})
	}
	s.young[h] = struct{}{}
}

func (s *superseded) has(h common.Hash) bool {
	_, young := s.young[h]
	_, aged := s.aged[h]
	return young || aged
}
