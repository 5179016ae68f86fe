package dpos

import (
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// answerAll answers tallies until none come; it gives all duties.
func (l *lab) answerAll(rd Ready) Ready {
	l.t.Helper()
	sum := rd
	for len(rd.Tallies) > 0 {
		for _, t := range rd.Tallies {
			l.step(answer(t, l.cfg.Self))
		}
		rd = l.drain()
		sum = merged(sum, rd)
	}
	return sum
}

// Rules 4 and 7: votes become certificates, a precommit certificate only where there is a QC.
func TestVotesBecomeCertificates(t *testing.T) {
	l, a := voted(t, nil) // our own prevote is one
	pre, com := l.link(block.Prevote, a), l.link(block.Precommit, a)
	l.step(VotesEvent{votesOn(com, 1, 2, 3)})
	require.Empty(t, l.drain().Tallies, "no QC yet")
	l.step(VotesEvent{votesOn(pre, 1)})
	require.Empty(t, l.drain().Tallies, "two of four")
	l.step(VotesEvent{votesOn(pre, 2)})
	rd := l.drain()
	require.Len(t, rd.Tallies, 1)
	require.Equal(t, pre, rd.Tallies[0].Link)
	require.Equal(t, []block.Schedule{firstN(4)}, rd.Tallies[0].Schedules)
	require.Equal(t, block.Vote{Link: pre, Voter: account(0)}, rd.Tallies[0].Votes[0], "ours has no signature")
	l.step(VotesEvent{votesOn(pre, 3)})
	require.Empty(t, l.drain().Tallies, "one question at a time")
	rd = l.answerAll(rd)
	require.Len(t, rd.Tallies, 2)
	require.Equal(t, com, rd.Tallies[1].Link, "the QC wakes the precommits")
	require.Equal(t, []common.Hash{a}, precommits(rd))
	require.Equal(t, a, rd.Final.Point.Hash)
	require.Equal(t, rd.Final.FC, l.BestFC())
	require.Equal(t, pre, rd.Final.QC.Link)
}

// A forged vote costs its voter nothing: the genuine one counts, before or after.
func TestForgedVotes(t *testing.T) {
	for _, forgedFirst := range []bool{true, false} {
		l, a := voted(t, func(c *Config) { c.Self = common.Address{} })
		pre := l.link(block.Prevote, a)
		good := votesOn(pre, 1, 2, 3)
		forged := good[0]
		forged.Signature[0]++
		if forgedFirst {
			l.step(VotesEvent{[]block.Vote{forged, good[0]}})
		} else {
			l.step(VotesEvent{[]block.Vote{good[0], forged, forged}})
		}
		l.step(VotesEvent{good[1:]})
		l.answerAll(l.drain())
		require.Equal(t, a, l.Justified().Hash)
	}
	// Forged only: bad votes leave, and the voter may vote again.
	l, a := voted(t, func(c *Config) { c.Self = common.Address{} })
	pre := l.link(block.Prevote, a)
	good := votesOn(pre, 1, 2, 3)
	forged := good[2]
	forged.Signature[5]++
	l.step(VotesEvent{[]block.Vote{good[0], good[1], forged}})
	l.answerAll(l.drain())
	require.Equal(t, genesisHash, l.Justified().Hash)
	l.step(VotesEvent{good[2:]})
	rd := l.drain()
	require.Len(t, rd.Tallies, 1)
	l.answerAll(rd)
	require.Equal(t, a, l.Justified().Hash)
}

// A driver that finds neither fault nor quorum is not asked the same thing for ever.
func TestTallyWithoutResultWaits(t *testing.T) {
	l, a := voted(t, func(c *Config) { c.Self = common.Address{} })
	pre := l.link(block.Prevote, a)
	l.step(VotesEvent{votesOn(pre, 1, 2, 3)})
	rd := l.drain()
	l.step(Tallied{ID: rd.Tallies[0].ID})
	require.Empty(t, l.drain().Tallies)
	l.step(VotesEvent{votesOn(pre, 0)})
	rd = l.drain()
	require.Len(t, rd.Tallies, 1)
	wrong := l.fc(a)
	require.ErrorIs(t, l.Step(Tallied{ID: rd.Tallies[0].ID, Certificate: wrong}), ErrInvalid)
	require.ErrorIs(t, l.Step(Tallied{ID: rd.Tallies[0].ID, Certificate: l.qc(a, 1)}), ErrInvalid)
	require.NoError(t, l.Step(Tallied{ID: 12345}))
	l.step(Tallied{ID: rd.Tallies[0].ID, Certificate: l.qc(a)})
	require.Equal(t, a, l.Justified().Hash)
}

// Votes that can count for nothing are dropped; votes that came before their block wait for it.
func TestVotesBeforeTheirBlock(t *testing.T) {
	l, a := voted(t, func(c *Config) { c.Self = common.Address{} })
	h := l.child(a, 2)
	pre := block.Link{Kind: block.Prevote, Source: block.Point{Hash: genesisHash}, Target: h.Point()}
	wrongSource := pre
	wrongSource.Source = block.Point{Slot: 1, Hash: a}
	future, old, odd := pre, pre, pre
	future.Target.Slot = 12
	old.Target.Slot = 0
	odd.Kind = 9
	split := block.Link{Kind: block.Precommit, Source: pre.Source, Target: pre.Target}
	l.step(VotesEvent{votesOn(wrongSource, 1, 2, 3)})
	for _, k := range []block.Link{future, old, odd, split} {
		l.step(VotesEvent{votesOn(k, 1)})
	}
	l.step(VotesEvent{votesOn(pre, 1, 2, 3, 9)})
	require.Equal(t, 6, l.pool.unknown, "a stranger's is dropped")
	require.Empty(t, l.drain().Tallies)
	l.step(HeaderEvent{h})
	rd := l.drain()
	require.Len(t, rd.Tallies, 1)
	require.Zero(t, l.pool.unknown)
	require.Len(t, rd.Tallies[0].Votes, 3)
	require.Equal(t, pre, rd.Tallies[0].Link)
	l.step(VotesEvent{votesOn(wrongSource, 0)})
	require.Len(t, h2(l, h.Hash).pre.votes, 3)
}

func h2(l *lab, hash common.Hash) *node { return l.tree.nodes[hash] }

// What a voter, or one who forges his name, can make us hold is bounded, and old finality frees it.
func TestPoolIsBounded(t *testing.T) {
	l, a := voted(t, func(c *Config) { c.Self = common.Address{} })
	for i := range 3000 {
		v := block.Vote{Link: block.Link{Kind: block.Prevote, Source: block.Point{Hash: genesisHash}, Target: block.Point{Slot: 5, Hash: common.Hash{byte(i), byte(i >> 8)}}}, Voter: account(1)}
		l.step(VotesEvent{[]block.Vote{v}})
	}
	require.LessOrEqual(t, l.pool.unknown, maxUnknownPerVoter)
	require.LessOrEqual(t, len(l.pool.suspects), maxSuspects)
	require.LessOrEqual(t, len(l.pool.questions), 2*maxSuspects)
	pre := l.link(block.Prevote, a)
	for i := range 3000 {
		v := block.Vote{Link: pre, Voter: account(2)}
		v.Signature[0], v.Signature[1] = byte(i), byte(i>>8)
		l.step(VotesEvent{[]block.Vote{v}})
	}
	require.LessOrEqual(t, len(l.pool.index[account(2)].known), maxVersionsPerVote)
	require.ErrorIs(t, l.Step(VotesEvent{make([]block.Vote, MaxVotesPerEvent+1)}), ErrInvalid)
	l.answerAll(l.drain())
	require.Empty(t, l.pool.suspects)
	require.Empty(t, l.all.Evidence, "forged")
	l.step(CertificateEvent{l.fc(l.grow(a, 6))})
	l.drain()
	require.Empty(t, l.pool.voters)
	require.Empty(t, l.pool.index)
	require.Empty(t, l.pool.questions)
}

func TestVotesPerVoterAreBounded(t *testing.T) {
	l := newLab(t, func(c *Config) { c.Self = common.Address{} })
	const n = maxVotesPerVoter + 200
	l.slotBegins(n + 10)
	h := genesisHash
	for s := range uint64(n) {
		h = l.add(h, s+1)
		l.step(VotesEvent{votesOn(l.link(block.Prevote, h), 1)})
	}
	require.Len(t, l.pool.index[account(1)].known, maxVotesPerVoter)
	l.step(VotesEvent{votesOn(l.link(block.Prevote, h), 2, 3)})
	require.Len(t, l.drain().Tallies, 1, "the newest count")
	// A block whose votes left: they may come again.
	first := l.tree.path[1].Hash
	l.step(VotesEvent{votesOn(l.link(block.Prevote, first), 1, 2, 3)})
	require.Len(t, l.drain().Tallies, 1)
}

func TestDoubleVoteIsEvidence(t *testing.T) {
	for _, known := range []bool{true, false} {
		l, a := voted(t, nil)
		x := l.add(genesisHash, 3)
		h := l.child(a, 3, salt(1))
		second := block.Link{Kind: block.Prevote, Source: block.Point{Hash: genesisHash}, Target: h.Point()}
		if known {
			l.step(HeaderEvent{h})
		}
		first := votesOn(l.link(block.Prevote, x), 2)[0]
		l.step(VotesEvent{[]block.Vote{first}})
		forged := votesOn(second, 2)[0]
		forged.Signature[0]++
		l.step(VotesEvent{[]block.Vote{forged}})
		rd := l.answerAll(l.drain())
		require.Empty(t, targetsOf(rd.Evidence, DoubleVote), "forged")
		l.step(VotesEvent{votesOn(second, 2)})
		rd = l.answerAll(l.drain())
		ev := targetsOf(rd.Evidence, DoubleVote)
		require.Len(t, ev, 1)
		require.Equal(t, account(2), ev[0].Guilty)
		require.EqualValues(t, 3, ev[0].Slot)
		require.ElementsMatch(t, []block.Vote{first, votesOn(second, 2)[0]}, ev[0].Votes[:])
		l.step(VotesEvent{votesOn(second, 2)})
		require.Empty(t, l.answerAll(l.drain()).Evidence, "told once")
	}
}

func targetsOf(es []Evidence, k EvidenceKind) (out []Evidence) {
	for _, e := range es {
		if e.Kind == k {
			out = append(out, e)
		}
	}
	return out
}

// The second of rule 6, broken by another, in both orders of arrival, and with the block coming last.
func TestCrossVoteIsEvidence(t *testing.T) {
	for order := range 3 {
		l, a := voted(t, nil)
		x := l.add(genesisHash, 2)
		y := l.child(x, 3)
		pre := votesOn(block.Link{Kind: block.Prevote, Source: block.Point{Hash: genesisHash}, Target: y.Point()}, 3)
		com := votesOn(l.link(block.Precommit, a), 3)
		if order != 2 {
			l.step(HeaderEvent{y})
		}
		if order == 0 {
			l.step(VotesEvent{com})
			l.step(VotesEvent{pre})
		} else {
			l.step(VotesEvent{pre})
			l.step(VotesEvent{com})
		}
		if order == 2 {
			l.step(HeaderEvent{y})
		}
		ev := l.answerAll(l.drain()).Evidence
		require.Len(t, ev, 1, "order %d", order)
		require.Equal(t, CrossVote, ev[0].Kind)
		require.Equal(t, account(3), ev[0].Guilty)
		require.Equal(t, [2]block.Vote{com[0], pre[0]}, ev[0].Votes)
		require.Equal(t, firstN(4)[3].Key, ev[0].Key)
		require.Equal(t, []common.Hash{y.Hash, x, genesisHash}, ev[0].Path)
	}
	// On the slot behind B's already.
	l, a := voted(t, nil)
	near := l.add(genesisHash, 2)
	l.step(VotesEvent{votesOn(l.link(block.Precommit, a), 3)})
	l.step(VotesEvent{votesOn(l.link(block.Prevote, near), 3)})
	require.Len(t, targetsOf(l.answerAll(l.drain()).Evidence, CrossVote), 1)
	// From a source of B's own slot: whoever made two blocks of one slot is guilty, not who votes on.
	l, a = voted(t, nil)
	twin := l.add(genesisHash, 1, salt(1))
	above := l.add(twin, 3, withQC(l.qc(twin)))
	l.step(VotesEvent{votesOn(l.link(block.Precommit, a), 3)})
	l.step(VotesEvent{votesOn(l.link(block.Prevote, above), 3)})
	require.Empty(t, targetsOf(l.answerAll(l.drain()).Evidence, CrossVote))
	// On one branch, or from a source at B or above: no offence.
	l, a = voted(t, nil)
	b := l.add(a, 3)
	l.step(VotesEvent{votesOn(l.link(block.Precommit, a), 3)})
	l.step(VotesEvent{votesOn(l.link(block.Prevote, b), 3)})
	x := l.add(genesisHash, 2)
	y := l.add(x, 5, withQC(l.qc(x)))
	l.step(VotesEvent{votesOn(l.link(block.Prevote, y), 3)})
	require.Empty(t, l.answerAll(l.drain()).Evidence)
}
