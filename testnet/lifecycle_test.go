package testnet

import (
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
)

const codePrunedHistory = 4444 // docs/storage.md, "Pruning"

// Nodes prune under load while others join and ask for the whole history: joiners get it from the nodes that keep it, pruned
// heights are answered with one code and never null, kept ones as by a node that keeps all. `make storms` plays it with four
// producers, two of which keep the newest 1,000 blocks; else one producer keeps all and an observer what these settings need at least.
func TestPruningUnderLoadWithJoiners(t *testing.T) {
	t.Parallel() // with one other network: it mostly waits
	keep, blocks, producers, observers, pruning := uint64(700), uint64(900), 1, 1, []int{1}
	if os.Getenv("BORNODE_STORMS") != "" {
		keep, blocks, producers, observers, pruning = 1000, 1600, 4, 0, []int{2, 3}
	}
	n := upNetwork(t, func(s *Spec) {
		s.Producers, s.Observers, s.Brokers, s.Direct = producers, observers, 0, true
		s.Slot, s.EpochBlocks, s.MaxReversible = 50*time.Millisecond, 40, 60
		s.Set = []string{"chain.flush_blocks=128", "store.segment_bytes=65536"}
	})
	result := loadInBackground(t, n, 40, time.Duration(blocks)*n.Slot(), 0)
	keepBlocks := fmt.Sprint("BORNODE_STORE_KEEP_BLOCKS=", keep)
	for _, i := range pruning {
		require.NoError(t, n.Restart(t.Context(), i, keepBlocks))
	}
	for _, i := range pruning {
		until(t, n, i, "pruned history", func(s Status) bool {
			return s.Final > blocks && metric(t, n.Nodes[i], "bornode_blockstore_first_height") > 1
		})
	}
	joined, err := n.Add(t.Context(), AddOptions{})
	require.NoError(t, err)
	requireHistory(t, n, pruning[0], 0)
	requireHistory(t, n, joined.Node, 0)
	r := result()
	require.Zero(t, r.Missing)
	require.Zero(t, r.Twice)
	require.NoError(t, n.Kill(t.Context(), pruning[0])) // what a start needs was kept
	require.NoError(t, n.Restart(t.Context(), pruning[0], keepBlocks))
	until(t, n, pruning[0], "to be in sync", func(s Status) bool { return s.Synced })
	requireHistory(t, n, pruning[0], 0)
	sameChain(t, n, 0, joined.Node) // the others answered about every height above
}

// requireHistory compares what a node says of final blocks and their transactions with a node that keeps all: the same, or
// the code of pruned history below the first height that it publishes.
func requireHistory(t *testing.T, n *Network, node, whole int) {
	t.Helper()
	asked, err := ethclient.DialContext(t.Context(), n.Nodes[node].HTTP)
	require.NoError(t, err)
	defer asked.Close()
	model, err := ethclient.DialContext(t.Context(), n.Nodes[whole].HTTP)
	require.NoError(t, err)
	defer model.Close()
	final := min(until(t, n, node, "an answer", func(s Status) bool { return s.Final > 0 }).Final,
		until(t, n, whole, "an answer", func(s Status) bool { return s.Final > 0 }).Final)
	pruned := 0
	for height := uint64(1); height <= final; height += 11 {
		want, err := model.BlockByNumber(t.Context(), new(big.Int).SetUint64(height))
		require.NoError(t, err)
		before := uint64(metric(t, n.Nodes[node], "bornode_blockstore_first_height"))
		got, err := asked.BlockByNumber(t.Context(), new(big.Int).SetUint64(height))
		after := uint64(metric(t, n.Nodes[node], "bornode_blockstore_first_height"))
		switch {
		case height < before:
			pruned++
			requirePruned(t, asked, want)
			require.Equal(t, codePrunedHistory, errorCode(err), "node %d, block %d: %v", node, height, err)
		case height >= after:
			require.NoError(t, err, "node %d, block %d", node, height)
			require.Equal(t, want.Hash(), got.Hash())
			requireTransactions(t, n.Nodes[node], asked, model, want)
		default: // pruned meanwhile
			require.Contains(t, []int{0, codePrunedHistory}, errorCode(err), "node %d, block %d: %v", node, height, err)
		}
	}
	t.Logf("node %d: of every eleventh of %d final blocks %d are pruned", node, final, pruned)
}

// requirePruned asks for the transactions of a pruned block: they are never absent, since nobody here can know that.
func requirePruned(t *testing.T, c *ethclient.Client, b *types.Block) {
	t.Helper()
	for _, tx := range b.Transactions() {
		for _, method := range []string{"eth_getTransactionByHash", "eth_getTransactionReceipt"} {
			var answer any
			err := c.Client().CallContext(t.Context(), &answer, method, tx.Hash())
			require.Equal(t, codePrunedHistory, errorCode(err), "%s of a pruned block: %v, %v", method, answer, err)
		}
	}
}

// requireTransactions asks for the transactions of a block that the node had when it was asked for the block: they are the
// same as elsewhere, or pruned, if the block is by now.
func requireTransactions(t *testing.T, node *Node, c, model *ethclient.Client, b *types.Block) {
	t.Helper()
	for _, tx := range b.Transactions() {
		want, err := model.TransactionReceipt(t.Context(), tx.Hash())
		require.NoError(t, err)
		got, err := c.TransactionReceipt(t.Context(), tx.Hash())
		if errorCode(err) == codePrunedHistory && uint64(metric(t, node, "bornode_blockstore_first_height")) > b.NumberU64() {
			return
		}
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
}

func errorCode(err error) int {
	if coded, ok := err.(rpc.Error); ok { //nolint:errorlint // as the client gives it
		return coded.ErrorCode()
	}
	return 0
}

// A backup that is taken of a producer under load brings that producer back on another folder: the node is in sync and
// casts no vote as the copy that it is, until the chain proves that it may; its folder is in order.
func TestBackupUnderLoadIsRestoredElsewhere(t *testing.T) {
	t.Parallel() // with one other network: it mostly waits
	n := upNetwork(t, func(s *Spec) {
		s.Producers, s.Observers, s.Brokers, s.Direct = 4, 0, 0, true
		s.Slot, s.EpochBlocks = 200*time.Millisecond, 40
		s.Set = []string{"store.segment_bytes=65536"}
	})
	result := loadInBackground(t, n, 50, 45*time.Second, 0, 1)
	until(t, n, 3, "final blocks under load", func(s Status) bool { return s.Final > 40 })
	lost := n.Nodes[3]
	backup, restored := filepath.Join(t.TempDir(), "backup"), filepath.Join(t.TempDir(), "restored")
	runCommandOf(t, binary, "backup", backup, "--dir", lost.Dir)
	require.NoError(t, n.Kill(t.Context(), 3)) // the machine is lost, with the votes since the backup

	runCommandOf(t, binary, "restore", backup, "--dir", restored)
	require.NoError(t, os.RemoveAll(filepath.Join(restored, "keys")))
	require.NoError(t, os.Rename(filepath.Join(lost.Dir, "keys"), filepath.Join(restored, "keys")))
	lost.Dir = restored
	require.NoError(t, n.Restart(t.Context(), 3))
	at := until(t, n, 3, "to be in sync", func(s Status) bool { return s.Synced })
	finalAbove(t, n, at.Final+3, 0, 1, 2, 3)
	require.Contains(t, lastLines(lost.LogFile(), 400), "the signer casts no vote", "the restored producer says that it waits")
	r := result()
	require.Zero(t, r.Missing)
	require.Zero(t, r.Twice)
	sameChain(t, n, 0, 1, 2, 3)
	requireNobodyGuilty(t, n)
	until(t, n, 3, "votes again", func(Status) bool { return metric(t, lost, "bornode_consensus_signer_silent_state") == 0 })
	require.NoError(t, n.Stop(t.Context(), 3))
	runCommandOf(t, binary, "fsck", "--dir", restored)
}

// requireNobodyGuilty reads from the contract of producers that no evidence was accepted.
func requireNobodyGuilty(t *testing.T, n *Network) {
	t.Helper()
	c, err := ethclient.DialContext(t.Context(), n.Nodes[0].HTTP)
	require.NoError(t, err)
	defer c.Close()
	for _, x := range n.Nodes {
		require.False(t, candidate(t, c, x.Account).Guilty, "producer %s", x.Account)
	}
}
