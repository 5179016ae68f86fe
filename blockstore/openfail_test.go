package blockstore_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/leaks"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

// A start that the disk ends, at any change of a new store, of one whose derived data are damaged and of one whose journal
// of them is torn, leaves no database open.
func TestFailedOpenLeavesNothingOpen(t *testing.T) {
	chain := line(nil, 12, 1, 3, 5)
	damaged, torn := derivedDisk(t, chain), derivedDisk(t, chain)
	require.NoError(t, damaged.Corrupt("derived/CURRENT", func([]byte) []byte { return nil }))
	names, err := torn.List("derived")
	require.NoError(t, err)
	for _, name := range names {
		if name[0] == 'M' { // the list of tables
			require.NoError(t, torn.Corrupt("derived/"+name, func(b []byte) []byte { return b[:len(b)-1] }))
		}
	}
	before := goleak.IgnoreCurrent()
	for _, origin := range []*faultfs.Disk{faultfs.New(), damaged, torn} {
		failed := 0
		for at := 1; ; at++ {
			disk := origin.Copy()
			base := disk.Changes()
			disk.SetPlan(func(c faultfs.Change) faultfs.Verdict {
				if c.Number == base+at {
					return faultfs.Verdict{Err: syscall.EIO}
				}
				return faultfs.Verdict{}
			}, 1)
			s, err := blockstore.Open(config(disk), nil, nil)
			if err == nil {
				_ = s.Close() // may meet the error itself
				if disk.Changes() < base+at {
					break
				}
				continue
			}
			failed++
		}
		require.Greater(t, failed, 5)
	}
	leaks.None(t, before, goleak.IgnoreTopFunction("github.com/syndtr/goleveldb/leveldb.(*DB).mpoolDrain"))
}
