package dpos

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// Rules 3 and 5: prevote what is executed, in rising slots; precommit what has a QC.
func TestVotesAsTheyComeDue(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(10)
	a := l.add(genesisHash, 1)
	rd := l.drain()
	require.Equal(t, a, rd.Head)
	require.Empty(t, rd.Votes, "not executed")
	l.step(Executed{a})
	rd = l.drain()
	require.Equal(t, []block.Vote{{Link: l.link(block.Prevote, a), Voter: account(0)}}, rd.Votes)
	require.Equal(t, []SignRecord{{Kind: RecordPrevote, Slot: 1, Link: l.link(block.Prevote, a)}}, rd.Records)
	l.step(Executed{a})
	require.Empty(t, l.drain().Votes, "once")

	b := l.grow(a, 2)
	c := l.grow(b, 3)
	rd = l.drain()
	require.Equal(t, []common.Hash{c}, prevotes(rd), "only the newest")
	require.Empty(t, precommits(rd))
	l.step(CertificateEvent{l.qc(b)})
	rd = l.drain()
	require.Equal(t, []common.Hash{b}, precommits(rd), "the newest prevote is on a descendant")
	require.Equal(t, l.link(block.Precommit, b), rd.Records[0].Link)
	require.Equal(t, RecordPrecommit, rd.Records[0].Kind)
	require.Equal(t, block.Point{Slot: 2, Hash: b}, l.Justified())
	require.Equal(t, l.qc(b), l.BestQC())

	// A QC on a block we have not prevoted, nor a descendant of it: wait.
	d := l.add(c, 4)
	l.step(CertificateEvent{l.qc(d)})
	require.Empty(t, l.drain().Votes)
	l.step(Executed{d})
	rd = l.drain()
	require.Equal(t, []common.Hash{d}, prevotes(rd))
	require.Equal(t, []common.Hash{d}, precommits(rd), "as soon as both hold")
}

func TestPrevoteStrictlyRising(t *testing.T) {
	for _, bug := range []bool{false, true} {
		l := newLab(t, func(c *Config) { c.Bugs.SkipSlotRule = bug })
		l.slotBegins(10)
		l.grow(genesisHash, 2)
		l.drain()
		l.grow(genesisHash, 2, salt(1))
		c := l.grow(genesisHash, 1)
		d := l.grow(c, 2, salt(3))
		rd := l.drain()
		require.Equal(t, d, rd.Head, "greatest height")
		if bug {
			require.Equal(t, []common.Hash{d}, prevotes(rd))
		} else {
			require.Empty(t, rd.Votes)
		}
	}
}

// voted is genesis <- a(1), executed and prevoted.
func voted(t *testing.T, change func(*Config)) (l *lab, a common.Hash) {
	l = newLab(t, change)
	l.slotBegins(10)
	a = l.grow(genesisHash, 1)
	l.drain()
	return l, a
}

// Rule 6, second: who precommitted B prevotes another branch only if it proves a source at B or above.
func TestPrecommitBarsPrevote(t *testing.T) {
	for _, bug := range []bool{false, true} {
		l, a := voted(t, func(c *Config) { c.Bugs.SkipLinkRule = bug })
		l.step(CertificateEvent{l.qc(a)})
		require.Equal(t, []common.Hash{a}, precommits(l.drain()))
		// x conflicts with a; y, above a by slot, gets a QC; z does not prove it, w does.
		x := l.grow(genesisHash, 2)
		y := l.grow(x, 3)
		l.step(CertificateEvent{l.qc(y)})
		rd := l.drain()
		require.Equal(t, y, rd.Head)
		if bug {
			require.Equal(t, []common.Hash{y}, prevotes(rd))
			continue
		}
		require.Empty(t, rd.Votes)
		z := l.grow(y, 4)
		require.Empty(t, l.drain().Votes, "source(z) is genesis")
		w := l.grow(z, 5, withQC(l.qc(y)))
		rd = l.drain()
		require.Equal(t, []common.Hash{w}, prevotes(rd))
		require.Equal(t, []common.Hash{y}, precommits(rd))
	}
}

// Rule 6, second: who prevoted above B on another branch from a source below B sends no Precommit(B).
func TestPrevoteBarsPrecommit(t *testing.T) {
	for _, bug := range []bool{false, true} {
		l, a := voted(t, func(c *Config) { c.Bugs.SkipLinkRule = bug })
		x := l.grow(genesisHash, 2)
		y := l.grow(x, 3)
		require.Equal(t, []common.Hash{y}, prevotes(l.drain()), "source genesis, above a")
		b := l.grow(a, 4)
		l.step(CertificateEvent{l.qc(a)})
		rd := l.drain()
		require.Equal(t, []common.Hash{b}, prevotes(rd), "no precommit was sent that bars it")
		if bug {
			require.Equal(t, []common.Hash{a}, precommits(rd))
			continue
		}
		require.Empty(t, precommits(rd))
		// QC(b), above y: nothing bars its precommit.
		l.step(CertificateEvent{l.qc(b)})
		require.Equal(t, []common.Hash{b}, precommits(l.drain()))
	}
}

// A block that left the tree is assumed to conflict.
func TestUnknownBlockConflicts(t *testing.T) {
	l := newLab(t, func(c *Config) {
		gone := block.Point{Slot: 3, Hash: common.Hash{1}}
		c.Signed = append(c.Signed, SignRecord{Kind: RecordPrevote, Slot: 3, Link: block.Link{Kind: block.Prevote, Source: block.Point{Hash: genesisHash}, Target: gone}})
	})
	l.slotBegins(10)
	a := l.grow(genesisHash, 2)
	b := l.grow(a, 4)
	l.drain()
	l.step(CertificateEvent{l.qc(a)})
	require.Empty(t, l.drain().Votes)
	l.step(CertificateEvent{l.qc(b)})
	require.Equal(t, []common.Hash{b}, precommits(l.drain()))

	l = newLab(t, func(c *Config) {
		gone := block.Point{Slot: 3, Hash: common.Hash{1}}
		c.Signed = append(c.Signed, SignRecord{Kind: RecordPrecommit, Slot: 3, Link: block.Link{Kind: block.Precommit, Source: gone, Target: gone}})
	})
	l.slotBegins(10)
	l.grow(l.grow(genesisHash, 2), 4)
	require.Empty(t, l.drain().Votes)
}

// Rule 6, second, compares sources strictly: a prevote from a source of B's own slot, on whatever branch, bars no
// Precommit(B).
func TestSourceOfTheSameSlotBarsNothing(t *testing.T) {
	for source, want := range map[uint64]int{1: 0, 2: 1} {
		l := newLab(t, func(c *Config) {
			gone := block.Link{Kind: block.Prevote, Source: block.Point{Slot: source, Hash: common.Hash{2}}, Target: block.Point{Slot: 3, Hash: common.Hash{1}}}
			c.Signed = append(c.Signed, SignRecord{Kind: RecordPrevote, Slot: 3, Link: gone})
		})
		l.slotBegins(10)
		a := l.grow(genesisHash, 2)
		l.grow(a, 4)
		l.drain()
		l.step(CertificateEvent{l.qc(a)})
		require.Len(t, precommits(l.drain()), want, "source of slot %d", source)
	}
}

// The half slot of B+: on B's own branch neither vote bars the other, in either order.
func TestOwnBranchBarsNothing(t *testing.T) {
	l, a := voted(t, nil)
	b := l.grow(a, 2)
	c := l.grow(b, 3)
	require.Equal(t, []common.Hash{c}, prevotes(l.drain()))
	l.step(CertificateEvent{l.qc(b)})
	require.Equal(t, []common.Hash{b}, precommits(l.drain()), "prevote on a descendant from a source below, then precommit")
	d := l.grow(c, 4)
	require.Equal(t, []common.Hash{d}, prevotes(l.drain()), "and the other way round")
	l.step(CertificateEvent{l.qc(a)})
	require.Empty(t, precommits(l.drain()), "one below the newest precommit adds nothing")
}

func TestPlantedVoteBugs(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Bugs.VoteBeforeExecute = true })
	l.slotBegins(10)
	a := l.add(genesisHash, 1)
	require.Equal(t, []common.Hash{a}, prevotes(l.drain()))

	l = newLab(t, func(c *Config) { c.Bugs.PrecommitWithoutQC = true })
	l.slotBegins(10)
	a = l.grow(genesisHash, 1)
	require.Equal(t, []common.Hash{a}, precommits(l.drain()))

	l = newLab(t, func(c *Config) { c.Bugs.SkipNewestPrevote = true })
	l.slotBegins(10)
	a = l.add(genesisHash, 1)
	l.step(CertificateEvent{l.qc(a)})
	require.Equal(t, []common.Hash{a}, precommits(l.drain()))

	l = newLab(t, func(c *Config) { c.Bugs.QuorumMinusOne = true })
	a = l.add(genesisHash, 1)
	l.step(CertificateEvent{l.qc(a, 1, 2)})
	require.Equal(t, a, l.Justified().Hash)
}

func TestObserverAndOutsiderAreSilent(t *testing.T) {
	for _, self := range []common.Address{{}, account(7)} {
		l := newLab(t, func(c *Config) { c.Self = self })
		require.Nil(t, l.slotBegins(4).Produce)
		a := l.grow(genesisHash, 1)
		l.step(CertificateEvent{l.qc(a)})
		rd := l.drain()
		require.Empty(t, rd.Votes)
		require.Empty(t, rd.Records)
		l.step(CertificateEvent{l.fc(a)})
		require.Equal(t, a, l.drain().Final.Point.Hash, "but follows")
	}
}

// Rule 8, patience: a certificate shown in the slot of the block or the one before does not sway the vote on it, unless
// the block's own chain holds it; a precommit waits for the next prevote once its slot is over.
func TestPatience(t *testing.T) {
	for _, patience := range []bool{true, false} {
		l := newLab(t, func(c *Config) { c.Params.Patience = patience })
		l.slotBegins(30)
		a := l.grow(genesisHash, 1)
		x := l.grow(genesisHash, 2) // withheld branch, its QC shown late
		l.drain()
		l.slotBegins(34)
		b := l.grow(a, 34)
		require.Equal(t, []common.Hash{b}, prevotes(l.drain()))
		l.slotBegins(38)
		l.step(CertificateEvent{l.qc(x)}) // after slot 37 began
		h := l.drain().Head
		if !patience {
			require.Equal(t, x, h)
			l.grow(b, 38)
			require.Empty(t, prevotes(l.drain()))
			continue
		}
		require.Equal(t, common.Hash{}, h)
		c := l.grow(b, 38)
		rd := l.drain()
		require.Equal(t, []common.Hash{c}, prevotes(rd))
		require.Equal(t, c, rd.Head)
		require.Equal(t, x, l.Head().Hash, "a producer builds by all it knows")
		// From slot 40 on the certificate counts: it was known before slot 39 began.
		l.slotBegins(40)
		l.grow(c, 40)
		require.Empty(t, prevotes(l.drain()))
		y := l.grow(x, 39, withQC(l.qc(x)))
		rd = l.drain()
		require.Equal(t, y, rd.Head)
		require.Equal(t, []common.Hash{y}, prevotes(rd))
		require.Empty(t, precommits(rd), "the prevote on c bars x")
		l.slotBegins(41)
		z := l.grow(y, 41)
		require.Equal(t, []common.Hash{z}, prevotes(l.drain()))
		l.slotBegins(42)
		l.step(CertificateEvent{l.qc(z)})
		require.Empty(t, precommits(l.drain()), "the newest prevote is of slot 41")
		w := l.grow(z, 42)
		rd = l.drain()
		require.Equal(t, []common.Hash{w}, prevotes(rd))
		require.Equal(t, []common.Hash{z}, precommits(rd))
	}
}

// Patience binds in every second window of 32 slots, beginning with the second.
func TestPatientWindows(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Params.Patience = true })
	for slot := range uint64(200) {
		require.Equal(t, slot >= 32 && slot < 64 || slot >= 96 && slot < 128 || slot >= 160 && slot < 192, l.patient(slot), "slot %d", slot)
	}
}

// Patience draws its line where slot s-1 begins: known before, a certificate counts for the block of slot s.
func TestPatienceLine(t *testing.T) {
	for _, early := range []bool{true, false} {
		l := newLab(t, func(c *Config) { c.Params.Patience = true })
		l.slotBegins(35)
		a := l.grow(l.grow(genesisHash, 1), 34)
		x := l.grow(genesisHash, 2)
		l.drain()
		if early {
			l.step(CertificateEvent{l.qc(x)})
		}
		l.slotBegins(36)
		l.step(CertificateEvent{l.qc(x)}.unless(early))
		l.slotBegins(37)
		b := l.grow(a, 37)
		if early {
			require.Empty(t, prevotes(l.drain()))
		} else {
			require.Equal(t, []common.Hash{b}, prevotes(l.drain()))
		}
	}
}
