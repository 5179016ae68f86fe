package blockstore_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// derivedDisk is the disk of a closed store with blocks, receipts and several tables of derived data.
func derivedDisk(t *testing.T, chain []*block.Block) *faultfs.Disk {
	disk := faultfs.New()
	s, err := blockstore.Open(derivedConfig(disk), nil, nil)
	require.NoError(t, err)
	for _, b := range chain {
		require.NoError(t, s.AppendFinal([]*block.Block{b}, final(b)))
		require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
	}
	require.NoError(t, s.Close())
	return disk
}

// derivedConfig has small tables and no cache of them, so that damage is met.
func derivedConfig(disk *faultfs.Disk) blockstore.Config {
	cfg := config(disk)
	cfg.IndexBuffer, cfg.IndexCache = 4<<10, 0
	return cfg
}

// askAll asks for everything that is derived from the blocks: an answer is right, or an error that says that it is being
// rebuilt. Only receipts may be absent, which execution makes again. It counts them.
func askAll(t *testing.T, s *blockstore.Store, chain []*block.Block, whole bool) (withReceipts int) {
	for _, b := range chain {
		rs, err := s.Receipts(b.Hash())
		switch {
		case err == nil:
			require.Len(t, rs, len(b.Transactions))
			withReceipts++
		case !whole && errors.Is(err, blockstore.ErrIndexing):
		default:
			require.ErrorContains(t, err, "receipts of block") // not: of an unknown block
			require.ErrorIs(t, err, blockstore.ErrNotFound)
			h, err := s.Header(b.Hash())
			if whole || !errors.Is(err, blockstore.ErrIndexing) {
				require.NoError(t, err, "block %d", b.Number())
				require.Equal(t, b.Hash(), h.Hash())
			}
		}
		for i, tx := range b.Transactions {
			hash, height, index, err := s.Transaction(tx.Hash())
			if !whole && errors.Is(err, blockstore.ErrIndexing) {
				continue
			}
			require.NoError(t, err, "transaction %d of block %d", i, b.Number())
			require.Equal(t, b.Hash(), hash)
			require.Equal(t, b.Number(), height)
			require.EqualValues(t, i, index)
		}
	}
	return withReceipts
}

// Damage in any file of derived data of a running store, met by a reader, a writer or a compaction, is mended while it
// runs: it goes on taking blocks, answers rightly or says that it rebuilds, and is whole without a restart, and after one.
func TestRunningStoreMendsDerivedData(t *testing.T) {
	chain := line(nil, 140, 1, 8, 40)
	old, added := chain[:110], chain[110:]
	sound := derivedDisk(t, old)
	replaced, kept := map[string]int{}, 0
	for seed := range uint64(18) {
		kind := []string{".ldb", ".ldb", ".ldb", ".log", "MANIFEST", "CURRENT"}[seed%6]
		r := rand.New(rand.NewPCG(seed, 13))
		disk := sound.Copy()
		s, err := blockstore.Open(derivedConfig(disk), nil, nil)
		require.NoError(t, err)
		s.PutHashesAtOnce(1 + seed*seed)
		for range 1 + r.IntN(3) {
			flipDerivedBit(t, disk, kind, r)
		}
		if r.IntN(3) == 0 { // a compaction is the first to meet it
			_, err := s.CompactDerived()
			require.NoError(t, err, "seed %d", seed)
		}
		for i, b := range added {
			require.NoError(t, s.AppendFinal([]*block.Block{b}, final(b)), "seed %d", seed)
			require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)), "seed %d", seed)
			if i%7 == 0 {
				askAll(t, s, chain[:len(old)+i+1], false)
			}
		}
		_, err = s.CompactDerived()
		require.NoError(t, err)
		s.AwaitCompletion()
		with := askAll(t, s, chain, true)
		for _, b := range added { // the damage lies before them
			_, err := s.Receipts(b.Hash())
			require.NoError(t, err, "seed %d, block %d", seed, b.Number())
		}
		kept += with - len(added)
		require.NoError(t, s.Failed())
		replaced[kind] += s.ReplacedDerived()
		require.NoError(t, s.Close())

		s, err = blockstore.Open(derivedConfig(disk), nil, nil)
		require.NoError(t, err)
		s.AwaitCompletion()
		require.GreaterOrEqual(t, askAll(t, s, chain, true), with, "seed %d", seed)
		require.NoError(t, s.Close())
	}
	t.Logf("%v, %d receipts kept", replaced, kept)
	require.Greater(t, replaced[".ldb"], 2)
	require.Greater(t, kept, 18*len(old)/2, "receipts that can be read are kept; those of a table with a damaged index cannot")
}

// flipDerivedBit flips a bit in the largest file of a kind that a running store has.
func flipDerivedBit(t *testing.T, disk *faultfs.Disk, kind string, r *rand.Rand) {
	for err := os.ErrNotExist; errors.Is(err, os.ErrNotExist); { // a compaction removes files
		largest, size := "", -1
		disk.Each(func(name string, data []byte) {
			if strings.HasPrefix(name, "derived/") && strings.Contains(name, kind) && len(data) > size {
				largest, size = name, len(data)
			}
		})
		require.NotEmpty(t, largest)
		err = disk.Corrupt(largest, func(b []byte) []byte {
			if len(b) > 0 {
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			}
			return b
		})
	}
}

// Tables of which the disk gives nothing are damage too.
func TestRunningStoreMendsEmptyTables(t *testing.T) {
	chain := line(nil, 40, 1, 6, 40)
	disk := derivedDisk(t, chain)
	s, err := blockstore.Open(derivedConfig(disk), nil, nil)
	require.NoError(t, err)
	names, err := disk.List("derived")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".ldb") {
			require.NoError(t, disk.Corrupt("derived/"+name, func([]byte) []byte { return nil }))
		}
	}
	askAll(t, s, chain, false)
	s.AwaitCompletion()
	askAll(t, s, chain, true)
	require.Equal(t, 1, s.ReplacedDerived())
	require.NoError(t, s.Close())
}

// A disk that damages each new database as well is told, and left to the next start.
func TestDerivedDataThatIsDamagedAgainAndAgain(t *testing.T) {
	chain := line(nil, 40, 1, 6, 40)
	disk := derivedDisk(t, chain)
	core, seen := observer.New(zap.ErrorLevel)
	s, err := blockstore.Open(derivedConfig(disk), zap.New(core), nil)
	require.NoError(t, err)
	for range 6 {
		names, err := disk.List("derived")
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, ".ldb") {
				_ = disk.Corrupt("derived/"+name, func(b []byte) []byte { clear(b); return b }) // a compaction may have removed it
			}
		}
		for _, b := range chain {
			_, _ = s.Receipts(b.Hash())
		}
		s.AwaitCompletion()
		_, _ = s.CompactDerived()
	}
	require.LessOrEqual(t, s.ReplacedDerived(), 4)
	require.Equal(t, 1, seen.FilterMessageSnippet("is damaged again").Len())
	_ = s.Close()
	s, err = blockstore.Open(derivedConfig(disk), nil, nil)
	require.NoError(t, err)
	s.AwaitCompletion()
	askAll(t, s, chain, true)
	require.NoError(t, s.Close())
}
