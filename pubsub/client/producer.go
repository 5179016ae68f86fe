package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/pubsub/gate"
)

// Record is what is produced and consumed: franz-go's.
type Record = kgo.Record

// Sent is a record's place.
type Sent struct {
	Partition int32
	Offset    int64
	Receipt   *Receipt // of the record's batch; nil: the broker gave none, or it was dropped to bound memory
}

// Producer sends records. It is idempotent: what is acknowledged is in the topic once. It is safe for concurrent use.
type Producer struct {
	c      *Client
	engine *gate.Engine
	kafka  *kgo.Client
	once   sync.Once

	mu       sync.Mutex
	receipts map[partitionKey][]*Receipt // the newest of each partition, oldest first
	failures map[partitionKey]error      // newest of the engine
}

type partitionKey struct {
	topic     string
	partition int32
}

// Producer makes one. Options are franz-go's, applied after this package's own: compression, lingering, partitioner,
// bounds on what is buffered. Options about brokers, connections and login would go around the engine: do not give them.
func (c *Client) Producer(opts ...kgo.Opt) (*Producer, error) {
	if c.cfg.Account == nil {
		return nil, ErrNoAccount
	}
	p := &Producer{c: c, receipts: map[partitionKey][]*Receipt{}, failures: map[partitionKey]error{}}
	var err error
	if p.engine, err = c.engine(p.failed, p.observe, nil); err != nil {
		return nil, err
	}
	if p.kafka, err = c.kafka(p.engine, opts...); err != nil {
		p.engine.Close()
		return nil, err
	}
	if err := c.hold(p); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// kafka is a Kafka client whose connections all go through the engine.
func (c *Client) kafka(e *gate.Engine, opts ...kgo.Opt) (*kgo.Client, error) {
	own := []kgo.Opt{kgo.ClientID("bornode"), kgo.DisableClientMetrics(), kgo.RequiredAcks(kgo.AllISRAcks())}
	if c.cfg.Account != nil { // the engine logs in: a connection that ends at once is a dying broker's, not want of a login
		own = append(own, kgo.AlwaysRetryEOF())
	}
	through := []kgo.Opt{kgo.SeedBrokers(c.cfg.Brokers...), kgo.Dialer(e.Dial)} // last: nothing may go around
	k, err := kgo.NewClient(append(append(own, opts...), through...)...)
	if err != nil {
		return nil, fmt.Errorf("making a Kafka client: %w", err)
	}
	return k, nil
}

func (p *Producer) failed(topic string, partition int32, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.failures) >= HeldErrors {
		clear(p.failures)
	}
	p.failures[partitionKey{topic, partition}] = err
}

func (p *Producer) observe(r receipt) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := partitionKey{r.topic, r.receipt.Placed.Partition}
	if _, ok := p.receipts[at]; !ok && len(p.receipts) >= ReceiptPartitions {
		clear(p.receipts)
	}
	list := append(p.receipts[at], r.receipt)
	if len(list) > KeptReceipts {
		list = append(list[:0], list[len(list)-KeptReceipts/2:]...)
	}
	p.receipts[at] = list
}

// receipt is that of the batch with a record. The records of a batch are told soon after its receipt came.
func (p *Producer) receipt(r *Record) *Receipt {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.receipts[partitionKey{r.Topic, r.Partition}]
	for i := len(list) - 1; i >= 0; i-- {
		if l := &list[i].Placed.Leaf; l.Base <= r.Offset && r.Offset < l.Next() {
			return list[i]
		}
	}
	return nil
}

// explain puts the engine's reason before Kafka's code.
func (p *Producer) explain(r *Record, err error) error {
	p.mu.Lock()
	why, login := p.failures[partitionKey{r.Topic, r.Partition}], p.failures[partitionKey{"", -1}]
	if why == nil {
		why = p.failures[partitionKey{r.Topic, -1}]
	}
	p.mu.Unlock()
	if login != nil && !errors.Is(err, gate.ErrLogin) {
		err = fmt.Errorf("%w (%w)", err, login)
	} else if cut := p.engine.Unreachable(); cut != nil {
		err = fmt.Errorf("%w (%w)", err, cut)
	}
	if why != nil && (errors.Is(err, kerr.TopicAuthorizationFailed) || errors.Is(err, kerr.UnknownServerError)) {
		return fmt.Errorf("producing to topic %s: %w: %w", r.Topic, why, err)
	}
	return fmt.Errorf("producing to topic %s: %w", r.Topic, err)
}

// Send sends a record and waits until a quorum of the topic's replicas has it durable. When ctx ends first, the record may
// or may not get there, and its bytes stay in use until the producer is closed.
func (p *Producer) Send(ctx context.Context, r *Record) (Sent, error) {
	type result struct {
		sent Sent
		err  error
	}
	done := make(chan result, 1)
	own := *r // franz-go keeps what it has sent once, also when ctx has ended
	p.SendAsync(ctx, &own, func(s Sent, err error) { done <- result{s, err} })
	var x result
	select {
	case x = <-done:
	case <-ctx.Done():
		select {
		case x = <-done: // it knew more
		case <-time.After(GiveUpTime):
			return Sent{}, p.explain(r, context.Cause(ctx))
		}
	}
	*r = own
	return x.sent, x.err
}

// SendAsync buffers a record and returns; it waits only while the buffer is full. done is called once, in the order of the
// records of a partition; it must not block. When ctx ends, a record that was never sent fails; one that was waits for its
// answer or Close.
func (p *Producer) SendAsync(ctx context.Context, r *Record, done func(Sent, error)) {
	p.kafka.Produce(ctx, r, func(r *kgo.Record, err error) {
		if err != nil {
			done(Sent{}, p.explain(r, err))
			return
		}
		done(Sent{Partition: r.Partition, Offset: r.Offset, Receipt: p.receipt(r)}, nil)
	})
}

// Flush waits until everything buffered has its result.
func (p *Producer) Flush(ctx context.Context) error { return p.kafka.Flush(ctx) }

// Close ends the producer; what is still buffered fails. Flush before.
func (p *Producer) Close() {
	p.once.Do(func() {
		p.c.drop(p)
		p.kafka.Close()
		p.engine.Close()
	})
}
