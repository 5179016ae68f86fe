package testnet

import (
	"context"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/testnet/load"
	"github.com/bornode/bornode/testnet/proxy"
)

// loadInBackground offers transfers to some nodes; the returned function waits for the result.
func loadInBackground(t *testing.T, n *Network, rate int, d time.Duration, nodes ...int) func() *load.Result {
	t.Helper()
	type outcome struct {
		r   *load.Result
		err error
	}
	opts, err := n.loadOptions(LoadOptions{Kind: load.Transfer, Rate: rate, Duration: d, Nodes: nodes, Follow: nodes[0], Drain: patience})
	require.NoError(t, err)
	ch := make(chan outcome, 1)
	go func() {
		r, err := load.Run(t.Context(), opts)
		ch <- outcome{r, err}
	}()
	return func() *load.Result {
		o := <-ch
		require.NoError(t, o.err)
		return o.r
	}
}

// A producer killed under load: nothing a surviving node accepted is lost or doubled, finality goes on, and the killed
// one comes back by itself.
func TestOneProducerKilled(t *testing.T) {
	n := upNetwork(t, nil)
	result := loadInBackground(t, n, 50, 12*time.Second, 0, 1, 2)
	s := until(t, n, 0, "some blocks under load", func(s Status) bool { return s.Final > 10 })
	require.NoError(t, n.Kill(t.Context(), 3))
	finalAbove(t, n, s.Head+10, 0, 1, 2)
	require.NoError(t, n.Restart(t.Context(), 3))
	r := result()
	require.Zero(t, r.Refused, r.FirstError)
	require.Zero(t, r.Missing)
	require.Zero(t, r.Twice)
	until(t, n, 3, "in sync again", func(s Status) bool { return s.Synced })
	finalAbove(t, n, until(t, n, 0, "an answer", func(Status) bool { return true }).Final, 0, 1, 2, 3)
	includedSoon(t, r, onChainOnce(t, n, 3, r.Hashes))
	sameChain(t, n, 0, 1, 2, 3)
}

// includedSoon checks that accepted transactions waited for 30 slots at most. It counts blocks, since on a busy machine
// slots may pass without one: with one producer of four gone, 30 slots hold 22.
func includedSoon(t *testing.T, r *load.Result, heights map[common.Hash]uint64) {
	t.Helper()
	const blocksOf30Slots = 22
	worst := uint64(0)
	for i, h := range r.Hashes {
		if at := heights[h]; at > r.Heads[i] {
			worst = max(worst, at-r.Heads[i])
		}
	}
	t.Logf("%d transactions were accepted, each in one of the next %d blocks", len(r.Hashes), worst)
	require.NotEmpty(t, r.Hashes)
	require.LessOrEqual(t, worst, uint64(blocksOf30Slots))
}

// A fork deeper than the states kept in memory (long form), with two nodes killed in the middle of the switch of
// branches after the heal: restarted, they and all others are on one branch. Calls on old blocks are answered during
// the stall.
func TestDeepFork(t *testing.T) {
	history, depth := uint64(5), uint64(40)
	arms := map[int]string{3: "chain/switch-abandoned:20"}
	if long() {
		history, depth = 600, 500
		arms = map[int]string{2: "chain/switch-abandoned:300", 3: "chain/rollback-after:1"}
	}
	n := upNetwork(t, func(s *Spec) { s.Slot, s.Turn = 50*time.Millisecond, 4; overTCP(s) })
	finalAbove(t, n, history, 0, 1, 2, 3)
	require.NoError(t, n.Partition(t.Context(), [][]int{{0, 1}, {2, 3}}, proxy.Rule{Mode: proxy.BlackHole}))
	require.NoError(t, n.Kill(t.Context(), 3))
	// Without node 3 its branch falls behind, so that it is the one to be given up.
	lead := depth / 4
	answer := func(i int) Status { return until(t, n, i, "an answer", func(Status) bool { return true }) }
	until(t, n, 0, "its branch is longer", func(s Status) bool { return s.Head > answer(2).Head+lead })
	fork := answer(0).Final
	arm := func(i int) { // it may meet the failpoint at once, so nobody waits for its answer here
		require.NoError(t, n.Nodes[i].Process.stop(t.Context()))
		require.NoError(t, n.startNode(n.Nodes[i], "BORNODE_FAILPOINT="+arms[i]))
	}
	for i := range arms {
		arm(i)
	}
	ctx, moved, cancel := whileMoving(t, patience)
	defer cancel()
	var right Status
	require.NoError(t, poll(ctx, func() (bool, error) {
		for i := range arms { // a small change of branches within its group may have met the failpoint, and may while it is asked
			if !n.Nodes[i].Process.Alive() {
				arm(i)
			}
		}
		right = n.status(ctx, n.Nodes[3])
		other := n.status(ctx, n.Nodes[2])
		moved(right.Head, other.Head)
		return right.Head > fork+depth && other.Head > fork+depth, nil
	}), "two branches of %d blocks", depth)
	left := answer(0)
	require.Greater(t, left.Head, right.Head, "the branch of nodes 0 and 1 is the longer one")
	require.Less(t, left.Final, left.Head-depth)
	calls(t, n, left)

	require.NoError(t, n.Heal(t.Context()))
	for i, name := range arms {
		soon(t, fmt.Sprintf("node %d passes %s", i, name), func() bool { return !n.Nodes[i].Process.Alive() })
	}
	for i := range arms {
		require.NoError(t, n.Restart(t.Context(), i))
	}
	finalAbove(t, n, left.Head+5, 0, 1, 2, 3)
	sameChain(t, n, 0, 1, 2, 3)
	c := client(t, n, 3)
	h, err := c.HeaderByHash(t.Context(), left.Hash)
	require.NoError(t, err, "the longer branch stays")
	canonical, err := c.HeaderByNumber(t.Context(), h.Number)
	require.NoError(t, err)
	require.Equal(t, left.Hash, canonical.Hash())
}

// calls asks a system contract at the finalized block and, where there are so many, 1,000 blocks below the head.
func calls(t *testing.T, n *Network, s Status) {
	t.Helper()
	c := client(t, n, 0)
	at := []*big.Int{big.NewInt(int64(rpc.FinalizedBlockNumber)), new(big.Int).SetUint64(s.Final)}
	if long() {
		require.Greater(t, s.Head, uint64(1000))
		at = append(at, new(big.Int).SetUint64(s.Head-1000))
	}
	schedule, err := contracts.NewProducers().TryPackSchedule()
	require.NoError(t, err)
	for _, block := range at {
		out, err := c.CallContract(t.Context(), ethereum.CallMsg{To: &contracts.ProducersAddress, Data: schedule}, block)
		require.NoError(t, err, "block %s", block)
		seats, err := contracts.DecodeSchedule(out)
		require.NoError(t, err)
		require.Len(t, seats, 4)
	}
}

// Two of four killed: blocks go on, finality stops; restarted, finality catches up.
func TestTwoProducersKilled(t *testing.T) {
	n := upNetwork(t, nil)
	finalAbove(t, n, 5, 0)
	require.NoError(t, n.Kill(t.Context(), 2))
	require.NoError(t, n.Kill(t.Context(), 3))
	stuck := n.stuckFinal(t)
	later := until(t, n, 0, "10 more blocks", func(s Status) bool { return s.Head > stuck.Head+10 })
	require.Equal(t, stuck.Final, later.Final, "nothing may become final without a quorum")
	require.NoError(t, n.Restart(t.Context(), 2))
	require.NoError(t, n.Restart(t.Context(), 3))
	finalAbove(t, n, later.Head, 0, 1, 2, 3)
	sameChain(t, n, 0, 1, 2, 3)
}

// stuckFinal waits at node 0 until the LIB has stood for 10 blocks: what was on its way when the quorum was lost may still have
// become final. From then on the LIB must stand while the head moves.
func (n *Network) stuckFinal(t *testing.T) Status {
	t.Helper()
	stuck := until(t, n, 0, "an answer", func(Status) bool { return true })
	for settled := false; !settled; {
		s := until(t, n, 0, "10 more blocks", func(s Status) bool { return s.Head > stuck.Head+10 })
		settled, stuck = s.Final == stuck.Final, s
	}
	return stuck
}

// A 2/2 partition held past maxReversible: two branches, no conflicting LIB, calls are answered meanwhile; healed,
// one branch and a moving LIB.
func TestPartitionPastMaxReversible(t *testing.T) {
	n := upNetwork(t, func(s *Spec) { s.MaxReversible, s.Slot = 60, 100*time.Millisecond; overTCP(s) })
	finalAbove(t, n, 5, 0, 1, 2, 3)
	require.NoError(t, n.Partition(t.Context(), [][]int{{0, 1}, {2, 3}}, proxy.Rule{Mode: proxy.BlackHole}))
	left := until(t, n, 0, "stalled past maxReversible", func(s Status) bool { return s.Head > s.Final+62 })
	right := until(t, n, 2, "stalled past maxReversible", func(s Status) bool { return s.Head > s.Final+62 })
	require.NotEqual(t, left.Hash, right.Hash)
	if left.Final == right.Final {
		require.Equal(t, left.LIB, right.LIB)
	}
	c := client(t, n, 0)
	for _, at := range []rpc.BlockNumber{rpc.LatestBlockNumber, rpc.FinalizedBlockNumber} {
		_, err := c.CallContract(t.Context(), ethereum.CallMsg{To: &common.Address{1}}, big.NewInt(int64(at)))
		require.NoError(t, err)
	}
	require.NoError(t, n.Heal(t.Context()))
	finalAbove(t, n, max(left.Head, right.Head), 0, 1, 2, 3)
	sameChain(t, n, 0, 1, 2, 3)
}

// Other ways to lose a peer: half-open and reset connections, and delays longer than a slot.
func TestHalfOpenResetAndDelayedPeers(t *testing.T) {
	n := upNetwork(t, overTCP)
	one := [][]int{{0, 1, 2}, {3}}
	for _, rule := range []proxy.Rule{{Mode: proxy.HalfOpen}, {Mode: proxy.Reset}, {Mode: proxy.Pass, Delay: 300 * time.Millisecond}} {
		require.NoError(t, n.Partition(t.Context(), one, rule))
		s := until(t, n, 0, "an answer", func(Status) bool { return true })
		finalAbove(t, n, s.Head+10, 0, 1, 2)
		require.NoError(t, n.Heal(t.Context()))
		s = until(t, n, 0, "an answer", func(Status) bool { return true })
		finalAbove(t, n, s.Head+5, 0, 1, 2, 3)
	}
	sameChain(t, n, 0, 1, 2, 3)
}

// New nodes join under load, stay at the head, and agree on every state. (That certified mode recovers no senders below
// the certificate is counted by bench.TestImports and by the driver's tests.)
func TestJoinUnderLoad(t *testing.T) {
	t.Run("shm", func(t *testing.T) { joinUnderLoad(t, "shm", func(*Spec) {}) })
	t.Run("tcp", func(t *testing.T) { joinUnderLoad(t, "tcp", overTCP) })
}

func joinUnderLoad(t *testing.T, provider string, change func(*Spec)) {
	n := upNetwork(t, func(s *Spec) { s.Observers = 0; change(s) })
	result := loadInBackground(t, n, 100, 15*time.Second, 0, 1)
	until(t, n, 0, "a history", func(s Status) bool { return s.Final > 30 })
	for _, mode := range []string{"certified", "full"} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		j, err := n.Add(ctx, AddOptions{SyncMode: mode})
		require.NoError(t, err)
		require.Positive(t, j.Bytes)
		require.NoError(t, poll(ctx, func() (bool, error) { // a short history is there before the link has moved
			now := &Join{}
			err := now.traffic(ctx, n.Nodes[j.Node])
			return now.Provider == provider, err
		}), "links over %s", provider)
		cancel()
	}
	r := result()
	require.Zero(t, r.Missing)
	s := until(t, n, 0, "an answer", func(Status) bool { return true })
	finalAbove(t, n, s.Head, 0, 4, 5)
	sameChain(t, n, 0, 4, 5)
	onChainOnce(t, n, 4, r.Hashes)
}
