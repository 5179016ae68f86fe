package blocksync

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"
)

// FirstSync is the signers' protocol of a start (rule 11 of consensus): a producer casts no vote before others have told what
// they hold of its signatures. All methods may be called concurrently; the first three must be quick.
type FirstSync interface {
	// Session is the session of this node's signer; nil: none.
	Session() *block.SignedSession
	// Asks reports whether answers to it are of use.
	Asks() bool
	// Sits reports whether an account has a seat.
	Sits(account common.Address) bool
	// NewestSession is the highest number of an account's sessions that this node's disk holds; 0: none.
	NewestSession(ctx context.Context, account common.Address) (uint64, error)
	// AnswerSession answers the session of a producer, once it is on this node's disk. nil: there is nothing to say. An error
	// of VerdictInvalid says that the session is not its producer's.
	AnswerSession(ctx context.Context, s *block.SignedSession) (*block.SessionAnswer, error)
	// HearAnswer takes an answer to this node's session. An error of VerdictInvalid blames who signed it.
	HearAnswer(ctx context.Context, a *block.SessionAnswer) error
	// VerifyAnswer checks the signature of an answer that is passed on.
	VerifyAnswer(a *block.SessionAnswer) error
	// LinksReturned tells that this node has a peer again after it had none for so long.
	LinksReturned(alone time.Duration)
	// VotesBy are the newest genuine votes of an account that this node holds, newest first, for a producer of release 0.3.
	VotesBy(ctx context.Context, account common.Address) ([]block.Vote, error)
	// HearProducer takes the answer of a producer of release 0.3. Errors are as of HearAnswer.
	HearProducer(ctx context.Context, a ProducerAnswer) error
}

// sessionKey names a session.
type sessionKey struct {
	producer common.Address
	session  block.Session
}

// sessionPath is where the answers to a session go: to the peer that the newest round of it came from first.
type sessionPath struct {
	round    uint64
	from     transport.PeerID
	payload  []byte // the newest request
	at       time.Time
	answered map[common.Address]struct{} // producers whose answers to this round were passed on
	others   int                         // answers of observers that were
	alive    []byte                      // answer of the producer itself: a second instance of it lives
}

// sessionJob is a session to be answered, an answer to ours, one to be passed on, or a question of release 0.3.
type sessionJob struct {
	peer     *peer
	request  *SessionRequest
	answer   *block.SessionAnswer
	payload  []byte // as it came
	pass     bool
	question *questionJob
}

// askSession asks all peers for answers to our own session while they are of use.
func (m *Manager) askSession(now time.Time) {
	f := m.deps.FirstSync
	if f == nil || now.Before(m.nextAsk) || !f.Asks() {
		return
	}
	m.nextAsk = now.Add(sessionEvery)
	if round := m.nextRound(); round != nil {
		for _, p := range m.peers {
			if p.answersSessions() {
				p.send(transport.LaneConsensus, TypeSession, round)
			}
		}
	}
}

// nextRound is the next request with our session; nil: there is none.
func (m *Manager) nextRound() []byte {
	s := m.deps.FirstSync.Session()
	if s == nil || m.deps.Identity.Sign == nil {
		return nil
	}
	m.askRound++
	r := SessionRequest{Round: m.askRound, Session: *s}
	sig, err := m.deps.Identity.Sign(r.askDigest(m.deps.Genesis))
	if err != nil || len(sig) != len(r.Sig) {
		m.log.Warn("a session is not shown to peers, since it cannot be signed", zap.Error(err))
		return nil
	}
	copy(r.Sig[:], sig)
	return r.Encode()
}

// answersSessions reports whether sessions and answers may be sent to a peer.
func (p *peer) answersSessions() bool {
	return p.handshaken && !p.leaving && p.hello.Modes&AnswersSessions != 0
}

// greetSessions shows a new peer our session, the sessions of its own account that others have asked with, and what a second
// instance of the peer has answered.
func (m *Manager) greetSessions(p *peer, now time.Time) {
	if m.deps.FirstSync == nil || !p.answersSessions() {
		return
	}
	if round := m.nextRound(); round != nil { // whether answers are of use or not: another instance must see it
		p.send(transport.LaneConsensus, TypeSession, round)
	}
	for key, path := range m.paths {
		if path.alive != nil && path.from == p.id {
			p.send(transport.LaneConsensus, TypeSessionAnswer, path.alive)
		}
		if key.producer == p.hello.Key && now.Sub(path.at) < sessionKept {
			p.send(transport.LaneConsensus, TypeSession, path.payload)
		}
	}
}

// onSession takes a producer's session: it is answered and, once it is known to be genuine, passed on.
func (m *Manager) onSession(p *peer, r *SessionRequest, payload []byte) {
	if m.deps.FirstSync == nil || !p.handshaken || p.leaving {
		return
	}
	if p.sessions++; p.sessions > sessionsPerPeriod {
		m.metrics.dropped("session")
		return
	}
	if !m.deps.FirstSync.Sits(r.Session.Producer) {
		if p.strangers++; p.strangers > strangersPerPeriod {
			m.metrics.dropped("session")
			return
		}
	}
	if path := m.paths[sessionKey{r.Session.Producer, r.Session.Session}]; path != nil && (r.Round <= path.round || time.Since(path.at) < sessionEvery/2) {
		return
	}
	m.queueSession(&sessionJob{peer: p, request: r, payload: payload}, len(payload))
}

// onSessionAnswer takes an answer: to our own session, or to one whose answers go by here.
func (m *Manager) onSessionAnswer(p *peer, a *block.SessionAnswer, payload []byte) {
	if m.deps.FirstSync == nil || !p.handshaken || p.leaving {
		return
	}
	if !m.mayAnswer(p, a.From) {
		m.metrics.dropped("session")
		return
	}
	if a.Asker == m.deps.Identity.Account && a.Asker != (common.Address{}) {
		m.queueSession(&sessionJob{peer: p, answer: a, payload: payload}, len(payload))
	}
	path := m.paths[sessionKey{a.Asker, a.Session}]
	if path == nil || path.from == p.id && a.From != a.Asker || !path.mayPass(a) {
		return
	}
	m.queueSession(&sessionJob{peer: p, answer: a, payload: payload, pass: true}, len(payload))
}

// mayAnswer counts an answer that a peer brings and reports whether it is taken: each costs a verification of signatures, and anybody
// can make accounts without a seat.
func (m *Manager) mayAnswer(p *peer, from common.Address) bool {
	p.answers++
	if from == (common.Address{}) || !m.deps.FirstSync.Sits(from) {
		if p.strangerAnswers++; p.strangerAnswers > strangerAnswers {
			return false
		}
	}
	return p.answers <= answersPerPeriod
}

// mayPass reports whether an answer is to be passed on: one of each producer, some of observers.
func (x *sessionPath) mayPass(a *block.SessionAnswer) bool {
	if a.From == (common.Address{}) {
		return x.others < maxObserverAnswers
	}
	_, passed := x.answered[a.From]
	return !passed && len(x.answered) < maxPassedAnswers
}

func (m *Manager) queueSession(j *sessionJob, size int) {
	if !m.sessions.Put(j, size) {
		m.metrics.dropped("session") // it is asked for again
	}
}

func (m *Manager) sessionWorker() {
	m.sessions.Each(m.ctx, func(j *sessionJob) {
		switch {
		case j.request != nil:
			m.answerSession(j)
		case j.question != nil:
			m.workOnQuestion(j.peer.ctx, j.peer, j.question)
		case j.pass:
			err := m.deps.FirstSync.VerifyAnswer(j.answer)
			m.post(func() { m.passAnswer(j, err) })
		default:
			m.hearAnswer(j)
		}
	})
}

// answerSession runs on the worker's goroutine, which alone knows the rounds that it has answered.
func (m *Manager) answerSession(j *sessionJob) {
	r := j.request
	if err := r.checkRound(m.deps.Genesis); err != nil {
		m.post(func() { m.punish(j.peer, Validation, err) })
		return
	}
	key := sessionKey{r.Session.Producer, r.Session.Session}
	last, known := m.rounds.Get(key)
	if known && r.Round <= last {
		return
	}
	if !known && !m.hasRoom(j) {
		m.metrics.dropped("session") // it is asked for again
		return
	}
	m.rounds.Add(key, r.Round)
	a, err := m.deps.FirstSync.AnswerSession(j.peer.ctx, &r.Session)
	switch {
	case err == nil:
	case m.deps.verdict(err) == VerdictInvalid:
		m.post(func() {
			m.punish(j.peer, Validation, fmt.Errorf("session of producer %s: %w", r.Session.Producer, err))
		})
		return
	default:
		m.log.Debug("session of a producer is not answered", zap.String("peer", string(j.peer.id)), zap.Error(err))
		return
	}
	superseded := a != nil && slices.ContainsFunc(a.Sessions, func(s block.SignedSession) bool { return s.Number > r.Session.Number })
	m.post(func() {
		m.passSession(j, !superseded && r.Session.Producer != m.deps.Identity.Account)
		if a != nil {
			payload := encodeSessionAnswer(a)
			if path := m.paths[sessionKey{a.Asker, a.Session}]; path != nil && a.From == a.Asker {
				path.alive = payload
			}
			j.peer.send(transport.LaneConsensus, TypeSessionAnswer, payload)
		}
	})
}

// begunSessions counts the new sessions of an account; one is taken off per sessionRefill. Only the account can make them, and each
// counts once, so nobody uses up another's.
type begunSessions struct {
	count int
	since time.Time // up to when it was taken off
}

// hasRoom reports whether a session that was not answered yet may be. One that is older than what this node's disk holds of the account
// costs no write, and is not charged: anybody may show the sessions of earlier starts again.
func (m *Manager) hasRoom(j *sessionJob) bool {
	s := &j.request.Session
	if s.Producer == m.deps.Identity.Account {
		return true
	}
	newest, err := m.deps.FirstSync.NewestSession(j.peer.ctx, s.Producer)
	return err == nil && (s.Number < newest || m.mayBegin(s.Producer, time.Now()))
}

// mayBegin counts a further session of an account and reports whether there is room for it.
func (m *Manager) mayBegin(account common.Address, now time.Time) bool {
	b, known := m.begun.Get(account)
	if !known {
		b.since = now
	}
	refills := now.Sub(b.since) / sessionRefill
	b.since = b.since.Add(refills * sessionRefill)
	b.count = max(0, b.count-int(refills))
	room := b.count < maxNewSessions
	if room {
		b.count++
	}
	m.begun.Add(account, b)
	return room
}

// passSession notes where a genuine session came from and passes it on, once a round. Sessions of this node's own account and those of
// earlier starts end here: a peer shows a start those of the starts before it, and passed on each start would cost every node all of them.
func (m *Manager) passSession(j *sessionJob, pass bool) {
	key := sessionKey{j.request.Session.Producer, j.request.Session.Session}
	path := m.paths[key]
	if path != nil && j.request.Round <= path.round {
		return
	}
	now := time.Now()
	if path == nil {
		if len(m.paths) >= maxSessionPaths {
			m.dropOldestPath()
		}
		path = new(sessionPath)
		m.paths[key] = path
	}
	path.round, path.from, path.payload, path.at = j.request.Round, j.peer.id, j.payload, now
	path.answered, path.others = make(map[common.Address]struct{}), 0
	if !pass {
		return
	}
	for _, p := range m.peers {
		if p != j.peer && p.answersSessions() {
			p.send(transport.LaneConsensus, TypeSession, j.payload)
		}
	}
}

func (m *Manager) dropOldestPath() {
	var oldest sessionKey
	var at time.Time
	for key, path := range m.paths {
		if at.IsZero() || path.at.Before(at) {
			oldest, at = key, path.at
		}
	}
	delete(m.paths, oldest)
}

// passAnswer passes a genuine answer on towards who asked.
func (m *Manager) passAnswer(j *sessionJob, err error) {
	if err != nil {
		m.punish(j.peer, Validation, fmt.Errorf("answer to producer %s: %w", j.answer.Asker, err))
		return
	}
	a := j.answer
	path := m.paths[sessionKey{a.Asker, a.Session}]
	if path == nil || !path.mayPass(a) {
		return
	}
	if a.From == (common.Address{}) {
		path.others++
	} else {
		path.answered[a.From] = struct{}{}
	}
	if a.From == a.Asker {
		path.alive = j.payload
	}
	if to := m.peers[path.from]; to != nil && to != j.peer {
		to.send(transport.LaneConsensus, TypeSessionAnswer, j.payload)
	}
}

// answerKey names who answered a session of ours.
type answerKey struct {
	session block.Session
	from    common.Address
}

// mayHear reports whether an answer to our own session is of use, and not one more of the same producer within a round: each costs
// pairings. Its signature was verified. It is the session worker's.
func (m *Manager) mayHear(a *block.SessionAnswer, now time.Time) bool {
	if a.From == a.Asker {
		return true
	}
	asks := m.deps.FirstSync.Asks()
	if a.From == (common.Address{}) || !m.deps.FirstSync.Sits(a.From) {
		return asks
	}
	key := answerKey{a.Session, a.From}
	last, known := m.heard.Get(key)
	if known && (!asks || now.Sub(last) < sessionEvery/2) {
		return false
	}
	m.heard.Add(key, now)
	return true
}

// hearAnswer takes an answer to our own session. Who passed it on verified its signature and is to blame for a wrong one; for what it
// tells only its signer is.
func (m *Manager) hearAnswer(j *sessionJob) {
	if err := m.deps.FirstSync.VerifyAnswer(j.answer); err != nil {
		m.post(func() {
			m.punish(j.peer, Validation, fmt.Errorf("answer of producer %s: %w", j.answer.From, err))
		})
		return
	}
	if !m.mayHear(j.answer, time.Now()) {
		m.metrics.dropped("session")
		return
	}
	err := m.deps.FirstSync.HearAnswer(j.peer.ctx, j.answer)
	switch {
	case err == nil:
		m.log.Debug("session is answered", zap.String("peer", string(j.peer.id)), zap.Stringer("producer", j.answer.From), zap.Int("votes", len(j.answer.Votes)))
	case m.deps.verdict(err) == VerdictInvalid:
		m.post(func() {
			if err = fmt.Errorf("answer of producer %s: %w", j.answer.From, err); j.peer.signsFor(j.answer.From) {
				m.punish(j.peer, Validation, err)
				return
			}
			level := zap.WarnLevel
			if !m.deps.FirstSync.Sits(j.answer.From) {
				level = zap.DebugLevel // anybody can make such an account
			}
			m.log.Log(level, "an answer that came over a relay tells what is not so", zap.String("peer", string(j.peer.id)), zap.Error(err))
		})
	default:
		m.log.Debug("answer of a producer cannot be judged yet", zap.String("peer", string(j.peer.id)), zap.Error(err))
	}
}

// noteLinks tells the signer when this node has a peer again after it had none.
func (m *Manager) noteLinks(now time.Time) {
	linked := false
	for _, p := range m.peers {
		linked = linked || p.handshaken && !p.leaving
	}
	switch {
	case !linked && m.aloneSince.IsZero():
		m.aloneSince = now
	case linked && !m.aloneSince.IsZero():
		if m.deps.FirstSync != nil && m.wasLinked {
			m.deps.FirstSync.LinksReturned(now.Sub(m.aloneSince))
		}
		m.aloneSince = time.Time{}
	}
	m.wasLinked = m.wasLinked || linked
}
