package blocksync

import (
	"time"

	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"
)

// ask is the one request for a peer's reversible branch that is under way.
type ask struct {
	peer     *peer
	req      uint64
	sent     bool
	began    time.Time
	progress time.Time
	brought  time.Time // when a block proved to be new, or began
	height   uint64    // of the last block
	blocks   int
	pending  int  // blocks handed to the adder and not settled
	fresh    int  // blocks that were new
	cut      bool // our queue was full: the rest of the answer was dropped
	done     bool // the answer is complete
	refused  Verdict
}

// askJob builds the locator off the manager's goroutine: it reads headers.
type askJob struct {
	ask  *ask
	head Ref
	lib  Ref
}

func (m *Manager) startAsk(id transport.PeerID, now time.Time) {
	p := m.peers[id]
	if m.ask != nil || p == nil || m.importing {
		return
	}
	s := m.deps.Driver.Status()
	a := &ask{peer: p, req: m.nextReq(), began: now, progress: now, brought: now}
	select {
	case m.asks <- &askJob{ask: a, head: s.Head, lib: s.LIB}:
		m.ask = a
	default:
	}
}

func (m *Manager) askWorker() {
	for {
		select {
		case <-m.ctx.Done():
			return
		case j := <-m.asks:
			ids := m.locator(j.head, j.lib)
			m.post(func() { m.sendAsk(j.ask, ids) })
		}
	}
}

// locator lists hashes of our branch, newest first, at growing distances, LIB last.
func (m *Manager) locator(head, lib Ref) []common.Hash {
	ids := []common.Hash{head.Hash}
	at, step, passed := head.Hash, 1, 0
	for height := head.Height; height > lib.Height+1 && len(ids) < maxLocator-1; height-- {
		h, err := m.deps.Blocks.Header(at)
		if err != nil {
			break
		}
		at = h.Parent()
		if passed++; passed == step {
			ids = append(ids, at)
			passed = 0
			if len(ids) > 8 {
				step *= 2
			}
		}
	}
	if lib.Hash != ids[len(ids)-1] {
		ids = append(ids, lib.Hash)
	}
	return ids
}

func (m *Manager) sendAsk(a *ask, ids []common.Hash) {
	if m.ask != a {
		return
	}
	now := time.Now()
	a.sent, a.began, a.progress, a.brought = true, now, now, now
	r := Request{Blocks: IDs{Mode: ModeCatchUp, Pending: uint64(len(ids)), IDs: ids}, ReqIndex: a.req}
	if !a.peer.send(transport.LaneConsensus, TypeRequest, r.Encode()) {
		m.endAsk(false, time.Now())
	}
}

// onAskBlock takes a block of the answer. Answers are in order and bounded: more is not read.
func (m *Manager) onAskBlock(s *SignedBlock, now time.Time) {
	a := m.ask
	if !a.cut && (s.Height <= a.height || a.blocks >= maxAnswerBlocks) {
		m.cutAsk(a)
	}
	if !a.cut {
		a.height, a.progress = s.Height, now
		a.blocks++
	}
	if s.Remaining == 0 {
		a.done = true
	}
	if !a.cut {
		job := &addJob{peer: a.peer, raw: s.Raw, ask: a}
		if m.adds.Put(job, len(s.Raw)) {
			a.pending++
		} else {
			m.cutAsk(a) // ask for the rest when these are in
		}
	}
	m.progress.received(len(s.Raw), now)
	m.settleAsk(now)
}

// cutAsk takes no more of an answer.
func (m *Manager) cutAsk(a *ask) {
	a.cut, a.done = true, true
	r := Request{ReqIndex: a.req}
	a.peer.send(transport.LaneConsensus, TypeRequest, r.Encode())
}

func (m *Manager) onAskError(e *ErrorMessage, now time.Time) {
	m.ask.done = true
	if e.Code == CodeGone {
		m.ask.fresh++ // no reason to wait: the branch moved on
	}
	m.settleAsk(now)
}

// askAdded takes the adder's verdict on a block of the answer.
func (m *Manager) askAdded(a *ask, v Verdict) {
	a.pending--
	if v == VerdictOK {
		a.fresh++
		a.brought = time.Now()
	} else if v != VerdictKnown && v != VerdictIrrelevant {
		a.refused = v
	}
	if m.ask == a {
		a.progress = time.Now()
		m.settleAsk(a.progress)
	}
}

func (m *Manager) settleAsk(now time.Time) {
	if m.ask.done && m.ask.pending == 0 {
		m.endAsk(m.ask.fresh > 0, now)
	}
}

// endAsk closes the request. An answer that brought nothing keeps its peer from being asked for a growing while, so a
// claim without blocks cannot hold us.
func (m *Manager) endAsk(useful bool, now time.Time) {
	a := m.ask
	m.ask = nil
	p := a.peer
	p.aheadSince = now
	switch {
	case useful:
		p.empty = 0
		p.notAsk = now.Add(m.slot) // the tree takes the blocks in before they are compared again
	default:
		p.notAsk = now.Add(m.backoff(p.empty))
		p.empty++
	}
	if a.refused == VerdictUnknownParent {
		m.unlinkable(p)
	}
	m.orphans.retry(m)
	m.evaluate(now)
}

// late reports whether an answer takes too long: it stands still, brings only what is known, or goes on for ever.
func (a *ask) late(now time.Time, timeout time.Duration) bool {
	timeout = max(timeout, 4*a.peer.clock.RTT())
	return now.Sub(a.progress) >= timeout || now.Sub(a.brought) >= askKnownTimeouts*timeout || now.Sub(a.began) >= askTimeouts*timeout
}

func (m *Manager) expireAsk(now time.Time) {
	a := m.ask
	if a == nil || a.pending > 0 || !a.late(now, m.cfg.RequestTimeout) {
		return
	}
	m.log.Info("request timed out", zap.String("peer", string(a.peer.id)))
	m.metrics.timeout("branch")
	if a.sent {
		r := Request{ReqIndex: a.req}
		a.peer.send(transport.LaneConsensus, TypeRequest, r.Encode())
	}
	m.endAsk(false, now)
}

func (m *Manager) dropAsk(id transport.PeerID) {
	if m.ask != nil && m.ask.peer.id == id {
		m.ask = nil
	}
}
