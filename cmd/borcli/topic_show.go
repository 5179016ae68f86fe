package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"

	"github.com/bornode/bornode/contracts"
)

func topicShowCommands() []*cobra.Command {
	return []*cobra.Command{
		command("list [TENANT]", "List the topics, of one tenant or of all", func(ctx context.Context, a *app, args []string) error {
			tenant := ""
			if len(args) == 1 {
				tenant = args[0]
			}
			return a.listTopics(ctx, tenant)
		}, arguments(0, 1)),
		command("describe TOPIC", "Show a topic and who leads its partitions", func(ctx context.Context, a *app, args []string) error {
			return a.describeTopic(ctx, args[0])
		}, arguments(1, 1), long("Show a topic and who leads its partitions. TOPIC is its name, or its id if it is deleted.")),
		command("brokers", "List the brokers", func(ctx context.Context, a *app, _ []string) error {
			list, err := a.brokers(ctx)
			if err != nil {
				return err
			}
			return a.show(list, func(w io.Writer) { brokerTable(w, list) })
		}),
		command("operations TOPIC", "Show how far a topic's operations and checkpoints are on record", func(ctx context.Context, a *app, args []string) error {
			return a.topicRecord(ctx, args[0])
		}, arguments(1, 1), long("Show how far a topic's operations and checkpoints are on record. TOPIC is its name, or its id if it is deleted.")),
	}
}

// topicSummary is a line of the list.
type topicSummary struct {
	ID         common.Hash    `json:"id"`
	Name       string         `json:"name"`
	Owner      common.Address `json:"owner"`
	Partitions int            `json:"partitions"`
	Replicas   int            `json:"replicas"` // of partition 0
	Encrypted  bool           `json:"encrypted"`
	Auditor    common.Address `json:"auditor"`
}

func summary(t *contracts.TopicInfo) topicSummary {
	return topicSummary{t.ID, t.Name, t.Owner, len(t.Leases), len(t.Leases[0].Replicas), t.Encrypted, t.Auditor}
}

func (a *app) listTopics(ctx context.Context, tenant string) error {
	call, _, err := a.topicsAt(ctx)
	if err != nil {
		return err
	}
	list, err := contracts.ReadTopics(call)
	if err != nil {
		return notUnderstood(err)
	}
	out := []topicSummary{}
	for i := range list {
		if t := &list[i]; len(t.Leases) > 0 && (tenant == "" || strings.HasPrefix(t.Name, tenant+".")) {
			out = append(out, summary(t))
		}
	}
	slices.SortFunc(out, func(x, y topicSummary) int { return strings.Compare(x.Name, y.Name) })
	return a.show(out, func(w io.Writer) {
		rows := make([][]string, len(out))
		for i, t := range out {
			rows[i] = []string{t.Name, fmt.Sprint(t.Partitions), fmt.Sprint(t.Replicas), yesNo(t.Encrypted), accountText(t.Owner)}
		}
		columns(w, []string{"TOPIC", "PARTITIONS", "REPLICAS", "ENCRYPTED", "OWNER"}, rows)
	})
}

// topicDetails are a topic with its partitions.
type topicDetails struct {
	topicSummary
	State          string            `json:"state"` // live, deleted
	Created        uint64            `json:"created"`
	KeyEpoch       uint32            `json:"keyEpoch"`
	PseudonymEpoch uint32            `json:"pseudonymEpoch"`
	Config         map[string]string `json:"config"`
	Leases         []leaseInfo       `json:"leases"`
}

type leaseInfo struct {
	Leader   common.Address   `json:"leader"`
	Epoch    uint32           `json:"epoch"`
	Replicas []common.Address `json:"replicas"`
	Wanted   []common.Address `json:"wanted"` // by the owner; empty: any
}

func (a *app) describeTopic(ctx context.Context, text string) error {
	at, t, err := a.topicOf(ctx, text)
	if err != nil {
		return err
	}
	var list []contracts.Broker
	if err := a.readAll(ctx, at, ofTopics(&list, contracts.BrokersCall(), contracts.DecodeBrokers)); err != nil {
		return err
	}
	config, err := contracts.DecodeTopicConfig(t.Config)
	if err != nil {
		a.note("the settings of topic %s are none that brokers understand; borcli topic configure makes new ones", t.Name)
		config = map[string]string{}
	}
	d := topicDetails{summary(t), "live", t.Created, t.KeyEpoch, t.PseudonymEpoch, config, nil}
	if t.Deleted {
		d.State = "deleted"
	}
	for _, l := range t.Leases {
		d.Leases = append(d.Leases, leaseInfo(l))
	}
	return a.show(d, func(w io.Writer) { d.table(w, list) })
}

func (d *topicDetails) table(w io.Writer, list []contracts.Broker) {
	pairs := []pair{{"topic", d.Name}, {"id", d.ID.Hex()}, {"state", d.State}, {"owner", accountText(d.Owner)}, {"created", fmt.Sprintf("in block %d", d.Created)},
		{"settings", configText(d.Config)}, {"encrypted", yesNo(d.Encrypted)}}
	if d.Encrypted {
		pairs = append(pairs, pair{"key epoch", epochText(d.KeyEpoch)})
	}
	if d.Auditor != (common.Address{}) {
		pairs = append(pairs, pair{"auditor", d.Auditor.Hex()}, pair{"pseudonym epoch", epochText(d.PseudonymEpoch)})
	}
	lines(w, pairs...)
	rows := make([][]string, len(d.Leases))
	wishes := false
	for i, l := range d.Leases {
		rows[i] = []string{fmt.Sprint(i), brokerName(list, l.Leader), fmt.Sprint(l.Epoch), brokerNames(list, l.Replicas), brokerNames(list, l.Wanted)}
		wishes = wishes || len(l.Wanted) > 0
	}
	head := []string{"PARTITION", "LEADER", "EPOCH", "REPLICAS", "WANTED"}
	if !wishes {
		head = head[:4]
		for i := range rows {
			rows[i] = rows[i][:4]
		}
	}
	columns(w, head, rows)
}

// brokerNames are the numbers of brokers; a dash for none.
func brokerNames(list []contracts.Broker, accounts []common.Address) string {
	if len(accounts) == 0 {
		return "-"
	}
	names := make([]string, len(accounts))
	for i, a := range accounts {
		names[i] = brokerName(list, a)
	}
	return strings.Join(names, ", ")
}

// brokerName is a broker's number, with a word if it is not live; the account of one that is not listed.
func brokerName(list []contracts.Broker, account common.Address) string {
	i := slices.IndexFunc(list, func(b contracts.Broker) bool { return b.Account == account })
	switch {
	case i < 0:
		return account.Hex()
	case !list[i].Live:
		return fmt.Sprintf("%d (retired)", list[i].ID)
	}
	return fmt.Sprint(list[i].ID)
}

// brokerInfo is a broker that ever registered.
type brokerInfo struct {
	ID      int32          `json:"id"`
	Account common.Address `json:"account"`
	Address string         `json:"address"` // where clients reach it
	PeerID  string         `json:"peerId"`
	Live    bool           `json:"live"`
}

func (a *app) brokers(ctx context.Context) ([]brokerInfo, error) {
	call, _, err := a.topicsAt(ctx)
	if err != nil {
		return nil, err
	}
	ret, err := call(contracts.BrokersCall())
	if err != nil {
		return nil, err
	}
	list, err := contracts.DecodeBrokers(ret)
	if err != nil {
		return nil, notUnderstood(err)
	}
	out := make([]brokerInfo, len(list))
	for i, b := range list {
		out[i] = brokerInfo{b.ID, b.Account, net.JoinHostPort(b.Host, fmt.Sprint(b.Port)), b.PeerID, b.Live}
	}
	return out, nil
}

func brokerTable(w io.Writer, list []brokerInfo) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no broker has registered; a node with the broker role does when its pubsub section is on")
		return
	}
	rows := make([][]string, len(list))
	for i, b := range list {
		rows[i] = []string{fmt.Sprint(b.ID), b.Address, yesNo(b.Live), b.Account.Hex(), b.PeerID}
	}
	columns(w, []string{"ID", "ADDRESS", "LIVE", "ACCOUNT", "PEER"}, rows)
}

// topicRecord is what the ledger holds of a topic's past.
func (a *app) topicRecord(ctx context.Context, text string) error {
	at, t, err := a.topicOf(ctx, text)
	if err != nil {
		return err
	}
	var ops contracts.OperationsInfo
	var mark contracts.CheckpointInfo
	if err := a.readAll(ctx, at, ofTopics(&ops, contracts.OperationsCall(t.ID), contracts.DecodeOperations),
		ofTopics(&mark, contracts.CheckpointCall(t.ID), contracts.DecodeCheckpoint)); err != nil {
		return err
	}
	out := map[string]any{
		"topic": t.Name, "id": t.ID, "operations": map[string]any{"count": ops.Count, "root": ops.Root, "lastOpHeight": ops.LastHeight},
		"checkpoint": map[string]any{"seq": mark.Seq, "root": mark.Root, "leaves": mark.Leaves, "height": mark.Height},
	}
	return a.show(out, func(w io.Writer) {
		pairs := []pair{{"topic", t.Name}, {"id", t.ID.Hex()}, {"operations", fmt.Sprint(ops.Count)}}
		if ops.Count > 0 {
			pairs = append(pairs, pair{"the last", fmt.Sprintf("in block %d", ops.LastHeight)}, pair{"root", ops.Root.Hex()})
		}
		checkpoint := "none yet"
		if mark.Seq > 0 {
			checkpoint = fmt.Sprintf("number %d in block %d, of %d batches", mark.Seq, mark.Height, mark.Leaves)
		}
		lines(w, append(pairs, pair{"checkpoint", checkpoint})...)
		if mark.Seq > 0 {
			lines(w, pair{"its root", mark.Root.Hex()})
		}
	})
}
