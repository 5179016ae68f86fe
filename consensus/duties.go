package consensus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/failpoint"
)

// persist writes the records to the vote log and syncs it.
func (c *core) persist(records []dpos.SignRecord) error {
	if len(records) == 0 {
		return nil
	}
	if c.d.deps.Signer == nil {
		return errors.New("consensus: an observer was asked to sign") // a broken invariant of the machine
	}
	payloads := make([][]byte, len(records))
	for i, r := range records {
		payloads[i] = encodeRecord(r)
	}
	began := time.Now()
	if err := c.appendLog(payloads); err != nil {
		return err
	}
	c.d.m.logSync.Observe(time.Since(began).Seconds())
	for _, r := range records {
		c.cast[r.Link] = struct{}{}
	}
	return nil
}

func (c *core) index(records []dpos.SignRecord) {
	c.cast = make(map[block.Link]struct{}, len(records))
	for _, r := range records {
		if r.Recovery == c.d.verify.domain.Recovery { // what was signed in a domain that is over is never signed again
			c.cast[r.Link] = struct{}{} // the empty link of other records names no vote
		}
	}
}

// queueVotes hands our votes to be signed and sent. Whatever the machine says: what is not in the vote log is not
// signed.
func (c *core) queueVotes(votes []block.Vote, again bool) error {
	for i := range votes {
		if _, ok := c.cast[votes[i].Link]; !ok {
			return fmt.Errorf("consensus: asked to sign a %s on slot %d that is not in the vote log", votes[i].Kind, votes[i].Target.Slot)
		}
		if c.d.verify.domainAt(votes[i].Target.Slot) != c.d.verify.domain {
			return fmt.Errorf("consensus: asked to sign a %s on slot %d in a domain that a recovery has ended", votes[i].Kind, votes[i].Target.Slot)
		}
	}
	if len(votes) > 0 && !c.d.forks.halted.Load() && c.seatKey() == nil {
		c.jobs = append(c.jobs, job{sign: votes, again: again, keys: c.machine.VoteKeys(c.d.self)})
	}
	return nil
}

// seatKey is the vote key of this producer's seat if the signer holds another one: what it signs counts nowhere, and is a forgery for
// everybody. It is nil if the keys agree, for an account without a seat, and for a signer that does not tell its key.
func (c *core) seatKey() *block.BLSKey {
	s, ok := c.d.deps.Signer.(voteKeyed)
	if !ok {
		return nil
	}
	keys := c.machine.VoteKeys(c.d.self)
	if len(keys) == 0 || slices.Contains(keys, s.VoteKey()) {
		return nil
	}
	return &keys[0]
}

// queueTally hands a tally to be verified. Our own vote comes without a signature, and the signer will put it in; a
// vote in our name that is not in the vote log stays as it came.
func (c *core) queueTally(t dpos.Tally) {
	j := job{tally: &t, own: -1, withhold: c.seatKey() != nil}
	for i := range t.Votes {
		v := &t.Votes[i]
		if v.Voter == c.d.self && v.Signature == (block.BLSSignature{}) {
			if _, ok := c.cast[v.Link]; ok {
				j.own = i
			}
		}
	}
	c.jobs = append(c.jobs, j)
}

// compact rewrites a vote log that has grown, without what LIB made pointless.
func (c *core) compact() error {
	if c.log.size < max(c.d.compact, c.compactAt) {
		return nil
	}
	records := c.machine.Signed()
	c.index(records)
	payloads := make([][]byte, 0, len(records))
	for _, r := range records {
		payloads = append(payloads, encodeRecord(r))
	}
	if err := c.log.rewrite(append(payloads, c.markPayloads()...)); err != nil {
		return err
	}
	c.unsaved = nil              // among them
	c.compactAt = 2 * c.log.size // so that a long stall does not rewrite each time
	return nil
}

// produce queues our block. One that waits for the executor still is too late: its slot is given up.
func (c *core) produce(p *dpos.Produce) {
	if old := c.work.build; old != nil {
		c.d.m.missed.Inc()
		_ = c.step(dpos.Built{Slot: old.Slot})
	}
	c.work.build = p
	failpoint.Hit("consensus-produce")
}

// move queues a new head and a new LIB. A range that is being imported comes before the head: its blocks are in no
// store yet.
func (c *core) move(head common.Hash, f *dpos.Final) error {
	imp := c.importing
	if f != nil && imp != nil {
		c.importing = nil
		imp.fin = c.final(f)
		imp.blocks = imp.blocks[len(imp.blocks)-len(f.Hashes):] // LIB may have moved since the range was cut
		c.work.addImport(imp)
	}
	if head != (common.Hash{}) {
		c.work.addHead(head)
	}
	if j := c.machine.Justified(); j != c.safe {
		c.safe, c.work.safe = j, j.Hash
	}
	if f == nil {
		return nil
	}
	if imp == nil {
		c.work.addFinal(c.final(f))
	}
	return nil
}

// final takes over an update of LIB.
func (c *core) final(f *dpos.Final) finalWork {
	w := finalWork{
		update: block.FinalUpdate{Hashes: f.Hashes, QC: f.QC, FC: f.FC},
		root:   f.Root,
		lib:    Place{f.Height, f.Point.Slot, f.Point.Hash},
	}
	for l := range c.sigs {
		if l.Target.Slot <= f.Point.Slot {
			delete(c.sigs, l)
		}
	}
	c.own = nil
	c.marks.Trim(f.Point.Slot)
	if c.importing == nil && f.Point.Slot > 0 {
		c.d.m.finality.Observe(c.d.time.currentTime().Sub(c.d.deps.Params.SlotStart(f.Point.Slot)).Seconds())
	}
	return w
}

// enter puts the header of a stored block into the tree. One that does not enter is deleted again.
func (c *core) enter(h dpos.Header) error {
	err := c.step(dpos.HeaderEvent{Header: h})
	switch {
	case err == nil:
		c.d.m.entered.Inc()
	case !errors.Is(err, ErrKnown):
		c.drops.add(h.Hash)
	}
	return err
}

func (c *core) evidence(e dpos.Evidence) {
	c.d.m.evidence.Inc()
	c.d.log.Error("a producer broke a rule provably", zap.Uint8("rule", uint8(e.Kind)), zap.Stringer("producer", e.Guilty), zap.Uint64("slot", e.Slot))
	if c.d.deps.OnEvidence != nil {
		c.d.deps.OnEvidence(e)
	}
}

// rewind sets the timer for the machine's alarm. It is set anew each turn: a timer may fire before the clock shows the
// time it was set for, and the machine asks for each alarm once.
func (c *core) rewind() {
	wait := c.wake - c.d.sinceGenesis()
	if c.unset {
		wait = clockPoll // other clocks may become known, and the wait for them end, at any time
	}
	c.alarm.Reset(max(time.Millisecond, wait))
}

// done takes the executor's answer. An error here is one that the node cannot go on with.
func (c *core) done(ctx context.Context, o outcome) error {
	if o.err != nil && ctx.Err() != nil {
		return nil // the loop ends
	}
	if c.awaitRepair(o) {
		return nil
	}
	switch {
	case o.imp != nil:
		o.imp.done(o.err)
		if o.err != nil {
			return o.err
		}
		last := o.imp.blocks[len(o.imp.blocks)-1]
		_ = c.step(dpos.Executed{Hash: last.Hash()})
		c.executed = Place{last.Number(), last.Slot(), last.Hash()}
		if o.took > 0 {
			c.d.m.rangeRate.Set(float64(len(o.imp.blocks)) / o.took.Seconds())
		}
		return c.announce(o.imp.fin)
	case o.head != (common.Hash{}):
		if o.err != nil {
			return o.err
		}
		return c.headSet(o)
	case o.fin != nil:
		if o.err != nil {
			return o.err
		}
		return c.announce(*o.fin)
	case o.build != nil:
		return c.built(o)
	case len(o.drop) > 0:
		c.drops.done()
		return o.err
	}
	return nil
}

// announce tells subscribers of an update of LIB that the chain has made. The vote log is compacted when the machine's
// LIB is the durable one: after a crash the votes above that are needed.
func (c *core) announce(w finalWork) error {
	c.stored = w.lib.Height
	c.d.events.send(FinalEvent{LIB: w.lib, Blocks: len(w.update.Hashes), FC: w.update.FC})
	if w.lib.Hash != c.machine.LIB().Hash {
		return nil
	}
	return c.compact()
}

func (c *core) tellExecuted(blocks []common.Hash) {
	for _, h := range blocks {
		_ = c.step(dpos.Executed{Hash: h})
	}
}

// headSet tells the machine what was executed, and what turned out invalid.
func (c *core) headSet(o outcome) error {
	c.tellExecuted(o.result.Executed)
	bad := o.result.Failed
	if bad == (common.Hash{}) {
		if !c.resumed { // what was executed before a restart is in no result
			c.resumed = true
			branch, _ := c.machine.Branch(o.head) // empty if it left the tree meanwhile
			for _, h := range branch {
				_ = c.step(dpos.Executed{Hash: h})
			}
		}
		if h, ok := c.machine.Get(o.head); ok {
			c.executed = Place{h.Height, h.Slot, h.Hash}
		}
		return nil
	}
	c.d.m.failed.Inc()
	c.d.failed.Add(bad, struct{}{})
	c.d.log.Error("block failed execution; its branch is left", zap.Stringer("block", bad), zap.Error(o.result.Reason))
	if err := c.step(dpos.Failed{Hash: bad}); err != nil {
		return fmt.Errorf("this node and the producers' quorum disagree on block %s (%w): %w", bad, o.result.Reason, err)
	}
	return nil
}

// built enters our block, or gives up its slot.
func (c *core) built(o outcome) error {
	slot := o.build.Slot
	if o.err != nil {
		_ = c.step(dpos.Built{Slot: slot})
		c.d.m.missed.Inc()
		if errors.Is(o.err, errMissed) {
			c.d.log.Warn("missed own slot", zap.Uint64("slot", slot), zap.Error(o.err))
			return nil
		}
		return o.err
	}
	c.d.m.produced.Inc()
	_ = c.step(dpos.Built{Slot: slot, OK: true})
	if err := c.enter(dpos.HeaderOf(o.block.SealedHeader)); err != nil {
		c.d.log.Warn("own block came too late for the tree", zap.Uint64("slot", slot), zap.Error(err))
	}
	return nil
}

// signed takes the crypto goroutine's answer.
func (c *core) signed(s signature) {
	if s.tally != nil {
		c.tallied(s)
		return
	}
	c.own = nil
	for _, v := range s.votes {
		c.d.m.votes.WithLabelValues(v.Kind.String()).Inc()
		if v.Target.Slot > c.machine.LIB().Slot {
			c.sigs[v.Link] = v.Signature
		}
	}
}

func (c *core) tallied(s signature) {
	result := "certificate"
	if s.certificate == nil {
		result = "short"
	}
	c.d.m.tallies.WithLabelValues(result).Inc()
	var bad []common.Address
	for _, v := range s.bad {
		bad = append(bad, v.Voter)
	}
	c.d.reportBadVotes(s.bad)
	if s.withheld {
		bad = append(bad, c.d.self) // so that the votes of others are counted without it
	}
	if err := c.step(dpos.Tallied{ID: s.tally.ID, Certificate: s.certificate, Bad: bad}); err != nil {
		c.d.log.Debug("tally came too late", zap.Error(err))
	}
}

// ownVotes are our newest signed votes.
func (c *core) ownVotes() []block.Vote {
	if c.own == nil {
		c.own = []block.Vote{}
		for _, v := range c.machine.OwnVotes(maxStatusVotes) {
			if sig, ok := c.sigs[v.Link]; ok {
				v.Signature = sig
				c.own = append(c.own, v)
			}
		}
	}
	return c.own
}

// publish makes the snapshot that Status shows.
func (c *core) publish() {
	d := c.d
	head, lib := c.machine.Head(), c.machine.LIB()
	s := &Status{
		Head: Place{head.Height, head.Slot, head.Hash}, LIB: Place{lib.Height, lib.Slot, lib.Hash},
		Executed:  c.executed,
		Justified: c.machine.Justified(), QC: c.machine.BestQC(), FC: c.machine.BestFC(),
		OwnVotes: c.ownVotes(),
		Started:  d.start, Silent: c.machine.Silent(),
		Seats: c.machine.Seats(), Schedules: c.machine.ChildSchedules(),
		Session: c.session, Asks: c.session != nil && c.machine.Asks(), Recovery: d.verify.domain.Recovery,
	}
	cause := ""
	if s.Silent {
		s.Waiting = c.machine.Waiting()
		cause, s.Why = d.silence(&s.Waiting)
	}
	if wait := c.machine.TimeWait(); cause != "floor" {
		if x, why := d.timeSilence(wait, &c.time); x != "" && (cause == "" || wait.FewClocks) {
			cause, s.Why, s.Silent = x, why, true
		}
	}
	if seat := c.seatKey(); seat != nil {
		cause, s.Silent = "key", true
		s.Why = fmt.Sprintf("its seat has the vote key %#x, and the producer's file holds another one, whose votes count nowhere: put back the file with that key, and restart", seat[:])
	}
	if c.d.self != (common.Address{}) && d.forks.halted.Load() {
		cause, s.Silent = "fork", true
		s.Why = "two histories of this chain are final, and it signs nothing before the operators have agreed on one (docs/operations.md, Fork)"
	}
	s.Cause = cause
	s.Time, s.FewClocks = time.Unix(0, int64(c.time.Now)), !c.time.Clocks.Enough
	s.Slot, _ = d.deps.Params.SlotAt(s.Time)
	c.tellSilence(cause, s.Why)
	s.Since = c.silentSince
	s.Stalled = head.Height >= lib.Height+d.deps.Params.MaxReversible
	if s.Stalled != c.warned {
		c.warned = s.Stalled
		if s.Stalled {
			d.log.Error("nothing becomes final: production is slowed until enough producers vote again", zap.Uint64("height", head.Height), zap.Uint64("lib", lib.Height))
		} else {
			d.log.Info("blocks become final again", zap.Uint64("lib", lib.Height))
		}
	}
	c.followTime()
	d.status.Store(s)
	d.m.headHeight.Set(float64(s.Head.Height))
	d.m.libHeight.Set(float64(s.LIB.Height))
	d.m.reversible.Set(float64(s.Head.Height) - float64(s.LIB.Height))
	d.m.justifiedSlot.Set(float64(s.Justified.Slot))
	d.m.silent.Set(flag(s.Silent))
	d.m.unheard.Set(float64(s.Waiting.Answers))
	d.m.stalled.Set(flag(s.Stalled))
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
