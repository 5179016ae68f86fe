package testnet

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/stretchr/testify/require"
)

// binary is the program under test, built once for the package.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if testing.Short() {
		fmt.Println("networks of processes are started without -short only")
		return 0
	}
	dir, err := os.MkdirTemp("", "bornode-testnet")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "bornode")
	build := exec.Command("go", "build", "-o", binary, "../cmd/bornode")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// long reports whether the long forms of tests are wanted.
func long() bool { return os.Getenv("BORNODE_LONG") != "" }

// patience bounds every wait in these tests; it only ends a test that has failed already. Where what is waited for shows that
// it moves, patience begins again each time, until mostPatience is over: what takes long on a busy machine is not stuck.
const (
	patience     = 3 * time.Minute
	mostPatience = 15 * time.Minute
)

// whileMoving gives a context that ends when nothing has moved for so long, or after mostPatience. moved takes the present
// values of what moves by growing, always in one order, and is for one goroutine. cancel ends the context.
func whileMoving(t *testing.T, limit time.Duration) (ctx context.Context, moved func(values ...uint64), cancel context.CancelFunc) {
	t.Helper()
	ctx, cancel = context.WithTimeout(t.Context(), mostPatience)
	stuck := time.AfterFunc(limit, cancel)
	context.AfterFunc(ctx, func() { stuck.Stop() })
	var most []uint64
	moved = func(values ...uint64) {
		for i, v := range values {
			if i == len(most) {
				most = append(most, v) // the first look
			}
			if v > most[i] {
				most[i] = v
				stuck.Reset(limit)
			}
		}
	}
	return ctx, moved, cancel
}

// overTCP keeps the links where the proxy between the nodes can hold them up.
func overTCP(s *Spec) { s.Set = append(s.Set, "rdma.mode=off") }

func upNetwork(t *testing.T, change func(*Spec)) *Network {
	t.Helper()
	s := DefaultSpec()
	s.Dir, s.Binary, s.BasePort = t.TempDir(), binary, 0
	s.Slot = 200 * time.Millisecond
	if change != nil {
		change(&s)
	}
	n, err := Up(t.Context(), s)
	if err != nil {
		for i := range s.Producers + s.Observers {
			t.Logf("node %d:\n%s", i, lastLines(filepath.Join(s.Dir, fmt.Sprint("node", i), "bornode.log"), 20))
		}
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for _, x := range n.Nodes {
			if x.Process.Alive() {
				t.Logf("node %d switched branches %v times", x.Index, metric(t, x, "bornode_chain_reorgs_total"))
			}
		}
		if t.Failed() {
			_ = PrintStatus(os.Stderr, n.Status(context.Background()))
			for _, x := range n.Nodes {
				t.Logf("node %d:\n%s", x.Index, lastLines(x.LogFile(), 40))
			}
		}
		require.NoError(t, n.Down(context.Background()))
		for _, x := range n.Nodes {
			log, err := os.ReadFile(x.LogFile())
			require.NoError(t, err)
			require.NotContains(t, string(log), "panic:", "node %d", x.Index)
		}
	})
	return n
}

// metric is the value of a metric without labels at a node; the sum over its labels if it has some.
func metric(t *testing.T, x *Node, name string) float64 {
	t.Helper()
	return metricWith(t, x, name, "")
}

// metricWith is the sum of a metric at a node over the labels whose text, as in kind="x", holds some words.
func metricWith(t *testing.T, x *Node, name, labels string) float64 {
	t.Helper()
	resp, err := http.Get("http://" + x.Metrics + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	sum := 0.0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		end := strings.LastIndexByte(rest, ' ')
		if !strings.Contains(rest[:end], labels) {
			continue
		}
		v, err := strconv.ParseFloat(rest[end+1:], 64)
		require.NoError(t, err)
		sum += v
	}
	return sum
}

// until waits for a status of a node.
func until(t *testing.T, n *Network, node int, what string, ok func(Status) bool) Status {
	t.Helper()
	ctx, moved, cancel := whileMoving(t, patience)
	defer cancel()
	s, err := n.await(ctx, n.Nodes[node], func(s Status) bool {
		moved(s.Head, s.Final)
		return ok(s)
	})
	require.NoError(t, err, "waiting for node %d: %s", node, what)
	return s
}

// finalAbove waits until the LIB of all the nodes is above a height.
func finalAbove(t *testing.T, n *Network, height uint64, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		until(t, n, i, fmt.Sprintf("final above %d", height), func(s Status) bool { return s.Final > height })
	}
}

func client(t *testing.T, n *Network, node int) *ethclient.Client {
	t.Helper()
	c, err := ethclient.DialContext(t.Context(), n.Nodes[node].HTTP)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// sameChain compares hash and state root at every final height that all the nodes have.
func sameChain(t *testing.T, n *Network, nodes ...int) uint64 {
	t.Helper()
	least := uint64(1 << 62)
	clients := make([]*ethclient.Client, len(nodes))
	for k, i := range nodes {
		s := until(t, n, i, "an answer", func(Status) bool { return true })
		least = min(least, s.Final)
		clients[k] = client(t, n, i)
	}
	step := max(least/200, 1)
	for h := uint64(0); h <= least; h += step {
		var want *types.Header
		for k, c := range clients {
			got, err := c.HeaderByNumber(t.Context(), new(big.Int).SetUint64(h))
			require.NoError(t, err, "node %d height %d", nodes[k], h)
			if want == nil {
				want = got
				continue
			}
			require.Equal(t, want.Hash(), got.Hash(), "height %d of node %d", h, nodes[k])
			require.Equal(t, want.Root, got.Root, "state root at height %d of node %d", h, nodes[k])
		}
	}
	return least
}

// onChainOnce checks that every transaction stands in exactly one final block of a node, and returns the heights.
func onChainOnce(t *testing.T, n *Network, node int, hashes []common.Hash) map[common.Hash]uint64 {
	t.Helper()
	c := client(t, n, node)
	final := until(t, n, node, "an answer", func(Status) bool { return true }).Final
	count := make(map[common.Hash]int)
	heights := make(map[common.Hash]uint64)
	for h := uint64(1); h <= final; h++ {
		b, err := c.BlockByNumber(t.Context(), new(big.Int).SetUint64(h))
		require.NoError(t, err)
		for _, tx := range b.Transactions() {
			count[tx.Hash()]++
			heights[tx.Hash()] = h
		}
	}
	for _, h := range hashes {
		require.Equal(t, 1, count[h], "transaction %s", h)
	}
	return heights
}
