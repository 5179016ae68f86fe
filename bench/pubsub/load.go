package pubsub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/bench/figures"
)

// producer and consumer are what a load needs of a client.
type producer interface {
	produce(ctx context.Context, value []byte, done func(error))
	flush(ctx context.Context) error
	close()
}

type consumer interface {
	poll(ctx context.Context) (records int, err error)
	close()
}

type kafkaClient struct{ c *kgo.Client }

func (k kafkaClient) produce(ctx context.Context, value []byte, done func(error)) {
	k.c.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) { done(err) })
}
func (k kafkaClient) flush(ctx context.Context) error { return k.c.Flush(ctx) }
func (k kafkaClient) close()                          { k.c.Close() }

func (k kafkaClient) poll(ctx context.Context) (int, error) {
	f := k.c.PollFetches(ctx)
	return f.NumRecords(), f.Err0()
}

// open gives a topic of its own with a producer, and what makes a consumer of it.
func (r *run) open(ctx context.Context, by through) (topic string, p producer, consume func() (consumer, error), err error) {
	switch by.client {
	case clientTrusting, clientLibrary, clientEncrypted:
		return r.openLibrary(ctx, by.client)
	}
	if topic, err = r.topic(ctx, partitions, by.replicas); err != nil {
		return "", nil, nil, err
	}
	need := kgo.AllISRAcks()
	if by.acks == "1" {
		need = kgo.LeaderAck()
	}
	c, err := connect(r.n, append(producing(), kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(need), kgo.DisableIdempotentWrite())...)
	if err != nil {
		return "", nil, nil, err
	}
	return topic, kafkaClient{c}, func() (consumer, error) {
		c, err := connect(r.n, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
		return kafkaClient{c}, err
	}, nil
}

// producing are the options of all loads.
func producing() []kgo.Opt {
	return []kgo.Opt{kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(maxWaiting)}
}

// load produces for a while as fast as it goes, waits until the network is calm, then fetches all of it three times.
func (r *run) load(ctx context.Context, size int, by through) error {
	topic, p, consume, err := r.open(ctx, by)
	if err != nil {
		return err
	}
	defer p.close()
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(rand.Uint32()) //nolint:gosec // load
	}
	idle := r.idle(ctx)
	profiled := r.profile(ctx, by, size, "produce")
	var acked atomic.Int64
	var failed atomic.Pointer[error]
	begun, before := time.Now(), r.used()
	for time.Since(begun) < time.Duration(r.o.Seconds)*time.Second && ctx.Err() == nil && failed.Load() == nil {
		p.produce(ctx, value, func(err error) {
			if err != nil {
				failed.Store(&err)
				return
			}
			acked.Add(1)
		})
	}
	wait, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if err := p.flush(wait); err != nil {
		return err
	}
	if p := failed.Load(); p != nil {
		return fmt.Errorf("produce to %s: %w", topic, *p)
	}
	seconds, client := time.Since(begun).Seconds(), r.used().client
	r.calm(ctx)
	records := float64(acked.Load())
	r.note(size, by, whatProduce, records/seconds)
	r.note(size, by, whatProduceCPU, micros(r.beside(idle, begun, before))/records)
	r.note(size, by, whatProduceClient, micros(client-before.client)/records)
	if err := profiled(); err != nil {
		return err
	}
	if err := r.fetch(wait, consume, size, by, acked.Load(), idle); err != nil {
		return fmt.Errorf("fetch %s: %w", topic, err)
	}
	return r.gone(ctx, topic)
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

// fetch reads all of a topic again and again.
func (r *run) fetch(ctx context.Context, consume func() (consumer, error), size int, by through, records int64, idle float64) error {
	profiled := r.profile(ctx, by, size, "fetch")
	begun, before := time.Now(), r.used()
	for range fetches {
		if err := readAll(ctx, consume, records); err != nil {
			return err
		}
	}
	seconds, client, all := time.Since(begun).Seconds(), r.used().client, float64(fetches*records)
	r.calm(ctx)
	r.note(size, by, whatFetch, all/seconds)
	r.note(size, by, whatFetchCPU, micros(r.beside(idle, begun, before))/all)
	r.note(size, by, whatFetchClient, micros(client-before.client)/all)
	return profiled()
}

// readAll reads so many records with a new client.
func readAll(ctx context.Context, consume func() (consumer, error), records int64) error {
	c, err := consume()
	if err != nil {
		return err
	}
	defer c.close()
	for got := int64(0); got < records; {
		n, err := c.poll(ctx)
		if err != nil {
			return fmt.Errorf("%d of %d records: %w", got, records, err)
		}
		got += int64(n)
	}
	return nil
}

// delay measures the time from producer to consumer at a fixed rate, acknowledged by all, and what the nodes use for both:
// at one rate all variants have the same batches to work on.
func (r *run) delay(ctx context.Context, rate int) error {
	topic, err := r.topic(ctx, partitions, brokers)
	if err != nil {
		return err
	}
	c, err := connect(r.n, kgo.DefaultProduceTopic(topic), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer c.Close()
	if err := warm(ctx, c); err != nil {
		return fmt.Errorf("topic %s: %w", topic, err)
	}
	idle := r.idle(ctx)
	total := rate * r.o.Seconds
	bounded, cancel := context.WithTimeout(ctx, time.Duration(r.o.Seconds)*time.Second+drainTime)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	profiled := r.profile(ctx, allLoad, rate, "a-second")
	begun, before := time.Now(), r.used()
	wg.Go(func() { produceAtRate(bounded, c, begun, rate, total) })
	late := make([]time.Duration, 0, total)
	for len(late) < total {
		f := c.PollFetches(bounded)
		if err := f.Err0(); err != nil {
			cancel()
			return fmt.Errorf("fetch %s, %d of %d records: %w", topic, len(late), total, err)
		}
		now := time.Since(begun)
		f.EachRecord(func(x *kgo.Record) { late = append(late, now-stamped(x.Value)) })
	}
	slices.Sort(late)
	r.calm(ctx)
	r.note(rate, through{}, whatRateCPU, micros(r.beside(idle, begun, before))/float64(total))
	r.note(rate, through{}, whatMedian, figures.Quantile(late, 0.5).Seconds()*1000)
	r.note(rate, through{}, whatTail, figures.Quantile(late, 0.99).Seconds()*1000)
	if err := profiled(); err != nil {
		return err
	}
	return r.gone(ctx, topic)
}

// warm has a client find its brokers and log in, and read what it wrote, before a measurement.
func warm(ctx context.Context, c *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	for range warmRecords {
		if err := c.ProduceSync(ctx, &kgo.Record{Value: make([]byte, delayBytes)}).FirstErr(); err != nil {
			return err
		}
	}
	for got := 0; got < warmRecords; {
		f := c.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			return err
		}
		got += f.NumRecords()
	}
	return nil
}

// logins measures the first answer to new clients, one after another: TLS, login, one request.
func (r *run) logins(ctx context.Context) error {
	for range logins {
		c, err := connect(r.n)
		if err != nil {
			return err
		}
		begun := time.Now()
		err = c.Ping(ctx)
		r.note(0, through{}, whatLogin, time.Since(begun).Seconds()*1000)
		c.Close()
		if err != nil {
			return fmt.Errorf("first request of a client: %w", err)
		}
	}
	return nil
}
