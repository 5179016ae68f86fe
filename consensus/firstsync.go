package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// Answer is what another producer tells this node after its start (rule 11): where it is, and what it holds of this
// node's own votes. A handshake that proves the account carries it.
type Answer struct {
	Producer common.Address     // proven by the handshake's signature
	LIB      Place              // the producer's last irreversible block
	FC       *block.Certificate // its newest; nil: none
	Votes    []block.Vote       // in this node's name, as the producer holds them; not verified
}

// HearProducer takes a producer's answer to this start. Nothing is signed before enough of them were heard; votes of
// this node that its log lacks enter the log and silence it. The error wraps ErrInvalid if the answer tells a vote that
// this node did not sign: whoever told it is at fault, and the answer does not count. Another error means that the
// answer cannot be judged yet: ask again.
func (d *Driver) HearProducer(ctx context.Context, a Answer) error {
	if d.self == (common.Address{}) || a.Producer == d.self {
		return nil
	}
	if len(a.Votes) > MaxToldVotes {
		return fmt.Errorf("%w: %d votes told at once, %d allowed", ErrInvalid, len(a.Votes), MaxToldVotes)
	}
	told, err := d.verifyTold(ctx, a.Votes)
	if err != nil {
		return err
	}
	ev := dpos.Heard{Producer: a.Producer, Height: a.LIB.Height, Told: told}
	if ev.Certified, err = d.certifiedAbove(ctx, a.FC); err != nil {
		return err
	}
	return d.do(ctx, false, func(c *core) {
		_ = c.step(ev) // it is never refused
	})
}

var errNoVoteKey = errors.New("this account's vote key is in no schedule that this node knows yet")

// verifyTold verifies votes in this node's own name. Those that the log holds are left out.
func (d *Driver) verifyTold(ctx context.Context, votes []block.Vote) (told []block.Vote, err error) {
	var keys []block.BLSKey
	var doubtful []block.Vote
	if e := d.do(ctx, true, func(c *core) {
		keys = c.machine.VoteKeys(d.self)
		for i := range votes {
			if _, cast := c.cast[votes[i].Link]; !cast || votes[i].Voter != d.self {
				doubtful = append(doubtful, votes[i])
			}
		}
	}); e != nil {
		return nil, e
	}
	for i := range doubtful {
		v := &doubtful[i]
		switch {
		case v.Voter != d.self:
			return nil, fmt.Errorf("%w: a vote of %s was told as one of %s", ErrInvalid, v.Voter, d.self)
		case len(keys) == 0:
			return nil, errNoVoteKey
		case d.findSigningKey(*v, keys) == nil:
			d.m.badVotes.Inc()
			return nil, fmt.Errorf("%w: a %s on slot %d was told as one of %s, which did not sign it", ErrInvalid, v.Kind, v.Target.Slot, d.self)
		}
		told = append(told, *v)
	}
	return told, nil
}

// certifiedAbove is the slot of a final block above our LIB that a certificate proves under the schedules for children
// of our LIB; 0 if it proves none. One that a later schedule made proves nothing here: the answer that came with it
// counts once the LIB it showed is held.
func (d *Driver) certifiedAbove(ctx context.Context, fc *block.Certificate) (slot uint64, err error) {
	if fc == nil {
		return 0, nil
	}
	var lib dpos.Header
	var schedules []block.Schedule
	if e := d.do(ctx, true, func(c *core) {
		lib = c.machine.LIB()
		schedules = c.machine.ChildSchedules()
	}); e != nil {
		return 0, e
	}
	if fc.Kind != block.Precommit || fc.Target.Slot <= lib.Slot || len(fc.Bitmaps) != len(schedules) || d.verify.certificate(fc, schedules) != nil {
		return 0, nil
	}
	for i, s := range schedules {
		if fc.Count(i) < s.Quorum() {
			return 0, nil
		}
	}
	return fc.Target.Slot, nil
}

// VotesBy are the newest votes of a producer that this node holds, verified, newest first: those above LIB, and its
// newest ones below. They are told to the producer when it asks after a start. Before the chain executes the answer is
// ErrNotReady, and the producer asks again: votes are refused meanwhile and none are on disk, so what could be told is less
// than after. The wait is this node's alone, so no two nodes wait for each other.
func (d *Driver) VotesBy(ctx context.Context, producer common.Address) (out []block.Vote, err error) {
	if !d.isReady() {
		return nil, ErrNotReady
	}
	if producer == d.self {
		return nil, nil
	}
	var votes []block.Vote
	var keys []block.BLSKey
	if e := d.do(ctx, true, func(c *core) {
		votes, keys = c.machine.VotesBy(producer, MaxToldVotes), c.machine.VoteKeys(producer)
	}); e != nil {
		return nil, e
	}
	return slices.DeleteFunc(votes, func(v block.Vote) bool { return d.findSigningKey(v, keys) == nil }), nil
}

// silence is why a signer casts no vote, for people: cause changes when what it waits for does, text says it all. The
// signer is silent.
func (d *Driver) silence(w *dpos.Waiting) (cause, text string) {
	switch {
	case w.Floor > 0:
		return "floor", fmt.Sprintf("it may have signed what its vote log does not hold (a lost log, or an old copy of the data directory); it votes again when the chain proves a block above slot %d justified by the others' votes", w.Floor)
	case w.Answers > 0:
		names := make([]string, len(w.Unheard))
		for i, a := range w.Unheard {
			names[i] = a.String()
		}
		text = fmt.Sprintf("it votes after %d more producers have told what they hold of its votes; not heard since this start: %s", w.Answers, strings.Join(names, ", "))
		if w.Overdue {
			return "overdue", text + "; it seals blocks meanwhile; start them, or connect this node to them"
		}
		return "answers", text
	case w.Certified > 0:
		return "lib", fmt.Sprintf("a producer showed a final block of slot %d, which this node fetches first", w.Certified)
	case w.Line > 0:
		return "line", fmt.Sprintf("it signs nothing for slots up to %d, which an earlier run may have signed for", w.Line)
	}
	return "start", "it does not run yet"
}

// tellSilence logs once why the signer is silent, again when the cause changes, and once that it signs.
func (c *core) tellSilence(cause, text string) {
	if cause == c.silent {
		return
	}
	c.silent = cause
	log := c.d.log.With(zap.Stringer("producer", c.d.self))
	switch cause {
	case "":
		log.Info("the signer signs from now on", zap.Uint64("slot", c.d.slotNow()), zap.Uint64("lib", c.machine.LIB().Height))
	case "floor", "overdue", "ahead", "lost clocks", "fork":
		log.Warn("the signer casts no vote: " + text)
	default:
		log.Info("the signer casts no vote yet: " + text)
	}
}
