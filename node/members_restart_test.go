package node

import (
	"context"
	"crypto/ecdsa"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/transport"
)

// pair is the folders of a network of one producer and one observer, who is linked with it by its configuration.
type pair struct {
	t                  *testing.T
	producer, observer *config.Config
	observerID         string
	admin              *ecdsa.PrivateKey
}

// hashContract stores BLOCKHASH(hashedHeight) in its slot 0 when it is called. To find the hash the header above is read.
var hashContract = common.Address{0xb1}

const hashedHeight = 4

func newPair(t *testing.T, change ...func(*genesis.Options)) *pair {
	t.Helper()
	const chainID = 4711
	dir, other := t.TempDir(), t.TempDir()
	keys, err := MakeKeys(dir, true, chainID)
	require.NoError(t, err)
	admin := newKey(t)
	observer, err := MakeKeys(other, false, chainID)
	require.NoError(t, err)
	o := genesis.Options{
		ChainID: chainID, GenesisTime: uint64(time.Now().Unix()), Slot: 100 * time.Millisecond, TurnSlots: 2, //nolint:gosec // after 1970
		EpochBlocks: 8, // a start reads the headers of the epoch under way
		Producers:   []genesis.Producer{{Account: keys.Account, BLSKey: [48]byte(keys.BLSKey), Proof: [96]byte(keys.Proof)}},
		Members: []genesis.Member{
			{PeerID: keys.PeerID, Account: keys.Account, Roles: genesis.RoleProducer},
			{PeerID: observer.PeerID, Roles: genesis.RoleObserver},
		},
		Admin:    addressOf(admin),
		Alloc:    map[common.Address]*big.Int{keys.Account: big.NewInt(1e18), addressOf(admin): big.NewInt(1e18)},
		Accounts: map[common.Address]genesis.Account{hashContract: {Code: []byte{0x60, hashedHeight, 0x40, 0x5f, 0x55, 0x00}}},
	}
	for _, f := range change {
		f(&o)
	}
	g, err := genesis.New(o)
	require.NoError(t, err)
	configOf := func(dir string) *config.Config {
		require.NoError(t, g.Write(filepath.Join(dir, GenesisFile)))
		c := config.Default()
		c.DataDir, c.Genesis = dir, GenesisFile
		c.RPC.HTTPAddr, c.RPC.WSAddr, c.RPC.IPCPath, c.RPC.LogIndex = "127.0.0.1:0", "", "", ""
		c.P2P.TCP.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
		return c
	}
	p := &pair{t: t, producer: configOf(dir), observer: configOf(other), observerID: observer.PeerID, admin: admin}
	p.producer.Keys.Producer, p.producer.Consensus.NewKey = ProducerFile, true
	return p
}

// run opens and runs a node until stop.
func (p *pair) run(c *config.Config) (n *Node, stop func()) {
	p.t.Helper()
	return p.runWith(c, zap.NewNop())
}

func (p *pair) runWith(c *config.Config, log *zap.Logger) (n *Node, stop func()) {
	p.t.Helper()
	n, err := New(p.t.Context(), c, log, telemetry.NewRegistry())
	require.NoError(p.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(p.t, <-ended)
		}
	}
	p.t.Cleanup(stop)
	return n, stop
}

func (p *pair) until(what string, ok func() bool) {
	p.t.Helper()
	require.Eventually(p.t, ok, patience, 20*time.Millisecond, what)
}

// decide has a proposal of the network's admin take effect and become final.
func (p *pair) decide(n *Node, proposal []byte) {
	p.t.Helper()
	to := contracts.MembersAddress
	p.send(n, &to, proposal)
}

// send has a transaction of the network's admin become final and returns its height.
func (p *pair) send(n *Node, to *common.Address, data []byte) (height uint64) {
	p.t.Helper()
	id := n.chain.Config().ChainID
	signed, err := types.SignNewTx(p.admin, types.LatestSignerForChainID(id), &types.DynamicFeeTx{ChainID: id,
		Nonce: n.pool.Nonce(addressOf(p.admin)), GasFeeCap: big.NewInt(100), GasTipCap: new(big.Int), Gas: 2_000_000, To: to, Data: data})
	require.NoError(p.t, err)
	require.NoError(p.t, n.pool.Add([]*types.Transaction{signed}, true)[0])
	p.until("the transaction is final", func() bool {
		x, err := n.chain.Transaction(signed.Hash())
		if err == nil && x != nil {
			height = x.Height
		}
		return height > 0 && n.chain.FinalHeader().Number.Uint64() >= height
	})
	return height
}

// Who governance removed is refused by the gate of a node that was just opened, before it runs and so before any block:
// what its genesis says counts for nothing. It is so after an orderly stop, and with what a kill leaves of the folder.
func TestRemovedMemberIsRefusedRightAfterARestart(t *testing.T) {
	p := newPair(t)
	n, stop := p.run(p.producer)
	removed := transport.PeerID(p.observerID)
	require.NoError(t, n.members.Check(removed), "a member of genesis")
	call, err := contracts.RemoveMemberCall(p.observerID)
	require.NoError(t, err)
	p.decide(n, call)
	p.until("it is refused by the running node", func() bool { return n.members.Check(removed) != nil })

	killed := *p.producer
	killed.DataDir = filepath.Join(t.TempDir(), "killed")
	stop()
	require.NoError(t, os.CopyFS(killed.DataDir, os.DirFS(p.producer.DataDir)))
	require.NoError(t, os.RemoveAll(filepath.Join(killed.DataDir, "state"))) // the state is rebuilt from the blocks
	for _, key := range []string{killed.Keys.Identity, killed.Keys.Producer} {
		require.NoError(t, os.Chmod(killed.Path(key), 0o600))
	}
	for _, c := range []*config.Config{p.producer, &killed} {
		c.Consensus.NewKey = false
		again, _ := open(t, c)
		require.ErrorIs(t, again.members.Check(removed), transport.ErrNotMember)
		require.NoError(t, again.members.Check(again.host.ID()))
		require.NoError(t, again.close())
	}
}
