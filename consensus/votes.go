package consensus

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// AddVotes judges votes of peers, verifies the signatures of those that can count and pools the good ones. It answers
// with a verdict for each vote, in their order; VoteAccepted means that the signature was verified, so only such votes
// may be passed on. The error is ErrInvalid for too many votes at once, or ErrStopped; nothing was judged then.
//
// Signatures are verified on the goroutine that calls, those of one link together, so a caller that gathers what waits
// saves pairings. A vote that cannot count costs no more than a look-up.
func (d *Driver) AddVotes(vs []block.Vote) ([]dpos.VoteVerdict, error) {
	if len(vs) > maxVotesPerCall {
		return nil, fmt.Errorf("%w: %d votes in one call, %d allowed", ErrInvalid, len(vs), maxVotesPerCall)
	}
	if !d.isReady() {
		return nil, ErrNotReady
	}
	ctx := context.Background()
	var judged []dpos.JudgedVote
	if err := d.do(ctx, true, func(c *core) { judged = c.machine.JudgeVotes(vs) }); err != nil {
		return nil, err
	}
	verdicts := make([]dpos.VoteVerdict, len(vs))
	for i := range judged {
		verdicts[i] = judged[i].Verdict
	}
	good := d.verifyJudged(vs, judged, verdicts)
	for _, v := range verdicts {
		d.m.judged.WithLabelValues(v.String()).Inc()
	}
	if len(good) == 0 {
		return verdicts, nil
	}
	err := d.do(ctx, false, func(c *core) {
		_ = c.step(dpos.VerifiedVotesEvent{Votes: good})
		c.markVotes(good)
	})
	if err != nil {
		return nil, err
	}
	return verdicts, nil
}

// verifyJudged verifies the accepted votes link by link and gives the good ones. What is bad becomes VoteForged. One
// that comes twice in one call is verified once.
func (d *Driver) verifyJudged(vs []block.Vote, judged []dpos.JudgedVote, verdicts []dpos.VoteVerdict) (good []dpos.VerifiedVote) {
	var links []block.Link
	open := make(map[block.Link][]*checkedVote)
	at := make(map[checkedKey][]int)
	for i := range vs {
		if verdicts[i] != dpos.VoteAccepted {
			continue
		}
		id := checkedKey{voteKey(&vs[i]), judged[i].Key}
		if d.badVotes.Contains(id) {
			verdicts[i] = dpos.VoteForged
			continue
		}
		if at[id] = append(at[id], i); len(at[id]) > 1 {
			continue
		}
		if open[vs[i].Link] == nil {
			links = append(links, vs[i].Link)
		}
		open[vs[i].Link] = append(open[vs[i].Link], d.verify.parseVote(vs[i], judged[i].Key))
	}
	var bad []block.Vote
	for _, l := range links {
		d.verify.verifyVotes(l, open[l])
		for _, c := range open[l] {
			if c.verified {
				good = append(good, dpos.VerifiedVote{Vote: c.Vote, Key: c.key})
				continue
			}
			if key := d.findSigningKey(c.Vote, judged[at[c.id][0]].OtherKeys); key != nil {
				good = append(good, dpos.VerifiedVote{Vote: c.Vote, Key: *key})
				continue
			}
			for _, i := range at[c.id] {
				verdicts[i] = dpos.VoteForged
			}
			d.badVotes.Add(c.id, struct{}{})
			bad = append(bad, c.Vote)
		}
	}
	d.reportBadVotes(bad)
	return good
}

// findSigningKey is the one of the keys that signed the vote; nil if none did.
func (d *Driver) findSigningKey(v block.Vote, keys []block.BLSKey) *block.BLSKey {
	for i := range keys {
		if d.verify.verifyVote(v, keys[i]) {
			return &keys[i]
		}
	}
	return nil
}

// reportBadVotes tells of votes whose signature is not their voter's. It may be called from any goroutine.
func (d *Driver) reportBadVotes(bad []block.Vote) {
	if len(bad) == 0 {
		return
	}
	d.m.badVotes.Add(float64(len(bad)))
	voters := make([]common.Address, 0, min(len(bad), maxLoggedVoters))
	for _, v := range bad[:min(len(bad), maxLoggedVoters)] {
		voters = append(voters, v.Voter)
	}
	d.log.Debug("votes with wrong signatures", zap.Int("votes", len(bad)), zap.Stringers("voters", voters), zap.Uint64("slot", bad[0].Target.Slot))
	if d.deps.OnBadVotes != nil {
		d.deps.OnBadVotes(bad)
	}
}
