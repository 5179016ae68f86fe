package group

import (
	"cmp"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// States of a group, by Kafka's names.
const (
	stateEmpty      = "Empty"
	statePreparing  = "PreparingRebalance"
	stateCompleting = "CompletingRebalance"
	stateStable     = "Stable"
	stateDead       = "Dead"
)

type group struct {
	m      *Machine
	tenant *tenant
	name   string
	state  string
	heap   int // place in m.wakes, -1 none
	wake   time.Time

	generation int32
	kind       string // protocol type
	protocol   string
	leader     string
	members    map[string]*member
	joins      uint64
	static     map[string]string    // instance id -> member id
	pending    map[string]time.Time // ids given out -> when they lapse
	emptySince time.Time

	rebalanceBy time.Time // PreparingRebalance: when those who did not join are let go
	initial     bool      // PreparingRebalance of a group that was empty: more members are waited for
	joined      bool      // a member came since the last look
	initialBy   time.Time // the end of that waiting
	syncBy      time.Time // CompletingRebalance: when those who did not sync are let go
	storing     int32     // the generation whose assignment is on its way to the log, 0 none
	stored      []byte    // the group's record in the log
	storedAt    int64     // its offset, -1 none

	offsets   map[string]map[int32]committed
	commits   int // on their way to the log
	expireTry time.Time
	buried    []place // offsets of deleted topics that the log may still have
	buryBy    time.Time
}

type member struct {
	id, instance, client, host string
	number                     uint64 // order of joining
	session, rebalance         time.Duration
	protocols                  []kmsg.JoinGroupRequestProtocol
	bytes                      int
	assignment                 []byte
	deadline                   time.Time // session
	fresh                      bool      // in no generation yet
	synced                     bool      // sent SyncGroup in this generation

	join, sync *waiting // unanswered
}

// waiting is an unanswered JoinGroup or SyncGroup.
type waiting struct {
	token uint64
	req   kmsg.Request
}

// ordered are the members in the order of their joining.
func (g *group) ordered() []*member {
	l := make([]*member, 0, len(g.members))
	for _, m := range g.members {
		l = append(l, m)
	}
	slices.SortFunc(l, func(a, b *member) int { return cmp.Compare(a.number, b.number) })
	return l
}

// alive starts the member's session anew.
func (g *group) alive(mem *member) {
	mem.deadline = g.m.now.Add(mem.session)
	g.wakeAt(mem.deadline)
}

// lapses is when the member is taken for gone; the zero time: while it waits for an answer, never.
func (mem *member) lapses() time.Time {
	if (mem.join != nil || mem.sync != nil) && !mem.fresh {
		return time.Time{}
	}
	return mem.deadline
}

// metadata are the bytes of all members' protocols.
func (g *group) metadata() int {
	n := 0
	for _, m := range g.members {
		n += m.bytes
	}
	return n
}

// known counts for every protocol the members that know it, all but without (may be nil), and those members.
func (g *group) known(without *member) (counts map[string]int, members int) {
	counts = map[string]int{}
	for _, m := range g.members {
		if m == without {
			continue
		}
		members++
		for _, p := range m.protocols {
			counts[p.Name]++
		}
	}
	return counts, members
}

// supports tells whether a member with these protocols can be in the group, in the place of without or beside all.
func (g *group) supports(kind string, protocols []kmsg.JoinGroupRequestProtocol, without *member) bool {
	counts, others := g.known(without)
	if others == 0 {
		return kind != "" && len(protocols) > 0
	}
	return kind == g.kind && slices.ContainsFunc(protocols, func(p kmsg.JoinGroupRequestProtocol) bool { return counts[p.Name] == others })
}

// metadataOf is what the member said beside the protocol.
func (mem *member) metadataOf(protocol string) []byte {
	for _, p := range mem.protocols {
		if p.Name == protocol {
			return p.Metadata
		}
	}
	return nil
}

// elect picks the protocol that most members like best of those that all know; of equals the first by name.
func (g *group) elect() string {
	votes := map[string]int{}
	counts, members := g.known(nil)
	for _, m := range g.members {
		for _, p := range m.protocols {
			if counts[p.Name] == members {
				votes[p.Name]++
				break
			}
		}
	}
	best := ""
	for p, n := range votes {
		if best == "" || n > votes[best] || n == votes[best] && p < best {
			best = p
		}
	}
	return best
}

// check finds the member a request speaks for. A static member is known by its instance.
func (g *group) check(id string, instance *string) (*member, *kerr.Error) {
	if instance != nil {
		switch now, ok := g.static[*instance]; {
		case !ok:
			return nil, kerr.UnknownMemberID
		case now != id:
			return nil, kerr.FencedInstanceID
		}
	}
	mem := g.members[id]
	if mem == nil {
		return nil, kerr.UnknownMemberID
	}
	return mem, nil
}

// drop takes a member out of the group. Its unanswered requests end with err.
func (g *group) drop(mem *member, err *kerr.Error) {
	g.endJoin(mem, err)
	g.endSync(mem, err)
	delete(g.members, mem.id)
	if mem.instance != "" && g.static[mem.instance] == mem.id {
		delete(g.static, mem.instance)
	}
	if g.leader == mem.id {
		g.leader = ""
		if l := g.ordered(); len(l) > 0 {
			g.leader = l[0].id
		}
	}
}

func (g *group) endJoin(mem *member, err *kerr.Error) {
	if w := mem.join; w != nil {
		mem.join = nil
		g.alive(mem)
		g.m.answer(w.token, refuseJoin(w.req, err, mem.id))
	}
}

func (g *group) endSync(mem *member, err *kerr.Error) {
	if w := mem.sync; w != nil {
		mem.sync = nil
		g.alive(mem)
		g.m.answer(w.token, Refuse(w.req, err))
	}
}

// after is what follows when members went.
func (g *group) after() {
	switch g.state {
	case stateStable, stateCompleting:
		g.prepare()
	case statePreparing:
		g.tryComplete()
	}
}

// prepare starts a rebalance: all members are to join again.
func (g *group) prepare() {
	for _, mem := range g.ordered() {
		g.endSync(mem, kerr.RebalanceInProgress) // the others learn of it by their next heartbeat
	}
	g.initial = g.state == stateEmpty
	g.state = statePreparing
	longest := time.Duration(0)
	for _, mem := range g.members {
		longest = max(longest, mem.rebalance)
	}
	g.rebalanceBy = g.m.now.Add(longest)
	if g.initial {
		g.initialBy, g.joined = g.rebalanceBy, false
		g.rebalanceBy = g.m.now.Add(min(g.m.cfg.InitialDelay, longest))
	}
	g.wakeAt(g.rebalanceBy)
	g.tryComplete()
}

// tryComplete ends the rebalance if nobody is missing.
func (g *group) tryComplete() {
	if g.state != statePreparing || len(g.pending) > 0 && len(g.members) > 0 {
		return
	}
	if g.initial && len(g.members) > 0 && g.m.cfg.InitialDelay > 0 {
		return // by time alone
	}
	for _, mem := range g.members {
		if mem.join == nil {
			return
		}
	}
	g.complete()
}

// complete makes the next generation of those who joined. Dynamic members who did not are let go; static ones stay
// until their session ends.
func (g *group) complete() {
	waiting := 0
	for _, mem := range g.ordered() {
		switch {
		case mem.join != nil:
			waiting++
		case mem.instance == "":
			g.drop(mem, kerr.UnknownMemberID)
		}
	}
	if waiting == 0 && len(g.members) > 0 { // nobody could assign: wait for one of them, or for their sessions' end
		g.rebalanceBy = g.m.now.Add(g.longest())
		g.wakeAt(g.rebalanceBy)
		return
	}
	g.generation++
	g.m.tally.Rebalances++
	g.initial = false
	if len(g.members) == 0 {
		g.state, g.protocol, g.leader, g.emptySince = stateEmpty, "", "", g.m.now
		g.wakeAt(g.m.now.Add(idleGroup))
		g.store(nil)
		return
	}
	if l := g.members[g.leader]; l == nil || l.join == nil {
		for _, mem := range g.ordered() {
			if mem.join != nil {
				g.leader = mem.id
				break
			}
		}
	}
	g.protocol = g.elect()
	g.state = stateCompleting
	g.syncBy = g.m.now.Add(g.longest())
	g.wakeAt(g.syncBy)
	for _, mem := range g.ordered() {
		mem.assignment, mem.synced = nil, false
		if w := mem.join; w != nil {
			mem.join, mem.fresh = nil, false
			g.alive(mem)
			g.m.answer(w.token, g.joinAnswer(w.req, mem))
		}
	}
}

func (g *group) longest() time.Duration {
	d := g.m.cfg.MinSession
	for _, mem := range g.members {
		d = max(d, mem.rebalance)
	}
	return d
}

// expire does what the time asks for.
func (g *group) expire() {
	now := g.m.now
	due := func(t time.Time) bool { return !t.IsZero() && !t.After(now) }
	gone := false
	for id, t := range g.pending {
		if due(t) {
			delete(g.pending, id)
		}
	}
	for _, mem := range g.ordered() {
		if due(mem.lapses()) {
			g.drop(mem, kerr.UnknownMemberID)
			g.m.tally.Lapsed++
			gone = true
		}
	}
	if gone {
		g.after()
	} else {
		g.tryComplete() // a lapsed id may have been all that was missing
	}
	switch {
	case g.state == statePreparing && due(g.rebalanceBy):
		if left := g.initialBy.Sub(now); g.initial && g.joined && left > 0 {
			g.joined = false
			g.rebalanceBy = now.Add(min(g.m.cfg.InitialDelay, left))
		} else {
			g.complete()
		}
	case g.state == stateCompleting && due(g.syncBy) && g.storing != g.generation:
		for _, mem := range g.ordered() {
			if !mem.synced {
				g.drop(mem, kerr.UnknownMemberID)
			}
		}
		g.prepare()
	case g.state == stateEmpty:
		g.expireOffsets()
	}
	if g.state != stateDead && len(g.buried) > 0 && due(g.buryBy) {
		g.buryAgain()
	}
}

// next is when expire is due; the zero time: never.
func (g *group) next() (t time.Time) {
	sooner := func(x time.Time) {
		if !x.IsZero() && (t.IsZero() || x.Before(t)) {
			t = x
		}
	}
	for _, mem := range g.members {
		sooner(mem.lapses())
	}
	for _, x := range g.pending {
		sooner(x)
	}
	if len(g.buried) > 0 {
		sooner(g.buryBy)
	}
	switch g.state {
	case statePreparing:
		sooner(g.rebalanceBy)
	case stateCompleting:
		if g.storing != g.generation {
			sooner(g.syncBy)
		}
	case stateEmpty:
		sooner(g.nextExpiry())
	}
	return t
}

// store writes the group's record; then (may be nil) follows. A group that is empty writes that too, so that a
// take-over does not bring its members back.
func (g *group) store(then func(err *kerr.Error)) {
	value := encodeGroup(g.record(), -1)
	g.m.append([]Record{{groupKey(g.name), value}}, func(base int64, err *kerr.Error) {
		if g.state == stateDead {
			return
		}
		if err == nil {
			g.stored, g.storedAt = value, base
		}
		if then != nil {
			then(err)
		}
	})
}

// record is the group as it goes to the log.
func (g *group) record() stored {
	s := stored{generation: g.generation, kind: g.kind, protocol: g.protocol, leader: g.leader}
	if len(g.members) == 0 {
		s.emptySince = g.emptySince.UnixMilli()
	}
	for _, mem := range g.ordered() {
		s.members = append(s.members, storedMember{mem.id, mem.instance, mem.client, mem.host, mem.session, mem.rebalance, mem.protocols, mem.assignment})
	}
	return s
}
