package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/client"
	"github.com/bornode/bornode/pubsub/proof"
)

type reportJob struct {
	Genesis, Out     string
	Receipts, Proofs []string
}

func topicReportCommand() *cobra.Command {
	j := new(reportJob)
	return command("report", "Look for what shows that a broker lied, and write it to a file", func(ctx context.Context, a *app, _ []string) error {
		return a.report(ctx, j)
	}, long("Look for what shows that a broker lied, and write it to a file that anybody with the genesis file can judge with borcli\n"+
		"topic verify. With --receipts, receipts of brokers (borcli topic produce --receipts) are held against each other and\n"+
		"against the files of --proof; no node is asked. Without, the node is asked, which must be a broker: a broker keeps what\n"+
		"others signed to it. A broker that lost its disk and went on without it may look like one that lied."),
		flags(func(f *pflag.FlagSet) {
			f.StringVar(&j.Genesis, "genesis", "", "the network's genesis file")
			f.StringVar(&j.Out, "out", "", "file to write; of several, the second is FILE.2")
			f.StringSliceVar(&j.Receipts, "receipts", nil, "files with receipts")
			f.StringSliceVar(&j.Proofs, "proof", nil, "files made by topic prove, to hold receipts against")
		}), example("borcli topic report --genesis genesis.json --out lie.report", "borcli topic report --genesis genesis.json --receipts mine,theirs --proof orders.proof --out lie.report"))
}

// reported is what a report shows.
type reported struct {
	File      string         `json:"file,omitempty"`
	Broker    common.Address `json:"broker"`
	Topic     common.Hash    `json:"topic"`
	Partition int32          `json:"partition"`
	Text      string         `json:"text"`
}

func reportedOf(g *proof.Guilt, file string) reported {
	return reported{file, g.Broker, g.What.Topic, g.What.Partition, g.What.Error()}
}

func (r *reported) table(w io.Writer) {
	lines(w, pair{"broker", r.Broker.Hex()}, pair{"topic", r.Topic.Hex()}, pair{"partition", fmt.Sprint(r.Partition)}, pair{"shown", clean(r.Text)})
}

func (a *app) report(ctx context.Context, j *reportJob) error {
	trust, err := loadTrust(j.Genesis, "")
	if err != nil {
		return err
	}
	if j.Out == "" || len(j.Proofs) > 0 && len(j.Receipts) == 0 {
		return fail(exitUsage, "name the file to write with --out; --proof needs --receipts")
	}
	var files [][]byte
	if len(j.Receipts) > 0 {
		files, err = j.accuse(trust)
	} else {
		var got []struct {
			Report hexutil.Bytes `json:"report"`
		}
		err = a.ask(ctx, &got, "bps_reports")
		for _, x := range got {
			files = append(files, x.Report)
		}
	}
	if err != nil {
		return err
	}
	out := []reported{}
	for i, file := range files {
		r, err := proof.DecodeReport(file)
		if err != nil {
			return fail(exitVerify, "the node's report is not valid: %w", err)
		}
		g, err := r.Judge(trust, contracts.TopicsAddress)
		if err != nil {
			return fail(exitVerify, "the report shows nothing: %w", err)
		}
		name := j.Out
		if i > 0 {
			name = fmt.Sprintf("%s.%d", j.Out, i+1)
		}
		if err := writeNew(name, file); err != nil {
			return err
		}
		out = append(out, reportedOf(g, name))
	}
	return a.show(out, func(w io.Writer) {
		if len(out) == 0 {
			fmt.Fprintln(w, "nothing shows that a broker lied; no file was written")
		}
		for i := range out {
			out[i].table(w)
			fmt.Fprintf(w, "%s shows it; check it with borcli topic verify\n", out[i].File)
		}
	})
}

// accuse holds receipts against each other and against proofs.
func (j *reportJob) accuse(trust *proof.Trust) ([][]byte, error) {
	var receipts []*proof.GivenReceipt
	for _, path := range j.Receipts {
		list, err := readReceipts(path)
		if err != nil {
			return nil, err
		}
		receipts = append(receipts, list...)
	}
	var proofs [][]byte
	for _, path := range j.Proofs {
		b, err := readFile(path, proof.MaxBundleBytes)
		if err != nil {
			return nil, fail(exitUsage, "%w", err)
		}
		proofs = append(proofs, b)
	}
	r, err := proof.Accuse(trust.Genesis, receipts, proofs)
	if err != nil {
		return nil, fail(exitVerify, "%w", err)
	}
	if r == nil {
		return nil, nil
	}
	b, err := r.Encode()
	return [][]byte{b}, err
}

// readReceipts reads a file of receipts, one a line.
func readReceipts(path string) ([]*proof.GivenReceipt, error) {
	b, err := readFile(path, maxFileBytes)
	if err != nil {
		return nil, fail(exitUsage, "%w", err)
	}
	var out []*proof.GivenReceipt
	in := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; in.Scan(); n++ {
		raw, err := hexutil.Decode(in.Text())
		if err != nil {
			return nil, fail(exitUsage, "%s, line %d: %v", path, n, err)
		}
		g, err := proof.DecodeGivenReceipt(raw)
		if err != nil {
			return nil, fail(exitUsage, "%s, line %d: %v", path, n, err)
		}
		out = append(out, g)
	}
	return out, in.Err()
}

// receiptFile is where receipts are added; nil: nowhere.
type receiptFile struct {
	f    *os.File
	last string
}

func keepReceipts(path string) (*receiptFile, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fail(exitUsage, "--receipts: %w", err)
	}
	return &receiptFile{f: f}, nil
}

// add writes a receipt, once for all records of its batch.
func (k *receiptFile) add(r *client.Receipt) error {
	if k == nil {
		return nil
	}
	g := proof.GivenReceipt{Placed: r.Placed, Receipt: r.Receipt}
	line := hexutil.Encode(g.Encode())
	if line == k.last {
		return nil
	}
	k.last = line
	if _, err := fmt.Fprintln(k.f, line); err != nil {
		return fmt.Errorf("keep a receipt: %w", err)
	}
	return nil
}

func (k *receiptFile) close() {
	if k != nil {
		_ = k.f.Close()
	}
}

// verifyReport judges a report.
func (a *app) verifyReport(j proofJob, trust *proof.Trust, raw []byte) error {
	r, err := proof.DecodeReport(raw)
	if err != nil {
		return err
	}
	g, err := r.Judge(trust, contracts.TopicsAddress)
	if err == nil {
		err = j.of(g.What.Topic)
	}
	if err != nil {
		return err
	}
	out := reportedOf(g, j.File)
	return a.show(out, func(w io.Writer) {
		out.table(w)
		fmt.Fprintln(w, "good: the account signed what cannot both be true; borcli topic brokers shows whose it is")
	})
}
