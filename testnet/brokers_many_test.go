package testnet

import (
	"context"
	"fmt"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/ethclient"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/bornode/bornode/contracts"
)

func manyName(i int) string { return fmt.Sprintf("demo.many-%05d", i) }

// makeMany creates topics of one partition with three replicas, as many at once as an account may have waiting.
func makeMany(t *testing.T, n *Network, count int) (gas uint64) {
	t.Helper()
	ctx := t.Context()
	c, err := ethclient.DialContext(ctx, n.Nodes[3].HTTP)
	require.NoError(t, err)
	defer c.Close()
	s := newSender(t, c, n.Accounts[0])
	price, err := c.SuggestGasPrice(ctx)
	require.NoError(t, err)
	const atOnce = 500
	for from := 0; from < count; from += atOnce {
		var last *types.Transaction
		for i := from; i < min(from+atOnce, count); i++ {
			data, err := contracts.CreateTopicCall(contracts.NewTopic{Name: manyName(i), Partitions: 1, Replicas: 3})
			require.NoError(t, err)
			if gas == 0 {
				gas, err = c.EstimateGas(ctx, ethereum.CallMsg{From: s.a.Address, To: &contracts.TopicsAddress, Data: data})
				require.NoError(t, err)
			}
			last, err = types.SignNewTx(s.a.Private(), types.LatestSignerForChainID(s.chain), &types.LegacyTx{
				Nonce: s.nonce, GasPrice: new(big.Int).Mul(price, big.NewInt(2)), Gas: gas + gas/4, To: &contracts.TopicsAddress, Data: data})
			require.NoError(t, err)
			require.NoError(t, c.SendTransaction(ctx, last))
			s.nonce++
		}
		require.Eventually(t, func() bool {
			r, err := c.TransactionReceipt(ctx, last.Hash())
			return err == nil && r.Status == types.ReceiptStatusSuccessful
		}, patience, pollEvery, "topics %d and on", from)
	}
	return gas
}

// Many topics: what they cost a broker in memory, in work while nothing happens and at its start; the audit of one of
// them reads its own entries alone.
func TestManyTopicsOnBrokers(t *testing.T) {
	count := 1000
	if long() {
		count = 10_000
	}
	n := upNetwork(t, func(s *Spec) {
		s.Brokers = 3
		overTCP(s)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	x := n.Nodes[0]
	keeps := func() float64 { return metric(t, x, "bornode_topics_broker_partitions_count") }
	require.Eventually(t, func() bool { return keeps() >= 16 }, patience, pollEvery, "the groups' own topic")
	idle := func() time.Duration { // processor time for a final block
		was, first := x.Process.CPU(), metric(t, x, "bornode_chain_final_height_blocks")
		require.Eventually(t, func() bool { return metric(t, x, "bornode_chain_final_height_blocks") >= first+20 }, patience, pollEvery)
		return (x.Process.CPU() - was) / time.Duration(metric(t, x, "bornode_chain_final_height_blocks")-first)
	}
	before, _ := resident(t, x)
	quiet := idle()
	started := time.Now()
	gas := makeMany(t, n, count)
	require.Eventually(t, func() bool { return keeps() >= float64(count+16) }, patience, pollEvery)
	for _, b := range n.Nodes[:3] {
		require.Eventually(t, func() bool {
			return metric(t, b, "bornode_topics_replica_under_replicated_partitions")+metric(t, b, "bornode_topics_replica_taking_over_partitions") == 0
		}, patience, pollEvery)
	}
	made := time.Since(started)
	after, _ := resident(t, x)
	busy := idle()
	t.Logf("%d topics made in %v (%d gas each); a broker's memory: %d MiB before, %d after (%d KiB each); processor time per final block: %v before, %v after",
		count, made.Round(time.Millisecond), gas, before, after, (after-before)<<10/count, quiet, busy)
	require.Less(t, (after-before)<<10/count, 100, "KiB of memory for a topic")

	own := auditMany(t, ctx, n, count)
	t.Log(own)

	started = time.Now()
	require.NoError(t, n.Kill(ctx, 0))
	require.NoError(t, n.Restart(ctx, 0))
	up := time.Since(started)
	require.Eventually(t, func() bool {
		return keeps() >= float64(count+16) && metric(t, x, "bornode_topics_replica_taking_over_partitions") == 0 &&
			metric(t, n.Nodes[1], "bornode_topics_replica_under_replicated_partitions")+metric(t, n.Nodes[2], "bornode_topics_replica_under_replicated_partitions") == 0
	}, patience, pollEvery)
	again, _ := resident(t, x)
	t.Logf("killed and started: up after %v, with all topics in sync after %v; memory %d MiB", up.Round(time.Millisecond), time.Since(started).Round(time.Millisecond), again)
}

// auditMany writes to a hundred topics, more often to one, and audits that one.
func auditMany(t *testing.T, ctx context.Context, n *Network, count int) string {
	t.Helper()
	w := kafkaClient(t, n)
	const often = 7 // none of the hundred
	for range 3 {
		var list []*kgo.Record
		for i := 0; i < count; i += count / 100 {
			list = append(list, &kgo.Record{Topic: manyName(i), Value: []byte("one")})
		}
		list = append(list, &kgo.Record{Topic: manyName(often), Value: []byte("mine")})
		require.NoError(t, w.ProduceSync(ctx, list...).FirstErr())
	}
	c, err := ethclient.DialContext(ctx, n.Nodes[3].HTTP)
	require.NoError(t, err)
	defer c.Close()
	type state struct {
		Count hexutil.Uint64 `json:"count"`
	}
	operations := func(i int) uint64 {
		var s state
		require.NoError(t, c.Client().CallContext(ctx, &s, "bps_operations", manyName(i)))
		return uint64(s.Count)
	}
	others := 0
	require.Eventually(t, func() bool {
		others = 0
		for i := 0; i < count; i += count / 100 {
			if operations(i) > 0 {
				others++
			}
		}
		return others == 100 && operations(often) > 0
	}, patience, 10*pollEvery, "operations on record")
	var audit struct {
		To      state `json:"to"`
		Batches []struct {
			Count hexutil.Uint64 `json:"count"`
		} `json:"batches"`
		Proved bool           `json:"proved"`
		Read   hexutil.Uint64 `json:"read"`
	}
	require.NoError(t, c.Client().CallContext(ctx, &audit, "bps_audit", manyName(often)))
	sum := uint64(0)
	for _, b := range audit.Batches {
		sum += uint64(b.Count)
	}
	require.True(t, audit.Proved)
	require.Equal(t, uint64(audit.To.Count), sum)
	require.LessOrEqual(t, int(audit.Read), len(audit.Batches), "blocks without an entry of the topic were read")
	return fmt.Sprintf("audit of one of %d topics, 101 of which have operations: %d operations in %d batches, %d blocks read", count, sum, len(audit.Batches), audit.Read)
}
