package dpos

import (
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// Rule 11: after a restart nothing is signed twice, what was signed is sent again, and the machine's own votes count.
func TestRestartWithLog(t *testing.T) {
	l, a := voted(t, nil)
	l.step(CertificateEvent{l.qc(a)})
	l.drain()
	rd := l.slotBegins(44)
	require.NotNil(t, rd.Produce)
	require.Equal(t, SignRecord{Kind: RecordProduced, Slot: 44}, rd.Records[0])
	ha, _ := l.Get(a)
	other := l.child(genesisHash, 1, salt(3))

	for _, forget := range []bool{false, true} {
		l2 := newLab(t, func(c *Config) { c.Signed = l.Signed(); c.Bugs.ForgetWAL = forget })
		l2.step(HeaderEvent{other})
		l2.step(Executed{other.Hash})
		rd = l2.slotBegins(44)
		if forget {
			require.NotNil(t, rd.Produce)
			require.Equal(t, []common.Hash{other.Hash}, prevotes(rd))
			continue
		}
		require.Nil(t, rd.Produce)
		require.Empty(t, rd.Votes)
		require.Equal(t, []common.Hash{a}, targets(rd.Resend, block.Precommit))
		require.Equal(t, []common.Hash{a}, targets(rd.Resend, block.Prevote))
		require.Equal(t, block.Precommit, rd.Resend[0].Kind, "newest first")
		require.Equal(t, rd.Resend, l2.OwnVotes(10))
		require.Len(t, l2.OwnVotes(1), 1)
		require.ElementsMatch(t, l.Signed(), l2.Signed())
		l2.step(HeaderEvent{ha})
		require.Equal(t, l.qc(a), l2.BestQC(), "the QC that the precommit rests on was in the log")
		l2.step(VotesEvent{votesOn(l2.link(block.Precommit, a), 2, 3)})
		require.Len(t, l2.drain().Tallies, 1, "our vote from before counts")
	}
	l3 := newLab(t, func(c *Config) { c.Signed = l.Signed(); c.Bugs.ProduceTwice = true })
	require.NotNil(t, l3.slotBegins(44).Produce)
}

func TestResendWhileLIBStands(t *testing.T) {
	l, a := voted(t, nil) // in slot 10
	require.Empty(t, l.slotBegins(10+resendSlots-1).Resend)
	require.Equal(t, []common.Hash{a}, targets(l.slotBegins(10+resendSlots).Resend, block.Prevote))
	require.Empty(t, l.slotBegins(10+resendSlots+1).Resend)
	l.slotBegins(22)
	b := l.grow(a, 21)
	l.step(CertificateEvent{l.fc(a)})
	l.drain()
	require.Empty(t, l.slotBegins(22+resendSlots-1).Resend, "the LIB moved in slot 22")
	require.Equal(t, []common.Hash{b}, targets(l.slotBegins(22+resendSlots).Resend, block.Prevote))
	l.step(CertificateEvent{l.fc(b)})
	l.drain()
	require.Empty(t, l.slotBegins(22+4*resendSlots).Resend, "nothing above the LIB")
}

// A signer without its log waits for a source from after its restart, and remembers that it must.
func TestSilentUntilProven(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Signed = nil; c.SilentUntilProven = true })
	require.True(t, l.Silent())
	a := l.grow(genesisHash, 1)
	require.Empty(t, l.drain().Records)
	rd := l.slotBegins(100)
	floor := 100 + l.cfg.ClockBound + l.cfg.MaxAhead
	require.Equal(t, []SignRecord{{Kind: RecordFloor, Slot: floor}}, rd.Records)
	require.Empty(t, rd.Votes)
	require.Nil(t, rd.Produce)
	l.slotBegins(120)
	b := l.grow(a, floor)
	c := l.grow(b, floor+2, withQC(l.qc(b)))
	l.step(CertificateEvent{l.qc(c)})
	require.Empty(t, l.drain().Votes, "a source at the floor is not above it")
	require.True(t, l.Silent())
	again := newLab(t, func(c *Config) { c.Signed = l.Signed() })
	require.True(t, again.Silent(), "the floor is in the log")
	d := l.grow(c, floor+3, withQC(l.qc(c)))
	rd = l.drain()
	require.Equal(t, []common.Hash{d}, prevotes(rd))
	require.False(t, l.Silent())
	require.Equal(t, []common.Hash{c}, precommits(rd), "but not b, at the floor")
	// Another branch that does not prove as much is out of bounds for ever.
	e := l.add(b, floor+4)
	l.add(e, floor+6)
	l.step(CertificateEvent{l.qc(e)})
	l.step(Executed{l.Head().Hash})
	require.NotEqual(t, d, l.Head().Hash)
	require.Empty(t, prevotes(l.drain()))
}

// Shown a vote of its own that its log lacks, a signer falls silent; a forged one does nothing.
func TestOwnUnknownVoteSilences(t *testing.T) {
	l, a := voted(t, nil)
	x := l.add(genesisHash, 2)
	k := l.link(block.Prevote, x)
	forged := block.Vote{Link: k, Voter: account(0)}
	l.step(VotesEvent{[]block.Vote{forged}})
	rd := l.drain()
	require.Len(t, rd.Tallies, 1)
	l.answerOwn(rd.Tallies[0], false)
	require.False(t, l.Silent())
	l.step(VotesEvent{votesOn(l.link(block.Prevote, a), 0)})
	require.Empty(t, l.drain().Tallies, "ours, known")
	l.step(VotesEvent{votesOn(k, 0)})
	rd = l.drain()
	require.Len(t, rd.Tallies, 1)
	l.answerOwn(rd.Tallies[0], true)
	rd = l.drain()
	require.Len(t, rd.Records, 2)
	require.Equal(t, SignRecord{Kind: RecordPrevote, Slot: 2, Link: k}, rd.Records[0], "the log knows it from now on")
	require.Equal(t, RecordFloor, rd.Records[1].Kind)
	require.True(t, l.Silent())
	l.grow(a, 9)
	require.Empty(t, l.drain().Votes)
	l.step(VotesEvent{votesOn(k, 0)})
	require.Empty(t, l.drain().Tallies, "below the floor it is of no concern")
}

func (l *lab) answerOwn(t Tally, good bool) {
	ev := Tallied{ID: t.ID}
	if !good {
		ev.Bad = []common.Address{t.Votes[0].Voter}
	}
	l.step(ev)
}

// Shown a block of its own that its log lacks, a signer falls silent, before the first Tick too.
func TestOwnUnknownBlockSilences(t *testing.T) {
	for _, ticked := range []bool{true, false} {
		l := newLab(t, func(c *Config) { c.Signed = nil })
		if ticked {
			l.slotBegins(10)
		}
		l.add(genesisHash, 4)
		rd := l.slotBegins(11)
		require.True(t, l.Silent())
		require.Equal(t, RecordFloor, last(l.all.Records).Kind)
		require.Equal(t, !ticked, slices.Contains(kinds(l.all.Records), RecordForgot), "before the first Tick the log holds that a floor is due")
		require.Nil(t, l.slotBegins(12).Produce)
		_ = rd
	}
	l := newLab(t, nil) // the log knows slot 4
	l.add(genesisHash, 4)
	l.slotBegins(41)
	require.False(t, l.Silent())
	l.add(genesisHash, 4, salt(9))
	l.drain()
	require.True(t, l.Silent(), "one slot, two blocks: a copy of the key is at work")
}

// The log keeps what a rule may need and no more.
func TestSignedIsTrimmed(t *testing.T) {
	l := newLab(t, nil)
	h, opts := genesisHash, []option(nil)
	for s := uint64(1); s < 200; s++ {
		l.slotBegins(s)
		h = l.grow(h, s, opts...)
		l.drain()
		l.step(CertificateEvent{l.qc(h)})
		opts = []option{withQC(l.qc(h))}
		l.drain()
		l.step(CertificateEvent{l.fc(h)})
		l.drain()
		require.Less(t, len(l.Signed()), 8, "slot %d", s)
	}
	require.False(t, l.Silent())
}

// A precommit below the LIB, on a branch that lost, bars prevotes on chains that prove no source above it, though it is
// not our newest. It stays in the log as long.
func TestLostPrecommitStillBars(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(20)
	a := l.grow(genesisHash, 5)
	l.drain()
	l.step(CertificateEvent{l.qc(a)})
	require.Equal(t, []common.Hash{a}, precommits(l.drain()))
	x := l.grow(genesisHash, 9)
	l.step(CertificateEvent{l.qc(x)})
	l.grow(x, 10, withQC(l.qc(x)))
	require.Equal(t, []common.Hash{x}, precommits(l.drain()))
	l.step(CertificateEvent{l.fc(x)})
	y := l.child(x, 11)
	l.step(HeaderEvent{y})
	z := l.child(y.Hash, 13)
	l2 := labOf(t, l.drain().Final.Root, func(c *Config) { c.Signed = l.Signed() })
	l2.slotBegins(20)
	l2.step(HeaderEvent{y})
	for _, m := range []*lab{l, l2} {
		m.step(HeaderEvent{z})
		m.step(Executed{z.Hash})
		require.Equal(t, z.Hash, m.Head().Hash)
		require.Empty(t, m.drain().Votes, "source(z) is genesis")
		w := m.grow(z.Hash, 14, withFC(m.fc(x)))
		require.Equal(t, []common.Hash{w}, prevotes(m.drain()))
	}
}

func TestConfigValidate(t *testing.T) {
	good := DefaultConfig(testParams(), account(0))
	require.NoError(t, good.Validate())
	for _, f := range []func(*Config){
		func(c *Config) { c.Params.SlotMillis = 0 },
		func(c *Config) { c.Params.TurnSlots = 0 },
		func(c *Config) { c.Params.EpochBlocks = 0 },
		func(c *Config) { c.Params.MaxReversible = 0 },
		func(c *Config) { c.Params.SlotMillis = maxSlotMillis + 1 },
	} {
		c := good
		f(&c)
		require.Error(t, c.Validate())
		_, err := New(c, GenesisRoot(genesisHash, firstN(4)))
		require.Error(t, err)
	}
	_, err := New(good, nil)
	require.Error(t, err)
	_, err = New(good, GenesisRoot(genesisHash, nil))
	require.Error(t, err)
	require.ErrorIs(t, func() error { m, _ := New(good, GenesisRoot(genesisHash, firstN(4))); return m.Step(nil) }(), ErrInvalid)
}
