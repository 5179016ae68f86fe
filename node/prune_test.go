package node

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/telemetry"
)

// quick makes a network that has hundreds of blocks in seconds and may keep few of them.
func quick(o *genesis.Options) {
	o.Slot, o.MaxReversible = 20*time.Millisecond, genesis.MinReversible
}

// A node prunes while it makes blocks. Below the first height there is one error, from it on the right block, at every
// moment; what a start reads stays; a joiner to whom nobody gives the history is told so, and one that is behind by less
// catches up.
func TestANodePrunesItsHistory(t *testing.T) {
	p := newPair(t, quick)
	p.producer.Store.SegmentBytes = 4 << 10
	p.producer.Chain.FlushBlocks = 128
	least := leastKept(p.producer, genesisOf(t, p.producer).Parameters())
	p.producer.Store.KeepBlocks = least - 1
	_, err := New(t.Context(), p.producer, zap.NewNop(), telemetry.NewRegistry())
	require.ErrorContains(t, err, fmt.Sprintf("store.keep_blocks is %d: this node needs the newest %d irreversible blocks", least-1, least))

	p.producer.Store.KeepBlocks = least
	b, stop := p.run(p.producer)
	client := dialNode(t, b)
	p.until("history was pruned", func() bool { return b.store.FirstHeight() > 50 })
	for height := range b.store.FirstHeight() + 20 { // while more is pruned
		var got struct {
			Number hexutil.Uint64
		}
		before := b.store.FirstHeight()
		err := client.Call(&got, "eth_getBlockByNumber", hexutil.Uint64(height), false)
		var coded gethrpc.Error
		switch {
		case err == nil:
			require.EqualValues(t, height, got.Number)
			require.True(t, height == 0 || height >= before, "block %d of %d on", height, before)
		default:
			require.ErrorAs(t, err, &coded)
			require.Equal(t, 4444, coded.ErrorCode(), err)
			require.Less(t, height, b.store.FirstHeight())
		}
	}
	lib, _ := b.store.LIB()
	require.LessOrEqual(t, b.store.FirstHeight()+least, lib+1)
	floor, err := b.chain.ReplayFloor()
	require.NoError(t, err)
	require.LessOrEqual(t, b.store.FirstHeight(), floor)

	core, logs := observer.New(zap.WarnLevel)
	p.observer.P2P.Peers = b.host.Addrs()
	_, leave := p.runWith(p.observer, zap.New(core))
	p.until("the joiner says that nobody keeps the history", func() bool { return logs.FilterMessageSnippet("no peer keeps the next blocks").Len() > 0 })
	leave()

	stop() // and what is left is enough for a start, also for one that lost what was in memory
	p.producer.Consensus.NewKey = false
	again, stopAgain := p.run(p.producer)
	height := again.chain.FinalHeader().Number.Uint64()
	p.until("it goes on", func() bool { return again.chain.FinalHeader().Number.Uint64() > height+5 })
	var raw json.RawMessage
	require.ErrorContains(t, dialNode(t, again).CallContext(context.Background(), &raw, "eth_getBlockByNumber", "0x1", false), "pruned history unavailable")
	stopAgain()
}

func genesisOf(t *testing.T, c interface{ Path(string) string }) *genesis.Genesis {
	t.Helper()
	g, err := genesis.Load(c.Path(GenesisFile))
	require.NoError(t, err)
	return g
}
