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

func TestVotesWaitForAnswers(t *testing.T) {
	for _, c := range []struct{ n, answers int }{{1, 0}, {2, 1}, {3, 1}, {4, 2}, {7, 3}, {10, 4}} {
		l := started(t, c.n, func(c *Config) { c.NeverSigned = true })
		l.slotBegins(4)
		for i := 1; i <= c.answers; i++ {
			require.True(t, l.Silent(), "n %d, %d answers", c.n, i-1)
			require.Equal(t, c.answers-i+1, l.Waiting().Answers)
			l.step(Heard{Producer: account(i)})
			l.step(Heard{Producer: account(i)}) // one producer counts once
			l.step(Heard{Producer: account(99)})
			l.step(Heard{Producer: account(0)})
		}
		require.False(t, l.Silent(), "n %d", c.n)
		if c.n == 1 {
			continue // every slot is its own
		}
		b := l.branch(4, 1)
		require.Equal(t, []common.Hash{b}, prevotes(l.drain()), "n %d", c.n)
	}
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
	l.step(Heard{Producer: account(3)})
	require.Empty(t, l.drain().Votes)
	require.Equal(t, hb.Slot, l.Waiting().Certified)
	l.step(CertificateEvent{l.fc(a)})
	require.Empty(t, l.drain().Votes, "enough answers count, a newer certified LIB is known")
	require.Zero(t, l.Waiting().Answers)
	l.step(CertificateEvent{l.fc(b)})
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
	told := votesOn(l.link(block.Prevote, x), 0)
	told = append(told, votesOn(l.link(block.Precommit, x), 0)...)
	l.step(Heard{Producer: account(1), Told: told})
	rd := l.drain()
	floor := startSlot + l.cfg.ClockBound + l.cfg.MaxAhead
	require.Equal(t, []SignRecord{
		{Kind: RecordPrevote, Slot: startSlot - 9, Link: told[0].Link},
		{Kind: RecordFloor, Slot: floor},
		{Kind: RecordPrecommit, Slot: startSlot - 9, Link: told[1].Link},
	}, rd.Records)
	l.step(Heard{Producer: account(2), Told: told})
	require.Empty(t, l.drain().Records, "told again")
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

// What a machine holds of another producer's votes is told newest first, also from below the LIB.
func TestVotesBy(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(30)
	a := l.grow(genesisHash, 1)
	l.step(VotesEvent{votesOn(l.link(block.Prevote, a), 1, 2, 3)})
	for _, x := range l.drain().Tallies {
		l.step(answer(x, account(0)))
	}
	l.step(VotesEvent{votesOn(l.link(block.Precommit, a), 1, 2, 3)})
	for _, x := range l.drain().Tallies {
		l.step(answer(x, account(0)))
	}
	l.drain()
	require.Equal(t, a, l.LIB().Hash)
	require.Len(t, l.VotesBy(account(1), 10), 2, "the newest of each kind stay")
	b := l.grow(a, 2)
	l.step(VotesEvent{votesOn(l.link(block.Prevote, b), 1)})
	vs := l.VotesBy(account(1), 10)
	require.Equal(t, []common.Hash{b, a}, targets(vs, block.Prevote))
	require.Equal(t, []common.Hash{a}, targets(vs, block.Precommit))
	require.Len(t, l.VotesBy(account(1), 1), 1)
	require.Empty(t, l.VotesBy(account(9), 10))
}
