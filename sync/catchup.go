package blocksync

import (
	"fmt"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"
)

// enteredHolds is how long a block that the importer entered counts as ours although the driver's status does not show
// it yet.
const enteredHolds = 3 * time.Second

// evaluate compares our position with the peers' and acts on the plan.
func (m *Manager) evaluate(now time.Time) {
	if m.ctx.Err() != nil {
		return
	}
	in := m.planInput(now)
	if m.headMoved.IsZero() || in.local.Head.Hash != m.headAt.Hash {
		m.headAt, m.headMoved = in.local.Head, now
	}
	d := plan(in)
	if m.state == LIBCatchup && d.state != LIBCatchup && (m.importing || !m.flushed && m.sched.Done() && len(m.sched.sources) > 0) {
		m.pump(now) // the last chunks are still being applied
		return
	}
	if m.sched.Stuck() && m.state == LIBCatchup && !m.importing && d.state == LIBCatchup && m.sched.target > m.sched.applied {
		m.log.Warn("no peer can serve the blocks above this height", zap.Uint64("height", m.sched.applied))
		for _, p := range m.peers {
			p.notRange = now.Add(m.backoff(p.empty))
			p.empty++
		}
		in = m.planInput(now)
		d = plan(in)
	}
	m.enter(d, now)
	switch m.state {
	case InSync:
		if len(in.peers) > 0 {
			m.progress.arrived(now)
		}
		m.warnPruned(&in)
	case LIBCatchup:
		m.sched.Extend(d.target)
		m.pump(now)
	case HeadCatchup:
		m.startAsk(d.ask, now)
	}
}

// warnPruned tells, at most once a minute, that the chain goes on but nobody keeps the blocks we need next.
func (m *Manager) warnPruned(in *planInput) {
	if in.now.Sub(m.warned) < time.Minute {
		return
	}
	for i := range in.peers {
		p := &in.peers[i]
		if p.pos.LIB.Height > in.local.Head.Height && p.pos.First > in.local.LIB.Height+1 {
			m.warned = in.now
			m.log.Warn("no peer keeps the next blocks; connect to a node that has the whole history (store.keep_blocks and store.keep_days are 0), or begin in a new folder with a backup of such a node (bornode restore) or its blocks (bornode import)",
				zap.Uint64("height", in.local.LIB.Height+1), zap.String("peer", string(p.id)), zap.Uint64("first", p.pos.First))
			return
		}
	}
}

func (m *Manager) backoff(n int) time.Duration {
	return min(maxSourceBackoff, m.cfg.RequestTimeout<<min(n, 6))
}

func (m *Manager) planInput(now time.Time) planInput {
	in := planInput{local: m.position(), slot: m.slot, current: m.state, target: m.sched.target, now: now}
	if now.Sub(m.enteredAt) < enteredHolds && m.entered.Height > in.local.Head.Height {
		in.local.Head = m.entered
	}
	for _, p := range m.peers {
		if !p.handshaken || p.leaving {
			continue
		}
		v := peerView{
			id: p.id, pos: p.pos, latency: p.latency(), since: p.aheadSince, notRange: p.notRange, notAsk: p.notAsk,
			canRange: p.hello.Modes&ServeRange != 0, rangeTo: p.rangeTo(),
		}
		v.pos.First = p.first()
		v.headHere = p.pos.Head.Hash == in.local.Head.Hash || in.local.ahead(p.pos) || m.coming(p.pos.Head.Hash)
		if !v.headHere {
			_, err := m.deps.Blocks.Header(p.pos.Head.Hash)
			v.headHere = err == nil
		}
		in.peers = append(in.peers, v)
		m.source(p)
	}
	return in
}

// coming reports whether a block is being checked, fetched or added already.
func (m *Manager) coming(hash common.Hash) bool { return m.pulls[hash] != nil || m.seen.Has(hash) }

func (m *Manager) source(p *peer) {
	if p.hello.Modes&ServeRange != 0 {
		m.sched.Source(p.id, p.first(), p.rangeTo(), p.clock.RTT())
	}
}

// disbelieve lets a peer's LIB start and hold no range sync for a growing while once it was asked several times and
// brought nothing: a claim alone proves nothing.
func (m *Manager) disbelieve(id transport.PeerID, now time.Time) {
	n := m.sched.Failures(id) - claimFailures
	if p := m.peers[id]; p != nil && n >= 0 {
		p.notRange = now.Add(min(maxClaimBackoff, m.cfg.RequestTimeout<<min(n, 10)))
		m.sched.Rest(id, p.notRange)
		m.log.Warn("a peer tells of final blocks that it does not send; what it tells does not count for a while", zap.String("peer", string(id)),
			zap.Uint64("height", p.pos.LIB.Height), zap.Duration("for", p.notRange.Sub(now)))
	}
}

// first is the first height that a peer can serve, as far as known.
func (p *peer) first() uint64 { return max(p.pos.First, p.rangeFirst) }

// rangeTo is the last height that a peer can serve in a range, as far as known.
func (p *peer) rangeTo() uint64 {
	if p.pos.LIB.Height <= p.rangeSaid {
		return min(p.rangeEnd, p.pos.LIB.Height)
	}
	return p.pos.LIB.Height
}

// enter changes the state.
func (m *Manager) enter(d decision, now time.Time) {
	if d.state == m.state {
		return
	}
	was := m.state
	m.state = d.state
	pos := m.position()
	m.log.Info("sync state", zap.Stringer("from", was), zap.Stringer("to", d.state), zap.Uint64("height", pos.Head.Height), zap.Uint64("target", d.target))
	m.metrics.state(d.state)
	if was == LIBCatchup {
		m.cancel(m.sched.Stop())
		select { // a rest that nobody will complete
		case m.imports <- &importJob{flush: true, reset: true}:
			m.importing = true
		default:
		}
		for _, p := range m.peers {
			if p.handshaken {
				m.sendHandshake(p)
			}
		}
	}
	if d.state == LIBCatchup {
		m.sched.Start(pos.LIB.Height, d.target)
		m.flushed = false
		m.progress.start(pos.LIB.Height)
	}
}

// pump keeps the pipeline of a lib_catchup full: requests, decoding, importing.
func (m *Manager) pump(now time.Time) {
	for _, a := range m.sched.Assign(now) {
		m.request(a, now)
	}
	for _, c := range m.sched.Undecoded() {
		c.decoding = true
		select {
		case m.decodes <- &decodeJob{chunk: c, req: c.req, start: c.start, raws: c.raws, peer: c.peer}:
			continue
		default:
			c.decoding = false
		}
		break
	}
	if m.importing {
		return
	}
	if c := m.sched.Take(); c != nil {
		m.importing, m.flushed = true, false
		m.imports <- &importJob{blocks: c.blocks, peer: c.peer, end: c.end, bytes: c.bytes}
		return
	}
	if m.state == LIBCatchup && m.sched.Done() && !m.flushed {
		m.importing, m.flushed = true, true
		m.imports <- &importJob{flush: true, fc: m.newestFC()}
	}
}

// newestFC is the certificate of the highest slot that a peer showed.
func (m *Manager) newestFC() []*block.Certificate {
	var out []*block.Certificate
	for _, p := range m.peers {
		if p.handshaken && p.hello.FC != nil {
			out = append(out, p.hello.FC)
		}
	}
	return out
}

func (m *Manager) cancel(as []assignment) {
	for _, a := range as {
		p := m.peers[a.peer]
		if p == nil {
			continue
		}
		if j := p.windowJobs[a.req]; j != nil {
			delete(p.windowJobs, a.req)
			j.cancel()
		} else {
			r := SyncRequest{ReqIndex: a.req}
			p.send(transport.LaneConsensus, TypeSyncRequest, r.Encode())
		}
	}
}

// onAnswer takes a block that answers one of our requests, of whichever kind.
func (m *Manager) onAnswer(p *peer, s *SignedBlock) {
	if p.leaving {
		return
	}
	now := time.Now()
	switch got := m.take(p, s.ReqIndex, rangeBlock{height: s.Height, raw: s.Raw}, now); got {
	case receiptChunk, receiptCut:
		m.pump(now)
		return
	case receiptTaken, receiptWrong:
		return
	}
	switch {
	case m.ask != nil && m.ask.peer == p && m.ask.req == s.ReqIndex:
		m.onAskBlock(s, now)
	case m.onPulled(p, s):
	case m.onRepairBlock(p, s):
	default:
		m.metrics.dropped("late_block")
	}
}

// take gives a block of a range to the scheduler, whichever way it came.
func (m *Manager) take(p *peer, req uint64, b rangeBlock, now time.Time) receipt {
	got, c := m.sched.Receive(p.id, req, b, now)
	switch got {
	case receiptWrong:
		err := wrongHeight(b.height, c.next())
		if b.height == c.next() {
			err = fmt.Errorf("block %d has %d bytes, the chain allows %d", b.height, len(b.raw), m.sched.lim.blockBytes)
		}
		m.punish(p, Validation, err)
	case receiptTaken, receiptChunk, receiptCut:
		m.progress.received(len(b.raw), now)
		m.metrics.ranged(len(b.raw))
		p.counts.rangeBlocks++
		p.counts.rangeBytes += uint64(len(b.raw))
		if got == receiptCut {
			m.cancel([]assignment{{peer: p.id, req: req}})
		}
	}
	return got
}

func (m *Manager) onError(p *peer, e *ErrorMessage) {
	now := time.Now()
	m.log.Debug("request was refused", zap.String("peer", string(p.id)), zap.Stringer("code", e.Code), zap.Uint64("height", e.Height), zap.String("detail", e.Detail))
	switch {
	case m.sched.Fail(p.id, e.ReqIndex, e.Code, e.Height, now):
		src := m.sched.sources[p.id]
		switch e.Code {
		case CodePruned:
			p.rangeFirst = max(p.rangeFirst, src.first)
		case CodeBeyond:
			// It cannot serve what it claims. A higher claim counts again.
			p.rangeEnd, p.rangeSaid = src.last, p.pos.LIB.Height
		}
		m.disbelieve(p.id, now)
		m.evaluate(now)
	case m.ask != nil && m.ask.peer == p && m.ask.req == e.ReqIndex:
		m.onAskError(e, now)
	default:
		m.pullRefused(p, e.ReqIndex)
		m.repairRefused(p, e, now)
	}
}

// expire takes back what made no progress in time.
func (m *Manager) expire(now time.Time) {
	if late := m.sched.Expire(now); len(late) > 0 {
		for _, a := range late {
			m.log.Info("request timed out", zap.String("peer", string(a.peer)), zap.Uint64("height", a.start))
			m.metrics.timeout("range")
			m.disbelieve(a.peer, now)
		}
		m.cancel(late)
	}
	m.settleClaims(now)
	m.expireAsk(now)
	m.expirePulls(now)
	m.startRepairs(now)
}

// onImported takes the importer's result.
func (m *Manager) onImported(r importResult) {
	now := time.Now()
	m.importing = false
	if r.entered.Height > 0 {
		m.entered, m.enteredAt = r.entered, now
	}
	if m.state == LIBCatchup || r.bad != "" {
		m.sched.Applied(r.applied, r.taken, r.restBytes)
	}
	switch {
	case r.bad != "":
		m.log.Warn("bad block in a range", zap.String("peer", string(r.bad)), zap.Uint64("height", r.badHeight), zap.Error(r.err))
		m.sched.Discard(r.bad)
		m.sched.Redo(r.badHeight, r.bad)
		m.flushed = false
		if p := m.peers[r.bad]; p != nil {
			m.punish(p, r.why, r.err)
		} else if m.cfg.BanTime > 0 {
			m.bans.Add(r.bad, r.why, now.Add(m.cfg.BanTime))
		}
	case len(r.disputed) > 0:
		m.dispute(r.disputed, r.err, now)
	}
	m.settleClaims(now)
	m.progress.applied(max(r.applied, r.entered.Height))
	m.evaluate(now)
}

// dispute begins the range anew from LIB, since peers contradict each other. One of them is not asked for a while, in
// turn, so that the other can bring everything by itself; the final blocks then show who was wrong.
func (m *Manager) dispute(claims []claim, err error, now time.Time) {
	m.log.Warn("ranges of peers contradict each other", zap.Uint64("height", claims[0].height), zap.String("peer", string(claims[0].peer)),
		zap.String("other", string(claims[len(claims)-1].peer)), zap.Error(err))
	m.claims = append(m.claims, claims...)
	m.claims = m.claims[max(0, len(m.claims)-maxClaims):]
	if m.state == LIBCatchup {
		target := m.sched.target
		m.cancel(m.sched.Stop())
		m.sched.Start(m.deps.Driver.Status().LIB.Height, target)
		m.flushed = false
	}
	m.disputes++
	if p := m.peers[claims[(m.disputes-1)%len(claims)].peer]; p != nil {
		m.sched.Rest(p.id, now.Add(m.backoff(p.suspected)))
		p.suspected++
	}
}

// settleClaims judges what peers said of blocks that are final by now.
func (m *Manager) settleClaims(now time.Time) {
	if len(m.claims) == 0 {
		return
	}
	lib := m.deps.Driver.Status().LIB.Height
	var open, due []claim
	for _, c := range m.claims {
		if c.height > lib {
			open = append(open, c)
		} else {
			due = append(due, c)
		}
	}
	m.claims = open
	for _, c := range due {
		hash, ok := m.hashAt(c.height)
		p := m.peers[c.peer]
		switch {
		case !ok:
		case hash == c.hash && p != nil:
			p.suspected = 0
		case hash == c.hash:
		case p != nil:
			m.punish(p, Forked, fmt.Errorf("its range had block %s at height %d, the irreversible one is %s", c.hash, c.height, hash))
		case m.cfg.BanTime > 0:
			m.bans.Add(c.peer, Forked, now.Add(m.cfg.BanTime))
		}
	}
}
