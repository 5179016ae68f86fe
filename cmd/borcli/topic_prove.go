package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/token"
)

type proveJob struct {
	Records     uint64
	Out         string
	DigestsOnly bool
	Checkpoint  string
	Token       string // file
}

// provenFile is what topic prove wrote.
type provenFile struct {
	File      string      `json:"file"`
	Bytes     int         `json:"bytes"`
	Topic     common.Hash `json:"topic"`
	Partition int32       `json:"partition"`
	From      int64       `json:"from"`
	To        int64       `json:"to"`
	Seq       uint64      `json:"checkpoint"`
	Number    uint64      `json:"block"`
	Batches   bool        `json:"batches"`
}

func (a *app) proveTopic(ctx context.Context, args []string, j proveJob) error {
	if j.Out == "" {
		return fail(exitUsage, "name the file to write with --out")
	}
	partition, err := strconv.ParseUint(args[1], 10, 31)
	if err != nil {
		return fail(exitUsage, "PARTITION: %.40q is no partition's number", args[1])
	}
	offset, err := strconv.ParseUint(args[2], 10, 62)
	if err != nil {
		return fail(exitUsage, "OFFSET: %.40q is no offset", args[2])
	}
	var trusted any
	if j.Checkpoint != "" {
		c, err := parseCheckpoint(j.Checkpoint)
		if err != nil {
			return fail(exitUsage, "--checkpoint: %w", err)
		}
		trusted = map[string]any{"number": hexutil.Uint64(c.Height), "hash": c.Hash}
	}
	id, err := a.knownTopic(ctx, args[0])
	if err != nil {
		return err
	}
	var got struct {
		Topic     common.Hash    `json:"topic"`
		Partition int32          `json:"partition"`
		From      int64          `json:"from"`
		To        int64          `json:"to"`
		Seq       hexutil.Uint64 `json:"seq"`
		Number    hexutil.Uint64 `json:"number"`
		Batches   bool           `json:"batches"`
		Proof     hexutil.Bytes  `json:"proof"`
	}
	var batches, shown any // null: the batches if the node gives them to this asker
	if j.DigestsOnly {
		batches = false
	} else if j.Token != "" {
		b, err := readFile(j.Token, token.MaxText+2)
		if err != nil {
			return fail(exitUsage, "--token-file: %w", err)
		}
		batches, shown = true, strings.TrimSpace(string(b))
	}
	if err := a.ask(ctx, &got, "bps_proof", id.Hex(), hexutil.Uint64(partition), hexutil.Uint64(offset), hexutil.Uint64(j.Records), batches, trusted, shown); err != nil {
		return err
	}
	if err := writeNew(j.Out, got.Proof); err != nil {
		return err
	}
	f := provenFile{j.Out, len(got.Proof), got.Topic, got.Partition, got.From, got.To, uint64(got.Seq), uint64(got.Number), got.Batches}
	return a.show(f, func(w io.Writer) {
		fmt.Fprintf(w, "%s proves offsets %d to %d of partition %d by checkpoint %d in block %d (%d bytes); check it with borcli topic verify\n",
			f.File, f.From, f.To-1, f.Partition, f.Seq, f.Number, f.Bytes)
		switch {
		case f.Batches || j.DigestsOnly:
		case j.Token == "":
			fmt.Fprintln(w, "the batches are not in it, only their digests: they are given for a token of who may read the topic (--token-file), or on the node's Unix socket, as long as the broker keeps them")
		default:
			fmt.Fprintln(w, "the batches are not in it: the broker keeps them no more; their digests are proved")
		}
	})
}

// writeNew writes a file that must not be there yet.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fail(exitUsage, "%w", err)
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return nil
}

type proofJob struct {
	File, Genesis, Checkpoint, Topic string
	Recoveries                       []string // files of recoveries that whoever checks knows of
	NoRecovery                       bool
}

// checkedProof is what a proof file proves.
type checkedProof struct {
	Chain     uint64         `json:"chainId"`
	Genesis   common.Hash    `json:"genesis"`
	Topic     common.Hash    `json:"topic"`
	Partition int32          `json:"partition"`
	From      int64          `json:"from"` // offsets [from, to)
	To        int64          `json:"to"`
	Batches   int            `json:"batches"`
	WithBytes bool           `json:"withBytes"` // the batches are in the file, not only their digests
	Seq       uint64         `json:"checkpoint"`
	Broker    common.Address `json:"broker"`
	Number    uint64         `json:"block"`
	Hash      common.Hash    `json:"hash"`
	Time      uint64         `json:"time"` // Unix seconds; of the block
	Trusted   bool           `json:"trusted"`

	Recoveries []provenRecovery `json:"recoveries,omitempty"`
}

func (a *app) verifyProof(j proofJob, trust *proof.Trust, raw []byte) error {
	b, err := proof.DecodeBundle(raw)
	if err != nil {
		return err
	}
	v, err := b.Verify(trust, contracts.TopicsAddress)
	if err == nil {
		err = j.of(v.Topic)
	}
	if err != nil {
		return err
	}
	out := checkedProof{
		trust.Params.ChainID, trust.Genesis, v.Topic, v.Partition, v.From, v.To, v.Batches, v.WithBytes, v.Checkpoint.Seq, v.Checkpoint.Broker, v.Height, v.Block, v.Time, j.Checkpoint != "",
		provenRecoveries(v.Recoveries),
	}
	return a.show(out, func(w io.Writer) { out.table(w, j.File) })
}

func (v *checkedProof) table(w io.Writer, file string) {
	lines(w, pair{"file", file}, pair{"chain", fmt.Sprintf("%d, block 0 is %s", v.Chain, v.Genesis)}, pair{"topic", v.Topic.Hex()},
		pair{"records", fmt.Sprintf("partition %d, offsets %d to %d in %s", v.Partition, v.From, v.To-1, batchesText(v.Batches))},
		pair{"checkpoint", fmt.Sprintf("%d, by broker %s", v.Seq, v.Broker)}, pair{"block", fmt.Sprintf("%d %s", v.Number, v.Hash)})
	what := "the batches in the file are"
	if !v.WithBytes {
		what = "batches with the digests in the file are"
	}
	fmt.Fprintf(w, "good: %s what the topic holds at these offsets, on record since %s\n", what, time.Unix(int64(v.Time), 0).UTC().Format(time.DateTime+" UTC")) //nolint:gosec // a header's time
	if v.Trusted {
		fmt.Fprintln(w, "that the block is final rests on the block that you named")
	}
	tellRecoveries(w, v.Recoveries)
}

func batchesText(n int) string {
	if n == 1 {
		return "one batch"
	}
	return fmt.Sprintf("%d batches", n)
}
