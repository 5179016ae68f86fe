package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/proof"
)

func topicProofCommands() []*cobra.Command {
	j := new(auditJob)
	var p proveJob
	var v proofJob
	return []*cobra.Command{
		topicReportCommand(),
		command("audit TOPIC", "Show what was done with a topic, and check that nothing is missing", func(ctx context.Context, a *app, args []string) error {
			return a.auditTopic(ctx, args[0], j)
		}, arguments(1, 1),
			long("Show what was done with a topic, by whom, and what was refused, and check that no operation is missing. TOPIC is its\n"+
				"name, or its id if it is deleted. What the node gives is checked against the root that the contract keeps. With\n"+
				"--genesis that root is proved, at a final block, from the network's genesis file on; without it, it is the node's word.\n"+
				"Which broker put an operation on record is the node's word in any case.\n\n"+
				"With --rights, the rules in force must follow from the events on the chain, and every operation must fit the rules,\n"+
				"owners and reputations of its time, within a minute. The node is believed that it shows all those events."),
			flags(func(f *pflag.FlagSet) {
				f.IntVar(&j.Last, "last", auditOperations, "how many of the newest operations, and what is in one batch with them; 0: all")
				f.StringVar(&j.Genesis, "genesis", "", "the network's genesis file: the node is not believed")
				f.StringVar(&j.Checkpoint, "checkpoint", "", "height:hash of a block that you know, to begin the proof there")
				f.BoolVar(&j.Rights, "rights", false, "also judge every operation by the rules of access of its time")
				f.StringVar(&j.Out, "out", "", "file to write the operations and their proof to, for borcli topic verify; needs --genesis")
			}), example("borcli topic audit acme.orders", "borcli topic audit acme.orders --last 0 --genesis genesis.json --out orders.audit",
				"borcli topic audit acme.orders --last 0 --rights")),
		command("prove TOPIC PARTITION OFFSET", "Write a file that proves what a topic holds", func(ctx context.Context, a *app, args []string) error {
			return a.proveTopic(ctx, args, p)
		}, arguments(3, 3),
			long("Write a file that proves what a partition of a topic holds from an offset on, since when. Anybody with the network's\n"+
				"genesis file can check it with borcli topic verify, without a node. The node must be a broker of the topic."),
			flags(func(f *pflag.FlagSet) {
				f.Uint64Var(&p.Records, "records", 1, "how many records; whole batches are proved")
				f.StringVar(&p.Out, "out", "", "file to write")
				f.BoolVar(&p.DigestsOnly, "digests-only", false, "leave the batches out: their digests are proved")
				f.StringVar(&p.Token, "token-file", "", "file with a token of an account that may read the topic (borcli topic token): the batches are given for it")
				f.StringVar(&p.Checkpoint, "checkpoint", "", "height:hash of a block that whoever checks it knows: makes the file short")
			}), example("borcli topic prove acme.orders 0 1200 --out orders.proof")),
		command("verify FILE", "Check a file made by topic prove, topic audit or topic report, offline", func(_ context.Context, a *app, args []string) error {
			v.File = args[0]
			return a.verifyFile(v)
		}, arguments(1, 1),
			long("Check a file, from the network's genesis file on. No node is asked. Of topic prove: batches, their places in the log, the\n"+
				"checkpoint on the chain, and that its block is final. Of topic audit: that no operation is missing before what the\n"+
				"contract had in a final block. Of topic report: which broker it shows to have lied.\n\n"+
				"Where the chain was recovered (bornode recover) the file carries what operators signed. It is checked against the recovery keys\n"+
				"of the genesis file and told with its reason."),
			flags(func(f *pflag.FlagSet) {
				f.StringVar(&v.Genesis, "genesis", "", "the network's genesis file")
				f.StringVar(&v.Checkpoint, "checkpoint", "", "height:hash of a block that you know, if the file was made for it")
				f.StringVar(&v.Topic, "topic", "", "id of the topic that it must be of (borcli topic describe shows it); empty: any")
				f.StringArrayVar(&v.Recoveries, "recovery", nil, "file of a recovery of the network that you know of (bornode recover): one that contradicts those in the proof ends the check; may be repeated")
				f.BoolVar(&v.NoRecovery, "no-recovery", false, "refuse a proof that rests on a recovery: on what operators signed outside the chain")
			}), example("borcli topic verify orders.proof --genesis genesis.json")),
	}
}

type auditJob struct {
	Last                     int
	Rights                   bool
	Genesis, Checkpoint, Out string
}

// logState is where a topic's log of operations stands, as bps_operations and bps_audit have it.
type logState struct {
	Count  hexutil.Uint64 `json:"count"`
	Root   common.Hash    `json:"root"`
	Number hexutil.Uint64 `json:"number"`
}

func (s logState) state() proof.LogState {
	return proof.LogState{Count: uint64(s.Count), Root: s.Root, Height: uint64(s.Number)}
}

// auditPage is an answer of bps_audit.
type auditPage struct {
	Topic   common.Hash `json:"topic"`
	From    logState    `json:"from"`
	To      logState    `json:"to"`
	Batches []struct {
		Number      hexutil.Uint64 `json:"number"`
		Transaction common.Hash    `json:"transaction"`
		Broker      common.Address `json:"broker"`
		Count       hexutil.Uint64 `json:"count"`
		Entries     hexutil.Bytes  `json:"entries"`
	} `json:"batches"`
}

// audited is one operation with where it is on record.
type audited struct {
	Number    uint64         `json:"block"`
	Broker    common.Address `json:"broker"`
	Operator  string         `json:"operator"`
	Operation string         `json:"operation"`
	Allowed   bool           `json:"allowed"`
	Code      int16          `json:"code"`
	Reason    string         `json:"reason,omitempty"`
	Partition int32          `json:"partition"`
	First     int64          `json:"first"`
	Last      int64          `json:"last"`
	Count     uint32         `json:"count"`
	Start     int64          `json:"start"` // ms
	End       int64          `json:"end"`
	Host      string         `json:"host,omitempty"`
	Verdict   string         `json:"verdict,omitempty"` // of the rules of the time: lawful, unlawful, withheld, not judged
}

type auditResult struct {
	Topic      common.Hash `json:"topic"`
	Before     uint64      `json:"before"` // operations that are older than those shown
	Total      uint64      `json:"total"`
	Root       common.Hash `json:"root"`
	Proved     bool        `json:"proved"`          // the root is, at the block
	Number     uint64      `json:"block,omitempty"` // final; whose state was proved
	Hash       common.Hash `json:"hash"`
	Time       uint64      `json:"time,omitempty"` // Unix seconds; of the block
	File       string      `json:"file,omitempty"`
	Rights     *judged     `json:"rights,omitempty"`
	Operations []audited   `json:"operations"`
}

// auditTopic reads pages backwards until enough operations are there, and checks each page against the state that it must
// lead to: that of the contract, then the one that the page before began with.
func (a *app) auditTopic(ctx context.Context, topic string, j *auditJob) error {
	if j.Last < 0 || j.Out != "" && j.Genesis == "" || j.Checkpoint != "" && j.Genesis == "" {
		return fail(exitUsage, "--last must not be negative, and --out and --checkpoint need --genesis")
	}
	id, err := a.knownTopic(ctx, topic)
	if err != nil {
		return err
	}
	state, file, out, err := a.auditStart(ctx, id, j)
	if err != nil {
		return err
	}
	line := a.progress()
	defer line.end()
	for state.Count > 0 && (j.Last == 0 || len(out.Operations) < j.Last) {
		page := new(auditPage)
		if err := a.ask(ctx, page, "bps_audit", id.Hex(), state); err != nil {
			return err
		}
		list, err := page.check(id, state)
		if err != nil {
			return fail(exitVerify, "the operations of topic %s do not lead to what the contract has: %w", topic, err)
		}
		out.Operations = append(list, out.Operations...)
		file.Batches = append(page.operations(), file.Batches...)
		state = page.From
		line.set("audit: %d of %d operations", len(out.Operations), out.Total)
	}
	line.end()
	out.Before, file.From = uint64(state.Count), state.state()
	if j.Out != "" {
		b, err := file.Encode()
		if err != nil {
			return err
		}
		if err := writeNew(j.Out, b); err != nil {
			return err
		}
	}
	if j.Rights {
		var ops []proof.Operation
		for _, b := range file.Batches {
			list, err := proof.DecodeOperations(b.Entries, int(b.Count))
			if err != nil {
				return err
			}
			ops = append(ops, list...)
		}
		if err := a.judgeRights(ctx, out, ops); err != nil {
			return err
		}
	}
	if err := a.show(out, func(w io.Writer) { out.table(w) }); err != nil || out.Rights == nil {
		return err
	}
	return out.Rights.err(out)
}

// check proves that the page's batches lead to the state asked for.
func (p *auditPage) check(id common.Hash, to logState) ([]audited, error) {
	if len(p.Batches) == 0 || p.From.Count >= to.Count {
		return nil, fmt.Errorf("%w: the node shows none of %d", proof.ErrOperation, to.Count)
	}
	for _, b := range p.Batches {
		if b.Count > contracts.MaxOperations {
			return nil, fmt.Errorf("%w: a batch of %d", proof.ErrOperation, b.Count)
		}
	}
	batches := p.operations()
	list, err := proof.CheckOperations(id, p.From.state(), to.state(), batches)
	if err != nil {
		return nil, err
	}
	return auditedList(batches, list), nil
}

// operations are the page's batches.
func (p *auditPage) operations() []proof.OperationBatch {
	batches := make([]proof.OperationBatch, len(p.Batches))
	for i, b := range p.Batches {
		batches[i] = proof.OperationBatch{Height: uint64(b.Number), Broker: b.Broker, Count: uint32(b.Count), Entries: b.Entries} //nolint:gosec // checked
	}
	return batches
}

// auditedList tells of the operations of batches where they are on record.
func auditedList(batches []proof.OperationBatch, list []proof.Operation) []audited {
	out, i := make([]audited, 0, len(list)), 0
	for _, b := range batches {
		for range b.Count {
			out = append(out, auditedOf(&b, &list[i]))
			i++
		}
	}
	return out
}

func auditedOf(b *proof.OperationBatch, o *proof.Operation) audited {
	x := audited{
		Number: b.Height, Broker: b.Broker, Operator: contracts.UserPrincipal(o.Operator), Operation: kindName(o.Kind), Allowed: !o.Refused(), Code: o.Code,
		Reason: o.Reason, Partition: o.Partition, First: o.First, Last: o.Last, Count: o.Count, Start: o.Start, End: o.End,
	}
	if o.Pseudonym {
		x.Operator = contracts.PseudonymPrincipal(o.Operator)
	}
	if o.Host.IsValid() {
		x.Host = o.Host.String()
	}
	return x
}

func kindName(k proof.Kind) string {
	names := map[proof.Kind]string{
		proof.KindRead: "read", proof.KindWrite: "write", proof.KindCreate: "create", proof.KindDelete: "delete", proof.KindAlter: "alter",
		proof.KindDescribe: "describe", proof.KindDescribeConfigs: "describe configs", proof.KindAlterConfigs: "alter configs",
	}
	if s, ok := names[k]; ok {
		return s
	}
	return fmt.Sprintf("operation %d", k)
}

func (r *auditResult) table(w io.Writer) {
	rows := make([][]string, len(r.Operations))
	for i := range r.Operations {
		o := &r.Operations[i]
		result := "allowed"
		if !o.Allowed {
			result = strings.TrimSpace(fmt.Sprintf("refused (%d) %s", o.Code, clean(o.Reason)))
		}
		if o.Verdict == verdicts[proof.Unlawful] || o.Verdict == verdicts[proof.Withheld] {
			result += " (" + strings.ToUpper(o.Verdict) + ")"
		}
		rows[i] = []string{time.UnixMilli(o.End).UTC().Format(time.DateTime), o.Operator, o.Operation, placeText(o), fmt.Sprint(o.Count), result, o.Host, fmt.Sprint(o.Number)}
	}
	columns(w, []string{"TIME (UTC)", "WHO", "WHAT", "WHERE", "TIMES", "RESULT", "FROM", "BLOCK"}, rows)
	fmt.Fprintf(w, "good: none of these %s is missing", plural(len(rows), "operation"))
	if r.Before > 0 {
		fmt.Fprintf(w, "; there are %d older ones, --last 0 shows all", r.Before)
	}
	fmt.Fprintln(w)
	if r.Proved {
		fmt.Fprintf(w, "that these are the newest is proved as of block %d (%s)\n", r.Number, time.Unix(int64(r.Time), 0).UTC().Format(time.DateTime+" UTC")) //nolint:gosec // a header's time
	} else {
		fmt.Fprintln(w, "that these are the newest is the node's word; --genesis proves it")
	}
	if r.Rights != nil {
		r.Rights.table(w)
	}
	if r.File != "" {
		fmt.Fprintf(w, "%s has them; check it with borcli topic verify\n", r.File)
	}
}

func placeText(o *audited) string {
	switch {
	case o.Partition < 0:
		return "topic"
	case o.First < 0:
		return fmt.Sprintf("partition %d", o.Partition)
	}
	return fmt.Sprintf("partition %d, offsets %d to %d", o.Partition, o.First, o.Last)
}

// knownTopic is the id of a topic by its name, or by itself: then nothing is asked.
func (a *app) knownTopic(ctx context.Context, text string) (common.Hash, error) {
	if strings.HasPrefix(text, "0x") && !strings.Contains(text, ".") {
		return a.topicID(ctx, nil, text)
	}
	at, err := a.newest(ctx)
	if err != nil {
		return common.Hash{}, err
	}
	return a.topicID(ctx, at, text)
}
