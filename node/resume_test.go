package node

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/transport"
)

// holdReplay stops the replay before its n-th block until release.
func holdReplay(t *testing.T, n int) (held <-chan struct{}, release func()) {
	t.Helper()
	reached, goOn := make(chan struct{}), make(chan struct{})
	disarm := failpoint.Arm("chain/replay-block", n, func() { close(reached); <-goOn })
	done := false
	release = func() {
		if !done {
			done = true
			close(goOn)
		}
	}
	t.Cleanup(func() { release(); disarm() })
	return reached, release
}

// killedCopy is what a kill leaves of a stopped node's folder when no state was written since genesis.
func killedCopy(t *testing.T, c *config.Config) *config.Config {
	t.Helper()
	killed := *c
	killed.DataDir = filepath.Join(t.TempDir(), "killed")
	require.NoError(t, os.CopyFS(killed.DataDir, os.DirFS(c.DataDir)))
	require.NoError(t, os.RemoveAll(filepath.Join(killed.DataDir, "state")))
	for _, key := range []string{killed.Keys.Identity, killed.Keys.Producer} {
		if key != "" {
			require.NoError(t, os.Chmod(killed.Path(key), 0o600))
		}
	}
	killed.Consensus.NewKey = false
	return &killed
}

// A node that has blocks to execute again answers from its stored blocks and serves a joiner before the first of them is
// executed; it refuses what depends on the newest state, admits whom governance left, and signs nothing.
func TestNodeServesBeforeItsReplay(t *testing.T) {
	p := newPair(t)
	n, stop := p.run(p.producer)
	removed := transport.PeerID("12D3KooWGC6TvWhfapngX6wvJHMYvKpDMXPb3ZnCZ6dMoaMtimQ5")
	call, err := contracts.AddMemberCall(string(removed), addressOf(p.admin), uint8(genesis.RoleObserver))
	require.NoError(t, err)
	p.decide(n, call)
	call, err = contracts.RemoveMemberCall(string(removed))
	require.NoError(t, err)
	p.decide(n, call)
	p.until("it is refused", func() bool { return n.members.Check(removed) != nil })
	p.until("epochs went by", func() bool { return n.chain.FinalHeader().Number.Uint64() > 40 })
	stop()

	killed := killedCopy(t, p.producer)
	held, release := holdReplay(t, 1)
	again, _ := p.run(killed)
	<-held
	log := filepath.Join(killed.Path(killed.Consensus.Dir), "votes.log")
	signed, err := os.ReadFile(log) // opening it wrote it anew
	require.NoError(t, err)
	lib, _ := again.store.LIB()
	require.GreaterOrEqual(t, lib, uint64(40))
	require.ErrorIs(t, again.members.Check(removed), transport.ErrNotMember)
	require.NoError(t, again.members.Check(transport.PeerID(p.observerID)))

	client := again.rpc.Client()
	defer client.Close()
	var block, syncing map[string]any
	for _, at := range []string{"0x14", "latest", "finalized", hexutil.EncodeUint64(lib)} {
		require.NoError(t, client.Call(&block, "eth_getBlockByNumber", at, true))
		require.NotEmpty(t, block["hash"], at)
	}
	require.Equal(t, hexutil.EncodeUint64(lib), block["number"])
	require.NoError(t, client.Call(&syncing, "eth_syncing"))
	require.Equal(t, "replay", syncing["state"])
	require.Equal(t, "0x0", syncing["currentBlock"])
	require.Equal(t, hexutil.EncodeUint64(lib), syncing["highestBlock"])
	for method, args := range map[string][]any{
		"eth_getBalance": {addressOf(p.admin), "latest"}, "eth_getTransactionCount": {addressOf(p.admin), "pending"},
		"eth_call": {map[string]any{"to": hashContract}, "latest"}, "eth_gasPrice": nil, "txpool_status": nil, "bor_parameters": nil,
		"eth_getBlockByNumber": {hexutil.EncodeUint64(lib + 1), false}, "eth_sendRawTransaction": {"0x02c0"},
		"eth_getTransactionReceipt": {block["hash"]}, "bps_topics": nil, "eth_feeHistory": {"0x1", "latest", nil},
	} {
		var answer any
		err := client.Call(&answer, method, args...)
		require.Error(t, err, "%s: %v", method, answer)
		if method != "eth_sendRawTransaction" { // refused before the pool is asked
			require.Contains(t, err.Error(), "executes blocks again", method)
		}
	}

	p.observer.P2P.Peers = []string{again.host.Addrs()[0]}
	joiner, leave := p.run(p.observer)
	p.until("the joiner has what is final", func() bool { return joiner.chain.FinalHeader().Number.Uint64() >= lib })
	replay, replaying := again.chain.Replaying()
	require.True(t, replaying)
	require.Zero(t, replay.At)
	now, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, signed, now, "nothing was recorded to be signed")
	leave()

	release()
	p.until("it makes final blocks again", func() bool { return again.chain.FinalHeader().Number.Uint64() > lib+2 })
	require.NoError(t, client.Call(&block, "eth_getBlockByNumber", hexutil.EncodeUint64(lib+1), false))
	require.NoError(t, client.Call(new(string), "eth_getBalance", addressOf(p.admin), "latest"))
	var done any
	require.NoError(t, client.Call(&done, "eth_syncing"))
	require.Equal(t, false, done)
}

// A node that is told to end while it executes blocks again ends in order, and what it executed is not lost.
func TestReplayEndsInOrderAndGoesOn(t *testing.T) {
	p := newPair(t)
	n, stop := p.run(p.producer)
	p.until("blocks are final", func() bool { return n.chain.FinalHeader().Number.Uint64() > 30 })
	stop()
	killed := killedCopy(t, p.producer)
	held, release := holdReplay(t, 20)
	n, _ = open(t, killed)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	<-held
	cancel()
	release()
	require.NoError(t, <-ended)
	n, _ = open(t, killed)
	replay, replaying := n.chain.Replaying()
	require.True(t, replaying)
	require.GreaterOrEqual(t, replay.At, uint64(19))
	require.NoError(t, n.close())
}
