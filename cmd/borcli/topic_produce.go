package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/client"
)

// maxLine is the longest line that becomes a record.
const maxLine = 1 << 20

func topicProduceCommand() *cobra.Command {
	q := new(brokerFlags)
	var key, receipts string
	return command("produce TOPIC [VALUE...]", "Send records to a topic; without values, every line of standard input is one", func(ctx context.Context, a *app, args []string) error {
		return a.produce(ctx, q, args[0], key, receipts, args[1:])
	}, arguments(1, -1), flags(func(f *pflag.FlagSet) {
		f.StringVar(&key, "record-key", "", "key of the records; records of one key go to one partition")
		f.StringVar(&receipts, "receipts", "", "file to add the brokers' receipts to; borcli topic report holds them against each other and against proofs")
		q.add(f)
	}), long("Send records to a topic and say where each lies once a quorum of its partition's replicas has it. A record that is\n"+
		"not taken for --timeout ends it, with code 3 if a partition has no leader, else with code 8; it may still get there."),
		example("borcli topic produce acme.orders 'three apples' --genesis genesis.json --ca brokers-ca.pem"))
}

// notTaken is the error about a record that was not taken: if time ran out, perhaps since a partition has no leader.
func notTaken(ctx context.Context, p leaderChecker, topic string, err error) error {
	if errors.Is(err, client.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) && !kerr.IsRetriable(err) {
		return err
	}
	if without := leaderless(ctx, p, topic); without != nil {
		return without
	}
	return err
}

type producedRecord struct {
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Broker    string `json:"broker,omitempty"` // who signed the receipt
}

func (a *app) produce(ctx context.Context, q *brokerFlags, topic, key, receipts string, values []string) error {
	keep, err := keepReceipts(receipts)
	if err != nil {
		return err
	}
	defer keep.close()
	c, err := q.open(ctx, a, logTo(a.errOut).WithOptions(zap.IncreaseLevel(zap.WarnLevel)))
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.Producer()
	if err != nil {
		return explainClient(err)
	}
	defer p.Close()
	send := func(value string) error {
		r := &client.Record{Topic: topic, Value: []byte(value)}
		if key != "" {
			r.Key = []byte(key)
		}
		rctx, cancel := context.WithTimeout(ctx, a.Timeout)
		defer cancel()
		s, err := p.Send(rctx, r)
		if err != nil {
			return explainClient(notTaken(ctx, p, topic, err))
		}
		out := producedRecord{Partition: s.Partition, Offset: s.Offset}
		if s.Receipt != nil {
			if err := keep.add(s.Receipt); err != nil {
				return err
			}
			out.Broker = s.Receipt.By.Hex()
		}
		return a.show(out, func(w io.Writer) {
			by := ""
			if out.Broker != "" {
				by = ", signed by broker " + out.Broker
			}
			fmt.Fprintf(w, "partition %d, offset %d%s\n", s.Partition, s.Offset, by)
		})
	}
	for _, v := range values {
		if err := send(v); err != nil {
			return err
		}
	}
	if len(values) > 0 {
		return nil
	}
	in := bufio.NewScanner(a.in)
	in.Buffer(make([]byte, 0, 64<<10), maxLine)
	for in.Scan() {
		if err := send(strings.TrimSuffix(in.Text(), "\r")); err != nil {
			return err
		}
	}
	if errors.Is(in.Err(), bufio.ErrTooLong) {
		return fail(exitUsage, "a line is longer than %d bytes", maxLine)
	}
	return in.Err()
}
