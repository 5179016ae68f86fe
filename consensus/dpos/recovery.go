package dpos

import (
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// maxRecoveries is how many recoveries one chain may have: each is an act of its operators on a day when more than a third of
// the producers were lost.
const maxRecoveries = 256

// Recovery is what the machine needs of a recovery that this node's operator applied (rule 13): the chain goes on from Base,
// which is final by it as block 0 is, under Schedule, in a domain of its own that Hash names. Who makes it verified that the
// operators signed it.
type Recovery struct {
	Hash      common.Hash // of the statement; never zero
	Base      block.Point
	Height    uint64 // of Base
	FirstSlot uint64 // lowest slot of the first block behind Base
	Schedule  block.Schedule
}

// DomainAt is the recovery whose domain a block of this slot, and every vote on it, is bound to; zero: the chain's first one. It
// is a function of the slot, since no block of this history that is not behind a base has a slot above the base's.
func DomainAt(list []Recovery, slot uint64) common.Hash {
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].Base.Slot < slot {
			return list[i].Hash
		}
	}
	return common.Hash{}
}

// checkRecoveries checks recoveries that a chain may have in this order, oldest first.
func checkRecoveries(list []Recovery) error {
	if len(list) > maxRecoveries {
		return fmt.Errorf("dpos: %d recoveries, %d allowed", len(list), maxRecoveries)
	}
	seen := make(map[common.Hash]bool, len(list))
	for i := range list {
		r := &list[i]
		switch {
		case r.Hash == (common.Hash{}) || seen[r.Hash]:
			return fmt.Errorf("dpos: recovery %d has no hash of its own", i+1)
		case r.FirstSlot <= r.Base.Slot:
			return fmt.Errorf("dpos: recovery %s begins with slot %d, its base is of slot %d", r.Hash, r.FirstSlot, r.Base.Slot)
		case i > 0 && r.Height < list[i-1].Height:
			return fmt.Errorf("dpos: recovery %s has a base below that of the recovery before it", r.Hash)
		case i > 0 && r.Height == list[i-1].Height && r.Base != list[i-1].Base:
			return fmt.Errorf("dpos: recovery %s has another base of the height of the recovery before it", r.Hash)
		}
		if err := checkSchedule(r.Schedule); err != nil {
			return fmt.Errorf("dpos: recovery %s: %w", r.Hash, err)
		}
		seen[r.Hash] = true
	}
	return nil
}

// recoveryAt is the recovery that goes on from a block, the newest if there are several; nil for all other blocks.
func (u *rules) recoveryAt(p block.Point) *Recovery {
	for i := len(u.recoveries) - 1; i >= 0; i-- {
		if r := &u.recoveries[i]; r.Base == p {
			return r
		}
	}
	return nil
}

// newestRecovery is the one in force; nil if the chain has none.
func (u *rules) newestRecovery() *Recovery {
	if len(u.recoveries) == 0 {
		return nil
	}
	return &u.recoveries[len(u.recoveries)-1]
}

// recoverySequence is the place of a domain among those of the chain, from 0 for the one that it began with; -1: unknown.
func (u *rules) recoverySequence(domain common.Hash) int {
	if domain == (common.Hash{}) {
		return 0
	}
	for i := range u.recoveries {
		if u.recoveries[i].Hash == domain {
			return i + 1
		}
	}
	return -1
}

// checkRecovered checks that a header is of the history that the recoveries make: on the branch of each base, and the first
// block behind one, and none else, names its recovery and waits for its slot.
func (u *rules) checkRecovered(parent *node, h *Header) error {
	for i := range u.recoveries {
		if r := &u.recoveries[i]; h.Height == r.Height && h.Hash != r.Base.Hash {
			return fmt.Errorf("%w: block %d %s, the chain was recovered at %s", ErrBelowLIB, h.Height, h.Hash, r.Base.Hash)
		}
	}
	r := u.recoveryAt(parent.Point())
	switch {
	case r == nil && h.Recovery != (common.Hash{}):
		return fmt.Errorf("%w: block %d %s names recovery %s", ErrRecovered, h.Height, h.Hash, h.Recovery)
	case r == nil:
		return nil
	case h.Recovery == (common.Hash{}):
		return fmt.Errorf("%w: block %d %s goes on without the recovery %s", ErrBelowLIB, h.Height, h.Hash, r.Hash)
	case h.Recovery != r.Hash:
		return fmt.Errorf("%w: block %d %s names recovery %s, applied here is %s", ErrRecovered, h.Height, h.Hash, h.Recovery, r.Hash)
	case h.Slot < r.FirstSlot:
		return fmt.Errorf("%w: block %d %s has slot %d, the recovery begins with %d", ErrInvalid, h.Height, h.Hash, h.Slot, r.FirstSlot)
	}
	return nil
}

// provenBelow is what a child's chain has proven before its own record: what its parent's has, or the parent itself if it is a base.
func (u *rules) provenBelow(parent *node) (source block.Point, final proven) {
	if u.recoveryAt(parent.Point()) != nil {
		return parent.Point(), proven{parent.Height, parent.Point()}
	}
	return parent.source, parent.final
}

// regimeBehind is the regime of a block's children, where before is what rule 9 makes it: a base settles it on the recovery's
// schedule, whatever was under way.
func (u *rules) regimeBehind(p block.Point, before *regime) *regime {
	r := u.recoveryAt(p)
	if r == nil || before.domain == r.Hash {
		return before
	}
	g := r.settledRegime()
	g.before = before.count
	if u.endsAt(before.domain, p) {
		g.before = before.before // an earlier recovery settled this base: its own schedule is in the list
	}
	return g
}

// endsAt reports whether a domain is that of a recovery which goes on from this block.
func (u *rules) endsAt(domain common.Hash, base block.Point) bool {
	i := u.recoverySequence(domain)
	return i > 0 && u.recoveries[i-1].Base == base
}

func (r *Recovery) settledRegime() *regime {
	g := newRegime(settled, r.Schedule, nil, 0)
	g.domain = r.Hash
	return g
}

// checkRoot checks that the last irreversible block is of the history that the recoveries make. Its hash alone tells only for a
// base; else the domain of its children does: it is that of the newest recovery at or below it.
func (u *rules) checkRoot(root *node) error {
	at := u.recoverySequence(root.next.domain)
	if at < 0 {
		return fmt.Errorf("dpos: the last irreversible block %d was made after the recovery %s, which is not applied here: apply it again", root.Height, root.next.domain)
	}
	for i := range u.recoveries {
		r := &u.recoveries[i]
		if root.Height == r.Height && root.Hash != r.Base.Hash || root.Height > r.Height && at < i+1 || root.Height < r.Height && at >= i+1 {
			return fmt.Errorf("dpos: the last irreversible block %d %s is no ancestor of block %d %s, from which recovery %s goes on: this node's history is another",
				root.Height, root.Hash, r.Height, r.Base.Hash, r.Hash)
		}
	}
	return nil
}

// finalizeBase makes a base final by its recovery.
func (m *Machine) finalizeBase(n *node) {
	r := m.recoveryAt(n.Point())
	if r == nil || n.gone || n == m.tree.root {
		return
	}
	m.tree.justify(n)
	m.finalize(n)
}

// Domain names what this machine's votes and seals are bound to, beside the chain: the newest recovery, or zero. Nothing is signed in
// another one.
func (m *Machine) Domain() common.Hash {
	if r := m.newestRecovery(); r != nil {
		return r.Hash
	}
	return common.Hash{}
}

// PastDomain is one that a recovery ended at the base of the newest one: a certificate of its schedules on a block above the base proves
// that it went on.
type PastDomain struct {
	Domain    common.Hash      // zero: the one that the chain began with
	Schedules []block.Schedule // that counted behind the base
	EndedBy   common.Hash      // the recovery that came next
}

// PastDomains are those that may have gone on above the newest recovery's base, newest first: the one in which the base was made, if the
// base is here, and those of earlier recoveries from the same base. Domains that ended at a base below it are not told.
func (m *Machine) PastDomains() (out []PastDomain) {
	i := len(m.recoveries) - 1
	if i < 0 {
		return nil
	}
	for base := m.recoveries[i].Base; i > 0 && m.recoveries[i-1].Base == base; i-- {
		r := &m.recoveries[i-1]
		out = append(out, PastDomain{r.Hash, []block.Schedule{r.Schedule}, m.recoveries[i].Hash})
	}
	if next := m.tree.root.next; m.inForce(next) && len(next.before) > 0 {
		p := PastDomain{Schedules: next.before, EndedBy: m.recoveries[i].Hash}
		if i > 0 {
			p.Domain = m.recoveries[i-1].Hash
		}
		out = append(out, p)
	}
	return out
}

// inForceAt reports whether a slot is of the domain that is signed under: what was signed for one of an older domain binds the signer no
// more. Who verified such a signature went by the domain of its slot, so that it is genuine; it silences nobody.
func (m *Machine) inForceAt(slot uint64) bool { return DomainAt(m.recoveries, slot) == m.Domain() }

// inForce reports whether a regime is of the domain that is signed under.
func (m *Machine) inForce(r *regime) bool { return r.domain == m.Domain() }

// awaitsBase is the newest recovery while its base is not here; nil if there is nothing to wait for.
func (m *Machine) awaitsBase() *Recovery {
	if m.inForce(m.tree.root.next) {
		return nil
	}
	return m.newestRecovery()
}

// comingRegimes are those whose producers may matter here: at the head, at the LIB, and that of a recovery whose base is not here.
func (m *Machine) comingRegimes() []*regime {
	list := []*regime{m.tree.head().next, m.tree.root.next}
	if r := m.awaitsBase(); r != nil {
		list = append([]*regime{r.settledRegime()}, list...)
	}
	return list
}

// checkLog checks that the log holds nothing of a domain newer than those applied: what was signed there binds there.
func (u *rules) checkLog(records []SignRecord) error {
	for i := range records {
		if d := records[i].Recovery; u.recoverySequence(d) < 0 {
			return fmt.Errorf("dpos: the vote log says that this producer signs after the recovery %s, which is not applied here: apply it again", d)
		}
	}
	return nil
}

// enterDomain records the newest recovery before anything is signed under it.
func (s *signer) enterDomain(m *Machine) {
	r := m.newestRecovery()
	if m.cfg.Self == (common.Address{}) || r == nil {
		return
	}
	for i := range m.cfg.Signed {
		if x := &m.cfg.Signed[i]; x.Kind == RecordRecovery && x.Recovery == r.Hash {
			return
		}
	}
	m.out.Records = append(m.out.Records, s.recoveryRecord())
}

func (s *signer) recoveryRecord() SignRecord {
	return SignRecord{Kind: RecordRecovery, Recovery: s.domain}
}
