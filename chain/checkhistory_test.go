package chain

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// noHeaders is a store without blocks.
type noHeaders struct{ StoredHeaders }

func (noHeaders) LIB() (uint64, common.Hash)          { return 0, common.Hash{} }
func (noHeaders) Reversible() ([]*block.Block, error) { return nil, nil }

// Files of the state's history that lost what the state needs cost a rebuild, so the check tells a problem; ends that a
// crash left uneven behind that cost nothing.
func TestCheckTellsLostHistoryFromATornEnd(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	n.finalize(n.branch(n.Head(), 40, 0, 50)...)
	require.NoError(t, n.states.trie().Commit(n.Head().Header.Root, false))
	require.NoError(t, n.Close())
	dir := filepath.Join(n.cfg.ancientDir(), "state")
	whole, err := wholeHistory(dir)
	require.NoError(t, err)
	require.EqualValues(t, 41, whole, "that of block 0 and 40 blocks")

	halve := func(b []byte) []byte { return b[:len(b)/12*6] }
	empty := func([]byte) []byte { return nil }
	grow := func(b []byte) []byte { return append(b, 1, 2, 3) }
	_, lost, err := CheckState(context.Background(), n.cfg, noHeaders{}, false)
	require.NoError(t, err)
	require.Len(t, lost, 1, "blocks that are gone")
	require.Contains(t, lost[0].Problem, "no block is stored")
	require.False(t, lost[0].Harmless)

	for _, c := range []struct {
		name   string
		change func([]byte) []byte // nil: the file goes
		lost   bool
	}{
		{"history.meta.0000.rdat", nil, true},
		{"history.meta.0000.rdat", empty, true},
		{"history.meta.ridx", empty, true},
		{"account.data.cidx", nil, true},
		{"account.data.cidx", halve, true},
		{"account.data.0000.cdat", halve, true},
		{"account.data.0000.cdat", grow, false},
		{"account.data.cidx", grow, false},
	} {
		path := filepath.Join(dir, c.name)
		was, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, os.Remove(path))
		if c.change != nil {
			require.NoError(t, os.WriteFile(path, c.change(append([]byte(nil), was...)), 0o600))
		}
		_, findings, err := CheckState(context.Background(), n.cfg, n.store, false)
		require.NoError(t, err)
		require.Len(t, findings, 1, c.name)
		require.Equal(t, !c.lost, findings[0].Harmless, "%s: %+v", c.name, findings[0])
		require.NoError(t, os.WriteFile(path, was, 0o600))
	}
	_, findings, err := CheckState(context.Background(), n.cfg, n.store, false)
	require.NoError(t, err)
	require.Empty(t, findings)
}
