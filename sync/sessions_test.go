package blocksync

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// handshaken counts the peers that have said who they are.
func handshaken(m *Manager) (n int) {
	for _, p := range m.Peers() {
		if p.Handshaken {
			n++
		}
	}
	return n
}

// An answer that its signer did not give is not passed on, and who brings it is sent away.
func TestAForgedAnswerIsNotPassedOn(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		n := l.node("b", chain, new(modelSigner).signs)
		asker, other := newModelSigner(4, 0), newModelSigner(5, 0)
		from := l.script("from", n).at(chain[20], chain[18], 19).produces(asker).hello()
		to := l.script("to", n).at(chain[20], chain[18], 19).produces(other).hello()
		l.eventually(func() bool { return handshaken(n.m) == 2 }, "linked")
		from.send(0, TypeSession, asker.ask(1, *asker.session))
		from.next(0, TypeSessionAnswer) // the observer's own
		to.next(0, TypeSession)
		forged, err := other.AnswerSession(t.Context(), asker.session)
		require.NoError(t, err)
		forged.LIBHeight++
		to.send(0, TypeSessionAnswer, encodeSessionAnswer(forged))
		to.goneWith(Validation)
		from.quiet(time.Second, 0, TypeSessionAnswer)
	})
}

// An instance that links later is shown the session that another one of its account has asked with, while that is recent.
func TestALaterInstanceIsShownTheEarlierSession(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		n := l.node("b", chain, new(modelSigner).signs)
		first := newModelSigner(4, 0)
		s := l.script("first", n).at(chain[20], chain[18], 19).produces(first).hello()
		l.eventually(func() bool { return len(n.m.Peers()) == 1 }, "linked")
		round := first.ask(1, *first.session)
		s.send(0, TypeSession, round)
		s.next(0, TypeSessionAnswer)
		other := l.script("other", n).at(chain[20], chain[18], 19).produces(newModelSigner(5, 0)).hello()
		other.quiet(time.Second, 0, TypeSession)
		twin := l.script("twin", n).at(chain[20], chain[18], 19).produces(newModelSigner(4, 0)).hello()
		require.Equal(t, round, twin.next(0, TypeSession))
		l.pass(sessionKept)
		late := l.script("late", n).at(chain[20], chain[18], 19).produces(newModelSigner(4, 0)).hello()
		late.quiet(time.Second, 0, TypeSession)
	})
}

// Rounds of a session that come faster than honest ones are not answered: each costs every node signatures and a message.
func TestAFloodOfRoundsIsBounded(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		b := new(modelSigner)
		n := l.node("b", chain, b.signs)
		asker := newModelSigner(4, 0)
		s := l.script("from", n).at(chain[20], chain[18], 19).produces(asker).hello()
		l.eventually(func() bool { return len(n.m.Peers()) == 1 }, "linked")
		s.send(0, TypeSession, asker.ask(1, *asker.session))
		l.eventually(func() bool { return b.timesAsked() == 1 }, "answered")
		for round := range uint64(200) {
			s.send(0, TypeSession, asker.ask(round+2, *asker.session))
		}
		l.pass(sessionEvery / 4)
		require.Equal(t, 1, b.timesAsked())
		l.pass(sessionEvery)
		s.send(0, TypeSession, asker.ask(1000, *asker.session))
		l.eventually(func() bool { return b.timesAsked() == 2 }, "an honest round is answered")
	})
}

// Sessions of a peer beyond its share of a period are not answered, whosever they are.
func TestAFloodOfSessionsIsBounded(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		b := new(modelSigner)
		n := l.node("b", chain, b.signs)
		s := l.script("from", n).at(chain[20], chain[18], 19).produces(newModelSigner(4, 0)).hello()
		l.eventually(func() bool { return len(n.m.Peers()) == 1 }, "linked")
		for i := range uint64(sessionsPerPeriod + 20) {
			asker := newModelSigner(byte(i%128), 0) //nolint:gosec // below 128
			asker.begin(i/128 + 1)
			s.send(0, TypeSession, asker.ask(1, *asker.session))
			if i%100 == 99 {
				l.eventually(func() bool { return b.timesAsked() == int(i)+1 }, "as they come") //nolint:gosec // small
			}
		}
		l.eventually(func() bool { return b.timesAsked() >= sessionsPerPeriod }, "its share is answered")
		require.Equal(t, sessionsPerPeriod, b.timesAsked())
	})
}

// strictSigner checks the sessions that an answer tells, as the driver does.
type strictSigner struct{ *modelSigner }

func (s strictSigner) HearAnswer(ctx context.Context, a *block.SessionAnswer) error {
	for i := range a.Sessions {
		if err := a.Sessions[i].Verify(modelDomain); err != nil {
			return fmt.Errorf("%w: a session told: %w", errModelInvalid, err)
		}
	}
	return s.modelSigner.HearAnswer(ctx, a)
}

// An observer's answer has no signature, so that anybody can make one: who passed it on is not to blame for what it tells, or two
// messages would cut a producer off from honest nodes.
func TestARelayIsNotBlamedForWhatAnAnswerTells(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		p := newModelSigner(1, 3) // it asks on
		na := l.node("a", chain, func(c *Config, d *Deps) { p.signs(c, d); d.FirstSync = strictSigner{p} })
		nb := l.node("b", chain, new(modelSigner).signs)
		na.dial(nb.host)
		l.eventually(func() bool { return handshaken(na.m) == 1 && p.answers() > 0 }, "linked with an honest node")
		o := l.script("observer", nb).at(chain[20], chain[18], 19)
		o.edit = func(h *Handshake) { h.Modes |= AnswersSessions }
		o.hello()
		l.eventually(func() bool { return handshaken(nb.m) == 2 }, "the observer is linked with the honest node alone")
		heard := p.answers()
		lie := &block.SessionAnswer{Asker: p.account, Session: p.session.Session, Sessions: []block.SignedSession{{Producer: p.account, Session: block.Session{Number: 9}}}}
		o.send(0, TypeSessionAnswer, encodeSessionAnswer(lie))
		l.pass(5 * time.Second)
		require.Equal(t, 1, handshaken(na.m))
		require.NoError(t, na.m.bans.Check(nb.host.ID(), time.Now()))
		require.Positive(t, heard)
	})
}

// Whoever recorded a producer's sessions of earlier starts may show them again: they use up nothing of its room.
func TestEarlierSessionsAreNotCharged(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		b := new(modelSigner)
		n := l.node("b", chain, b.signs)
		p, other := newModelSigner(4, 0), newModelSigner(5, 0)
		x := l.script("x", n).at(chain[20], chain[18], 19).produces(newModelSigner(6, 0)).hello()
		to := l.script("to", n).at(chain[20], chain[18], 19).produces(other).hello()
		l.eventually(func() bool { return handshaken(n.m) == 2 }, "linked")
		p.begin(1000)
		x.send(0, TypeSession, p.ask(1, *p.session))
		l.eventually(func() bool { return b.timesAsked() == 1 }, "answered")
		to.next(0, TypeSession)
		for number := uint64(1); number <= 60; number++ {
			p.begin(number)
			x.send(0, TypeSession, p.ask(1, *p.session))
		}
		l.eventually(func() bool { return b.timesAsked() == 61 }, "earlier ones are answered")
		p.begin(1001)
		x.send(0, TypeSession, p.ask(1, *p.session))
		l.eventually(func() bool { return b.timesAsked() == 62 }, "the newest is answered at once")
		require.Equal(t, p.ask(1, *p.session), to.next(0, TypeSession), "and it alone is passed on")
	})
}

// A producer's answers are heard once a round, also while many come.
func TestAnswersOfAProducerAreHeardOnceARound(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		a := newModelSigner(1, 1000)
		n := l.node("a", chain, a.signs)
		p := newModelSigner(5, 0)
		s := l.script("peer", n).at(chain[20], chain[18], 19).produces(p).hello()
		r := s.session()
		answer, err := p.AnswerSession(t.Context(), &r.Session)
		require.NoError(t, err)
		for range 50 {
			s.send(0, TypeSessionAnswer, encodeSessionAnswer(answer))
		}
		l.eventually(func() bool { return a.timesHeard() == 1 }, "heard")
		l.pass(sessionEvery / 4)
		require.Equal(t, 1, a.timesHeard())
		l.pass(sessionEvery)
		s.send(0, TypeSessionAnswer, encodeSessionAnswer(answer))
		l.eventually(func() bool { return a.timesHeard() == 2 }, "and again in a later round")
	})
}

// Work of a peer that floods waits for its own turn, and takes no room of another's.
func TestSessionWorkTakesTurns(t *testing.T) {
	q := newSessionQueue()
	flooder, honest := new(peer), new(peer)
	queued := 0
	for q.Put(&sessionJob{peer: flooder}, 1000) {
		queued++
	}
	require.Equal(t, maxPeerSessionJobs, queued)
	require.True(t, q.Put(&sessionJob{peer: honest}, maxSessionBytes), "one job of any size fits")
	require.False(t, q.Put(&sessionJob{peer: honest}, 1))
	var order []*peer
	ctx, cancel := context.WithCancel(t.Context())
	q.Each(ctx, func(j *sessionJob) {
		if order = append(order, j.peer); len(order) == queued+1 {
			cancel()
		}
	})
	require.Equal(t, honest, order[1], "the second turn")
	require.Empty(t, q.jobs)
	require.Empty(t, q.turns)
}
