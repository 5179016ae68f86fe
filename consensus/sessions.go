package consensus

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
)

// beginSession begins a session of the signer (rule 11). The machine records it before anything names it.
func (c *core) beginSession(number uint64) error {
	s := block.Session{Number: number}
	if _, err := rand.Read(s.Nonce[:]); err != nil {
		return fmt.Errorf("begin a session: %w", err)
	}
	if len(c.begun) == maxBegunSessions {
		c.begun = append(c.begun[:1], c.begun[2:]...) // the first tells how old this instance is
	}
	c.begun = append(c.begun, s)
	return c.step(dpos.Begin{Session: s})
}

// signSession signs the session that the machine runs, once its record is in the log.
func (c *core) signSession() error {
	s := c.machine.Session()
	if s == (block.Session{}) {
		c.session = nil
		return nil
	}
	if c.session != nil && c.session.Session == s {
		return nil
	}
	seal, err := c.d.signSeal(c.d.verify.domain.SessionDigest(c.d.self, s))
	if err != nil {
		return fmt.Errorf("sign session %d: %w", s.Number, err)
	}
	c.session = &block.SignedSession{Producer: c.d.self, Session: s, Seal: seal}
	return nil
}

// signSeal signs with the seal key. It may be called from any goroutine.
func (d *Driver) signSeal(digest common.Hash) ([block.SealLength]byte, error) {
	d.sealing.Lock()
	defer d.sealing.Unlock()
	return d.deps.Signer.SignSeal(digest)
}

// renewAfterGap has a further session begun when the clock passed longer than a running node's does: this may be a machine
// image that was resumed, and another instance may have signed meanwhile.
func (c *core) renewAfterGap(now time.Duration) {
	gap := now - c.lastTurn
	was := c.lastTurn
	c.lastTurn = now
	if was == 0 || gap <= maxTurnGap {
		return
	}
	c.d.log.Warn("the clock passed a long time while this node did nothing: it asks the other producers again what it signed", zap.Duration("gap", gap))
	_ = c.step(dpos.Renew{})
}

// LinksReturned tells that this node has a link again after it had none for so long. Beyond a bound a further session is
// begun before anything is signed, as after a start. It does not wait.
func (d *Driver) LinksReturned(alone time.Duration) {
	if d.self == (common.Address{}) || alone < maxAlone {
		return
	}
	d.log.Warn("this node had no link to any other for long: it asks the other producers again what it signed", zap.Duration("alone", alone))
	go func() { _ = d.do(context.Background(), false, func(c *core) { _ = c.step(dpos.Renew{}) }) }()
}

// AcceptAnswers is the operator's word that a forgetful signer may vote again by one answer fewer than the rules ask for
// (rule 11). The error says why there is nothing to accept.
func (d *Driver) AcceptAnswers(ctx context.Context) (Status, error) {
	if d.self == (common.Address{}) {
		return Status{}, errors.New("this node signs for no producer")
	}
	var none, accepted bool
	err := d.do(ctx, false, func(c *core) {
		if none = c.machine.Waiting().Floor == 0; none {
			return
		}
		_ = c.step(dpos.Accept{})
		w := c.machine.Waiting()
		accepted = w.Floor == 0 || w.Rest.Accepted // the word may have been all that was missing
	})
	switch {
	case err != nil:
	case none:
		err = errors.New("this producer misses no signature of its own: there is nothing to accept")
	case !accepted:
		err = errors.New("the slot up to which this producer's signatures may be missing is not known before the time of the network is: accept again once borcli producer info names it")
	}
	return d.Status(), err
}

// AnswerSession answers another producer's session, once it is on this node's disk: where this node is, and what it holds of
// the producer's signatures. It does not wait for the chain to execute. A session of this node's own producer is answered too,
// as far as it is not the one that runs here: the answer proves that a second instance lives. nil: there is nothing to say.
// The error wraps ErrInvalid if the session is not its producer's.
func (d *Driver) AnswerSession(ctx context.Context, s *block.SignedSession) (a *block.SessionAnswer, err error) {
	if err := s.Verify(d.verify.domain); err != nil {
		return nil, fmt.Errorf("%w: session %d: %w", ErrInvalid, s.Number, err)
	}
	var newest common.Hash
	e := d.doEarly(ctx, func(c *core) {
		if s.Producer == d.self {
			a = c.answerInstance(s)
			return
		}
		a, err = c.answerSession(s)
		if h, ok := c.machine.NewestBy(s.Producer); ok {
			newest = h.Hash
		}
	})
	if e != nil || err != nil || a == nil {
		return nil, errors.Join(e, err)
	}
	if newest != (common.Hash{}) {
		if h, err := d.deps.Store.Header(newest); err == nil { // else it left the tree meanwhile
			a.Header = h.Encode()
		}
	}
	if d.self != (common.Address{}) {
		a.From = d.self
		sig, err := d.signSeal(d.verify.domain.AnswerDigest(a))
		if err != nil {
			return nil, fmt.Errorf("sign an answer: %w", err)
		}
		a.Sig = sig[:]
	}
	return a, nil
}

// NewestSession is the highest number of an account's sessions that this node's log holds; 0: none. It does not wait for the chain to
// execute.
func (d *Driver) NewestSession(ctx context.Context, account common.Address) (newest uint64, err error) {
	err = d.doEarly(ctx, func(c *core) {
		for _, s := range c.marks.Sessions(account, block.Session{}) {
			newest = max(newest, s.Number)
		}
	})
	return newest, err
}

// answerSession makes the answer to another producer's session. There is none to one that is not kept: it would count at the asker as
// told by a node that remembers it.
func (c *core) answerSession(s *block.SignedSession) (*block.SessionAnswer, error) {
	if c.marks.AddSession(*s, c.machine.Sits) {
		if err := c.appendLog([][]byte{encodeMarkedSession(s)}); err != nil {
			c.fatal = errors.Join(c.fatal, err)
			return nil, err
		}
	} else if !c.marks.Has(s.Producer) {
		return nil, nil
	}
	lib := c.machine.LIB()
	a := &block.SessionAnswer{
		Asker: s.Producer, Session: s.Session, LIBHeight: lib.Height, LIB: lib.Point(), FC: c.machine.BestFC(), QC: c.machine.BestQC(),
		Sessions: c.marks.Sessions(s.Producer, s.Session),
	}
	for _, v := range c.marks.Votes(s.Producer) {
		told := block.ToldVote{Vote: v}
		if v.Kind == block.Precommit {
			told.QC = c.machine.QCOf(v.Target)
		}
		a.Votes = append(a.Votes, told)
	}
	return a, nil
}

// answerInstance answers a session of our own producer that does not run here.
func (c *core) answerInstance(s *block.SignedSession) *block.SessionAnswer {
	if c.session == nil || s.Session == c.session.Session {
		return nil
	}
	a := &block.SessionAnswer{Asker: s.Producer, Session: s.Session, Own: c.begun[0], Signs: c.hasSigned}
	if c.isRunning {
		_ = c.step(dpos.OwnSession{Session: s.Session})
	}
	return a
}

// HearAnswer takes an answer to this node's session. What it proves enters the vote log and silences the signer where the log
// lacks it; an answer that this node's own producer signed ends the instance that was started later. An error that wraps
// ErrInvalid says that the answer is not what its signer may say. Another one says that it cannot be judged yet: ask again.
func (d *Driver) HearAnswer(ctx context.Context, a *block.SessionAnswer) error {
	if d.self == (common.Address{}) || a.Asker != d.self {
		return nil
	}
	if err := d.VerifyAnswer(a); err != nil {
		return err
	}
	if !d.isReady() {
		return ErrNotReady
	}
	var current, second bool
	if err := d.do(ctx, true, func(c *core) {
		current = c.session != nil && c.session.Session == a.Session
		second = a.From == d.self && c.isSecond(a)
	}); err != nil {
		return err
	}
	if second {
		d.second.Do(func() { close(d.copied) })
	}
	if !current || a.From == d.self {
		return nil
	}
	ev, err := d.verifyAnswer(ctx, a)
	if err != nil {
		return err
	}
	err = d.do(ctx, false, func(c *core) {
		_ = c.step(ev) // it is never refused
	})
	for _, x := range []*block.Certificate{a.QC, a.FC} {
		if x != nil && err == nil {
			_ = d.addCertificate(ctx, x) // kept for the moment when its block comes
		}
	}
	return err
}

// VerifyAnswer checks the signature of an answer to another node's session, which is passed on. The error wraps ErrInvalid.
func (d *Driver) VerifyAnswer(a *block.SessionAnswer) error {
	if err := a.Verify(d.verify.domain); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return nil
}

// isSecond reports whether this instance is the one to end, of two that live: the one that has signed nothing, or the one
// that was started later. The other one answered a session that was begun here, so it lived after that.
func (c *core) isSecond(a *block.SessionAnswer) bool {
	if !slices.Contains(c.begun, a.Session) {
		return false
	}
	if a.Signs != c.hasSigned {
		return a.Signs
	}
	return a.Own.Less(c.begun[0])
}

// verifyAnswer verifies all that an answer says.
func (d *Driver) verifyAnswer(ctx context.Context, a *block.SessionAnswer) (ev dpos.Heard, err error) {
	ev = dpos.Heard{Producer: a.From, Session: a.Session, Height: a.LIBHeight}
	for i := range a.Sessions {
		s := &a.Sessions[i]
		if s.Producer != d.self {
			return ev, fmt.Errorf("%w: a session of %s was told as one of %s", ErrInvalid, s.Producer, d.self)
		}
		if err := s.Verify(d.verify.domain); err != nil {
			return ev, fmt.Errorf("%w: a session told: %w", ErrInvalid, err)
		}
		ev.Sessions = append(ev.Sessions, s.Session)
	}
	if len(a.Header) > 0 {
		h, err := block.DecodeSealedHeader(a.Header)
		if err != nil {
			return ev, fmt.Errorf("%w: a block told: %w", ErrInvalid, err)
		}
		if err := errors.Join(d.form(h), d.verify.seal(h, d.self)); err != nil {
			return ev, invalid(err)
		}
		ev.Sealed = h.Slot()
	}
	if ev.Told, err = d.verifyTold(ctx, a.Votes); err != nil {
		return ev, err
	}
	ev.Certified, ev.Justified, err = d.provenBy(ctx, a.FC, a.QC)
	return ev, err
}

// provenBy are the slots of the newest final and the newest justified block above our LIB that an answer's certificates
// prove; nil ones prove nothing. A certificate that no schedule known here explains proves nothing yet.
func (d *Driver) provenBy(ctx context.Context, fc, qc *block.Certificate) (final, justified uint64, err error) {
	for _, x := range []*block.Certificate{fc, qc} {
		if x == nil {
			continue
		}
		proven, above, err := d.provesNewer(ctx, x)
		switch {
		case err != nil:
			return 0, 0, err
		case proven && x.Kind == block.Precommit:
			final = max(final, x.Target.Slot)
		case proven:
			justified = max(justified, x.Target.Slot)
		case above && x == qc:
			return 0, 0, errUnexplained
		}
	}
	return final, justified, nil
}

var (
	errNoVoteKey   = errors.New("this account's vote key is in no schedule that this node knows yet")
	errUnexplained = errors.New("a certificate in an answer is of a schedule that this node does not know yet")
)

// provesNewer verifies a certificate for a block above our LIB, under the schedules that count for it or, while the block is not
// known, for children of the LIB.
func (d *Driver) provesNewer(ctx context.Context, x *block.Certificate) (proven, above bool, err error) {
	var schedules []block.Schedule
	if err := d.do(ctx, true, func(c *core) {
		if above = x.Target.Slot > c.machine.LIB().Slot; !above {
			return
		}
		var e error
		if schedules, e = c.machine.CertificateSchedules(x); errors.Is(e, dpos.ErrUnknownParent) {
			schedules = c.machine.ChildSchedules()
		}
	}); err != nil || !above {
		return false, above, err
	}
	return d.isQuorum(x, schedules), above, nil
}

// voteKeyed is a signer that tells its vote key.
type voteKeyed interface{ VoteKey() block.BLSKey }

// verifyTold verifies votes in this node's own name. Those that the log holds, or has forgotten in order, are left out: everybody has
// such votes, and each costs a pairing. A certificate that cannot be verified is left out, too.
func (d *Driver) verifyTold(ctx context.Context, votes []block.ToldVote) (told []block.ToldVote, err error) {
	var keys []block.BLSKey
	var doubtful []block.ToldVote
	if e := d.do(ctx, true, func(c *core) {
		keys = c.machine.VoteKeys(d.self)
		for i := range votes {
			v := &votes[i].Vote
			if _, cast := c.cast[v.Link]; !cast && !c.machine.Remembers(v.Link) || v.Voter != d.self {
				doubtful = append(doubtful, votes[i])
			}
		}
	}); e != nil {
		return nil, e
	}
	if s, ok := d.deps.Signer.(voteKeyed); ok {
		keys = append(keys, s.VoteKey())
	}
	for _, x := range doubtful {
		v := &x.Vote
		switch {
		case v.Voter != d.self:
			return nil, fmt.Errorf("%w: a vote of %s was told as one of %s", ErrInvalid, v.Voter, d.self)
		case len(keys) == 0:
			return nil, errNoVoteKey
		case d.findSigningKey(*v, keys) == nil:
			d.m.badVotes.Inc()
			return nil, fmt.Errorf("%w: a %s on slot %d was told as one of %s, which did not sign it", ErrInvalid, v.Kind, v.Target.Slot, d.self)
		}
		if x.QC != nil {
			proven := false
			if x.QC.Kind == block.Prevote && x.QC.Target == v.Target {
				if proven, _, err = d.provesNewer(ctx, x.QC); err != nil {
					return nil, err
				}
			}
			if !proven {
				x.QC = nil
			}
		}
		told = append(told, x)
	}
	return told, nil
}
