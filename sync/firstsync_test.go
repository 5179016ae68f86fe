package blocksync

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// modelSigner is a driver's part in a start: it asks until enough have answered, and answers with the votes it is given.
type modelSigner struct {
	key     *ecdsa.PrivateKey // nil: an observer
	account common.Address
	session *block.SignedSession
	need    int
	votes   map[common.Address][]block.Vote

	mu        sync.Mutex
	heard     map[common.Address]*block.SessionAnswer
	told      []ProducerAnswer        // of producers of release 0.3
	strangers map[common.Address]bool // without a seat
	newest    map[common.Address]uint64
	asked     int
	hearings  int // answers that were heard, also one after another of the same producer
	returned  []time.Duration
}

var modelDomain = block.Domain{Genesis: modelGenesis.Hash()}

func newModelSigner(seed byte, need int) *modelSigner {
	key, err := crypto.ToECDSA(crypto.Keccak256([]byte{seed}))
	if err != nil {
		panic(err)
	}
	s := &modelSigner{key: key, account: crypto.PubkeyToAddress(key.PublicKey), need: need, votes: make(map[common.Address][]block.Vote)}
	s.begin(1)
	return s
}

// begin begins a session.
func (s *modelSigner) begin(number uint64) {
	x := &block.SignedSession{Producer: s.account, Session: block.Session{Number: number, Nonce: common.Hash{1}}}
	seal, err := crypto.Sign(modelDomain.SessionDigest(x.Producer, x.Session).Bytes(), s.key)
	if err != nil {
		panic(err)
	}
	x.Seal = [block.SealLength]byte(seal)
	s.session = x
}

func (s *modelSigner) Session() *block.SignedSession { return s.session }

func (s *modelSigner) Asks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.session != nil && len(s.heard)+len(s.told) < s.need
}

func (s *modelSigner) Sits(a common.Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.strangers[a]
}

// unseat makes an account a stranger's.
func (s *modelSigner) unseat(a common.Address) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.strangers == nil {
		s.strangers = make(map[common.Address]bool)
	}
	s.strangers[a] = true
}

func (s *modelSigner) AnswerSession(_ context.Context, x *block.SignedSession) (*block.SessionAnswer, error) {
	if err := x.Verify(modelDomain); err != nil {
		return nil, fmt.Errorf("%w: %w", errModelInvalid, err)
	}
	a := &block.SessionAnswer{Asker: x.Producer, Session: x.Session, From: s.account}
	s.mu.Lock()
	s.asked++
	if s.newest == nil {
		s.newest = make(map[common.Address]uint64)
	}
	if n := s.newest[x.Producer]; n > x.Number {
		a.Sessions = []block.SignedSession{{Producer: x.Producer, Session: block.Session{Number: n}}}
	}
	s.newest[x.Producer] = max(s.newest[x.Producer], x.Number)
	s.mu.Unlock()
	if s.session != nil && x.Producer == s.account {
		if x.Session == s.session.Session {
			return nil, nil
		}
		a.Own = s.session.Session
	}
	for _, v := range s.votes[x.Producer] {
		a.Votes = append(a.Votes, block.ToldVote{Vote: v})
	}
	if s.key != nil {
		s.sign(a)
	}
	return a, nil
}

func (s *modelSigner) NewestSession(_ context.Context, account common.Address) (newest uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest[account], nil
}

func (s *modelSigner) sign(a *block.SessionAnswer) {
	sig, err := crypto.Sign(modelDomain.AnswerDigest(a).Bytes(), s.key)
	if err != nil {
		panic(err)
	}
	a.Sig = sig
}

// ask is a round of a session, signed by the signer.
func (s *modelSigner) ask(round uint64, x block.SignedSession) []byte {
	r := SessionRequest{Round: round, Session: x}
	sig, err := crypto.Sign(r.askDigest(modelGenesis.Hash()).Bytes(), s.key)
	if err != nil {
		panic(err)
	}
	copy(r.Sig[:], sig)
	return r.Encode()
}

func (s *modelSigner) VerifyAnswer(a *block.SessionAnswer) error {
	if err := a.Verify(modelDomain); err != nil {
		return fmt.Errorf("%w: %w", errModelInvalid, err)
	}
	return nil
}

func (s *modelSigner) HearAnswer(_ context.Context, a *block.SessionAnswer) error {
	if err := s.VerifyAnswer(a); err != nil {
		return err
	}
	if a.Session != s.session.Session {
		return nil
	}
	for _, v := range a.Votes {
		if v.Vote.Signature == (block.BLSSignature{}) {
			return fmt.Errorf("%w: a vote that nobody signed", errModelInvalid)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.heard == nil {
		s.heard = make(map[common.Address]*block.SessionAnswer)
	}
	s.heard[a.From] = a
	s.hearings++
	return nil
}

func (s *modelSigner) VotesBy(_ context.Context, a common.Address) ([]block.Vote, error) {
	return s.votes[a], nil
}

func (s *modelSigner) HearProducer(_ context.Context, a ProducerAnswer) error {
	for _, v := range a.Votes {
		if v.Signature == (block.BLSSignature{}) {
			return fmt.Errorf("%w: a vote that nobody signed", errModelInvalid)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, a)
	return nil
}

func (s *modelSigner) answers03() []ProducerAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.told)
}

func (s *modelSigner) LinksReturned(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned = append(s.returned, d)
}

func (s *modelSigner) answers() int { s.mu.Lock(); defer s.mu.Unlock(); return len(s.heard) }

func (s *modelSigner) timesHeard() int { s.mu.Lock(); defer s.mu.Unlock(); return s.hearings }

func (s *modelSigner) from(a common.Address) *block.SessionAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heard[a]
}

func (s *modelSigner) timesAsked() int { s.mu.Lock(); defer s.mu.Unlock(); return s.asked }

// signs makes a node that of a signer.
func (s *modelSigner) signs(_ *Config, d *Deps) {
	d.FirstSync = s
	if s.key != nil {
		d.Identity.Account, d.Identity.SignerStart = s.account, time.Now()
		d.Identity.Sign = func(h common.Hash) ([]byte, error) { return crypto.Sign(h[:], s.key) }
	}
}

// A signer that has started asks everybody and is told what they hold of its votes; two that start at once answer each
// other, and one that does not ask is told nothing.
func TestProducersAnswerAStart(t *testing.T) {
	forEachProvider(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		a, b, c := newModelSigner(1, 2), newModelSigner(2, 1), newModelSigner(3, 0)
		c.votes[a.account] = []block.Vote{sampleVote(7), sampleVote(6)}
		na, nb, nc := l.node("a", chain, a.signs), l.node("b", chain, b.signs), l.node("c", chain, c.signs)
		na.dial(nb.host)
		nc.dial(na.host)
		l.eventually(func() bool { return a.answers() == 2 && b.answers() >= 1 }, "all answers are there")
		require.Len(l.t, a.from(c.account).Votes, 2)
		require.Empty(l.t, a.from(b.account).Votes)
		l.standsStill(c.timesAsked, 3*sessionEvery, "nobody asks on")
	})
}

// Producers that reach each other through observers only are heard over these, and an observer's own answer comes too.
func TestAnswersTravelOverRelays(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		a, c := newModelSigner(1, 3), newModelSigner(3, 0)
		c.votes[a.account] = []block.Vote{sampleVote(7)}
		b, d := new(modelSigner), new(modelSigner)
		na, nb, nd, nc := l.node("a", chain, a.signs), l.node("b", chain, b.signs), l.node("d", chain, d.signs), l.node("c", chain, c.signs)
		na.dial(nb.host)
		nb.dial(nd.host)
		nd.dial(nc.host)
		l.eventually(func() bool { return a.from(c.account) != nil && a.from(common.Address{}) != nil }, "the answer came over two observers")
		require.Len(t, a.from(c.account).Votes, 1)
	})
}

// Two instances of one producer that are linked with different nodes see each other's session.
func TestInstancesFindEachOther(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		first, second := newModelSigner(1, 0), newModelSigner(1, 9)
		second.begin(2)
		x, y := new(modelSigner), new(modelSigner)
		n1, nx, ny := l.node("first", chain, first.signs), l.node("x", chain, x.signs), l.node("y", chain, y.signs)
		n1.dial(nx.host)
		nx.dial(ny.host)
		l.eventually(func() bool { return first.timesAsked() == 0 && len(ny.m.Peers()) == 1 }, "it runs")
		n2 := l.node("second", chain, second.signs)
		n2.dial(ny.host)
		l.eventually(func() bool { return second.from(second.account) != nil }, "the first one answers")
		require.Equal(t, first.session.Session, second.from(second.account).Own)
	})
}

// scriptProducer is a scripted producer's node: it asks and answers as the test says.
func (s *script) produces(signer *modelSigner) *script {
	s.edit = func(h *Handshake) {
		h.Modes |= AnswersSessions
		h.Key = signer.account
		var err error
		h.Sig, err = crypto.Sign(h.Token[:], signer.key)
		require.NoError(s.l.t, err)
	}
	return s
}

func (s *script) session() *SessionRequest {
	r, err := DecodeSessionRequest(s.next(0, TypeSession))
	require.NoError(s.l.t, err)
	return r
}

// Sessions go on until they are answered; only genuine ones are answered and passed on, and who tells a vote that was not
// signed is sent away.
func TestAnswersThatDoNotCount(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		a := newModelSigner(1, 3)
		n := l.node("a", chain, a.signs)

		s := l.script("old", n).at(chain[20], chain[18], 19).hello()
		s.quiet(10*time.Second, 0, TypeSession) // a node that does not know sessions gets none

		p := newModelSigner(5, 0)
		s = l.script("peer", n).at(chain[20], chain[18], 19).produces(p).hello()
		first := s.session()
		second := s.session()
		require.Greater(t, second.Round, first.Round, "it asks again")
		require.Zero(t, a.answers())
		good, err := p.AnswerSession(t.Context(), &second.Session)
		require.NoError(t, err)
		s.send(0, TypeSessionAnswer, encodeSessionAnswer(good))
		l.eventually(func() bool { return a.answers() == 1 }, "the answer counts")

		liar := newModelSigner(6, 0)
		forged := sampleVote(9)
		forged.Signature = block.BLSSignature{}
		liar.votes[a.account] = []block.Vote{forged}
		told, err := liar.AnswerSession(t.Context(), &s.session().Session)
		require.NoError(t, err)
		s.send(0, TypeSessionAnswer, encodeSessionAnswer(told))
		s.session()
		s.session() // who passed it on could not know: the link stays
		s = l.script("liar", n).at(chain[20], chain[18], 19).produces(liar).hello()
		bad, err := liar.AnswerSession(t.Context(), &s.session().Session)
		require.NoError(t, err)
		s.send(0, TypeSessionAnswer, encodeSessionAnswer(bad))
		s.goneWith(Validation)
		require.Equal(t, 1, a.answers())

		s = l.script("forger", n).at(chain[20], chain[18], 19).produces(newModelSigner(7, 0)).hello()
		s.session()
		fake := *p.session
		fake.Number++
		s.send(0, TypeSession, p.ask(1, fake))
		s.goneWith(Validation)
		s = l.script("replayer", n).at(chain[20], chain[18], 19).produces(newModelSigner(8, 0)).hello()
		s.session()
		genuine, err := DecodeSessionRequest(p.ask(1, *p.session))
		require.NoError(t, err)
		genuine.Round = 1 << 60 // nobody else makes the producer's rounds
		s.send(0, TypeSession, genuine.Encode())
		s.goneWith(Validation)
	})
}

// A session costs every node an fsync, and anybody can make an account: what one account, and one peer for accounts without a seat,
// may begin is bounded. What is above it is dropped, and later answered.
func TestSessionsAreBounded(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		b := new(modelSigner)
		n := l.node("b", chain, b.signs)
		asker := newModelSigner(4, 0)
		from := l.script("from", n).at(chain[20], chain[18], 19).produces(asker).hello()
		number := uint64(0)
		begin := func() {
			number++
			asker.begin(number)
			from.send(0, TypeSession, asker.ask(1, *asker.session))
		}
		for range 3 * maxNewSessions {
			begin()
		}
		l.eventually(func() bool { return b.timesAsked() == maxNewSessions }, "as many as it may")
		l.pass(time.Second)
		require.Equal(t, maxNewSessions, b.timesAsked())
		l.pass(sessionRefill)
		from.send(0, TypeSession, asker.ask(2, *asker.session))
		l.eventually(func() bool { return b.timesAsked() == maxNewSessions+1 }, "the newest one is answered when it is asked for again")
		for i := range 40 { // two minutes
			l.pass(sessionRefill)
			begin()
			l.eventually(func() bool { return b.timesAsked() == maxNewSessions+2+i }, "a producer that restarts over and over is answered each time")
		}

		l.pass(10 * time.Second)
		asked := b.timesAsked()
		for seed := byte(20); seed < 20+3*strangersPerPeriod; seed++ {
			stranger := newModelSigner(seed, 0)
			b.unseat(stranger.account)
			from.send(0, TypeSession, stranger.ask(1, *stranger.session))
		}
		l.eventually(func() bool { return b.timesAsked() == asked+strangersPerPeriod }, "as many as it may")
		l.pass(100 * time.Millisecond)
		require.Equal(t, asked+strangersPerPeriod, b.timesAsked())
	})
}

// Answers of accounts that anybody can make take no producer's answer its place.
func TestAnswersOfStrangersAreBounded(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		a := newModelSigner(1, 1000)
		n := l.node("a", chain, a.signs)
		p := newModelSigner(5, 0)
		s := l.script("peer", n).at(chain[20], chain[18], 19).produces(p).hello()
		r := s.session()
		signers := []*modelSigner{}
		for seed := byte(20); seed < 20+2*strangerAnswers; seed++ {
			stranger := newModelSigner(seed, 0)
			a.unseat(stranger.account)
			signers = append(signers, stranger)
		}
		for _, x := range append(signers, p) {
			answer, err := x.AnswerSession(t.Context(), &r.Session)
			require.NoError(t, err)
			s.send(0, TypeSessionAnswer, encodeSessionAnswer(answer))
		}
		l.eventually(func() bool { return a.from(p.account) != nil }, "the producer is heard")
		require.Equal(t, strangerAnswers+1, a.answers())
	})
}

// A round of a session is answered and passed on once, and so is each producer's answer.
func TestSessionsArePassedOnOnce(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		b := new(modelSigner)
		n := l.node("b", chain, b.signs)
		asker, other := newModelSigner(4, 0), newModelSigner(5, 0)
		from := l.script("from", n).at(chain[20], chain[18], 19).produces(asker).hello()
		to := l.script("to", n).at(chain[20], chain[18], 19).produces(other).hello()
		l.eventually(func() bool { return handshaken(n.m) == 2 }, "linked")
		r := asker.ask(1, *asker.session)
		from.send(0, TypeSession, r)
		from.send(0, TypeSession, r)
		require.Equal(t, r, to.next(0, TypeSession))
		to.quiet(3*time.Second, 0, TypeSession)
		require.Equal(t, 1, b.timesAsked())
		from.next(0, TypeSessionAnswer) // the observer's own
		answer, err := other.AnswerSession(t.Context(), asker.session)
		require.NoError(t, err)
		to.send(0, TypeSessionAnswer, encodeSessionAnswer(answer))
		to.send(0, TypeSessionAnswer, encodeSessionAnswer(answer))
		require.Equal(t, encodeSessionAnswer(answer), from.next(0, TypeSessionAnswer))
		from.quiet(3*time.Second, 0, TypeSessionAnswer)

		again := asker.ask(2, *asker.session)
		from.send(0, TypeSession, again)
		require.Equal(t, again, to.next(0, TypeSession))
		from.next(0, TypeSessionAnswer)
		to.send(0, TypeSessionAnswer, encodeSessionAnswer(answer))
		require.Equal(t, encodeSessionAnswer(answer), from.next(0, TypeSessionAnswer), "a new round is answered anew")
		observed, err := new(modelSigner).AnswerSession(t.Context(), asker.session)
		require.NoError(t, err)
		for range maxObserverAnswers + 3 {
			to.send(0, TypeSessionAnswer, encodeSessionAnswer(observed))
		}
		for range maxObserverAnswers {
			require.Equal(t, encodeSessionAnswer(observed), from.next(0, TypeSessionAnswer))
		}
		from.quiet(3*time.Second, 0, TypeSessionAnswer) // anybody can be an observer

		unasked := newModelSigner(8, 0)
		lost, err := other.AnswerSession(t.Context(), unasked.session)
		require.NoError(t, err)
		to.send(0, TypeSessionAnswer, encodeSessionAnswer(lost))
		from.quiet(3*time.Second, 0, TypeSessionAnswer)
	})
}

// A start is shown the sessions of its account's earlier starts by whoever kept them. It answers them and passes none on: else each
// start would show every node all of them, and use up the room of its own one.
func TestOwnSessionsAreNotPassedOn(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		a, other := newModelSigner(4, 3), newModelSigner(5, 0)
		a.begin(100)
		n := l.node("a", chain, a.signs)
		to := l.script("to", n).at(chain[20], chain[18], 19).produces(other).hello()
		from := l.script("from", n).at(chain[20], chain[18], 19).produces(newModelSigner(6, 0)).hello()
		l.eventually(func() bool { return handshaken(n.m) == 2 }, "linked")
		earlier := newModelSigner(4, 0)
		for number := uint64(1); number <= 3; number++ {
			earlier.begin(number)
			from.send(0, TypeSession, earlier.ask(1, *earlier.session))
		}
		l.eventually(func() bool { return a.timesAsked() == 3 }, "answered")
		for range 5 {
			require.Equal(t, a.session.Session, to.session().Session.Session, "its own session alone")
		}
	})
}

// A producer of release 0.3 asks and is asked within handshakes: its answer counts for the session that it was asked in, and who
// tells a vote that was not signed is sent away.
func TestProducersOfRelease03AreAskedAndAnswered(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		a, p, liar := newModelSigner(1, 2), newModelSigner(5, 0), newModelSigner(6, 0)
		a.votes[p.account] = []block.Vote{sampleVote(7), sampleVote(6)}
		n := l.node("a", chain, a.signs)

		var question uint64
		var answer ToldVotes
		release03 := func(id string, signer *modelSigner) *script {
			s := l.script(id, n).at(chain[20], chain[18], 19).produces(signer)
			sign := s.edit
			s.edit = func(h *Handshake) {
				sign(h)
				h.Modes = ServeRange | AnswersQuestions
				h.Question, h.Answer, h.QC = question, answer, chain[20].Record.QC
			}
			return s.hello()
		}
		s := release03("peer", p)
		first := s.question(t)
		require.Zero(t, first.Answer)
		require.Greater(t, s.question(t).Question, first.Question, "it asks again")
		answer.Question = first.Question + 7
		s.hello()
		s.question(t)
		require.Empty(t, a.answers03(), "no such question was asked")
		answer = ToldVotes{Question: first.Question, Votes: []block.Vote{sampleVote(1)}}
		s.hello()
		l.eventually(func() bool { return len(a.answers03()) == 1 }, "the answer counts, also to an earlier question")
		told := a.answers03()[0]
		require.Equal(t, a.session.Session, told.Session)
		require.Equal(t, p.account, told.Producer)
		require.Equal(t, answer.Votes, told.Votes)
		require.NotNil(t, told.QC)
		require.Equal(t, chain[20].Record.QC.Target, told.QC.Target)

		question, answer = 3, ToldVotes{}
		s.hello()
		for {
			h, err := DecodeHandshake(s.next(0, TypeHandshake))
			require.NoError(t, err)
			if h.Answer.Question != 0 {
				require.Equal(t, ToldVotes{Question: 3, Votes: a.votes[p.account]}, h.Answer)
				break
			}
		}
		s.quiet(3*time.Second, 0, TypeSession)

		question = 0
		forged := sampleVote(9)
		forged.Signature = block.BLSSignature{}
		s = release03("liar", liar)
		answer = ToldVotes{Question: s.question(t).Question, Votes: []block.Vote{forged}}
		s.hello()
		s.goneWith(Validation)
		require.Len(t, a.answers03(), 1)
	})
}

// A renewed session counts no answer to questions of the one before.
func TestAnswersOfRelease03AreOfTheirSession(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		a, p := newModelSigner(1, 2), newModelSigner(5, 0)
		n := l.node("a", chain, a.signs)
		var answer ToldVotes
		s := l.script("peer", n).at(chain[20], chain[18], 19).produces(p)
		sign := s.edit
		s.edit = func(h *Handshake) {
			sign(h)
			h.Modes, h.Answer = ServeRange|AnswersQuestions, answer
		}
		s.hello()
		old := s.question(t).Question
		begun := make(chan struct{})
		n.m.post(func() { a.begin(2); close(begun) })
		<-begun
		latest := old
		for latest < old+3 { // one of them is of the new session
			latest = s.question(t).Question
		}
		answer = ToldVotes{Question: old}
		s.hello()
		s.question(t)
		require.Empty(t, a.answers03())
		answer.Question = latest
		s.hello()
		l.eventually(func() bool { return len(a.answers03()) == 1 }, "it counts")
		require.Equal(t, uint64(2), a.answers03()[0].Session.Number)
	})
}

// question is the next handshake that asks.
func (s *script) question(t *testing.T) *Handshake {
	for {
		h, err := DecodeHandshake(s.next(0, TypeHandshake))
		require.NoError(t, err)
		if h.Question != 0 {
			return h
		}
	}
}

// A signer hears how long its node had no peer.
func TestSignerHearsThatLinksReturned(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		a := newModelSigner(1, 0)
		n := l.node("a", chain, a.signs)
		s := l.script("peer", n).at(chain[20], chain[18], 19).hello()
		l.eventually(func() bool { return len(n.m.Peers()) == 1 }, "linked")
		l.pass(time.Second)
		require.NoError(t, s.link.Close("gone"))
		l.pass(2 * time.Minute)
		l.script("other", n).at(chain[20], chain[18], 19).hello()
		l.eventually(func() bool { a.mu.Lock(); defer a.mu.Unlock(); return len(a.returned) == 1 }, "told")
		require.Greater(t, a.returned[0], time.Minute)
	})
}
