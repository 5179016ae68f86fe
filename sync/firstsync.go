package blocksync

import (
	"context"
	"fmt"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"
)

// ProducerAnswer is what another producer's handshake tells this node's signer after a start.
type ProducerAnswer struct {
	Producer common.Address // the handshake's signature proves it
	LIB      Ref
	FC       *block.Certificate
	Votes    []block.Vote // in this node's name, as the producer holds them; not verified
}

// FirstSync is the signer's wait after a start: it signs nothing before other producers have told it what they hold of
// its votes. Asks must be quick; the others may wait for the driver, and may be called concurrently.
type FirstSync interface {
	// Asks reports whether answers of other producers are missing.
	Asks() bool
	// VotesBy are the newest genuine votes of an account that this node holds, at most maxToldVotes.
	VotesBy(ctx context.Context, account common.Address) ([]block.Vote, error)
	// HearProducer takes an answer. An error of VerdictInvalid blames the peer that gave it; after another one the
	// answer does not count, and is asked for again.
	HearProducer(ctx context.Context, a ProducerAnswer) error
}

// answerJob is a question of a peer that this node answers, or a peer's answer to ours.
type answerJob struct {
	peer     *peer
	account  common.Address
	question uint64          // to be answered; 0: answer is set
	answer   *ProducerAnswer // of the peer
}

// mayAsk reports whether the peer is worth asking: a producer's node that answers questions.
func (m *Manager) mayAsk(p *peer) bool {
	return m.deps.FirstSync != nil && p.handshaken && p.hello.Key != (common.Address{}) && p.hello.Modes&AnswersQuestions != 0 &&
		p.hello.Key != m.deps.Identity.Account && m.deps.FirstSync.Asks()
}

// askProducer asks a producer's node what it holds of this node's votes. Questions have numbers that rise on the link from
// 1: an answer to any of them is of this start, one with another number is not taken. A slow peer's answer to an earlier
// question counts, so that one that needs longer than a heartbeat is heard.
func (m *Manager) askProducer(p *peer) {
	if m.mayAsk(p) {
		p.question++
		m.sendHandshake(p)
	}
}

// onQuestion has a handshake's question answered, and its answer to ours heard. Both wait for the driver.
func (m *Manager) onQuestion(p *peer, h *Handshake) {
	if m.deps.FirstSync == nil || h.Key == (common.Address{}) {
		return
	}
	if h.Question > p.questionSeen {
		p.questionSeen = h.Question
		m.queueAnswer(&answerJob{peer: p, account: h.Key, question: h.Question})
	}
	if q := h.Answer.Question; q != 0 && q <= p.question { // all are of this link, so of this start
		m.queueAnswer(&answerJob{peer: p, answer: &ProducerAnswer{Producer: h.Key, LIB: h.LIB, FC: h.FC, Votes: h.Answer.Votes}})
	}
}

func (m *Manager) queueAnswer(j *answerJob) {
	if !m.answers.Put(j, maxToldVotes*block.MaxVoteBytes) {
		m.metrics.dropped("answer") // it is asked for again with the next heartbeat
	}
}

func (m *Manager) answerWorker() {
	m.answers.Each(m.ctx, func(j *answerJob) {
		if j.answer != nil {
			m.hearAnswer(j)
			return
		}
		votes, err := m.deps.FirstSync.VotesBy(j.peer.ctx, j.account)
		if err != nil {
			m.log.Debug("question of a producer is not answered", zap.String("peer", string(j.peer.id)), zap.Error(err))
			return
		}
		m.post(func() {
			h := m.handshake(j.peer)
			h.Answer = ToldVotes{Question: j.question, Votes: votes[:min(len(votes), maxToldVotes)]}
			j.peer.send(transport.LaneConsensus, TypeHandshake, h.Encode())
		})
	})
}

func (m *Manager) hearAnswer(j *answerJob) {
	err := m.deps.FirstSync.HearProducer(j.peer.ctx, *j.answer)
	switch {
	case err == nil:
		m.log.Debug("producer answered", zap.String("peer", string(j.peer.id)), zap.Stringer("producer", j.answer.Producer), zap.Int("votes", len(j.answer.Votes)))
	case m.deps.verdict(err) == VerdictInvalid:
		m.post(func() { m.punish(j.peer, Validation, fmt.Errorf("answer of producer %s: %w", j.answer.Producer, err)) })
	default:
		m.log.Debug("answer of a producer cannot be judged yet", zap.String("peer", string(j.peer.id)), zap.Error(err))
	}
}
