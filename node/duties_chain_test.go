package node

import (
	"context"
	"crypto/rand"
	"errors"
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
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/telemetry"
)

// twin is a block of a slot on a parent that nobody executed: its state root is made up.
func twin(t *testing.T, domain block.Domain, by *signer.Local, parent *block.SealedHeader, slot, seconds uint64, salt byte) *block.Block {
	t.Helper()
	r := &block.Record{Version: block.RecordVersion, Slot: slot, BodyDigest: block.BodyDigest(nil, nil)}
	h := types.CopyHeader(parent.Header)
	h.ParentHash, h.Number, h.Time = parent.Hash(), new(big.Int).SetUint64(parent.Number()+1), seconds
	h.Coinbase, h.Root, h.Extra = by.Account(), common.Hash{salt}, r.Hash().Bytes()
	h.TxHash, h.ReceiptHash, h.GasUsed, h.Bloom = types.EmptyTxsHash, types.EmptyReceiptsHash, 0, types.Bloom{}
	s := &block.SealedHeader{Header: h, Record: r}
	seal, err := by.SignSeal(domain.SealDigest(s.Hash()))
	require.NoError(t, err)
	s.Seal = seal
	return &block.Block{SealedHeader: s}
}

// court is a running node that shares a schedule of two with a producer whose keys the test has. Nothing becomes final.
type court struct {
	t      *testing.T
	n      *Node
	ctx    context.Context
	guilty *signer.Local
	logs   *observer.ObservedLogs
	p      block.Parameters
}

func newCourt(t *testing.T) *court {
	t.Helper()
	c := folder(t)
	const chainID = 4711
	keys, err := MakeKeys(c.DataDir, true, chainID)
	require.NoError(t, err)
	guilty, err := signer.Generate(rand.Reader)
	require.NoError(t, err)
	g, err := genesis.New(genesis.Options{
		ChainID: chainID, GenesisTime: uint64(time.Now().Unix()), Slot: 100 * time.Millisecond, TurnSlots: 4, MinProducers: 1, //nolint:gosec // after 1970
		Fees: genesis.Fees{Mode: genesis.FeesFixed, BaseFee: 1000},
		Producers: []genesis.Producer{
			{Account: keys.Account, BLSKey: [48]byte(keys.BLSKey), Proof: [96]byte(keys.Proof)},
			{Account: guilty.Account(), BLSKey: guilty.VoteKey(), Proof: guilty.ProvePossession(chainID)},
		},
		Members: []genesis.Member{{PeerID: keys.PeerID, Account: keys.Account, Roles: genesis.RoleProducer},
			{PeerID: "12D3KooWGRUnBwmXqXhGZhSNqTQzRVnzNgEpEuNrBEd5gGZ5TtCe", Account: guilty.Account(), Roles: genesis.RoleProducer}},
		Alloc: map[common.Address]*big.Int{keys.Account: big.NewInt(1e18)},
	})
	require.NoError(t, err)
	require.NoError(t, g.Write(filepath.Join(c.DataDir, GenesisFile)))
	core, logs := observer.New(zap.InfoLevel)
	n, err := New(t.Context(), c, zap.New(core), telemetry.NewRegistry())
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	t.Cleanup(func() { stop(); require.NoError(t, <-ended) })
	return &court{t: t, n: n, ctx: ctx, guilty: guilty, logs: logs, p: n.gen.Parameters()}
}

// twins enters count blocks of one slot of the guilty beside the head: what is preferred would be executed, and fail.
func (x *court) twins(count int) (made []*block.Block) {
	x.t.Helper()
	require.Eventually(x.t, func() bool {
		slot, ok := x.p.SlotAt(time.Now())
		head := x.n.chain.CurrentHeader()
		if s := x.n.gen.Schedule(); !ok || head.Number.Sign() == 0 || s.Owner(slot, x.p.TurnSlots).Account != x.guilty.Account() {
			return false
		}
		parent, err := x.n.chain.Sealed(head.ParentHash)
		if sealed, headErr := x.n.chain.Sealed(head.Hash()); errors.Join(err, headErr) != nil || parent == nil || sealed == nil || sealed.Slot() >= slot {
			return false
		}
		for i := range count {
			b := twin(x.t, block.Domain{Genesis: x.n.chain.Genesis().Hash()}, x.guilty, parent, slot, x.p.HeaderTime(slot), byte(i+1))
			if err := x.n.driver.AddBlock(x.ctx, b); err != nil {
				require.NotErrorIs(x.t, err, consensus.ErrInvalid)
				made = nil
				return false
			}
			made = append(made, b)
		}
		return true
	}, patience, 10*time.Millisecond)
	return made
}

// votes brings in votes of the guilty.
func (x *court) votes(links ...block.Link) {
	x.t.Helper()
	domain := block.Domain{Genesis: x.n.chain.Genesis().Hash()}
	var vs []block.Vote
	for _, l := range links {
		sig, err := x.guilty.SignVote(domain.VoteDigest(l))
		require.NoError(x.t, err)
		vs = append(vs, block.Vote{Link: l, Voter: x.guilty.Account(), Signature: sig})
	}
	verdicts, err := x.n.driver.AddVotes(vs)
	require.NoError(x.t, err)
	for _, v := range verdicts {
		require.Equal(x.t, dpos.VoteAccepted, v)
	}
}

// Whatever a producer did, the node that meets it has the contract slash the guilty, by one transaction of its own.
func TestGuiltIsSlashed(t *testing.T) {
	for name, sin := range map[string]func(*court){
		"two seals": func(x *court) { x.twins(2) },
		"two votes of a slot": func(x *court) {
			slot, _ := x.p.SlotAt(time.Now())
			source := block.Point{Hash: x.n.chain.Genesis().Hash()}
			x.votes(block.Link{Kind: block.Prevote, Source: source, Target: block.Point{Slot: slot, Hash: common.Hash{1}}},
				block.Link{Kind: block.Prevote, Source: source, Target: block.Point{Slot: slot, Hash: common.Hash{2}}})
		},
		"a vote across a precommit": func(x *court) {
			b := x.twins(1)[0]
			var d *block.SealedHeader
			require.Eventually(x.t, func() bool {
				var err error
				d, err = x.n.chain.Sealed(x.n.chain.CurrentHeader().Hash())
				return err == nil && d != nil && d.Number() > b.Number()+2
			}, patience, 10*time.Millisecond)
			x.votes(block.Link{Kind: block.Precommit, Source: b.Point(), Target: b.Point()},
				block.Link{Kind: block.Prevote, Source: block.Point{Hash: x.n.chain.Genesis().Hash()}, Target: d.Point()})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newCourt(t)
			require.Eventually(t, func() bool { return x.n.chain.CurrentHeader().Number.Sign() > 0 }, patience, 10*time.Millisecond)
			sin(x)
			guilty := func() bool {
				info, _, err := x.n.chain.Candidate(x.n.chain.CurrentHeader(), x.guilty.Account())
				return err == nil && info.Guilty
			}
			require.Eventually(t, guilty, patience, 20*time.Millisecond, "slashed")
			above := x.n.chain.CurrentHeader().Number.Uint64() + rankBlocks
			require.Eventually(t, func() bool { return x.n.chain.CurrentHeader().Number.Uint64() > above }, patience, 20*time.Millisecond)
			sent := 0
			for h := uint64(1); h <= above; h++ {
				b, err := x.n.chain.BlockByNumber(h)
				require.NoError(t, err)
				for _, tx := range b.Transactions {
					require.Equal(t, contracts.ProducersAddress, *tx.To())
					require.Positive(t, tx.GasFeeCap().Sign(), "the submitter pays")
					sent++
				}
			}
			require.Equal(t, 1, sent, "one transaction")
			require.Equal(t, 1, x.logs.FilterMessageSnippet("was slashed").Len())
		})
	}
}
