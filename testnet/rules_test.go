package testnet

import (
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
)

// The producers vote for a parameter and an upgrade. Both take effect at their height on all nodes; a producer's node
// that was not given the upgrade's description stops before it, says so, and goes on with the file in place.
func TestGovernanceOfRules(t *testing.T) {
	t.Parallel() // with one other network: it mostly waits
	n := governed(t, func(s *Spec) { s.Observers = 1 })
	const late = 3 // the producer whose operator forgot
	head := until(t, n, 0, "an answer", func(Status) bool { return true }).Head
	at := head + 64 + 300 // the notice, and time to vote and to restart, on a busy machine too
	b, err := os.ReadFile(n.genesisFile())
	require.NoError(t, err)
	file := filepath.Join(n.Dir, "genesis-next.json")
	require.NoError(t, os.WriteFile(file, b, 0o600))
	edit(t, file, func(v map[string]any) {
		v["upgrades"] = []any{map[string]any{"height": at, "name": "patient", "parameters": map[string]string{"max_block_bytes": "2000000", "jail_turns": "9"}}}
	})
	council := []person{operatorOf(t, n.Nodes[late], n.Nodes[0]), operatorOf(t, n.Nodes[1], n.Nodes[0]), operatorOf(t, n.Nodes[0], n.Nodes[0])}
	decided(t, council, "upgrade", "propose", "--genesis", file, "--force") // the nodes get the file below
	next := "BORNODE_GENESIS=" + file
	for _, i := range []int{0, 1, 2, 4} { // one by one, as operators do
		require.NoError(t, n.Restart(t.Context(), i, next))
		until(t, n, i, "in sync", func(s Status) bool { return s.Synced && s.Peers > 0 })
	}
	head = until(t, n, 0, "an answer", func(Status) bool { return true }).Head
	changed := head + 64 + 150
	decided(t, council, "parameter", "set", "gas_limit", "200000000", "--height", fmt.Sprint(changed))

	ends(t, n, late)
	said := func() {
		last := lastLines(n.Nodes[late].LogFile(), 1)
		for _, words := range []string{"bornode: ", "patient", fmt.Sprintf("block %d", at), "put the genesis.json that describes it in place"} {
			require.Contains(t, last, words)
		}
	}
	said()
	finalAbove(t, n, max(at, changed)+3, 0, 1, 2, 4)
	require.NoError(t, n.startNode(n.Nodes[late])) // without the file it ends again
	ends(t, n, late)
	said()
	require.NoError(t, n.Restart(t.Context(), late, next))
	until(t, n, late, "in sync", func(s Status) bool { return s.Synced && s.Final > max(at, changed) })
	for _, x := range n.Nodes {
		c := client(t, n, x.Index)
		for height, want := range map[uint64]uint64{changed - 1: 300_000_000, changed: 200_000_000} {
			h, err := c.HeaderByNumber(t.Context(), new(big.Int).SetUint64(height))
			require.NoError(t, err)
			require.Equal(t, want, h.GasLimit, "block %d at node %d", height, x.Index)
		}
		for height, want := range map[uint64]uint16{at - 1: 3, at: 9} {
			ret, err := c.CallContract(t.Context(), ethereum.CallMsg{To: &contracts.ProducersAddress, Data: producersABI.PackSettings()}, new(big.Int).SetUint64(height))
			require.NoError(t, err)
			set, err := producersABI.UnpackSettings(ret)
			require.NoError(t, err)
			require.Equal(t, want, set.JailTurns, "block %d at node %d", height, x.Index)
		}
		var rules struct {
			Parameters struct {
				MaxBlockBytes hexutil.Uint64 `json:"maxBlockBytes"`
			} `json:"parameters"`
		}
		require.NoError(t, c.Client().CallContext(t.Context(), &rules, "bor_parameters"))
		require.EqualValues(t, 2_000_000, rules.Parameters.MaxBlockBytes, "node %d", x.Index)
	}
	sameChain(t, n, 0, 1, 2, late, 4)
}

// ends waits until a node's process is gone by itself.
func ends(t *testing.T, n *Network, node int) {
	t.Helper()
	ctx, moved, cancel := whileMoving(t, patience)
	defer cancel()
	require.NoError(t, poll(ctx, func() (bool, error) {
		s := n.status(ctx, n.Nodes[node])
		moved(s.Head, s.Final)
		return !s.Alive, nil
	}), "waiting: node %d ends", node)
}
