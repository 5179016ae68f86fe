package consensus

import (
	"context"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/lru"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/failpoint"
)

// job is one piece of work for the crypto goroutine: votes to sign and send, or a tally to verify.
type job struct {
	sign  []block.Vote
	again bool           // signed before: send again
	keys  []block.BLSKey // of ours; none: without a seat
	tally *dpos.Tally
	own   int // index of our own vote in the tally, to be signed; -1: none

	withhold bool // our own vote in the tally is not signed: the seat has another key
}

// signature answers a job.
type signature struct {
	job
	votes       []block.Vote // signed and sent
	withheld    bool         // our own vote in the tally was not signed: a fork was met meanwhile, or the seat has another key
	certificate *block.Certificate
	bad         []block.Vote
	err         error
}

// voteSigner signs votes and verifies tallies on one goroutine, in the order the machine asked for, so that our own
// vote is always signed before the tally that holds it. What it signs is in the vote log already. Once a fork is met it signs nothing
// more, of what was queued before neither.
type voteSigner struct {
	d    *Driver
	in   chan job
	out  chan signature // capacity 1
	sigs *lru.Cache[common.Hash, block.BLSSignature]
}

func newVoteSigner(d *Driver) *voteSigner {
	return &voteSigner{d, make(chan job), make(chan signature, 1), lru.NewCache[common.Hash, block.BLSSignature](cacheBadVotes)}
}

func (c *voteSigner) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case j := <-c.in:
			c.out <- c.do(j) // never waits: one job at a time
		}
	}
}

func (c *voteSigner) do(j job) (s signature) {
	s.job = j
	if j.tally != nil {
		t := *j.tally
		switch {
		case j.own >= 0 && (j.withhold || c.d.forks.halted.Load()):
			t.Votes = slices.Delete(slices.Clone(t.Votes), j.own, j.own+1)
			s.withheld = true
		case j.own >= 0:
			t.Votes = slices.Clone(t.Votes)
			s.err = c.sign(&t.Votes[j.own])
		}
		if s.err == nil {
			s.certificate, s.bad = c.d.verify.tally(t)
		}
		return s
	}
	if c.d.forks.halted.Load() {
		return s
	}
	s.votes = slices.Clone(j.sign)
	for i := range s.votes {
		if s.err = c.sign(&s.votes[i]); s.err != nil {
			return s
		}
	}
	failpoint.Hit("consensus-votes-signed")
	if c.d.deps.Network != nil {
		c.d.deps.Network.BroadcastVotes(s.votes)
	}
	failpoint.Hit("consensus-votes-sent")
	if !j.again { // the tally that holds them will come: verify them while nobody waits
		for _, v := range s.votes {
			_ = c.d.findSigningKey(v, j.keys)
		}
	}
	return s
}

// sign signs one vote, or remembers how it did.
func (c *voteSigner) sign(v *block.Vote) error {
	digest := c.d.verify.domainAt(v.Target.Slot).VoteDigest(v.Link)
	sig, ok := c.sigs.Get(digest)
	if !ok {
		var err error
		if sig, err = c.d.deps.Signer.SignVote(digest); err != nil {
			return fmt.Errorf("sign a %s on slot %d: %w", v.Kind, v.Target.Slot, err)
		}
		c.sigs.Add(digest, sig)
	}
	v.Signature = sig
	return nil
}

// voteKey names the exact bytes of a vote.
func voteKey(v *block.Vote) common.Hash { return crypto.Keccak256Hash(v.Encode()) }
