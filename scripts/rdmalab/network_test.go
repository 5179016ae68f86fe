//go:build rdmalab

package rdmalab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/testnet"
	"github.com/bornode/bornode/testnet/load"
)

const (
	// verbs is what carries every link of the lab's network: software RoCE.
	verbs = "rdma-rxe"
	// patience bounds every wait; it only ends a test that has failed already. The guest's CPU is emulated.
	patience = 5 * time.Minute
	interval = 200 * time.Millisecond // between two questions to a node
)

// peer is what the test reads of an entry of bor_peers.
type peer struct {
	ID       string            `json:"id"`
	Provider string            `json:"provider"`
	Reason   string            `json:"reason"`
	Counters map[string]uint64 `json:"counters"`
}

// until asks every interval until ok says nothing is missing any more.
func until(t *testing.T, what string, ok func(ctx context.Context) (missing string)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		missing := ok(ctx)
		if missing == "" {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.Fail(t, "waited in vain for "+what, missing)
		}
	}
}

func peers(ctx context.Context, url string) ([]peer, error) {
	c, err := rpc.DialContext(ctx, url)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	var list []peer
	return list, c.CallContext(ctx, &list, "bor_peers")
}

// onProvider waits until every one of the nodes has a link to each other one, and the provider carries it.
func onProvider(t *testing.T, n *testnet.Network, provider string, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		until(t, fmt.Sprintf("node %d on %s with %d peers", i, provider, len(nodes)-1), func(ctx context.Context) string {
			list, err := peers(ctx, n.Nodes[i].HTTP)
			if err != nil {
				return err.Error()
			}
			var other []string
			for _, p := range list {
				if p.Provider != provider {
					other = append(other, fmt.Sprintf("%s is on %s (%s)", p.ID, p.Provider, p.Reason))
				}
			}
			if len(list) != len(nodes)-1 || len(other) > 0 {
				return fmt.Sprintf("%d peers %s", len(list), strings.Join(other, ", "))
			}
			return ""
		})
	}
}

// finalAbove waits until the nodes agree on a final block above a height, and returns its height.
func finalAbove(t *testing.T, n *testnet.Network, height uint64, nodes ...int) uint64 {
	t.Helper()
	top := uint64(0)
	until(t, fmt.Sprintf("blocks above %d final on nodes %v", height, nodes), func(ctx context.Context) string {
		list := n.Status(ctx)
		for _, i := range nodes {
			s := list[i]
			if s.Error != "" || s.Final <= height {
				return fmt.Sprintf("node %d: final %d %s", i, s.Final, s.Error)
			}
			if first := list[nodes[0]]; s.Final == first.Final {
				require.Equal(t, first.LIB, s.LIB, "nodes %d and %d at height %d", nodes[0], i, s.Final)
			} else {
				return fmt.Sprintf("node %d is at %d, node %d at %d", nodes[0], first.Final, i, s.Final)
			}
		}
		top = list[nodes[0]].Final
		return ""
	})
	return top
}

// setLink turns the interface of the RDMA device on or off. Off, it loses its IPv6 addresses; the IPv4 one stays.
func setLink(t *testing.T, state string) {
	t.Helper()
	out, err := exec.Command("ip", "link", "set", "lab0", state).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func tell(t *testing.T, n *testnet.Network) {
	_ = testnet.PrintStatus(os.Stderr, n.Status(context.Background()))
	for _, x := range n.Nodes {
		list, err := peers(context.Background(), x.HTTP)
		t.Logf("node %d: %v %+v", x.Index, err, list)
		text, _ := testnet.LastLines(x.LogFile(), 60)
		t.Logf("node %d:\n%s", x.Index, text)
	}
}

// start brings up four producers whose links are all on verbs.
func start(t *testing.T) *testnet.Network {
	s := testnet.DefaultSpec()
	s.Dir, s.Binary, s.BasePort = t.TempDir(), os.Getenv("BORNODE"), 28500
	s.Slot, s.Turn, s.Direct, s.MaxBlockBytes = 2*time.Second, 1, true, 256<<10
	// The nodes are on one host and would choose shared memory; they meet on 127.0.0.1, which no RDMA device has; and
	// the guest is slow.
	s.Set = []string{"rdma.mode=on", "rdma.shared_memory=false", "rdma.device.device=rxe0", "rdma.probe_timeout=30s", "rdma.retry_max=5s"}
	n, err := testnet.Up(t.Context(), s)
	if err != nil {
		for i := range s.Producers {
			text, _ := testnet.LastLines(fmt.Sprintf("%s/node%d/bornode.log", s.Dir, i), 40)
			t.Logf("node %d:\n%s", i, text)
		}
	}
	require.NoError(t, err)
	t.Log("blocks are final")
	t.Cleanup(func() {
		if t.Failed() {
			tell(t, n)
		}
		require.NoError(t, n.Down(context.Background()))
		for _, x := range n.Nodes {
			log, err := os.ReadFile(x.LogFile())
			require.NoError(t, err)
			require.NotContains(t, string(log), "panic:", "node %d", x.Index)
		}
	})
	onProvider(t, n, verbs, 0, 1, 2, 3)
	t.Log("every link is on", verbs)
	return n
}

// A network of four producers makes blocks final with every link on verbs; a fifth node joins over verbs.
func TestNetworkOnSoftwareRoCE(t *testing.T) {
	n := start(t)
	r, err := n.Load(t.Context(), testnet.LoadOptions{Kind: load.Payload, Rate: 4, Size: 2048, Duration: 8 * time.Second, Follow: -1})
	require.NoError(t, err)
	require.Zero(t, r.Missing, "%+v", r)
	require.NotZero(t, r.Final)
	t.Log("payloads are final:", r.Final)

	j, err := n.Add(t.Context(), testnet.AddOptions{SyncMode: "certified"})
	require.NoError(t, err)
	require.NotZero(t, j.Blocks)
	t.Log("a node joined:", *j)
	onProvider(t, n, verbs, 0, 1, 2, 3, 4)
	finalAbove(t, n, j.Blocks, 0, 1, 2, 3, 4)
}

// Without the device all links go on over tcp until it is back; a killed node costs the others nothing and comes back
// to verbs.
func TestFailOverOnSoftwareRoCE(t *testing.T) {
	n := start(t)
	setLink(t, "down") // the cable is pulled
	onProvider(t, n, "tcp", 0, 1, 2, 3)
	height := finalAbove(t, n, 1, 0, 1, 2, 3)
	t.Log("final without RDMA:", height)
	setLink(t, "up")
	onProvider(t, n, verbs, 0, 1, 2, 3)
	t.Log("every link is back on", verbs)

	require.NoError(t, n.Kill(t.Context(), 3))
	height = finalAbove(t, n, height+2, 0, 1, 2)
	t.Log("final without node 3:", height)
	require.NoError(t, n.Restart(t.Context(), 3))
	finalAbove(t, n, height, 0, 1, 2, 3)
	onProvider(t, n, verbs, 0, 1, 2, 3)
}
