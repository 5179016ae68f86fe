package bench

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/bench/figures"
	"github.com/bornode/bornode/bench/forge"
)

// The parts are all files of a folder, each once, and the state is told from its history and from the index of that.
func TestDiskPartsAddUp(t *testing.T) {
	h, err := makeHistory(t.Context(), forge.Plan{Kind: forge.Tokens, Txs: 4, Accounts: 20, Blocks: firstPart + 12})
	require.NoError(t, err)
	g, err := makeGethHistory(h)
	require.NoError(t, err)
	both := map[string]func(ctx context.Context, dir string) (map[string]int64, error){
		"bornode":     func(ctx context.Context, dir string) (map[string]int64, error) { return growOurs(ctx, dir, h) },
		"go-ethereum": func(ctx context.Context, dir string) (map[string]int64, error) { return growGeth(ctx, dir, g) },
	}
	for program, measure := range both {
		t.Run(program, func(t *testing.T) {
			dir := t.TempDir()
			parts, err := measure(t.Context(), dir)
			require.NoError(t, err)
			sum := int64(0)
			for part, bytes := range parts {
				require.Contains(t, DiskParts, part)
				sum += bytes
			}
			require.Equal(t, bytesBelow(t, dir, ""), sum)
			for _, part := range []string{PartBlocks, PartHeights, PartLogs, PartState, PartHistory} {
				require.Positive(t, parts[part], part)
			}
			if program != "bornode" {
				return
			}
			require.Equal(t, bytesBelow(t, dir, "blocks/segments"), parts[PartBlocks])
			require.Equal(t, bytesBelow(t, dir, "state/ancient"), parts[PartHistory])
			require.Positive(t, parts[PartHistoryIndex])
			require.Equal(t, bytesBelow(t, dir, "state"), parts[PartState]+parts[PartHistory]+parts[PartHistoryIndex])
		})
	}
}

// bytesBelow are the sizes of all files of a folder.
func bytesBelow(t *testing.T, dir, name string) (sum int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(dir, name), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			sum += info.Size()
		}
		return err
	}))
	return sum
}

// A kind of file that the measurement does not know stops it: it would else be counted with what it is not.
func TestUnknownFilesAreNotCounted(t *testing.T) {
	for _, name := range []string{"blocks/receipts/00000001.dat", "state/trienodes/1", "something"} {
		require.Empty(t, ourPart(name))
	}
	require.Equal(t, PartHistory, ourPart("state/ancient/state/state.meta"))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "something"), []byte("x"), 0o600))
	require.ErrorContains(t, addFiles(dir, map[string]int64{}, ourPart), "belongs to no part")
}

// Every byte of the growth is in the row of all parts, and those before it are its first parts.
func TestDiskRows(t *testing.T) {
	before, after := make(map[string]int64), make(map[string]int64)
	for i, part := range DiskParts {
		before[part], after[part] = 1000, 1000+int64(20)<<i
	}
	r := growth(forge.Plan{Kind: forge.Tokens, Txs: 2}, "bornode", 10, before, after)
	require.InDelta(t, 1<<len(DiskParts)-1, r.Total, 1e-9)
	require.InDelta(t, 1<<partsOfChain-1, r.Chain, 1e-9)
	require.InDelta(t, 1<<withoutState-1, r.Blockwise, 1e-9)
	require.Equal(t, []string{PartBlocks, PartHeights, PartHashes, PartTransactions, PartReceipts}, DiskParts[:partsOfChain])
	require.Equal(t, []string{PartState, PartHistory, PartHistoryIndex}, DiskParts[withoutState:])
	var b bytes.Buffer
	require.NoError(t, (&Report{Machine: figures.Machine(), Disk: []DiskResult{r}}).Print(&b))
	for _, part := range DiskParts {
		require.Contains(t, b.String(), part)
	}
}
