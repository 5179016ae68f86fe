package dpos

import (
	"fmt"
	"sort"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
)

// pooled is a vote that may count. Its signature was not verified unless good or alone is set. A driver verifies votes
// before it gives them (VerifiedVotesEvent); the pool does not rely on that.
type pooled struct {
	block.Vote
	node *node // nil while the target is unknown
	good bool  // by itself or in a sum: a sum can be right though its parts are not
	bad  bool

	alone    bool         // good by itself
	key      block.BLSKey // under which it was found good
	unsought bool         // not compared with all the voter's others: the Step's work for that was spent
}

// voter holds one producer's votes above the LIB, oldest arrival first.
type voter struct {
	account common.Address
	known   []*pooled
	unknown []*pooled
	caught  map[offence]bool // told already
}

// tally gathers the votes on one block of one kind.
type tally struct {
	node  *node
	kind  block.VoteKind
	votes []*pooled // oldest arrival first; one voter's may differ in signature
	asked bool      // the driver verifies them
	stuck bool      // the driver found no fault and no quorum; wait for another vote
}

// question is a Tally that the driver has not answered yet.
type question struct {
	t         *tally // nil: one vote alone
	link      block.Link
	picks     []*pooled
	schedules []block.Schedule // hold the voters' keys
}

type pool struct {
	voters    []*voter // in order of first vote, so that no result depends on the order of a map
	index     map[common.Address]*voter
	unknown   int
	questions map[uint64]*question
	lastID    uint64
	suspects  []*suspicion
	ownCheck  bool // a vote in our name that we do not know is being verified
	work      int  // done in this Step in search of guilty pairs
}

func newPool() pool {
	return pool{index: make(map[common.Address]*voter), questions: make(map[uint64]*question)}
}

func (p *pool) voter(a common.Address) *voter {
	v := p.index[a]
	if v == nil {
		v = &voter{account: a}
		p.index[a] = v
		p.voters = append(p.voters, v)
	}
	return v
}

func (m *Machine) votes(vs []block.Vote) error {
	if len(vs) > MaxVotesPerEvent {
		return fmt.Errorf("%w: %d votes at once, %d allowed", ErrInvalid, len(vs), MaxVotesPerEvent)
	}
	for i := range vs {
		if m.plausible(&vs[i]) {
			m.addVote(&pooled{Vote: vs[i]})
		}
	}
	return nil
}

// plausible drops votes that can count for nothing.
func (m *Machine) plausible(v *block.Vote) bool {
	return v.Target.Slot > m.tree.root.Slot && !m.future(v.Target.Slot) && wellFormed(v)
}

// addVote pools a vote that came from outside, or ours that was just cast.
func (m *Machine) addVote(x *pooled) {
	v := &x.Vote
	n := m.tree.nodes[v.Target.Hash]
	x.node = n
	if v.Voter == m.cfg.Self && !m.own.cast(v.Link) {
		m.doubt(x)
		return
	}
	if n == nil && v.Voter == m.cfg.Self {
		return // settle counts it when the block comes
	}
	if n != nil && (m.linked(v.Link, n) != nil || !n.own.sits(v.Voter)) {
		return
	}
	if n == nil && m.seated(v) == nil {
		return
	}
	if n != nil {
		x.checkKey()
	}
	w := m.pool.voter(v.Voter)
	if !m.isNew(w, x) {
		return
	}
	m.suspect(w, x)
	if n == nil {
		m.pool.addUnknown(w, x)
		return
	}
	m.place(w, x)
}

// isNew reports whether a vote adds something to those of the voter on the same link: the first, a few more while none
// is verified, and always the first verified one.
func (m *Machine) isNew(w *voter, x *pooled) bool {
	list := w.unknown
	if x.node != nil {
		list = w.known
	}
	versions := 0
	for _, o := range list {
		if o.Link != x.Link {
			continue
		}
		if o.Voter == m.cfg.Self { // ours came back with its signature
			if o.Signature == (block.BLSSignature{}) {
				o.Signature = x.Signature
			}
			return false
		}
		if o.good && !x.alone || o.alone {
			return false
		}
		if versions++; !x.alone && (o.Signature == x.Signature || versions == maxVersionsPerVote) {
			return false
		}
	}
	return true
}

// addUnknown keeps a vote until its block comes. Beyond the voter's share the one on the oldest slot leaves.
func (p *pool) addUnknown(w *voter, x *pooled) {
	w.unknown = append(w.unknown, x)
	p.unknown++
	if len(w.unknown) <= maxUnknownPerVoter {
		return
	}
	oldest := 0
	for i, o := range w.unknown {
		if o.Target.Slot < w.unknown[oldest].Target.Slot {
			oldest = i
		}
	}
	w.unknown = append(w.unknown[:oldest:oldest], w.unknown[oldest+1:]...)
	p.unknown--
}

// place counts a vote on a known block.
func (m *Machine) place(w *voter, x *pooled) {
	w.known = append(w.known, x)
	if len(w.known) > maxVotesPerVoter {
		old := w.known[0]
		w.known = append(w.known[:0:0], w.known[1:]...)
		old.node.tallyOf(old.Kind).drop(old)
	}
	t := x.node.tallyOf(x.Kind)
	t.votes = append(t.votes, x)
	t.stuck = false
	m.evaluate(t)
}

func (n *node) tallyOf(k block.VoteKind) *tally {
	p := &n.pre
	if k == block.Precommit {
		p = &n.com
	}
	if *p == nil {
		*p = &tally{node: n, kind: k}
	}
	return *p
}

func (t *tally) drop(x *pooled) {
	for i, o := range t.votes {
		if o == x {
			t.votes = append(t.votes[:i:i], t.votes[i+1:]...)
			return
		}
	}
}

// settle counts the votes that waited for block n, ours included.
func (m *Machine) settle(n *node) {
	for _, l := range m.own.on(n.Point()) {
		m.pool1(l)
	}
	if m.pool.unknown == 0 {
		return
	}
	for _, w := range m.pool.voters {
		var mine []*pooled
		keep := w.unknown[:0]
		for _, x := range w.unknown {
			if x.Target.Hash == n.Hash {
				mine = append(mine, x)
			} else {
				keep = append(keep, x)
			}
		}
		clear(w.unknown[len(keep):])
		w.unknown = keep
		m.pool.unknown -= len(mine)
		for _, x := range mine {
			if m.linked(x.Link, n) != nil || !n.own.sits(w.account) {
				x.bad = true
				continue
			}
			x.node = n
			x.checkKey()
			m.crossed(w, x)
			m.place(w, x)
		}
	}
}

// pool1 counts one of our own votes.
func (m *Machine) pool1(l block.Link) {
	if l.Target.Slot > m.tree.root.Slot {
		m.addVote(&pooled{Vote: block.Vote{Link: l, Voter: m.cfg.Self}})
	}
}

// evaluate asks for a certificate when a quorum under every schedule may be there.
func (m *Machine) evaluate(t *tally) {
	if t == nil || t.asked || t.stuck || t.node.gone {
		return
	}
	n := t.node
	if t.kind == block.Prevote && n.qc != nil || t.kind == block.Precommit && (n.fc != nil || !n.justified) {
		return
	}
	schedules := m.counting(n.own)
	if len(t.votes) < m.quorum(schedules[0]) {
		return
	}
	best := make(map[common.Address]*pooled, len(t.votes))
	for _, x := range t.votes {
		if o := best[x.Voter]; o == nil || x.good && !o.good {
			best[x.Voter] = x
		}
	}
	var picks []*pooled
	for i, s := range schedules {
		count := 0
		for j := range s {
			x := best[s[j].Account]
			if x == nil {
				continue
			}
			count++
			if i == 0 || schedules[0].Index(s[j].Account) < 0 {
				picks = append(picks, x)
			}
		}
		if count < m.quorum(s) {
			return
		}
	}
	t.asked = true
	m.ask(&question{t: t, link: picks[0].Link, picks: picks}, schedules)
}

func (m *Machine) ask(q *question, schedules []block.Schedule) {
	m.pool.lastID++
	q.schedules = schedules
	m.pool.questions[m.pool.lastID] = q
	votes := make([]block.Vote, len(q.picks))
	for i, x := range q.picks {
		votes[i] = x.Vote
	}
	m.out.Tallies = append(m.out.Tallies, Tally{ID: m.pool.lastID, Link: q.link, Schedules: schedules, Votes: votes})
}

// tallied takes the driver's answer.
func (m *Machine) tallied(ev *Tallied) error {
	q := m.pool.questions[ev.ID]
	if q == nil {
		return nil // of a block that left
	}
	c := ev.Certificate
	if c != nil && q.t != nil {
		if c.Link != q.link {
			return fmt.Errorf("%w: answer to a tally holds a certificate on another link", ErrInvalid)
		}
		if err := m.quorate(c, m.counting(q.t.node.own)); err != nil {
			return err
		}
	}
	delete(m.pool.questions, ev.ID)
	found := false
	for _, x := range q.picks {
		for _, a := range ev.Bad {
			if x.Voter == a {
				x.bad = true
			}
		}
		if x.good = !x.bad; x.bad {
			found = true
			m.discard(x)
			continue
		}
		x.alone = x.alone || len(q.picks) == 1
		x.key = keyIn(q.schedules, x.Voter)
		if w := m.pool.index[x.Voter]; x.unsought && w != nil && (x.node == nil || !x.node.gone) {
			x.unsought = false
			m.suspect(w, x) // a genuine vote is not lost in a flood of others
		}
	}
	m.convict()
	if q.t == nil {
		m.recognise(q.picks[0])
		return nil
	}
	q.t.asked = false
	if q.t.node.gone {
		return nil
	}
	if c != nil {
		m.apply(q.t.node, c)
		return nil
	}
	q.t.stuck = !found
	m.evaluate(q.t)
	return nil
}

// keyIn is the key that a driver verifies the account's votes under: that of its first seat.
func keyIn(schedules []block.Schedule, a common.Address) (key block.BLSKey) {
	for _, s := range schedules {
		if i := s.Index(a); i >= 0 {
			return s[i].Key
		}
	}
	return key
}

// discard forgets a vote whose signature is wrong, so that its pretended voter may vote again.
func (m *Machine) discard(x *pooled) {
	w := m.pool.index[x.Voter]
	if w == nil {
		return
	}
	w.known = without(w.known, x)
	if k := len(w.unknown); k > 0 {
		w.unknown = without(w.unknown, x)
		m.pool.unknown -= k - len(w.unknown)
	}
	if x.node != nil {
		x.node.tallyOf(x.Kind).drop(x)
	}
}

func without(list []*pooled, x *pooled) []*pooled {
	for i, o := range list {
		if o == x {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// sortVotes sorts newest first, by target, then kind.
func sortVotes(vs []block.Vote) {
	sort.SliceStable(vs, func(i, j int) bool {
		a, b := &vs[i], &vs[j]
		if a.Target.Slot != b.Target.Slot {
			return a.Target.Slot > b.Target.Slot
		}
		return a.Kind > b.Kind
	})
}

// pruneVotes forgets votes at or below the LIB and on blocks that left, and voters without votes.
func (p *pool) pruneVotes(lib uint64) {
	voters := p.voters[:0]
	p.unknown = 0
	for _, w := range p.voters {
		w.known = kept(w.known, lib)
		w.unknown = kept(w.unknown, lib)
		p.unknown += len(w.unknown)
		for o := range w.caught {
			if o.slot <= lib {
				delete(w.caught, o)
			}
		}
		if len(w.known)+len(w.unknown)+len(w.caught) == 0 {
			delete(p.index, w.account)
			continue
		}
		voters = append(voters, w)
	}
	clear(p.voters[len(voters):])
	p.voters = voters
	for id, q := range p.questions {
		if q.t != nil && q.t.node.gone {
			delete(p.questions, id)
		}
	}
}

func kept(list []*pooled, lib uint64) []*pooled {
	keep := list[:0]
	for _, x := range list {
		if x.Target.Slot > lib && (x.node == nil || !x.node.gone) {
			keep = append(keep, x)
		}
	}
	clear(list[len(keep):])
	return keep
}
