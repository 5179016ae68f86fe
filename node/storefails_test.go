package node

import (
	"context"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/internal/vfs"
)

// fillable is a file system whose disk can be full.
type fillable struct {
	vfs.FS
	full *atomic.Bool
}

func (f fillable) Open(name string, flag int) (vfs.File, error) {
	x, err := f.FS.Open(name, flag)
	return fillableFile{x, f.full}, err
}

type fillableFile struct {
	vfs.File
	full *atomic.Bool
}

func (f fillableFile) WriteAt(p []byte, off int64) (int, error) {
	if f.full.Load() {
		return 0, syscall.ENOSPC
	}
	return f.File.WriteAt(p, off)
}

// A node whose block store takes no more writes ends and says why, also if nothing of consensus has met it: an observer
// that only offers the store blocks from peers would be refused each of them for good, and never be in sync again.
func TestANodeWhoseStoreFailsEnds(t *testing.T) {
	c := folder(t)
	c.Keys.Producer = "" // nothing is written but what peers send
	var full atomic.Bool
	c.Store.FS = fillable{vfs.OS(c.Path(c.Store.Dir), vfs.Public), &full}
	require.NoError(t, c.Store.FS.Mkdir("."))
	n, err := New(t.Context(), c, zap.NewNop(), telemetry.NewRegistry())
	require.NoError(t, err)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	full.Store(true)
	require.Error(t, n.store.PutMeta("any", []byte{1}, true))
	err = <-ended
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.ErrorContains(t, err, "takes no more writes")
	require.Equal(t, exit.Disk, exit.Code(err))
}
