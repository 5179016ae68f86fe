package blocksync

import (
	"context"
	"fmt"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"
)

// Producers of release 0.3 know no sessions: they ask and answer within handshakes, on a direct link. A network is upgraded node
// by node, so their answers count for the present session, and their questions are answered. They prove less than answers to
// sessions do: the answerer does not write them down before it answers, and tells votes alone.

// ProducerAnswer is what the handshake of a producer of release 0.3 tells this node's signer.
type ProducerAnswer struct {
	Session  block.Session  // of this node, in which it was asked
	Producer common.Address // the handshake's signature proves it
	LIB      Ref
	FC       *block.Certificate
	QC       *block.Certificate // what the producer knows as justified is the least that this node's signer may rest on
	Votes    []block.Vote       // in this node's name, as the producer holds them; not verified
}

// questions is what this node asked a peer of release 0.3, and was asked by it. Owned by the manager's goroutine.
type questions struct {
	newest  uint64        // number of our newest question; they rise on a link from 1
	first   uint64        // of the first in session
	session block.Session // that newest asks in
	seen    uint64        // number of the peer's newest one
}

// questionJob is a question of a peer that this node answers, or a peer's answer to ours.
type questionJob struct {
	account  common.Address
	question uint64          // to be answered; 0: answer is set
	answer   *ProducerAnswer // of the peer
}

// speaksQuestions reports whether a peer is a node of release 0.3 that signs for another producer.
func (m *Manager) speaksQuestions(p *peer) bool {
	return m.deps.FirstSync != nil && p.handshaken && p.hello.Modes&AnswersQuestions != 0 && p.hello.Modes&AnswersSessions == 0 &&
		p.hello.Key != (common.Address{}) && p.hello.Key != m.deps.Identity.Account
}

// askQuestion asks a producer's node what it holds of this node's votes. A slow peer's answer to an earlier question of the
// same session counts, so that one that needs longer than a heartbeat is heard.
func (m *Manager) askQuestion(p *peer) {
	if !m.speaksQuestions(p) || !m.deps.FirstSync.Asks() {
		return
	}
	s := m.deps.FirstSync.Session()
	if s == nil {
		return
	}
	q := &p.questions
	q.newest++
	if q.session != s.Session {
		q.session, q.first = s.Session, q.newest
	}
	h := m.handshake(p)
	h.Question = q.newest
	p.send(transport.LaneConsensus, TypeHandshake, h.Encode())
}

// onQuestion has a handshake's question answered, and its answer to ours heard. Both wait for the driver.
func (m *Manager) onQuestion(p *peer, h *Handshake) {
	if !m.speaksQuestions(p) {
		return
	}
	q := &p.questions
	if h.Question > q.seen {
		q.seen = h.Question
		m.queueSession(&sessionJob{peer: p, question: &questionJob{account: h.Key, question: h.Question}}, maxControlBytes)
	}
	if n := h.Answer.Question; n != 0 && n >= q.first && n <= q.newest {
		answer := &ProducerAnswer{Session: q.session, Producer: h.Key, LIB: h.LIB, FC: h.FC, QC: h.QC, Votes: h.Answer.Votes}
		m.queueSession(&sessionJob{peer: p, question: &questionJob{answer: answer}}, maxHandshakeBytes)
	}
}

// workOnQuestion runs on the session worker's goroutine.
func (m *Manager) workOnQuestion(ctx context.Context, p *peer, j *questionJob) {
	if j.answer != nil {
		m.hearProducer(ctx, p, j.answer)
		return
	}
	votes, err := m.deps.FirstSync.VotesBy(ctx, j.account)
	if err != nil {
		m.log.Debug("question of a producer is not answered", zap.String("peer", string(p.id)), zap.Error(err))
		return
	}
	m.post(func() {
		h := m.handshake(p)
		h.Answer = ToldVotes{Question: j.question, Votes: votes[:min(len(votes), maxToldVotes)]}
		p.send(transport.LaneConsensus, TypeHandshake, h.Encode())
	})
}

func (m *Manager) hearProducer(ctx context.Context, p *peer, a *ProducerAnswer) {
	err := m.deps.FirstSync.HearProducer(ctx, *a)
	switch {
	case err == nil:
		m.log.Debug("producer answered", zap.String("peer", string(p.id)), zap.Stringer("producer", a.Producer), zap.Int("votes", len(a.Votes)))
	case m.deps.verdict(err) == VerdictInvalid:
		m.post(func() { m.punish(p, Validation, fmt.Errorf("answer of producer %s: %w", a.Producer, err)) })
	default:
		m.log.Debug("answer of a producer cannot be judged yet", zap.String("peer", string(p.id)), zap.Error(err))
	}
}
