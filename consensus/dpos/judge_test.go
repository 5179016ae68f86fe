package dpos

import (
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// verdictOf judges one vote.
func (l *lab) verdictOf(v block.Vote) VoteVerdict { return l.JudgeVotes([]block.Vote{v})[0].Verdict }

// verified judges votes, all of which must be accepted, and gives them as verified ones.
func (l *lab) verified(vs []block.Vote) {
	l.t.Helper()
	var good []VerifiedVote
	for i, j := range l.JudgeVotes(vs) {
		require.Equal(l.t, VoteAccepted, j.Verdict)
		good = append(good, VerifiedVote{vs[i], j.Key})
	}
	l.step(VerifiedVotesEvent{good})
}

// onUnknown is a prevote from genesis on a block that nobody has.
func onUnknown(slot uint64, n byte, voter int) block.Vote {
	return votesOn(block.Link{Kind: block.Prevote, Source: block.Point{Hash: genesisHash}, Target: block.Point{Slot: slot, Hash: common.Hash{9, n}}}, voter)[0]
}

// What a vote is worth is known before its signature is looked at, and an honest sender is told from another.
func TestVotesAreJudgedBeforeTheirSignatures(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(3)
	a := l.grow(genesisHash, 1)
	l.add(a, 3)
	l.step(CertificateEvent{l.fc(a)}) // LIB is at slot 1
	h := l.add(a, 2)
	good := votesOn(l.link(block.Prevote, h), 1)[0]
	change := func(f func(*block.Vote)) block.Vote { v := good; f(&v); return v }
	for name, c := range map[string]struct {
		v    block.Vote
		want VoteVerdict
	}{
		"a vote that counts":              {good, VoteAccepted},
		"on an unknown block":             {onUnknown(3, 0, 1), VoteAccepted},
		"at the LIB":                      {votesOn(l.link(block.Prevote, a), 1)[0], VoteIrrelevant},
		"ahead of the clock":              {onUnknown(4, 0, 1), VoteFuture},
		"of a stranger":                   {votesOn(good.Link, 9)[0], VoteStranger},
		"of a stranger on unknown blocks": {onUnknown(3, 0, 9), VoteStranger},
		"from another source":             {change(func(v *block.Vote) { v.Source = block.Point{Slot: 1, Hash: a} }), VoteRefuted},
		"without a signature":             {change(func(v *block.Vote) { v.Signature = block.BLSSignature{} }), VoteMalformed},
		"of nobody":                       {change(func(v *block.Vote) { v.Voter = common.Address{} }), VoteMalformed},
		"of no kind":                      {change(func(v *block.Vote) { v.Kind = 3 }), VoteMalformed},
		"from above its target":           {change(func(v *block.Vote) { v.Source.Slot = 9 }), VoteMalformed},
		"a precommit between two blocks":  {change(func(v *block.Vote) { v.Kind = block.Precommit }), VoteMalformed},
	} {
		require.Equal(t, c.want, l.verdictOf(c.v), name)
	}
	require.Equal(t, firstN(4)[1].Key, l.JudgeVotes([]block.Vote{good})[0].Key)
	l.verified([]block.Vote{good})
	require.Equal(t, VoteKnown, l.verdictOf(good))
	require.Equal(t, VoteForged, l.verdictOf(change(func(v *block.Vote) { v.Signature[9]++ })), "a producer has one signature on a link")
	require.Empty(t, l.drain().Tallies)
}

// A node that is an epoch or more behind cannot tell who has a seat by now.
func TestVotersOfLaterEpochsAreNotStrangers(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Params.EpochBlocks = 8 })
	l.slotBegins(100)
	require.Equal(t, VoteStranger, l.verdictOf(onUnknown(7, 0, 9)))
	require.Equal(t, VoteIrrelevant, l.verdictOf(onUnknown(8, 0, 9)))
	require.Equal(t, VoteAccepted, l.verdictOf(onUnknown(8, 0, 1)))
}

// Whoever gets a seat may be voting before this node has seen the change, and is no stranger; votes of its that the
// chain refutes may come through a peer that lacks the block.
func TestVotersOfAChangeUnderWayAreNotStrangers(t *testing.T) {
	c := newChainLab(t, nil)
	c.more(4) // block 4 announces the new schedule
	h := c.link(block.Prevote, c.hashes[4])
	require.Equal(t, VoteStranger, c.verdictOf(votesOn(h, 9)[0]))
	require.Equal(t, VoteRefuted, c.verdictOf(votesOn(h, 5)[0]), "not yet")
	require.Equal(t, VoteAccepted, c.verdictOf(onUnknown(c.tree.head().Slot+1, 0, 5)))
	require.Equal(t, VoteAccepted, c.verdictOf(votesOn(h, 1)[0]))
}

// What one voter, or whoever has its key, can make us verify and keep on blocks that do not exist is bounded, whatever
// order it sends in; what honest producers send in the same time is taken.
func TestUnknownBlocksHaveAShare(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(201)
	verified := 0
	flood := func() {
		for slot := uint64(1); slot <= 201; slot++ {
			for n := range byte(5) {
				v := onUnknown(slot, n, 1)
				if j := l.JudgeVotes([]block.Vote{v})[0]; j.Verdict == VoteAccepted {
					verified++
					l.step(VerifiedVotesEvent{[]VerifiedVote{{v, j.Key}}})
				} else if j.Verdict != VoteKnown {
					require.Equal(t, VoteOverShare, j.Verdict)
				}
			}
		}
	}
	flood()
	require.Len(t, l.pool.index[account(1)].unknown, maxUnknownPerVoter)
	require.LessOrEqual(t, verified, 2*201)
	before := verified
	flood()
	flood()
	require.LessOrEqual(t, verified-before, 0, "the same again costs nothing")
	for slot := uint64(150); slot <= 201; slot++ {
		require.Equal(t, VoteAccepted, l.verdictOf(onUnknown(slot, 0, 2)))
	}
}

// Verified votes make a certificate in the way unverified ones do, are evidence at once, and are doubted again if the
// block, once known, counts the voter under another key.
func TestVerifiedVotesCount(t *testing.T) {
	l, a := voted(t, nil)
	l.verified(votesOn(l.link(block.Prevote, a), 1, 2))
	rd := l.drain()
	require.Len(t, rd.Tallies, 1)
	l.answerAll(rd)
	require.Equal(t, a, l.Justified().Hash)

	x := l.add(genesisHash, 3)
	h := l.child(a, 3, salt(1))
	l.verified(votesOn(l.link(block.Prevote, x), 2))
	l.verified(votesOn(block.Link{Kind: block.Prevote, Source: block.Point{Hash: genesisHash}, Target: h.Point()}, 2))
	rd = l.drain()
	require.Len(t, targetsOf(rd.Evidence, DoubleVote), 1)
	for _, y := range rd.Tallies {
		require.Greater(t, len(y.Votes), 1, "nothing is asked about single votes")
	}

	u := l.child(a, 4, salt(2))
	v := votesOn(block.Link{Kind: block.Precommit, Source: u.Point(), Target: u.Point()}, 3)[0]
	l.step(VerifiedVotesEvent{[]VerifiedVote{{v, block.BLSKey{77}}}})
	require.True(t, l.pool.index[account(3)].unknown[0].good)
	l.step(HeaderEvent{u})
	known := l.pool.index[account(3)].known
	require.False(t, known[len(known)-1].good)
}

// A forged vote that came first does not keep a verified one out, whatever the number of forgeries.
func TestVerifiedVotesDisplaceForgeries(t *testing.T) {
	l, a := voted(t, nil)
	pre := l.link(block.Prevote, a)
	for i := range byte(10) {
		f := votesOn(pre, 1)[0]
		f.Signature[5] = i + 1
		l.step(VotesEvent{[]block.Vote{f}})
	}
	l.verified(votesOn(pre, 1, 2))
	l.answerAll(l.drain())
	require.Equal(t, a, l.Justified().Hash)
}

// A genuine vote in our own name that we did not cast silences us, verified beforehand or not.
func TestVerifiedVoteInOurName(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(20)
	l.verified([]block.Vote{onUnknown(19, 1, 0)})
	require.True(t, l.Silent())
	require.Equal(t, VoteIrrelevant, l.verdictOf(onUnknown(19, 1, 0)), "it is in the log now")
	floor := l.Waiting().Floor
	require.Equal(t, VoteAccepted, l.verdictOf(onUnknown(20, 2, 0)), "one below the floor enters the log too")
	l.verified([]block.Vote{onUnknown(20, 2, 0)})
	require.Equal(t, floor, l.Waiting().Floor)
	require.Equal(t, VoteIrrelevant, l.verdictOf(onUnknown(20, 2, 0)))
	require.Equal(t, VoteIrrelevant, l.verdictOf(onUnknown(18, 2, 0)), "older than all that the log holds")
}

// While a producer changes its key, a vote on an unknown block may be under either: it is judged by both.
func TestVotesOnUnknownBlocksMayBeUnderEitherKey(t *testing.T) {
	l := newLab(t, nil)
	l.slotBegins(20)
	old := l.tree.head().next
	changed := slices.Clone(old.cur)
	i := changed.Index(account(1))
	changed[i].Key = block.BLSKey{99}
	was := old.cur[i].Key
	for _, s := range []struct {
		stage stage
		first block.BLSKey // of the schedule that counts, the old one while both do
		next  *regime
	}{
		{joint, was, newRegime(joint, changed, old.cur, 0)},
		{announced, was, newRegime(announced, old.cur, changed, 0)},
	} {
		l.tree.head().next, l.tree.root.next = s.next, s.next
		got := l.JudgeVotes([]block.Vote{onUnknown(20, 1, 1), onUnknown(20, 2, 0)})
		require.Equal(t, VoteAccepted, got[0].Verdict)
		require.Equal(t, s.first, got[0].Key)
		require.Equal(t, []block.BLSKey{{99}}, got[0].OtherKeys)
		require.Empty(t, got[1].OtherKeys, "its key is the same")
	}
}
