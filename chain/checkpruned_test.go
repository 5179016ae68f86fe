package chain

import (
	"os"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/chain/keyvalue"
)

// keptHeaders are stored blocks from a height on, of which nothing is read.
type keptHeaders struct{ first, last uint64 }

func (k keptHeaders) LIB() (uint64, common.Hash) { return k.last, common.Hash{1} }

func (k keptHeaders) FirstHeight() uint64 { return k.first }

func (k keptHeaders) Reversible() ([]*block.Block, error) { return nil, nil }

func (k keptHeaders) HeaderByHeight(uint64) (*block.SealedHeader, error) {
	return nil, os.ErrNotExist
}

// A check tells of a lost state that cannot be made again, whether its folder is gone or a start has made an empty one.
func TestCheckOfALostStateOfAPrunedNode(t *testing.T) {
	for _, made := range []bool{false, true} {
		cfg := DefaultConfig()
		cfg.Dir = t.TempDir()
		cfg.DatabaseCacheMiB, cfg.Handles = 16, 32
		if made {
			d, err := keyvalue.Open(cfg.keyValueDir(), keyvalue.Options{CacheMiB: 16, Handles: 32})
			require.NoError(t, err)
			require.NoError(t, d.Close())
		}
		_, found, err := CheckState(t.Context(), cfg, keptHeaders{50, 100}, false)
		require.NoError(t, err)
		require.Len(t, found, 1)
		require.Contains(t, found[0].Problem, "cannot be made again: blocks below 50 were pruned")
		require.False(t, found[0].Harmless)

		_, found, err = CheckState(t.Context(), cfg, keptHeaders{0, 100}, false)
		require.NoError(t, err)
		if made {
			require.Empty(t, found, "nothing was written yet")
		} else {
			require.Contains(t, found[0].Remedy, "executes the blocks again")
		}
	}
}
