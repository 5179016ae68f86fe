package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/client"
	"github.com/bornode/bornode/pubsub/proof"
)

func TestReportNamesTheBroker(t *testing.T) {
	c := newProvingChain(t)
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	sign := func(d common.Hash) ([]byte, error) { return crypto.Sign(d[:], key) }
	dir := t.TempDir()
	receipts := func(name string, digest byte) string {
		p := proof.Placed{Topic: c.bundle.Head.Topic, Leaf: c.bundle.Leaves[0]}
		p.Leaf.Digest[0] ^= digest
		r, err := proof.SignReceipts(c.bundle.Genesis, 1, []proof.Placed{p}, sign)
		require.NoError(t, err)
		file := filepath.Join(dir, name)
		k, err := keepReceipts(file)
		require.NoError(t, err)
		for range 2 { // records of one batch
			require.NoError(t, k.add(&client.Receipt{Receipt: r[0], Placed: p}))
		}
		k.close()
		return file
	}
	honest, lie := receipts("honest", 0), receipts("lie", 1)
	list, err := readReceipts(honest)
	require.NoError(t, err)
	require.Len(t, list, 1)
	enc, err := c.bundle.Encode()
	require.NoError(t, err)
	proofFile := filepath.Join(dir, "proof")
	require.NoError(t, os.WriteFile(proofFile, enc, 0o600))
	report := func(args ...string) outcome {
		return run(t, append([]string{"topic", "report", "--genesis", c.genesis}, args...)...)
	}
	broker := crypto.PubkeyToAddress(key.PublicKey).Hex()

	require.Contains(t, report("--receipts", honest, "--proof", proofFile, "--out", filepath.Join(dir, "none")).succeeds(t).out, "nothing shows")
	require.NoFileExists(t, filepath.Join(dir, "none"))
	for i, args := range [][]string{{"--receipts", honest + "," + lie}, {"--receipts", lie, "--proof", proofFile}} {
		out := filepath.Join(dir, "report"+itoa(uint64(i)))
		require.Contains(t, report(append(args, "--out", out)...).succeeds(t).out, broker)
		require.Contains(t, run(t, "topic", "verify", out, "--genesis", c.genesis).succeeds(t).out, broker)
		raw, err := os.ReadFile(out)
		require.NoError(t, err)
		s := newNode(t)
		s.on("bps_reports", func([]json.RawMessage) (any, error) {
			return []any{map[string]any{"report": hexutil.Bytes(raw)}, map[string]any{"report": hexutil.Bytes(raw)}}, nil
		})
		report("--out", out+"-asked", "--node", s.url).succeeds(t)
		require.FileExists(t, out+"-asked.2")
		raw[len(raw)-40] ^= 1
		report("--out", out+"-bad", "--node", s.url).fails(t, exitVerify, "report")
		require.NoError(t, os.WriteFile(out, raw, 0o600))
		run(t, "topic", "verify", out, "--genesis", c.genesis).fails(t, exitVerify, "is not valid")
	}
	report("--receipts", proofFile, "--out", filepath.Join(dir, "x")).fails(t, exitUsage, "line 1")
	report("--proof", proofFile, "--out", filepath.Join(dir, "x")).fails(t, exitUsage, "needs --receipts")
	report().fails(t, exitUsage, "--out")
}
