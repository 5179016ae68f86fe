package dpos

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

var (
	oldSchedule = firstN(4)
	newSchedule = scheduleOf(3, 4, 5, 6)
)

// chainLab grows one branch slot by slot with epochs of four blocks. It is an observer.
type chainLab struct {
	*lab
	hashes  []common.Hash // by height
	headers []Header      // from height 1
}

func newChainLab(t *testing.T, change func(*Config)) *chainLab {
	l := newLab(t, func(c *Config) {
		c.Params.EpochBlocks, c.Self = 4, common.Address{}
		if change != nil {
			change(c)
		}
	})
	l.slotBegins(1000)
	return &chainLab{lab: l, hashes: []common.Hash{genesisHash}}
}

func (c *chainLab) more(n int, opts ...option) {
	for range n {
		at := uint64(len(c.hashes))
		o := opts
		if must, err := c.Announces(c.hashes[at-1]); err == nil && must {
			o = append(o[:len(o):len(o)], withNext(newSchedule))
		}
		h := c.child(c.hashes[at-1], at, o...)
		c.step(HeaderEvent{h})
		c.hashes, c.headers = append(c.hashes, h.Hash), append(c.headers, h)
		opts = nil
	}
}

func (c *chainLab) owners(height uint64) (count []block.Schedule, next block.Schedule) {
	c.t.Helper()
	count, err := c.VoteSchedules(c.hashes[height])
	require.NoError(c.t, err)
	next, err = c.ScheduleFor(c.hashes[height])
	require.NoError(c.t, err)
	return count, next
}

// Rule 9: step (i) and step (ii), each at the first epoch start whose parent chain proves it in its records.
func TestEpochChangeSteps(t *testing.T) {
	c := newChainLab(t, nil)
	c.more(9) // block 4 announces; block 8 passes without proof
	both := []block.Schedule{oldSchedule, newSchedule}
	expect := func(height uint64, count []block.Schedule, next block.Schedule) {
		t.Helper()
		n, p := c.owners(height)
		require.Equal(t, count, n, "height %d", height)
		require.Equal(t, next, p, "height %d", height)
	}
	one := both[:1]
	expect(4, one, oldSchedule)
	expect(8, one, oldSchedule)
	expect(9, one, oldSchedule)
	c.more(1, withFC(c.fc(c.hashes[3]))) // 10: proves a block below the announcement
	c.more(2)
	expect(12, one, oldSchedule)
	c.more(1, withFC(c.fc(c.hashes[5]))) // 13: a descendant of block 4 is final
	c.more(2)
	expect(15, one, oldSchedule)
	c.more(1) // 16: end of the epoch
	expect(16, one, newSchedule)
	c.more(1)
	expect(17, both, newSchedule)

	// Both quorums from here: 2 of the old and all of the new are no quorum, nor the other way round.
	fc := func(height uint64, voters ...int) *block.Certificate {
		return certFor(c.link(block.Precommit, c.hashes[height]), both, voters...)
	}
	for _, tc := range []struct {
		voters []int
		want   error
	}{
		{[]int{0, 1, 2}, ErrInvalid},
		{[]int{4, 5, 6}, ErrInvalid},
		{[]int{0, 3, 4, 5, 6}, ErrInvalid},
		{[]int{0, 1, 2, 3, 4}, ErrInvalid},
		{[]int{0, 1, 3, 4, 5}, nil},
		{[]int{0, 1, 2, 4, 5, 6}, nil},
	} {
		_, err := c.CertificateSchedules(fc(17, tc.voters...))
		require.ErrorIs(t, err, tc.want, "%v", tc.voters)
		_, err = c.Check(c.child(c.hashes[17], 18, withFC(fc(17, tc.voters...))))
		require.ErrorIs(t, err, tc.want, "%v", tc.voters)
	}
	single := certFor(c.link(block.Precommit, c.hashes[17]), both[1:], 3, 4, 5)
	_, err := c.CertificateSchedules(single)
	require.ErrorIs(t, err, ErrInvalid)

	// Blocks before (i) are counted under the old schedule alone, now as ever.
	c.more(1, withFC(c.fc(c.hashes[16]))) // 18
	c.more(2)                             // 20
	expect(20, both, newSchedule)         // final up to 16: below (i)
	c.more(1)
	expect(21, both, newSchedule)
	c.more(1, withFC(fc(17, 0, 1, 2, 4, 5, 6))) // 22
	c.more(2)                                   // 24
	expect(24, both, newSchedule)
	c.more(1)
	expect(25, both[1:], newSchedule)
	must, err := c.Announces(c.hashes[25])
	require.NoError(t, err)
	require.False(t, must)
	c.more(2)
	must, err = c.Announces(c.hashes[27])
	require.NoError(t, err)
	require.True(t, must, "the next change may begin")
}

func TestSingleQuorumBug(t *testing.T) {
	c := newChainLab(t, func(c *Config) { c.Bugs.SingleQuorum = true })
	c.more(5)
	c.more(1, withFC(c.fc(c.hashes[4])))
	c.more(4)
	count, _ := c.owners(9)
	require.Equal(t, []block.Schedule{newSchedule}, count)
}

// An announcement of the schedule in force changes nothing, and the next epoch may announce again.
func TestSameScheduleIsNoChange(t *testing.T) {
	c := newChainLab(t, nil)
	c.more(3)
	h := c.add(c.hashes[3], 4, withNext(firstN(4)))
	n := c.tree.nodes[h]
	require.Equal(t, settled, n.next.stage)
	require.True(t, n.next == n.own)
}

// Votes of both schedules are needed while both count, and make one certificate with two bitmaps.
func TestJointTally(t *testing.T) {
	c := newChainLab(t, nil)
	c.more(5)
	c.more(1, withFC(c.fc(c.hashes[4])))
	c.more(4) // 9 and 10 are joint
	k := c.link(block.Prevote, c.hashes[10])
	c.step(VotesEvent{votesOn(k, 0, 1, 2, 9)})
	require.Empty(t, c.drain().Tallies)
	c.step(VotesEvent{votesOn(k, 4, 5)})
	require.Empty(t, c.drain().Tallies)
	of := c.link(block.Prevote, c.hashes[9])
	c.step(VotesEvent{votesOn(of, 3, 4, 5, 6)})
	require.Empty(t, c.drain().Tallies, "all of the new schedule are one of the old")
	c.step(VotesEvent{votesOn(k, 3)}) // sits in both
	rd := c.drain()
	require.Len(t, rd.Tallies, 1)
	require.Equal(t, []block.Schedule{oldSchedule, newSchedule}, rd.Tallies[0].Schedules)
	require.Len(t, rd.Tallies[0].Votes, 6)
	c.answerAll(rd)
	qc := c.BestQC()
	require.Equal(t, k, qc.Link)
	require.Equal(t, 4, qc.Count(0))
	require.Equal(t, 3, qc.Count(1))
}

// A producer that joins precommits no block that was counted before it had a seat, though its newest prevote is on a descendant.
func TestJoinerPrecommitsNothingFromBeforeItsSeat(t *testing.T) {
	c := newChainLab(t, func(c *Config) { c.Self, c.Signed = account(5), nil })
	c.more(5)
	c.more(1, withFC(c.fc(c.hashes[4])))
	c.more(3) // 9 is joint
	for _, h := range c.hashes[1:] {
		c.step(Executed{h})
	}
	require.Equal(t, c.hashes[9:], prevotes(c.drain()))
	c.step(CertificateEvent{c.qc(c.hashes[8])})
	require.Empty(t, c.drain().Votes, "it has no seat there")
	c.step(CertificateEvent{c.qc(c.hashes[9], 0, 1, 2, 3, 4, 6)})
	require.Equal(t, c.hashes[9:], precommits(c.drain()))
}

// grown is a long branch with two changes under way and done, as headers, and what a certificate on its end looks like.
func grown(t *testing.T) (hs []Header, l *chainLab) {
	c := newChainLab(t, nil)
	c.more(5)
	c.more(1, withFC(c.fc(c.hashes[4]))) // 6: step (i) at 8|9
	c.more(4)                            // 10
	both := []int{0, 1, 2, 3, 4, 5, 6}
	c.more(1, withFC(c.fc(c.hashes[9], both...))) // 11: step (ii) at 12|13
	c.more(5)                                     // 16 announces anew: the same schedule
	return c.headers, c
}

// Catch-up: a range becomes final by one certificate, counted for the schedules that the range itself makes.
func TestRange(t *testing.T) {
	hs, src := grown(t)
	fc := certFor(src.link(block.Precommit, src.hashes[15]), []block.Schedule{newSchedule}, 3, 4, 5)
	c := newChainLab(t, nil)
	stray := c.add(genesisHash, 7)
	c.step(HeaderEvent{hs[0]})
	s, err := c.RangeSchedules(hs, hs[14].Hash)
	require.NoError(t, err)
	require.Equal(t, []block.Schedule{newSchedule}, s)
	s, err = c.RangeSchedules(hs, hs[9].Hash)
	require.NoError(t, err)
	require.Equal(t, []block.Schedule{oldSchedule, newSchedule}, s)

	checks, err := c.RangeChecks(hs, fc)
	require.NoError(t, err)
	require.Equal(t, []CertCheck{
		{Certificate: hs[5].FC, Schedules: []block.Schedule{oldSchedule}},
		{Certificate: hs[10].FC, Schedules: []block.Schedule{oldSchedule, newSchedule}},
		{Certificate: fc, Schedules: []block.Schedule{newSchedule}},
	}, checks, "one certificate per step of a change, and the newest")

	// Refused ranges change nothing.
	broken := append([]Header(nil), hs...)
	broken[7].Parent[0]++
	thief := append([]Header(nil), hs...)
	thief[7].Producer = account(9)
	weak := *fc
	weak.Bitmaps = [][]byte{{3}}
	for name, tc := range map[string]struct {
		ev   RangeEvent
		want error
	}{
		"hole":               {RangeEvent{append(append([]Header(nil), hs[:5]...), hs[6:]...), fc}, ErrInvalid},
		"broken link":        {RangeEvent{broken, fc}, ErrInvalid},
		"another's slot":     {RangeEvent{thief, fc}, ErrInvalid},
		"target not in it":   {RangeEvent{hs[:14], fc}, ErrInvalid},
		"no quorum":          {RangeEvent{hs, &weak}, ErrInvalid},
		"prevotes":           {RangeEvent{hs, c.qc(hs[0].Hash)}, ErrInvalid},
		"no certificate":     {RangeEvent{hs, nil}, ErrInvalid},
		"empty":              {RangeEvent{nil, fc}, ErrInvalid},
		"too high":           {RangeEvent{hs[3:], fc}, ErrUnknownParent},
		"too long":           {RangeEvent{make([]Header, MaxRangeHeaders+1), fc}, ErrInvalid},
		"on another genesis": {RangeEvent{[]Header{makeHeader(Header{Hash: common.Hash{5}}, oldSchedule, 1)}, fc}, ErrBelowLIB},
	} {
		require.ErrorIs(t, c.Step(tc.ev), tc.want, name)
		require.Len(t, c.tree.nodes, 3, name)
	}

	c.step(RangeEvent{hs, fc})
	rd := c.drain()
	require.Equal(t, src.hashes[1:16], rd.Final.Hashes)
	require.Equal(t, []common.Hash{stray}, rd.Dropped)
	require.Equal(t, hs[14].Hash, rd.Head)
	require.Equal(t, hs[14].Hash, c.LIB().Hash)
	require.False(t, c.Has(hs[15].Hash), "behind the target nothing enters")
	require.Equal(t, fc, c.BestFC())
	checkTree(t, c.tree)
	c.step(HeaderEvent{hs[15]})
	require.ErrorIs(t, c.Step(RangeEvent{hs, fc}), ErrBelowLIB)

	// A range that begins below the LIB is taken from there on.
	d := newChainLab(t, nil)
	d.step(RangeEvent{hs[:3], certFor(block.Link{Kind: block.Precommit, Source: hs[1].Point(), Target: hs[1].Point()}, []block.Schedule{oldSchedule})})
	d.step(RangeEvent{hs, fc})
	require.Equal(t, hs[14].Hash, d.LIB().Hash)
	r, err := DecodeRoot(d.drain().Final.Root.Encode())
	require.NoError(t, err)
	require.Equal(t, newSchedule, r.Schedule())
	require.Equal(t, hs[14].Point(), r.Point())
	require.EqualValues(t, 15, r.Height())

	// Another chain's range does not pass the LIB.
	e := newChainLab(t, nil)
	e.step(CertificateEvent{e.fc(e.add(genesisHash, 2))})
	require.ErrorIs(t, e.Step(RangeEvent{hs, fc}), ErrBelowLIB)
}

// Headers one by one and as a range give the same machine.
func TestRangeEqualsHeaders(t *testing.T) {
	hs, src := grown(t)
	fc := certFor(src.link(block.Precommit, src.hashes[15]), []block.Schedule{newSchedule}, 3, 4, 5)
	a, b := newChainLab(t, nil), newChainLab(t, nil)
	for _, h := range hs[:15] {
		a.step(HeaderEvent{h})
	}
	a.step(CertificateEvent{fc})
	b.step(RangeEvent{hs[:15], fc})
	ra, rb := a.drain().Final, b.drain().Final
	require.Equal(t, ra.Root.Encode(), rb.Root.Encode())
	require.Equal(t, ra.Point, rb.Point)
}
