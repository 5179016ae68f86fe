package chain

import (
	"context"
	"errors"
	"math/big"
	"os"
	"testing"
	"time"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

const voter = 1 // account that decides alone in Members

// withMembers puts the system contracts into the genesis state.
func withMembers(g *testGenesis) {
	p := contracts.ProducersGenesis{
		GenesisTime: g.params.GenesisTime, SlotMillis: g.params.SlotMillis, EpochBlocks: g.params.EpochBlocks, Seats: 4, MinProducers: 2,
		JailTurns: 3, SlashPercent: 50, EvidenceSeconds: 10, WithdrawSeconds: 20, UnjailSeconds: 1, MinStake: big.NewInt(1000),
	}
	for _, x := range g.schedule {
		p.Producers = append(p.Producers, contracts.ProducerGenesis{Account: x.Account, Key: x.Key, Stake: big.NewInt(1000)})
	}
	m := contracts.MembersGenesis{Admin: testAccount(voter), ProposalSeconds: 3600}
	g.alloc[contracts.ProducersAddress] = types.Account{Nonce: 1, Code: contracts.ProducersCode(), Storage: contracts.ProducersStorage(p), Balance: p.TotalStake()}
	g.alloc[contracts.MembersAddress] = types.Account{Nonce: 1, Code: contracts.MembersCode(), Storage: contracts.MembersStorage(m), Balance: new(big.Int)}
}

// vote is the transaction that decides a change.
func (n *testNode) vote(data []byte, err error) *types.Transaction {
	n.t.Helper()
	require.NoError(n.t, err)
	return n.tx(voter, &contracts.MembersAddress, 0, data, 2_000_000)
}

func (n *testNode) parameter(height uint64, name, text string) *types.Transaction {
	n.t.Helper()
	v, err := genesis.EncodeParameter(name, text, false)
	require.NoError(n.t, err)
	return n.vote(contracts.ParameterCall(height, name, v))
}

// upTo builds empty blocks until the head has this height.
func (n *testNode) upTo(height uint64) (bs []*block.Block) {
	n.t.Helper()
	for n.Head().Number() < height {
		bs = append(bs, n.build(0))
	}
	return bs
}

// decideIn builds a block with votes; all must take effect.
func (n *testNode) decideIn(txs ...*types.Transaction) *block.Block {
	n.t.Helper()
	b := n.build(0, txs...)
	rs, err := n.Receipts(b.Hash())
	require.NoError(n.t, err)
	for _, r := range rs {
		require.EqualValues(n.t, 1, r.Status)
	}
	return b
}

func (n *testNode) reopen() {
	n.t.Helper()
	require.NoError(n.t, n.Close())
	n.open()
}

func (n *testNode) blocks(from, to uint64) (bs []*block.Block) {
	for h := from; h <= to; h++ {
		bs = append(bs, n.BlockByNumber(h))
	}
	return bs
}

const voted = 40_000_000 // gas limit decided in these tests

// newVotedChain has the decision in block 1 and the new gas limit from block 70 on; its head is block 75.
func newVotedChain(t *testing.T) (*testGenesis, *testNode) {
	gen := newTestGenesis(t, withMembers)
	n := newTestNode(t, gen)
	n.decideIn(n.parameter(70, genesis.GasLimit, "40000000"), n.parameter(70, genesis.BaseFee, "9"), n.parameter(72, genesis.BlockBytes, "65536"))
	n.upTo(75)
	return gen, n
}

func TestVotedParametersTakeEffectAtTheirHeight(t *testing.T) {
	gen, maker := newVotedChain(t)
	for h := uint64(0); h <= 75; h++ {
		want, fee := gen.params.GasLimit, uint64(0)
		if h >= 70 {
			want, fee = voted, 9
		}
		require.Equal(t, want, maker.HeaderByNumber(h).GasLimit, "block %d", h)
		require.Equal(t, fee, maker.HeaderByNumber(h).BaseFee.Uint64(), "block %d", h)
	}
	p, err := maker.ParamsAt(maker.HeaderByNumber(68))
	require.NoError(t, err)
	require.Equal(t, gen.params, p)
	p, err = maker.ParamsAt(maker.HeaderByNumber(69))
	require.NoError(t, err)
	require.Equal(t, []uint64{voted, 9, gen.params.MaxBlockBytes}, []uint64{p.GasLimit, p.BaseFee, p.MaxBlockBytes})
	require.EqualValues(t, 65536, maker.Params().MaxBlockBytes)

	// Another node follows block by block and refuses the limit of the wrong height.
	n := newTestNode(t, gen)
	n.give(maker.blocks(1, 69)...)
	for _, c := range []struct {
		height uint64
		limit  uint64
	}{{70, gen.params.GasLimit}, {71, gen.params.GasLimit}, {71, voted + 1}} {
		n.give(maker.BlockByNumber(c.height - 1))
		x := forge(maker.BlockByNumber(c.height), func(b *block.Block) { b.Header.GasLimit = c.limit })
		require.NoError(t, n.Add([]*block.Block{x}))
		res, err := n.SetHead(context.Background(), x.Hash())
		require.NoError(t, err)
		require.ErrorIs(t, res.Reason, ErrInvalidBlock)
		require.ErrorContains(t, res.Reason, "gas limit is")
	}
	n.give(maker.blocks(70, 75)...)

	// The block size bounds what is built and what is accepted.
	to := testAccount(5)
	maker.nonce = map[int]uint64{}
	src := &listSource{txs: types.Transactions{maker.tx(0, &to, 0, make([]byte, 66_000), 10_000_000)}}
	built, err := maker.Build(context.Background(), BuildRequest{Parent: maker.Head().Hash(), Slot: maker.Head().Slot() + 1, Txs: src})
	require.NoError(t, err)
	require.Empty(t, built.Block.Transactions)
	require.Equal(t, 1, built.Skipped)
	x := forge(maker.BlockByNumber(75), func(b *block.Block) {
		b.Transactions, b.Senders = types.Transactions{maker.tx(0, &to, 0, make([]byte, 66_000), 10_000_000)}, []common.Address{testAccount(0)}
		b.Header.TxHash, b.Record.BodyDigest = block.TxRoot(b.Transactions), block.BodyDigest(b.Transactions, b.Senders)
	})
	require.NoError(t, n.CheckBody(x, false))
	require.NoError(t, n.Add([]*block.Block{x}))
	res, err := n.SetHead(context.Background(), x.Hash())
	require.NoError(t, err)
	require.ErrorContains(t, res.Reason, "65536 allowed")
}

func TestVotedParametersInCertifiedImportAndAfterLosses(t *testing.T) {
	gen, maker := newVotedChain(t)
	n := newTestNode(t, gen)
	run := maker.blocks(1, 75)
	require.NoError(t, n.ImportFinal(context.Background(), run, finalOf(run)))
	require.EqualValues(t, voted, n.Params().GasLimit)
	n.reopen()
	require.EqualValues(t, voted, n.Params().GasLimit)
	require.NoError(t, n.Close())
	require.NoError(t, os.RemoveAll(n.cfg.Dir))
	n.open() // from genesis again
	require.Equal(t, run[74].Hash(), n.Head().Hash())
	require.EqualValues(t, voted, n.Params().GasLimit)
	require.EqualValues(t, voted, n.build(0).Header.GasLimit)
}

// A branch that decided nothing and one that did lie side by side; each has its own rules.
func TestSwitchAcrossAChange(t *testing.T) {
	gen, maker := newVotedChain(t)
	with := maker.blocks(1, 75)
	_, err := maker.SetHead(context.Background(), gen.block.Hash())
	require.NoError(t, err)
	maker.nonce = map[int]uint64{}
	without := append([]*block.Block{maker.build(3)}, maker.upTo(80)...)
	require.Equal(t, gen.params.GasLimit, without[79].Header.GasLimit)

	n := newTestNode(t, gen)
	for range 2 {
		n.give(with...)
		require.EqualValues(t, voted, n.Params().GasLimit)
		n.give(without...)
		require.Equal(t, gen.params.GasLimit, n.Params().GasLimit)
		n.reopen()
		require.Equal(t, gen.params.GasLimit, n.Params().GasLimit)
	}
}

// answers42 is code that returns 42 whatever it is asked.
var answers42 = hexutil.MustDecode("0x602a60005260206000f3")

func (n *testNode) ask(h *types.Header, to common.Address) []byte {
	n.t.Helper()
	ret, err := n.read(h, to, contracts.MembersCallData())
	require.NoError(n.t, err)
	return ret
}

// An upgrade replaces the code of Members. What was decided before is read all the same, by a node that ran through it
// and by one that was restarted.
func TestUpgradeReplacesCode(t *testing.T) {
	up := genesis.Upgrade{
		Height: 70, Name: "answer", Parameters: map[string]string{genesis.GasLimit: "40000000", genesis.JailTurns: "7"},
		Code: map[common.Address]hexutil.Bytes{contracts.MembersAddress: answers42},
	}
	gen := newTestGenesis(t, withMembers)
	gen.upgrades = []genesis.Upgrade{up}
	maker, n := newTestNode(t, gen), newTestNode(t, gen)
	maker.decideIn(maker.vote(contracts.UpgradeCall(70, "answer", up.Digest())), maker.parameter(80, genesis.BaseFee, "5"))
	maker.upTo(78)
	require.NotEqual(t, common.BigToHash(big.NewInt(42)).Bytes(), maker.ask(maker.HeaderByNumber(69), contracts.MembersAddress))
	require.Equal(t, common.BigToHash(big.NewInt(42)).Bytes(), maker.ask(maker.HeaderByNumber(70), contracts.MembersAddress))
	db, err := maker.StateAt(maker.HeaderByNumber(70))
	require.NoError(t, err)
	require.EqualValues(t, 7, contracts.ReadSettings(db).JailTurns)
	require.EqualValues(t, voted, maker.HeaderByNumber(70).GasLimit)

	n.give(maker.blocks(1, 75)...)
	n.reopen()
	bs := maker.upTo(85)
	n.give(maker.blocks(76, 77)...)
	n.give(append(maker.blocks(78, 78), bs...)...)
	require.EqualValues(t, 5, n.Head().Header.BaseFee.Uint64())
	require.NoError(t, n.Close())
	require.NoError(t, os.RemoveAll(n.cfg.Dir))
	n.open()
	n.give(maker.blocks(1, 85)...)
}

func TestUnknownUpgradeStopsTheNode(t *testing.T) {
	up := genesis.Upgrade{Height: 70, Name: "later", Code: map[common.Address]hexutil.Bytes{contracts.MembersAddress: answers42}}
	gen := newTestGenesis(t, withMembers)
	gen.upgrades = []genesis.Upgrade{up}
	old := *gen
	old.upgrades = nil
	maker, n := newTestNode(t, gen), newTestNode(t, &old)
	maker.decideIn(maker.vote(contracts.UpgradeCall(70, "later", up.Digest())))
	maker.upTo(75)
	n.give(maker.blocks(1, 69)...)
	want := ErrUnknownUpgrade{Height: 70, Name: "later", Digest: up.Digest()}

	stops := func() {
		t.Helper()
		b := copyOf(maker.BlockByNumber(70))
		require.NoError(t, n.CheckBody(b, false))
		require.NoError(t, n.Add([]*block.Block{b}))
		res, err := n.SetHead(context.Background(), b.Hash())
		var got ErrUnknownUpgrade
		require.ErrorAs(t, err, &got)
		require.Equal(t, want, got)
		require.NoError(t, res.Reason, "the block is not to blame")
		_, err = n.Build(context.Background(), BuildRequest{Parent: n.Head().Hash(), Slot: n.Head().Slot() + 1})
		require.ErrorAs(t, err, &got)
		require.Equal(t, want, got)
		require.EqualValues(t, 69, n.Head().Number())
		_, err = n.ParamsAt(n.CurrentHeader())
		require.NoError(t, err)
		s, err := n.StateAt(n.CurrentHeader())
		require.NoError(t, err)
		require.ErrorAs(t, n.PrepareState(s, n.CurrentHeader(), 70), &got)
		require.NoError(t, n.PrepareState(s, n.CurrentHeader(), 69))
	}
	stops()
	n.reopen()
	stops()
	require.NoError(t, n.Close())
	n.gen = gen // the file with the description
	n.open()
	n.give(maker.blocks(70, 75)...)
}

// If nobody can describe what was voted for, the operators' files say that it is withdrawn, and the chain goes on
// without it. Another vote of the same name or height is not meant.
func TestWithdrawnByTheOperators(t *testing.T) {
	lost := common.Hash{0x10}
	gen := newTestGenesis(t, withMembers)
	n := newTestNode(t, gen)
	n.decideIn(n.vote(contracts.UpgradeCall(70, "lost", lost)))
	n.upTo(69)
	stuck := func() {
		t.Helper()
		_, err := n.Build(context.Background(), BuildRequest{Parent: n.Head().Hash(), Slot: n.Head().Slot() + 1})
		var got ErrUnknownUpgrade
		require.ErrorAs(t, err, &got)
		require.ErrorContains(t, got, `{"height": 70, "name": "lost", "withdrawn": "`+lost.Hex()+`"}`)
	}
	stuck()
	right := genesis.Upgrade{Height: 70, Name: "lost", Withdrawn: lost}
	for _, change := range []func(*genesis.Upgrade){
		func(u *genesis.Upgrade) { u.Height++ }, func(u *genesis.Upgrade) { u.Name = "other" }, func(u *genesis.Upgrade) { u.Withdrawn[0]++ },
	} {
		u := right
		change(&u)
		gen.upgrades = []genesis.Upgrade{u}
		n.reopen()
		stuck()
	}
	gen.upgrades = []genesis.Upgrade{right}
	n.reopen()
	require.EqualValues(t, 75, n.upTo(75)[5].Number())
	require.Empty(t, n.Upgrades(), "it describes nothing")
	d, err := n.Decisions(n.CurrentHeader())
	require.NoError(t, err)
	require.ErrorContains(t, d[0].Invalid, "withdrawn")
	require.True(t, d[0].Known)
	require.False(t, d[0].InForce)
}

// A certified run may carry the store beyond an unknown upgrade; the node then does not open until it knows it.
func TestUnknownUpgradeInACertifiedRun(t *testing.T) {
	up := genesis.Upgrade{Height: 70, Name: "later", Parameters: map[string]string{genesis.GasLimit: "40000000"}}
	gen := newTestGenesis(t, withMembers)
	gen.upgrades = []genesis.Upgrade{up}
	old := *gen
	old.upgrades = nil
	maker, n := newTestNode(t, gen), newTestNode(t, &old)
	maker.decideIn(maker.vote(contracts.UpgradeCall(70, "later", up.Digest())))
	run := append(maker.blocks(1, 1), maker.upTo(75)...)
	var unknown ErrUnknownUpgrade
	err := n.ImportFinal(context.Background(), run, finalOf(run))
	require.ErrorAs(t, err, &unknown)
	require.NotErrorIs(t, err, ErrInvalidBlock)
	require.NotContains(t, err.Error(), "software or state is wrong")
	require.EqualValues(t, 69, n.Head().Number())
	require.NoError(t, n.Close())
	_, err = Open(context.Background(), n.cfg, n.gen, n.store, nil, nil)
	require.ErrorAs(t, err, &unknown)
	require.NotContains(t, err.Error(), "remove the state directory")
	n.gen = gen
	n.open()
	require.EqualValues(t, 75, n.Head().Number())
}

func TestUnknownUpgradeIsAnnounced(t *testing.T) {
	gen := newTestGenesis(t, withMembers)
	maker := newTestNode(t, gen)
	core, logs := observer.New(zap.InfoLevel)
	maker.decideIn(maker.vote(contracts.UpgradeCall(70, "later", common.Hash{1})), maker.vote(contracts.ParameterCall(70, genesis.GasLimit, []byte{1})))
	n := &testNode{t: t, gen: gen, store: newMemStore(), cfg: testConfig(t.TempDir())}
	c, err := Open(context.Background(), n.cfg, gen, n.store, zap.New(core), nil)
	require.NoError(t, err)
	n.Chain = c
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	warned := func() (left []uint64) {
		for _, e := range logs.FilterMessageSnippet("that this node does not know").All() {
			left = append(left, e.ContextMap()["blocks_left"].(uint64))
			require.EqualValues(t, 70, e.ContextMap()["block"])
		}
		return left
	}
	n.give(maker.blocks(1, 1)...)
	require.Equal(t, []uint64{69}, warned(), "from the vote on")
	require.Equal(t, 1, logs.FilterMessageSnippet("has no effect").Len())
	n.give(maker.upTo(69)...)
	require.Equal(t, []uint64{69, 64, 32, 16, 8, 4, 2, 1}, warned())
}

// The block before an upgrade's height is the last that can withdraw it. The log tells of a decision that took the place
// of another, too.
func TestWithdrawnInTheLastBlock(t *testing.T) {
	gen := newTestGenesis(t, withMembers)
	maker := newTestNode(t, gen)
	core, logs := observer.New(zap.InfoLevel)
	n := &testNode{t: t, gen: gen, store: newMemStore(), cfg: testConfig(t.TempDir())}
	c, err := Open(context.Background(), n.cfg, gen, n.store, zap.New(core), nil)
	require.NoError(t, err)
	n.Chain = c
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	maker.decideIn(maker.vote(contracts.UpgradeCall(70, "later", common.Hash{1})), maker.parameter(90, genesis.GasLimit, "40000000"))
	maker.upTo(68)
	n.give(maker.blocks(1, 68)...)
	told := func() int { return logs.FilterMessageSnippet("the producers voted for a change").Len() }
	require.Equal(t, 2, told())
	maker.decideIn(maker.vote(contracts.UpgradeCall(70, "later", common.Hash{})))
	require.EqualValues(t, 69, maker.Head().Number())
	n.give(maker.blocks(69, 69)...)
	require.Equal(t, 1, logs.FilterMessageSnippet("has no effect").Len())
	require.Equal(t, 2, told())
	n.give(maker.upTo(75)...)
}

func TestVotedSettings(t *testing.T) {
	gen := newTestGenesis(t, withMembers)
	n := newTestNode(t, gen)
	n.decideIn(
		n.parameter(70, genesis.Seats, "2"), n.parameter(70, genesis.JailTurns, "9"), n.parameter(70, genesis.SlashPercent, "100"),
		n.parameter(70, genesis.MinStake, "77"),
		n.parameter(71, genesis.MinSeats, "3"), n.parameter(71, genesis.JailTurns, "1"), // three of two seats: stays
		n.parameter(72, genesis.Seats, "5"), n.parameter(72, genesis.MinSeats, "4"),
		n.parameter(72, genesis.Seats, "6"), // the last decision wins
	)
	n.upTo(75)
	at := func(h uint64) contracts.Settings {
		db, err := n.StateAt(n.HeaderByNumber(h))
		require.NoError(t, err)
		return contracts.ReadSettings(db)
	}
	require.Equal(t, contracts.Settings{Seats: 4, MinProducers: 2, JailTurns: 3, SlashPercent: 50}, at(69))
	require.Equal(t, contracts.Settings{Seats: 2, MinProducers: 2, JailTurns: 9, SlashPercent: 100}, at(70))
	require.Equal(t, contracts.Settings{Seats: 2, MinProducers: 2, JailTurns: 1, SlashPercent: 100}, at(71))
	require.Equal(t, contracts.Settings{Seats: 6, MinProducers: 4, JailTurns: 1, SlashPercent: 100}, at(75))
	ret, err := n.read(n.CurrentHeader(), contracts.ProducersAddress, contracts.NewProducers().PackSettings())
	require.NoError(t, err)
	out, err := contracts.NewProducers().UnpackSettings(ret)
	require.NoError(t, err)
	require.EqualValues(t, 77, out.MinStake.Uint64())
	other := newTestNode(t, gen)
	other.give(n.blocks(1, 75)...)
}

// A state that a caller changed answers nobody else.
func TestPreparedStatesKeepToThemselves(t *testing.T) {
	gen, n := newVotedChain(t)
	h := n.HeaderByNumber(69)
	db, err := n.StateAt(h)
	require.NoError(t, err)
	fresh := newRuleBook(n.params, nil)
	n.asked = fresh
	slot := common.BigToHash(big.NewInt(10)) // the list's length
	db.SetState(contracts.MembersAddress, slot, common.Hash{})
	require.NoError(t, n.PrepareState(db, h, 70))
	p, err := n.ParamsAt(h)
	require.NoError(t, err)
	require.EqualValues(t, voted, p.GasLimit)
	require.Equal(t, common.Hash{}, db.GetState(contracts.MembersAddress, slot), "the override stays")
	require.NotEqual(t, gen.params.GasLimit, p.GasLimit)
}

var errBadDisk = errors.New("bad disk")

// limited fails after some reads.
type limited struct {
	state.Reader
	left int
}

func (r *limited) Account(a common.Address) (*types.StateAccount, error) {
	if r.left--; r.left < 0 {
		return nil, errBadDisk
	}
	return r.Reader.Account(a)
}

func (r *limited) Storage(a common.Address, s common.Hash) (common.Hash, error) {
	if r.left--; r.left < 0 {
		return common.Hash{}, errBadDisk
	}
	return r.Reader.Storage(a, s)
}

func TestFailedReadsAreNotKept(t *testing.T) {
	_, n := newVotedChain(t)
	h := n.CurrentHeader()
	book := newRuleBook(n.params, nil)
	for reads := range 6 {
		_, err := book.at(h.Root, func() (state.Reader, error) {
			db, err := n.StateAt(h)
			require.NoError(t, err)
			return &limited{db.Reader(), reads}, nil
		})
		require.ErrorIs(t, err, errBadDisk, "after %d reads", reads)
	}
	_, err := book.at(h.Root, func() (state.Reader, error) { return nil, errBadDisk })
	require.ErrorIs(t, err, errBadDisk)
	d, err := book.at(h.Root, n.readerAt(h))
	require.NoError(t, err)
	require.Len(t, d.changes, 3)
	_, err = book.at(h.Root, func() (state.Reader, error) { return nil, errBadDisk })
	require.NoError(t, err, "what was read is kept")
}

// What readers make of a state is not what blocks are executed and built by, nor does it push that out.
func TestReadersHaveTheirOwnRules(t *testing.T) {
	gen, n := newVotedChain(t)
	n.rules = newRuleBook(n.params, nil)
	wrong := n.asked.decide([]contracts.Change{{Height: 1, Kind: contracts.ProposeParameter, Number: 1, Name: genesis.GasLimit, Value: contracts.ParameterValue(voted * 2)}})
	h := n.CurrentHeader()
	r, err := n.readerAt(h)()
	require.NoError(t, err)
	a, err := r.Account(contracts.MembersAddress)
	require.NoError(t, err)
	n.asked.byState.Add(h.Root, wrong)
	n.asked.byStorage.Add(a.Root, wrong)
	p, err := n.ParamsAt(h)
	require.NoError(t, err)
	require.EqualValues(t, voted*2, p.GasLimit)

	for k := range h.Number.Uint64() {
		_, err := n.ParamsAt(n.HeaderByNumber(k))
		require.NoError(t, err)
		s, err := n.StateAt(n.HeaderByNumber(k))
		require.NoError(t, err)
		require.NoError(t, n.PrepareState(s, n.HeaderByNumber(k), k+1))
	}
	_, err = n.remake(n.BlockByNumber(75))
	require.NoError(t, err)
	require.Zero(t, n.rules.byState.Len()+n.rules.byStorage.Len())
	require.EqualValues(t, voted, n.build(0).Header.GasLimit)
	other := newTestNode(t, gen)
	other.asked.byState.Add(h.Root, wrong)
	other.give(n.blocks(1, 76)...)
}

func TestWhatADecisionMeans(t *testing.T) {
	base := block.Parameters{GasLimit: 1, BaseFee: 8, MaxBlockBytes: 3}
	up := genesis.Upgrade{Height: 50, Name: "known", Parameters: map[string]string{genesis.GasLimit: "9000000"}}
	book := newRuleBook(base, []genesis.Upgrade{up})
	gas := func(height, v uint64) contracts.Change {
		return contracts.Change{Height: height, Kind: contracts.ProposeParameter, Name: genesis.GasLimit, Value: contracts.ParameterValue(v)}
	}
	upgrade := func(height uint64, name string, digest common.Hash) contracts.Change {
		return contracts.Change{Height: height, Kind: contracts.ProposeUpgrade, Name: name, Value: digest[:]}
	}
	const a, b, c = 6_000_000, 7_000_000, 8_000_000
	limit := func(height uint64, cs ...contracts.Change) uint64 {
		return book.decide(cs).parameters(base, height).GasLimit
	}
	require.EqualValues(t, 1, limit(9, gas(10, a)))
	require.EqualValues(t, a, limit(10, gas(10, a)))
	require.EqualValues(t, b, limit(20, gas(10, b), gas(10, a), gas(20, b)))
	require.EqualValues(t, b, limit(30, gas(20, b), gas(10, a)), "the greatest height, whenever it was decided")
	require.EqualValues(t, c, limit(10, gas(10, a), gas(10, c)), "of equal heights the last decision")
	require.EqualValues(t, 9_000_000, limit(50, gas(50, a), upgrade(50, "known", up.Digest())))
	require.EqualValues(t, a, limit(50, upgrade(50, "known", up.Digest()), gas(50, a)))

	for name, x := range map[string]contracts.Change{
		"too low": gas(10, block.MinGasLimit-1), "too high": gas(10, block.MaxGasLimit+1),
		"no such parameter": {Height: 10, Kind: contracts.ProposeParameter, Name: "turn_slots", Value: contracts.ParameterValue(a)},
		"short":             {Height: 10, Kind: contracts.ProposeParameter, Name: genesis.GasLimit, Value: contracts.ParameterValue(a)[1:]},
		"kind":              {Height: 10, Kind: 3, Name: genesis.GasLimit, Value: contracts.ParameterValue(a)},
		"unreadable":        {Height: 10, Kind: contracts.ProposeUpgrade},
		"half a digest":     {Height: 10, Kind: contracts.ProposeUpgrade, Name: "x", Value: make([]byte, 16)},
		"other height":      upgrade(49, "known", up.Digest()),
		"other name":        upgrade(50, "unknown", up.Digest()),
		"withdrawn":         upgrade(50, "x", common.Hash{}),
	} {
		d := book.decide([]contracts.Change{gas(5, b), x})
		require.NoError(t, d.invalid[0], name)
		require.Error(t, d.invalid[1], name)
		require.EqualValues(t, b, d.parameters(base, 100).GasLimit, name)
		require.Nil(t, d.unknown(100), name)
	}
	market := base
	market.BaseFeeFixed = false
	floor := contracts.Change{Height: 5, Kind: contracts.ProposeParameter, Name: genesis.BaseFee, Value: contracts.ParameterValue(genesis.MinMarketBaseFee - 1)}
	require.Error(t, book.decide([]contracts.Change{floor}).invalid[0])

	x, y := common.Hash{1}, common.Hash{2}
	d := book.decide([]contracts.Change{upgrade(60, "x", x), upgrade(40, "y", y), upgrade(40, "z", y)})
	require.Nil(t, d.unknown(39))
	require.Equal(t, "y", d.unknown(40).name)
	require.Equal(t, "y", d.unknown(70).name, "the lowest of them")
	d = book.decide([]contracts.Change{upgrade(60, "x", x), upgrade(60, "x", common.Hash{})})
	require.Nil(t, d.unknown(70), "withdrawn")
	d = book.decide([]contracts.Change{upgrade(60, "x", x), upgrade(60, "x", common.Hash{}), upgrade(60, "x", y)})
	require.Equal(t, y, d.unknown(70).digest, "the last decision stands")
}

// Old states tell the rules of old blocks, for traces and receipts that are made again.
func TestRulesOfOldBlocks(t *testing.T) {
	gen, n := newVotedChain(t)
	n.upTo(75 + 2*layersKept)
	require.False(t, n.HasState(n.HeaderByNumber(69).Root))
	n.asked = newRuleBook(n.params, nil)
	for h, want := range map[uint64]uint64{60: gen.params.GasLimit, 68: gen.params.GasLimit, 69: voted, 71: voted} {
		require.Eventually(t, func() bool { // the index of the history is made in the background
			p, err := n.ParamsAt(n.HeaderByNumber(h))
			return err == nil && p.GasLimit == want
		}, 60*time.Second, 10*time.Millisecond, "child of block %d", h)
	}
	_, err := n.ParamsAt(&types.Header{Number: big.NewInt(5), Root: common.Hash{1}})
	require.ErrorIs(t, err, ErrStateUnavailable)
	require.EqualValues(t, voted, n.Params().GasLimit)
}
