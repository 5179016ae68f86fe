package dpos

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// Machine is the consensus state. One goroutine owns it.
type Machine struct {
	rules
	cfg  Config
	tree *tree

	now    time.Duration
	slot   uint64
	ticked bool                                 // the time was told; for a signer: by a Tick, with which its start begins
	timed  bool                                 // the time is known, though it may be set anew before the first Tick
	snaps  [2 * patienceWindowSlots]block.Point // newest justified block known when a slot began, by slot mod length

	halted    bool // nothing is signed any more
	fewClocks bool // fewer clocks than a quorum's are known (rule 12)

	failed   *memory[common.Hash]
	reported map[seat]bool // double seals told, above the LIB
	pool     pool
	own      signer
	first    firstSync

	out       Ready // gathered by events
	ready     *Ready
	dirty     bool        // something that votes or the head depend on changed
	told      common.Hash // last Ready.Head
	toldAlarm time.Duration
	quietFrom uint64 // slot since which the LIB stands still, or in which our votes were sent again
	again     bool   // after a restart: send them at once
}

type seat struct {
	slot     uint64
	producer common.Address
}

// New starts a machine. The root is genesis, or what the last Final held; reversible blocks follow as HeaderEvents.
func New(cfg Config, root *Root) (*Machine, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if root == nil {
		return nil, errors.New("dpos: no root; start from GenesisRoot or a stored one")
	}
	for _, s := range []block.Schedule{root.own.cur, root.next.cur} {
		if err := checkSchedule(s); err != nil {
			return nil, fmt.Errorf("dpos: root: %w", err)
		}
	}
	m := &Machine{
		rules: rules{cfg.Params, cfg.Bugs, cfg.Recoveries}, cfg: cfg, tree: newTree(root.node()), failed: newMemory[common.Hash](maxFailed),
		reported: make(map[seat]bool), dirty: true,
	}
	m.tree.root.next = m.regimeBehind(m.tree.root.Point(), m.tree.root.next)
	if err := errors.Join(m.checkRoot(m.tree.root), m.checkLog(cfg.Signed)); err != nil {
		return nil, err
	}
	m.told = m.tree.root.Hash
	m.pool = newPool()
	m.own = newSigner(&cfg, m.Domain())
	m.own.enterDomain(m)
	m.own.trim(m.tree.root)
	return m, nil
}

// Step takes one event. An error says that the event was refused and changed nothing.
func (m *Machine) Step(ev Event) error {
	m.pool.work = 0
	switch ev := ev.(type) {
	case Tick:
		m.tick(ev.Now)
	case HeaderEvent:
		return m.enter(&ev.Header)
	case Executed:
		if n := m.tree.nodes[ev.Hash]; n != nil && !n.executed {
			m.tree.setExecuted(n)
			m.dirty = true
		}
	case Failed:
		return m.fail(ev.Hash)
	case TimeSet:
		m.setTime(ev.Now)
	case Clocks:
		m.dirty = m.dirty || m.fewClocks == ev.Enough
		m.fewClocks = !ev.Enough
	case Halt:
		m.halted = true
	case VotesEvent:
		return m.votes(ev.Votes)
	case VerifiedVotesEvent:
		return m.verifiedVotes(ev.Votes)
	case Tallied:
		return m.tallied(&ev)
	case CertificateEvent:
		return m.certificate(ev.Certificate)
	case RangeEvent:
		return m.enterRange(ev.Headers, ev.Certificate)
	case Begin:
		m.beginSession(ev.Session)
	case Renew:
		m.renewSession()
	case Heard:
		m.hearAnswer(&ev)
	case OwnSession:
		m.meetSession(ev.Session)
	case Accept:
		m.acceptAnswers()
	case Built:
		// A slot that was not used stays used: its record is in the WAL.
	default:
		return fmt.Errorf("%w: event %T", ErrInvalid, ev)
	}
	return nil
}

// tick moves the clock.
func (m *Machine) tick(now time.Duration) {
	if m.ticked && now <= m.now {
		m.own.drawFloor(m)
		return
	}
	slot := m.slotAt(now)
	if !m.ticked {
		began := int64(now / m.p.Slot())
		if now < 0 && now%m.p.Slot() != 0 {
			began-- // rounded down: slots before genesis are negative
		}
		m.first.drawLine(&m.cfg, began)
	}
	j := m.tree.just.Point()
	switch {
	case !m.ticked:
		for i := range m.snaps {
			m.snaps[i] = j
		}
		m.quietFrom = slot
	case slot > m.slot:
		from := m.slot + 1
		if n := uint64(len(m.snaps)); slot-m.slot > n {
			from = slot - n + 1
		}
		for s := from; s <= slot; s++ {
			m.snaps[s%uint64(len(m.snaps))] = j
		}
	}
	first := !m.ticked
	m.dirty = m.dirty || first || slot != m.slot
	m.now, m.slot, m.ticked, m.timed = now, slot, true, true
	m.lookAhead()
	if first {
		m.own.awake(m)
	}
	m.own.drawFloor(m)
}

// check is Check without the list of signatures; the node it gives is not in the tree.
func (m *Machine) check(h *Header) (*node, error) {
	root := m.tree.root
	switch {
	case m.tree.nodes[h.Hash] != nil:
		return nil, fmt.Errorf("%w: block %d %s", ErrKnown, h.Height, h.Hash)
	case h.Height <= root.Height || h.Slot <= root.Slot:
		return nil, fmt.Errorf("%w: block %d slot %d %s, LIB is %d slot %d", ErrBelowLIB, h.Height, h.Slot, h.Hash, root.Height, root.Slot)
	case m.failed.has(h.Hash):
		return nil, fmt.Errorf("%w: block %d %s failed in execution", ErrInvalid, h.Height, h.Hash)
	case m.failed.has(h.Parent):
		return nil, fmt.Errorf("%w: block %d %s: its parent failed in execution", ErrInvalid, h.Height, h.Hash)
	case m.future(h.Slot):
		return nil, fmt.Errorf("%w: block %d %s is of slot %d, the clock shows %d", ErrFuture, h.Height, h.Hash, h.Slot, m.slot)
	}
	parent := m.tree.nodes[h.Parent]
	if parent == nil {
		if h.Height == root.Height+1 { // its parent is of the LIB's height and not the LIB
			return nil, fmt.Errorf("%w: block %d %s branches off below the LIB", ErrBelowLIB, h.Height, h.Hash)
		}
		return nil, fmt.Errorf("%w: parent %s of block %d %s", ErrUnknownParent, h.Parent, h.Height, h.Hash)
	}
	return m.extend(parent, h)
}

// enter puts a header into the tree, with the certificates it carries.
func (m *Machine) enter(h *Header) error {
	n, err := m.check(h)
	if err != nil {
		return err
	}
	if err := m.room(n); err != nil {
		return err
	}
	m.attach(n)
	m.settle(n)
	m.reprove(n)
	if c := h.QC; c != nil {
		m.apply(n.ancestor(c.Target), c)
	}
	if c := h.FC; c != nil {
		m.apply(n.ancestor(c.Target), c)
	}
	m.finalizeBase(n)
	return nil
}

// reprove applies the QC on n that the log holds. It was verified before it was written.
func (m *Machine) reprove(n *node) {
	qc := m.own.proofs[n.Point()]
	if qc == nil || n.qc != nil || m.linked(qc.Link, n) != nil || m.quorate(qc, m.counting(n.own)) != nil {
		return
	}
	m.apply(n, qc)
}

// attach puts a checked node into the tree.
func (m *Machine) attach(n *node) {
	if i := slices.Index(m.out.Dropped, n.Hash); i >= 0 {
		m.out.Dropped = slices.Delete(m.out.Dropped, i, i+1) // it came back before anyone was told that it left
	}
	m.tree.insert(n)
	m.dirty = true
	m.witness(n)
	m.own.sealed(m, n)
}

// room makes place for a block, bounding what a producer who seals many blocks of one slot can make us hold. A new
// version replaces an old one rather than being refused: honest blocks may rest on any of them.
func (m *Machine) room(n *node) error {
	if len(m.tree.nodes) >= MaxTreeBlocks && n.parent != m.tree.head() {
		return fmt.Errorf("%w: %d reversible blocks", ErrFull, len(m.tree.nodes))
	}
	var oldest *node
	childless := 0
	for o := m.tree.slots[n.Slot]; o != nil; o = o.sibling {
		if o.Producer != n.Producer || o.leaf < 0 || o == n.parent {
			continue
		}
		childless++
		if o.justified || m.tree.preferred(o) || m.own.votedOn(o.Point()) {
			continue
		}
		if oldest == nil || o.seq < oldest.seq {
			oldest = o
		}
	}
	if childless < maxVersions || oldest == nil {
		return nil
	}
	m.remove(oldest)
	return nil
}

// remove takes a block and its descendants out of the tree.
func (m *Machine) remove(n *node) {
	m.out.Dropped = m.tree.detach(n, m.out.Dropped)
	m.tree.refresh()
	m.pool.pruneVotes(m.tree.root.Slot)
	m.dirty = true
}

// fail remembers an invalid block and removes it.
func (m *Machine) fail(hash common.Hash) error {
	n := m.tree.nodes[hash]
	if n != nil && n == m.tree.root {
		return fmt.Errorf("%w: block %d %s failed in execution but is final: more than a third of the producers, or this node, is broken", ErrInvalid, n.Height, n.Hash)
	}
	m.failed.add(hash)
	if n != nil {
		m.remove(n)
	}
	return nil
}

// certificate takes a certificate that came on its own.
func (m *Machine) certificate(c *block.Certificate) error {
	n, err := m.target(c)
	if err != nil {
		return err
	}
	if n.Slot <= m.tree.root.Slot && n != m.tree.root {
		return fmt.Errorf("%w: certificate on slot %d", ErrBelowLIB, c.Target.Slot)
	}
	if c.Kind == block.Prevote && n.qc != nil || c.Kind == block.Precommit && n.fc != nil {
		return fmt.Errorf("%w: %s certificate on slot %d", ErrKnown, c.Kind, c.Target.Slot)
	}
	m.apply(n, c)
	return nil
}

// target finds the block a certificate is for, and checks all of the certificate but its signatures.
func (m *Machine) target(c *block.Certificate) (*node, error) {
	if c == nil || c.Kind != block.Prevote && c.Kind != block.Precommit {
		return nil, fmt.Errorf("%w: no certificate", ErrInvalid)
	}
	n := m.tree.nodes[c.Target.Hash]
	if n == nil {
		n = m.tree.root.ancestor(c.Target)
	}
	switch {
	case n == nil && c.Target.Slot <= m.tree.root.Slot:
		return nil, fmt.Errorf("%w: certificate on slot %d %s", ErrBelowLIB, c.Target.Slot, c.Target.Hash)
	case n == nil:
		return nil, fmt.Errorf("%w: target %s of a certificate on slot %d", ErrUnknownParent, c.Target.Hash, c.Target.Slot)
	}
	if err := m.linked(c.Link, n); err != nil {
		return nil, err
	}
	return n, m.quorate(c, m.counting(n.own))
}

// apply takes note of a verified certificate on n.
func (m *Machine) apply(n *node, c *block.Certificate) {
	if n.gone {
		return // of the tail: final long since
	}
	m.dirty = true
	m.own.certified(m, n, c)
	if c.Kind == block.Prevote {
		if n.qc == nil {
			n.qc = c
		}
		m.tree.justify(n)
		m.evaluate(n.com)
		return
	}
	if n.fc == nil {
		n.fc = c
	}
	if n != m.tree.root {
		m.finalize(n)
	}
}

// finalize moves the LIB to n.
func (m *Machine) finalize(n *node) {
	path, dropped := m.tree.reroot(n)
	f := m.out.Final
	if f == nil {
		f = &Final{Hashes: make([]common.Hash, 0, len(path))}
		m.out.Final = f
	}
	for _, x := range path {
		f.Hashes = append(f.Hashes, x.Hash)
	}
	f.Point, f.Height, f.FC, f.QC, f.Root = n.Point(), n.Height, n.fc, n.qc, rootOf(n)
	f.Recovery = common.Hash{}
	if r := m.recoveryAt(n.Point()); r != nil && n.fc == nil {
		f.Recovery = r.Hash
	}
	m.out.Dropped = append(m.out.Dropped, dropped...)
	m.pool.pruneVotes(n.Slot)
	m.own.trim(n)
	for s := range m.reported {
		if s.slot <= n.Slot {
			delete(m.reported, s)
		}
	}
	m.quietFrom = m.slot
	m.dirty = true
}

// memory remembers the newest n keys.
type memory[K comparable] struct {
	set   map[K]struct{}
	order []K
	next  int
	limit int
}

func newMemory[K comparable](n int) *memory[K] {
	return &memory[K]{set: make(map[K]struct{}), limit: n}
}

func (m *memory[K]) has(k K) bool { _, ok := m.set[k]; return ok }

func (m *memory[K]) add(k K) {
	if m.has(k) {
		return
	}
	m.set[k] = struct{}{}
	if len(m.order) < m.limit {
		m.order = append(m.order, k)
		return
	}
	delete(m.set, m.order[m.next])
	m.order[m.next] = k
	m.next = (m.next + 1) % m.limit
}
