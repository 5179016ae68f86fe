package node

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
)

// damageRun damages the records and index entries of the blocks 1 to last, which lie in the first segment.
func damageRun(t *testing.T, c *config.Config, last uint64) {
	t.Helper()
	var places []blockstore.IndexEntry
	inStore(t, c, func(s *blockstore.Store) {
		for height := uint64(1); height <= last; height++ {
			e, err := s.Entry(height)
			require.NoError(t, err)
			require.EqualValues(t, 1, e.Segment)
			places = append(places, e)
		}
	})
	dir := c.Path(c.Store.Dir)
	change := func(name string, damage func(data []byte)) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		damage(data)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	change("segments/00000001.seg", func(data []byte) {
		for _, e := range places {
			data[e.Offset+block.RecordHeaderBytes+10] ^= 1
		}
	})
	change("index/000000000000.idx", func(data []byte) { clear(data[block.IndexEntryBytes : (last+1)*block.IndexEntryBytes]) })
}

// A run of blocks without records and index entries is restored from an export, which has them in rising order although only the
// highest can be placed first; also when few of them fit into memory, and with a file that begins or ends within the run as far
// as it goes.
func TestRunWithoutIndexIsRestoredFromAnExport(t *testing.T) {
	c := folder(t)
	runUntilFinal(t, c, 12)
	const last = 9
	var blocks []*block.Block
	inStore(t, c, func(s *blockstore.Store) {
		for height := range uint64(last + 2) {
			b, err := s.BlockByHeight(height)
			require.NoError(t, err)
			blocks = append(blocks, b)
		}
	})
	damageRun(t, c, last)
	s, err := OpenStore(c, zap.NewNop())
	require.NoError(t, err)
	defer s.Close() //nolint:errcheck // a test's end
	damaged := blockstore.HeightRanges{{First: 1, Last: last}}
	check := func() blockstore.HeightRanges {
		r, err := s.Fsck(t.Context(), blockstore.FsckOptions{Repair: true}, nil)
		require.NoError(t, err)
		return r.Damaged
	}
	require.Equal(t, damaged, check())
	restore := func(from, to, mostBytes int) (int, error) {
		var file bytes.Buffer
		w := blockstore.NewExportWriter(&file, blocks[0].Hash())
		for _, b := range blocks[from : to+1] {
			require.NoError(t, w.Block(b.Encode()))
		}
		require.NoError(t, w.End(nil, nil))
		return restoreBlocksBy(c, s, bytes.NewReader(file.Bytes()), damaged, mostBytes)
	}

	restored, err := restore(1, last-1, maxPostponedBytes)
	var order blockstore.ErrNeighbourFirst
	require.ErrorAs(t, err, &order)
	require.EqualValues(t, last, order.First)
	require.Zero(t, restored)

	restored, err = restore(last-3, last+1, maxPostponedBytes)
	require.NoError(t, err, "no block of the file waits")
	require.Equal(t, 4, restored)
	damaged = blockstore.HeightRanges{{First: 1, Last: last - 4}}
	require.Equal(t, damaged, check())

	restored, err = restore(0, last+1, 1)
	require.NoError(t, err)
	require.Equal(t, last-4, restored)
	require.Empty(t, check())
	for _, want := range blocks {
		b, err := s.BlockByHeight(want.Number())
		require.NoError(t, err)
		require.Equal(t, want.Hash(), b.Hash())
	}
}
