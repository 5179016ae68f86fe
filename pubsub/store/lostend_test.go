package store

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// A machine that stops and loses the newest segments, those behind its newest snapshot and that one's own, has forgotten what
// was promised there and which partitions were created there: the store says so, and gives no number twice.
func TestLostNewestSegmentsAreNoticed(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	require.NoError(t, s.SetMade(40))
	p := create(t, s, 0)
	for i := range 40 {
		add(t, p, 1, plain(i, 2, 400))
	}
	sealed(t, s)
	synced(t, s)
	newest := slices.Max(snapsOf(t, fs))
	last := create(t, s, 1)
	_, err := p.Enter(7)
	require.NoError(t, err)
	synced(t, s)
	left := disk{fs.Killed()}
	for _, n := range logs(t, left) {
		if n >= newest {
			left.Lose(logName(n))
		}
	}
	again := open(t, left, testConfig())
	_, known := again.Made()
	require.False(t, known, "what was promised is not known")
	entered, _ := again.Partition(id(0)).Position()
	require.EqualValues(t, -1, entered)
	require.Greater(t, create(t, again, 2).number, last.number)
	require.NoError(t, again.Close())
	require.NoError(t, s.Close())
}

// The segment that the older of the kept snapshots is of stays, though nothing in it is live.
func TestTheSegmentOfAKeptSnapshotStays(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	for i := range 120 {
		add(t, p, 1, plain(i, 2, 400))
	}
	sealed(t, s)
	p.SetCommitted(p.End())
	require.NoError(t, p.DeleteBefore(p.End()))
	synced(t, s)
	for range 20 {
		tick(t, s, time.UnixMilli(0))
	}
	kept, there := snapsOf(t, fs), logs(t, fs)
	require.Greater(t, there[0], uint32(1), "dead segments went")
	require.Contains(t, there, kept[0])
	require.NoError(t, s.Close())
}

// Where the log ended is written down at the end of a run only if all of it is durable.
func TestNoEndIsNotedThatIsNotDurable(t *testing.T) {
	fs := newDisk()
	s := open(t, fs, testConfig())
	p := create(t, s, 0)
	add(t, p, 1, plain(1, 2, 400))
	synced(t, s)
	fs.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Kind == faultfs.Sync && strings.HasSuffix(c.Name, logSuffix) {
			return faultfs.Verdict{Err: syscall.EIO}
		}
		return faultfs.Verdict{}
	}, 1)
	add(t, p, 1, plain(2, 2, 400))
	require.ErrorIs(t, s.Sync(t.Context()), syscall.EIO)
	require.NoError(t, s.saveClosed())
	names, err := fs.List(".")
	require.NoError(t, err)
	require.NotContains(t, names, closedName)
	fs.SetPlan(nil, 1)
	require.NoError(t, s.Close())
}
