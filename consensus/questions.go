package consensus

import (
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// ProducerAnswer is what a producer of release 0.3, which knows no sessions, tells this node after its start: where it is, and
// what it holds of this node's own votes. A handshake that proves the account carries it.
type ProducerAnswer struct {
	Session  block.Session      // of this node, in which it was asked
	Producer common.Address     // proven by the handshake's signature
	LIB      Place              // the producer's last irreversible block
	FC       *block.Certificate // its newest; nil: none
	QC       *block.Certificate // likewise
	Votes    []block.Vote       // in this node's name, as the producer holds them; not verified
}

// HearProducer takes the answer of a producer of release 0.3. Votes of this node that its log lacks enter the log and silence
// it. Errors are as of HearAnswer.
func (d *Driver) HearProducer(ctx context.Context, a ProducerAnswer) error {
	if d.self == (common.Address{}) || a.Producer == d.self {
		return nil
	}
	if !d.isReady() {
		return ErrNotReady
	}
	if len(a.Votes) > block.MaxToldVotes {
		return fmt.Errorf("%w: %d votes told at once, %d allowed", ErrInvalid, len(a.Votes), block.MaxToldVotes)
	}
	votes := make([]block.ToldVote, len(a.Votes))
	for i := range a.Votes {
		votes[i].Vote = a.Votes[i]
	}
	told, err := d.verifyTold(ctx, votes)
	if err != nil {
		return err
	}
	ev := dpos.Heard{Producer: a.Producer, Session: a.Session, Height: a.LIB.Height, Told: told}
	if ev.Certified, ev.Justified, err = d.provenBy(ctx, a.FC, a.QC); err != nil {
		return err
	}
	return d.do(ctx, false, func(c *core) {
		_ = c.step(ev) // it is never refused
	})
}

// VotesBy are the newest votes of a producer that this node holds, verified, newest first: what a producer of release 0.3 is
// told when it asks after a start. It does not wait for the chain to execute.
func (d *Driver) VotesBy(ctx context.Context, producer common.Address) (votes []block.Vote, err error) {
	err = d.doEarly(ctx, func(c *core) { votes = c.marks.Votes(producer) })
	return votes, err
}
