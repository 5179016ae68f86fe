package consensus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/internal/vfs"
)

// core is what the machine's goroutine owns. Nobody else touches it but through Driver.do.
type core struct {
	d        *Driver
	machine  *dpos.Machine
	log      *voteLog // an observer's holds marks of others alone
	marks    *dpos.Marks
	unsaved  [][]byte                // marks that the next write of the log takes along
	cast     map[block.Link]struct{} // links of the votes in the log
	executor *executor
	signer   *voteSigner

	work    backlog
	busy    bool // the executor has work
	repair  awaitedRepair
	jobs    []job
	signing bool // the crypto goroutine has a job

	importing   *importWork // the range whose Final the next Ready holds
	compactAt   int64       // size of the vote log at which it is rewritten
	drops       drops
	sigs        map[block.Link]block.BLSSignature // of our votes above LIB
	own         []block.Vote                      // the newest of them, for Status; nil: to be made anew
	wake        time.Duration                     // the machine's alarm, since genesis
	executed    Place                             // newest executed block that we know of
	stored      uint64                            // height of LIB in the store, as far as the chain has answered
	alarm       *time.Timer
	answers     []chan struct{} // calls that wait for the end of this turn
	safe        block.Point     // the justified block that the chain was told of
	resumed     bool            // a head was set since the start
	warned      bool            // stall was logged
	silent      string          // cause of silence that was logged last
	silentSince time.Time       // or signs since

	session      *block.SignedSession // that answers must name; nil: none
	begun        []block.Session      // by this process: the first one, and the newest
	hasSigned    bool                 // anything new, since then
	isRunning    bool                 // the chain executes
	lastTurn     time.Duration        // since genesis
	marksWritten uint64               // slot
	fatal        error                // met while a call ran

	time     timeReading // the newest that the machine was told
	unset    bool        // a signer's time is not set: its start has not begun
	timeSets int         // of the time that the machine knows
}

// openCore opens the vote log and restores the machine from it and the store.
func openCore(d *Driver) (_ *core, err error) {
	c := &core{d: d, executor: &executor{d, make(chan work), make(chan outcome, 1)}, drops: newDrops(), sigs: make(map[block.Link]block.BLSSignature)}
	c.signer = newVoteSigner(d)
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	mc := dpos.DefaultConfig(d.deps.Params, d.self)
	mc.Recoveries = d.deps.Recoveries
	held, err := c.openLog(&mc)
	if err != nil {
		return nil, err
	}
	root, err := d.root()
	if err != nil {
		return nil, err
	}
	if c.machine, err = dpos.New(mc, root); err != nil {
		return nil, fmt.Errorf("start consensus: %w", err)
	}
	if err := c.openDomain(held); err != nil { // not before the machine took the recoveries: a start without them must not forget marks
		return nil, err
	}
	if d.forks.halted.Load() {
		_ = c.machine.Step(dpos.Halt{})
	}
	c.followTime()
	c.time = d.time.readTime()
	lib := c.machine.LIB()
	c.executed, c.stored = Place{lib.Height, lib.Slot, lib.Hash}, lib.Height
	if err := c.restore(); err != nil {
		return c, err
	}
	c.marks.Bound(c.machine.Sits)
	return c, nil
}

// openLog opens the log of a signer, or that of an observer, and gives what it holds.
func (c *core) openLog(mc *dpos.Config) (*logContents, error) {
	d := c.d
	fs := d.cfg.FS
	if fs == nil {
		fs = vfs.OS(d.cfg.Dir, vfs.Private)
	}
	if d.deps.Signer == nil {
		return c.openMarks(fs)
	}
	isCopy, err := markedCopy(fs)
	if err != nil {
		return nil, err
	}
	newKey := d.cfg.NewKey && !isCopy
	l, payloads, st, err := openVoteLog(fs, d.cfg.Dir, voteLogName, d.self, d.deps.Genesis, lostMarker(), newKey, d.log)
	if err != nil {
		return nil, err
	}
	c.log = l
	if isCopy {
		if payloads, err = d.openLogOfCopy(fs, l, payloads, st); err != nil {
			return nil, err
		}
	}
	held, err := decodePayloads(payloads)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.path, err)
	}
	c.index(held.records)
	mc.Signed, mc.SilentUntilProven = held.records, held.lost
	mc.NeverSigned = st == logMissing && newKey
	switch {
	case st == logDamaged:
		d.log.Warn("the vote log was damaged; nothing is signed until the chain proves that this is safe", zap.String("file", l.path))
	case st == logMissing && !newKey && !isCopy:
		d.log.Warn("no vote log; nothing is signed until the chain proves that this is safe (a key never used before: new_key)", zap.String("file", l.path))
	}
	return &held, nil
}

// openMarks opens the log of an observer. It holds nothing that was signed here, so a missing one is as good.
func (c *core) openMarks(fs vfs.FS) (*logContents, error) {
	d := c.d
	l, payloads, _, err := openVoteLog(fs, d.cfg.Dir, marksLogName, d.self, d.deps.Genesis, nil, true, d.log)
	if err != nil {
		return nil, err
	}
	c.log = l
	held, err := decodePayloads(payloads)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.path, err)
	}
	c.cast = make(map[block.Link]struct{})
	return &held, nil
}

func (d *Driver) root() (*dpos.Root, error) {
	b := d.deps.Store.Root()
	if len(b) == 0 {
		return dpos.GenesisRoot(d.deps.Genesis, d.deps.Schedule), nil
	}
	r, err := dpos.DecodeRoot(b)
	if err != nil {
		return nil, fmt.Errorf("root of consensus in the store: %w", err)
	}
	return r, nil
}

// restore enters the reversible blocks and the certificates that the store kept. Their signatures were verified
// before they were stored.
func (c *core) restore() error {
	blocks, err := c.d.deps.Store.Reversible()
	if err != nil {
		return fmt.Errorf("read reversible blocks: %w", err)
	}
	for _, b := range blocks {
		if err := c.machine.Step(dpos.HeaderEvent{Header: dpos.HeaderOf(b.SealedHeader)}); err != nil {
			behindBase := len(c.d.deps.Recoveries) > 0 && errors.Is(err, dpos.ErrUnknownParent)
			if !errors.Is(err, dpos.ErrBelowLIB) && !errors.Is(err, dpos.ErrKnown) && !behindBase {
				c.d.log.Warn("stored block does not enter the tree", zap.Uint64("height", b.Number()), zap.Error(err))
			}
			c.drops.add(b.Hash())
		}
	}
	qc, fc := c.d.deps.Store.Certificates()
	for _, x := range []*block.Certificate{qc, fc} {
		if x == nil {
			continue
		}
		if err := c.machine.Step(dpos.CertificateEvent{Certificate: x}); err != nil {
			c.d.log.Debug("stored certificate is not needed", zap.Error(err))
		}
	}
	return nil
}

func (c *core) close() error {
	if c.log == nil {
		return nil
	}
	return c.log.close()
}

// loop is the machine's goroutine. Each turn: what came in, the machine's duties, the snapshot, the answers.
func (c *core) loop(ctx context.Context) error {
	c.alarm = time.NewTimer(0)
	defer c.alarm.Stop()
	c.d.time.beginWait()
	c.isRunning = true
	if c.d.deps.Signer != nil {
		if err := c.beginSession(c.machine.NewestSession() + 1); err != nil {
			return err
		}
	}
	for {
		if err := c.turn(); err != nil {
			return err
		}
		var toExec chan<- work
		var toCrypto chan<- job
		var next work
		if !c.busy && c.repair.retry == nil {
			var ok bool
			if next, ok = c.next(); ok {
				toExec = c.executor.in
			}
		}
		var signJob job
		if len(c.jobs) > 0 && !c.signing {
			toCrypto, signJob = c.signer.in, c.jobs[0]
		}
		select {
		case <-ctx.Done():
			return nil
		case <-c.d.copied:
			return c.secondCopy()
		case x := <-c.d.calls:
			c.drain(x)
		case <-c.alarm.C:
		case toExec <- next:
			c.handed(next)
		case toCrypto <- signJob:
			c.jobs = c.jobs[1:]
			c.signing = true
		case <-c.repair.retry:
			c.repair.tryAgain()
		case <-c.repair.repaired:
			c.repair.tryAgain()
		case o := <-c.executor.out:
			c.busy = false
			if err := c.done(ctx, o); err != nil {
				return err
			}
		case s := <-c.signer.out:
			c.signing = false
			if s.err != nil {
				return s.err
			}
			c.signed(s)
		}
	}
}

func (c *core) secondCopy() error {
	return fmt.Errorf("%w (%s), so this one ends before it signs: stop the other one first, or give this node keys of its own", ErrSecondCopy, c.d.self)
}

// turn ends one turn of the loop.
func (c *core) turn() error {
	c.tellTime()
	c.renewAfterGap(c.time.Wall)
	if err := errors.Join(c.duties(), c.writeMarks(), c.signSession(), c.fatal); err != nil {
		return err
	}
	c.rewind()
	c.publish()
	for _, a := range c.answers {
		close(a)
	}
	c.answers = c.answers[:0]
	return nil
}

// drain runs this call and those that wait behind it, so that their records share one sync.
func (c *core) drain(x *call) {
	c.tellTime() // what comes in is judged by the present time, not by that of the last turn
	for range queueCalls {
		x.fn(c)
		if x.read {
			close(x.done)
		} else {
			c.answers = append(c.answers, x.done)
		}
		select {
		case x = <-c.d.calls:
		default:
			return
		}
	}
}

// step feeds the machine. Errors are returned as the driver's own kinds.
func (c *core) step(ev dpos.Event) error { return translate(c.machine.Step(ev)) }

// translate maps the machine's errors to those of this package.
func translate(err error) error {
	for _, p := range [...]struct{ from, to error }{
		{dpos.ErrInvalid, ErrInvalid}, {dpos.ErrUnknownParent, ErrUnknownParent}, {dpos.ErrKnown, ErrKnown},
		{dpos.ErrFuture, ErrFuture}, {dpos.ErrFull, ErrFuture}, {dpos.ErrBelowLIB, ErrBelowLIB}, {dpos.ErrRecovered, ErrRecovered},
	} {
		if errors.Is(err, p.from) {
			return fmt.Errorf("%w: %w", p.to, err)
		}
	}
	return err
}

// duties does what the machine wants, in the order it wants it, until it wants no more.
func (c *core) duties() error {
	for {
		r, ok := c.machine.Ready()
		if !ok {
			return nil
		}
		if err := c.persist(r.Records); err != nil {
			return err
		}
		c.machine.Advance()
		c.hasSigned = c.hasSigned || len(r.Votes) > 0
		if err := c.queueVotes(r.Votes, false); err != nil {
			return err
		}
		if r.Session > 0 {
			if err := c.beginSession(r.Session); err != nil {
				return err
			}
		}
		if r.Produce != nil {
			c.hasSigned = true
			c.produce(r.Produce)
		}
		for i := range r.Tallies {
			c.queueTally(r.Tallies[i])
		}
		c.drops.add(r.Dropped...)
		if err := c.move(r.Head, r.Final); err != nil {
			return err
		}
		for _, e := range r.Evidence {
			c.evidence(e)
		}
		if err := c.queueVotes(r.Resend, true); err != nil {
			return err
		}
		c.wake = max(c.wake, r.Alarm)
	}
}
