package mem_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/link"
	"github.com/bornode/bornode/transport/mem"
)

type fileSource map[uint32]string

func (s fileSource) Open(area uint32) (*os.File, error) {
	name, ok := s[area]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return os.Open(name)
}

func TestReadWindow(t *testing.T) {
	name := filepath.Join(t.TempDir(), "area")
	require.NoError(t, os.WriteFile(name, []byte("0123456789"), 0o600))
	synctest.Test(t, func(t *testing.T) {
		w := connected(t, link.DefaultConfig())
		ctx := context.Background()
		dst := make([]byte, 4)
		_, err := w.la.ReadWindow(ctx, 3, 0, dst)
		require.ErrorIs(t, err, transport.ErrNoWindow, "b serves nothing")

		w.b.Serve(fileSource{3: name})
		n, err := w.la.ReadWindow(ctx, 3, 2, dst)
		require.NoError(t, err)
		require.Equal(t, "2345", string(dst[:n]))
		n, err = w.la.ReadWindow(ctx, 3, 8, dst)
		require.NoError(t, err)
		require.Equal(t, "89", string(dst[:n]), "the area ends")
		_, err = w.la.ReadWindow(ctx, 4, 0, dst)
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = w.lb.ReadWindow(ctx, 3, 0, dst)
		require.ErrorIs(t, err, transport.ErrNoWindow, "a serves nothing")

		// Faults, each way on its own.
		w.SetWindowFaults("a", "b", mem.WindowFaults{None: true})
		_, err = w.la.ReadWindow(ctx, 3, 0, dst)
		require.ErrorIs(t, err, transport.ErrNoWindow)
		w.SetWindowFaults("a", "b", mem.WindowFaults{FailAfter: 6})
		_, err = w.la.ReadWindow(ctx, 3, 0, dst)
		require.NoError(t, err)
		_, err = w.la.ReadWindow(ctx, 3, 4, dst)
		require.Error(t, err)
		w.SetWindowFaults("a", "b", mem.WindowFaults{Spoil: func(_ uint32, _ int64, p []byte) { p[0] = 'x' }})
		_, err = w.la.ReadWindow(ctx, 3, 0, dst)
		require.NoError(t, err)
		require.Equal(t, "x123", string(dst))
		w.SetWindowFaults("a", "b", mem.WindowFaults{Latency: 3 * time.Second})
		t0 := time.Now()
		_, err = w.la.ReadWindow(ctx, 3, 0, dst)
		require.NoError(t, err)
		require.Equal(t, 3*time.Second, time.Since(t0))

		// A silent peer holds a read until its context or the connection ends.
		w.SetFaults("a", "b", mem.Faults{Silent: true})
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = w.la.ReadWindow(bounded, 3, 0, dst)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = w.la.ReadWindow(ctx, 3, 0, dst)
		require.Error(t, err, "the link gives the connection up")
		require.Equal(t, 11, w.WindowReads("a", "b"))
		w.close(t)
	})
}
