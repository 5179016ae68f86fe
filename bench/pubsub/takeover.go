package pubsub

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	takeoverTime = time.Minute     // for the next acknowledgement
	recoverTime  = 2 * time.Minute // for the killed broker to be in sync again
	steadyTime   = 5 * time.Second // for which a leader has led before it is killed
	steadyLooks  = 10
	sendEvery    = 5 * time.Millisecond   // the resolution
	attemptTime  = 250 * time.Millisecond // of the client's requests, so that it notices a dead broker soon
)

// takeovers kills the leader of a partition again and again: from the kill to the first acknowledgement (acks all) of a
// record that was sent after it.
func (r *run) takeovers(ctx context.Context) error {
	if r.o.Takeovers == 0 {
		return nil
	}
	topic, err := r.topic(ctx, 1, brokers)
	if err != nil {
		return err
	}
	c, err := connect(r.n, kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0), kgo.RetryBackoffFn(func(int) time.Duration { return attemptTime }))
	if err != nil {
		return err
	}
	defer c.Close()
	for i := range r.o.Takeovers {
		r.o.Progress(fmt.Sprintf("take-over %d of %d", i+1, r.o.Takeovers))
		leader, err := r.steadyLeader(ctx, topic)
		if err != nil {
			return err
		}
		if err := c.ProduceSync(ctx, &kgo.Record{Value: []byte("before")}).FirstErr(); err != nil {
			return err
		}
		took, err := r.takeover(ctx, c, leader)
		if err != nil {
			return err
		}
		r.note(0, through{}, whatTakeover, took.Seconds())
		if err := r.n.Restart(ctx, leader); err != nil {
			return err
		}
		if err := r.inSync(ctx, topic); err != nil {
			return err
		}
	}
	return r.gone(ctx, topic)
}

func (r *run) takeover(ctx context.Context, c *kgo.Client, leader int) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, takeoverTime)
	defer cancel()
	begun := time.Now()
	if err := r.n.Kill(ctx, leader); err != nil {
		return 0, err
	}
	acked := make(chan error, 1)
	tick := time.NewTicker(sendEvery)
	defer tick.Stop()
	for {
		c.TryProduce(ctx, &kgo.Record{Value: []byte("after")}, func(_ *kgo.Record, err error) {
			select {
			case acked <- err:
			default:
			}
		})
		select {
		case err := <-acked:
			took := time.Since(begun)
			return took, errors.Join(err, c.Flush(ctx))
		case <-tick.C:
		}
	}
}

// steadyLeader is the node that leads once that has not changed for a while: brokers that come back take over what they
// led before, and who is killed must be the leader.
func (r *run) steadyLeader(ctx context.Context, topic string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, recoverTime)
	defer cancel()
	pause := time.NewTicker(steadyTime / steadyLooks)
	defer pause.Stop()
	for last, same := -1, 0; ; {
		node, err := r.leader(ctx, topic)
		if err != nil {
			return node, err
		}
		if same++; node != last {
			last, same = node, 0
		}
		if same >= steadyLooks {
			return node, nil
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return node, fmt.Errorf("%s has no steady leader: %w", topic, ctx.Err())
		}
	}
}

// leader is the node that leads the topic's one partition.
func (r *run) leader(ctx context.Context, topic string) (node int, err error) {
	node = -1
	err = r.admin(ctx, func(ctx context.Context, admin *kadm.Client) error {
		m, err := admin.Metadata(ctx, topic)
		if err != nil {
			return err
		}
		number := m.Topics[topic].Partitions[0].Leader
		for _, b := range m.Brokers {
			for i, x := range r.n.Nodes {
				if b.NodeID == number && x.Broker == net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))) {
					node = i
				}
			}
		}
		if node < 0 {
			return fmt.Errorf("broker %d leads %s and is none of this network's", number, topic)
		}
		return nil
	})
	return node, err
}

// inSync waits until all replicas are there again.
func (r *run) inSync(ctx context.Context, topic string) error {
	ctx, cancel := context.WithTimeout(ctx, recoverTime)
	defer cancel()
	c, err := connect(r.n)
	if err != nil {
		return err
	}
	defer c.Close()
	admin := kadm.NewClient(c)
	return again(ctx, func() error {
		m, err := admin.Metadata(ctx, topic)
		if err != nil {
			return err
		}
		if n := len(m.Topics[topic].Partitions[0].ISR); n != brokers {
			return fmt.Errorf("%d of %d replicas of %s are in sync", n, brokers, topic)
		}
		return nil
	})
}
