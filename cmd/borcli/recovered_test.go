package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/recovery"
)

// recovery is one that goes on from a block of the history, signed by its only producer, who keeps its seat.
func (h *history) recovery(t *testing.T, base *block.Block, number uint64, previous common.Hash) *recovery.Signed {
	t.Helper()
	s := recovery.Statement{
		Genesis: h.domain.Genesis, Number: number, Previous: previous, FirstSlot: base.Slot() + 1, Reason: "a fire", Time: base.Header.Time, MayUndo: true,
		Base:  recovery.Base{Block: recovery.Block{Height: base.Number(), Slot: base.Slot(), Hash: base.Hash(), StateRoot: base.Header.Root}},
		Seats: []recovery.Seat{{Account: h.keys.Account(), SealKey: h.keys.Account(), VoteKey: h.keys.VoteKey(), Proof: h.keys.ProvePossession(forge.ChainID)}},
	}
	out := &recovery.Signed{Statement: s}
	seal, err := h.keys.SignSeal(out.Hash())
	require.NoError(t, err)
	require.NoError(t, out.AddSignature(recovery.Signature{Signer: h.keys.Account(), Seal: seal}))
	return out
}

// saved writes a recovery to a file.
func saved(t *testing.T, r *recovery.Signed) string {
	t.Helper()
	b, err := json.Marshal(r)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "recovery.json")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

// The last block of a file goes on by the second of two recoveries. The file is checked with both, in any order; they must be
// signed, and none may be missing.
func TestVerifyExportOfARecoveredChain(t *testing.T) {
	h := makeHistory(t).clone(t)
	base := h.blocks[len(h.blocks)-2]
	first := h.recovery(t, base, 1, common.Hash{})
	second := h.recovery(t, base, 2, first.Hash())
	h.domain.Recovery = second.Hash()
	h.forgeLast(t, func(_ *types.Header, r *block.Record) { r.Recovery = second.Hash() })
	h.blocks = h.blocks[1:]
	check := func(list ...*recovery.Signed) error {
		_, err := h.verify(t, func(j *verifyJob) {
			j.Checkpoint, j.Recoveries = &checkpoint{h.last().Number(), h.last().Hash()}, list
		})
		return err
	}
	require.NoError(t, check(first, second))
	require.NoError(t, check(second, first))
	require.ErrorContains(t, check(), "goes on by recovery "+second.Hash().Hex())
	require.ErrorContains(t, check(first), "goes on by recovery "+second.Hash().Hex())
	require.ErrorContains(t, check(second), "--recovery")
	require.ErrorContains(t, check(&recovery.Signed{Statement: first.Statement}, second), "0 of the 1 recovery keys signed")
}

// What whoever checks a proof says of recoveries reaches the check, for each kind of file.
func TestProofsAreCheckedWithKnownRecoveries(t *testing.T) {
	h := makeHistory(t)
	r := h.recovery(t, h.last(), 1, common.Hash{})
	var trust proof.Trust
	j := proofJob{Recoveries: []string{saved(t, r)}, NoRecovery: true}
	require.NoError(t, j.knowRecoveries(&trust))
	require.True(t, trust.NoRecovery)
	require.Len(t, trust.Recoveries, 1)
	require.Equal(t, r.Hash(), trust.Recoveries[0].Hash())

	c := newProvingChain(t)
	raw, err := c.bundle.Encode()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "x.proof")
	require.NoError(t, os.WriteFile(file, raw, 0o600))
	verify := []string{"topic", "verify", file, "--genesis", c.genesis}
	run(t, append(verify, "--no-recovery", "--recovery", saved(t, r))...).succeeds(t)
	run(t, append(verify, "--recovery", filepath.Join(t.TempDir(), "missing"))...).fails(t, exitUsage, "missing")
	run(t, append(verify, "--recovery", c.genesis)...).fails(t, exitUsage, c.genesis)
}

// A proof says what it rests on beside votes, and when final blocks may have been undone.
func TestProofsNameTheirRecoveries(t *testing.T) {
	h := makeHistory(t)
	r := h.recovery(t, h.last(), 1, common.Hash{})
	var said bytes.Buffer
	tellRecoveries(&said, provenRecoveries([]*recovery.Signed{r}))
	require.Contains(t, said.String(), r.Hash().Hex())
	require.Contains(t, said.String(), "1 accounts signed outside the chain, and final blocks may have been undone there: a fire")
	said.Reset()
	r.Statement.MayUndo = false
	tellRecoveries(&said, provenRecoveries([]*recovery.Signed{r}))
	require.NotContains(t, said.String(), "undone")
}
