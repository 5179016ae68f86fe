package node

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
)

// A JSON-RPC read of a damaged final block is answered as if nothing had been: the node notes the damage, asks its peer at
// once, and the read waits for that. Nobody else reads the block meanwhile.
func TestAReadHasADamagedBlockFetchedAgain(t *testing.T) {
	p := newPair(t)
	b, _ := p.run(p.producer)
	p.observer.P2P.Peers = b.host.Addrs()
	a, stop := p.run(p.observer)
	const height = 5
	p.until("the block is final and below the epochs that a start reads", func() bool { return a.chain.FinalHeader().Number.Uint64() > height+20 })
	var want map[string]any
	require.NoError(t, dialNode(t, a).Call(&want, "eth_getBlockByNumber", hexutil.EncodeUint64(height), true))
	require.NotNil(t, want)
	entry, err := a.store.Entry(height)
	require.NoError(t, err)
	stop()
	flipByte(t, filepath.Join(p.observer.Path(p.observer.Store.Dir), "segments", fmt.Sprintf("%08d.seg", entry.Segment)), int64(entry.Offset)+block.RecordHeaderBytes+20)

	p.observer.Store.RepairWait = time.Minute // a busy machine may need longer than the usual
	a, _ = p.run(p.observer)
	p.until("it is linked with its peer", func() bool { return a.sync.Status().Peers == 1 })
	require.Empty(t, a.store.Damaged(), "nobody has met the damage yet")
	client := dialNode(t, a)
	read := func() (got map[string]any, err error) {
		err = client.Call(&got, "eth_getBlockByNumber", hexutil.EncodeUint64(height), true)
		return got, err
	}
	got, err := read()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Empty(t, a.store.Damaged(), "the block was replaced")
	require.Less(t, uint64(height), a.chain.FinalHeader().Number.Uint64())
}

// Without a peer that could send the block the reader is told at once which height is damaged; null it is not told.
func TestAReadOfADamagedBlockWithoutPeersIsToldAtOnce(t *testing.T) {
	p := newPair(t)
	const height = 5
	b, stop := p.run(p.producer)
	p.until("the block is final and below the epochs that a start reads", func() bool { return b.chain.FinalHeader().Number.Uint64() > height+20 })
	entry, err := b.store.Entry(height)
	require.NoError(t, err)
	stop()
	flipByte(t, filepath.Join(p.producer.Path(p.producer.Store.Dir), "segments", fmt.Sprintf("%08d.seg", entry.Segment)), int64(entry.Offset)+block.RecordHeaderBytes+20)
	p.producer.Store.RepairWait = time.Minute // the wait does not end by itself before the test
	b, _ = p.run(p.producer)
	var got map[string]any
	start := time.Now()
	err = dialNode(t, b).Call(&got, "eth_getBlockByNumber", hexutil.EncodeUint64(height), true)
	require.ErrorContains(t, err, fmt.Sprintf("block %d is damaged in this node's store", height))
	require.ErrorContains(t, err, "no connected peer can send it now")
	require.Less(t, time.Since(start), time.Minute)
	var coded gethrpc.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, -32000, coded.ErrorCode())
	require.Nil(t, got)
}

func dialNode(t *testing.T, n *Node) *gethrpc.Client {
	t.Helper()
	c, err := gethrpc.Dial(n.rpc.HTTPURL())
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func flipByte(t *testing.T, name string, at int64) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	require.NoError(t, err)
	b[0] ^= 1
	_, err = f.WriteAt(b[:], at)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// A contract asks for the hash of a block that is damaged on one node's disk. The node stays up, has the block fetched
// from its peer, and goes on with the same state as the others.
func TestBlockHashOfADamagedBlockIsWaitedFor(t *testing.T) {
	const damaged = hashedHeight + 1
	p := newPair(t)
	b, _ := p.run(p.producer)
	p.observer.P2P.Peers = b.host.Addrs()
	a, stop := p.run(p.observer)
	p.until("the block is final and below the epochs that a start reads", func() bool { return a.chain.FinalHeader().Number.Uint64() > damaged+20 })
	entry, err := a.store.Entry(damaged)
	require.NoError(t, err)
	stop()
	flipByte(t, filepath.Join(p.observer.Path(p.observer.Store.Dir), "segments", fmt.Sprintf("%08d.seg", entry.Segment)), int64(entry.Offset)+block.RecordHeaderBytes+20)

	core, logs := observer.New(zap.InfoLevel)
	to := hashContract
	height := p.send(b, &to, nil)
	a, _ = p.runWith(p.observer, zap.New(core))
	p.until("the block that asks is final at the damaged node", func() bool { return a.chain.FinalHeader().Number.Uint64() >= height })
	require.NotZero(t, logs.FilterMessageSnippet("execution waits for a block that is damaged").Len())
	require.NotZero(t, logs.FilterMessageSnippet("execution goes on").Len())
	want, err := b.chain.CanonicalHash(hashedHeight)
	require.NoError(t, err)
	state, err := a.chain.StateAt(a.chain.FinalHeader())
	require.NoError(t, err)
	require.Equal(t, want, state.GetState(hashContract, common.Hash{}))
}
