package model

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// replay is a world in which machines cast the votes of a run, one after another.
type replay struct {
	*world
	s     *searcher
	votes [maxHonest]mask
}

// newReplay begins one; of two blocks of one slot the later has the greater hash, unless turned.
func newReplay(t *testing.T, o Options, bugs dpos.Bugs, tr *tree, turned bool) *replay {
	r := &replay{world: newWorld(t, o, bugs)}
	r.s = newSearcher(r.o)
	r.s.prepare(tr)
	r.tree = tr
	for i := 1; turned && i < len(r.hashes); i++ {
		r.hashes[i][0] = byte(100 - i)
	}
	r.follow(r.s, &r.votes)
	return r
}

func (r *replay) place(p step) (place, vote int) {
	for r.s.parties[place].id != p.by {
		place++
	}
	vote = p.block - 1
	if p.precommit {
		vote += r.tree.n
	}
	return place, vote
}

// allowed reports whether the model allows a vote now.
func (r *replay) allowed(p step) (ok bool) {
	place, vote := r.place(p)
	for i := range r.s.parties { // asked of equals, next names only the last
		if r.s.sameKind(i, place) && r.votes[i] == r.votes[place] {
			place = max(place, i)
		}
	}
	r.s.next(&r.votes, r.s.certified(&r.votes), func(i, b int) { ok = ok || i == place && b == vote })
	return ok
}

// cast reports whether the machine casts the vote. The machine is started with the producer's earlier votes as its WAL and
// shown only what the vote needs, as after a crash in a partition. It may cast others, which the model must allow: a
// precommit may become due with a prevote.
func (r *replay) cast(p step) bool {
	place, _ := r.place(p)
	mine := r.votes[place]
	m := r.machine(account(p.by), r.records(mine))
	require.Empty(r.t, votesOf(r.t, m))
	r.show(m, p.block)
	if p.precommit {
		for d := 1; d <= r.tree.n; d++ { // what it prevoted on the branch
			if mine&bit(d) != 0 && r.tree.v[d].above&bit(p.block) != 0 {
				r.show(m, d)
			}
		}
		err := m.Step(dpos.CertificateEvent{Certificate: r.certificate(false, p.block, r.voted(false, p.block))})
		if errors.Is(err, dpos.ErrInvalid) {
			return false
		}
		if err != nil {
			require.ErrorIs(r.t, err, dpos.ErrKnown)
		}
	} else {
		for _, b := range r.branch(p.block) {
			require.NoError(r.t, m.Step(dpos.Executed{Hash: r.hashes[b]}))
		}
	}
	for _, v := range votesOf(r.t, m) {
		b, ok := r.vote(v)
		require.True(r.t, ok)
		require.True(r.t, r.allowed(step{p.by, b >= r.tree.n, b%r.tree.n + 1}))
		r.votes[place] |= 1 << b
	}
	return r.has(p)
}

func (r *replay) has(p step) bool {
	place, vote := r.place(p)
	return r.votes[place]>>vote&1 != 0
}

func votesOf(t *testing.T, m *dpos.Machine) []block.Vote {
	votes, _ := drain(t, m, nil)
	return votes
}

// finalise has an observer that sees only the branch of a block take its certificates.
func (r *replay) finalise(b int) {
	m := r.machine(account(99), nil)
	r.show(m, b)
	for _, precommit := range []bool{false, true} {
		require.NoError(r.t, m.Step(dpos.CertificateEvent{Certificate: r.certificate(precommit, b, r.voted(precommit, b))}))
	}
	require.Equal(r.t, r.hashes[b], m.LIB().Hash)
}

// A machine without the rule can be led along the counter-example until two observers hold conflicting final blocks. The
// machine with all rules casts what they allow, and refuses the first vote that they forbid.
func TestMachineFollowsCounterexamples(t *testing.T) {
	for name, tc := range map[string]struct {
		o    Options
		bugs dpos.Bugs
	}{
		"slot rule":         {Options{Drop: Drop{SlotRule: true}}, dpos.Bugs{SkipSlotRule: true}},
		"link rule":         {Options{Drop: Drop{LinkPrevote: true, LinkPrecommit: true}}, dpos.Bugs{SkipLinkRule: true}},
		"link to prevote":   {Options{Drop: Drop{LinkPrevote: true}}, dpos.Bugs{SkipLinkRule: true}},
		"link to precommit": {Options{Drop: Drop{LinkPrecommit: true}}, dpos.Bugs{SkipLinkRule: true}},
		"joint quorum":      {Options{Change: Announcing, Drop: Drop{OldQuorum: true}}, dpos.Bugs{SingleQuorum: true}},
		"quorum":            {Options{Drop: Drop{OneVote: true}}, dpos.Bugs{QuorumMinusOne: true}},
	} {
		t.Run(name, func(t *testing.T) {
			tc.o.RisingPrecommits = true
			res, err := Search(tc.o)
			require.NoError(t, err)
			require.NotNil(t, res.Violation)
			follow := func(turned bool) (*replay, bool) {
				r := newReplay(t, tc.o, tc.bugs, res.tree, turned)
				for _, p := range res.steps {
					if !r.has(p) && (!r.allowed(p) || !r.cast(p)) {
						return r, false
					}
				}
				return r, true
			}
			turned := false
			r, ok := follow(turned)
			if !ok { // after a crash, of two prevotes in one slot the one with the greater hash counts as the newer
				turned = true
				r, ok = follow(turned)
			}
			require.True(t, ok, "%v", res.Violation)
			b, d := r.s.disagree(r.s.certified(&r.votes))
			require.NotZero(t, b)
			r.finalise(b)
			r.finalise(d)

			sound := tc.o
			sound.Drop = Drop{}
			r = newReplay(t, sound, dpos.Bugs{}, res.tree, turned)
			for k, p := range res.steps {
				if r.has(p) {
					continue
				}
				ok := r.allowed(p)
				require.Equal(t, ok, r.cast(p), "vote %d of %v", k, res.Violation)
				if !ok {
					t.Logf("refused: vote %d of %d, %+v", k+1, len(res.steps), p)
					return
				}
			}
			t.Fatal("the rules allow the counter-example")
		})
	}
}

// The other way round: from random reachable states on, a machine that is shown what a vote needs and nothing else casts
// every vote that the model allows, but those on blocks that it is shown to be final.
func TestMachineCastsWhatTheModelAllows(t *testing.T) {
	rounds := 200
	if long() {
		rounds = 5000
	}
	for _, o := range changes() {
		o.RisingPrecommits = true
		trees, cast, final := forest(o), 0, 0
		for seed := range rounds {
			rng := rand.New(rand.NewPCG(uint64(seed), 9))
			r := newReplay(t, o, dpos.Bugs{}, trees[rng.IntN(len(trees))], false)
			r.s.wander(&r.votes, rng)
			votes, certs := r.votes, r.s.certified(&r.votes)
			r.s.next(&votes, certs, func(i, b int) {
				r.votes = votes
				p := step{r.s.parties[i].id, b >= r.tree.n, b%r.tree.n + 1}
				if p.precommit && r.shownFinal(votes[i], p.block) {
					final++
					return
				}
				cast++
				require.True(t, r.cast(p), "%+v seed %d: %+v after %v\n%v", o, seed, p, votes, r.o.describe(r.tree))
			})
		}
		t.Logf("%+v: %d votes, %d more on final blocks", o, cast, final)
		require.Greater(t, cast, rounds)
	}
}

// shownFinal reports whether cast shows, with the prevoted descendants of a block, a proof that it is final.
func (r *replay) shownFinal(votes mask, b int) bool {
	for d := 1; d <= r.tree.n; d++ {
		x := &r.tree.v[d]
		if votes&bit(d) != 0 && x.above&bit(b) != 0 && x.final != 0 && r.tree.slot(x.final) >= r.tree.slot(b) {
			return true
		}
	}
	return false
}
