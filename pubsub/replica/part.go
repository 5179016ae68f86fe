package replica

import (
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
)

// part is a partition in the Manager's hands: a core, its lock, and its effects.
type part struct {
	m    *Manager
	id   ID
	data Log

	mu      sync.Mutex // guards what follows
	core    *core
	pending *Lease // could not be taken yet: the store failed
	leaseAt time.Time
	gone    bool

	leaderless bool      // the lease's leader said that it cannot go on
	lostSince  time.Time // zero: the leader lives as far as is known
	toldAt     time.Time
}

// stashID names the log of a partition's set-aside batches: a partition of the same topic, so that it ends with it.
func stashID(id ID) ID { return ID{Topic: id.Topic, Partition: id.Partition | stashBit} }

// Stash reports whether a log of the store is that of a partition's set-aside batches.
func Stash(id ID) bool { return id.Partition&stashBit != 0 }

func (m *Manager) newPart(id ID) (*part, error) {
	p := &part{m: m, id: id}
	var err error
	if p.data, err = m.deps.Store.Open(id, true); err != nil {
		return nil, err
	}
	p.core, err = newCore(m.self, id, p.data, p, m.log)
	return p, err
}

// take gives the core a lease; the lock is not held.
func (p *part) take(l Lease) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.takeLocked(l)
}

func (p *part) takeLocked(l Lease) {
	if p.gone || l.before(&p.core.lease) {
		return
	}
	if l.same(&p.core.lease) { // only what the owner wants is new
		_ = p.core.setLease(l) // nothing is written
		return
	}
	p.leaseAt, p.pending = time.Now(), nil
	p.lostSince, p.toldAt = time.Time{}, time.Time{}
	p.leaderless = false
	p.m.suspects.add(p) // its leader may be silent already
	if err := p.core.setLease(l); err != nil {
		p.pending = &l
		p.busy()
		p.m.log.Warn("a lease cannot be taken; it is tried again", idFields(p.id, err)...)
	}
}

// mend deals with damage that a read met: a log that lost something begins again, without a say in elections until it has
// copied what it lacks.
func (p *part) mend(damage error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return
	}
	lost, m, err := p.data.Mend(damage)
	if err == nil && lost {
		var next *core
		if next, err = p.core.afterLoss(m); next != nil {
			p.core = next
		}
		p.m.suspects.add(p)
		p.busy()
	}
	if err != nil {
		p.m.log.Error("a partition's damaged log is not repaired yet; the next read of it tries again", idFields(p.id, err)...)
	}
}

// mendStash deals with damage that a read of the stash met. The partition's log has nothing to do with it.
func (p *part) mendStash(damage error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || p.core.stash == nil {
		return
	}
	end := p.core.stash.End()
	lost, _, err := p.core.stash.Mend(damage)
	if err == nil {
		p.core.stashSent = false
		p.busy() // what is left is handed over
	}
	if err == nil && lost {
		p.m.log.Error("batches that a partition had set aside for its leader cannot be read any more; the damaged file keeps a second name (*.damaged-TIME)",
			append(idFields(p.id, damage), zap.Int64("batches", end-p.core.stash.End()))...)
		if p.core.stash.Start() == p.core.stash.End() { // nothing is left to be handed over
			if err = p.dropStash(); err == nil {
				p.core.stash = nil
			}
		}
	}
	if err != nil {
		p.m.log.Error("the damaged log of a partition's set-aside batches is not repaired yet; the next read of it tries again", idFields(p.id, err)...)
	}
}

func (p *part) send(peer string) {
	if q := p.m.peer(peer); q != nil {
		q.want(p)
	}
}

func (p *part) persist(m Mark, s snapshot) { p.m.sync.add(p, m, s) }

func (p *part) commit(from, to int64) {
	if f := p.m.deps.OnCommitted; f != nil {
		f(p.id, from, to)
	}
}

func (p *part) ledNow(epoch int32) {
	p.m.metrics.led.Inc()
	p.m.metrics.counters[eventLed].Inc()
	p.m.metrics.takeOver.Observe(time.Since(p.leaseAt).Seconds())
	if f := p.m.deps.OnLead; f != nil {
		f(p.id, epoch)
	}
}

func (p *part) ledOver() { p.m.metrics.led.Dec() }
func (p *part) busy()    { p.m.restless.add(p) }
func (p *part) lost()    { p.leaderless = true; p.m.suspects.add(p) }
func (p *part) now() int64 {
	return time.Now().UnixMilli()
}

func (p *part) linked(peer string) bool {
	q := p.m.peer(peer)
	return q != nil && q.up()
}

func (p *part) openStash(create bool) (Log, error) { return p.m.deps.Store.Open(stashID(p.id), create) }
func (p *part) dropStash() error                   { return p.m.deps.Store.Delete(stashID(p.id)) }
func (p *part) count(what event, n int)            { p.m.metrics.counters[what].Add(float64(n)) }

// quiet is silence for who does not hold the lock; 0 unless this broker leads.
func (p *part) quiet() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || p.core.lease.Leader != p.m.self {
		return 0
	}
	return p.silence(time.Now())
}

// silence is how long a majority of the replicas has not been heard of; the lock is held.
func (p *part) silence(now time.Time) time.Duration {
	need := p.core.majority() - 1 // besides this broker
	if need == 0 {
		return 0
	}
	var buf [MaxReplicas]time.Duration
	ages := buf[:0]
	for _, r := range p.core.lease.Replicas {
		if r == p.m.self {
			continue
		}
		age := now.Sub(p.leaseAt)
		if q := p.m.peer(r); q != nil {
			age = min(age, now.Sub(q.heardAt()))
		}
		ages = append(ages, age)
	}
	slices.Sort(ages)
	return ages[need-1]
}

// rank is this broker's place in line for the lease; the lock is held.
func (p *part) rank() int {
	l := &p.core.lease
	switch {
	case l.Leader == p.m.self && p.core.forgot():
		return len(l.Replicas) - 1 // it would have to copy the log first
	case l.Leader == p.m.self:
		return 0
	}
	rank := 0
	for _, r := range l.Replicas {
		if r == p.m.self {
			break
		}
		if r != l.Leader {
			rank++
		}
	}
	if p.core.durable.accepted != l.Epoch { // others have more of the log
		rank += len(l.Replicas)
	}
	return rank
}

// partSet is a set of parts that can be added to with a part's lock held.
type partSet struct {
	mu  sync.Mutex
	set map[*part]struct{}
}

func (s *partSet) add(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = map[*part]struct{}{}
	}
	s.set[p] = struct{}{}
}

func (s *partSet) remove(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, p)
}

func (s *partSet) list() []*part {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*part, 0, len(s.set))
	for p := range s.set {
		list = append(list, p)
	}
	return list
}

func idFields(id ID, err error) []zap.Field {
	return []zap.Field{zap.Binary("topic", id.Topic[:]), zap.Int32("partition", id.Partition), zap.Error(err)}
}
