package replica

import (
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"
)

// role is what a broker does for a partition under the lease it has seen.
type role uint8

const (
	idle      role = iota // no lease, no replica, or an epoch below the promise
	following             // another broker leads
	fencing               // leads: waits for the promises of a majority
	fetching              // leads: takes what it lacks from the replica with the best log
	entering              // leads: waits until its own acceptance is on disk
	leading               // leads: appends; ready once a majority accepted
	retired               // an earlier process of this broker led the epoch: it takes another one
)

var errSilent = errors.New("replica: no answer")

var roleNames = [...]string{"idle", "following", "fencing", "fetching", "entering", "leading", "retired"}

func (r role) String() string { return roleNames[r] }

// effects is what a core wants done. All are calls that return at once; the partition's lock is held.
type effects interface {
	send(peer string)                   // next has something for the peer
	persist(m Mark, s snapshot)         // call synced with s once m is on disk
	commit(from, to int64)              // these are committed now
	ledNow(epoch int32)                 // appends are taken from now on
	ledOver()                           // and no more
	busy()                              // call retry now and then until calm is true
	lost()                              // the lease's epoch has no leader any more: this broker should claim the next
	linked(peer string) bool            // whether there is a link with it
	now() int64                         // ms
	openStash(create bool) (Log, error) // log of batches that the leader lacks; nil: none
	dropStash() error                   // removes it
	count(what event, n int)
}

// snapshot is a log's state at a moment.
type snapshot struct {
	cuts               uint64 // how often the log had been cut by then
	end                int64
	promised, accepted int32
}

// core is one partition on one broker. See the package's documentation for who may call it.
type core struct {
	self string
	id   ID
	data Log
	out  effects
	log  *zap.Logger

	lease   Lease
	role    role
	broken  error // the log and the leader's contradict each other, or the log fails: nothing is taken until the next lease
	apart   bool  // it has what was committed and the log that counts lacks: it may be the last to have it
	cuts    uint64
	lostAt  uint64 // cuts when the log was last found damaged: what was on disk before says nothing of what is accepted
	durable snapshot
	hw      int64

	// Of a follower.
	aligned   bool // its log is a part of the leader's, from the start
	leaderHW  int64
	leaderAt  int64 // where the leader's log starts
	sendState bool
	sendAck   bool
	serving   *item // what the new leader wants to fetch

	// Of a leader.
	members  map[string]*member // the other replicas
	initEnd  int64
	led      int32 // newest epoch in which this process was ready; -2: none
	kept     bool  // it was ready in the epoch before: its log is the best there is
	told     bool  // that the log was lost
	ready    bool
	source   string // replica with the best log
	fetchEnd int64
	askFetch bool
	asked    int      // retries since the source gave something
	waiting  []waiter // appends that wait for a majority, by offset
	salvage  *salvage // nil until a replica hands batches over

	guests    map[string]int64 // brokers that are no replicas (any more): their stash is safe up to here
	stash     Log              // batches that the leader lacks; nil: none
	stashSent bool
	retries   int
	retire    map[string]bool // replicas to be told that this leader cannot go on
}

// member is another replica as its leader sees it.
type member struct {
	linked bool
	lied   bool   // about its log: it has no say in the election
	fence  bool   // to be asked for its state
	state  *item  // its promise; nil: not known
	stream uint64 // counts beginnings; 0: nothing may be sent
	first  bool   // of the stream
	start  bool   // its log begins anew
	match  int64
	next   int64
	init   int64 // what it needs to have for its acceptance
	acked  int64 // on its disk
	joined bool  // it accepted the epoch
	flight []sent
	flying int // bytes of flight
	toldHW int64
	toldAt int64 // the start that it was told

	salvaged     int64 // tell it that its stash is safe up to here
	tellSalvaged bool
}

type sent struct {
	next  int64
	bytes int
}

type waiter struct {
	next int64
	done chan error // buffered
}

func newCore(self string, id ID, data Log, out effects, log *zap.Logger) (*core, error) {
	c := &core{self: self, id: id, data: data, out: out, log: log, members: map[string]*member{}, guests: map[string]int64{}, led: -2}
	c.lease = Lease{Topic: id.Topic, Partition: id.Partition, Epoch: -1}
	c.durable = c.snapshot()
	c.hw = min(data.Committed(), data.End())
	var err error
	c.stash, err = out.openStash(false)
	return c, err
}

// afterLoss is the core of a log that was found damaged and cut, durably at m: as after a start that found the damage, but
// that what is on its way to the disk is known.
func (c *core) afterLoss(m Mark) (*core, error) {
	lease := c.lease
	c.stepDown()
	next, err := newCore(c.self, c.id, c.data, c.out, c.log)
	if err != nil {
		return nil, err
	}
	next.cuts, next.lostAt, next.apart = c.cuts+1, c.cuts+1, c.apart
	next.durable = snapshot{cuts: next.cuts, promised: c.durable.promised, accepted: -1}
	if c.durable.cuts == c.cuts {
		next.durable.end = min(c.durable.end, c.data.End())
	}
	next.out.persist(m, next.snapshot())
	if lease.Epoch >= 0 {
		lease.Whole = false
		return next, next.setLease(lease)
	}
	return next, nil
}

func (c *core) snapshot() snapshot {
	a, end := c.data.Position()
	return snapshot{cuts: c.cuts, end: end, promised: c.data.Promised(), accepted: a}
}

func (c *core) majority() int { return len(c.lease.Replicas)/2 + 1 }

// setLease takes a lease from final chain state. Older ones are ignored. After an error it is to be called again.
func (c *core) setLease(l Lease) error {
	switch {
	case l.before(&c.lease):
		return nil
	case l.same(&c.lease):
		c.lease.Unclean = l.Unclean
		if c.role == fencing {
			c.elect()
		}
		return nil
	}
	goesOn := l.Leader == c.self && l.Epoch == c.led+1
	c.stepDown()
	if err := c.know(&l); err != nil {
		return err
	}
	promised := c.data.Promised()
	if l.Epoch > promised && slices.Contains(l.Replicas, c.self) {
		m, err := c.data.Promise(l.Epoch)
		if err != nil && l.Leader == c.self && len(l.Replicas) > 1 {
			c.lease, c.broken, c.role = l, nil, fencing
			c.fail("the promise cannot be written", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("replica: promise of epoch %d: %w", l.Epoch, err)
		}
		c.out.persist(m, c.snapshot())
	}
	c.lease, c.broken = l, nil
	if l.Epoch < promised {
		c.role = idle // this broker has promised a later epoch before its restart; the chain's state will show it
		return nil
	}
	if !slices.Contains(l.Replicas, c.self) {
		c.role = idle
		c.leave()
		return nil
	}
	switch {
	case l.Leader != c.self:
		c.role = following
		c.sendState = true
		c.out.send(l.Leader)
		c.handOver()
	case l.Epoch == promised, promised < 0 && c.forgot():
		// The process before this one may have led the epoch, also where the disk with its promise was lost. What it sent to
		// others and did not have on disk may differ from what this one would send: one epoch, two logs. Another epoch is the
		// way out. Without its disk it would lead that one only when it has copied everything: the others may claim first.
		c.role = retired
		if c.forgot() {
			c.giveUp()
		}
		c.out.lost()
	default:
		c.role, c.kept = fencing, goesOn
		for _, r := range l.Replicas {
			if r != c.self && c.members[r] == nil {
				c.members[r] = &member{linked: c.out.linked(r), fence: true}
				c.out.send(r)
			}
		}
		c.out.busy()
	}
	return nil
}

// know notes of a log that is new in a store older than its place among the replicas that it lacks nothing: it has all
// that was there before the first epoch.
func (c *core) know(l *Lease) error {
	if !l.Whole || !c.forgot() || c.data.Promised() >= 0 || !slices.Contains(l.Replicas, c.self) {
		return nil
	}
	m, err := c.data.Enter(0)
	if err != nil {
		return fmt.Errorf("replica: note that the log is new: %w", err)
	}
	c.out.persist(m, c.snapshot())
	return nil
}

// forgot reports that the log may lack what this broker once had on a disk that was lost. Such a replica has no say in
// elections until it has accepted an epoch.
func (c *core) forgot() bool {
	a, _ := c.data.Position()
	return a < 0
}

// leave sets aside what is not known to be committed, now that this broker is no replica: some of it may be
// acknowledged and nowhere else.
func (c *core) leave() {
	if from := max(c.hw, c.data.Start()); from < c.data.End() {
		if err := c.align(from, false, 0); err != nil {
			c.fail("what it has and others may lack cannot be set aside", err)
		}
	}
	c.handOver()
}

// giveUp tells the other replicas that this leader cannot go on in this epoch, and that one of them should.
func (c *core) giveUp() {
	c.role, c.retire = retired, map[string]bool{}
	for _, r := range c.lease.Replicas {
		if r != c.self {
			c.retire[r] = true
			c.out.send(r)
		}
	}
}

// stepDown ends what the lease so far brought.
func (c *core) stepDown() {
	for _, w := range c.waiting {
		w.done <- ErrNotLeader
	}
	if c.ready {
		c.out.ledOver()
	}
	c.role, c.waiting, c.salvage, c.retire, c.guests = idle, nil, nil, nil, map[string]int64{}
	c.aligned, c.leaderHW, c.leaderAt, c.sendState, c.sendAck, c.serving = false, 0, 0, false, false, nil
	c.initEnd, c.ready, c.source, c.fetchEnd, c.askFetch, c.asked = 0, false, "", 0, false, 0
	c.kept, c.told = false, false
	c.members = map[string]*member{}
	c.stashSent = false
}

// fail stops work on the partition: a leader's until the next lease, a follower's for a while.
func (c *core) fail(what string, err error) {
	if c.broken != nil {
		return
	}
	c.broken, c.led = err, -2 // its log is not to be relied on without looking at others
	c.apart = c.apart || errors.Is(err, errApart)
	c.out.count(eventBroken, 1)
	c.log.Error("replication of a partition stops: "+what, zap.Binary("topic", c.id.Topic[:]),
		zap.Int32("partition", c.id.Partition), zap.Int32("epoch", c.lease.Epoch), zap.Stringer("role", c.role), zap.Error(err))
	switch c.role {
	case following:
		c.out.busy()
	case fencing, fetching, entering, leading:
		c.stepDown()
		c.giveUp() // the others can do better
		if len(c.lease.Replicas) == 1 {
			c.out.lost()
		}
	}
}

// synced is told that the state s of the log, once given to persist, is on disk.
func (c *core) synced(s snapshot) {
	d := &c.durable
	d.promised = max(d.promised, s.promised)
	if s.cuts >= c.lostAt {
		d.accepted = max(d.accepted, s.accepted)
	}
	if s.cuts == c.cuts {
		if d.cuts != s.cuts {
			d.end = 0
		}
		d.cuts, d.end = s.cuts, max(d.end, s.end)
	}
	switch c.role {
	case following:
		if c.sendState {
			c.out.send(c.lease.Leader)
		}
		if c.aligned && s.cuts == c.cuts {
			c.sendAck = true
			c.out.send(c.lease.Leader)
			c.followHW()
		}
	case fencing:
		c.elect()
	case entering:
		if d.accepted == c.lease.Epoch {
			c.lead()
		}
	case leading:
		c.evaluate()
	}
}

// linkUp is told of a new link with a peer: nothing that was sent on an earlier one can be relied on.
func (c *core) linkUp(peer string) {
	if m := c.members[peer]; m != nil {
		m.linked, m.fence, m.state, m.stream = true, true, nil, 0
		c.out.send(peer)
	}
	if c.role == following && peer == c.lease.Leader {
		c.sendState, c.stashSent = true, false
		c.out.send(peer)
	}
	if c.role == idle && peer == c.lease.Leader {
		c.stashSent = false
		c.handOver()
	}
	if c.role == retired && c.retire != nil && slices.Contains(c.lease.Replicas, peer) {
		c.retire[peer] = true
		c.out.send(peer)
	}
}

// linkDown is told that a link has ended.
func (c *core) linkDown(peer string) {
	if m := c.members[peer]; m != nil {
		m.linked, m.state, m.stream, m.flight, m.flying = false, nil, 0, nil, 0
	}
	if c.role == fetching && c.source == peer {
		c.role, c.source, c.askFetch, c.asked = fencing, "", false, 0
		c.out.busy()
		c.elect()
	}
	if c.serving != nil && peer == c.lease.Leader {
		c.serving = nil
	}
}

// retry asks again what may have been overlooked by a peer whose view of the chain lags.
func (c *core) retry() {
	c.retries++
	slow := c.retries%slowRetries == 0
	if c.broken != nil {
		if slow && c.role == following {
			c.broken, c.aligned, c.sendState = nil, false, true
			c.out.send(c.lease.Leader)
		}
		return
	}
	switch c.role {
	case fencing, leading:
		for name, m := range c.members {
			if slow { // there is no majority without it
				m.lied = false
			}
			if m.linked && m.state == nil && !m.lied {
				m.fence = true
				c.out.send(name)
			}
		}
		if slow && c.dataLost() && !c.told {
			c.tellLost()
		}
	case fetching:
		if c.asked++; c.asked >= slowRetries*maxAsked {
			c.disown(errSilent)
		} else if slow { // the source could not read it
			c.fetchOn()
		}
	}
	if c.stash != nil && slow {
		c.stashSent = false
		c.handOver()
	}
}

// calm reports whether nothing is to be tried again.
func (c *core) calm() bool {
	if c.broken != nil {
		return c.role != following
	}
	if c.stash != nil && c.lease.Epoch >= 0 {
		return false
	}
	switch c.role {
	case fencing, fetching:
		return false
	case leading:
		for _, m := range c.members {
			if m.linked && m.state == nil && !m.lied {
				return false
			}
		}
	}
	return true
}

// receive takes one item from a peer.
func (c *core) receive(peer string, it *item) {
	if it.Epoch != c.lease.Epoch {
		return
	}
	if c.role == retired && c.retire != nil && it.Kind == kindState && slices.Contains(c.lease.Replicas, peer) {
		c.retire[peer] = true // it may have seen the lease after it was told
		c.out.send(peer)
	}
	if c.broken != nil {
		return
	}
	switch it.Kind {
	case kindFence:
		if c.role == following && peer == c.lease.Leader {
			c.sendState = true
			c.out.send(peer)
		}
	case kindFetch:
		if c.role == following && peer == c.lease.Leader && c.durable.promised == c.lease.Epoch {
			c.serving = it
			c.out.send(peer)
		}
	case kindAppend:
		if c.role == following && peer == c.lease.Leader {
			c.onAppend(it)
		}
	case kindRetired:
		if c.role == following && peer == c.lease.Leader {
			c.out.lost()
		}
	case kindSalvaged:
		if peer == c.lease.Leader {
			c.onSalvaged(it.End)
		}
	case kindState:
		c.onState(peer, it)
	case kindFetched:
		c.onFetched(peer, it)
	case kindAck:
		c.onAck(peer, it)
	case kindSalvage:
		c.onSalvage(peer, it)
	}
}

// next gives an item for the peer; false: there is none. One that reads from a log has max set: fill reads it, without
// the partition's lock, and filled says whether it may go. Next is to be called until it gives none.
func (c *core) next(peer string) (item, bool) {
	it := item{ID: c.id, Epoch: c.lease.Epoch}
	if c.retire[peer] {
		delete(c.retire, peer)
		it.Kind = kindRetired
		return it, true
	}
	if c.broken != nil {
		return it, false
	}
	if upTo, ok := c.guests[peer]; ok {
		delete(c.guests, peer)
		it.Kind, it.End = kindSalvaged, upTo
		return it, true
	}
	if peer == c.lease.Leader && (c.role == following || c.role == idle) {
		return c.nextUp(it)
	}
	if m := c.members[peer]; m != nil && m.linked {
		return c.nextDown(peer, m, it)
	}
	return it, false
}

// logOf is the log that an item of next reads from.
func (c *core) logOf(it *item) Log {
	if it.Kind == kindSalvage {
		return c.stash
	}
	return c.data
}

// fill reads an item's data from the log.
func fill(l Log, it *item) error {
	if it.max == 0 || it.From >= it.UpTo {
		return nil
	}
	var err error
	it.pieces, err = l.Pieces(it.From, it.max, it.UpTo)
	return err
}
