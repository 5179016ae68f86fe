package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
)

// replicaFlags are a wish for the replicas of a partition.
type replicaFlags struct {
	extra  []string
	remove []string
	any    bool
}

func (q *replicaFlags) add(f *pflag.FlagSet) {
	f.StringArrayVar(&q.extra, "add", nil, "a broker that is to keep it, too; may be given several times")
	f.StringArrayVar(&q.remove, "remove", nil, "a broker that is to keep it no more; may be given several times")
	f.BoolVar(&q.any, "any", false, "take the wish back: the brokers choose, as many as the topic was made with")
}

func (a *app) wantReplicas(ctx context.Context, name, text string, q *replicaFlags) error {
	switch n := len(q.extra) + len(q.remove); {
	case n == 0 && !q.any:
		return fail(exitUsage, "nothing is to be changed: name a broker with --add or --remove, or give --any; borcli topic brokers lists them")
	case n > 0 && q.any:
		return fail(exitUsage, "--any goes without --add and --remove")
	}
	partition, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return fail(exitUsage, "PARTITION %.40q is no number", text)
	}
	_, t, err := a.liveTopic(ctx, name)
	if err != nil {
		return err
	}
	if partition >= uint64(len(t.Leases)) {
		return fail(exitRefused, "topic %s has %s, counted from 0", t.Name, plural(len(t.Leases), "partition"))
	}
	list, err := a.brokers(ctx)
	if err != nil {
		return err
	}
	want, err := q.apply(t.Leases[partition], list)
	if err != nil {
		return err
	}
	data, err := contracts.WantReplicasCall(t.ID, uint32(partition), want)
	if err != nil {
		return fail(exitRefused, "%v", err)
	}
	what := "any brokers"
	if len(want) > 0 {
		what = plural(len(want), "broker") + " " + numbersOf(list, want)
	}
	return a.topicCall(ctx, fmt.Sprintf("have partition %d of topic %s kept by %s", partition, t.Name, what), data,
		"partition %d of topic %s is to be kept by %s; borcli topic describe %s shows how far it is", partition, t.Name, what, t.Name)
}

// apply is the wish after the one there is, or after the replicas there are.
func (q *replicaFlags) apply(l contracts.Lease, list []brokerInfo) ([]common.Address, error) {
	if q.any {
		return nil, nil
	}
	want := slices.Clone(l.Wanted)
	if len(want) == 0 {
		want = slices.Clone(l.Replicas)
	}
	for _, s := range q.remove {
		b, err := findBroker(list, s)
		if err != nil {
			return nil, err
		}
		i := slices.Index(want, b.Account)
		if i < 0 {
			return nil, fail(exitRefused, "broker %d is none of those that are to keep the partition: %s", b.ID, numbersOf(list, want))
		}
		want = slices.Delete(want, i, i+1)
	}
	for _, s := range q.extra {
		b, err := findBroker(list, s)
		switch {
		case err != nil:
			return nil, err
		case !b.Live:
			return nil, fail(exitRefused, "broker %d is retired: only a live one can take a partition", b.ID)
		case slices.Contains(want, b.Account):
			return nil, fail(exitRefused, "broker %d is among those that are to keep the partition already: %s", b.ID, numbersOf(list, want))
		}
		want = append(want, b.Account)
	}
	if len(want) == 0 {
		return nil, fail(exitRefused, "a partition has one replica at least; --any lets the brokers choose")
	}
	return want, nil
}

// findBroker finds a broker by number, account or peer id.
func findBroker(list []brokerInfo, text string) (brokerInfo, error) {
	for _, b := range list {
		if text == strconv.Itoa(int(b.ID)) || text == b.PeerID || common.IsHexAddress(text) && common.HexToAddress(text) == b.Account {
			return b, nil
		}
	}
	return brokerInfo{}, fail(exitRefused, "there is no broker %.100q; borcli topic brokers lists them by number, account and peer id", text)
}

func numbersOf(list []brokerInfo, accounts []common.Address) string {
	out := ""
	for i, a := range accounts {
		if i > 0 {
			out += ", "
		}
		out += brokerText(list, a)
	}
	return out
}

func brokerText(list []brokerInfo, account common.Address) string {
	for _, b := range list {
		if b.Account == account {
			return strconv.Itoa(int(b.ID))
		}
	}
	return account.Hex()
}
