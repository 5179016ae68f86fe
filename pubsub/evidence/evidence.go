package evidence

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/proof"
)

// Evidence is a broker's evidence. All methods are safe for concurrent use.
type Evidence struct {
	cfg     Config
	deps    Deps
	log     *zap.Logger
	m       *metrics
	db      *database
	trees   *trees
	ops     *recorder
	out     *outbox
	signer  *signer
	watched *watcher

	mu     sync.Mutex
	alarms []Alarm
}

// Open opens the database of evidence and makes it ready for Run.
func Open(cfg Config, deps Deps) (*Evidence, error) {
	e, err := load(cfg, deps)
	return e, damageFault(deps.Dir, err)
}

// load opens the database and reads from it what is kept in memory.
func load(cfg Config, deps Deps) (*Evidence, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Now == nil {
		deps.Now = time.Now
	}
	db, err := openDatabase(deps.Dir, deps.Logger)
	if err != nil {
		return nil, err
	}
	if err := db.of(deps.Chain); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	e := &Evidence{cfg: cfg, deps: deps, log: deps.Logger, db: db, m: newMetrics(deps.Registry)}
	e.trees = newTrees(db, deps.Log, e.m)
	if e.ops, err = newRecorder(db, cfg.Window, deps.Now, e.m); err == nil {
		e.out, err = newOutbox(e)
	}
	if err == nil {
		e.watched, err = newWatcher(e)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	e.signer = newSigner(cfg.Receipt, deps, e.m)
	if e.off() {
		e.log.Warn("evidence is off: no leaves, receipts, checkpoints and operations; nothing that clients write now can be proved; this is for measuring alone, empty pubsub.evidence.off anywhere else")
		e.m.off.Set(1)
	}
	return e, nil
}

// off says that nothing is made, for measuring what it costs. Committed offsets still go to the ledger.
func (e *Evidence) off() bool { return e.cfg.Off != "" }

// Run works until ctx ends, and closes the database.
func (e *Evidence) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, e.db.disk.quit)()
	var wg sync.WaitGroup
	wg.Go(func() { e.out.run(ctx) })
	if !e.off() {
		wg.Go(func() { e.work(ctx) })
		wg.Go(func() { e.notary(ctx) })
		wg.Go(func() { e.ops.run(ctx) })
		wg.Go(func() { e.signer.run(ctx) })
		wg.Go(func() { e.watched.run(ctx) })
	}
	wg.Wait()
	return errors.Join(e.ops.close(), e.db.Close())
}

// Committed says that a partition has more committed batches. Quick; never blocks.
func (e *Evidence) Committed(id ID) {
	if !e.off() {
		e.trees.committed(id)
	}
}

// Read is the offset up to which a partition's log, which starts at an offset, is not needed here any more: what is above
// is in no tree yet. A tree that lacks what the log has lost already needs nothing of this log first.
func (e *Evidence) Read(id ID, start int64) int64 {
	if e.off() {
		return math.MaxInt64
	}
	t, err := e.trees.get(id)
	if err != nil { // it is made again, with what other brokers have
		return math.MaxInt64
	}
	e.trees.committed(id) // after a restart nobody told of what was committed before
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.next < start {
		return math.MaxInt64
	}
	return t.next
}

// Operated takes one operation on a topic, the zero topic for names that no topic has. It counts for or against its
// operator's reputation in a tenant, with the zero tenant in none. It never blocks and loses nothing but, by a crash, what
// Config.Window says.
func (e *Evidence) Operated(topic, tenant [32]byte, op proof.Operation) {
	if !e.off() {
		e.ops.add(topic, tenant, op)
	}
}

// Ready returns at once unless the operations recorded have reached the limit; then it waits until the chain took some.
// Brokers call it before an operation: this is where clients are slowed down.
func (e *Evidence) Ready(ctx context.Context) error { return e.ops.ready(ctx, maxHeld) }

// Spare is Ready at a lower limit for principals whom the ledger does not know: they cost nothing to make, and their
// refusals, which never fold into each other, must not use up the room of the others. stranger is asked beyond that limit.
func (e *Evidence) Spare(ctx context.Context, stranger func() bool) error {
	if e.ops.beyond(maxHeldStrangers) && stranger() {
		return e.ops.ready(ctx, maxHeldStrangers)
	}
	return nil
}

// Offset queues a group's committed offset for the ledger; a later one of the same partition replaces it. It reports false
// where too many wait.
func (e *Evidence) Offset(o Offset, offset int64) bool { return e.out.offset(o, offset) }

// Head is the head of a partition's tree here.
func (e *Evidence) Head(id ID) (proof.Head, error) { return e.trees.head(id) }

// Alarms are the newest alarms, oldest first.
func (e *Evidence) Alarms() []Alarm {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Alarm(nil), e.alarms...)
}

func (e *Evidence) alarm(a Alarm) {
	e.log.Error("the evidence of a topic does not agree: "+a.Text+"; compare the brokers' logs before you trust this topic",
		zap.Binary("topic", a.Topic[:8]), zap.Int32("partition", a.Partition), zap.Int64("offset", a.Offset), zap.Uint64("checkpoint", a.Seq))
	e.keep(a)
}

// keep counts an alarm and shows it to who asks.
func (e *Evidence) keep(a Alarm) {
	a.Time = e.deps.Now()
	e.m.alarms.Inc()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.alarms = append(e.alarms, a); len(e.alarms) > maxAlarms {
		e.alarms = append(e.alarms[:0], e.alarms[1:]...)
	}
}

// Signing is a receipt under way: it waits for it, receiptWait at most; nil: there is none to give.
type Signing func(ctx context.Context) []byte

// Sign begins a receipt: this broker's signed word that a batch has its place. The broker asks for it as soon as it gave
// the place, so that signature and disk work at the same time; the receipt must not leave before the batch is as safe as
// the client asked for. It never blocks.
func (e *Evidence) Sign(p proof.Placed) Signing {
	if e.cfg.Receipt == 0 || e.off() {
		return func(context.Context) []byte { return nil }
	}
	e.trees.hint(ID{p.Topic, p.Partition}, p.Leaf)
	done := e.signer.begin(p)
	return func(ctx context.Context) []byte {
		ctx, cancel := context.WithTimeout(ctx, receiptWait)
		defer cancel()
		return e.encode(e.signer.end(ctx, p, done))
	}
}

// Receipt is the receipt of a batch that has been in the log before: it reads what Sign is told.
func (e *Evidence) Receipt(ctx context.Context, id ID, base int64) []byte {
	if e.cfg.Receipt == 0 || e.off() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, receiptWait)
	defer cancel()
	l, err := e.trees.placed(ctx, id, base)
	if err != nil {
		return e.encode(nil, err)
	}
	p := proof.Placed{Topic: id.Topic, Partition: id.Partition, Leaf: l}
	return e.encode(e.signer.end(ctx, p, e.signer.begin(p)))
}

func (e *Evidence) encode(r *proof.Receipt, err error) []byte {
	if err != nil {
		e.m.receiptsMissed.Inc()
		return nil
	}
	return r.Encode()
}

// work adds committed batches to the trees: many at once, for what a write to the database costs, and the waking, does not
// grow with the batches in it.
func (e *Evidence) work(ctx context.Context) {
	synced := e.deps.Now()
	told := make(map[ID]time.Time) // trees that do not grow, and when that was logged
	retry := time.NewTimer(time.Hour)
	defer retry.Stop()
	gather := time.NewTimer(gatherLeaves)
	defer gather.Stop()
	for behind := false; ; {
		select {
		case <-ctx.Done():
			return
		case <-e.trees.kick:
		case <-retry.C:
		}
		if !behind { // else there is enough
			gather.Reset(gatherLeaves)
			select {
			case <-ctx.Done():
				return
			case <-gather.C:
			}
		}
		durable := e.deps.Now().Sub(synced) >= syncEvery
		if durable {
			synced = e.deps.Now()
		}
		var failed bool
		if behind, failed = e.grow(ctx, durable, told); failed {
			retry.Reset(retryLeast)
		}
	}
}

// grow adds what is committed of the partitions that told of it. behind: there is more; failed: some are to be tried again.
func (e *Evidence) grow(ctx context.Context, durable bool, told map[ID]time.Time) (behind, failed bool) {
	for _, id := range e.trees.takeDirty() {
		if ctx.Err() != nil {
			return behind, failed
		}
		more, err := e.trees.advance(id, durable)
		durable = false // one sync of the database is for all that was written before
		var gap *gapError
		if errors.As(err, &gap) {
			more, err = true, e.fill(ctx, id, gap)
		}
		switch {
		case err != nil:
			failed = true
			if now := e.deps.Now(); now.Sub(told[id]) >= tellAgain {
				told[id] = now
				e.log.Warn("the tree of a partition cannot grow; it is tried again", zap.Binary("topic", id.Topic[:8]), zap.Int32("partition", id.Partition), zap.Error(err))
			}
			e.trees.again(id)
			continue
		case more:
			behind = true
			e.trees.committed(id)
		}
		delete(told, id)
	}
	return behind, failed
}

// again marks a partition without waking the worker.
func (s *trees) again(id ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty[id] = struct{}{}
}

// placed is the leaf of the batch at an offset: of the tree if it is committed, else of the log.
func (s *trees) placed(ctx context.Context, id ID, base int64) (proof.Leaf, error) {
	t, err := s.get(id)
	if err != nil {
		return proof.Leaf{}, err
	}
	for {
		t.mu.Lock()
		for i := len(t.last) - 1; i >= 0; i-- {
			if t.last[i].Base == base {
				l := t.last[i]
				t.mu.Unlock()
				return l, nil
			}
		}
		size, next, grown := t.edge.Size(), t.next, t.grown
		t.mu.Unlock()
		if base < next {
			n, err := s.find(id, base, size)
			if err != nil {
				return proof.Leaf{}, err
			}
			l, err := s.leaf(id, n)
			if err == nil && l.Base != base {
				err = fmt.Errorf("no batch begins at offset %d of partition %d of topic %x", base, id.Partition, id.Topic[:8])
			}
			return l, err
		}
		if _, until, _ := s.log.Bounds(id); until <= base { // acknowledged by the leader alone
			return s.fromLog(id, base)
		}
		select {
		case <-ctx.Done():
			return proof.Leaf{}, ctx.Err()
		case <-grown:
		}
	}
}

// fromLog makes the leaf of the batch at an offset.
func (s *trees) fromLog(id ID, base int64) (l proof.Leaf, err error) {
	found := false
	err = s.log.Batches(id, base, base+1, func(h batch.Header, raw []byte) error {
		if h.BaseOffset == base {
			l, found = proof.LeafOf(&h, batch.Covered(raw)), true
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("no batch begins at offset %d of partition %d of topic %x", base, id.Partition, id.Topic[:8])
	}
	return l, err
}

func topicFields(topic [32]byte, err error) []zap.Field {
	return []zap.Field{zap.Binary("topic", topic[:8]), zap.Error(err)}
}
