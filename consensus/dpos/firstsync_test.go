package dpos

import (
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// started is a machine of producer 0 of n that keeps all of rule 11, in turns of three slots.
func started(t *testing.T, n int, change func(*Config)) *lab {
	return labOf(t, GenesisRoot(genesisHash, firstN(n)), func(c *Config) {
		c.Bugs.SkipFirstSync, c.Signed, c.Params.TurnSlots = false, nil, 3
		if change != nil {
			change(c)
		}
	})
}

const startSlot = 120 // the first of a turn of producer 0

// branch enters executed blocks of other producers above the head, one a slot from this one on.
func (l *lab) branch(from, count uint64) (last common.Hash) {
	last = l.Head().Hash
	for s := from; s < from+count; s++ {
		p, _ := l.Get(last)
		sched, err := l.ScheduleFor(last)
		require.NoError(l.t, err)
		h := makeHeader(p, sched, s, func(h *Header) { h.Producer = sched.Owner(s, l.cfg.Params.TurnSlots).Account })
		l.step(HeaderEvent{h})
		l.step(Executed{h.Hash})
		last = h.Hash
	}
	return last
}

// Alone a producer casts no vote, and seals only after four turns: production never waits for ever.
func TestNothingIsSignedAlone(t *testing.T) {
	l := started(t, 4, nil)
	line := startSlot + l.cfg.ClockBound + l.cfg.MaxAhead
	for s := uint64(startSlot); s < startSlot+4*3; s++ {
		rd := l.slotBegins(s)
		require.Empty(t, rd.Records, "slot %d", s)
		require.Empty(t, rd.Votes, "slot %d", s)
		require.Nil(t, rd.Produce, "slot %d", s)
	}
	require.True(t, l.Silent())
	w := l.Waiting()
	require.Equal(t, 2, w.Answers)
	require.Equal(t, []common.Address{account(1), account(2), account(3)}, w.Unheard)
	rd := l.slotBegins(startSlot + 12) // the next turn of producer 0
	require.NotNil(t, rd.Produce)
	require.Greater(t, rd.Produce.Slot, line)
	l.branch(startSlot+12, 1)
	require.Empty(t, l.drain().Votes, "votes still wait")
}

// With itself a producer must have heard a quorum, and then the others or for two turns: with them alone it votes at once.
func TestVotesWaitForAnswers(t *testing.T) {
	for _, c := range []struct{ n, answers int }{{1, 0}, {2, 1}, {3, 2}, {4, 2}, {7, 4}, {10, 6}} {
		l := started(t, c.n, func(c *Config) { c.NeverSigned = true })
		l.slotBegins(4)
		for i := 1; i <= c.answers; i++ {
			require.True(t, l.Silent(), "n %d, %d answers", c.n, i-1)
			require.Equal(t, c.answers-i+1, l.Waiting().Answers)
			l.step(Heard{Producer: account(i)})
			l.step(Heard{Producer: account(i)}) // one producer counts once
			l.step(Heard{Producer: account(99)})
			l.step(Heard{Producer: account(0)})
			l.step(Heard{}) // an observer
		}
		if c.n == 1 {
			require.False(t, l.Silent(), "every slot is its own")
			continue
		}
		if c.answers < c.n-1 {
			require.Equal(t, uint64(4+2*3), l.Waiting().Further)
			b := l.branch(4, 1)
			require.Empty(t, l.drain().Votes, "n %d", c.n)
			late := started(t, c.n, func(c *Config) { c.NeverSigned = true })
			late.slotBegins(4)
			for i := 1; i < c.n; i++ {
				late.step(Heard{Producer: account(i)})
			}
			require.False(t, late.Silent(), "all answered")
			rd := l.slotBegins(4 + 2*3)
			require.Equal(t, []common.Hash{b}, prevotes(rd), "n %d", c.n)
		}
		require.False(t, l.Silent(), "n %d", c.n)
	}
}

// An answer to another session counts for nothing but what it proves.
func TestAnswersNameTheSession(t *testing.T) {
	l := started(t, 4, nil)
	l.step(Begin{block.Session{Number: 3, Nonce: common.Hash{1}}})
	rd := l.slotBegins(startSlot)
	require.Equal(t, RecordSession, rd.Records[0].Kind)
	l.step(Heard{Producer: account(1), Session: block.Session{Number: 2, Nonce: common.Hash{1}}})
	l.step(Heard{Producer: account(2), Session: block.Session{Number: 3, Nonce: common.Hash{2}}})
	require.Equal(t, 2, l.Waiting().Answers)
	l.step(Heard{Producer: account(1), Session: l.Session()})
	require.Equal(t, 1, l.Waiting().Answers)
}

// A session that the log lacks proves that it is old: the floor rises, once, and a higher session is begun and answered
// before anything is signed. A known one, or one that was forgotten in order, does nothing.
func TestToldSessionsSilence(t *testing.T) {
	own := block.Session{Number: 5, Nonce: common.Hash{1}}
	for _, told := range []block.Session{{Number: 9}, {Number: 5, Nonce: common.Hash{2}}} {
		l := started(t, 4, func(c *Config) { c.NeverSigned = true })
		l.step(Begin{own})
		l.slotBegins(startSlot)
		l.step(Heard{Producer: account(1), Session: own, Sessions: []block.Session{own, {Number: 4}}})
		require.Zero(t, l.Waiting().Floor)
		l.step(Heard{Producer: account(2), Session: own, Sessions: []block.Session{told}})
		rd := l.drain()
		require.Equal(t, told.Number+1, rd.Session)
		require.Equal(t, []RecordKind{RecordSession, RecordFloor}, []RecordKind{rd.Records[0].Kind, rd.Records[1].Kind})
		require.Zero(t, l.drain().Session, "asked once")
		l.step(Heard{Producer: account(3), Session: own})
		require.False(t, l.Asks(), "there is no session to answer")
		require.True(t, l.Waiting().Renewing)
		floor := l.Waiting().Floor
		l.slotBegins(startSlot + 1)
		l.step(OwnSession{block.Session{Number: told.Number, Nonce: common.Hash{7}}})
		require.Equal(t, floor, l.Waiting().Floor, "one floor covers all sessions")
		l.step(Begin{block.Session{Number: told.Number + 1, Nonce: common.Hash{8}}})
		require.Equal(t, 2, l.Waiting().Answers)
		require.Equal(t, startSlot+1+l.cfg.ClockBound+l.cfg.MaxAhead, l.Waiting().Line)
		again := started(t, 4, func(x *Config) { x.Signed = l.Signed() })
		require.Equal(t, told.Number+1, again.NewestSession())
	}
}

// A machine that may have been resumed signs nothing before a further session was answered.
func TestRenewedSession(t *testing.T) {
	l := started(t, 4, func(c *Config) { c.NeverSigned = true })
	l.step(Begin{block.Session{Number: 1}})
	l.slotBegins(4)
	for i := 1; i < 4; i++ {
		l.step(Heard{Producer: account(i), Session: l.Session()})
	}
	require.False(t, l.Silent())
	l.step(Renew{})
	l.branch(4, 1)
	rd := l.slotBegins(startSlot)
	require.Equal(t, uint64(2), rd.Session)
	require.Empty(t, rd.Votes)
	require.Nil(t, rd.Produce)
	l.step(Begin{block.Session{Number: 2}})
	for i := 1; i < 4; i++ {
		l.step(Heard{Producer: account(i), Session: l.Session()})
	}
	require.NotZero(t, l.Waiting().Line, "the key signed before")
}

// forgetful is a producer of n that is told a vote that its log lacks, in slot 120 of turns of three.
func forgetful(t *testing.T, n int) (l *lab, floor uint64) {
	l = started(t, n, nil)
	l.slotBegins(startSlot)
	x := l.branch(startSlot-9, 1)
	l.step(Heard{Producer: account(1), Told: toldOn(l.link(block.Prevote, x))})
	return l, startSlot + 2*(l.cfg.ClockBound+l.cfg.MaxAhead)
}

// A forgetful producer may rest on what a quorum of others answered, from 64 slots above its floor on: on the newest
// justified block that any of them showed, or a later one. The certificate is in the log first.
func TestForgetfulRestsOnAnswers(t *testing.T) {
	l, floor := forgetful(t, 4)
	require.Equal(t, floor, l.Waiting().Floor)
	a := l.branch(startSlot, 1)
	l.step(CertificateEvent{l.qc(a)})
	l.slotBegins(startSlot + 1)
	old := l.branch(startSlot+1, 1)
	ha, _ := l.Get(a)
	for i := 1; i < 4; i++ {
		l.step(Heard{Producer: account(i), Justified: ha.Slot})
	}
	voteAt := func(slot uint64, qc *block.Certificate) Ready {
		l.slotBegins(slot)
		p := l.Head()
		s, _ := l.ScheduleFor(p.Hash)
		h := makeHeader(p, s, slot, withQC(qc), func(h *Header) { h.Producer = s.Owner(slot, 3).Account })
		l.step(HeaderEvent{h})
		l.step(Executed{h.Hash})
		return l.drain()
	}
	require.NotEmpty(t, old)
	rd := voteAt(floor+forgetfulSlots-1, l.qc(a))
	require.Empty(t, rd.Votes, "too early")
	rd = l.slotBegins(floor + forgetfulSlots)
	require.Len(t, prevotes(rd), 1)
	require.Equal(t, RecordJustified, rd.Records[0].Kind)
	require.Equal(t, l.qc(a).Target, rd.Records[0].QC.Target)
	again := started(t, 4, func(x *Config) { x.Signed = l.Signed() })
	require.ElementsMatch(t, l.Signed(), again.Signed())
}

// Not with an answer fewer, but by the operator's word; nor with a source below the newest justified block that was shown.
func TestForgetfulNeedsAQuorumOfOthers(t *testing.T) {
	for _, c := range []struct {
		name    string
		answers int
		above   uint64 // of a justified block that is not held
		accept  bool
		proves  bool // the block proves that its source is the newest justified one that was shown
		votes   bool
	}{
		{"a quorum", 3, 0, false, true, true}, {"one fewer", 2, 0, false, true, false}, {"by the operator's word", 2, 0, true, true, true},
		{"a newer one was shown", 3, 1, false, true, false}, {"rests on an older one", 3, 0, false, false, false},
	} {
		l, floor := forgetful(t, 4)
		a := l.branch(startSlot, 1)
		l.step(CertificateEvent{l.qc(a)})
		ha, _ := l.Get(a)
		for i := 1; i <= c.answers; i++ {
			l.step(Heard{Producer: account(i), Justified: ha.Slot + c.above})
		}
		if c.accept {
			l.step(Accept{})
			require.Equal(t, SignRecord{Kind: RecordAccept, Slot: floor}, last(l.drain().Records))
			again := started(t, 4, func(x *Config) { x.Signed = l.Signed() })
			require.True(t, again.Waiting().Rest.Accepted)
		}
		l.drain() // the wait for further answers begins, and is over long before the floor allows a vote
		l.slotBegins(floor + forgetfulSlots)
		require.Zero(t, l.Waiting().Answers+int(l.Waiting().Further), c.name) //nolint:gosec // a slot
		p := l.Head()
		s, _ := l.ScheduleFor(p.Hash)
		h := makeHeader(p, s, floor+forgetfulSlots, func(h *Header) { h.Producer = s.Owner(h.Slot, 3).Account })
		if c.proves {
			h = makeHeader(p, s, h.Slot, withQC(l.qc(a)), func(x *Header) { x.Producer = h.Producer })
		}
		l.step(HeaderEvent{h})
		l.step(Executed{h.Hash})
		require.Equal(t, c.votes, len(prevotes(l.drain())) > 0, c.name)
	}
}

// A final block that is shown when enough have answered already is taken first all the same.
func TestForgetfulTakesAShownLIBFirst(t *testing.T) {
	l, floor := forgetful(t, 4)
	a := l.branch(startSlot, 1)
	l.step(CertificateEvent{l.qc(a)})
	ha, _ := l.Get(a)
	for i := 1; i < 4; i++ {
		l.step(Heard{Producer: account(i), Justified: ha.Slot})
	}
	l.slotBegins(floor + forgetfulSlots)
	l.step(Heard{Producer: account(1), Certified: ha.Slot})
	s, _ := l.ScheduleFor(a)
	h := makeHeader(ha, s, floor+forgetfulSlots, withQC(l.qc(a)), func(h *Header) { h.Producer = s.Owner(h.Slot, 3).Account })
	l.step(HeaderEvent{h})
	l.step(Executed{h.Hash})
	require.Empty(t, l.drain().Votes)
	require.False(t, l.Waiting().Rest.Held)
	l.step(CertificateEvent{l.fc(a)})
	require.Equal(t, []common.Hash{h.Hash}, prevotes(l.drain()))
}

// A genuine seal that an answer tells and the log lacks silences; one that it holds, or forgot in order, does not.
func TestToldSealSilences(t *testing.T) {
	for slot, floored := range map[uint64]bool{0: false, 7: false, 8: false, 9: true, 10: false, startSlot - 1: true} {
		l := started(t, 4, func(c *Config) {
			c.Signed = []SignRecord{{Kind: RecordProduced, Slot: 8}, {Kind: RecordProduced, Slot: 10}}
		})
		l.slotBegins(startSlot)
		l.step(Heard{Producer: account(1), Sealed: slot})
		require.Equal(t, floored, l.Waiting().Floor > 0, "slot %d", slot)
		require.Equal(t, floored, len(l.drain().Records) > 0, "slot %d", slot)
	}
}

// Behind the line too a block waits for answers, or for the end of the fourth turn.
func TestBlocksWaitBehindTheLine(t *testing.T) {
	l := started(t, 4, func(c *Config) { c.ClockBound = 0 })
	for s := uint64(startSlot); s < startSlot+12; s++ { // the line is the second slot of its turn
		require.Nil(t, l.slotBegins(s).Produce, "slot %d", s)
	}
	require.NotNil(t, l.slotBegins(startSlot+12).Produce)
}

// Answers count once the LIB that they showed is here, and the newest certified one has to be.
func TestVotesWaitForShownLIB(t *testing.T) {
	l := started(t, 4, func(c *Config) { c.NeverSigned = true })
	l.slotBegins(30)
	a := l.branch(3, 1)
	b := l.branch(4, 1)
	hb, _ := l.Get(b)
	l.step(Heard{Producer: account(1), Height: 1})
	l.step(Heard{Producer: account(2), Height: 1, Certified: hb.Slot})
	require.Empty(t, l.drain().Votes)
	require.Equal(t, hb.Slot, l.Waiting().Certified)
	l.step(CertificateEvent{l.fc(a)})
	require.Empty(t, l.drain().Votes, "enough answers count, a newer certified LIB is known")
	require.Zero(t, l.Waiting().Answers)
	l.slotBegins(50) // no further answer is waited for any more
	require.Empty(t, l.drain().Votes)
	require.Equal(t, hb.Slot, l.Waiting().Certified)
	l.step(CertificateEvent{l.fc(b)})
	l.step(Heard{Producer: account(3)})
	l.drain()
	require.False(t, l.Silent())
	c := l.branch(5, 1)
	require.Equal(t, []common.Hash{c}, prevotes(l.drain()))
}

// A LIB that changes the schedule has the answers counted anew.
func TestAnswersAreCountedByTheScheduleInForce(t *testing.T) {
	l := started(t, 1, func(c *Config) { c.NeverSigned = true; c.Self = account(5) })
	require.Equal(t, 1, l.Waiting().Answers, "the only seat is another's")
	l.slotBegins(1)
	l.step(Heard{Producer: account(0), Height: 7})
	require.Equal(t, 1, l.Waiting().Answers)
}

// The line holds with an intact log and with all answers: nothing for a slot at or below it, everything above.
func TestNothingIsSignedUpToTheLine(t *testing.T) {
	l := started(t, 4, nil)
	line := uint64(startSlot) + l.cfg.ClockBound + l.cfg.MaxAhead
	l.slotBegins(startSlot)
	for i := 1; i < 4; i++ {
		l.step(Heard{Producer: account(i)})
	}
	require.Nil(t, l.drain().Produce, "its own turn runs: an orphan on the old head")
	require.Equal(t, line, l.Waiting().Line)
	last := l.branch(startSlot-2, 2)
	l.step(CertificateEvent{l.qc(last)})
	require.Empty(t, l.drain().Votes)
	l.slotBegins(line)
	b := l.branch(line, 1)
	require.Empty(t, l.drain().Votes, "the slot of the line itself")
	require.True(t, l.Silent())
	rd := l.slotBegins(line + 1)
	require.False(t, l.Silent())
	require.NotNil(t, rd.Produce)
	l.step(CertificateEvent{l.qc(b)})
	c := l.branch(line+1, 1)
	rd = l.drain()
	require.Equal(t, []common.Hash{c}, prevotes(rd))
	require.Empty(t, precommits(rd), "b is at the line")
	l.step(CertificateEvent{l.qc(c)})
	require.Equal(t, []common.Hash{c}, precommits(l.drain()))
}

// The only producer owns every slot: it seals none up to the line, and the first one above it.
func TestNoBlockIsSealedUpToTheLine(t *testing.T) {
	l := started(t, 1, nil)
	line := uint64(startSlot) + l.cfg.ClockBound + l.cfg.MaxAhead
	for s := uint64(startSlot); s <= line; s++ {
		require.Nil(t, l.slotBegins(s).Produce, "slot %d", s)
	}
	require.NotNil(t, l.slotBegins(line+1).Produce)
}

// The line of a start before genesis lies before genesis by as much; a key that was never used needs none.
func TestLineBeforeGenesis(t *testing.T) {
	for _, c := range []struct {
		began int64 // slot of the start
		fresh bool
		line  uint64
	}{{-30, false, 0}, {-5, false, 6}, {-11, false, 0}, {0, false, 11}, {0, true, 0}, {50, true, 0}} {
		l := started(t, 1, func(x *Config) { x.NeverSigned = c.fresh })
		l.step(Tick{time.Duration(c.began) * l.cfg.Params.Slot()})
		l.drain()
		require.Equal(t, c.line, l.Waiting().Line, "%+v", c)
		require.Equal(t, c.line > 0, l.Silent(), "%+v", c)
	}
}

// A genuine vote that an answer tells and the log lacks enters the log, and silences until the chain proves a source
// from after it; what the log knows does nothing.
func TestToldVotesAreEnteredAndSilence(t *testing.T) {
	l := started(t, 4, nil)
	l.slotBegins(startSlot)
	x := l.branch(startSlot-9, 1)
	told := toldOn(l.link(block.Prevote, x), l.link(block.Precommit, x))
	told[1].QC = l.qc(x)
	l.step(Heard{Producer: account(1), Told: told})
	rd := l.drain()
	floor := startSlot + 2*(l.cfg.ClockBound+l.cfg.MaxAhead) // above the line
	require.Equal(t, []SignRecord{
		{Kind: RecordPrevote, Slot: startSlot - 9, Link: told[0].Vote.Link},
		{Kind: RecordFloor, Slot: floor},
		{Kind: RecordPrecommit, Slot: startSlot - 9, Link: told[1].Vote.Link, QC: told[1].QC},
	}, rd.Records)
	require.Equal(t, told[1].QC, l.BestQC(), "it justifies")
	l.step(Heard{Producer: account(2), Told: told})
	require.Empty(t, l.drain().Records, "told again")
	l.step(Heard{Producer: account(3)})
	l.slotBegins(floor + 1)
	b := l.branch(floor+1, 1)
	require.Empty(t, l.drain().Votes, "rests on a source below the floor")
	require.Equal(t, floor, l.Waiting().Floor)
	l.slotBegins(floor + 2)
	p, _ := l.Get(b)
	s, _ := l.ScheduleFor(b)
	c := makeHeader(p, s, floor+2, withQC(l.qc(b)), func(h *Header) { h.Producer = s.Owner(floor+2, 3).Account })
	l.step(HeaderEvent{c})
	l.step(Executed{c.Hash})
	require.Equal(t, []common.Hash{c.Hash}, prevotes(l.drain()))
	again := started(t, 4, func(x *Config) { x.Signed = l.Signed() })
	require.ElementsMatch(t, l.Signed(), again.Signed())
	require.NotZero(t, again.Waiting().Floor)
}

// A certificate that holds our vote proves that we signed, though the log lacks it.
func TestOwnBitInCertificateSilences(t *testing.T) {
	for _, mine := range []bool{false, true} {
		l := newLab(t, func(c *Config) { c.Signed = nil })
		l.slotBegins(30)
		a := l.add(genesisHash, 9)
		voters := []int{1, 2, 3}
		if mine {
			voters = []int{0, 1, 2}
		}
		l.step(CertificateEvent{l.qc(a, voters...)})
		l.drain()
		require.Equal(t, mine, l.Silent())
	}
}

// A silent producer seals above its floor: production never waits for votes.
func TestForgetfulSealsAboveItsFloor(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Signed = nil; c.SilentUntilProven = true })
	l.slotBegins(100)
	floor := 100 + l.cfg.ClockBound + l.cfg.MaxAhead
	for s := uint64(101); s <= floor; s++ {
		require.Nil(t, l.slotBegins(s).Produce)
	}
	rd := l.slotBegins(floor + 1)
	require.NotNil(t, rd.Produce)
	require.True(t, l.Silent())
}

func last(rs []SignRecord) SignRecord { return rs[len(rs)-1] }

// toldOn tells genuine votes of producer 0.
func toldOn(links ...block.Link) (out []block.ToldVote) {
	for _, l := range links {
		out = append(out, block.ToldVote{Vote: votesOn(l, 0)[0]})
	}
	return out
}

// Marks keep of each producer the newest votes of each kind above the LIB, one of each below it, and the newest sessions.
func TestMarks(t *testing.T) {
	sits := func(a common.Address) bool { return a == account(1) }
	k := NewMarks()
	vote := func(kind block.VoteKind, slot uint64) block.Vote {
		p := block.Point{Slot: slot, Hash: common.Hash{byte(slot)}}
		return votesOn(block.Link{Kind: kind, Source: p, Target: p}, 1)[0]
	}
	require.True(t, k.AddVote(vote(block.Prevote, 5), sits))
	require.False(t, k.AddVote(vote(block.Prevote, 5), sits))
	require.True(t, k.AddVote(vote(block.Prevote, 3), sits))
	require.True(t, k.AddVote(vote(block.Precommit, 3), sits))
	require.Equal(t, []block.Vote{vote(block.Prevote, 5), vote(block.Precommit, 3), vote(block.Prevote, 3)}, k.Votes(account(1)))
	k.Trim(9)
	require.Equal(t, []block.Vote{vote(block.Prevote, 5), vote(block.Precommit, 3)}, k.Votes(account(1)), "the newest of each kind stay")
	for s := range uint64(3 * markedVotes) {
		k.AddVote(vote(block.Prevote, 10+s), sits)
	}
	vs := k.Votes(account(1))
	require.Len(t, vs, markedVotes+1)
	require.Equal(t, uint64(10+3*markedVotes-1), vs[0].Target.Slot)
	require.False(t, k.AddVote(vote(block.Prevote, 9), sits), "older than all that is kept")
	require.Empty(t, k.Votes(account(9)))

	session := func(n uint64) block.SignedSession {
		return block.SignedSession{Producer: account(1), Session: block.Session{Number: n}}
	}
	for n := range uint64(block.MaxToldSessions + 2) {
		require.True(t, k.AddSession(session(10+n), sits))
	}
	require.False(t, k.AddSession(session(3), sits))
	require.Len(t, k.Sessions(account(1), block.Session{}), block.MaxToldSessions)
	require.Len(t, k.Sessions(account(1), session(15).Session), block.MaxToldSessions-1)

	for i := range 2 * maxMarked {
		s := session(1)
		s.Producer = common.Address{1, byte(i >> 8), byte(i)}
		require.Equal(t, i < maxMarked-1, k.AddSession(s, sits), "%d", i)
	}
	require.Len(t, k.Accounts(), maxMarked)
	require.True(t, k.AddSession(block.SignedSession{Producer: account(2)}, func(a common.Address) bool { return a == account(2) || sits(a) }), "who has a seat displaces one who has none")
	require.NotEmpty(t, k.Votes(account(1)))
}
