package pubsub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/testnet"
)

const (
	brokers      = 3
	partitions   = 6
	logins       = 20              // of new clients, one after another
	maxWaiting   = 20_000          // records that a producer has not had an answer for
	readyTime    = time.Minute     // for a new topic to be led
	drainTime    = 2 * time.Minute // for what was sent to be answered or fetched
	stampBytes   = 8               // a record of the run at a fixed rate begins with its time
	maxSeconds   = 600
	maxRounds    = 100
	maxBytes     = 1 << 20
	maxFixedRate = 1_000_000
)

// Options of a measurement.
type Options struct {
	Program  string // the bornode executable
	Rounds   int
	Seconds  int   // length of every load
	Sizes    []int // bytes of a record
	Rate     int   // records a second of the run that measures delay
	Progress func(string)
}

// Validate names the first option that cannot work.
func (o *Options) Validate() error {
	switch {
	case o.Rounds < 1 || o.Rounds > maxRounds:
		return fmt.Errorf("%d rounds; use 1 to %d", o.Rounds, maxRounds)
	case o.Seconds < 1 || o.Seconds > maxSeconds:
		return fmt.Errorf("loads of %d s; use 1 to %d", o.Seconds, maxSeconds)
	case o.Rate < 1 || o.Rate > maxFixedRate:
		return fmt.Errorf("%d records a second; use 1 to %d", o.Rate, maxFixedRate)
	case len(o.Sizes) == 0:
		return errors.New("no record size is given")
	}
	for _, n := range o.Sizes {
		if n < stampBytes || n > maxBytes {
			return fmt.Errorf("records of %d bytes; use %d to %d", n, stampBytes, maxBytes)
		}
	}
	return nil
}

// variant is a way to set up the network.
type variant struct {
	name     string
	settings []string
}

// The first is what the others are compared with. "quiet" has no receipts, and checkpoints and operations as rarely as the
// settings allow; leaves are still hashed.
var variants = []variant{
	{"evidence, tcp", []string{"rdma.mode=off"}},
	{"quiet, tcp", []string{"rdma.mode=off", "pubsub.evidence.receipt=0s", "pubsub.evidence.checkpoint=1h", "pubsub.evidence.window=1m"}},
	{"evidence, shm", []string{"rdma.mode=auto"}},
}

// sums are the figures of all rounds by what they tell of.
type sums map[key][]float64

type key struct {
	variant, acks string
	size          int
	what          string
}

// Measure runs all variants in turn, as often as there are rounds.
func Measure(ctx context.Context, o Options) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("bench pubsub: %w", err)
	}
	all := make(sums)
	for round := range o.Rounds {
		for i := range variants {
			v := variants[(i+round)%len(variants)] // nobody is always first
			o.Progress(fmt.Sprintf("round %d of %d: %s", round+1, o.Rounds, v.name))
			if err := once(ctx, &o, v, all); err != nil {
				return nil, fmt.Errorf("bench pubsub: %s: %w", v.name, err)
			}
		}
	}
	return report(&o, all), nil
}

// once measures one variant on a network of its own.
func once(ctx context.Context, o *Options, v variant, all sums) (err error) {
	dir, err := os.MkdirTemp("", "bornode-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := testnet.DefaultSpec()
	s.Dir, s.Binary, s.BasePort, s.Direct, s.Brokers = filepath.Join(dir, "net"), o.Program, 0, true, brokers
	s.Set = append([]string{"log.level=warn"}, v.settings...)
	n, err := testnet.Up(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Down(context.WithoutCancel(ctx))) }()
	r := &run{o: o, n: n, all: all, variant: v.name}
	for _, size := range o.Sizes {
		for _, acks := range []string{"1", "all"} {
			if err := r.load(ctx, size, acks); err != nil {
				return err
			}
		}
	}
	if err := r.delay(ctx); err != nil {
		return err
	}
	return r.logins(ctx)
}

// run is one variant in one round.
type run struct {
	o       *Options
	n       *testnet.Network
	all     sums
	variant string
	topics  int
}

func (r *run) note(size int, acks, what string, x float64) {
	k := key{r.variant, acks, size, what}
	r.all[k] = append(r.all[k], x)
}

func (r *run) cpu() (sum time.Duration) {
	for _, x := range r.n.Nodes {
		sum += x.Process.CPU()
	}
	return sum
}

// topic makes a topic and waits until all of it is led.
func (r *run) topic(ctx context.Context) (string, error) {
	r.topics++
	name := fmt.Sprintf("%s.bench%d", testnet.DemoTenant, r.topics)
	c, err := connect(r.n)
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	admin := kadm.NewClient(c)
	if err := again(ctx, func() error {
		made, err := admin.CreateTopic(ctx, partitions, brokers, nil, name)
		return errors.Join(err, made.Err)
	}); err != nil {
		return "", fmt.Errorf("make topic %s: %w", name, err)
	}
	return name, again(ctx, func() error {
		list, err := admin.ListTopics(ctx, name)
		if err == nil && len(list[name].Partitions) != partitions {
			err = fmt.Errorf("topic %s has %d partitions yet", name, len(list[name].Partitions))
		}
		if err == nil {
			err = errors.Join(list[name].Err, list.Error())
		}
		for _, p := range list[name].Partitions {
			err = errors.Join(err, p.Err)
		}
		return err
	})
}

// again repeats f until it works or ctx ends.
func again(ctx context.Context, f func() error) error {
	pause := time.NewTicker(200 * time.Millisecond)
	defer pause.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// load produces for a while as fast as it goes, then fetches all of it.
func (r *run) load(ctx context.Context, size int, acks string) error {
	topic, err := r.topic(ctx)
	if err != nil {
		return err
	}
	need := kgo.AllISRAcks()
	if acks == "1" {
		need = kgo.LeaderAck()
	}
	c, err := connect(r.n, kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(need), kgo.DisableIdempotentWrite(), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(maxWaiting))
	if err != nil {
		return err
	}
	defer c.Close()
	value := make([]byte, size)
	for i := range value {
		value[i] = byte(rand.Uint32()) //nolint:gosec // load
	}
	var acked atomic.Int64
	var failed atomic.Pointer[error]
	begun, cpu := time.Now(), r.cpu()
	for time.Since(begun) < time.Duration(r.o.Seconds)*time.Second && ctx.Err() == nil && failed.Load() == nil {
		c.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
				return
			}
			acked.Add(1)
		})
	}
	wait, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if err := c.Flush(wait); err != nil {
		return err
	}
	if p := failed.Load(); p != nil {
		return fmt.Errorf("produce to %s: %w", topic, *p)
	}
	records := float64(acked.Load())
	r.note(size, acks, "produce", records/time.Since(begun).Seconds())
	r.note(size, acks, "produce cpu", float64((r.cpu()-cpu).Microseconds())/records)
	return r.fetch(wait, topic, size, acks, acked.Load())
}

func (r *run) fetch(ctx context.Context, topic string, size int, acks string, records int64) error {
	c, err := connect(r.n, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return err
	}
	defer c.Close()
	begun, cpu := time.Now(), r.cpu()
	for got := int64(0); got < records; {
		f := c.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			return fmt.Errorf("fetch %s, %d of %d records: %w", topic, got, records, err)
		}
		got += int64(f.NumRecords())
	}
	r.note(size, acks, "fetch", float64(records)/time.Since(begun).Seconds())
	r.note(size, acks, "fetch cpu", float64((r.cpu()-cpu).Microseconds())/float64(records))
	return nil
}

// delay measures the time from producer to consumer at a fixed rate, acknowledged by all.
func (r *run) delay(ctx context.Context) error {
	topic, err := r.topic(ctx)
	if err != nil {
		return err
	}
	c, err := connect(r.n, kgo.DefaultProduceTopic(topic), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.ProducerLinger(0))
	if err != nil {
		return err
	}
	defer c.Close()
	total := r.o.Rate * r.o.Seconds
	ctx, cancel := context.WithTimeout(ctx, time.Duration(r.o.Seconds)*time.Second+drainTime)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	begun := time.Now()
	wg.Go(func() { produceAtRate(ctx, c, begun, r.o.Rate, total) })
	late := make([]time.Duration, 0, total)
	for len(late) < total {
		f := c.PollFetches(ctx)
		if err := f.Err0(); err != nil {
			cancel()
			return fmt.Errorf("fetch %s, %d of %d records: %w", topic, len(late), total, err)
		}
		now := time.Since(begun)
		f.EachRecord(func(x *kgo.Record) { late = append(late, now-stamped(x.Value)) })
	}
	slices.Sort(late)
	r.note(0, "", "p50", figures.Quantile(late, 0.5).Seconds()*1000)
	r.note(0, "", "p99", figures.Quantile(late, 0.99).Seconds()*1000)
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
		r.note(0, "", "login", time.Since(begun).Seconds()*1000)
		c.Close()
		if err != nil {
			return fmt.Errorf("first request of a client: %w", err)
		}
	}
	return nil
}
