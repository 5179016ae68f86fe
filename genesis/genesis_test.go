package genesis

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/triedb"
	"github.com/holiman/uint256"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/bls"
)

var rewrite = flag.Bool("rewrite", false, "write the example genesis file anew")

const (
	exampleFile = "testdata/genesis.json"
	// exampleHash is block 0's hash of the example; it changes only if the meaning of genesis files or a system
	// contract changes, and then every chain started before is another chain.
	exampleHash     = "0x46720b281d020ad2c808f093b84803a1999d4a97eeb6f3679ccda6f19bf17713"
	exampleUpgrades = "0xb4019dff1289298f98b6a4993a915a057afc6568e8e207ee16b8b47c54637d46"
)

func seed(n int) []byte {
	s := sha256.Sum256([]byte(fmt.Sprintf("genesis %d", n)))
	s[0] = 0
	return s[:]
}

func testPeer(t testing.TB, n int) string {
	k, _, err := crypto.GenerateEd25519Key(bytes.NewReader(seed(n)))
	require.NoError(t, err)
	id, err := peer.IDFromPrivateKey(k)
	require.NoError(t, err)
	return id.String()
}

func testAccount(n int) common.Address { return common.BytesToAddress(seed(n)) }

func testProducer(t testing.TB, chainID uint64, n int) Producer {
	k, err := bls.SecretKeyFromBytes(seed(n))
	require.NoError(t, err)
	a := testAccount(n)
	d := block.PossessionDigest(chainID, a, block.BLSKey(k.PublicKey()))
	return Producer{Account: a, BLSKey: k.PublicKey(), Proof: k.Sign(d[:])}
}

// example is the genesis of testdata: every kind of entry stands in it.
func example(t testing.TB) Options {
	const chainID = 31337
	o := Options{
		ChainID: chainID, GenesisTime: 1_800_000_000, Admin: testAccount(100),
		Alloc: map[common.Address]*big.Int{testAccount(100): ether(1_000_000), testAccount(0): ether(10)},
		Accounts: map[common.Address]Account{testAccount(101): {
			Balance: big.NewInt(1), Nonce: 1, Code: common.FromHex("0x60005460005260206000f3"),
			Storage: map[common.Hash]common.Hash{{}: common.HexToHash("0x2a")},
		}},
		Upgrades: []Upgrade{{
			Height: 100_000, Name: "wider-blocks", Parameters: map[string]string{"gas_limit": "600000000", "max_block_bytes": "8388608"},
			Code: map[common.Address]hexutil.Bytes{MembersAddress: {0x60, 0x00}},
		}, {Height: 200_000, Name: "lost", Withdrawn: common.HexToHash("0x1057")}},
	}
	for i := range 4 {
		o.Producers = append(o.Producers, testProducer(t, chainID, i))
		o.Members = append(o.Members, Member{testPeer(t, i), testAccount(i), RoleProducer})
	}
	o.Members = append(o.Members, Member{PeerID: testPeer(t, 50), Roles: RoleObserver | RoleBroker})
	return o
}

func TestExample(t *testing.T) {
	made, err := New(example(t))
	require.NoError(t, err)
	if *rewrite {
		require.NoError(t, made.Write(exampleFile))
	}
	read, err := Load(exampleFile)
	require.NoError(t, err)
	require.Equal(t, made.o, read.o, "what New made, was written and read is the same")

	path := filepath.Join(t.TempDir(), "again.json")
	require.NoError(t, read.Write(path))
	want, err := os.ReadFile(exampleFile)
	require.NoError(t, err)
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))

	b, err := read.Block()
	require.NoError(t, err)
	require.Equal(t, exampleHash, b.Hash().Hex())
	require.Equal(t, exampleUpgrades, read.UpgradesDigest().Hex())
}

func TestBlock0(t *testing.T) {
	g, err := New(example(t))
	require.NoError(t, err)
	b, err := g.Block()
	require.NoError(t, err)
	p := g.Parameters()
	h := b.Header
	require.Zero(t, b.Number())
	require.Zero(t, b.Slot())
	require.Equal(t, b.Record.Hash().Bytes(), h.Extra)
	require.Equal(t, p.HeaderTime(0), h.Time)
	require.Equal(t, p.GasLimit, h.GasLimit)
	require.Zero(t, h.BaseFee.Sign())
	require.Zero(t, h.Difficulty.Sign())
	require.Equal(t, types.EmptyTxsHash, h.TxHash)
	require.Equal(t, types.EmptyWithdrawalsHash, *h.WithdrawalsHash)
	require.Equal(t, types.EmptyRequestsHash, *h.RequestsHash)
	require.Equal(t, common.Hash{}, *h.ParentBeaconRoot)
	require.Zero(t, *h.BlobGasUsed)
	require.Zero(t, *h.ExcessBlobGas)
	require.Nil(t, h.SlotNumber)

	again, err := block.DecodeBlock(b.Encode(), 0)
	require.NoError(t, err)
	require.Equal(t, b.Hash(), again.Hash())
	require.Equal(t, 4, len(g.Schedule()))
	require.Len(t, g.Members(), 5)
	require.NoError(t, g.ChainConfig().CheckConfigForkOrder())
}

// Every parameter is part of the identity, upgrades are not.
func TestIdentity(t *testing.T) {
	hash := func(change func(*Options)) common.Hash {
		o := example(t)
		change(&o)
		g, err := New(o)
		require.NoError(t, err)
		b, err := g.Block()
		require.NoError(t, err)
		return b.Hash()
	}
	seen := map[common.Hash]string{hash(func(*Options) {}): "example"}
	for name, change := range map[string]func(*Options){
		"time":           func(o *Options) { o.GenesisTime++ },
		"slot":           func(o *Options) { o.Slot = time.Second },
		"turn":           func(o *Options) { o.TurnSlots = 3 },
		"epoch":          func(o *Options) { o.EpochBlocks = 100 },
		"reversible":     func(o *Options) { o.MaxReversible = 100 },
		"clock error":    func(o *Options) { o.MaxClockError = 50 * time.Millisecond },
		"min producers":  func(o *Options) { o.MinProducers = 1 },
		"block bytes":    func(o *Options) { o.MaxBlockBytes = 1 << 20 },
		"gas":            func(o *Options) { o.GasLimit = 30_000_000 },
		"fee mode":       func(o *Options) { o.Fees = Fees{FeesMarket, 7} },
		"fee":            func(o *Options) { o.Fees = Fees{FeesFixed, 7} },
		"patience":       func(o *Options) { o.Impatient = true },
		"seats":          func(o *Options) { o.Settings.Seats = 4 },
		"jail":           func(o *Options) { o.Settings.JailTurns = 4 },
		"slash":          func(o *Options) { o.Settings.SlashPercent = 4 },
		"evidence":       func(o *Options) { o.Settings.EvidenceWindow = time.Hour },
		"withdraw":       func(o *Options) { o.Settings.WithdrawDelay = 1000 * time.Hour },
		"unjail":         func(o *Options) { o.Settings.UnjailDelay = time.Minute },
		"min stake":      func(o *Options) { o.Settings.MinStake = ether(2) },
		"proposal time":  func(o *Options) { o.ProposalTime = time.Minute },
		"admin":          func(o *Options) { o.Admin = common.Address{} },
		"producers":      func(o *Options) { o.Producers[0], o.Producers[1] = o.Producers[1], o.Producers[0] },
		"stake":          func(o *Options) { o.Producers[2].Stake = ether(5000) },
		"members":        func(o *Options) { o.Members = o.Members[:4] },
		"role":           func(o *Options) { o.Members[4].Roles = RoleObserver },
		"balance":        func(o *Options) { o.Alloc[testAccount(5)] = big.NewInt(1) },
		"another system": func(o *Options) { o.Accounts = nil },
	} {
		h := hash(change)
		require.NotContains(t, seen, h, name)
		seen[h] = name
	}
	require.Equal(t, "example", seen[hash(func(o *Options) { o.Upgrades = nil })])
}

func TestUpgradesDigest(t *testing.T) {
	ones := make(map[common.Hash]bool)
	digest := func(u ...Upgrade) common.Hash {
		o := example(t)
		o.Upgrades = u
		g, err := New(o)
		require.NoError(t, err)
		if len(u) == 1 {
			require.NotEqual(t, g.UpgradesDigest(), u[0].Digest(), "a vote is for one upgrade")
			require.False(t, ones[u[0].Digest()])
			ones[u[0].Digest()] = true
		}
		return g.UpgradesDigest()
	}
	a := Upgrade{Height: 5, Name: "a"}
	seen := map[common.Hash]bool{digest(): true}
	for i, u := range [][]Upgrade{
		{a}, {{Height: 6, Name: "a"}}, {{Height: 5, Name: "b"}}, {{Height: 5, Name: "a", Fork: "osaka"}}, {a, {Height: 9, Name: "b"}},
		{{Height: 5, Name: "a", Parameters: map[string]string{"gas_limit": "6000000"}}},
		{{Height: 5, Name: "a", Parameters: map[string]string{"gas_limit": "7000000"}}},
		{{Height: 5, Name: "a", Code: map[common.Address]hexutil.Bytes{MembersAddress: {1}}}},
		{{Height: 5, Name: "a", Withdrawn: common.Hash{1}}}, {{Height: 5, Name: "a", Withdrawn: common.Hash{2}}}, {a, {Height: 5, Name: "a", Withdrawn: a.Digest()}},
	} {
		d := digest(u...)
		require.False(t, seen[d], "%d", i)
		seen[d] = true
	}
}

// The calls that every block makes, and the end of an epoch, work on the state of block 0.
func TestBlock1Executes(t *testing.T) {
	g, err := New(example(t))
	require.NoError(t, err)
	b0, err := g.Block()
	require.NoError(t, err)
	db, err := state.New(types.EmptyRootHash, state.NewDatabase(triedb.NewDatabase(rawdb.NewMemoryDatabase(), nil), nil))
	require.NoError(t, err)
	for addr, a := range g.Alloc() {
		db.AddBalance(addr, uint256.MustFromBig(a.Balance), tracing.BalanceIncreaseGenesisBalance)
		db.SetCode(addr, a.Code, tracing.CodeChangeGenesis)
		db.SetNonce(addr, a.Nonce, tracing.NonceChangeGenesis)
		for k, v := range a.Storage {
			db.SetState(addr, k, v)
		}
	}
	ctx := vm.BlockContext{
		CanTransfer: core.CanTransfer, Transfer: core.Transfer, GetHash: func(uint64) common.Hash { return common.Hash{} },
		BlockNumber: big.NewInt(1), Time: b0.Header.Time, Difficulty: new(big.Int), Random: new(common.Hash), BaseFee: new(big.Int),
		BlobBaseFee: big.NewInt(1), GasLimit: 300_000_000,
	}
	evm := vm.NewEVM(ctx, db, g.ChainConfig(), vm.Config{})
	rules := evm.GetRules()
	require.True(t, rules.IsOsaka)
	require.False(t, rules.IsAmsterdam)
	core.ProcessBeaconBlockRoot(common.Hash{}, evm, nil)
	core.ProcessParentBlockHash(b0.Hash(), evm, nil)
	var requests [][]byte
	require.NoError(t, core.ProcessWithdrawalQueue(&requests, rules, evm, 0, nil))
	require.NoError(t, core.ProcessConsolidationQueue(&requests, rules, evm, 0, nil))
	require.Equal(t, types.EmptyRequestsHash, types.CalcRequestsHash(requests))

	call := func(from, to common.Address, data []byte) []byte {
		ret, _, err := evm.Call(from, to, data, vm.NewGasBudget(contracts.SystemCallGas, 0), new(uint256.Int))
		require.NoError(t, err)
		return ret
	}
	// After 8,000 blocks the contract still finds block 0's hash.
	evm.Context.BlockNumber = big.NewInt(8000)
	seats, err := contracts.DecodeSchedule(call(params.SystemAddress, ProducersAddress, contracts.EndEpochCall(0, nil)))
	require.NoError(t, err)
	require.Len(t, seats, 4)
	for i, p := range g.Schedule() {
		require.Equal(t, contracts.Seat{Account: p.Account, Key: p.Key}, seats[i])
	}
	evm.Context.BlockNumber = big.NewInt(20_000)
	hash, err := contracts.NewProducers().UnpackGenesisHash(call(common.Address{1}, ProducersAddress, contracts.NewProducers().PackGenesisHash()))
	require.NoError(t, err)
	require.Equal(t, b0.Hash(), common.Hash(hash))

	entries, err := contracts.DecodeMembers(call(common.Address{1}, MembersAddress, contracts.MembersCallData()))
	require.NoError(t, err)
	require.Len(t, entries, 5)
	for i, m := range g.Members() {
		require.Equal(t, contracts.MemberEntry{PeerID: m.PeerID, Account: m.Account, Roles: uint8(m.Roles)}, entries[i])
	}
	staked := g.producersGenesis()
	require.Equal(t, staked.TotalStake(), db.GetBalance(ProducersAddress).ToBig())
}

func TestAllocRootIsTheState(t *testing.T) {
	g, err := New(example(t))
	require.NoError(t, err)
	raw, err := json.Marshal(g)
	require.NoError(t, err)
	again, err := Parse(raw)
	require.NoError(t, err)
	require.Equal(t, g.Alloc(), again.Alloc())
	a := g.Alloc()
	delete(a, ProducersAddress)
	require.Contains(t, g.Alloc(), ProducersAddress, "the caller's copy is his own")
}
