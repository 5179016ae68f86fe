package node

import (
	"context"
	"crypto/rand"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/telemetry"
)

// twin is a block of a slot on a parent that nobody executed: its state root is made up.
func twin(t *testing.T, by *signer.Local, parent *block.SealedHeader, slot, seconds uint64, salt byte) *block.Block {
	t.Helper()
	r := &block.Record{Version: block.RecordVersion, Slot: slot, BodyDigest: block.BodyDigest(nil, nil)}
	h := types.CopyHeader(parent.Header)
	h.ParentHash, h.Number, h.Time = parent.Hash(), new(big.Int).SetUint64(parent.Number()+1), seconds
	h.Coinbase, h.Root, h.Extra = by.Account(), common.Hash{salt}, r.Hash().Bytes()
	h.TxHash, h.ReceiptHash, h.GasUsed, h.Bloom = types.EmptyTxsHash, types.EmptyReceiptsHash, 0, types.Bloom{}
	s := &block.SealedHeader{Header: h, Record: r}
	seal, err := by.SignSeal(s.Hash())
	require.NoError(t, err)
	s.Seal = seal
	return &block.Block{SealedHeader: s}
}

// Two blocks of one slot reach the node; its own transaction has the contract slash who sealed them, once.
func TestDoubleSealIsSlashed(t *testing.T) {
	c := folder(t)
	const chainID = 4711
	keys, err := MakeKeys(c.DataDir, true, chainID)
	require.NoError(t, err)
	guilty, err := signer.Generate(rand.Reader)
	require.NoError(t, err)
	proof := guilty.ProvePossession(chainID)
	ether := big.NewInt(1e18)
	g, err := genesis.New(genesis.Options{
		ChainID: chainID, GenesisTime: uint64(time.Now().Unix()), Slot: 200 * time.Millisecond, TurnSlots: 4, MinProducers: 1, //nolint:gosec // after 1970
		Fees: genesis.Fees{Mode: genesis.FeesFixed, BaseFee: 1000},
		Producers: []genesis.Producer{
			{Account: keys.Account, BLSKey: [48]byte(keys.BLSKey), Proof: [96]byte(keys.Proof)},
			{Account: guilty.Account(), BLSKey: guilty.VoteKey(), Proof: proof},
		},
		Members: []genesis.Member{{PeerID: keys.PeerID, Account: keys.Account, Roles: genesis.RoleProducer},
			{PeerID: "12D3KooWGRUnBwmXqXhGZhSNqTQzRVnzNgEpEuNrBEd5gGZ5TtCe", Account: guilty.Account(), Roles: genesis.RoleProducer}},
		Alloc: map[common.Address]*big.Int{keys.Account: ether},
	})
	require.NoError(t, err)
	require.NoError(t, g.Write(filepath.Join(c.DataDir, GenesisFile)))
	core, logs := observer.New(zap.InfoLevel)
	n, err := New(t.Context(), c, zap.New(core), telemetry.NewRegistry())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	defer func() { stop(); require.NoError(t, <-ended) }()

	p := n.gen.Parameters()
	require.Eventually(t, func() bool { // in a turn of the guilty, beside the head: what is preferred would be executed
		slot, ok := p.SlotAt(time.Now())
		head := n.chain.CurrentHeader()
		if s, err := n.driver.Schedule(); err != nil || !ok || head.Number.Sign() == 0 || s.Owner(slot, p.TurnSlots).Account != guilty.Account() {
			return false
		}
		parent := n.chain.Sealed(head.ParentHash)
		if sealed := n.chain.Sealed(head.Hash()); parent == nil || sealed == nil || sealed.Slot() >= slot {
			return false
		}
		a := n.driver.AddBlock(ctx, twin(t, guilty, parent, slot, p.HeaderTime(slot), 1))
		b := n.driver.AddBlock(ctx, twin(t, guilty, parent, slot, p.HeaderTime(slot), 2))
		if a != nil || b != nil {
			require.NotErrorIs(t, a, consensus.ErrInvalid)
			require.NotErrorIs(t, b, consensus.ErrInvalid)
		}
		return a == nil && b == nil
	}, patience, 10*time.Millisecond)

	require.Eventually(t, func() bool {
		info, _, err := n.chain.Candidate(n.chain.CurrentHeader(), guilty.Account())
		return err == nil && info.Guilty
	}, patience, 20*time.Millisecond, "slashed")
	above := n.chain.CurrentHeader().Number.Uint64() + rankBlocks
	require.Eventually(t, func() bool { return n.chain.CurrentHeader().Number.Uint64() > above }, patience, 20*time.Millisecond)
	sent := 0
	for h := uint64(1); h <= above; h++ {
		for _, tx := range n.chain.BlockByNumber(h).Transactions {
			require.Equal(t, contracts.ProducersAddress, *tx.To())
			sent++
		}
	}
	require.Equal(t, 1, sent, "one transaction")
	require.Equal(t, 1, logs.FilterMessageSnippet("was slashed").Len())
	st, err := n.chain.StateAt(n.chain.CurrentHeader())
	require.NoError(t, err)
	require.Negative(t, st.GetBalance(keys.Account).ToBig().Cmp(ether), "the submitter paid for it")
}
