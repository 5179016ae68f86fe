package forge

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// A history is as large as planned, its blocks are a chain, and its records prove all but the trailing blocks final.
func TestMake(t *testing.T) {
	for _, kind := range []string{Transfers, Payloads, Empty} {
		p, err := PlanOf(kind)
		require.NoError(t, err)
		if p.Blocks = 3; kind == Payloads {
			p.Blocks, p.Bytes = 0, 1<<20
		}
		var last *block.Block
		proven := uint64(0)
		gen, totals, err := Make(t.Context(), t.TempDir(), p, func(raw []byte) error {
			b, err := block.DecodeBlock(raw, 0)
			require.NoError(t, err)
			if last != nil {
				require.Equal(t, last.Hash(), b.Parent())
			}
			if last = b; b.Record.FC != nil {
				proven++
			}
			return nil
		})
		require.NoError(t, err)
		require.NotNil(t, gen)
		require.EqualValues(t, totals.Blocks, last.Number())
		require.GreaterOrEqual(t, proven+Trailing, last.Number(), kind)
		require.Equal(t, (totals.Blocks-Trailing)*p.Txs, totals.Transactions)
		if kind == Payloads {
			require.GreaterOrEqual(t, totals.Bytes, p.Bytes)
			require.Less(t, totals.Bytes, p.Bytes+1<<20)
		}
	}
	_, err := PlanOf("songs")
	require.ErrorContains(t, err, "songs")
}

// A history of tokens deploys the contract, gives every account some, and each of its transactions moves some: it has an
// event and changes two balances.
func TestMakeTokens(t *testing.T) {
	p := Plan{Kind: Tokens, Txs: 4, Accounts: 6, Blocks: 3}
	var blocks []*block.Block
	_, totals, err := Make(t.Context(), t.TempDir(), p, func(raw []byte) error {
		b, err := block.DecodeBlock(raw, 0)
		blocks = append(blocks, b)
		return err
	})
	require.NoError(t, err)
	require.Equal(t, 1+2+3+Trailing, totals.Blocks)
	require.Equal(t, 1+6+3*4, totals.Transactions)
	for _, b := range blocks[1 : len(blocks)-Trailing] {
		require.True(t, types.BloomLookup(b.Header.Bloom, common.BytesToHash(transferEvent)), "block %d", b.Number())
		require.Greater(t, b.Header.GasUsed, uint64(len(b.Transactions))*30_000)
		require.Less(t, b.Header.GasUsed, uint64(len(b.Transactions))*tokenGas, "none failed")
	}
	to := make(map[string]bool)
	for _, b := range blocks[3:6] {
		for i, tx := range b.Transactions {
			require.NotEqual(t, b.Senders[i][:], tx.Data()[16:36], "to another account")
			to[string(tx.Data()[16:36])] = true
		}
	}
	require.Greater(t, len(to), 3)
}

// A kept history is made once; one that was left half made, or by another version, is made again.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	p, err := PlanOf(Transfers)
	require.NoError(t, err)
	p.Blocks = 2
	made := 0
	keep := func() *Stored {
		s, err := Keep(t.Context(), dir, "small", p, func(string) { made++ })
		require.NoError(t, err)
		return s
	}
	first := keep()
	require.EqualValues(t, 2+Trailing, first.Height)
	require.LessOrEqual(t, first.LIB, first.Height)
	require.Greater(t, first.LIB, first.Height-Trailing)
	require.Equal(t, first, keep())
	require.Equal(t, 1, made)

	file := filepath.Join(first.Dir, storedFile)
	require.NoError(t, os.Remove(file))
	second := keep()
	require.NotEqual(t, first.Hash, second.Hash)
	require.NoError(t, os.WriteFile(file, []byte(`{"version":0}`), 0o600))
	keep()
	require.Equal(t, 3, made)
	require.NoError(t, os.WriteFile(file, []byte(`{`), 0o600))
	_, err = Keep(t.Context(), dir, "small", p, func(string) {})
	require.ErrorContains(t, err, storedFile)
}
