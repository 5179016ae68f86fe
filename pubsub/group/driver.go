package group

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/batch"
)

// Log is the topic TopicName on the partitions that this broker leads.
type Log interface {
	// Append puts one record batch at the end of the partition; Wait returns when a majority of its replicas has it.
	// Batches have the order of the calls.
	Append(ctx context.Context, partition int32, raw []byte) (Pending, error)
	// Replay calls f with all committed batches, in order. It is called after the partition became ours: what an earlier
	// leader acknowledged must be among them.
	Replay(ctx context.Context, partition int32, f func(raw []byte) error) error
	// Trim says that the partition is not needed before that offset.
	Trim(ctx context.Context, partition int32, before int64) error
}

// Pending is an append under way.
type Pending interface {
	Wait(ctx context.Context) (base, appendTime int64, err error)
}

// Deps are what a Coordinator works with.
type Deps struct {
	Log Log
	// Check tells whether the client may do that to the group or topic (numbers of package acl); nil: it may. The error
	// is given to the client as it is.
	Check func(c Client, operation, resource uint8, name string) *kerr.Error
	// Sees tells whether a group or topic is listed for a client that did not name it; nil: what Check says of describing
	// it. It is no refusal if it is not.
	Sees func(c Client, resource uint8, name string) bool
	// Born tells at which height the topic of that name was made, 0: unknown, and whether there is one; nil: there is. A
	// topic may be deleted while nobody leads a partition, and another one get its name, so it is asked for every topic
	// that the log has offsets of.
	Born     func(topic string) (height int64, ok bool)
	Logger   *zap.Logger
	Registry prometheus.Registerer // nil: no metrics
}

// Coordinator serves the groups of the partitions this broker leads. Its methods may be called from any goroutine.
type Coordinator struct {
	cfg  Config
	deps Deps
	m    *metrics
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	shards [Partitions]*shard
	closed bool
}

// New makes a coordinator that leads nothing yet. Close ends it.
func New(cfg Config, deps Deps) *Coordinator {
	ctx, stop := context.WithCancel(context.Background())
	c := &Coordinator{cfg: cfg, deps: deps, m: newMetrics(deps.Registry), ctx: ctx, stop: stop}
	if deps.Registry != nil {
		deps.Registry.MustRegister(newGauges(c))
	}
	return c
}

// Lead takes the partition's groups over, in the background. Until its log is read its requests are answered
// COORDINATOR_LOAD_IN_PROGRESS. A partition led with an older epoch is read anew.
func (c *Coordinator) Lead(partition, epoch int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if partition < 0 || partition >= Partitions || c.closed {
		return
	}
	if old := c.shards[partition]; old != nil {
		if old.epoch >= epoch {
			return
		}
		old.cancel()
	}
	ctx, cancel := context.WithCancel(c.ctx)
	s := &shard{
		c: c, partition: partition, epoch: epoch, ctx: ctx, cancel: cancel, calls: make(chan call, inbox),
		ready: make(chan struct{}), done: make(chan struct{}), results: make(chan []Appended, 1), open: map[uint64]call{},
	}
	c.shards[partition] = s
	c.wg.Go(s.run)
}

// Resign gives the partition's groups up. Unanswered requests are answered NOT_COORDINATOR.
func (c *Coordinator) Resign(partition int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if partition < 0 || partition >= Partitions || c.shards[partition] == nil {
		return
	}
	c.shards[partition].cancel()
	c.shards[partition] = nil
}

// Close gives everything up and waits for its goroutines.
func (c *Coordinator) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.stop()
	c.wg.Wait()
}

func (c *Coordinator) shard(partition int32) *shard {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.shards[partition]
}

// led are the shards of this broker.
func (c *Coordinator) led() (l []*shard) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.shards {
		if s != nil {
			l = append(l, s)
		}
	}
	return l
}

// TopicGone takes away the offsets of a topic that was deleted. It waits for partitions that are being read.
func (c *Coordinator) TopicGone(ctx context.Context, topic string) {
	for _, s := range c.led() {
		select {
		case <-s.ready:
		case <-s.done:
		case <-ctx.Done():
		}
		s.put(ctx, call{ev: TopicGone{Topic: topic}})
	}
}

// Changes hands out at most n offsets that changed since they were handed out last, each once: for the ledger.
func (c *Coordinator) Changes(ctx context.Context, n int) []Change {
	var out []Change
	for _, s := range c.led() {
		if len(out) >= n {
			break
		}
		answer := make(chan []Change, 1)
		if !s.put(ctx, call{changes: n - len(out), changed: answer}) {
			continue
		}
		select {
		case l := <-answer:
			out = append(out, l...)
		case <-s.done:
		case <-ctx.Done():
		}
	}
	return out
}

// shard is one partition's machine. Its goroutine owns all that is below open.
type shard struct {
	c         *Coordinator
	partition int32
	epoch     int32
	ctx       context.Context
	cancel    context.CancelFunc
	calls     chan call
	ready     chan struct{} // closed when the log is read
	done      chan struct{} // closed when the goroutine ended
	results   chan []Appended

	m      *Machine
	open   map[uint64]call
	tokens uint64
	queue  []Append
	trim   int64
	busy   bool  // an append or a trim is under way
	told   Tally // to the metrics
}

// call is one thing asked of a shard.
type call struct {
	ev      Event
	client  Client
	req     kmsg.Request
	reply   chan kmsg.Response // one place
	changes int
	changed chan []Change // one place
	counted chan Counts   // one place
}

// put hands the call in; false: the shard ended, is not ready or ctx ended.
func (s *shard) put(ctx context.Context, k call) bool {
	select {
	case <-s.ready:
	default:
		return false
	}
	select {
	case s.calls <- k:
		return true
	case <-s.ctx.Done():
		return false
	case <-ctx.Done():
		return false
	}
}

func (s *shard) run() {
	defer close(s.done)
	defer s.cancel()
	if !s.load() {
		return
	}
	for _, topic := range s.m.Topics() {
		if s.c.deps.Born == nil {
			break
		}
		if born, ok := s.c.deps.Born(topic); !ok {
			s.step(TopicGone{Topic: topic})
		} else if born > 0 {
			s.step(TopicGone{Topic: topic, Before: born})
		}
	}
	s.write()
	close(s.ready)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			for _, k := range s.open {
				k.reply <- Refuse(k.req, kerr.NotCoordinator)
			}
			return
		case k := <-s.calls:
			s.take(k)
		case l := <-s.results:
			s.busy = false
			for _, a := range l {
				s.step(a)
			}
		case <-timer.C:
			s.step(nil)
		}
		s.write()
		s.c.m.told(s.m.Tally(), &s.told)
		if next := s.m.Next(); !next.IsZero() {
			timer.Reset(max(time.Until(next), time.Millisecond))
		}
	}
}

// load reads the log, again and again until it works. false: the partition is given up.
func (s *shard) load() bool {
	began := time.Now()
	for {
		m := NewMachine(s.c.cfg, func() string { return rand.Text() })
		if f := s.c.deps.Born; f != nil {
			m.born = func(topic string) int64 { born, _ := f(topic); return born }
		}
		records, unknown := 0, 0
		err := s.c.deps.Log.Replay(s.ctx, s.partition, func(raw []byte) error {
			return eachRecord(raw, func(offset int64, r Record) error {
				err := m.Replay(time.Now(), offset, r)
				records++
				if errors.Is(err, ErrRecord) { // one bad record must not take the groups of a whole partition away
					unknown++
					return nil
				}
				return err
			})
		})
		if s.ctx.Err() != nil {
			return false
		}
		if err == nil {
			m.Loaded(time.Now())
			s.m, s.told = m, m.Tally()
			s.c.m.takenOver.Inc()
			s.c.m.load.Observe(time.Since(began).Seconds())
			s.c.deps.Logger.Info("consumer groups taken over", zap.Int32("partition", s.partition), zap.Int32("epoch", s.epoch),
				zap.Int("records", records), zap.Int("unreadable", unknown), zap.Int("groups", len(m.groups)))
			return true
		}
		s.c.deps.Logger.Error("the log of consumer groups cannot be read; trying again", zap.Int32("partition", s.partition), zap.Error(err))
		select {
		case <-time.After(retryLoad):
		case <-s.ctx.Done():
			return false
		}
	}
}

func (s *shard) take(k call) {
	switch {
	case k.changed != nil:
		k.changed <- s.m.Changes(k.changes)
	case k.counted != nil:
		k.counted <- s.m.Counts()
	case k.req != nil:
		s.tokens++
		s.open[s.tokens] = k
		s.step(Request{s.tokens, k.client, k.req})
	default:
		s.step(k.ev)
	}
}

// step passes an event to the machine and does what it wants.
func (s *shard) step(ev Event) {
	for _, e := range s.m.Step(time.Now(), ev) {
		switch e := e.(type) {
		case Answer:
			k := s.open[e.Token]
			delete(s.open, e.Token)
			k.reply <- e.Resp
		case Append:
			s.queue = append(s.queue, e)
		case Trim:
			s.trim = e.Before
		}
	}
}

// write puts what is queued into one batch, while no other is under way: the slower the log, the larger the batches.
func (s *shard) write() {
	if s.busy || len(s.queue) == 0 && s.trim == 0 {
		return
	}
	var records []Record
	var l []Appended
	for bytes := 0; len(s.queue) > 0 && bytes < maxAppendBytes && len(records) < batch.MaxRecords/2; s.queue = s.queue[1:] {
		a := s.queue[0]
		size := 0
		for _, r := range a.Records {
			size += len(r.Key) + len(r.Value)
		}
		if bytes += size; len(l) > 0 && bytes > maxAppendBytes {
			break
		}
		l = append(l, Appended{ID: a.ID, Base: int64(len(records))})
		records = append(records, a.Records...)
	}
	trim := s.trim
	s.trim, s.busy = 0, true
	s.c.wg.Go(func() {
		if trim > 0 {
			if err := s.c.deps.Log.Trim(s.ctx, s.partition, trim); err != nil && s.ctx.Err() == nil {
				s.c.deps.Logger.Warn("the log of consumer groups was not cut; it is tried again with the next copy", zap.Int32("partition", s.partition), zap.Error(err))
			}
		}
		base, err := s.append(records)
		for i := range l {
			l[i].Base, l[i].Err = l[i].Base+base, err
		}
		s.results <- l // one place, one writer at a time
	})
}

func (s *shard) append(records []Record) (int64, *kerr.Error) {
	if len(records) == 0 {
		return 0, nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, s.c.cfg.AppendWait)
	defer cancel()
	p, err := s.c.deps.Log.Append(ctx, s.partition, encodeBatch(records, time.Now()))
	var base int64
	if err == nil {
		base, _, err = p.Wait(ctx)
	}
	if err == nil {
		return base, nil
	}
	s.c.m.appendErrors.Inc()
	s.c.deps.Logger.Warn("records of consumer groups were not acknowledged", zap.Int32("partition", s.partition), zap.Int("records", len(records)), zap.Error(err))
	return 0, clientError(err)
}

// clientError is what a client is told about a failed append.
func clientError(err error) *kerr.Error {
	var k *kerr.Error
	errors.As(err, &k)
	switch k {
	case kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.NotCoordinator, kerr.UnknownTopicOrPartition:
		return kerr.NotCoordinator
	case kerr.MessageTooLarge, kerr.RecordListTooLarge:
		return kerr.InvalidCommitOffsetSize
	}
	return kerr.CoordinatorNotAvailable // the client tries again
}
