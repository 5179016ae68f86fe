package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/pubsub/proof"
)

// loadTrust reads what proofs begin with: the genesis file, and a block that is known if one is named.
func loadTrust(file, known string) (*proof.Trust, error) {
	if file == "" {
		return nil, fail(exitUsage, "name the network's genesis file with --genesis")
	}
	gen, err := genesis.Load(file)
	if err != nil {
		return nil, fail(exitUsage, "%w", err)
	}
	trust, err := proof.TrustGenesis(gen)
	if err != nil {
		return nil, fail(exitUsage, "%s: %w", file, err)
	}
	if known != "" {
		c, err := parseCheckpoint(known)
		if err != nil {
			return nil, fail(exitUsage, "--checkpoint: %w", err)
		}
		trust.Checkpoint = &proof.Checkpoint{Height: c.Height, Hash: c.Hash}
	}
	return trust, nil
}

// operationsPlace is where Topics keeps a topic's log of operations.
func operationsPlace(id common.Hash) proof.Place {
	p := proof.Place{Contract: contracts.TopicsAddress}
	p.Counts, p.Root = contracts.OperationsSlots(id)
	return p
}

// auditStart is the state of the log that an audit goes back from: proved where there is a genesis file, else the node's
// word. The file lacks the operations; the result has no operations yet.
func (a *app) auditStart(ctx context.Context, id common.Hash, j *auditJob) (s logState, file *proof.Audit, out *auditResult, err error) {
	if j.Genesis == "" {
		err = a.ask(ctx, &s, "bps_operations", id.Hex())
		return s, new(proof.Audit), &auditResult{Topic: id, Total: uint64(s.Count), Root: s.Root}, err
	}
	trust, err := loadTrust(j.Genesis, j.Checkpoint)
	if err != nil {
		return s, nil, nil, err
	}
	var trusted any
	if c := trust.Checkpoint; c != nil {
		trusted = map[string]any{"number": hexutil.Uint64(c.Height), "hash": c.Hash}
	}
	var got struct {
		Proof hexutil.Bytes `json:"proof"`
	}
	if err = a.ask(ctx, &got, "bps_operationsProof", id.Hex(), trusted); err != nil {
		return s, nil, nil, err
	}
	if file, err = proof.DecodeAudit(got.Proof); err != nil {
		return s, nil, nil, fail(exitVerify, "the node's proof is not valid: %w", err)
	}
	if file.Topic != id || len(file.Batches) > 0 {
		return s, nil, nil, fail(exitVerify, "the node's proof is of topic %s with %d batches, asked for was the state of %s; ask another node", file.Topic, len(file.Batches), id)
	}
	v, err := file.Verify(trust, operationsPlace(id))
	if err != nil {
		return s, nil, nil, fail(exitVerify, "the node's proof is not valid: %w", err)
	}
	s = logState{hexutil.Uint64(v.To.Count), v.To.Root, hexutil.Uint64(v.To.Height)}
	return s, file, &auditResult{Topic: id, Total: v.To.Count, Root: v.To.Root, Proved: true, Number: file.Height, Hash: v.Block, Time: v.Time, File: j.Out}, nil
}

// verifyFile checks a file of one of the kinds that this program makes.
func (a *app) verifyFile(j proofJob) error {
	trust, err := loadTrust(j.Genesis, j.Checkpoint)
	if err == nil {
		err = j.knowRecoveries(trust)
	}
	if err != nil {
		return err
	}
	raw, err := readFile(j.File, proof.MaxBundleBytes)
	if err != nil {
		return fail(exitUsage, "%w", err)
	}
	if j.Topic != "" {
		if _, err := parseHash(j.Topic); err != nil {
			return fail(exitUsage, "--topic: %v", err)
		}
	}
	check := a.verifyProof
	switch {
	case proof.IsAudit(raw):
		check = a.verifyAudit
	case proof.IsReport(raw):
		check = a.verifyReport
	}
	if err := check(j, trust, raw); err != nil {
		return fail(exitVerify, "%s is not valid: %w", j.File, err)
	}
	return nil
}

// of refuses a file of another topic than was asked for.
func (j *proofJob) of(topic common.Hash) error {
	if want := common.HexToHash(j.Topic); j.Topic != "" && want != topic {
		return fmt.Errorf("it is of topic %s, asked for was %s", topic, want)
	}
	return nil
}

// checkedAudit is what an audit file proves.
type checkedAudit struct {
	Chain   uint64      `json:"chainId"`
	Genesis common.Hash `json:"genesis"`
	Trusted bool        `json:"trusted"`
	auditResult
	Recoveries []provenRecovery `json:"recoveries,omitempty"`
}

func (a *app) verifyAudit(j proofJob, trust *proof.Trust, raw []byte) error {
	f, err := proof.DecodeAudit(raw)
	if err != nil {
		return err
	}
	v, err := f.Verify(trust, operationsPlace(f.Topic))
	if err == nil {
		err = j.of(f.Topic)
	}
	if err != nil {
		return err
	}
	out := checkedAudit{trust.Params.ChainID, trust.Genesis, trust.Checkpoint != nil, auditResult{
		Topic: f.Topic, Before: f.From.Count, Total: v.To.Count, Root: v.To.Root, Proved: true, Number: f.Height, Hash: v.Block, Time: v.Time,
		Operations: auditedList(f.Batches, v.Operations),
	}, provenRecoveries(v.Recoveries)}
	return a.show(out, func(w io.Writer) { out.table(w, j.File) })
}

func (c *checkedAudit) table(w io.Writer, file string) {
	lines(w, pair{"file", file}, pair{"chain", fmt.Sprintf("%d, block 0 is %s", c.Chain, c.Genesis)}, pair{"topic", c.Topic.Hex()},
		pair{"block", fmt.Sprintf("%d %s of %s", c.Number, c.Hash, time.Unix(int64(c.Time), 0).UTC().Format(time.DateTime+" UTC"))}) //nolint:gosec // a header's time
	c.auditResult.table(w)
	if c.Trusted {
		fmt.Fprintln(w, "that the block is final rests on the block that you named")
	}
	tellRecoveries(w, c.Recoveries)
}
