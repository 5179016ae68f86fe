package chain

import (
	"context"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

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
