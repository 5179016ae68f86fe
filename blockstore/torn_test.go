package blockstore_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// halfSynced makes a store of which receipts and transactions of the first 30 are known to be durable, while those of
// the others lie in the journal only, where synced is.
func halfSynced(t *testing.T) (disk *faultfs.Disk, chain []*block.Block, journal string, synced int) {
	t.Helper()
	disk = faultfs.New()
	s := open(t, disk)
	chain = line(nil, 40, 1, 16, 40)
	chain[3] = child(chain[2], 1, 0, 0) // blocks without transactions have no receipts
	chain = append(chain[:4:4], line(chain[3], 36, 1, 16, 40)...)
	put := func(blocks []*block.Block) {
		require.NoError(t, s.AppendFinal(blocks, final(blocks...)))
		for _, b := range blocks {
			if len(b.Transactions) > 0 {
				require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
			}
		}
	}
	put(chain[:30])
	require.NoError(t, s.SyncDerived())
	for name, data := range contents(t, disk) {
		if strings.HasPrefix(name, "derived/") && strings.HasSuffix(name, ".log") {
			journal, synced = name, len(data)
		}
	}
	require.Greater(t, synced, 33<<10, "damage in the first block of the journal hides no mark")
	put(chain[30:])
	require.Greater(t, len(contents(t, disk)[journal]), synced+1000, "the others are in the same journal")
	return disk.Killed(), chain, journal, synced
}

// openLogged opens a store and waits until its index of transactions is whole. from is where the index was completed
// from, -1 if it was whole.
func openLogged(t *testing.T, disk *faultfs.Disk) (s *blockstore.Store, from int, logs *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	s, err := blockstore.Open(config(disk), zap.New(core), nil)
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	requireIndexed(t, s)
	from = -1
	for _, e := range logs.FilterMessageSnippet("the index of transactions is completed from the blocks").All() {
		from = int(e.ContextMap()["from"].(uint64)) //nolint:gosec // small
	}
	return s, from, logs
}

func requireTransactions(t *testing.T, s *blockstore.Store, chain []*block.Block) {
	t.Helper()
	for _, b := range chain {
		for i, tx := range b.Transactions {
			hash, height, index, err := s.Transaction(tx.Hash())
			require.NoError(t, err, "block %d", b.Number())
			require.Equal(t, b.Hash(), hash)
			require.Equal(t, b.Number(), height)
			require.EqualValues(t, i, index)
		}
	}
}

// What a power cut takes from the end of the derived data's journal, in whole records, torn, or as a hole with bytes
// behind it, is completed from the last mark on. It is no damage, and no transaction of a final block is absent.
func TestPowerCutTakesDerivedData(t *testing.T) {
	disk0, chain, journal, synced := halfSynced(t)
	for name, cut := range map[string]func(b []byte) []byte{
		"all that was not synced": func(b []byte) []byte { return b[:synced] },
		"torn":                    func(b []byte) []byte { return b[:synced+(len(b)-synced)/2] },
		"last byte":               func(b []byte) []byte { return b[:len(b)-1] },
		"hole": func(b []byte) []byte {
			clear(b[synced+100 : synced+600])
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			disk := disk0.Copy()
			require.NoError(t, disk.Corrupt(journal, cut))
			s, from, logs := openLogged(t, disk)
			require.GreaterOrEqual(t, from, 30, "what is known to be durable is not read again")
			require.Empty(t, logs.FilterMessageSnippet("the block store is damaged").All())
			requireTransactions(t, s, chain)
			requireChain(t, s, chain)
			require.NoError(t, s.Close())
			s, from, _ = openLogged(t, disk)
			require.Equal(t, -1, from, "it was noted")
			requireTransactions(t, s, chain)
		})
	}
	t.Run("a kill of the process takes nothing", func(t *testing.T) {
		s, from, _ := openLogged(t, disk0.Copy())
		require.Equal(t, -1, from)
		requireTransactions(t, s, chain)
	})
	t.Run("damage before the mark", func(t *testing.T) {
		disk := disk0.Copy()
		require.NoError(t, disk.Corrupt(journal, flip(1000)))
		s, from, logs := openLogged(t, disk)
		require.Less(t, from, 30, "the mark is not believed")
		require.NotEmpty(t, logs.FilterMessageSnippet("the block store is damaged").All())
		requireTransactions(t, s, chain)
		requireChain(t, s, chain)
	})
}

// A block whose receipts were never stored is in the index after the next start, whatever was stored behind it.
func TestIndexMarkStopsAtAGap(t *testing.T) {
	disk := faultfs.New()
	s := open(t, disk)
	chain := line(nil, 30, 1, 2, 40)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	for _, b := range chain {
		if b.Number() != 17 {
			require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
		}
	}
	require.NoError(t, s.SyncDerived())
	_, _, _, err := s.Transaction(chain[17].Transactions[0].Hash())
	require.True(t, errors.Is(err, blockstore.ErrNotFound))
	_, _, _, err = s.Transaction(common.Hash{1})
	require.ErrorIs(t, err, blockstore.ErrNotFound)
	require.NoError(t, s.Close())
	s, from, _ := openLogged(t, disk)
	require.Equal(t, 17, from)
	requireTransactions(t, s, chain)
}
