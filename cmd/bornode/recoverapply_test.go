package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/node"
	"github.com/bornode/bornode/recovery"
)

// folder is that of a node without blocks.
func (w *recoveryWorld) folder() string {
	dir := w.t.TempDir()
	c := config.Default()
	c.Genesis = w.path("genesis.json")
	require.NoError(w.t, config.Write(filepath.Join(dir, config.FileName), c, false))
	return dir
}

// signedBy is a statement's file with the signatures of so many recovery keys, each with a log of its own.
func (w *recoveryWorld) signedBy(n int, name string, tweak func(*recovery.Statement)) (path string, hash common.Hash) {
	path, hash = w.statement(name, tweak)
	for i := range n {
		_, err := w.sign(path, w.key(i), hash, "--log", w.path(name+w.signers[i].Account().Hex()))
		require.NoError(w.t, err)
	}
	return path, hash
}

// What operators have to decide ends with the exit code of a refusal, and applies nothing; of two rivals the one that is named counts.
func TestRefusedApplicationsHaveTheirCode(t *testing.T) {
	w := newRecoveryWorld(t)
	dir := w.folder()
	few, fewHash := w.signedBy(2, "few.json", nil)
	path, hash := w.signedBy(3, "r.json", nil)
	require.Equal(t, fewHash, hash)
	rival, rivalHash := w.signedBy(3, "rival.json", func(s *recovery.Statement) { s.Reason = "another" })
	refused := func(words string, args ...string) {
		t.Helper()
		_, err := w.run(append([]string{"apply", "--dir", dir}, args...)...)
		require.ErrorContains(t, err, words)
		require.Equal(t, exit.Refused, exit.Code(err))
	}
	refused("2 of the 4 recovery keys signed", few)
	refused("nothing was applied", path, "--hash", rivalHash.Hex())
	_, err := w.run("apply", "--dir", dir, path, "--hash", "0x12")
	require.ErrorContains(t, err, "is no hash")
	require.Equal(t, exit.Failure, exit.Code(err))

	b, err := os.ReadFile(rival)
	require.NoError(t, err)
	shown := filepath.Join(dir, node.RecoveryFolder)
	require.NoError(t, os.MkdirAll(shown, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(shown, "shown-"+rivalHash.Hex()[2:]+".json"), b, 0o600))
	refused("another recovery with the same predecessor", path)
	said, err := w.run("apply", "--dir", dir, path, "--hash", hash.Hex())
	require.NoError(t, err)
	require.Contains(t, said, "THE BASE IS NOT HERE")
	refused("another recovery with the same predecessor", rival, "--hash", rivalHash.Hex())
	said, err = w.run("apply", "--dir", dir, path)
	require.NoError(t, err)
	require.Contains(t, said, "was applied to")
}

// A log lists what several keys signed, of several chains: a key's own entries of this chain alone count. While another process
// writes it, nothing is signed.
func TestOneLogForSeveralKeysAndChains(t *testing.T) {
	w := newRecoveryWorld(t)
	path, log := w.path("log"), common.Address{1}
	now := time.Unix(1_700_000_000, 0)
	s := recovery.Statement{Genesis: common.Hash{1}, Number: 1, Reason: "a"}
	other, foreign := s, s
	other.Reason, foreign.Genesis = "b", common.Hash{2}
	require.NoError(t, recordSigned(path, log, &s, now))
	require.NoError(t, recordSigned(path, common.Address{2}, &other, now), "another key's choice")
	require.NoError(t, recordSigned(path, log, &foreign, now), "another chain's recovery")
	require.Equal(t, exit.Refused, exit.Code(recordSigned(path, log, &other, now)))
	var list []signedEntry
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &list))
	require.Len(t, list, 3)

	lock, err := vfs.OS(w.dir, vfs.Private).Lock("log.lock")
	require.NoError(t, err)
	require.ErrorContains(t, recordSigned(path, log, &s, now), "lock the log")
	require.NoError(t, lock.Close())
	require.NoError(t, recordSigned(path, log, &s, now))
}

// Whoever signs reads that final blocks may be undone, and whose signatures count for nothing.
func TestShowWarns(t *testing.T) {
	w := newRecoveryWorld(t)
	plain, _ := w.statement("plain.json", nil)
	said, err := w.run("show", plain)
	require.NoError(t, err)
	require.NotContains(t, said, "MAY BE UNDONE")
	path, hash := w.statement("undo.json", func(s *recovery.Statement) { s.MayUndo = true })
	s := new(recovery.Signed)
	require.NoError(t, readDocument(path, s))
	stranger, err := signer.Generate(rand.Reader)
	require.NoError(t, err)
	seal, err := stranger.SignSeal(hash)
	require.NoError(t, err)
	require.NoError(t, s.AddSignature(recovery.Signature{Signer: stranger.Account(), Seal: seal}))
	require.NoError(t, writeDocument(nil, path, s))
	said, err = w.run("show", path, "--genesis", w.path("genesis.json"))
	require.NoError(t, err)
	require.Contains(t, said, "FINAL BLOCKS MAY BE UNDONE")
	require.Contains(t, said, stranger.Account().Hex()+" (no recovery key of the genesis file)")
	require.Contains(t, said, "0 of 4 recovery keys signed, 3 have to: 3 are missing")
}

// A folder whose final chain does not lead to the base is refused by the same code, and its operator finds the evidence.
func TestApplicationsToAnotherHistoryHaveTheirCode(t *testing.T) {
	f, err := forge.New(t.Context(), filepath.Join(t.TempDir(), "forge"), forge.Options{Blocks: 20})
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // a test's end
	for range 6 {
		_, err := f.Next(t.Context(), nil)
		require.NoError(t, err)
	}
	var file bytes.Buffer
	require.NoError(t, f.Export(t.Context(), &file))
	w := &recoveryWorld{t: t, dir: t.TempDir(), gen: f.Genesis(), signers: []*signer.Local{f.Keys()}}
	require.NoError(t, w.gen.Write(w.path("genesis.json")))
	require.NoError(t, w.signers[0].Save(w.key(0)))
	dir := w.folder()
	c, err := loadConfig(dir, nil)
	require.NoError(t, err)
	blocks, err := blockstore.NewImportReader(&file, 0)
	require.NoError(t, err)
	_, final, err := node.Import(t.Context(), c, blocks, zap.NewNop(), func(uint64) {})
	require.NoError(t, err)
	require.Greater(t, final, uint64(3))

	zero, err := w.gen.Block()
	require.NoError(t, err)
	p, key := w.gen.Parameters(), w.signers[0]
	s := recovery.Statement{
		Genesis: zero.Hash(), Number: 1, Base: recovery.Base{Block: recovery.Block{Height: 2, Slot: 20, Hash: common.Hash{1}, StateRoot: common.Hash{2}}},
		FirstSlot: 40, Reason: "a fire", Time: uint64(p.SlotStart(30).Unix()) + 1, //nolint:gosec // after 1970
		Seats: []recovery.Seat{{Account: key.Account(), SealKey: key.Account(), VoteKey: key.VoteKey(), Proof: key.ProvePossession(p.ChainID)}},
	}
	path := w.path("r.json")
	require.NoError(t, writeDocument(nil, path, &recovery.Signed{Statement: s}))
	_, err = w.sign(path, w.key(0), s.Hash())
	require.NoError(t, err)
	_, err = w.run("apply", "--dir", dir, path)
	require.ErrorContains(t, err, "does not lead to the recovery's base")
	require.Equal(t, exit.Refused, exit.Code(err))
	found := consensus.CheckForkEvidence(c.Path(c.Consensus.Dir))
	require.Len(t, found, 1)
	names, err := filepath.Glob(filepath.Join(c.Path(c.Consensus.Dir), "fork-*"))
	require.NoError(t, err)
	require.Len(t, names, 1)
}

// What was set aside is told as what it is: without the base nobody knows which blocks stay, and where the blocks go by the recovery
// already nothing is.
func TestWhatAnApplicationSays(t *testing.T) {
	for _, x := range []struct {
		done        node.AppliedRecovery
		says, hides string
	}{
		{node.AppliedRecovery{SetAside: "aside", Undone: 3, HasBase: true}, "3 blocks above the base", "not known"},
		{node.AppliedRecovery{SetAside: "aside", Undone: 3}, "it is not known which of them stay", "above the base"},
		{node.AppliedRecovery{HasBase: true, Continued: true}, "nothing is set aside", "DOES NOT START"},
		{node.AppliedRecovery{HasBase: true, Continued: true, Later: common.Hash{5}}, "goes on by recovery " + common.Hash{5}.Hex(), "copied"},
	} {
		var said bytes.Buffer
		require.NoError(t, describeApplied(&said, "folder", new(recovery.Signed), &x.done))
		require.Contains(t, said.String(), x.says)
		require.NotContains(t, said.String(), x.hides)
	}
}
