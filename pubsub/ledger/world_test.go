package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm/runtime"
	"github.com/ethereum/go-ethereum/params"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
)

// world is a chain of one contract: every block is final at once. It is the Source of the mirror under test.
type world struct {
	t      testing.TB
	state  *state.StateDB
	age    uint64 // seconds by which blocks are older
	height uint64
	second uint64            // of the block in the making
	times  map[uint64]uint64 // of the sealed ones
	logs   map[uint64][]*types.Log
	calls  int
	fail   error // of Call and Logs
	m      *Mirror

	brokers []common.Address
	users   []common.Address
}

func account(kind byte, i int) common.Address { return common.Address{0: kind, 19: byte(i + 1)} }

func newWorld(t testing.TB, brokers int) *world {
	w := &world{t: t, height: 1, second: firstSecond, times: map[uint64]uint64{}, logs: map[uint64][]*types.Log{}}
	var m contracts.MembersGenesis
	m.ProposalSeconds = 3600
	for i := range brokers {
		w.brokers = append(w.brokers, account('b', i))
		m.Nodes = append(m.Nodes, contracts.MemberEntry{PeerID: peerID(i), Account: w.brokers[i], Roles: contracts.RoleBroker})
	}
	for i := range 6 {
		w.users = append(w.users, account('u', i))
	}
	s, err := state.New(types.EmptyRootHash, state.NewDatabaseForTesting())
	require.NoError(t, err)
	w.state = s
	s.SetCode(contracts.MembersAddress, contracts.MembersCode(), tracing.CodeChangeGenesis)
	for k, v := range contracts.MembersStorage(m) {
		s.SetState(contracts.MembersAddress, k, v)
	}
	s.SetCode(contracts.TopicsAddress, contracts.TopicsCode(), tracing.CodeChangeGenesis)
	s.Finalise(rules())
	for i := range w.brokers {
		w.register(i)
	}
	w.m = New(w, zap.NewNop())
	return w
}

// firstSecond is the time of the first block.
const firstSecond = 1_800_000_000

func rules() params.Rules { return params.MergedTestChainConfig.Rules(new(big.Int), true, 0) }

func peerID(i int) string { return fmt.Sprintf("12D3KooWTestPeerNumber%032d", i) }

func (w *world) register(i int) {
	w.must(w.brokers[i], func() ([]byte, error) {
		return contracts.RegisterBrokerCall(fmt.Sprintf("broker%d-%d.example", i, w.height), uint16(9092+i), peerID(i)) //nolint:gosec // few
	})
}

func (w *world) run(db *state.StateDB, from common.Address, data []byte) ([]byte, error) {
	return w.runAt(w.height, w.second, db, from, data)
}

// at reads in the state of now at the time of a sealed block.
func (w *world) at(height uint64, data []byte) ([]byte, error) {
	return w.runAt(height, w.times[height], w.state.Copy(), account('x', 1), data)
}

func (w *world) runAt(height, second uint64, db *state.StateDB, from common.Address, data []byte) ([]byte, error) {
	chain := *params.MergedTestChainConfig
	ret, _, err := runtime.Call(contracts.TopicsAddress, data, &runtime.Config{
		ChainConfig: &chain, Origin: from, BlockNumber: new(big.Int).SetUint64(height), Time: second, GasLimit: contracts.SystemCallGas,
		Value: new(big.Int), State: db, BaseFee: new(big.Int), GetHashFn: func(uint64) common.Hash { return common.Hash{} },
	})
	return ret, err
}

// try sends a call in the current block; it may be refused.
func (w *world) try(from common.Address, data []byte) ([]byte, error) {
	snap := w.state.Snapshot()
	w.state.SetTxContext(common.BigToHash(big.NewInt(int64(w.state.TxIndex()+1))), w.state.TxIndex()+1, 0)
	before := len(w.state.Logs())
	ret, err := w.run(w.state, from, data)
	if err != nil {
		w.state.RevertToSnapshot(snap)
		return nil, err
	}
	for _, l := range w.state.Logs()[before:] {
		l.BlockNumber = w.height
		w.logs[w.height] = append(w.logs[w.height], l)
	}
	w.state.Finalise(rules())
	return ret, nil
}

func (w *world) must(from common.Address, make func() ([]byte, error)) []byte {
	w.t.Helper()
	data, err := make()
	require.NoError(w.t, err)
	ret, err := w.try(from, data)
	require.NoError(w.t, err)
	return ret
}

func (w *world) tenant(name string, owner common.Address) {
	w.t.Helper()
	w.must(contracts.MembersAddress, func() ([]byte, error) {
		return contracts.NewTopics().PackSetTenant(name, owner, 1<<20, 10, 60, 200), nil
	})
}

func (w *world) create(from common.Address, t contracts.NewTopic) common.Hash {
	w.t.Helper()
	id, err := contracts.DecodeTopicID(w.must(from, func() ([]byte, error) { return contracts.CreateTopicCall(t) }))
	require.NoError(w.t, err)
	return id
}

// blacklist has two brokers report an account until it is blacklisted in a tenant.
func (w *world) blacklist(tenant string, who common.Address) {
	w.t.Helper()
	for range 3 {
		w.second += 60 - w.second%60
		for _, b := range w.brokers[:2] {
			n, err := contracts.DecodeCommits(w.must(b, func() ([]byte, error) { return contracts.CommitsCall(b), nil }))
			require.NoError(w.t, err)
			w.must(b, func() ([]byte, error) {
				return contracts.CommitCall(contracts.Commit{Number: n + 1, Standings: []contracts.Standing{{Tenant: contracts.TenantID(tenant), Account: who, Refused: contracts.RefusedKinds}}})
			})
			w.second++
		}
		w.seal()
	}
}

// seal ends the block.
func (w *world) seal() {
	w.times[w.height] = w.second
	w.height++
	w.second++
}

func (w *world) header(n uint64) *types.Header {
	return &types.Header{Number: new(big.Int).SetUint64(n), Time: w.times[n] - w.age}
}

// Final implements Source: the block before the one in the making.
func (w *world) Final() *types.Header { return w.header(w.height - 1) }

// Call implements Source; there is only the newest state.
func (w *world) Call(_ context.Context, h *types.Header, to common.Address, data []byte) ([]byte, error) {
	require.Equal(w.t, contracts.TopicsAddress, to)
	if w.calls++; w.fail != nil {
		return nil, w.fail
	}
	return w.at(h.Number.Uint64(), data)
}

// Logs implements Source.
func (w *world) Logs(_ context.Context, from, to uint64) ([]*types.Log, error) {
	if w.fail != nil {
		return nil, w.fail
	}
	var l []*types.Log
	for n := from; n <= to; n++ {
		l = append(l, w.logs[n]...)
	}
	return l, nil
}

// sync seals the block and lets the mirror follow.
func (w *world) sync() *View {
	w.t.Helper()
	w.seal()
	require.NoError(w.t, w.m.follow(context.Background()))
	v := w.m.View()
	require.Equal(w.t, w.height-1, v.Height)
	return v
}

// fresh is the view that is read anew.
func (w *world) fresh() *View {
	w.t.Helper()
	v, err := load(context.Background(), w, w.Final(), &facts{log: zap.NewNop()})
	require.NoError(w.t, err)
	return v
}

var errAway = errors.New("state is away")
