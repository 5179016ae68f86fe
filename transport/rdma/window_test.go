package rdma

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport"
	"github.com/bornode/bornode/transport/rdma/fabric"
)

// dirSource serves the files of a directory: area n is the file called n.
type dirSource string

func (d dirSource) Open(area uint32) (*os.File, error) { return os.Open(d.path(area)) }

func (d dirSource) path(area uint32) string { return filepath.Join(string(d), fmt.Sprint(area)) }

func (d dirSource) write(t testing.TB, area uint32, b []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(d.path(area), b, 0o600))
}

func (d dirSource) append(t testing.TB, area uint32, b []byte) {
	t.Helper()
	f, err := os.OpenFile(d.path(area), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.Write(b)
	require.NoError(t, errors.Join(err, f.Close()))
}

// page writes area 0, in place.
func (d dirSource) page(t testing.TB, epoch uint64) {
	t.Helper()
	b := make([]byte, 64)
	binary.BigEndian.PutUint64(b[transport.WindowEpochOffset:], epoch)
	f, err := os.OpenFile(d.path(0), os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	_, err = f.WriteAt(b, 0)
	require.NoError(t, errors.Join(err, f.Close()))
}

// pattern is n bytes that say where they are.
func pattern(area uint32, offset int64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		at := offset + int64(i)
		b[i] = byte(at) ^ byte(at>>8)*31 ^ byte(at>>16)*7 ^ byte(area)*13
	}
	return b
}

// requireBytes is require.Equal that does not print megabytes.
func requireBytes(t testing.TB, want, got []byte, what ...any) {
	t.Helper()
	require.Len(t, got, len(want), what...)
	require.True(t, bytes.Equal(want, got), what...)
}

func readAll(t testing.TB, c *Channel, area uint32, offset int64, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	k, err := c.ReadWindow(patient(t), area, offset, b)
	require.NoError(t, err)
	return b[:k]
}

// eachWindow runs a test on every fabric that offers windows.
func eachWindow(t *testing.T, test func(t *testing.T, a, b *Device)) {
	eachFabric(t, testConfig(), func(t *testing.T, a, b *Device) {
		if a.Caps().SharesFiles || a.Caps().Reads {
			test(t, a, b)
		}
	})
}

func TestReadWindow(t *testing.T) {
	eachWindow(t, func(t *testing.T, a, b *Device) {
		src := dirSource(t.TempDir())
		x, y := channels(t, a, b)
		_, err := x.ReadWindow(patient(t), 1, 0, make([]byte, 4))
		require.ErrorIs(t, err, transport.ErrNoWindow, "b serves nothing")

		src.page(t, 1)
		src.write(t, 1, pattern(1, 0, 100_000))
		src.write(t, 1<<31, pattern(1<<31, 0, 5000))
		b.Serve(src)
		requireBytes(t, pattern(1, 0, 100_000), readAll(t, x, 1, 0, 100_000))
		requireBytes(t, pattern(1, 70_001, 20_003), readAll(t, x, 1, 70_001, 20_003))
		requireBytes(t, pattern(1<<31, 4990, 10), readAll(t, x, 1<<31, 4990, 100), "the area ends")
		require.Empty(t, readAll(t, x, 1, 100_000, 10))
		require.Empty(t, readAll(t, x, 1, 1<<40, 10))
		_, err = x.ReadWindow(patient(t), 7, 0, make([]byte, 4))
		require.ErrorIs(t, err, fs.ErrNotExist)
		_, err = x.ReadWindow(patient(t), 1, -1, make([]byte, 4))
		require.Error(t, err)
		_, err = y.ReadWindow(patient(t), 1, 0, make([]byte, 4))
		require.ErrorIs(t, err, transport.ErrNoWindow, "a serves nothing")

		// It grows, and more is read.
		src.append(t, 1, pattern(1, 100_000, 50_000))
		requireBytes(t, pattern(1, 99_000, 51_000), readAll(t, x, 1, 99_000, 60_000))

		// Replaced under another epoch.
		readAll(t, x, 0, 0, 64)
		src.page(t, 2)
		require.NoError(t, os.Remove(src.path(1)))
		src.write(t, 1, pattern(9, 0, 1000))
		require.EqualValues(t, 2, binary.BigEndian.Uint64(readAll(t, x, 0, 0, 64)[transport.WindowEpochOffset:]))
		requireBytes(t, pattern(9, 0, 1000), readAll(t, x, 1, 0, 2000))

		// Pruned under another epoch.
		src.page(t, 3)
		require.NoError(t, os.Remove(src.path(1)))
		readAll(t, x, 0, 0, 64)
		_, err = x.ReadWindow(patient(t), 1, 0, make([]byte, 4))
		require.ErrorIs(t, err, fs.ErrNotExist)

		// Frames go on beside it, and the end of the channel ends it.
		require.NoError(t, traffic(x, y, 100, 3000))
		healthy(t, a, b)
		require.NoError(t, x.Close())
		_, err = x.ReadWindow(patient(t), 0, 0, make([]byte, 4))
		require.ErrorIs(t, err, transport.ErrNoWindow)
	})
}

func TestReadWindowFromManyGoroutines(t *testing.T) {
	eachWindow(t, func(t *testing.T, a, b *Device) {
		src := dirSource(t.TempDir())
		src.page(t, 1)
		for area := uint32(1); area <= 2*maxOpenAreas; area++ {
			src.write(t, area, pattern(area, 0, 30_000))
		}
		b.Serve(src)
		x, y := channels(t, a, b)
		errs := make(chan error, 8)
		for g := range 8 {
			go func() { errs <- readMany(patient(t), x, g) }()
		}
		require.NoError(t, traffic(x, y, 500, 3000))
		for range 8 {
			require.NoError(t, <-errs)
		}
		healthy(t, a, b)
	})
}

func readMany(ctx context.Context, x *Channel, seed int) error {
	for i := range pick(60, 1000) {
		area := uint32(1 + (seed*7+i*5)%(2*maxOpenAreas))
		offset := int64(i * 371 % 29_000)
		b := make([]byte, 1000)
		n, err := x.ReadWindow(ctx, area, offset, b)
		if err != nil {
			return err
		}
		if string(b[:n]) != string(pattern(area, offset, n)) || n != 1000 {
			return fmt.Errorf("area %d at %d: %d wrong bytes", area, offset, n)
		}
	}
	return nil
}

// fakeFiles hands out files that count.
type fakeFiles struct {
	mu     sync.Mutex
	open   map[uint32]int
	opened int
	fail   error
	page   []byte
}

type fakeFile struct {
	of   *fakeFiles
	area uint32
}

func (f *fakeFiles) OpenArea(_ context.Context, area uint32) (fabric.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	f.open[area]++
	f.opened++
	return &fakeFile{f, area}, nil
}

func (f *fakeFile) ReadAt(p []byte, _ int64) (int, error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.area == 0 {
		return copy(p, f.of.page), io.EOF
	}
	if f.area == 99 {
		return 0, errors.New("a broken disk")
	}
	return len(p), nil
}

func (f *fakeFile) Close() error {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.of.open[f.area]--
	return nil
}

func (f *fakeFiles) count() (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, k := range f.open {
		n += k
	}
	return n
}

func TestWindowFiles(t *testing.T) {
	from := &fakeFiles{open: map[uint32]int{}, page: make([]byte, 64)}
	var w windowFiles
	read := func(area uint32) error {
		_, err := w.read(t.Context(), from, area, 0, make([]byte, 64))
		return err
	}
	for range 3 {
		for area := range uint32(maxOpenAreas) {
			require.NoError(t, read(area))
		}
	}
	require.Equal(t, maxOpenAreas, from.opened, "each is opened once")

	// One more: the one that was not read for longest goes.
	require.NoError(t, read(0))
	require.NoError(t, read(maxOpenAreas))
	require.Equal(t, maxOpenAreas, from.count())
	require.Zero(t, from.open[1])
	require.Equal(t, 1, from.open[0])

	// Another epoch: everything but the directory is opened anew.
	binary.BigEndian.PutUint64(from.page[transport.WindowEpochOffset:], 5)
	require.NoError(t, read(0))
	require.Equal(t, 1, from.count())
	require.Equal(t, 1, from.open[0])
	require.NoError(t, read(3))
	require.Equal(t, 2, from.count())

	// A read that fails opens anew next time; one that cannot open leaves nothing.
	require.Error(t, read(99))
	require.Zero(t, from.open[99])
	from.fail = fs.ErrNotExist
	require.ErrorIs(t, read(50), fs.ErrNotExist)
	from.fail = nil

	// Idle files are closed, and the timer is gone with them.
	w.tick()
	require.Equal(t, 2, from.count(), "read since")
	w.tick()
	require.Zero(t, from.count())
	require.Nil(t, w.idle)
	require.NoError(t, read(3))
	require.NotNil(t, w.idle)
	w.close()
	require.Zero(t, from.count())
	require.Nil(t, w.idle)
	require.NoError(t, read(4), "a reader that was under way")
	require.Zero(t, from.count())
}
