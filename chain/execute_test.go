package chain

import (
	"bytes"
	"context"
	"encoding/binary"
	"math/big"
	"testing"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/stretchr/testify/require"
)

// logger is init code of a contract that stores its call data's first word in slot 0 and logs it.
var logger = common.FromHex("600c600c600039600c6000f3" + "5f355f555f355f52" + "60205fa0")

func TestDeployAndCall(t *testing.T) {
	gen := newTestGenesis(t, nil)
	n, other := newTestNode(t, gen), newTestNode(t, gen)
	at := crypto.CreateAddress(testAccount(0), 0)
	arg := common.Hash{31: 42}
	deploy := n.tx(0, nil, 0, logger, 200_000)
	call := n.tx(0, &at, 0, arg[:], 100_000)
	b := n.build(0, deploy, call)
	out := n.build(0, n.tx(1, &at, 0, arg[:], 21_600)) // too little gas: fails, and is in the block all the same
	other.give(b, out)
	for _, x := range []*testNode{n, other} {
		db, err := x.StateAt(x.CurrentHeader())
		require.NoError(t, err)
		require.Equal(t, arg, db.GetState(at, common.Hash{}))
		rs, err := x.Receipts(b.Hash())
		require.NoError(t, err)
		require.Equal(t, at, rs[0].ContractAddress)
		logs, err := x.Logs(b.Hash())
		require.NoError(t, err)
		require.Len(t, logs, 1)
		require.Equal(t, at, logs[0].Address)
		require.Equal(t, arg[:], logs[0].Data)
		require.Equal(t, b.Hash(), logs[0].BlockHash)
		require.Equal(t, call.Hash(), logs[0].TxHash)
		require.EqualValues(t, 1, logs[0].BlockNumber)
		require.Equal(t, b.Header.Time, logs[0].BlockTimestamp)
		require.NotEqual(t, types.Bloom{}, b.Header.Bloom)
		rs, err = x.Receipts(out.Hash())
		require.NoError(t, err)
		require.Equal(t, types.ReceiptStatusFailed, rs[0].Status)
	}
	// What the store keeps, with derived fields, is what execution made; and so is what is made again.
	kept, err := n.Receipts(b.Hash())
	require.NoError(t, err)
	for _, lost := range []bool{false, true} {
		n.receipts.drain()
		n.receiptCache.Purge()
		if lost {
			delete(n.store.receipts, b.Hash())
		}
		again, err := n.Receipts(b.Hash())
		require.NoError(t, err)
		for i := range kept {
			require.Equal(t, kept[i].GasUsed, again[i].GasUsed)
			require.Equal(t, kept[i].Logs, again[i].Logs)
			require.Equal(t, kept[i].ContractAddress, again[i].ContractAddress)
			require.Equal(t, kept[i].BlockHash, again[i].BlockHash)
			require.Zero(t, kept[i].EffectiveGasPrice.Cmp(again[i].EffectiveGasPrice))
		}
	}
}

func TestSystemCallsOfEveryBlock(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	a := n.build(0)
	b := n.build(3)
	db, err := n.StateAt(b.Header)
	require.NoError(t, err)
	require.Equal(t, a.Hash(), db.GetState(params.HistoryStorageAddress, common.BigToHash(big.NewInt(1))), "EIP-2935")
	slot := common.BigToHash(new(big.Int).SetUint64(b.Header.Time % 8191))
	require.EqualValues(t, b.Header.Time, db.GetState(params.BeaconRootsAddress, slot).Big().Uint64(), "EIP-4788")
	require.Equal(t, types.EmptyRequestsHash, *b.Header.RequestsHash)

	// A consolidation request (EIP-7251) is in the requests hash and does nothing else.
	req := n.tx(0, &params.ConsolidationQueueAddress, 1, make([]byte, 96), 300_000)
	c := n.build(0, req)
	require.NotEqual(t, types.EmptyRequestsHash, *c.Header.RequestsHash)
	other := newTestNode(t, n.gen)
	other.give(a, b, c)
}

func TestMixDigest(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	qc := &block.Certificate{Link: block.Link{Kind: block.Prevote}, Bitmaps: [][]byte{{7}}}
	fc := &block.Certificate{Link: block.Link{Kind: block.Precommit}, Bitmaps: [][]byte{{7}}}
	p := n.Genesis().Header.MixDigest
	require.Equal(t, crypto.Keccak256Hash(p[:]), MixDigest(p, nil, nil))
	require.Equal(t, crypto.Keccak256Hash(p[:], qc.Encode()), MixDigest(p, qc, nil))
	require.Equal(t, crypto.Keccak256Hash(p[:], qc.Encode(), fc.Encode()), MixDigest(p, qc, fc))
	built, err := n.Build(context.Background(), BuildRequest{Parent: n.Head().Hash(), Slot: 1, QC: qc, FC: fc})
	require.NoError(t, err)
	require.Equal(t, MixDigest(p, qc, fc), built.Block.Header.MixDigest)
	require.NoError(t, n.InsertBuilt(built, [65]byte{}))
	other := newTestNode(t, n.gen)
	other.give(built.Block)
}

func TestFees(t *testing.T) {
	for _, fixed := range []bool{true, false} {
		gen := newTestGenesis(t, func(g *testGenesis) {
			g.params.BaseFeeFixed, g.params.BaseFee, g.params.GasLimit = fixed, 1000, 84_000
		})
		n, other := newTestNode(t, gen), newTestNode(t, gen)
		full := n.build(0, n.transfer(0, 50), n.transfer(0, 50), n.transfer(0, 50), n.transfer(0, 50))
		next := n.build(0)
		var blocks []*block.Block
		for range 10 {
			blocks = append(blocks, n.build(0))
		}
		require.EqualValues(t, 1000, full.Header.BaseFee.Uint64())
		if fixed {
			require.EqualValues(t, 1000, next.Header.BaseFee.Uint64())
		} else {
			require.EqualValues(t, 1125, next.Header.BaseFee.Uint64())
			require.EqualValues(t, 1000, blocks[9].Header.BaseFee.Uint64(), "never below the floor")
		}
		other.give(append([]*block.Block{full, next}, blocks...)...)
	}
}

func TestBuildSkipsAndPops(t *testing.T) {
	gen := newTestGenesis(t, func(g *testGenesis) { g.params.GasLimit = 500_000 })
	n := newTestNode(t, gen)
	old := n.transfer(0, 50)
	n.build(0, old)
	poor := n.tx(100, &common.Address{}, 1, nil, 21_000)
	n.nonce[1]++
	gap := n.transfer(1, 50)
	greedy := n.tx(2, &common.Address{1}, 0, nil, 600_000)
	good := n.transfer(0, 51)
	blob := types.MustSignNewTx(testKey(3), n.signer, &types.BlobTx{Gas: 21_000, BlobHashes: []common.Hash{{1}}})
	src := &listSource{txs: types.Transactions{old, poor, gap, greedy, blob, good}}
	built, err := n.Build(context.Background(), BuildRequest{Parent: n.Head().Hash(), Slot: 5, Txs: src})
	require.NoError(t, err)
	require.Len(t, built.Block.Transactions, 1)
	require.Equal(t, good.Hash(), built.Block.Transactions[0].Hash())
	require.Equal(t, 5, built.Skipped)
	require.Equal(t, []*types.Transaction{poor, gap, greedy, blob}, src.popped)
	require.Equal(t, 2, src.shifted, "a used nonce and the good one")
	require.NoError(t, n.InsertBuilt(built, [65]byte{}))
	other := newTestNode(t, gen)
	other.give(n.BlockByNumber(1), built.Block)

	empty, err := n.Build(context.Background(), BuildRequest{Parent: built.Block.Parent(), Slot: 6, EmptyOnly: true, Txs: &listSource{txs: types.Transactions{good}}})
	require.NoError(t, err)
	require.Empty(t, empty.Block.Transactions)
	late, err := n.Build(context.Background(), BuildRequest{Parent: built.Block.Parent(), Slot: 6, Budget: 1, Txs: &slowSource{}})
	require.NoError(t, err)
	require.Empty(t, late.Block.Transactions, "the budget was used up before the first transaction")
	_, err = n.Build(context.Background(), BuildRequest{Parent: built.Block.Hash(), Slot: 7})
	require.ErrorContains(t, err, "was not executed")
	_, err = n.Build(context.Background(), BuildRequest{Parent: built.Block.Parent(), Slot: 1})
	require.ErrorContains(t, err, "not above the parent's slot")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = n.Build(ctx, BuildRequest{Parent: built.Block.Parent(), Slot: 9, Txs: &slowSource{}})
	require.Error(t, err)
}

// slowSource never ends: only the budget can stop a build.
type slowSource struct{}

func (*slowSource) Next() *types.Transaction { panic("asked after the budget") }
func (*slowSource) Shift()                   {}
func (*slowSource) Pop()                     {}

func TestBuildRespectsBytes(t *testing.T) {
	gen := newTestGenesis(t, func(g *testGenesis) { g.params.MaxBlockBytes = 64 << 10 })
	n := newTestNode(t, gen)
	var src listSource
	for i := range funded {
		src.txs = append(src.txs, n.tx(i, &common.Address{1}, 0, make([]byte, 8<<10), 1_000_000))
	}
	built, err := n.Build(context.Background(), BuildRequest{Parent: n.Head().Hash(), Slot: 1, Txs: &src})
	require.NoError(t, err)
	require.Greater(t, len(built.Block.Transactions), 3)
	require.Less(t, len(built.Block.Transactions), 8)
	require.NoError(t, n.InsertBuilt(built, [65]byte{}))
	require.NoError(t, n.CheckBody(copyOf(built.Block), false))
}

// TestBuiltBlocksAreNotExecutedTwice: the kept outcome is used once, and its loss does no harm.
func TestBuiltBlocksAreNotExecutedTwice(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	p := n.Head()
	var bs []*block.Block
	for i := range builtKept + 1 {
		bs = append(bs, n.buildOn(p, uint64(i), n.transfer(i, 50)))
	}
	require.Len(t, n.built, builtKept)
	require.Nil(t, n.built[bs[0].Hash()], "the oldest was dropped")
	for _, b := range bs {
		res, err := n.SetHead(context.Background(), b.Hash())
		require.NoError(t, err)
		require.NoError(t, res.Reason)
	}
	require.Empty(t, n.built)
}

// withSystemContracts puts the real system contracts into genesis: four seats, one standby (test producer 4, account
// testAccount(1004)), jail after one empty turn.
func withSystemContracts(g *testGenesis) {
	pg := contracts.ProducersGenesis{
		GenesisTime: g.params.GenesisTime, SlotMillis: g.params.SlotMillis, EpochBlocks: g.params.EpochBlocks,
		Seats: 4, MinProducers: 1, JailTurns: 1, SlashPercent: 10, EvidenceSeconds: 60, WithdrawSeconds: 120, UnjailSeconds: 60, MinStake: big.NewInt(1),
	}
	mg := contracts.MembersGenesis{Admin: testAccount(0), ProposalSeconds: 60}
	for i := range 5 {
		p := testProducer(i)
		pg.Producers = append(pg.Producers, contracts.ProducerGenesis{Account: p.Account, Key: p.Key, Stake: big.NewInt(1000)})
		mg.Nodes = append(mg.Nodes, contracts.MemberEntry{PeerID: string(rune('a' + i)), Account: p.Account, Roles: contracts.RoleProducer})
		g.alloc[p.Account] = types.Account{Balance: big.NewInt(params.Ether)}
	}
	g.alloc[contracts.ProducersAddress] = types.Account{Nonce: 1, Balance: pg.TotalStake(), Code: contracts.ProducersCode(), Storage: contracts.ProducersStorage(pg)}
	g.alloc[contracts.MembersAddress] = types.Account{Nonce: 1, Balance: new(big.Int), Code: contracts.MembersCode(), Storage: contracts.MembersStorage(mg)}
}

func TestEpochEndChangesTheSchedule(t *testing.T) {
	gen := newTestGenesis(t, func(g *testGenesis) {
		g.params.EpochBlocks, g.params.TurnSlots = 12, 1
		withSystemContracts(g)
	})
	n, other := newTestNode(t, gen), newTestNode(t, gen)
	var blocks []*block.Block
	step := func(skip uint64, fc *block.Certificate, txs ...*types.Transaction) *block.Block {
		p := n.Head()
		b, err := n.Build(context.Background(), BuildRequest{Parent: p.Hash(), Slot: p.Slot() + 1 + skip, FC: fc, Txs: &listSource{txs: txs}})
		require.NoError(t, err)
		require.Len(t, b.Block.Transactions, len(txs))
		require.NoError(t, n.InsertBuilt(b, [65]byte{}))
		res, err := n.SetHead(context.Background(), b.Block.Hash())
		require.NoError(t, err)
		require.NoError(t, res.Reason)
		blocks = append(blocks, b.Block)
		return b.Block
	}
	report := n.tx(1004, &contracts.ProducersAddress, 0, contracts.NewProducers().PackReportStandby(), 500_000)
	for h := uint64(1); h <= 12; h++ {
		// The slots of seat 2 (2, 6, 10, ...) stay empty.
		skip := uint64(0)
		if (n.Head().Slot()+1)%4 == 2 {
			skip = 1
		}
		var txs []*types.Transaction
		if h == 3 {
			txs = append(txs, report)
		}
		step(skip, nil, txs...)
	}
	rs, err := n.Receipts(blocks[2].Hash())
	require.NoError(t, err)
	require.Equal(t, types.ReceiptStatusSuccessful, rs[0].Status, "the standby's report")
	end := blocks[11]
	next := end.Record.Next
	require.Len(t, next, 4)
	require.Equal(t, -1, next.Index(testProducer(2).Account), "who missed its turns is jailed")
	require.GreaterOrEqual(t, next.Index(testProducer(4).Account), 0, "the standby takes the seat")
	require.Equal(t, next, n.NextSchedule(end.Hash()))
	require.Equal(t, gen.schedule, n.node(end.Hash()).track.Producers)

	for range 12 {
		step(0, nil)
	}
	require.Empty(t, n.Head().Record.Next, "a change is under way: no call")
	require.Equal(t, gen.schedule, n.node(n.Head().Hash()).track.Producers, "nothing proves the announcing block final")
	step(0, &block.Certificate{Link: block.Link{Kind: block.Precommit, Target: end.Point()}, Bitmaps: [][]byte{{15}}})
	for range 12 {
		step(0, nil)
	}
	require.Equal(t, next, n.node(n.Head().Hash()).track.Producers, "step (i): it produces from the next epoch on")
	first := n.Head()
	step(0, &block.Certificate{Link: block.Link{Kind: block.Precommit, Target: first.Point()}, Bitmaps: [][]byte{{15}, {15}}})
	for n.Head().Number() < 49 {
		step(0, nil)
	}
	require.Empty(t, n.node(n.Head().Hash()).track.Pending, "step (ii): the change is complete")
	for n.Head().Number() < 60 {
		step(0, nil)
	}
	require.Equal(t, next, n.Head().Record.Next, "called again: the same schedule, which is no change")
	require.Empty(t, n.node(n.Head().Hash()).track.Pending)
	other.give(blocks...)

	// Another node refuses a block that leaves the schedule out or names another.
	for _, wrong := range []block.Schedule{nil, gen.schedule} {
		x := forge(end, func(b *block.Block) { b.Record.Next = wrong })
		require.NoError(t, other.Add([]*block.Block{blocks[10], x}))
		res, err := other.SetHead(context.Background(), x.Hash())
		require.NoError(t, err)
		require.ErrorContains(t, res.Reason, "next schedule")
	}

	// The bookkeeping is the same after a restart.
	want := n.node(n.Head().Hash()).track
	require.NoError(t, n.Close())
	n.open()
	require.Equal(t, n.Head().Hash(), blocks[len(blocks)-1].Hash())
	require.Equal(t, want, n.node(n.Head().Hash()).track)
}

func TestMembersAndAllowLists(t *testing.T) {
	gen := newTestGenesis(t, func(g *testGenesis) {
		withSystemContracts(g)
		flags := g.alloc[contracts.MembersAddress].Storage[common.Hash{}]
		flags[10], flags[11] = 1, 1 // both lists on, and empty: the admin (account 0) alone may send and deploy
		g.alloc[contracts.MembersAddress].Storage[common.Hash{}] = flags
	})
	n := newTestNode(t, gen)
	ms, err := n.Members()
	require.NoError(t, err)
	require.Len(t, ms, 5)
	require.Equal(t, testProducer(3).Account, ms[3].Account)
	refused := n.transfer(1, 50)
	producer := n.tx(1001, &common.Address{1}, 1, nil, 21_000)
	producerDeploys := n.tx(1002, nil, 0, logger, 200_000)
	src := &listSource{txs: types.Transactions{n.transfer(0, 50), n.tx(0, nil, 0, logger, 200_000), refused, producer, producerDeploys}}
	built, err := n.Build(context.Background(), BuildRequest{Parent: n.Head().Hash(), Slot: 1, Txs: src})
	require.NoError(t, err)
	require.Equal(t, []*types.Transaction{refused, producerDeploys}, src.popped)
	require.Len(t, built.Block.Transactions, 3, "a producer may send, the admin anything")

	open := newTestNode(t, newTestGenesis(t, withSystemContracts)) // the lists are off: both are let in
	b := open.build(0, refused, producerDeploys)
	x := forge(b, func(b *block.Block) { b.Header.ParentHash = n.Head().Hash() })
	require.NoError(t, n.Add([]*block.Block{x}))
	res, err := n.SetHead(context.Background(), x.Hash())
	require.NoError(t, err)
	require.ErrorContains(t, res.Reason, "is not on the list of accounts that may send")
}

// TestMissedTurns drives the bookkeeping alone.
func TestMissedTurns(t *testing.T) {
	p := block.Parameters{EpochBlocks: 100, TurnSlots: 2}
	s := block.Schedule{testProducer(0), testProducer(1), testProducer(2), testProducer(3)}
	run := func(slots ...uint64) []contracts.Missed {
		tr := genesisTrack(s)
		for i, slot := range slots {
			tr = tr.next(&p, uint64(i+1), slot, &block.Record{})
		}
		return tr.missed()
	}
	require.Empty(t, run(1, 2, 3, 4, 5, 6, 7, 8))
	require.Empty(t, run(9, 10, 16), "the first round began before the chain did, the second lacks a quorum")
	require.Equal(t, []contracts.Missed{{Seat: 1, Turns: 1}}, run(8, 12, 14, 16), "round 1 is slots 8 to 15")
	require.Equal(t, []contracts.Missed{{Seat: 1, Turns: 1}}, run(8, 12, 14, 40), "empty rounds count against nobody")
	require.Empty(t, run(8, 9, 14, 16), "two of four are no quorum")
	require.Equal(t, []contracts.Missed{{Seat: 1, Turns: 2}, {Seat: 3, Turns: 1}}, run(8, 12, 14, 16, 20, 22, 24, 26, 28, 32))
	p.EpochBlocks = 4
	require.Equal(t, []contracts.Missed{{Seat: 1, Turns: 1}}, run(8, 12, 14, 16))
	require.Empty(t, run(8, 12, 14, 16, 17), "an epoch counts its own")
	p.EpochBlocks = 100
	require.Equal(t, binary.BigEndian.AppendUint32([]byte{0, 1}, 1), bytes.TrimRight(contracts.EndEpochCall(0, run(8, 12, 14, 16))[4+96:], "\x00"))
}

// TestChangeOfSchedule drives the bookkeeping of a change alone: each step at the first epoch start behind a proof of what it
// rests on, and no sooner; the round that the new schedule begins in counts against nobody.
func TestChangeOfSchedule(t *testing.T) {
	p := block.Parameters{EpochBlocks: 4, TurnSlots: 2}
	old := block.Schedule{testProducer(0), testProducer(1), testProducer(2), testProducer(3)}
	next := block.Schedule{testProducer(4), testProducer(1), testProducer(2), testProducer(3)}
	final := func(slot uint64) *block.Record {
		return &block.Record{FC: &block.Certificate{Link: block.Link{Kind: block.Precommit, Target: block.Point{Slot: slot}}}}
	}
	for announcedFinal, adopts := range map[uint64]bool{3: false, 4: true, 5: true} {
		tr, height := genesisTrack(old), uint64(0)
		more := func(slot uint64, r *block.Record) {
			if r == nil {
				r = &block.Record{}
			}
			height++
			tr = tr.next(&p, height, slot, r)
		}
		for slot := range uint64(3) {
			more(slot+1, nil)
		}
		more(4, &block.Record{Next: next})
		more(6, final(announcedFinal))
		for _, slot := range []uint64{7, 8, 9} {
			more(slot, nil)
		}
		require.Equal(t, old, tr.Producers)
		more(10, nil) // the first of an epoch
		if !adopts {
			require.Equal(t, old, tr.Producers, "final up to slot %d", announcedFinal)
			continue
		}
		require.Equal(t, next, tr.Producers, "final up to slot %d", announcedFinal)
		more(12, nil)
		more(14, nil)
		more(16, final(9)) // closes the round of slots 8 to 15, in which seat 0 made no block under this schedule
		require.Empty(t, tr.missed())
		more(18, nil)
		require.Equal(t, next, tr.Pending, "no block counted under both is final")
		more(20, final(10))
		more(22, nil)
		more(24, nil)
		require.Equal(t, next, tr.Pending)
		more(26, nil)
		require.Empty(t, tr.Pending)
		require.Equal(t, next, tr.Producers)
	}
}

func TestHistoricStates(t *testing.T) {
	length, back := 300, 250
	if long() {
		length, back = 1300, 1000
	}
	n := newTestNode(t, newTestGenesis(t, nil))
	bs := n.branch(n.Head(), length, 0, 50)
	at := bs[length-1-back]
	require.Eventually(t, func() bool { // the index is made in the background
		db, err := n.StateAt(at.Header)
		return err == nil && db.GetBalance(testAccount(50)).Uint64() == at.Number() && db.GetNonce(testAccount(0)) == at.Number() && db.Error() == nil
	}, 60*time.Second, 50*time.Millisecond)
	require.False(t, n.HasState(at.Header.Root), "it is not one of the layers")
	_, err := n.StateAt(&types.Header{Number: big.NewInt(5), Root: common.Hash{1}})
	require.ErrorIs(t, err, ErrStateUnavailable)
	require.ErrorContains(t, err, "state_history")
}
