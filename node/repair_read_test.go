package node

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
)

// A JSON-RPC read is enough to have a damaged final block fetched again: the answer names the height, the node asks its
// peer by itself, and the same read is answered afterwards. Nobody else reads the block meanwhile.
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

	a, _ = p.run(p.observer)
	p.until("it is linked with its peer", func() bool { return a.sync.Status().Peers == 1 })
	require.Empty(t, a.store.Damaged(), "nobody has met the damage yet")
	client := dialNode(t, a)
	read := func() (got map[string]any, err error) {
		err = client.Call(&got, "eth_getBlockByNumber", hexutil.EncodeUint64(height), true)
		return got, err
	}
	_, err = read()
	require.ErrorContains(t, err, fmt.Sprintf("block %d is damaged in this node's store", height))
	var coded gethrpc.Error
	require.ErrorAs(t, err, &coded)
	require.Equal(t, -32000, coded.ErrorCode())
	p.until("the block was replaced", func() bool { return len(a.store.Damaged()) == 0 })
	got, err := read()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.Less(t, uint64(height), a.chain.FinalHeader().Number.Uint64())
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
