package contracts

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/core/vm/runtime"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/bls"
)

const (
	testChainID = 7777
	testGenesis = 1_800_000_000
	maxTxGas    = params.MaxTxGas // of a transaction under Osaka's rules
)

var (
	prods = NewProducers()
	mems  = NewMembers()
	ether = big.NewInt(params.Ether)
)

// operator is a producer's account with its keys.
type operator struct {
	key     *ecdsa.PrivateKey
	account common.Address
	bls     *bls.SecretKey
}

func newOperator(t testing.TB, n int) operator {
	seed := sha256.Sum256([]byte(fmt.Sprintf("operator %d", n)))
	k, err := crypto.ToECDSA(seed[:])
	require.NoError(t, err)
	seed[0] = 0
	b, err := bls.SecretKeyFromBytes(seed[:])
	require.NoError(t, err)
	return operator{k, crypto.PubkeyToAddress(k.PublicKey), b}
}

func operators(t testing.TB, n int) []operator {
	ops := make([]operator, n)
	for i := range ops {
		ops[i] = newOperator(t, i)
	}
	return ops
}

// world is the state of a chain with both contracts, and the block in which calls run.
// testGenesisHash is the hash of block 0 of the test chain.
var testGenesisHash = common.HexToHash("0x9e5e515")

type world struct {
	t       testing.TB
	state   *state.StateDB
	height  uint64
	seconds uint64
	genesis common.Hash
	ops     []operator
	set     ProducersGenesis
	logs    []*types.Log // of the last call
	gas     uint64       // of the last call
}

func stake(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), ether) }

// newWorld has seats producers in the schedule, extra more accounts with nodes but without keys.
func newWorld(t testing.TB, seats, extra int, change func(*ProducersGenesis, *MembersGenesis)) *world {
	w := &world{t: t, height: 1, seconds: testGenesis + 1, genesis: testGenesisHash, ops: operators(t, seats+extra)}
	w.set = ProducersGenesis{
		GenesisTime: testGenesis, SlotMillis: 500, EpochBlocks: 100, Seats: uint16(seats), MinProducers: uint16(min(seats, 4)),
		JailTurns: 3, SlashPercent: 50, EvidenceSeconds: 1000, WithdrawSeconds: 2000, UnjailSeconds: 60, MinStake: stake(10),
	}
	m := MembersGenesis{ProposalSeconds: 3600}
	for i, o := range w.ops {
		m.Nodes = append(m.Nodes, MemberEntry{fmt.Sprintf("12D3KooWTestPeerNumber%032d", i), o.account, RoleProducer})
		if i < seats {
			w.set.Producers = append(w.set.Producers, ProducerGenesis{o.account, o.bls.PublicKey(), stake(int64(max(100-i, 20)))})
		}
	}
	if change != nil {
		change(&w.set, &m)
	}
	s, err := state.New(types.EmptyRootHash, state.NewDatabaseForTesting())
	require.NoError(t, err)
	w.state = s
	put := func(a common.Address, code []byte, st map[common.Hash]common.Hash) {
		s.SetCode(a, code, tracing.CodeChangeGenesis)
		for k, v := range st {
			s.SetState(a, k, v)
		}
	}
	put(ProducersAddress, ProducersCode(), ProducersStorage(w.set))
	put(MembersAddress, MembersCode(), MembersStorage(m))
	put(TopicsAddress, TopicsCode(), nil)
	put(params.HistoryStorageAddress, params.HistoryStorageCode, map[common.Hash]common.Hash{{}: w.genesis})
	s.AddBalance(ProducersAddress, uint256.MustFromBig(w.set.TotalStake()), tracing.BalanceIncreaseGenesisBalance)
	for _, o := range w.ops {
		s.AddBalance(o.account, uint256.MustFromBig(stake(1000)), tracing.BalanceIncreaseGenesisBalance)
	}
	s.Finalise(osaka().Rules(new(big.Int), true, 0))
	return w
}

func osaka() *params.ChainConfig {
	c := *params.MergedTestChainConfig
	c.ChainID = big.NewInt(testChainID)
	return &c
}

// reverted is what a contract said when it refused.
type reverted struct{ reason string }

func (r reverted) Error() string { return r.reason }

// call runs one call in the current block with a transaction's gas; a refused one changes nothing.
func (w *world) call(from, to common.Address, value *big.Int, data []byte) ([]byte, error) {
	w.t.Helper()
	if value == nil {
		value = new(big.Int)
	}
	gas := uint64(maxTxGas)
	if from == SystemAddress {
		gas = SystemCallGas
	}
	tx := common.BigToHash(big.NewInt(int64(w.state.TxIndex() + 1)))
	w.state.SetTxContext(tx, w.state.TxIndex()+1, 0)
	ret, left, err := runtime.Call(to, data, &runtime.Config{
		ChainConfig: osaka(), Origin: from, BlockNumber: new(big.Int).SetUint64(w.height), Time: w.seconds, GasLimit: gas,
		Value: value, State: w.state, BaseFee: new(big.Int),
		GetHashFn: func(n uint64) common.Hash {
			if n == 0 {
				return w.genesis
			}
			return common.BigToHash(new(big.Int).SetUint64(n))
		},
	})
	w.gas = gas - left
	w.logs = w.state.GetLogs(tx, w.height, common.Hash{}, w.seconds)
	if errors.Is(err, vm.ErrExecutionReverted) {
		reason, uerr := abi.UnpackRevert(ret)
		if uerr != nil {
			reason = fmt.Sprintf("%v %x", err, ret)
		}
		return nil, reverted{reason}
	}
	return ret, err
}

// do makes a call that must succeed.
func (w *world) do(from operator, data []byte) []byte {
	w.t.Helper()
	ret, err := w.call(from.account, ProducersAddress, nil, data)
	require.NoError(w.t, err)
	return ret
}

// refused makes a call that must fail with these words.
func (w *world) refused(from operator, data []byte, words string) {
	w.t.Helper()
	_, err := w.call(from.account, ProducersAddress, nil, data)
	require.ErrorContains(w.t, err, words)
	var r reverted
	require.ErrorAs(w.t, err, &r)
}

func (w *world) view(data []byte) []byte {
	w.t.Helper()
	return w.do(w.ops[0], data)
}

// endEpoch ends the current epoch and starts the next one.
func (w *world) endEpoch(missed ...Missed) []Seat {
	w.t.Helper()
	e := (w.height - 1) / w.set.EpochBlocks
	w.height = (e + 1) * w.set.EpochBlocks
	ret, err := w.call(SystemAddress, ProducersAddress, nil, EndEpochCall(e, missed))
	require.NoError(w.t, err)
	seats, err := DecodeSchedule(ret)
	require.NoError(w.t, err)
	w.height++
	return seats
}

func (w *world) schedule() []Seat {
	w.t.Helper()
	seats, err := DecodeSchedule(w.view(ScheduleCall()))
	require.NoError(w.t, err)
	return seats
}

func (w *world) candidate(o operator) BaseCandidate {
	w.t.Helper()
	out, err := prods.UnpackCandidate(w.view(prods.PackCandidate(o.account)))
	require.NoError(w.t, err)
	return out.Info
}

func (w *world) account(o operator) BaseAccount {
	w.t.Helper()
	out, err := prods.UnpackStakeOf(w.view(prods.PackStakeOf(o.account)))
	require.NoError(w.t, err)
	return out
}

func (w *world) deposit(o operator, amount *big.Int) {
	w.t.Helper()
	_, err := w.call(o.account, ProducersAddress, amount, prods.PackDeposit())
	require.NoError(w.t, err)
}

// registration is the call data that registers o's key, or another of its keys.
func registration(t testing.TB, o operator, key *bls.SecretKey) []byte {
	pk := key.PublicKey()
	digest := block.PossessionDigest(testChainID, o.account, block.BLSKey(pk))
	return prods.PackRegister(pk[:], g1(t, pk), g2(t, key.Sign(digest[:])))
}

func g1(t testing.TB, k [48]byte) []byte {
	b, err := bls.UncompressG1(k)
	require.NoError(t, err)
	return b
}

func g2(t testing.TB, s [96]byte) []byte {
	b, err := bls.UncompressG2(s)
	require.NoError(t, err)
	return b
}

// standFor makes an account a candidate with so much stake and votes.
func (w *world) standFor(o operator, amount *big.Int) {
	w.t.Helper()
	w.deposit(o, amount)
	w.do(o, registration(w.t, o, o.bls))
	w.do(o, prods.PackVote(o.account, amount))
}

// who names the seats by operator number.
func (w *world) who(seats []Seat) []int {
	var out []int
	for _, s := range seats {
		n := -1
		for i, o := range w.ops {
			if o.account == s.Account {
				n = i
			}
		}
		out = append(out, n)
	}
	return out
}
