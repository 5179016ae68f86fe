package node

import (
	"context"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
)

// A producer's node that lacks the description of a voted upgrade ends before its height with one sentence, at every
// start; with the file in place it goes on by the new rules.
func TestUnknownUpgradeEndsTheNode(t *testing.T) {
	c := folder(t)
	keys, err := MakeKeys(c.DataDir, true, 4711)
	require.NoError(t, err)
	admin, err := crypto.GenerateKey()
	require.NoError(t, err)
	up := genesis.Upgrade{Height: 80, Name: "narrower", Parameters: map[string]string{genesis.GasLimit: "20000000"}}
	place := func(upgrades ...genesis.Upgrade) {
		g, err := genesis.New(genesis.Options{
			ChainID: 4711, GenesisTime: 1_760_000_000, Slot: 50 * time.Millisecond, TurnSlots: 2, Admin: crypto.PubkeyToAddress(admin.PublicKey),
			Producers: []genesis.Producer{{Account: keys.Account, BLSKey: [48]byte(keys.BLSKey), Proof: [96]byte(keys.Proof)}},
			Members:   []genesis.Member{{PeerID: keys.PeerID, Account: keys.Account, Roles: genesis.RoleProducer}},
			Alloc:     map[common.Address]*big.Int{crypto.PubkeyToAddress(admin.PublicKey): big.NewInt(1e18)}, Upgrades: upgrades,
		})
		require.NoError(t, err)
		require.NoError(t, g.Write(filepath.Join(c.DataDir, GenesisFile)))
	}
	place()

	n, _ := open(t, c)
	data, err := contracts.UpgradeCall(up.Height, up.Name, up.Digest())
	require.NoError(t, err)
	require.NoError(t, n.pool.Add([]*types.Transaction{types.MustSignNewTx(admin, types.LatestSigner(n.chain.Config()), &types.DynamicFeeTx{
		ChainID: n.chain.Config().ChainID, To: &contracts.MembersAddress, Data: data, Gas: 1_000_000, GasFeeCap: new(big.Int), GasTipCap: new(big.Int),
	})}, true)[0])
	want := chain.ErrUnknownUpgrade{Height: up.Height, Name: up.Name, Digest: up.Digest()}
	for range 2 {
		require.EqualError(t, runToTheEnd(t, n), want.Error())
		require.EqualValues(t, 79, n.chain.CurrentHeader().Number.Uint64())
		c.Consensus.NewKey = false
		n, _ = open(t, c)
	}
	require.NoError(t, n.close())

	place(up)
	n, _ = open(t, c)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	require.Eventually(t, func() bool { return n.chain.FinalHeader().Number.Uint64() > up.Height }, patience, 20*time.Millisecond)
	h, err := n.chain.HeaderByNumber(up.Height)
	require.NoError(t, err)
	require.EqualValues(t, 20_000_000, h.GasLimit)
	stop()
	require.NoError(t, <-ended)
}

func runToTheEnd(t *testing.T, n *Node) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := n.Run(ctx)
	require.NoError(t, ctx.Err(), "the node ran on")
	return err
}
