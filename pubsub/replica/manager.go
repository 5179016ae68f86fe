package replica

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/transport"
)

// Manager replicates the partitions of one broker. Create it with New, start it with Run. Its methods may be called
// concurrently.
type Manager struct {
	cfg     Config
	deps    Deps
	self    string
	log     *zap.Logger
	metrics *metrics
	sync    *syncer
	asks    asks
	answers map[uint8]func(ctx context.Context, peer string, payload []byte) ([]byte, error)
	events  chan func()
	links   chan transport.Link
	began   time.Time

	restless partSet         // want retry
	suspects partSet         // may have no leader
	silent   map[string]bool // peers last found silent; of Run's goroutine

	damagedMu sync.Mutex
	damaged   map[ID]error // found by reads since the last look

	partsMu sync.RWMutex
	parts   map[ID]*part
	peersMu sync.RWMutex
	peers   map[string]*peer
}

// New makes a manager. Leases and links may be given before Run; nothing is sent before.
func New(cfg Config, deps Deps) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Self == "" || deps.Store == nil {
		return nil, errors.New("replica: needs this broker's peer id and a store")
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	m := &Manager{
		cfg: cfg, deps: deps, self: deps.Self, log: deps.Log, began: time.Now(),
		answers: map[uint8]func(context.Context, string, []byte) ([]byte, error){},
		events:  make(chan func(), maxLinksWaiting), links: make(chan transport.Link, maxLinksWaiting),
		parts: map[ID]*part{}, peers: map[string]*peer{}, silent: map[string]bool{}, damaged: map[ID]error{},
	}
	m.sync = newSyncer(m)
	var err error
	if m.metrics, err = newMetrics(deps.Registry); err != nil {
		return nil, fmt.Errorf("register metrics of replication: %w", err)
	}
	if err := m.watch(deps.Registry); err != nil {
		return nil, fmt.Errorf("register metrics of replication: %w", err)
	}
	return m, nil
}

// Run works until ctx ends and waits for its goroutines. It does not close links. Call it once.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { m.sync.run(ctx) })
	defer func() {
		cancel()
		for _, q := range m.allPeers() {
			m.detach(q)
		}
		wg.Wait()
		for _, p := range m.all() {
			p.mu.Lock()
			p.core.stepDown()
			p.gone = true
			p.mu.Unlock()
		}
	}()
	beat := time.NewTicker(m.cfg.Heartbeat)
	defer beat.Stop()
	tick := time.NewTicker(retryEvery / 2)
	defer tick.Stop()
	for n := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case l := <-m.links:
			m.attach(ctx, l)
		case f := <-m.events:
			f()
		case <-beat.C:
			m.beat()
		case now := <-tick.C:
			if n++; n%2 == 0 {
				m.retry()
			}
			m.findLost(now)
			m.mendDamaged()
		}
	}
}

func (m *Manager) post(ctx context.Context, f func()) {
	select {
	case m.events <- f:
	case <-ctx.Done():
	}
}

// AddLink takes a link of an accepted peer into use; lane 3 of it is the Manager's alone. It never blocks.
func (m *Manager) AddLink(l transport.Link) {
	select {
	case m.links <- l:
	default:
		m.log.Error("a link is not used for topics: too many at once", zap.String("peer", string(l.Peer())))
	}
}

// SetLeases takes leases of the final chain state: of partitions of which this broker is a replica, or was until now.
// Others, and older ones than are known, are ignored.
func (m *Manager) SetLeases(leases []Lease) error {
	var errs []error
	for _, l := range leases {
		if err := l.check(); err != nil {
			errs = append(errs, err)
			continue
		}
		l.Replicas = slices.Clone(l.Replicas)
		p, err := m.needPart(&l)
		if err != nil {
			errs = append(errs, fmt.Errorf("open the log of partition %d of topic %x: %w", l.Partition, l.Topic, err))
			continue
		}
		if p == nil {
			continue
		}
		for _, r := range append(l.Replicas[:len(l.Replicas):len(l.Replicas)], l.Leader) {
			if r != m.self && r != "" {
				m.needPeer(r).relevant.Store(true)
			}
		}
		p.take(l)
	}
	return errors.Join(errs...)
}

// Drop forgets a partition whose topic was deleted, with what it had set aside. The caller deletes its log.
func (m *Manager) Drop(id ID) error {
	m.partsMu.Lock()
	p := m.parts[id]
	delete(m.parts, id)
	m.partsMu.Unlock()
	if p == nil {
		return nil
	}
	m.metrics.parts.Dec()
	m.restless.remove(p)
	m.suspects.remove(p)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.core.stepDown()
	p.gone = true
	if p.core.stash == nil {
		return nil
	}
	return p.dropStash()
}

// Spent reports that this broker is no replica of the partition and that what it alone had is safe with the leader: its
// log can be deleted, after Drop. One that was seen to know more to be committed than its leader is never spent.
func (m *Manager) Spent(id ID) bool {
	p := m.part(id)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.core
	return c.role == idle && c.lease.Epoch >= 0 && c.broken == nil && !c.apart && c.stash == nil && !slices.Contains(c.lease.Replicas, m.self)
}

// Damaged is told of a read of a partition's log, or of its stash, that met damage: the log is repaired, or copied again from
// the leader, soon; a stash keeps what lies before the damage.
func (m *Manager) Damaged(id ID, damage error) {
	m.damagedMu.Lock()
	defer m.damagedMu.Unlock()
	m.damaged[id] = damage // at most one of each log
}

func (m *Manager) mendDamaged() {
	m.damagedMu.Lock()
	list := m.damaged
	m.damaged = map[ID]error{}
	m.damagedMu.Unlock()
	for id, damage := range list {
		partition := ID{Topic: id.Topic, Partition: id.Partition &^ stashBit}
		switch p := m.part(partition); {
		case p == nil:
		case Stash(id):
			p.mendStash(damage)
		default:
			p.mend(damage)
		}
	}
}

// needPart gives the part of a lease; nil: it is none of this broker's business.
func (m *Manager) needPart(l *Lease) (*part, error) {
	id := l.ID()
	if p := m.part(id); p != nil {
		return p, nil
	}
	if !slices.Contains(l.Replicas, m.self) {
		stash, err := m.deps.Store.Open(stashID(id), false)
		if err != nil {
			return nil, err
		}
		data, err := m.deps.Store.Open(id, false)
		if err != nil || data == nil && stash == nil {
			return nil, err
		}
	}
	m.partsMu.Lock()
	defer m.partsMu.Unlock()
	if p := m.parts[id]; p != nil {
		return p, nil
	}
	p, err := m.newPart(id)
	if err != nil {
		return nil, err
	}
	m.parts[id] = p
	m.metrics.parts.Inc()
	return p, nil
}

func (m *Manager) part(id ID) *part {
	m.partsMu.RLock()
	defer m.partsMu.RUnlock()
	return m.parts[id]
}

func (m *Manager) all() []*part {
	m.partsMu.RLock()
	defer m.partsMu.RUnlock()
	list := make([]*part, 0, len(m.parts))
	for _, p := range m.parts {
		list = append(list, p)
	}
	return list
}

func (m *Manager) peer(id string) *peer {
	m.peersMu.RLock()
	defer m.peersMu.RUnlock()
	return m.peers[id]
}

func (m *Manager) needPeer(id string) *peer {
	m.peersMu.Lock()
	defer m.peersMu.Unlock()
	q := m.peers[id]
	if q == nil {
		q = &peer{m: m, id: id, wake: make(chan struct{}, 1), queued: map[*part]struct{}{}}
		q.heard.Store(m.began.UnixNano())
		m.peers[id] = q
	}
	return q
}

func (m *Manager) allPeers() []*peer {
	m.peersMu.RLock()
	defer m.peersMu.RUnlock()
	list := make([]*peer, 0, len(m.peers))
	for _, q := range m.peers {
		list = append(list, q)
	}
	return list
}

// retry has the parts that wait for something look again.
func (m *Manager) retry() {
	for _, p := range m.restless.list() {
		p.mu.Lock()
		if l := p.pending; l != nil {
			p.takeLocked(*l)
		}
		p.core.retry()
		if p.gone || p.pending == nil && p.core.calm() {
			m.restless.remove(p)
		}
		p.mu.Unlock()
	}
}

// findLost tells which partitions are to be claimed.
func (m *Manager) findLost(now time.Time) {
	silent := map[string]time.Time{}
	news := false
	for _, q := range m.allPeers() {
		if at := q.heardAt(); q.relevant.Load() && now.Sub(at) >= m.cfg.Lost {
			silent[q.id] = at
			news = news || !m.silent[q.id]
		}
	}
	clear(m.silent)
	for id := range silent {
		m.silent[id] = true
	}
	if news {
		for _, p := range m.all() {
			m.suspects.add(p)
		}
	}
	var out []Lost
	for _, p := range m.suspects.list() {
		if l, ok := m.lostNow(p, silent, now); ok {
			out = append(out, l)
		}
	}
	if len(out) > 0 && m.deps.Lost != nil {
		m.metrics.counters[eventLost].Add(float64(len(out)))
		m.deps.Lost(out)
	}
}

// lostNow tells whether this broker should claim a partition now.
func (m *Manager) lostNow(p *part, silent map[string]time.Time, now time.Time) (Lost, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.core
	since := now
	switch at, quiet := silent[c.lease.Leader]; {
	case p.gone:
		m.suspects.remove(p)
		return Lost{}, false
	case p.leaderless && (c.role == retired || c.role == following):
	case quiet && c.role == following:
		since = at.Add(m.cfg.Lost)
		if at.Before(p.leaseAt) {
			since = p.leaseAt.Add(m.cfg.Lost)
		}
	default:
		p.lostSince, p.toldAt = time.Time{}, time.Time{}
		m.suspects.remove(p)
		return Lost{}, false
	}
	if p.lostSince.IsZero() {
		p.lostSince = since
	}
	rank := p.rank()
	if now.Before(p.lostSince.Add(time.Duration(rank)*m.cfg.ClaimStep)) || now.Sub(p.toldAt) < tellAgain {
		return Lost{}, false
	}
	if !p.toldAt.IsZero() && c.role == retired && c.retire == nil {
		c.giveUp() // this broker's claim does not come through: let others try
	}
	p.toldAt = now
	return Lost{ID: p.id, Epoch: c.lease.Epoch, Rank: rank}, true
}

// Append adds one checked batch of a producer to a partition that this broker leads; the order of calls is the order in
// the log. raw is the store's afterwards. acks: 0 nothing is waited for, 1 this broker's disk, -1 a majority. Batches
// with a producer's id always wait for the majority, so that one that is lost was never acknowledged and its producer's
// repetition is the only copy. Nothing is written once ctx has ended, also if it ends while OnLead is told of a later epoch:
// so who leads something over the partition's log is fenced with it. Errors: ctx's, ErrNotLeader, ErrNotReady, ErrNoQuorum, ErrTooLarge, ErrBatch, ErrBusy, and the
// store's; nothing was written then.
func (m *Manager) Append(ctx context.Context, id ID, raw []byte, acks int16) (Pending, error) {
	if len(raw) > MaxBatchBytes {
		return nil, fmt.Errorf("%w: %d bytes, %d allowed", ErrTooLarge, len(raw), MaxBatchBytes)
	}
	h, n, err := batch.ParseHeader(raw)
	if err != nil || n != len(raw) || h.ProducerID < -1 {
		return nil, fmt.Errorf("%w: %d bytes, producer id %d", ErrBatch, len(raw), h.ProducerID)
	}
	p := m.part(id)
	if p == nil {
		return nil, ErrNotLeader
	}
	all := acks == -1 || acks != 0 && h.ProducerID >= 0
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p.gone {
		return nil, ErrNotLeader
	}
	now := time.Now()
	quiet := time.Duration(0)
	if c := p.core; c.ready {
		quiet = p.silence(now)
		if quiet > m.cfg.Lost && (all || quiet > m.cfg.Lost+m.cfg.ClaimTime) {
			return nil, ErrNoQuorum
		}
	}
	a, done, err := p.core.append(raw, now.UnixMilli(), all)
	if err != nil {
		return nil, err
	}
	return &pending{m: m, p: p, a: a, done: done, acks: acks, at: now, quiet: quiet}, nil
}

type pending struct {
	m    *Manager
	p    *part
	a    Appended
	done chan error // nil: not for a majority
	acks int16

	at    time.Time // of the append
	quiet time.Duration
}

// Duplicate implements Pending.
func (w *pending) Duplicate() bool { return w.a.Duplicate }

// Wait implements Pending.
func (w *pending) Wait(ctx context.Context) (int64, int64, error) {
	if w.done == nil {
		if w.acks != 0 {
			if err := w.m.deps.Store.Durable(ctx, w.a.Mark); err != nil {
				return 0, 0, err
			}
		}
		return w.a.Base, w.a.Time, nil
	}
	t := time.NewTimer(max(0, w.m.cfg.Lost-w.quiet-time.Since(w.at)) + time.Millisecond)
	defer t.Stop()
	for {
		select {
		case err := <-w.done:
			if err != nil {
				return 0, 0, err
			}
			return w.a.Base, w.a.Time, nil
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-t.C:
			left := w.m.cfg.Lost - w.p.quiet()
			if left < 0 {
				select {
				case err := <-w.done: // it came first
					if err == nil {
						return w.a.Base, w.a.Time, nil
					}
					return 0, 0, err
				default:
					return 0, 0, ErrNoQuorumAfter
				}
			}
			t.Reset(left + time.Millisecond)
		}
	}
}

// DeleteBefore deletes the records below an offset, which is at most the high watermark, here and at the replicas, if this
// broker leads the partition. Errors: ErrNotLeader and the store's.
func (m *Manager) DeleteBefore(id ID, offset int64) error {
	p := m.part(id)
	if p == nil {
		return ErrNotLeader
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone || !p.core.ready {
		return ErrNotLeader
	}
	if err := p.data.DeleteBefore(offset); err != nil {
		return err
	}
	p.core.startMoved()
	return nil
}

// CutOff reports that this broker has the lease of a partition and has not heard of a majority for so long that another
// one may lead by now: clients should ask others.
func (m *Manager) CutOff(id ID) bool {
	p := m.part(id)
	return p != nil && p.quiet() > m.cfg.Lost
}

// Reach tells whether there is a link with another broker, and for how long nothing came from it. Brokers that share no
// partition with this one have nothing to say.
func (m *Manager) Reach(peer string) (linked bool, quiet time.Duration) {
	q := m.peer(peer)
	if q == nil {
		return false, time.Since(m.began)
	}
	return q.up(), time.Since(q.heardAt())
}

// Leader tells the epoch in which this broker leads the partition, and whether it takes appends already; -1: it does not
// lead it.
func (m *Manager) Leader(id ID) (epoch int32, ready bool) {
	p := m.part(id)
	if p == nil {
		return -1, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch p.core.role {
	case fencing, fetching, entering, leading:
		return p.core.lease.Epoch, p.core.ready
	}
	return -1, false
}

// DataLost reports that this broker has the lease of a partition and may not lead it, since replicas lost their disks: its
// owner has to decide.
func (m *Manager) DataLost(id ID) bool {
	p := m.part(id)
	if p == nil {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.gone && p.core.dataLost()
}

// HighWatermark is the offset below which all is known to be committed here; 0 of an unknown partition. It never falls
// on a broker, and a leader that is ready has a higher one than any that another broker gave out before.
func (m *Manager) HighWatermark(id ID) int64 {
	p := m.part(id)
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.core.hw
}

// InSync names the replicas, this broker with them, that have all that is committed and are there; empty unless this
// broker leads. While it is ready, the replicas of the lease may be changed by one.
func (m *Manager) InSync(id ID) []string {
	p := m.part(id)
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.core
	if !c.ready {
		return nil
	}
	list := []string{m.self}
	now := time.Now()
	for _, r := range c.lease.Replicas {
		if mb := c.members[r]; mb != nil && mb.joined && mb.acked >= c.hw {
			if q := m.peer(r); q != nil && now.Sub(q.heardAt()) < m.cfg.Lost {
				list = append(list, r)
			}
		}
	}
	return list
}
