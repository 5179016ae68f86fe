package consensus

import (
	"os"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/bls"
)

// askedBy is a session of a producer that nobody has seen yet.
func (l *lab) askedBy(id int, number uint64) *block.SignedSession {
	s := &block.SignedSession{Producer: l.signers[id].Account(), Session: block.Session{Number: number}}
	seal, err := l.signers[id].SignSeal(labDomain.SessionDigest(s.Producer, s.Session))
	require.NoError(l.t, err)
	s.Seal = seal
	return s
}

// certified is a certificate that these producers signed, on any link.
func (l *lab) certified(link block.Link, ids ...int) *block.Certificate {
	digest := labDomain.VoteDigest(link)
	var sigs []*bls.Signature
	voters := make(map[common.Address]bool)
	for _, id := range ids {
		raw, err := l.signers[id].SignVote(digest)
		require.NoError(l.t, err)
		sig, err := bls.ParseSignature(raw)
		require.NoError(l.t, err)
		sigs, voters[l.signers[id].Account()] = append(sigs, sig), true
	}
	c := block.NewCertificate(link, []block.Schedule{l.schedule}, func(a common.Address) bool { return voters[a] })
	sum, err := bls.AggregateParsed(sigs)
	require.NoError(l.t, err)
	c.Aggregate = sum
	return c
}

// An answer tells what its node holds of the asker: the newest vote of each kind, a precommit with the certificate that it
// rests on, its newest block above the LIB, and all sessions but the one that asks.
func TestAnAnswerTellsWhatIsHeld(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(20)
		time.Sleep(slotTime / 2) // votes of the slot have arrived
		m := l.nodes[1]
		ask := func() (a *block.SessionAnswer, newest map[block.VoteKind]block.ToldVote) {
			a, err := m.driver.AnswerSession(m.ctx, l.askedBy(0, 50))
			require.NoError(t, err)
			newest = make(map[block.VoteKind]block.ToldVote)
			for _, v := range a.Votes {
				if v.Vote.Target.Slot > newest[v.Vote.Kind].Vote.Target.Slot {
					newest[v.Vote.Kind] = v
				}
			}
			return a, newest
		}
		// A precommit that comes when the others' have made its block final is dropped: then the next slot's counts.
		a, newest := ask()
		for tries := 0; tries < 20 && newest[block.Precommit].Vote.Target.Slot != l.newestOfKind(0, block.Precommit); tries++ {
			l.slots(1)
			a, newest = ask()
		}
		require.NoError(t, a.Verify(labDomain))
		require.Equal(t, m.driver.self, a.From)
		for _, v := range a.Votes {
			require.Equal(t, a.Asker, v.Vote.Voter)
			require.NotZero(t, v.Vote.Signature)
		}
		require.Equal(t, l.newestOfKind(0, block.Prevote), newest[block.Prevote].Vote.Target.Slot)
		com := newest[block.Precommit]
		require.Equal(t, l.newestOfKind(0, block.Precommit), com.Vote.Target.Slot)
		require.NotNil(t, com.QC)
		require.Equal(t, com.Vote.Target, com.QC.Target)
		require.Equal(t, block.Prevote, com.QC.Kind)
		require.Equal(t, m.driver.Status().LIB.Hash, a.LIB.Hash)
		require.Len(t, a.Sessions, 1)
		require.Equal(t, l.nodes[0].driver.Status().Session.Session, a.Sessions[0].Session)

		again, err := m.driver.AnswerSession(m.ctx, l.askedBy(0, 51))
		require.NoError(t, err)
		require.Len(t, again.Sessions, 2, "the one that asked before is among them")

		l.setMute(true) // nothing becomes final, so that the asker's blocks stay in the tree
		l.slots(9)
		again, err = m.driver.AnswerSession(m.ctx, l.askedBy(0, 52))
		require.NoError(t, err)
		h, err := block.DecodeSealedHeader(again.Header)
		require.NoError(t, err)
		require.Equal(t, a.Asker, h.Header.Coinbase)
		require.Greater(t, h.Slot(), again.LIB.Slot)
		require.Less(t, l.nodes[0].driver.slotNow()-h.Slot(), uint64(8), "its newest one")
	})
}

// A session is on the disk of a node, synced, when its answer leaves: else a power cut of the answerers would let an older copy
// of the asker's folder pass as the newest.
func TestASessionIsDurableBeforeItsAnswer(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		o := l.observer()
		o.start(nil)
		l.slots(20)
		time.Sleep(slotTime / 2)
		for _, m := range []*member{l.nodes[1], o} {
			s := l.askedBy(0, 50)
			_, err := m.driver.AnswerSession(m.ctx, s)
			require.NoError(t, err)
			raw, err := os.ReadFile(m.driver.core.log.path)
			require.NoError(t, err)
			end, synced := 0, uint64(0)
			for at := voteLogHeaderSize; at < len(raw); {
				e, ok := nextEntry(raw[at:])
				require.True(t, ok)
				if at += e.size; string(e.payload) == string(encodeMarkedSession(s)) {
					end = at
				}
				synced = max(synced, e.synced)
			}
			require.NotZero(t, end, "node %d: it is in the file", m.id)
			require.GreaterOrEqual(t, synced, uint64(end), "node %d: and synced", m.id) //nolint:gosec // not negative
		}
	})
}

// An answer that is passed on is its signer's own.
func TestOnlyGenuineAnswersArePassedOn(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		m := l.nodes[0]
		m.start(nil)
		l.slots(1)
		good := l.answer(1, 2, block.Session{Number: 3}, nil)
		require.NoError(t, m.driver.VerifyAnswer(good))
		good.LIBHeight++
		require.ErrorIs(t, m.driver.VerifyAnswer(good), ErrInvalid)
		require.ErrorIs(t, m.driver.VerifyAnswer(good), block.ErrSignature)
	})
}

// Of two instances the one ends that has signed nothing; of two that both have or both have not, the one whose first session is
// the later one. An answer to a session that was not begun here proves nothing.
func TestWhichOfTwoInstancesEnds(t *testing.T) {
	session := func(n uint64, nonce byte) block.Session { return block.Session{Number: n, Nonce: common.Hash{nonce}} }
	own := []block.Session{session(5, 5), session(7, 1)}
	for _, c := range []struct {
		name        string
		to, other   block.Session
		signs, mine bool // the other one, and this one
		ends        bool
	}{
		{"the other began earlier", own[1], session(4, 9), false, false, true},
		{"the other began later", own[1], session(6, 0), false, false, false},
		{"both signed, the other began earlier", own[0], session(4, 9), true, true, true},
		{"both signed, the other began later", own[0], session(6, 0), true, true, false},
		{"of one number, its nonce is lower", own[1], session(5, 4), false, false, true},
		{"of one number, its nonce is higher", own[1], session(5, 6), false, false, false},
		{"the other alone signed", own[1], session(9, 9), true, false, true},
		{"this one alone signed", own[1], session(1, 1), false, true, false},
		{"to another's session", session(8, 8), session(4, 9), true, false, false},
	} {
		x := &core{begun: own, hasSigned: c.mine}
		require.Equal(t, c.ends, x.isSecond(&block.SessionAnswer{Session: c.to, Own: c.other, Signs: c.signs}), c.name)
	}
}

// A sum of votes is a certificate if distinct voters of a quorum signed, however often each of them comes, and it is one that
// others find good.
func TestATallyNeedsDistinctVoters(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		m := l.nodes[0]
		m.start(nil)
		l.slots(1)
		schedules := []block.Schedule{l.schedule}
		link := block.Link{Kind: block.Prevote, Source: block.Point{Hash: l.genesis}, Target: block.Point{Slot: 1, Hash: common.Hash{1}}}
		tally := func(voters ...int) (*block.Certificate, []block.Vote) {
			x := dpos.Tally{Link: link, Schedules: schedules}
			for _, id := range voters {
				sig, err := l.signers[id].SignVote(labDomain.VoteDigest(link))
				require.NoError(t, err)
				x.Votes = append(x.Votes, block.Vote{Link: link, Voter: l.signers[id].Account(), Signature: sig})
			}
			return m.driver.verify.tally(x)
		}
		for _, voters := range [][]int{{1, 2}, {1, 2, 2}, {1, 1, 2, 2}} {
			c, wrong := tally(voters...)
			require.Nil(t, c, "%v", voters)
			require.Empty(t, wrong)
		}
		for _, voters := range [][]int{{1, 2, 3}, {0, 1, 2, 3}, {1, 2, 2, 3}} {
			c, _ := tally(voters...)
			require.NotNil(t, c, "%v", voters)
			require.NoError(t, newVerifier(labDomain.Genesis, nil, m.driver.m).certificate(c, schedules), "%v", voters)
		}
	})
}

// An answer of release 0.3 counts with what it proves justified: a producer that forgot rests on nothing below.
func TestAnAnswerOfRelease03ShowsItsJustifiedBlock(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(12)
		m := l.nodes[0]
		m.kill()
		l.slots(4)
		l.setCut(0, true)
		cfg, _ := m.deps()
		require.NoError(t, MarkCopied(cfg.Dir))
		m.start(nil)
		l.slots(1)
		other := l.nodes[1].driver.Status()
		require.NotNil(t, other.QC)
		require.NoError(t, m.driver.HearProducer(m.ctx, ProducerAnswer{
			Session: m.driver.Status().Session.Session, Producer: l.signers[1].Account(), LIB: other.LIB, QC: other.QC,
		}))
		l.slots(1)
		require.Equal(t, other.QC.Target.Slot, m.driver.Status().Waiting.Rest.Justified)
	})
}

// A session for which the marks have no room is not answered, since an answer says that it is kept.
func TestASessionThatIsNotKeptIsNotAnswered(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(2)
		m := l.nodes[1]
		require.NoError(t, m.driver.do(m.ctx, false, func(c *core) {
			for i := range 4 * block.MaxProducers {
				c.marks.AddSession(block.SignedSession{Producer: common.Address{9, byte(i >> 8), byte(i)}, Session: block.Session{Number: 1}}, c.machine.Sits)
			}
		}))
		strangers, _ := newSigners(5)
		stranger := &block.SignedSession{Producer: strangers[4].Account(), Session: block.Session{Number: 1, Nonce: common.Hash{4}}}
		seal, err := strangers[4].SignSeal(labDomain.SessionDigest(stranger.Producer, stranger.Session))
		require.NoError(t, err)
		stranger.Seal = seal
		a, err := m.driver.AnswerSession(m.ctx, stranger)
		require.NoError(t, err)
		require.Nil(t, a)
		a, err = m.driver.AnswerSession(m.ctx, l.askedBy(0, 50))
		require.NoError(t, err)
		require.NotNil(t, a, "who has a seat has room")
	})
}

// Votes that the log has forgotten in order are not even verified: everybody has them, and an answer may tell 128.
func TestOldVotesInAnAnswerAreNotVerified(t *testing.T) {
	inBubble(t, 4, func(l *lab) {
		l.start()
		l.slots(60)
		m := l.nodes[0]
		told := func(slot uint64) error {
			return m.driver.HearAnswer(m.ctx, l.answer(1, 0, m.driver.Status().Session.Session, func(a *block.SessionAnswer) {
				x := block.Link{Kind: block.Prevote, Source: block.Point{Hash: l.genesis}, Target: block.Point{Slot: slot, Hash: common.Hash{byte(slot)}}}
				a.Votes = append(a.Votes, block.ToldVote{Vote: block.Vote{Link: x, Voter: l.signers[0].Account()}}) // nobody signed it
			}))
		}
		require.NoError(t, told(3))
		require.ErrorIs(t, told(200), ErrInvalid)
	})
}
