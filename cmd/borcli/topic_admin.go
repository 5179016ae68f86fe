package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
)

const usualReplicas = 3

// newTopicFlags are what a new topic is made of beside its name.
type newTopicFlags struct {
	partitions uint32
	replicas   uint16
	config     []string
	auditor    string
	encrypted  bool
}

func (q *newTopicFlags) add(f *pflag.FlagSet) {
	f.Uint32Var(&q.partitions, "partitions", 1, "how many logs it is made of")
	f.Uint16Var(&q.replicas, "replicas", 0, "brokers that keep each of them; without it 3, or as many as there are")
	f.StringArrayVar(&q.config, "set", nil, "a setting as key=value, such as retention.ms=86400000; may be given several times")
	f.StringVar(&q.auditor, "auditor", "", "account that admits pseudonyms and alone can tell whose they are")
	f.BoolVar(&q.encrypted, "encrypted", false, "only readers that were given a key can read it, the brokers not")
}

func topicAdminCommands() []*cobra.Command {
	var q newTopicFlags
	var remove []string
	var moves replicaFlags
	return []*cobra.Command{
		command("replicas TOPIC PARTITION", "Say which brokers are to keep a partition", func(ctx context.Context, a *app, args []string) error {
			return a.wantReplicas(ctx, args[0], args[1], &moves)
		}, arguments(2, 2), sends, flags(moves.add), long("Say which brokers are to keep a partition. BROKER is a number, an account or a peer id of borcli topic brokers.\n"+
			"The partition's leader carries it out, one broker after the other, when each new one has everything; borcli topic\n"+
			"describe shows both. While a wanted broker is gone another stands in. With --any the brokers choose by themselves."),
			example("borcli topic replicas acme.orders 0 --add 4 --remove 2", "borcli topic replicas acme.orders 0 --any")),
		command("create TOPIC", "Create a topic", func(ctx context.Context, a *app, args []string) error {
			return a.createTopic(ctx, args[0], &q)
		}, arguments(1, 1), sends, flags(q.add), long("Create a topic. Its name is its tenant's, a dot and more. The tenant's owner creates topics, and whom he lets:\n"+
			"borcli topic grant ACCOUNT create --topic TENANT. --prefix"),
			example("borcli topic create acme.orders --partitions 6", "borcli topic create acme.orders --set retention.ms=86400000 --set compression.type=zstd")),
		command("delete TOPIC", "Delete a topic", func(ctx context.Context, a *app, args []string) error {
			_, t, err := a.liveTopic(ctx, args[0])
			if err != nil {
				return err
			}
			return a.topicCall(ctx, "delete topic "+t.Name, contracts.DeleteTopicCall(t.ID), "what is on record of it stays: borcli topic operations %s", t.ID)
		}, arguments(1, 1), sends, long("Delete a topic with its records. What the ledger knows of it stays; another topic may take its name.")),
		command("configure TOPIC [KEY=VALUE...]", "Change a topic's settings", func(ctx context.Context, a *app, args []string) error {
			return a.configureTopic(ctx, args[0], args[1:], remove)
		}, arguments(1, -1), sends, flags(func(f *pflag.FlagSet) {
			f.StringArrayVar(&remove, "remove", nil, "a setting that becomes the brokers' usual one again; may be given several times")
		}), example("borcli topic configure acme.orders retention.ms=86400000 --remove retention.bytes")),
		command("partitions TOPIC TOTAL", "Give a topic more partitions", func(ctx context.Context, a *app, args []string) error {
			return a.addPartitions(ctx, args[0], args[1])
		}, arguments(2, 2), sends),
		command("owner TOPIC ACCOUNT", "Give a topic another owner", func(ctx context.Context, a *app, args []string) error {
			who, err := parseAddress(args[1])
			if err != nil {
				return fail(exitUsage, "ACCOUNT: %v", err)
			}
			_, t, err := a.liveTopic(ctx, args[0])
			if err != nil {
				return err
			}
			return a.topicCall(ctx, fmt.Sprintf("give topic %s to %s", t.Name, who), contracts.SetOwnerCall(t.ID, who), "topic %s belongs to %s", t.Name, who)
		}, arguments(2, 2), sends),
	}
}

func (a *app) createTopic(ctx context.Context, name string, q *newTopicFlags) error {
	n := contracts.NewTopic{Name: name, Partitions: q.partitions, Replicas: q.replicas, Encrypted: q.encrypted, Config: map[string]string{}}
	if err := parseConfig(n.Config, q.config); err != nil {
		return err
	}
	if q.auditor != "" {
		who, err := parseAddress(q.auditor)
		if err != nil {
			return fail(exitUsage, "--auditor: %v", err)
		}
		n.Auditor = who
	}
	if n.Replicas == 0 {
		list, err := a.brokers(ctx)
		if err != nil {
			return err
		}
		live := len(slices.DeleteFunc(list, func(b brokerInfo) bool { return !b.Live }))
		if live == 0 {
			return fail(exitRefused, "there is no live broker yet; borcli topic brokers shows those that ever registered")
		}
		n.Replicas = uint16(min(live, usualReplicas)) //nolint:gosec // small
	}
	data, err := contracts.CreateTopicCall(n)
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	what := fmt.Sprintf("create topic %s of %s with %s each", name, plural(int(n.Partitions), "partition"), plural(int(n.Replicas), "replica"))
	s, err := a.govern(ctx, txRequest{To: &contracts.TopicsAddress, Data: data, What: what})
	if err != nil {
		return err
	}
	id, ok := createdTopic(s)
	if !ok {
		return a.tell(s, "borcli topic describe %s shows it as soon as it is there", name)
	}
	return a.tell(s, "topic %s has the id %s; its brokers serve it when the block is final", name, id)
}

// createdTopic is the id of the topic that a transaction created; false if its receipt was not waited for.
func createdTopic(s *sent) (common.Hash, bool) {
	if s.Receipt == nil {
		return common.Hash{}, false
	}
	for _, l := range s.Receipt.Logs {
		if e, err := contracts.DecodeTopicsEvent(l); err == nil {
			if c, ok := e.(*contracts.TopicCreated); ok {
				return c.Topic, true
			}
		}
	}
	return common.Hash{}, false
}

func (a *app) configureTopic(ctx context.Context, name string, set, remove []string) error {
	if len(set)+len(remove) == 0 {
		return fail(exitUsage, "nothing is to be changed: name settings as key=value, or with --remove; borcli topic describe %s shows them", name)
	}
	_, t, err := a.liveTopic(ctx, name)
	if err != nil {
		return err
	}
	config, err := contracts.DecodeTopicConfig(t.Config)
	if err != nil { // somebody stored what is no configuration: begin anew
		config = map[string]string{}
	}
	for _, key := range remove {
		if _, ok := config[key]; !ok {
			return fail(exitRefused, "topic %s has no setting %.100q; borcli topic describe %s shows them", t.Name, key, t.Name)
		}
		delete(config, key)
	}
	if err := parseConfig(config, set); err != nil {
		return err
	}
	data, err := contracts.ConfigureCall(t.ID, config)
	if err != nil {
		return fail(exitUsage, "%v", err)
	}
	return a.topicCall(ctx, "configure topic "+t.Name+": "+configText(config), data, "topic %s has the settings %s", t.Name, configText(config))
}

// configText writes settings in order; none as a dash.
func configText(config map[string]string) string {
	if len(config) == 0 {
		return "-"
	}
	list := make([]string, 0, len(config))
	for k, v := range config {
		list = append(list, quoteOdd(k)+"="+quoteOdd(v))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func (a *app) addPartitions(ctx context.Context, name, text string) error {
	total, err := strconv.ParseUint(text, 10, 32)
	if err != nil || total == 0 || total > contracts.MaxPartitions {
		return fail(exitUsage, "TOTAL %.40q is no number of partitions: give 1 to %d", text, contracts.MaxPartitions)
	}
	_, t, err := a.liveTopic(ctx, name)
	if err != nil {
		return err
	}
	switch n := uint64(len(t.Leases)); {
	case total <= n:
		return fail(exitRefused, "topic %s has %s; their number never falls", t.Name, plural(len(t.Leases), "partition"))
	case total-n > contracts.MaxNewPartitions:
		return fail(exitRefused, "topic %s has %s, and one transaction adds %d at most: go there in steps", t.Name, plural(len(t.Leases), "partition"), contracts.MaxNewPartitions)
	}
	return a.topicCall(ctx, fmt.Sprintf("give topic %s %d partitions", t.Name, total), contracts.AddPartitionsCall(t.ID, uint32(total)),
		"topic %s has %d partitions", t.Name, total)
}
