package blocksync

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

// Rounds of a peer beyond its share of a period are not answered: each costs two signatures.
func TestAFloodOfRoundsIsBounded(t *testing.T) {
	onMem(t, func(l *lab) {
		chain := newChain(20, chainShape{})
		b := new(modelSigner)
		n := l.node("b", chain, b.signs)
		asker := newModelSigner(4, 0)
		s := l.script("from", n).at(chain[20], chain[18], 19).produces(asker).hello()
		l.eventually(func() bool { return len(n.m.Peers()) == 1 }, "linked")
		for round := range uint64(sessionsPerPeriod + 20) {
			s.send(0, TypeSession, asker.ask(round+1, *asker.session))
		}
		l.eventually(func() bool { return b.timesAsked() >= sessionsPerPeriod }, "its share is answered")
		require.Equal(t, sessionsPerPeriod, b.timesAsked())
	})
}
