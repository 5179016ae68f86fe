package blocksync

import (
	"fmt"
	"runtime"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"
)

// sendHandshake tells a peer who and where we are.
func (m *Manager) sendHandshake(p *peer) {
	h := m.handshake(p)
	p.send(transport.LaneConsensus, TypeHandshake, h.Encode())
}

// handshake makes the next handshake for a peer.
func (m *Manager) handshake(p *peer) *Handshake {
	s := m.deps.Driver.Status()
	now := uint64(time.Now().UnixNano())
	p.sentGen++
	h := &Handshake{
		NetVersion: NetVersion, ChainID: m.deps.Genesis, NodeID: string(m.self), Time: now,
		Token:      HandshakeToken(m.deps.Genesis, string(m.self), now),
		P2PAddress: m.address(), Head: s.Head, LIB: s.LIB, OS: runtime.GOOS, Agent: m.cfg.Agent,
		Generation: p.sentGen, First: m.deps.Blocks.FirstHeight(), Justified: s.Justified, QC: s.QC, FC: s.FC,
		Votes: s.OwnVotes[max(0, len(s.OwnVotes)-maxOwnVotes):], Upgrades: m.deps.Identity.Upgrades, Modes: ServeRange | TakesTime,
	}
	if m.deps.Identity.Pull && m.cfg.ServeBytesPerSec == 0 {
		h.Modes |= ServePull
	}
	if m.deps.Receipts != nil {
		h.Modes |= ServeReceipts
	}
	if t := m.deps.Identity.SignerStart; !t.IsZero() {
		h.SignerStart = uint64(t.UnixNano())
	}
	if sign := m.deps.Identity.Sign; sign != nil {
		sig, err := sign(h.Token)
		if err != nil {
			m.log.Warn("handshake is sent without the account's signature", zap.Error(err))
		} else {
			h.Key, h.Sig = m.deps.Identity.Account, sig
		}
	}
	if m.deps.Recoveries != nil && p.sentGen == 1 {
		h.Recoveries = m.deps.Recoveries.Shown()
	}
	if m.deps.FirstSync != nil {
		h.Modes |= AnswersSessions | AnswersQuestions
	}
	return h
}

func (m *Manager) address() string {
	if m.cfg.P2PAddress != "" {
		return m.cfg.P2PAddress
	}
	if a := m.deps.Host.Addrs(); len(a) > 0 {
		return a[0]
	}
	return "/p2p/" + string(m.self)
}

func (m *Manager) localView(p *peer) LocalView {
	return LocalView{
		NodeID: string(m.self), Chain: m.deps.Genesis, Position: m.position(), Member: m.member(p.id),
		HashAt: m.hashAt,
	}
}

func (m *Manager) hashAt(height uint64) (common.Hash, bool) {
	if lib := m.deps.Driver.Status().LIB; lib.Height == height {
		return lib.Hash, true
	}
	h, err := m.deps.Blocks.HeaderByHeight(height)
	if err != nil {
		return common.Hash{}, false
	}
	return h.Hash(), true
}

func (m *Manager) onHandshake(p *peer, h *Handshake) {
	if p.leaving || p.meeting || h.Generation <= p.seenGen && p.seenGen > 0 {
		return
	}
	if p.helloCount++; p.helloCount > handshakesPerPeriod {
		return
	}
	why, err := CheckHandshake(h, string(p.id), m.localView(p))
	if err != nil && why != Forked {
		m.punish(p, why, err)
		return
	}
	if err == nil {
		p.takesTime = h.Modes&TakesTime != 0
	}
	// Recoveries come before a fork: a peer that goes by another one may hold other blocks as final, and this node has to hear why.
	if r := m.deps.Recoveries; r != nil && !p.handshaken && (len(h.Recoveries) > 0 || len(r.Shown()) > 0) {
		m.meetRecoveries(p, h, err)
		return
	}
	m.settleHandshake(p, h, err)
}

// settleHandshake takes a handshake, unless it shows a fork: that the peer holds another block as final.
func (m *Manager) settleHandshake(p *peer, h *Handshake, fork error) {
	if fork != nil {
		m.onForkedPeer(p, h, fork)
		return
	}
	m.takeHandshake(p, h)
}

// takeHandshake takes a handshake that was found good.
func (m *Manager) takeHandshake(p *peer, h *Handshake) {
	now := time.Now()
	first := !p.handshaken
	p.handshaken, p.hello, p.seenGen = true, h, h.Generation
	was := p.pos
	m.moved(p, Position{Head: h.Head, LIB: h.LIB, Justified: h.Justified.Slot, First: h.First}, now)
	if p.pos.ahead(was) && p.empty <= 1 && m.sched.Failures(p.id) < claimFailures {
		p.notRange, p.notAsk = time.Time{}, time.Time{} // it may have now what it had not, unless that is all it ever says
	}
	m.log.Debug("handshake", zap.String("peer", string(p.id)), zap.Uint64("generation", h.Generation), zap.Uint64("height", h.Head.Height), zap.Uint64("slot", h.Head.Slot))
	if first {
		m.forgetRefusals(p)
		if m.deps.OnLink != nil {
			m.deps.OnLink(p.link)
		}
		m.beat(p, now)
		m.greetSessions(p, now)
		if own := m.deps.Identity.Upgrades; h.Upgrades != own { // no fault: what is voted decides, and who lacks it stops by itself
			m.log.Info("peer's genesis file describes other upgrades than this node's", zap.String("peer", string(p.id)),
				zap.Stringer("theirs", h.Upgrades), zap.Stringer("ours", own))
		}
	}
	m.certs.Put(&certificateJob{peer: p, qc: h.QC, fc: h.FC}, maxHandshakeBytes)
	if _, _, spent := p.account.payBytes(len(h.Votes)*voteBytes, now); spent {
		m.sendFlooderAway(p)
		return
	}
	m.queueVotes(p, h.Votes, false)
	m.onQuestion(p, h)
	m.answerHandshake(p)
	m.evaluate(now)
}

// answerHandshake sends the notice of the case that applies. Cases 1 and 3 are the plan's business.
func (m *Manager) answerHandshake(p *peer) {
	local := m.position()
	c := DecideCase(local, p.pos)
	if c == CasePeerAsks && near(local, p.pos, p.latency(), m.slot) {
		return // what is missing there is on its way
	}
	pending := uint64(0)
	if m.deps.Pool != nil && c == CaseEqual {
		pending = uint64(len(m.deps.Pool.Pending()))
	}
	if n := NoticeFor(c, local, pending); n != nil {
		p.send(transport.LaneConsensus, TypeNotice, n.Encode())
	}
}

func (m *Manager) onNotice(p *peer, n *Notice) {
	if !p.handshaken {
		return
	}
	now := time.Now()
	if n.SetDamp {
		p.damped, p.dampedUntil = n.Damp, now.Add(dampFor)
		return
	}
	pos := p.pos
	switch n.Blocks.Mode {
	case ModeLastIrrCatchUp: // case 2: the peer is at pending, its LIB at the other pending
		if n.Transactions.Pending <= n.Blocks.Pending {
			pos.Head.Height = max(pos.Head.Height, n.Blocks.Pending)
			pos.LIB.Height = max(pos.LIB.Height, n.Transactions.Pending)
		}
	case ModeCatchUp: // case 4: the peer's head
		if len(n.Blocks.IDs) == 1 && n.Blocks.IDs[0] != pos.Head.Hash {
			pos.Head = Ref{Height: n.Blocks.Pending, Slot: max(pos.Head.Slot, n.Blocks.Pending), Hash: n.Blocks.IDs[0]}
			pos.Justified = max(pos.Justified, m.deps.Driver.Status().Justified.Slot)
		}
	}
	m.moved(p, pos, now)
	if n.Transactions.Mode == ModeCatchUp && n.Transactions.Pending > 0 && m.deps.Pool != nil {
		ids := m.deps.Pool.Pending()
		r := Request{Transactions: IDs{Mode: ModeCatchUp, Pending: uint64(len(ids)), IDs: ids[:min(len(ids), maxIDs)]}, ReqIndex: m.nextReq()}
		p.send(transport.LaneConsensus, TypeRequest, r.Encode())
	}
	m.evaluate(now)
}

// certificateJob hands the certificates of a handshake to the driver.
type certificateJob struct {
	peer   *peer
	qc, fc *block.Certificate
}

func (m *Manager) certificateWorker() {
	m.certs.Each(m.ctx, func(j *certificateJob) {
		for _, c := range []*block.Certificate{j.qc, j.fc} {
			if c == nil {
				continue
			}
			err := m.deps.Driver.AddCertificate(c)
			if m.deps.verdict(err) == VerdictInvalid {
				m.post(func() { m.punish(j.peer, Validation, fmt.Errorf("certificate in handshake: %w", err)) })
				return
			}
		}
	})
}
