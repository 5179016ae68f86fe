package node

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/state"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/consensus"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/telemetry"
	blocksync "github.com/bornode/bornode/sync"
	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/txpool"
)

// patience only ends a test that has failed already.
const patience = 2 * time.Minute

// folder makes the folder of a network's only producer and returns its configuration.
func folder(t *testing.T) *config.Config {
	t.Helper()
	const chainID = 4711
	dir := t.TempDir()
	keys, err := MakeKeys(dir, true, chainID)
	require.NoError(t, err)
	g, err := genesis.New(genesis.Options{
		ChainID: chainID, GenesisTime: uint64(time.Now().Unix()), Slot: 100 * time.Millisecond, TurnSlots: 2, //nolint:gosec // after 1970
		Producers: []genesis.Producer{{Account: keys.Account, BLSKey: [48]byte(keys.BLSKey), Proof: [96]byte(keys.Proof)}},
		Members:   []genesis.Member{{PeerID: keys.PeerID, Account: keys.Account, Roles: genesis.RoleProducer}},
		Alloc:     map[common.Address]*big.Int{keys.Account: big.NewInt(1e18)},
	})
	require.NoError(t, err)
	require.NoError(t, g.Write(filepath.Join(dir, GenesisFile)))
	c := config.Default()
	c.DataDir = dir
	c.Genesis = GenesisFile
	c.Keys.Producer = ProducerFile
	c.Consensus.NewKey = true
	c.RPC.HTTPAddr, c.RPC.WSAddr = "127.0.0.1:0", ""
	c.RPC.IPCPath = ""
	c.P2P.TCP.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	return c
}

func open(t *testing.T, c *config.Config) (*Node, *prometheus.Registry) {
	t.Helper()
	reg := telemetry.NewRegistry()
	n, err := New(t.Context(), c, zap.NewNop(), reg)
	require.NoError(t, err)
	return n, reg
}

// goroutines waits until no more run than before, and shows them if that never comes.
func goroutines(t *testing.T, before int) {
	t.Helper()
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before }, patience, 50*time.Millisecond, "goroutines are left:\n%s", stacks())
}

func stacks() string {
	b := make([]byte, 1<<20)
	return string(b[:runtime.Stack(b, true)])
}

// A node that makes final blocks, ends in order, leaves nothing running, and goes on where it was.
func TestNodeRunsAndEnds(t *testing.T) {
	c := folder(t)
	warm, _ := open(t, c) // what libraries start once for the process is not a leak
	require.NoError(t, warm.close())
	before := runtime.NumGoroutine()
	last := uint64(0)
	for range 2 {
		n, _ := open(t, c)
		require.GreaterOrEqual(t, n.chain.FinalHeader().Number.Uint64(), last)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.Run(ctx) }()
		require.Eventually(t, func() bool { return n.chain.FinalHeader().Number.Uint64() > last+2 }, patience, 20*time.Millisecond)
		last = n.chain.FinalHeader().Number.Uint64()
		stop()
		require.NoError(t, <-ended)
		require.ErrorIs(t, n.Run(t.Context()), ErrRanBefore)
		goroutines(t, before)
		c.Consensus.NewKey = false
	}
}

// What the pool recovers is not recovered again for a block.
func TestPoolAndChainShareSenders(t *testing.T) {
	n, _ := open(t, folder(t))
	defer n.close()
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	tx, err := types.SignNewTx(key, types.LatestSigner(n.chain.Config()), &types.LegacyTx{To: new(common.Address), Gas: 21_000, GasPrice: big.NewInt(1)})
	require.NoError(t, err)
	require.ErrorIs(t, n.pool.Add([]*types.Transaction{tx}, false)[0], core.ErrInsufficientFunds)
	raw, err := tx.MarshalBinary()
	require.NoError(t, err)
	inBlock := new(types.Transaction)
	require.NoError(t, inBlock.UnmarshalBinary(raw))
	from, recovered, err := n.chain.Senders().Sender(inBlock)
	require.NoError(t, err)
	require.False(t, recovered)
	require.Equal(t, crypto.PubkeyToAddress(key.PublicKey), from)
}

// A transaction that a node took from a client survives its kill, with the settings of a node that was told nothing.
func TestAcceptedTransactionsSurviveAKill(t *testing.T) {
	c := folder(t)
	n, _ := open(t, c)
	defer n.close()
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	var txs []*types.Transaction
	for nonce := range uint64(3) {
		tx, err := types.SignNewTx(key, types.LatestSigner(n.chain.Config()), &types.LegacyTx{Nonce: nonce, To: new(common.Address), Gas: 21_000})
		require.NoError(t, err)
		txs = append(txs, tx)
	}
	require.Equal(t, []error{nil, nil, nil}, n.pool.Add(txs, true))

	killed := folder(t) // what a kill leaves of the folder, under another name
	killed.Genesis, killed.DataDir = c.Path(c.Genesis), filepath.Join(t.TempDir(), "killed")
	require.NoError(t, os.CopyFS(killed.DataDir, os.DirFS(c.DataDir)))
	for _, key := range []string{c.Keys.Identity, c.Keys.Producer} {
		require.NoError(t, os.Chmod(killed.Path(key), 0o600))
	}
	again, _ := open(t, killed)
	defer again.close()
	for _, tx := range txs {
		require.True(t, again.pool.Has(tx.Hash()))
	}
}

// A node that cannot open leaves nothing behind either, wherever it failed.
func TestFailedOpenLeavesNothing(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *config.Config){
		"producer key": func(t *testing.T, c *config.Config) {
			require.NoError(t, os.Remove(filepath.Join(c.DataDir, ProducerFile)))
		},
		"peer address": func(_ *testing.T, c *config.Config) { c.P2P.Peers = []string{"/ip4/127.0.0.1/tcp/1"} },
		"JSON-RPC":     func(_ *testing.T, c *config.Config) { c.RPC.HTTPAddr = "203.0.113.1:1" }, // not ours to listen on
	} {
		t.Run(name, func(t *testing.T) {
			c := folder(t)
			n, _ := open(t, c)
			require.NoError(t, n.close())
			before := runtime.NumGoroutine()
			change(t, c)
			_, err := New(t.Context(), c, zap.NewNop(), telemetry.NewRegistry())
			require.Error(t, err)
			goroutines(t, before)
		})
	}
}

// Every error of the parts has its one meaning for the peer that caused it.
func TestClassify(t *testing.T) {
	for err, want := range map[error]blocksync.Verdict{
		consensus.ErrKnown:         blocksync.VerdictKnown,
		consensus.ErrUnknownParent: blocksync.VerdictUnknownParent,
		consensus.ErrFuture:        blocksync.VerdictFuture,
		consensus.ErrBelowLIB:      blocksync.VerdictIrrelevant,
		consensus.ErrRecovered:     blocksync.VerdictInvalid,
		consensus.ErrInvalid:       blocksync.VerdictInvalid,
		chain.ErrInvalidBody:       blocksync.VerdictInvalid,
		block.ErrDecode:            blocksync.VerdictInvalid,
		context.Canceled:           blocksync.VerdictOverloaded, // ours, never the peer's fault
		chain.ErrUnknownUpgrade{}:  blocksync.VerdictOverloaded,
		os.ErrNotExist:             blocksync.VerdictOverloaded,
	} {
		require.Equal(t, want, classify(err), "%v", err)
		require.Equal(t, want, classify(fmt.Errorf("block 7: %w", err)), "%v", err)
	}
	height, ok := corrupt(fmt.Errorf("read: %w", blockstore.ErrCorrupt{Height: 9}))
	require.True(t, ok)
	require.EqualValues(t, 9, height)
	_, ok = corrupt(blockstore.ErrNotFound)
	require.False(t, ok)
}

// ledger is a contract whose list a test sets.
type ledger struct {
	state *state.StateDB
	list  []contracts.MemberEntry
	err   error
}

func (l *ledger) FinalHeader() *types.Header { return &types.Header{Number: big.NewInt(5)} }
func (l *ledger) CurrentHeader() *types.Header {
	return &types.Header{Number: big.NewInt(5), Root: l.root()}
}
func (l *ledger) root() common.Hash { return l.state.IntermediateRoot(params.Rules{}) }

func (l *ledger) StateAt(*types.Header) (*state.StateDB, error) {
	if l.err != nil {
		return nil, l.err
	}
	return l.state, nil
}
func (l *ledger) Members() ([]contracts.MemberEntry, error) { return l.list, l.err }

func newLedger(t *testing.T) *ledger {
	t.Helper()
	s, err := state.New(types.EmptyRootHash, state.NewDatabaseForTesting())
	require.NoError(t, err)
	return &ledger{state: s}
}

// set changes the list, and the contract's storage with it.
func (l *ledger) set(peers ...string) {
	l.list = nil
	for _, p := range peers {
		l.list = append(l.list, contracts.MemberEntry{PeerID: p})
	}
	l.state.SetState(genesis.MembersAddress, common.Hash{1}, common.BigToHash(big.NewInt(int64(1+len(peers)))))
	l.state.SetNonce(genesis.MembersAddress, 1, 0)
	l.state.IntermediateRoot(params.Rules{})
}

// The gate follows the contract when in sync; behind, it also takes configured peers. Nobody passes before it was read.
func TestMembersGate(t *testing.T) {
	c := folder(t)
	g, err := genesis.Load(c.Path(c.Genesis))
	require.NoError(t, err)
	founder := transport.PeerID(g.Members()[0].PeerID)
	const self, configured, admitted, stranger = transport.PeerID("self"), transport.PeerID("configured"), transport.PeerID("admitted"), transport.PeerID("stranger")
	core, logs := observer.New(zap.WarnLevel)
	m := newMembers([]string{"/ip4/127.0.0.1/tcp/1/p2p/" + string(configured)}, self, nil, zap.New(core))
	accepted := func(behind bool, peers ...transport.PeerID) {
		t.Helper()
		for _, p := range []transport.PeerID{founder, configured, admitted, stranger} {
			want := false
			for _, q := range peers {
				want = want || p == q
			}
			err := m.Check(p)
			require.Equal(t, want, err == nil, "%s behind %t: %v", p, behind, err)
			if err != nil {
				require.ErrorIs(t, err, transport.ErrNotMember)
			}
		}
	}
	accepted(true) // nothing read yet

	l := newLedger(t)
	l.set(string(admitted))
	require.True(t, m.refresh(l, true))
	accepted(true, configured, admitted) // the founder was removed before LIB
	founders := newMembers([]string{"/ip4/127.0.0.1/tcp/1/p2p/" + string(founder)}, self, nil, zap.NewNop())
	require.True(t, founders.refresh(l, true))
	require.NoError(t, founders.Check(founder), "configured, it may be the only one to catch up from")
	require.True(t, founders.refresh(l, false))
	require.Error(t, founders.Check(founder))
	require.False(t, m.refresh(l, true), "nothing changed")
	require.True(t, m.refresh(l, false), "in sync the list alone counts")
	accepted(false, admitted)
	l.set(string(founder), string(admitted))
	require.True(t, m.refresh(l, false))
	accepted(false, founder, admitted)
	l.set()
	l.err = errors.New("disk")
	require.False(t, m.refresh(l, false))
	accepted(false, founder, admitted) // unreadable: as it was
	l.err = nil
	require.True(t, m.refresh(l, false))
	accepted(false)

	refusals := logs.FilterMessageSnippet("not a member;").FilterField(zap.String("peer", string(stranger))).Len()
	require.Equal(t, 1, refusals, "a stranger is named once a minute")
	for i := range 10 * maxTold {
		require.Error(t, m.Check(transport.PeerID(fmt.Sprint("x", i))))
	}
	require.LessOrEqual(t, len(m.told), maxTold)

	m.refusedEverywhere(1, 5)
	require.Zero(t, logs.FilterMessageSnippet("no peers").Len(), "it has peers")
	m.refusedEverywhere(0, 5)
	m.refusedEverywhere(0, 5)
	require.Equal(t, 1, logs.FilterMessageSnippet("no peers").Len())
}

// The pool judges by the lists at the head.
func TestAllowed(t *testing.T) {
	l := newLedger(t)
	a := &allowed{chain: l}
	me := common.Address{9}
	require.NoError(t, a.check(me, true), "the lists are off")

	flags := func(senders, deployers byte) {
		var v common.Hash
		v[31] = 0xad // an admin
		v[11], v[10] = senders, deployers
		l.state.SetState(genesis.MembersAddress, common.Hash{}, v)
		l.state.SetNonce(genesis.MembersAddress, 1, 0)
	}
	flags(0, 1)
	require.NoError(t, a.check(me, false))
	require.ErrorContains(t, a.check(me, true), "deploy")
	flags(1, 0)
	require.ErrorContains(t, a.check(me, false), "may send")
	admin := common.Address{}
	admin[19] = 0xad
	require.NoError(t, a.check(admin, true))
	l.err = errors.New("disk")
	a.state = nil
	require.ErrorContains(t, a.check(me, false), "not readable at block 5: disk")
}

// failingReader is a state that cannot be read.
type failingReader struct{ state.Reader }

func (failingReader) Account(common.Address) (*types.StateAccount, error) {
	return nil, errors.New("layer is stale")
}

// Lists that cannot be read judge nobody: a failed read gives zeros, which look like lists that are off.
func TestUnreadableListsAdmitNobody(t *testing.T) {
	l := newLedger(t)
	healthy := l.state
	s, err := state.NewWithReader(types.EmptyRootHash, state.NewDatabaseForTesting(), failingReader{})
	require.NoError(t, err)
	a := &allowed{chain: l, state: s, root: l.CurrentHeader().Root}
	l.state = s
	err = a.check(common.Address{9}, false)
	require.ErrorIs(t, err, txpool.ErrUnreadable)
	require.ErrorContains(t, err, "stale")
	l.state = healthy
	require.NoError(t, a.check(common.Address{9}, false), "a new state is opened")
}
