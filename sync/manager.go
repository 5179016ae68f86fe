package blocksync

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/clock"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"go.uber.org/zap"
)

// Manager is the sync manager. Create it with New, start it with Run.
type Manager struct {
	cfg     Config
	mode    Mode
	deps    Deps
	log     *zap.Logger
	metrics *metrics
	self    transport.PeerID
	slot    time.Duration
	seed    maphash.Seed
	bans    *banTable
	limiter *rateLimit

	ctx     context.Context // of Run
	started chan struct{}   // closed when Run begins
	done    chan struct{}   // closed when Run ends
	wg      sync.WaitGroup

	events   chan func() // from readers, servers and workers
	blocks   chan broadcast
	votes    chan []block.Vote
	txs      chan []gossip
	checks   *jobQueue[*checkJob]
	adds     *jobQueue[*addJob]
	inbox    *voteInbox
	certs    *jobQueue[*certificateJob]
	txJob    *jobQueue[*txJob]
	sessions *sessionQueue
	imports  chan *importJob
	decodes  chan *decodeJob
	asks     chan *askJob
	fixes    chan *repairJob

	// Owned by Run's goroutine.
	peers      map[transport.PeerID]*peer
	lastReq    uint64
	state      State
	sched      *scheduler
	importing  bool
	flushed    bool    // the importer's rest was handed on after the last chunk
	claims     []claim // of ranges that contradicted each other, until LIB is there
	disputes   int
	headAt     Ref // our head when it last moved, and when that was
	headMoved  time.Time
	entered    Ref // highest block the importer entered, while the driver's status may not show it
	enteredAt  time.Time
	ask        *ask
	seen       *recent[common.Hash, seenBlock]
	accounts   map[transport.PeerID]*voteAccount
	orphans    orphanage
	versions   versions
	pulls      map[common.Hash]*pull
	bodies     bodyCache
	repairs    map[repairKey]*repair
	paths      map[sessionKey]*sessionPath
	nextAsk    time.Time                              // of our own session
	rounds     *recent[sessionKey, uint64]            // newest answered; the session worker's
	heard      *recent[answerKey, time.Time]          // when answers to our own sessions were; the session worker's
	begun      *recent[common.Address, begunSessions] // the session worker's
	askRound   uint64                                 // of the newest request, over all our sessions: it begins at this process's start
	aloneSince time.Time                              // zero: there is a peer
	wasLinked  bool
	voteRelay  []relayedVote
	txRelay    []gossip
	offerBeat  uint64 // counts the beats of offerWorker
	flushTimer *time.Timer
	flushSet   bool
	refusals   *recent[refusalKey, refusal]
	warned     time.Time // when the lack of a peer with the blocks we need was last told
	progress   syncProgress

	clocks atomic.Pointer[[]clock.Reading] // of producers; replaced by Run's goroutine, never changed in place
}

// New makes a manager. Nothing happens before Run.
func New(cfg Config, deps Deps) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := deps.check(); err != nil {
		return nil, err
	}
	mode, err := ParseMode(cfg.Mode)
	if err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = zap.NewNop()
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	if deps.CheckSeal == nil {
		domain := block.Domain{Genesis: deps.Genesis}
		deps.CheckSeal = func(h *block.SealedHeader) error { return sealedByCoinbase(h, domain) }
	}
	m := &Manager{
		cfg: cfg, mode: mode, deps: deps, log: deps.Log, self: deps.Host.ID(),
		slot: deps.Params.Slot(), seed: maphash.MakeSeed(),
		bans: newBanTable(), limiter: &rateLimit{rate: cfg.ServeBytesPerSec},
		started: make(chan struct{}), done: make(chan struct{}),
		events:   make(chan func(), maxEvents),
		blocks:   make(chan broadcast, maxCheckQueue),
		votes:    make(chan []block.Vote, maxVoteJobs),
		txs:      make(chan []gossip, maxTxJobs),
		checks:   newJobQueue[*checkJob](maxCheckQueue, maxCheckQueueBytes),
		adds:     newJobQueue[*addJob](maxAddQueue, maxAddQueueBytes),
		inbox:    newVoteInbox(),
		certs:    newJobQueue[*certificateJob](maxCertificateJobs, maxCertificateJobs*maxHandshakeBytes),
		txJob:    newJobQueue[*txJob](maxTxJobs, maxTxJobs*maxTransactionsBytes),
		sessions: newSessionQueue(),
		imports:  make(chan *importJob, 1),
		decodes:  make(chan *decodeJob, 2*runtime.GOMAXPROCS(0)),
		asks:     make(chan *askJob, 1),
		fixes:    make(chan *repairJob, maxRepairs+maxReceiptRepairs),
		peers:    make(map[transport.PeerID]*peer),
		seen:     newRecent[common.Hash, seenBlock](maxSeenBlocks), accounts: make(map[transport.PeerID]*voteAccount),
		pulls: make(map[common.Hash]*pull), repairs: make(map[repairKey]*repair), paths: make(map[sessionKey]*sessionPath), rounds: newRecent[sessionKey, uint64](2 * maxSessionPaths),
		heard:    newRecent[answerKey, time.Time](4 * block.MaxProducers),
		begun:    newRecent[common.Address, begunSessions](maxSessionPaths),
		refusals: newRecent[refusalKey, refusal](maxRefusals),
	}
	m.clocks.Store(new([]clock.Reading))
	m.orphans.init()
	m.versions = newVersions()
	m.bodies.init()
	m.sched = newScheduler(schedulerLimits{
		chunkBytes: cfg.ChunkBytes, chunkBlocks: cfg.ChunkBlocks, blockBytes: maxRaw(&deps.Params),
		runAheadBytes: cfg.RunAheadBytes, runAheadBlocks: cfg.RunAheadBlocks, timeout: cfg.RequestTimeout,
	}, m.nextReq)
	if m.metrics, err = newMetrics(deps.Registry); err != nil {
		return nil, fmt.Errorf("register metrics of the sync manager: %w", err)
	}
	return m, nil
}

// Run works until ctx ends, then closes the links it was given and waits for its goroutines. Call it once.
func (m *Manager) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	m.ctx = ctx
	m.progress.began = time.Now()
	m.flushTimer = time.NewTimer(time.Hour)
	m.flushTimer.Stop()
	defer m.flushTimer.Stop()
	m.deps.Host.SetGate(m.gate)
	for _, work := range []func(){m.checkWorker, m.addWorker, m.voteWorker, m.certificateWorker, m.txWorker, m.importWorker, m.askWorker, m.repairWorker, m.offerWorker, m.sessionWorker} {
		m.wg.Go(work)
	}
	for range runtime.GOMAXPROCS(0) {
		m.wg.Go(m.decodeWorker)
	}
	close(m.started)
	err := m.loop(ctx)
	cancel()
	var closing sync.WaitGroup
	for _, p := range m.peers {
		p.cancel()
		closing.Go(func() { _ = p.link.Close("node stops") })
	}
	closing.Wait()
	m.wg.Wait()
	close(m.done)
	return err
}

var errHostClosed = errors.New("transport host was closed under the sync manager")

func (m *Manager) loop(ctx context.Context) error {
	tick := time.NewTicker(tickEvery)
	defer tick.Stop()
	links := m.deps.Host.Links()
	repairs := m.repairsWanted()
	for {
		select {
		case <-ctx.Done():
			return nil
		case l, ok := <-links:
			if !ok {
				if ctx.Err() != nil {
					return nil
				}
				return errHostClosed
			}
			m.onLink(l)
		case f := <-m.events:
			f()
		case b := <-m.blocks:
			m.onOwnBlock(b)
		case vs := <-m.votes:
			m.onOwnVotes(vs)
		case g := <-m.txs:
			m.onOwnTransactions(g)
		case <-repairs:
			m.startRepairs(time.Now())
		case <-m.flushTimer.C:
			m.flushSet = false
			m.flush()
		case <-tick.C:
			m.tick(time.Now())
		}
	}
}

// post hands f to the manager's goroutine; false if Run has ended.
func (m *Manager) post(f func()) bool {
	select {
	case m.events <- f:
		return true
	case <-m.ctx.Done():
		return false
	}
}

func (m *Manager) nextReq() uint64 { m.lastReq++; return m.lastReq }

// gate is asked by the host about every peer, in both directions.
func (m *Manager) gate(p transport.PeerID) error {
	if err := m.bans.Check(p, time.Now()); err != nil {
		return err
	}
	return m.member(p)
}

func (m *Manager) member(p transport.PeerID) error {
	if m.deps.Members == nil {
		return nil
	}
	return m.deps.Members.Check(p)
}

// MembersChanged judges all links by the list of members again: those no longer on it are told and cut at once.
func (m *Manager) MembersChanged() {
	select {
	case <-m.started:
	default:
		return
	}
	m.post(func() {
		for _, p := range m.peers {
			if err := m.member(p.id); err != nil {
				m.goAway(p, NotAMember, err, false) // the gate keeps it out, and lets it in when it is a member again
				m.wg.Go(func() { m.deps.Host.Disconnect(p.id, NotAMember.String()) })
			}
		}
	})
}

func (m *Manager) onLink(l transport.Link) {
	now := time.Now()
	id := l.Peer()
	if id == m.self {
		m.refuse(l, SelfConnect)
		return
	}
	if old := m.peers[id]; old != nil {
		select {
		case <-old.link.Done():
			m.forget(old)
		default:
			if !old.leaving && !Survivor(string(m.self), string(id), old.link.Incoming(), l.Incoming()) {
				m.refuse(l, Duplicate)
				return
			}
			m.goAway(old, Duplicate, errors.New("a second link to the same node takes its place"), false)
		}
	}
	p := newPeer(m.ctx, l, m.accountOf(id), now)
	m.peers[id] = p
	m.wg.Add(5)
	go m.read(p, transport.LaneConsensus)
	go m.read(p, transport.LaneTransactions)
	go m.read(p, transport.LaneCatchUp)
	go m.server(p, p.ranges)
	go m.server(p, p.serve)
	m.log.Log(m.linkLevel(id), "link is up", zap.String("peer", string(id)), zap.String("provider", l.Provider()), zap.Bool("incoming", l.Incoming()))
	m.sendHandshake(p)
}

// refuse tells a link that never became a peer why, and closes it.
func (m *Manager) refuse(l transport.Link, why Reason) {
	g := GoAway{Reason: why, NodeID: string(m.self)}
	l.TrySend(transport.Message{Lane: transport.LaneConsensus, Type: uint8(TypeGoAway), Payload: g.Encode()})
	m.metrics.goAway(why)
	m.wg.Go(func() { _ = l.Close(why.String()) })
}

func (m *Manager) linkEnded(p *peer, err error) {
	if m.peers[p.id] != p {
		return
	}
	m.log.Log(m.linkLevel(p.id), "link is down", zap.String("peer", string(p.id)), zap.Error(err))
	m.forget(p)
	m.wg.Go(func() { _ = p.link.Close("link ended") })
}

// forget takes a peer off the table: its work goes to others.
func (m *Manager) forget(p *peer) {
	p.leaving = true
	p.cancel()
	if m.peers[p.id] != p {
		return
	}
	delete(m.peers, p.id)
	m.orphans.drop(p.id)
	m.inbox.Forget(p)
	m.sched.Remove(p.id)
	m.dropAsk(p.id)
	m.retryPulls(p.id)
	m.retryRepairs(p.id)
	m.undamp()
	m.evaluate(time.Now())
}

// goAway says why and cuts the link, after what lane 0 still holds; ban refuses the peer for a time.
func (m *Manager) goAway(p *peer, why Reason, err error, ban bool) {
	if p.leaving {
		return
	}
	if tell, times := m.noteRefusal(p.id, false, why, time.Now()); tell {
		m.log.Warn("peer is sent away", zap.String("peer", string(p.id)), zap.Stringer("reason", why), zap.Error(err), zap.Int("timesBefore", times))
	}
	g := GoAway{Reason: why, NodeID: string(m.self)}
	p.send(transport.LaneConsensus, TypeGoAway, g.Encode())
	m.metrics.goAway(why)
	if ban && m.cfg.BanTime > 0 {
		m.bans.Add(p.id, why, time.Now().Add(m.cfg.BanTime))
	}
	m.forget(p)
	m.wg.Go(func() {
		_ = p.link.Close(why.String())
		if ban || stranger(why) {
			m.deps.Host.Disconnect(p.id, why.String()) // dials again after the longest back-off only
		}
	})
}

// punish sends away a peer that broke a rule, and throws away what it delivered.
func (m *Manager) punish(p *peer, why Reason, err error) {
	if p.leaving {
		return
	}
	m.sched.Discard(p.id)
	// Who is no member, or on another chain, did nothing wrong: it is refused, and taken once that has changed.
	m.goAway(p, why, err, !stranger(why))
}

func stranger(why Reason) bool { return why == NotAMember || why == WrongChain || why == Recovered }

func (m *Manager) onGoAway(p *peer, g *GoAway) {
	if p.leaving {
		return
	}
	if tell, times := m.noteRefusal(p.id, true, g.Reason, time.Now()); tell {
		m.warnOfGoAway(p, g.Reason, times)
	}
	m.metrics.goneAway(g.Reason)
	m.forget(p)
	m.wg.Go(func() { _ = p.link.Close("peer went away") })
}

func (m *Manager) warnOfGoAway(p *peer, why Reason, times int) {
	m.log.Warn("peer goes away", zap.String("peer", string(p.id)), zap.Stringer("reason", why), zap.Int("timesBefore", times))
	switch why {
	case NotAMember: // it may be told before the block that removed it is final here, and then it never sees that
		m.log.Warn("this node is not a member by that peer's last irreversible block, members refuse it until it is admitted through the Members contract",
			zap.String("peer", string(m.self)), zap.String("toldBy", string(p.id)))
	case Forked:
		m.log.Warn("that peer holds another block as final than this node: one of the two histories is wrong; compare the hashes of the final block with the other operators (docs/operations.md, Fork)", zap.String("peer", string(p.id)), zap.Uint64("lib", m.deps.Driver.Status().LIB.Height))
	case Recovered:
		m.log.Warn("that peer and this node go by different recoveries of the chain", zap.String("peer", string(p.id)), zap.String("do", otherRecoveryRemedy))
	}
}

func (m *Manager) tick(now time.Time) {
	for _, p := range m.peers {
		silent := now.Sub(time.Unix(0, p.lastSeen.Load()))
		switch {
		case p.forked != nil:
			m.sendForkedAway(p, now)
		case !p.handshaken && now.Sub(p.linked) > m.cfg.HandshakeTimeout:
			m.goAway(p, BenignOther, fmt.Errorf("no valid handshake within %v", m.cfg.HandshakeTimeout), false)
		case silent > m.cfg.HeartbeatTimeout:
			m.goAway(p, BenignOther, fmt.Errorf("silent for %v", silent.Round(time.Millisecond)), false)
		case !now.Before(p.nextBeat):
			m.beat(p, now)
		}
	}
	m.retryTransactions()
	m.noteLinks(now)
	m.askSession(now)
	m.flushVotes(now)
	m.expire(now)
	m.evaluate(now)
}

func (m *Manager) beat(p *peer, now time.Time) {
	p.nextBeat = now.Add(m.cfg.Heartbeat)
	p.helloCount = 0
	p.account.setRates(votesAllowed(m.deps.Driver.Status().Seats, m.slot))
	p.sessions, p.strangers, p.answers, p.strangerAnswers = 0, 0, 0, 0
	m.askQuestion(p) // the first beat follows the first handshake at once
	pos := m.position()
	p.lastAsked, p.askedAt = uint64(m.ownClock()), time.Now() //nolint:gosec // after 1970
	t := Time{Xmt: p.lastAsked, Head: pos.Head, LIB: pos.LIB, Justified: pos.Justified}
	p.send(transport.LaneConsensus, TypeTime, t.Encode())
}

func (m *Manager) onTime(p *peer, t *Time, arrived time.Time) {
	if p.handshaken && p.forked == nil && t.LIB.Height <= t.Head.Height {
		m.moved(p, Position{Head: t.Head, LIB: t.LIB, Justified: t.Justified, First: p.pos.First}, arrived)
	}
	if t.Org == 0 {
		pos := m.position()
		own := m.ownClock()
		a := Time{Org: t.Xmt, Rec: uint64(own - time.Since(arrived)), Xmt: uint64(own), //nolint:gosec // after 1970
			Head: pos.Head, LIB: pos.LIB, Justified: pos.Justified, Told: m.toldTo(p)}
		if t.Xmt != 0 {
			p.send(transport.LaneConsensus, TypeTime, a.Encode())
		}
		return
	}
	if t.Org != p.lastAsked || p.lastAsked == 0 {
		return // not an answer to our question: nothing can be concluded
	}
	p.lastAsked = 0 // one answer to a question
	if s, ok := sampleClock(p.askedAt, arrived, t.Rec, t.Xmt); ok {
		p.clock.Add(s)
		p.told.addTold(s, t.Xmt, t.Told)
		m.noteClock(p, arrived)
	}
}

// moved notes a peer's new position.
func (m *Manager) moved(p *peer, pos Position, now time.Time) {
	if pos.Head.Hash != p.pos.Head.Hash || p.aheadSince.IsZero() {
		p.aheadSince = now
	}
	p.pos = pos
	p.knownBlocks.Add(pos.Head.Hash, struct{}{})
}

// position is where this node is.
func (m *Manager) position() Position {
	s := m.deps.Driver.Status()
	return Position{Head: s.Head, LIB: s.LIB, Justified: s.Justified.Slot, First: m.deps.Blocks.FirstHeight()}
}

type broadcast struct {
	hash    common.Hash
	payload []byte
	sealed  *block.SealedHeader
	from    transport.PeerID
}

// BroadcastBlock sends a block to all peers not known to have it. from is the peer it came from, "" for a block of this
// node's own. It never blocks; a full queue drops the block (peers then ask for it).
func (m *Manager) BroadcastBlock(b *block.Block, from string) {
	s := SignedBlock{Height: b.Number(), Raw: b.Encode()}
	select {
	case m.blocks <- broadcast{b.Hash(), s.Encode(), b.SealedHeader, transport.PeerID(from)}:
	default:
		m.metrics.dropped("block")
	}
}

// BroadcastVotes sends this node's own votes to all peers. It never blocks.
func (m *Manager) BroadcastVotes(vs []block.Vote) {
	for len(vs) > 0 {
		n := min(len(vs), maxVotes)
		select {
		case m.votes <- append([]block.Vote(nil), vs[:n]...):
		default:
			m.metrics.dropped("vote")
		}
		vs = vs[n:]
	}
}

// BroadcastTransactions sends pending transactions to all peers not known to have them, in batches. It never blocks.
// Most come from a peer and are relayed by then: only what some peer lacks is encoded.
func (m *Manager) BroadcastTransactions(txs types.Transactions) {
	g := make([]gossip, 0, len(txs))
	for _, tx := range txs {
		if tx != nil {
			g = append(g, gossip{hash: tx.Hash(), tx: tx})
		}
	}
	select {
	case m.txs <- g:
	default:
		m.metrics.dropped("transaction")
	}
}
