package dpos

import (
	"math/bits"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// stalled is an observer with two branches of n blocks above genesis, of odd and of even slots. The first is preferred.
func stalled(t *testing.T, n int) (l *lab, odd, even []Header) {
	l = newLab(t, func(c *Config) {
		c.Self, c.Params.MaxReversible = common.Address{}, 1<<40
	})
	l.step(Tick{time.Duration(2*n+10) * l.cfg.Params.Slot()})
	a := makeHeader(Header{Hash: genesisHash}, firstN(4), 1)
	b := makeHeader(Header{Hash: genesisHash}, firstN(4), 2)
	for i := range n {
		l.step(HeaderEvent{a})
		l.step(HeaderEvent{b})
		odd, even = append(odd, a), append(even, b)
		s := uint64(2*i + 3)
		a, b = makeHeader(a, firstN(4), s), makeHeader(b, firstN(4), s+1)
	}
	l.drain()
	require.Equal(t, odd[n-1].Hash, l.Head().Hash)
	return l, odd, even
}

func prevoteOn(h Header) block.Link {
	return block.Link{Kind: block.Prevote, Source: block.Point{Hash: genesisHash}, Target: h.Point()}
}

func precommitOn(h Header) block.Link {
	return block.Link{Kind: block.Precommit, Source: h.Point(), Target: h.Point()}
}

// In a long stall a question about ancestry costs a few dozen steps on any branch.
func TestAncestryIsLogarithmic(t *testing.T) {
	const n = 3600
	l, odd, even := stalled(t, n)
	limit := 3 * bits.Len(n)
	for _, branch := range [][]Header{odd, even} {
		for from := n - 1; from >= 0; from -= 97 {
			x := l.tree.nodes[branch[from].Hash]
			for to := 0; to <= from; to += 13 {
				a, steps := x.climb(branch[to].Slot)
				require.Equal(t, branch[to].Hash, a.Hash)
				require.LessOrEqual(t, steps, limit)
			}
		}
	}
	// The LIB moves to the middle: jumps across it are void, and what is built on top is no worse.
	l.step(Tick{time.Duration(3*n) * l.cfg.Params.Slot()})
	l.step(CertificateEvent{l.fc(odd[n/2].Hash)})
	l.drain()
	h := l.Head()
	for i := range uint64(n / 4) {
		require.NotNil(t, l.tree.nodes[h.Hash])
		c := makeHeader(h, firstN(4), uint64(2*n)+i)
		l.step(HeaderEvent{c})
		h = c
	}
	x := l.tree.nodes[h.Hash]
	for a := x; a != l.tree.root; a = a.parent {
		got, steps := x.climb(a.Slot)
		require.Same(t, a, got)
		require.LessOrEqual(t, steps, 2*limit)
	}
}

// Votes that nobody verified, in anybody's name, cost a bounded amount of work whatever they are on.
func TestUnverifiedVotesCostLittle(t *testing.T) {
	const n = 3600
	for _, side := range []bool{false, true} {
		l, odd, even := stalled(t, n)
		branch := odd
		if side {
			branch = even // off the preferred path
		}
		var pre, com []block.Vote
		for i := range maxVotesPerVoter {
			com = append(com, votesOn(precommitOn(branch[i]), 1)...)
			pre = append(pre, votesOn(prevoteOn(branch[n-1-i]), 1)...)
		}
		links := 0
		for k, vs := range [][]block.Vote{com, pre, com, pre} {
			l.step(VotesEvent{vs})
			require.LessOrEqual(t, l.pool.work, maxEvidenceWork+3*bits.Len(n), "message %d", k)
			links = max(links, l.pool.work)
		}
		require.GreaterOrEqual(t, links, maxEvidenceWork, "the bound was met")
		require.Empty(t, l.pool.suspects)
		require.Empty(t, l.drain().Tallies, "no signature is verified for it")
		l.step(Tick{l.now + 1})
		require.Zero(t, l.pool.work, "counted by Step")
	}
}

// A guilty vote hidden in a flood is compared as soon as it is verified.
func TestFloodHidesNoGuilt(t *testing.T) {
	const n = 3600
	l, odd, even := stalled(t, n)
	var flood []block.Vote
	for i := range 600 {
		flood = append(flood, votesOn(precommitOn(odd[i]), 1)...)
	}
	l.step(VotesEvent{flood})
	flood = nil
	for i := range 600 {
		flood = append(flood, votesOn(prevoteOn(odd[n-1-i]), 1)...)
	}
	guilty := votesOn(prevoteOn(even[n-1]), 1)
	l.step(VotesEvent{append(flood, guilty...)})
	require.Empty(t, l.pool.suspects, "the work was spent")
	require.Empty(t, l.drain().Tallies)
	l.step(VotesEvent{votesOn(prevoteOn(even[n-1]), 2, 3)})
	ev := l.answerAll(l.drain()).Evidence
	require.Len(t, ev, 1, "told once")
	require.Equal(t, CrossVote, ev[0].Kind)
	require.Equal(t, guilty[0], ev[0].Votes[1])
	require.Equal(t, even[n-1].Hash, ev[0].Path[0])
}

// Evidence names the key of the votes also when its owner is about to lose the seat, and has none in the schedule that
// produces.
func TestEvidenceNamesTheKey(t *testing.T) {
	c := newChainLab(t, nil)
	c.more(5)
	c.more(1, withFC(c.fc(c.hashes[4])))
	c.more(4) // 9 and 10 are joint
	count, next := c.owners(10)
	require.Len(t, count, 2)
	require.Negative(t, next.Index(account(1)))
	twin := c.child(c.hashes[9], 10, salt(1))
	c.step(HeaderEvent{twin})
	c.step(VotesEvent{votesOn(c.link(block.Prevote, c.hashes[10]), 1, 4)})
	c.step(VotesEvent{votesOn(c.link(block.Prevote, twin.Hash), 1, 4)})
	ev := targetsOf(c.answerAll(c.drain()).Evidence, DoubleVote)
	require.Len(t, ev, 2)
	require.Equal(t, oldSchedule[1].Key, ev[0].Key)
	require.Equal(t, newSchedule[1].Key, ev[1].Key)
}

// Two wrong signatures can sum up right. A vote that counted in a sum is verified by itself before it accuses.
func TestEvidenceIsVerifiedAlone(t *testing.T) {
	for _, genuine := range []bool{true, false} {
		evidenceOfASum(t, genuine, false)
		evidenceOfASum(t, genuine, true)
	}
}

// evidenceOfASum has two prevotes of one voter verified, one of which was in a good sum, in either order.
func evidenceOfASum(t *testing.T, genuine, newestFirst bool) {
	l, a := voted(t, func(c *Config) { c.Self = common.Address{} })
	x := l.add(genesisHash, 3)
	y := l.add(a, 3, salt(1))
	l.step(VotesEvent{votesOn(l.link(block.Prevote, x), 1, 2, 3)})
	rd := l.drain()
	require.Len(t, rd.Tallies, 1)
	l.step(answer(rd.Tallies[0], common.Address{})) // the sum is right
	require.Equal(t, x, l.Justified().Hash)
	l.step(VotesEvent{votesOn(l.link(block.Prevote, y), 2)})
	rd = l.drain()
	require.Len(t, rd.Tallies, 2, "both votes, though one was in a good sum")
	if newestFirst {
		slices.Reverse(rd.Tallies)
	}
	for _, q := range rd.Tallies {
		require.Len(t, q.Votes, 1)
		res := Tallied{ID: q.ID}
		if !genuine && q.Link.Target.Hash == x {
			res.Bad = []common.Address{account(2)}
		}
		l.step(res)
	}
	ev := targetsOf(l.drain().Evidence, DoubleVote)
	if !genuine {
		require.Empty(t, ev)
		require.Empty(t, l.pool.suspects)
		return
	}
	require.Len(t, ev, 1)
	require.Equal(t, account(2), ev[0].Guilty)
}
