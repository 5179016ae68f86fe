package store

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// A power cut while the first records of a new segment are written costs nothing: the header was durable before them, so
// what is left of them is a torn tail, never a segment that cannot be read.
func TestAPowerCutInANewSegmentCostsNothing(t *testing.T) {
	var raws [][]byte // so large that a segment is written in several pieces
	for i := range 6 {
		raws = append(raws, plain(i, 1, 600<<10))
	}
	for seed := uint64(1); seed <= 12; seed++ {
		fs, cfg := newDisk(), testConfig()
		cfg.SegmentBytes, cfg.FsyncInterval, cfg.ReserveBytes = 2<<20, time.Minute, 0
		s := open(t, fs, cfg)
		p := create(t, s, 0)
		promised, err := p.Promise(9)
		require.NoError(t, err)
		require.NoError(t, s.Durable(t.Context(), promised))
		writes := 0
		fs.SetPlan(func(c faultfs.Change) faultfs.Verdict {
			if c.Name == logName(2) && c.Kind == faultfs.Write {
				writes++
			}
			return faultfs.Verdict{Crash: c.Name == logName(2) && c.Kind == faultfs.Sync && writes > 1}
		}, seed)
		var last Appended
		for _, raw := range raws {
			last = add(t, p, 9, append([]byte(nil), raw...))
		}
		require.EqualValues(t, 2, last.Mark.segment())
		require.Error(t, s.Durable(t.Context(), last.Mark))
		left := disk{fs.Crashed()}
		_ = s.Close()
		s = open(t, left, cfg)
		p = s.Partition(id(0))
		require.GreaterOrEqual(t, p.End(), int64(3), "seed %d: segment 1 is whole", seed)
		require.EqualValues(t, 9, p.Promised(), "seed %d: what was promised counts", seed)
		names, err := left.List(".")
		require.NoError(t, err)
		for _, name := range names {
			require.NotContains(t, name, ".damaged-", "seed %d", seed)
		}
		require.NoError(t, s.Close())
	}
}

// The reserve has its room on the disk as soon as anything else is durable, and gives it back when its removal is.
func TestTheReserveIsDurable(t *testing.T) {
	fs, cfg := newDisk(), testConfig()
	s := open(t, fs, cfg)
	p := create(t, s, 0)
	for i := range 100 { // into further segments, whose names are synced
		add(t, p, 0, plain(i, 1, 500))
	}
	sealed(t, s)
	left := fs.Crash(0)
	f, err := left.Open(reserveName, os.O_RDONLY)
	require.NoError(t, err)
	size, err := f.Size()
	require.NoError(t, err)
	require.Equal(t, cfg.ReserveBytes, size)
}
