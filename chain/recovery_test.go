package chain

import (
	"context"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
)

// withElection gives the chain the contract Producers, with the genesis schedule.
func withElection(g *testGenesis) {
	g.params.EpochBlocks = 8
	p := contracts.ProducersGenesis{
		GenesisTime: g.params.GenesisTime, SlotMillis: g.params.SlotMillis, EpochBlocks: g.params.EpochBlocks, Seats: 21, MinProducers: 4, JailTurns: 3,
		SlashPercent: 50, EvidenceSeconds: 1000, WithdrawSeconds: 2000, UnjailSeconds: 60, MinStake: big.NewInt(5),
	}
	for _, x := range g.schedule {
		p.Producers = append(p.Producers, contracts.ProducerGenesis{Account: x.Account, Key: x.Key, Stake: big.NewInt(10)})
	}
	g.alloc[contracts.ProducersAddress] = types.Account{Nonce: 1, Code: contracts.ProducersCode(), Storage: contracts.ProducersStorage(p), Balance: p.TotalStake()}
}

// The first block after a recovery gives schedule and election what the recovery says: the next schedules are elected from there.
// Built, executed, executed again and replayed it is the same; without the recovery it is refused.
func TestChainGoesOnByARecovery(t *testing.T) {
	gen := newTestGenesis(t, withElection)
	n, other := newTestNode(t, gen), newTestNode(t, gen)
	r := common.Hash{0xaa}
	next := block.Schedule{gen.schedule[0], gen.schedule[1], testProducer(5), testProducer(6)}
	reopen := func(n *testNode) {
		require.NoError(t, n.Close())
		n.cfg.Recoveries = map[common.Hash]Recovery{r: {Schedule: next, Lost: []common.Address{gen.schedule[2].Account, gen.schedule[3].Account}}}
		n.open()
	}
	var blocks []*block.Block
	for range 5 {
		blocks = append(blocks, n.build(0))
	}
	base := n.Head()
	require.Equal(t, gen.schedule, n.node(base.Hash()).track.Producers)
	other.give(blocks...)
	n.finalize(blocks...)

	request := BuildRequest{Parent: base.Hash(), Slot: base.Slot() + 100, Coinbase: next[0].Account, Recovery: r}
	_, err := n.Build(context.Background(), request)
	require.ErrorContains(t, err, "not applied here")
	reopen(n)
	require.Equal(t, base.Hash(), n.Head().Hash())
	built, err := n.Build(context.Background(), request)
	require.NoError(t, err)
	require.NoError(t, n.InsertBuilt(built, [65]byte{1}))
	first := built.Block
	require.Equal(t, r, first.Record.Recovery)
	_, err = n.SetHead(context.Background(), first.Hash())
	require.NoError(t, err)

	res := func() error {
		x := copyOf(first)
		require.NoError(t, other.CheckBody(x, false))
		require.NoError(t, other.Add([]*block.Block{x}))
		_, err := other.SetHead(context.Background(), x.Hash())
		return err
	}()
	require.ErrorContains(t, res, "not applied here", "this node's trouble, not the block's fault")
	other = newTestNode(t, gen)
	reopen(other)
	other.give(append(blocks, first)...)

	for _, x := range []*testNode{n, other} {
		track := x.node(first.Hash()).track
		require.Equal(t, next, track.Producers)
		require.Equal(t, r, track.Recovery)
		require.Empty(t, track.missed(), "skipped slots count against nobody")
		s, err := x.StateAt(first.Header)
		require.NoError(t, err)
		require.Equal(t, []common.Hash{r}, contracts.Recoveries(s))
	}
	for n.Head().Number() < 16 {
		blocks = append(blocks, n.build(0))
	}
	end, second := n.Sealed(n.CanonicalHash(8)), n.Sealed(n.CanonicalHash(16))
	require.Equal(t, next, end.Record.Next, "no election in the epoch of the recovery")
	require.Equal(t, next, second.Record.Next, "elected: nobody else stands, and the least number is kept")
	other.give(blocks[5:]...)
	want := n.node(n.Head().Hash()).track
	n.finalize(append([]*block.Block{first}, blocks[5:]...)...)
	reopen(n)
	again := *n.node(n.Head().Hash()).track
	again.Pending = nil // an empty one, if it came from the disk
	require.Equal(t, *want, again, "replayed from headers")
}

// A change of schedule that is under way ends with the recovery, which has no round to count at first; its epoch has no election,
// wherever in an epoch its first block lies.
func TestRecoveryInTheMiddleOfAChange(t *testing.T) {
	params := block.Parameters{TurnSlots: 1, EpochBlocks: 8}
	old, next := block.Schedule{testProducer(1), testProducer(2)}, block.Schedule{testProducer(3), testProducer(4)}
	r := common.Hash{0xaa}
	c := &Chain{params: params, cfg: Config{Recoveries: map[common.Hash]Recovery{r: {Schedule: next}}}}
	for _, before := range []*track{
		{Producers: old, Pending: block.Schedule{testProducer(5)}, PendingAt: 20, FinalSlot: 19, Slot: 30, Missed: []uint32{7, 0}, Whole: true},
		{Producers: block.Schedule{testProducer(5)}, Pending: block.Schedule{testProducer(5)}, PendingAt: 20, Adopted: true, AdoptedAt: 28, FinalSlot: 27, Slot: 30, Missed: []uint32{7}},
	} {
		at, err := c.trackBehind(before, 14, 101, &block.Record{Slot: 101, Recovery: r})
		require.NoError(t, err)
		require.Equal(t, next, at.Producers)
		require.Empty(t, at.Pending)
		require.False(t, at.Adopted)
		require.Empty(t, at.missed())
		for height, slot := uint64(15), uint64(102); height <= 20; height, slot = height+1, slot+1 {
			record := &block.Record{Slot: slot, FC: &block.Certificate{Link: block.Link{Kind: block.Precommit, Target: block.Point{Slot: slot - 1}}}}
			at, err = c.trackBehind(at, height, slot, record)
			require.NoError(t, err)
			require.Equal(t, next, at.Producers, "block %d", height)
			require.Equal(t, height == 16, at.Calls, "the first end of an epoch may change the schedule again")
			require.Equal(t, r, at.Recovery)
		}
	}
}
