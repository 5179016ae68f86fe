package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/recovery"
)

// provenRecovery is a recovery that a proof rests on.
type provenRecovery struct {
	Hash    common.Hash `json:"hash"`
	Domain  uint64      `json:"domain"`
	Base    uint64      `json:"base"` // height of the block that the chain goes on from
	Reason  string      `json:"reason"`
	MayUndo bool        `json:"mayUndo"`
	Signers int         `json:"signers"`
}

func provenRecoveries(list []*recovery.Signed) (out []provenRecovery) {
	for _, r := range list {
		s := &r.Statement
		out = append(out, provenRecovery{r.Hash(), s.Number, s.Base.Height, s.Reason, s.MayUndo, len(r.Signatures)})
	}
	return out
}

// tellRecoveries says what a proof rests on beside votes of producers.
func tellRecoveries(w io.Writer, list []provenRecovery) {
	for _, r := range list {
		undone := ""
		if r.MayUndo {
			undone = ", and final blocks may have been undone there"
		}
		fmt.Fprintf(w, "behind block %d it rests on recovery %d, %s, which %d accounts signed outside the chain%s: %s\n", r.Base, r.Domain, r.Hash, r.Signers, undone, clean(r.Reason))
	}
}

// knowRecoveries adds to the trust what whoever checks knows, or refuses, of recoveries.
func (j *proofJob) knowRecoveries(t *proof.Trust) (err error) {
	t.NoRecovery = j.NoRecovery
	t.Recoveries, err = readRecoveries(j.Recoveries)
	return err
}

// readRecoveries reads files of recoveries. Whether they were signed is not asked.
func readRecoveries(paths []string) (out []*recovery.Signed, err error) {
	for _, path := range paths {
		b, err := readFile(path, recovery.MaxFileBytes)
		if err != nil {
			return nil, fail(exitUsage, "%w", err)
		}
		r := new(recovery.Signed)
		if err := json.Unmarshal(b, r); err != nil {
			return nil, fail(exitUsage, "%s: %w", path, err)
		}
		out = append(out, r)
	}
	return out, nil
}
