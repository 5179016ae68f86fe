package dpos

import (
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// A block, and a vote, is taken from max_clock_error before its slot's start and no earlier.
func TestHorizonIsTheClockError(t *testing.T) {
	for _, errMillis := range []uint64{0, 40} {
		l := newLab(t, func(c *Config) { c.Params.ClockErrorMillis = errMillis })
		p := l.cfg.Params
		early := 10*p.Slot() - p.MaxClockError()
		l.step(Tick{early - 1})
		h := l.child(genesisHash, 10)
		_, err := l.Check(h)
		require.ErrorIs(t, err, ErrFuture)
		require.Equal(t, VoteFuture, l.verdictOf(onUnknown(10, 0, 1)))
		l.step(Tick{early})
		_, err = l.Check(h)
		require.NoError(t, err)
		require.Equal(t, VoteAccepted, l.verdictOf(onUnknown(10, 0, 1)))
		l.step(HeaderEvent{h})
		l.step(Executed{h.Hash})
		require.Len(t, l.drain().Votes, 1, "it is voted for before its slot begins")
		l.step(Tick{12*p.Slot() - 1})
		require.Nil(t, l.drain().Produce, "slot 12 is the machine's own, and has not begun")
		l.step(Tick{12 * p.Slot()})
		require.NotNil(t, l.drain().Produce)
	}
}

// With fewer clocks than a quorum's nothing is voted, and blocks wait for four turns after the start.
func TestFewClocksCastNoVote(t *testing.T) {
	l := newLab(t, nil)
	l.step(Clocks{false})
	l.slotBegins(10)
	h := l.grow(genesisHash, 10)
	require.Empty(t, l.drain().Votes)
	require.Equal(t, TimeWait{FewClocks: true}, l.TimeWait())
	require.Nil(t, l.slotBegins(12).Produce, "four turns have not passed since slot 10")
	require.NotNil(t, l.slotBegins(16).Produce)
	require.Empty(t, l.all.Votes)
	l.step(Clocks{true})
	votes := l.drain().Votes
	require.Len(t, votes, 1)
	require.Equal(t, h, votes[0].Target.Hash)
	require.Zero(t, l.TimeWait())
}

// Before the first Tick a signer knows which slots are in the future; the time may go back, and nothing is signed.
func TestTimeBeforeTheStartIsProvisional(t *testing.T) {
	l := newLab(t, nil)
	slot := l.cfg.Params.Slot()
	l.step(TimeSet{100 * slot})
	l.step(TimeSet{12 * slot})
	_, err := l.Check(l.child(genesisHash, 13))
	require.ErrorIs(t, err, ErrFuture)
	l.grow(genesisHash, 11)
	rd := l.drain()
	require.Empty(t, rd.Votes)
	require.Nil(t, rd.Produce)
	l.step(Tick{12 * slot})
	rd = l.drain()
	require.Len(t, rd.Votes, 1)
	require.NotNil(t, rd.Produce)
}

// farLog is a machine whose log holds a prevote and a block of slots far ahead: an earlier run's clock was wrong.
func farLog(t *testing.T) (l *lab, far common.Hash) {
	target := block.Point{Slot: 400, Hash: common.Hash{8}}
	l = newLab(t, func(c *Config) {
		c.Signed = []SignRecord{
			{Kind: RecordProduced, Slot: 400},
			{Kind: RecordPrevote, Slot: 400, Link: block.Link{Kind: block.Prevote, Source: block.Point{Hash: genesisHash}, Target: target}},
		}
	})
	a := makeHeader(l.LIB(), firstN(4), 399)
	l.step(HeaderEvent{a})
	b := l.child(a.Hash, 400, func(h *Header) { h.Hash[0] = 8 })
	l.step(HeaderEvent{b})
	return l, b.Hash
}

// A producer whose log holds a slot ahead of the time seals every slot that the log does not hold and casts no vote below
// its newest prevote: it waits, and says for what.
func TestFarLogWaitsAndSeals(t *testing.T) {
	l, far := farLog(t)
	require.Equal(t, far, l.Head().Hash, "before the time is known nothing is ahead of it")
	rd := l.slotBegins(8)
	require.Equal(t, genesisHash, l.Head().Hash, "blocks ahead of the time take no part in the choice")
	require.NotNil(t, rd.Produce)
	require.Equal(t, genesisHash, rd.Produce.Parent)
	a := l.grow(genesisHash, 8)
	l.slotBegins(9)
	b := l.grow(a, 9)
	require.Equal(t, b, l.Head().Hash)
	require.NotNil(t, l.slotBegins(12).Produce, "the next own slot")
	require.Empty(t, l.all.Votes)
	require.Equal(t, TimeWait{Ahead: 400}, l.TimeWait())
	l.step(CertificateEvent{l.qc(b)})
	require.Empty(t, l.drain().Votes, "nor a precommit")

	l.slotBegins(401)
	require.Zero(t, l.TimeWait())
	c := l.grow(b, 401)
	require.Equal(t, c, l.Head().Hash, "the far branch has no QC")
	require.Len(t, l.drain().Votes, 1, "the far prevote rests on a source below b and bars its precommit (rule 6)")
	require.Nil(t, l.slotBegins(400).Produce)
}

// A slot that the log holds is not sealed again, in whatever order slots were sealed.
func TestFarSlotIsNotSealedTwice(t *testing.T) {
	l, _ := farLog(t)
	for _, s := range []uint64{8, 12, 396} {
		require.NotNil(t, l.slotBegins(s).Produce, "slot %d", s)
	}
	require.Nil(t, l.slotBegins(400).Produce)
	require.NotNil(t, l.slotBegins(404).Produce)
	require.Equal(t, []uint64{8, 12, 396, 400, 404}, l.own.produced)
}

// A justified block ahead of the time binds as any other: nothing is built beside it.
func TestJustifiedFarBlockIsWaitedFor(t *testing.T) {
	l, far := farLog(t)
	l.step(CertificateEvent{l.qc(far)})
	rd := l.slotBegins(8)
	require.Nil(t, rd.Produce)
	require.Equal(t, far, l.Head().Hash)
	require.EqualValues(t, 400, l.TimeWait().Ahead)
}

// A time that is set back is one: the slots between are in the future again, and come again.
func TestTimeSetBack(t *testing.T) {
	l := newLab(t, nil)
	slot := l.cfg.Params.Slot()
	l.slotBegins(300)
	l.grow(genesisHash, 299)
	l.step(TimeSet{12 * slot})
	rd := l.drain()
	require.Equal(t, 13*slot, l.toldAlarm)
	require.Equal(t, genesisHash, l.Head().Hash)
	require.NotNil(t, rd.Produce, "slot 12 is this machine's")
	_, err := l.Check(l.child(genesisHash, 13))
	require.ErrorIs(t, err, ErrFuture)
	for s := uint64(13); s <= 40; s++ {
		l.slotBegins(s)
		require.Equal(t, time.Duration(s+1)*slot, l.toldAlarm)
	}
}

// A halted machine signs nothing and follows the chain.
func TestHaltedMachineSignsNothing(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(10)
	l.step(Halt{})
	a := l.grow(genesisHash, 10)
	require.Nil(t, l.slotBegins(12).Produce)
	l.step(CertificateEvent{l.qc(a)})
	l.step(CertificateEvent{l.fc(a)})
	l.drain()
	require.Empty(t, l.all.Votes)
	require.Empty(t, l.all.Records)
	require.Equal(t, a, l.LIB().Hash)
}

// A start at a time that was an hour ahead draws its line there; a time that is set back takes the line, and the other waits of the
// start, with it.
func TestTimeSetBackTakesTheLineWithIt(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Bugs.SkipFirstSync = false })
	slot := l.cfg.Params.Slot()
	bound := l.cfg.ClockBound + l.cfg.MaxAhead
	l.step(Begin{Session: block.Session{Number: 1, Nonce: common.Hash{1}}})
	l.step(Tick{7212 * slot})
	require.Equal(t, 7212+bound, l.Waiting().Line)
	for i := 1; i < 4; i++ {
		l.step(Heard{Producer: account(i), Session: l.Session()})
	}
	l.step(TimeSet{12 * slot})
	require.Equal(t, 12+bound, l.Waiting().Line)
	rd := l.slotBegins(20)
	require.Nil(t, rd.Produce)
	require.Empty(t, rd.Votes)
	rd = l.slotBegins(24)
	require.NotNil(t, rd.Produce, "the first own slot above the line")
	l.step(TimeSet{20 * slot})
	require.EqualValues(t, 23, l.Waiting().Line, "no later than it was")
}

// A session that has signed nothing yet and whose time is set forward by more than a slot has its line there; one that signs keeps on.
func TestTimeSetForwardTakesTheLineWithIt(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Bugs.SkipFirstSync = false })
	slot := l.cfg.Params.Slot()
	bound := l.cfg.ClockBound + l.cfg.MaxAhead
	l.step(Begin{Session: block.Session{Number: 1, Nonce: common.Hash{1}}})
	l.step(Tick{12 * slot})
	for i := 1; i < 4; i++ {
		l.step(Heard{Producer: account(i), Session: l.Session()})
	}
	l.drain()
	l.step(TimeSet{13 * slot})
	require.Equal(t, 12+bound, l.Waiting().Line)
	l.step(TimeSet{7212 * slot})
	require.Equal(t, 7212+bound, l.Waiting().Line)
	require.Nil(t, l.slotBegins(7212+bound-3).Produce)
	l.slotBegins(7212 + bound + 1)
	l.step(TimeSet{9000 * slot})
	require.Zero(t, l.Waiting().Line)
	require.NotNil(t, l.drain().Produce)
}

// forgetfulAt is a producer without its log that starts at a slot by its own clock, knows too few others' clocks, and was answered.
func forgetfulAt(t *testing.T, slot uint64) *lab {
	l := newLab(t, func(c *Config) { c.Bugs.SkipFirstSync, c.SilentUntilProven, c.Signed = false, true, nil })
	l.step(Begin{Session: block.Session{Number: 1, Nonce: common.Hash{1}}})
	l.step(Clocks{})
	l.step(Tick{time.Duration(slot) * l.cfg.Params.Slot()})
	for i := 1; i < 4; i++ {
		l.step(Heard{Producer: account(i), Session: l.Session()})
	}
	return l
}

// clocksCome sets the time right by a quorum's clocks, as the driver tells it.
func (l *lab) clocksCome(slot uint64) {
	l.step(Clocks{Enough: true})
	l.step(TimeSet{time.Duration(slot) * l.cfg.Params.Slot()})
	l.step(Tick{time.Duration(slot) * l.cfg.Params.Slot()})
}

// A producer that forgot and knows too few clocks draws its floor when the time is set: one of a time that is hours behind would leave
// what it signed since uncovered.
func TestFloorWaitsForTheTime(t *testing.T) {
	l := forgetfulAt(t, 12)
	rd := l.drain()
	require.NotContains(t, kinds(rd.Records), RecordFloor)
	again := newLab(t, func(c *Config) { c.Signed = l.Signed() })
	require.True(t, again.Silent(), "a restart finds that the floor is missing")
	l.clocksCome(7212)
	bound := l.cfg.ClockBound + l.cfg.MaxAhead
	require.Equal(t, []SignRecord{{Kind: RecordFloor, Slot: 7212 + 2*bound}}, l.drain().Records)
	a := l.grow(genesisHash, 7001)
	b := l.grow(a, 7010, withQC(l.qc(a)))
	l.slotBegins(7225)
	l.grow(b, 7225)
	require.Empty(t, l.drain().Votes, "its source is of a slot that an earlier run may have voted in")
	again = newLab(t, func(c *Config) { c.Signed = l.Signed() })
	require.Equal(t, 7212+2*bound, again.Waiting().Floor)
}

// A floor of a time that was hours ahead would silence the producer until then.
func TestFloorOfATimeAheadIsNotRecorded(t *testing.T) {
	l := forgetfulAt(t, 7212)
	require.NotContains(t, kinds(l.drain().Records), RecordFloor)
	l.clocksCome(12)
	floor := 12 + 2*(l.cfg.ClockBound+l.cfg.MaxAhead)
	require.Equal(t, []SignRecord{{Kind: RecordFloor, Slot: floor}}, l.drain().Records)
	made := 0
	for s := uint64(13); s < 60; s++ {
		if l.slotBegins(s).Produce != nil {
			require.Greater(t, s, floor)
			made++
		}
	}
	require.Positive(t, made)
}

// What others show of its signatures while the floor is due is below the floor that is drawn, also if it is far ahead of the time that is
// set then, and if it was shown before the first Tick.
func TestFloorIsAboveWhatWasShownBefore(t *testing.T) {
	for _, ticked := range []bool{false, true} {
		l := newLab(t, func(c *Config) { c.Bugs.SkipFirstSync, c.SilentUntilProven, c.Signed = false, true, nil })
		l.step(Begin{Session: block.Session{Number: 1, Nonce: common.Hash{1}}})
		l.step(Clocks{})
		if ticked {
			l.step(Tick{7212 * l.cfg.Params.Slot()})
		}
		for i := 1; i < 4; i++ {
			l.step(Heard{Producer: account(i), Session: l.Session(), Sealed: 7100})
		}
		l.clocksCome(12)
		bound := l.cfg.ClockBound + l.cfg.MaxAhead
		require.Equal(t, 7100+bound, l.Waiting().Floor, "ticked %t", ticked)
		require.Contains(t, l.drain().Records, SignRecord{Kind: RecordFloor, Slot: 7100 + bound})
		require.Nil(t, l.slotBegins(7100).Produce)
	}
}

// While the clocks stay away such a producer seals all the same, above where its floor would be by its own clock, and casts no vote.
func TestForgetfulSealsWithoutClocks(t *testing.T) {
	l := forgetfulAt(t, 100)
	floor, made := 100+2*(l.cfg.ClockBound+l.cfg.MaxAhead), 0
	for s := uint64(101); s < 200; s++ {
		if rd := l.slotBegins(s); rd.Produce != nil {
			require.Greater(t, s, floor)
			made++
		}
	}
	require.Positive(t, made)
	require.Empty(t, l.all.Votes)
	require.NotContains(t, kinds(l.all.Records), RecordFloor)
	again := newLab(t, func(c *Config) { c.Signed = l.Signed() })
	require.True(t, again.Silent())
}

// A floor that was drawn at a time of clocks goes forward with a time that is set forward after that.
func TestTimeSetForwardTakesTheFloorWithIt(t *testing.T) {
	l := newLab(t, func(c *Config) { c.SilentUntilProven, c.Signed = true, nil })
	l.slotBegins(12)
	bound := l.cfg.ClockBound + l.cfg.MaxAhead
	require.Equal(t, 12+bound, l.Waiting().Floor)
	l.step(TimeSet{7212 * l.cfg.Params.Slot()})
	require.Equal(t, 7212+bound, l.Waiting().Floor)
	require.Contains(t, l.drain().Records, SignRecord{Kind: RecordFloor, Slot: 7212 + bound})
}
