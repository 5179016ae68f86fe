package testnet

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/testnet/load"
)

// A process that was killed under load with hundreds of blocks whose states were nowhere on disk answers JSON-RPC and
// brings a node that lacks them to its LIB before the first of them is executed again.
func TestKilledNodeServesBeforeItsReplay(t *testing.T) {
	n := upNetwork(t, func(s *Spec) {
		s.Producers, s.Observers, s.Brokers, s.Direct = 1, 1, 0, true
		s.Slot, s.Turn, s.EpochBlocks = 25*time.Millisecond, 4, 40
		s.Set = []string{"chain.flush_interval=0s"}
	})
	producer, joiner := n.Nodes[0], n.Nodes[1]
	require.NoError(t, n.Stop(t.Context(), 1))
	_, err := n.Load(t.Context(), LoadOptions{Kind: load.Transfer, Rate: 100, Duration: 5 * time.Second})
	require.NoError(t, err)
	finalAbove(t, n, 300, 0)
	require.NoError(t, n.Kill(t.Context(), 0))

	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, n.startNode(producer, "BORNODE_FAILPOINT_HOLD=chain/replay-block:1:"+pipe))
	held := until(t, n, 0, "an answer", func(s Status) bool { return s.Sync == "replay" })
	require.Greater(t, held.Final, uint64(300))
	c, err := rpc.DialContext(t.Context(), producer.HTTP)
	require.NoError(t, err)
	defer c.Close()
	progress := func() (x struct{ StartingBlock, CurrentBlock, HighestBlock hexutil.Uint64 }) {
		require.NoError(t, c.CallContext(t.Context(), &x, "eth_syncing"))
		return x
	}
	before := progress()
	require.Greater(t, uint64(before.HighestBlock-before.StartingBlock), uint64(200), "blocks to execute again")
	for _, height := range []uint64{1, held.Final / 2, held.Final} {
		var block struct{ Number hexutil.Uint64 }
		require.NoError(t, c.CallContext(t.Context(), &block, "eth_getBlockByNumber", hexutil.Uint64(height), true))
		require.EqualValues(t, height, block.Number)
	}
	require.ErrorContains(t, c.CallContext(t.Context(), new(string), "eth_getBalance", n.Accounts[0].Address, "latest"), "executes blocks again")

	require.NoError(t, n.startNode(joiner))
	until(t, n, 1, "what is final at the killed node", func(s Status) bool { return s.Final >= held.Final })
	require.Equal(t, before, progress(), "the replay is held")

	release, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	require.NoError(t, err)
	require.NoError(t, release.Close())
	finalAbove(t, n, held.Final+5, 0, 1)
	sameChain(t, n, 0, 1)
}
