package blockstore_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// Damage of derived data that readers meet is told once, with the database that is set aside, and mended: they ask again and
// are answered.
func TestDamagedDerivedDataIsToldOnce(t *testing.T) {
	whole := faultfs.New()
	cfg := config(whole)
	cfg.IndexBuffer = 4 << 10
	s, err := blockstore.Open(cfg, nil, nil)
	require.NoError(t, err)
	chain := line(nil, damageBlocks, 1, 8, 40)
	require.NoError(t, s.AppendFinal(chain, final(chain...)))
	for _, b := range chain {
		require.NoError(t, s.PutReceipts(b.Hash(), b.Number(), receiptsOf(b)))
	}
	require.NoError(t, s.Close())
	tables, err := whole.List("derived")
	require.NoError(t, err)
	met := 0
	for i := range 9 * len(tables) { // which tables there are, and who reads them, depends on the compactions
		name := tables[i/9]
		if !strings.HasSuffix(name, ".ldb") {
			continue
		}
		disk := whole.Copy()
		require.NoError(t, disk.Corrupt("derived/"+name, func(b []byte) []byte { b[len(b)*(1+i%9)/10] ^= 0x40; return b }))
		core, seen := observer.New(zap.ErrorLevel)
		cfg := config(disk)
		s, err := blockstore.Open(cfg, zap.New(core), nil)
		require.NoError(t, err)
		for range 3 {
			for _, b := range chain {
				if _, err := s.Receipts(b.Hash()); err != nil {
					require.NotContains(t, err.Error(), "corruption")
				}
			}
		}
		told := seen.FilterMessageSnippet("derived data is damaged").Len()
		require.Equal(t, s.ReplacedDerived(), told)
		require.LessOrEqual(t, told, 1)
		met += told
		require.NoError(t, s.Close()) // also if that is the first to meet it
	}
	require.NotZero(t, met, "no damage was met by a reader")
}
