package chain

import (
	"context"
	"errors"
	"io"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/rawdb"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// refusingStore takes no write.
type refusingStore struct{ Store }

var errRefused = errors.New("the disk is gone")

func (refusingStore) PutReversible([]*block.Block) error                  { return errRefused }
func (refusingStore) Finalize(block.FinalUpdate) error                    { return errRefused }
func (refusingStore) AppendFinal([]*block.Block, block.FinalUpdate) error { return errRefused }

// What the store did not make durable is neither final nor known, whichever way it came.
func TestNothingIsShownThatTheStoreRefused(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	run := n.branch(n.Head(), 3, 0, 1)
	other := newTestNode(t, n.gen)
	finals := make(chan FinalEvent, 8)
	defer other.SubscribeFinal(finals).Unsubscribe()
	sound := other.Chain.store
	other.Chain.store = refusingStore{sound}
	require.ErrorIs(t, other.Add(run), errRefused)
	for _, b := range run {
		require.Nil(t, other.Sealed(b.Hash()), "block %d", b.Number())
	}
	require.ErrorIs(t, other.ImportFinal(context.Background(), run, finalOf(run)), errRefused)
	require.Zero(t, other.Final().Number())
	maker := newTestNode(t, n.gen)
	far := maker.branch(maker.Head(), layersKept/2+6, 0, 2)
	require.ErrorIs(t, other.ImportFinal(context.Background(), far, finalOf(far)), errRefused)
	require.LessOrEqual(t, other.Head().Number(), uint64(layersKept/2), "execution is ahead of the disk by less than pathdb can take back")

	third := newTestNode(t, n.gen)
	require.NoError(t, third.Add(run))
	third.Chain.store = refusingStore{third.Chain.store}
	require.ErrorIs(t, third.Finalize(finalOf(run)), errRefused)
	require.Zero(t, third.Final().Number())
	require.Empty(t, finals)
}

// A power cut while a damaged state is set aside leaves the mark in its place until everything else has moved.
func TestTheMarkOfDamageMovesLast(t *testing.T) {
	made := faultfs.New()
	require.NoError(t, made.Mkdir("kv"))
	for _, name := range []string{"kv/1", "a", "zz"} {
		require.NoError(t, vfs.ReplaceFile(made, name, []byte(name)))
	}
	require.NoError(t, made.SyncDir("."))
	require.NoError(t, markDamaged(made, errors.New("a table is damaged")))
	for at, done := 1, false; !done; at++ {
		disk, seen := made.Copy(), 0
		disk.SetPlan(func(faultfs.Change) faultfs.Verdict {
			seen++
			return faultfs.Verdict{Crash: seen == at}
		}, uint64(at)) //nolint:gosec // small
		_, err := setStateAside(disk, "state", asideDamaged)
		left := disk.Crashed()
		if done = left == nil; done {
			require.NoError(t, err)
			left = disk
			left.SetPlan(nil, 0)
		}
		names, err := left.List(".")
		require.NoError(t, err)
		if markedDamage(left, "state") == nil {
			for _, name := range []string{"kv", "a", "zz"} {
				require.NotContains(t, names, name, "a power cut at operation %d", at)
			}
		}
	}
}

// unreadableMark is a folder in which the mark of damage cannot be read.
type unreadableMark struct{ vfs.FS }

func (d unreadableMark) Open(name string, flag int) (vfs.File, error) {
	if name == damageMark {
		return nil, io.ErrUnexpectedEOF
	}
	return d.FS.Open(name, flag)
}

// A mark that cannot be read is not one that is absent: the state is not opened as if it were sound.
func TestAMarkThatCannotBeReadIsNotAbsent(t *testing.T) {
	disk := faultfs.New()
	require.NoError(t, markedDamage(disk, "state"))
	require.ErrorIs(t, markedDamage(unreadableMark{disk}, "state"), io.ErrUnexpectedEOF)
	require.NoError(t, markDamaged(disk, os.ErrInvalid))
	require.Equal(t, exit.Damage, exit.Code(markedDamage(disk, "state")))
}

// slowReceipts is a store whose receipts take long to arrive.
type slowReceipts struct {
	Store
	mu    sync.Mutex
	put   map[uint64]bool
	syncs func(put map[uint64]bool)
}

func (s *slowReceipts) PutReceipts(h common.Hash, height uint64, rs types.Receipts) error {
	for range 2000 {
		runtime.Gosched()
	}
	s.mu.Lock()
	s.put[height] = true
	s.mu.Unlock()
	return s.Store.PutReceipts(h, height, rs)
}

func (s *slowReceipts) SyncDerived() error {
	s.mu.Lock()
	s.syncs(s.put)
	s.mu.Unlock()
	return s.Store.SyncDerived()
}

// The receipts of all blocks whose state is about to be written have reached the store when it is asked to sync them.
func TestReceiptsHaveArrivedWhenTheyAreSynced(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	n.Chain.cfg.FlushBlocks = 4
	synced, missing := 0, 0
	n.Chain.store = &slowReceipts{Store: n.Chain.store, put: make(map[uint64]bool), syncs: func(put map[uint64]bool) {
		synced++
		for h := uint64(1); h <= n.Head().Number(); h++ {
			if !put[h] {
				missing++
			}
		}
	}}
	maker := newTestNode(t, n.gen)
	for range 4 {
		run := maker.branch(maker.Head(), 6, 0, 1)
		maker.finalize(run...)
		copies := make([]*block.Block, len(run))
		for i, b := range run {
			copies[i] = copyOf(b)
		}
		require.NoError(t, n.ImportFinal(context.Background(), copies, finalOf(copies)))
	}
	require.NotZero(t, synced)
	require.Zero(t, missing)
}

// prunedStore is a store that keeps blocks from a height on only.
type prunedStore struct{ Store }

func (prunedStore) FirstHeight() uint64 { return 5 }

// A state that is damaged stays where it is on a node that cannot rebuild it.
func TestADamagedStateOfAPrunedNodeStays(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	n.finalize(n.branch(n.Head(), 10, 0, 1)...)
	require.NoError(t, n.Close())
	require.NoError(t, markDamaged(n.cfg.files(), errors.New("a table is damaged")))
	_, err := Open(context.Background(), n.cfg, n.gen, prunedStore{n.store}, zap.NewNop(), nil)
	require.Equal(t, exit.Damage, exit.Code(err), err)
	require.Zero(t, damagedAside(n.cfg.files()))
	require.DirExists(t, n.cfg.keyValueDir())
}

// A start takes the journal of layers away that it has read, executes only the block that its child names, and writes the
// state while it executes many blocks again.
func TestAStartKeepsToItsBlocks(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, nil))
	n.finalize(n.branch(n.Head(), 270, 0, 1)...)
	require.NoError(t, n.Close())
	n.open()
	require.Empty(t, rawdb.ReadTrieJournal(n.states.disk))
	b, err := n.replayedBlock(3, n.HeaderByNumber(3).Hash())
	require.NoError(t, err)
	require.EqualValues(t, 3, b.Number())
	_, err = n.replayedBlock(3, n.HeaderByNumber(4).Hash())
	require.ErrorContains(t, err, "its child names")
	require.NoError(t, n.Close())

	require.NoError(t, os.RemoveAll(n.cfg.Dir))
	n.cfg.FlushBlocks = 128
	n.open()
	require.EqualValues(t, 270, n.Head().Number())
	require.EqualValues(t, 2, n.flushes.Load())
}

// The floor of what a start reads is the lower of the epoch's first block and of the hashes that contracts may ask for.
func TestReplayFloorIsTheLowerOne(t *testing.T) {
	n := newTestNode(t, newTestGenesis(t, func(g *testGenesis) { g.params.EpochBlocks = 16 }))
	n.finalize(n.branch(n.Head(), 40, 0, 1)...)
	require.NoError(t, n.states.trie().Commit(n.Head().Header.Root, false))
	floor, err := n.ReplayFloor()
	require.NoError(t, err)
	require.Zero(t, floor, "contracts may ask for the hashes of all 40 blocks")
}
