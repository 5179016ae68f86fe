package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/client"
)

// consumeFlags say what is read and when it ends.
type consumeFlags struct {
	brokerFlags
	group, from string
	count       int
	idle        time.Duration
}

func topicConsumeCommand() *cobra.Command {
	q := new(consumeFlags)
	return command("consume TOPIC", "Read records of a topic, checked and decrypted", func(ctx context.Context, a *app, args []string) error {
		return a.consume(ctx, q, args[0])
	}, arguments(1, 1), flags(func(f *pflag.FlagSet) {
		f.StringVar(&q.group, "group", "", "be a member of this group (tenant.name), which remembers what was read")
		f.StringVar(&q.from, "start", "earliest", "where to begin without a group's offset: earliest or latest")
		f.IntVar(&q.count, "count", 0, "end after so many records; 0: never")
		f.DurationVar(&q.idle, "idle", 0, "end when nothing came for so long; 0: never")
		q.add(f)
	}), long("Read records of a topic, checked and decrypted, until --count, --idle or an interrupt. What a broker changed, left out\n"+
		"or put elsewhere ends it with code 9. A partition without a leader ends it with code 3 when nothing came for --timeout."),
		example("borcli topic consume acme.orders --count 10 --genesis genesis.json --ca brokers-ca.pem"))
}

type consumedRecord struct {
	Partition int32     `json:"partition"`
	Offset    int64     `json:"offset"`
	Time      time.Time `json:"time"`
	Key       string    `json:"key,omitempty"`
	Value     string    `json:"value"`
}

func (a *app) consume(ctx context.Context, q *consumeFlags, topic string) error {
	from, ok := map[string]int64{"earliest": client.Earliest, "latest": client.Latest}[q.from]
	if !ok || q.count < 0 {
		return fail(exitUsage, "--start is earliest or latest, and --count not negative")
	}
	if _, _, err := a.liveTopic(ctx, topic); err != nil { // a consumer would wait for the topic to be created
		return err
	}
	c, err := q.open(ctx, a, logTo(a.errOut).WithOptions(zap.IncreaseLevel(zap.WarnLevel)))
	if err != nil {
		return err
	}
	defer c.Close()
	x, err := c.Consumer(client.ConsumerConfig{Group: q.group, Topics: []string{topic}, From: from})
	if err != nil {
		return explainClient(err)
	}
	defer x.Close()
	quiet := silence{idle: q.idle, most: a.Timeout, since: time.Now()}
	for n := 0; q.count == 0 || n < q.count; {
		records, err := quiet.awaitRecords(ctx, x)
		if errors.Is(err, errIdle) && (q.idle == 0 || !errors.Is(err, client.ErrUnreachable) && !errors.Is(err, client.ErrNotJoined)) {
			ended, err := quiet.endsReading(time.Now(), leaderless(ctx, x, topic))
			if ended || err != nil {
				return explainClient(err)
			}
			continue
		}
		if err != nil {
			return explainClient(err)
		}
		quiet.since = time.Now()
		for _, r := range records {
			if q.count > 0 && n == q.count {
				break
			}
			n++
			if err := a.showRecord(r); err != nil {
				return err
			}
		}
		if q.group != "" && (q.count == 0 || n < q.count) { // what was cut off by --count comes again
			switch err := x.Commit(ctx); {
			case errors.Is(err, client.ErrRebalanced): // this member goes on
				fmt.Fprintln(a.errOut, "borcli:", clean(oneLine(err)))
			case err != nil:
				return explainClient(err)
			}
		}
	}
	return nil
}

var errIdle = errors.New("nothing came")

// silence is how long nothing may come.
type silence struct {
	idle  time.Duration // after which reading ends; 0: never
	most  time.Duration // that a partition may be without a leader
	since time.Time     // when something came last
}

// awaitRecords waits for records; errIdle: none came for a while.
func (s *silence) awaitRecords(ctx context.Context, x *client.Consumer) ([]*client.Record, error) {
	wait := s.idle
	if wait == 0 {
		wait = s.most
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errIdle)
	defer cancel()
	return x.Records(ctx)
}

// endsReading tells whether reading ends after a while without records, and how. A partition without a leader is not an empty one, and
// usually has a new leader soon.
func (s *silence) endsReading(now time.Time, without error) (ended bool, err error) {
	if without == nil {
		return s.idle > 0, nil
	}
	if now.Sub(s.since) < s.most {
		return false, nil
	}
	return true, without
}

func (a *app) showRecord(r *client.Record) error {
	out := consumedRecord{r.Partition, r.Offset, r.Timestamp.UTC(), string(r.Key), string(r.Value)}
	return a.show(out, func(w io.Writer) {
		key := ""
		if out.Key != "" {
			key = clean(out.Key) + ": "
		}
		fmt.Fprintf(w, "%d/%d\t%s%s\n", out.Partition, out.Offset, key, clean(out.Value))
	})
}
