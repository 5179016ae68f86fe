package replica

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/pubsub/store"
)

// sectorDisk is a disk that does not give a sector of one file while on says so.
type sectorDisk struct {
	vfs.FS
	name string
	at   int64
	on   atomic.Bool
}

const sectorBytes = 4096

type sectorFile struct {
	vfs.File
	d *sectorDisk
}

func (d *sectorDisk) Open(name string, flag int) (vfs.File, error) {
	f, err := d.FS.Open(name, flag)
	if err != nil || name != d.name {
		return f, err
	}
	return sectorFile{f, d}, nil
}

func (f sectorFile) ReadAt(p []byte, off int64) (int, error) {
	if f.d.on.Load() && off < f.d.at+sectorBytes && off+int64(len(p)) > f.d.at {
		return 0, syscall.EIO
	}
	return f.File.ReadAt(p, off)
}

// A leader whose disk does not give a sector of a full segment, or has lost the segment, cannot copy it to a replica that
// needs it: it gives its epoch up, the replica that has everything leads, and all get everything.
func TestALeaderThatCannotReadAFullSegmentGivesUp(t *testing.T) {
	const segment = "00000002.log"
	for _, lost := range []bool{false, true} {
		dirs := map[string]*sectorDisk{}
		open := func(name string) (*node, *store.Store) {
			if dirs[name] == nil {
				dirs[name] = &sectorDisk{FS: vfs.OS(t.TempDir(), vfs.Public), name: segment, at: sectorBytes}
			}
			cfg := store.DefaultConfig()
			cfg.SegmentBytes, cfg.CacheBytes, cfg.ReserveBytes = 16<<10, 0, 0
			s, err := store.Open(cfg, dirs[name], zap.NewNop(), nil)
			require.NoError(t, err)
			t.Cleanup(func() { _ = s.Close() }) // the first of a is closed
			return newNode(t, name, Disk(s)), s
		}
		a, first := open("a")
		b, _ := open("b")
		lead(t, Lease{Epoch: 1, Leader: "a", Replicas: abc}, a, b)
		for i := range 100 {
			a.write(fmt.Sprint(i, " ", strings.Repeat("x", 500)))
		}
		pass(a, b)
		require.Equal(t, int64(100), a.core.hw)
		require.NoError(t, first.Close()) // the next start has all full segments sealed, and nothing in memory
		a, s := open("a")
		second := Lease{Epoch: 2, Leader: "a", Replicas: abc}
		lead(t, second, a, b)
		require.True(t, a.core.ready)

		if lost {
			require.NoError(t, dirs["a"].Remove(segment))
		} else {
			dirs["a"].on.Store(true)
		}
		var damage error
		s.OnDamage(func(_ store.ID, err error) { damage = err })
		c, _ := open("c")
		require.NoError(t, c.core.setLease(second))
		exchange(a, c)
		require.Error(t, damage, "the store's owner is told")
		require.Less(t, c.core.data.End(), int64(100))
		wasCut, m, err := a.core.data.Mend(damage)
		require.NoError(t, err)
		require.True(t, wasCut)
		a.core, err = a.core.afterLoss(m)
		require.NoError(t, err)
		require.Equal(t, retired, a.core.role)
		exchange(a, b, c)
		require.NotZero(t, b.losses, "it is told that it has to lead")
		lead(t, Lease{Epoch: 3, Leader: "b", Replicas: abc}, a, b, c)
		for _, n := range []*node{a, b, c} {
			require.Len(t, n.log(), 100, n.name)
			require.False(t, n.core.forgot(), n.name)
		}
	}
}
