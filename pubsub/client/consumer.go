package client

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/pubsub/gate"
)

// Where a consumer begins in a partition without a committed offset.
const (
	Earliest int64 = -2
	Latest   int64 = -1
)

// ConsumerConfig says what is consumed.
type ConsumerConfig struct {
	// Group makes the consumer a member of a group ("tenant.name"), which divides the partitions of Topics among its
	// members and remembers how far it is.
	Group string
	// Topics are consumed whole.
	Topics []string
	// Partitions are consumed from an offset, or Earliest or Latest, without a group.
	Partitions map[string]map[int32]int64
	// From is where Topics begin where nothing is committed: Earliest (also if 0) or Latest.
	From int64
	// Options are more of franz-go's; see Client.Producer.
	Options []kgo.Opt
}

// Consumer reads records, verified and decrypted. Records, Commit and Close may be called from different goroutines;
// Records by one at a time.
type Consumer struct {
	c      *Client
	group  bool
	engine *gate.Engine
	kafka  *kgo.Client
	once   sync.Once

	mu    sync.Mutex
	errs  []error                // not told yet
	fresh chan struct{}          // has a value when errs has
	why   map[partitionKey]error // what the engine found last

	member  membership
	commits chan struct{} // has a value while one is under way
}

// Consumer makes one.
func (c *Client) Consumer(cc ConsumerConfig) (*Consumer, error) {
	switch {
	case c.cfg.Account == nil:
		return nil, ErrNoAccount
	case len(cc.Topics) == 0 && len(cc.Partitions) == 0:
		return nil, errors.New("nothing to consume: give Topics or Partitions")
	case cc.Group != "" && len(cc.Partitions) > 0:
		return nil, errors.New("a group divides partitions itself: give Topics only")
	}
	from := kgo.NewOffset().AtStart()
	if cc.From == Latest {
		from = kgo.NewOffset().AtEnd()
	}
	opts := []kgo.Opt{kgo.ConsumeTopics(cc.Topics...), kgo.ConsumeResetOffset(from), kgo.ConsumeStartOffset(from)}
	if cc.Group != "" {
		opts = append(opts, kgo.ConsumerGroup(cc.Group), kgo.DisableAutoCommit())
	}
	if len(cc.Partitions) > 0 {
		parts := map[string]map[int32]kgo.Offset{}
		for topic, at := range cc.Partitions {
			parts[topic] = map[int32]kgo.Offset{}
			for p, offset := range at {
				parts[topic][p] = kgo.NewOffset().At(offset)
			}
		}
		opts = append(opts, kgo.ConsumePartitions(parts))
	}
	x := &Consumer{c: c, group: cc.Group != "", fresh: make(chan struct{}, 1), why: map[partitionKey]error{}}
	x.member.returned, x.commits = map[partitionKey]int64{}, make(chan struct{}, 1)
	opts = append(opts, kgo.WithHooks(sessions{x}))
	var err error
	if x.engine, err = c.engine(x.failed, nil, nil); err != nil {
		return nil, err
	}
	if x.kafka, err = c.kafka(x.engine, append(opts, cc.Options...)...); err != nil {
		x.engine.Close()
		return nil, err
	}
	if err := c.hold(x); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// failed keeps what the engine found, for the next call of Records.
func (x *Consumer) failed(topic string, partition int32, err error) {
	x.mu.Lock()
	if len(x.why) >= HeldErrors {
		clear(x.why)
	}
	x.why[partitionKey{topic, partition}] = err
	x.mu.Unlock()
	x.tell(err)
}

// tell has the next call of Records return err.
func (x *Consumer) tell(err error) {
	x.mu.Lock()
	if len(x.errs) < HeldErrors {
		x.errs = append(x.errs, err)
	}
	x.mu.Unlock()
	select {
	case x.fresh <- struct{}{}:
	default:
	}
}

func (x *Consumer) failure() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err := errors.Join(x.errs...)
	x.errs = nil
	return err
}

// Records waits for records and returns those there are, in order within each partition. Errors do not end the consumer:
// a *TamperError is told once (nothing more comes of that partition; other partitions go on with the next call; only what
// is Replayed is left out, and the partition goes on), a *DisputedError once for each broker and an *UnprovedError once until
// something is proved (records go on to come with Follow), a *NoKeyError and refusals of brokers as long as they last, the end
// of ctx. Brokers that cannot be reached and a group without a coordinator are waited for; when ctx ends then, the error says
// so (ErrUnreachable, ErrNotJoined). With Follow, records are returned before they are proved: ask Proved before acting on
// what cannot be undone, or use the mode Proved.
func (x *Consumer) Records(ctx context.Context) ([]*Record, error) {
	for {
		if err := x.failure(); err != nil {
			return nil, err
		}
		records, err := x.poll(ctx)
		if len(records) > 0 || err != nil {
			return records, err
		}
	}
}

// poll waits for records, or for something that went wrong.
func (x *Consumer) poll(ctx context.Context) ([]*Record, error) {
	pctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	go func() {
		select {
		case <-x.fresh:
			cancel()
		case <-done:
		}
	}()
	fetches := x.kafka.PollRecords(pctx, PollRecords)
	close(done)
	if fetches.IsClientClosed() {
		return nil, ErrClosed
	}
	records := fetches.Records()
	x.handOver(records)
	var refused []error
	for _, e := range fetches.Errors() {
		if !errors.Is(e.Err, context.Canceled) && !errors.Is(e.Err, context.DeadlineExceeded) && !rejoins(e.Err) {
			refused = append(refused, x.explain(e))
		}
	}
	switch {
	case len(records) > 0:
		for _, err := range refused { // told by the next call, after these records
			x.tell(err)
		}
		return records, nil
	case ctx.Err() != nil && len(refused) == 0:
		for _, why := range []error{x.apart(), x.engine.Unreachable()} {
			if why != nil {
				return nil, fmt.Errorf("%w (%w)", context.Cause(ctx), why)
			}
		}
		return nil, context.Cause(ctx)
	}
	if err := x.failure(); err != nil {
		return nil, err // the same, when it is new
	}
	return nil, errors.Join(refused...)
}

// explain puts the engine's reason in the place of a code.
func (x *Consumer) explain(e kgo.FetchError) error {
	x.mu.Lock()
	why := x.why[partitionKey{e.Topic, e.Partition}]
	x.mu.Unlock()
	if why == nil {
		x.mu.Lock()
		why = x.why[partitionKey{e.Topic, -1}]
		x.mu.Unlock()
	}
	if why != nil && errors.Is(e.Err, kerr.TopicAuthorizationFailed) {
		return why
	}
	if e.Partition < 0 {
		return fmt.Errorf("reading topic %s: %w", e.Topic, e.Err)
	}
	return fmt.Errorf("reading topic %s, partition %d: %w", e.Topic, e.Partition, e.Err)
}

// Proved is the offset up to which all that Records returned of a partition is bound by a checkpoint on the chain; 0 before
// the first one.
func (x *Consumer) Proved(ctx context.Context, topic string, partition int32) (int64, error) {
	t, err := x.c.chain.Topic(ctx, topic)
	if err != nil {
		return 0, err
	}
	return x.engine.Proved(t.ID, partition), nil
}

// Close leaves the group and ends the consumer. What was not committed comes again.
func (x *Consumer) Close() {
	x.once.Do(func() {
		x.c.drop(x)
		x.mu.Lock()
		x.member.closed = true
		x.mu.Unlock()
		x.kafka.Close()
		x.engine.Close()
	})
}
