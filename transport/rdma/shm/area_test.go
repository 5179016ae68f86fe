//go:build linux

package shm

import (
	"context"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

type folder string

func (f folder) Open(area uint32) (*os.File, error) {
	switch area {
	case 7:
		return os.OpenFile(filepath.Join(string(f), "0"), os.O_RDWR, 0)
	case 8:
		return os.Open(string(f))
	}
	return os.Open(filepath.Join(string(f), itoa(int(area))))
}

func TestOpenArea(t *testing.T) {
	a, b := pair(t, 4, fabric.QPConfig{})
	ctx := context.Background()
	_, err := a.qp.OpenArea(ctx, 0)
	require.ErrorIs(t, err, fabric.ErrUnsupported)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "0"), []byte("0123456789"), 0o600))
	b.dev.Serve(folder(dir))
	before := descriptors(t)
	f, err := a.qp.OpenArea(ctx, 0)
	require.NoError(t, err)
	got := make([]byte, 4)
	n, err := f.ReadAt(got, 3)
	require.NoError(t, err)
	require.Equal(t, "3456", string(got[:n]))
	_, err = f.(*os.File).Write([]byte("x"))
	require.Error(t, err, "it is for reading only")
	require.NoError(t, os.Truncate(filepath.Join(dir, "0"), 2))
	_, err = f.ReadAt(got, 3)
	require.Error(t, err, "a file that shrinks is an error, not a fault")
	require.NoError(t, f.Close())
	_, err = a.qp.OpenArea(ctx, 3)
	require.ErrorIs(t, err, fs.ErrNotExist)
	for _, area := range []uint32{7, 8} { // writable; a folder
		_, err = a.qp.OpenArea(ctx, area)
		require.Error(t, err, "area %d", area)
		require.NotErrorIs(t, err, fs.ErrNotExist)
		require.NotErrorIs(t, err, fabric.ErrPeer, "the serving side refuses it")
	}
	done := make(chan error, 40)
	for range cap(done) {
		go func() {
			f, err := a.qp.OpenArea(ctx, 0)
			if err == nil {
				err = f.Close()
			}
			done <- err
		}()
	}
	for range cap(done) {
		require.NoError(t, <-done)
	}
	b.dev.Serve(nil)
	_, err = a.qp.OpenArea(ctx, 0)
	require.ErrorIs(t, err, fabric.ErrUnsupported)
	requireSettled(t, math.MaxInt, before, math.MaxInt) // the serving side closes its own after it sent it
	b.qp.Break()
	requireBroken(t, a.qp, fabric.ErrBroken)
	_, err = a.qp.OpenArea(ctx, 0)
	require.ErrorIs(t, err, fabric.ErrBroken)
}

// slowSource answers when it is told to.
type slowSource struct{ asked, answer chan struct{} }

func (s slowSource) Open(uint32) (*os.File, error) {
	s.asked <- struct{}{}
	<-s.answer
	return os.Open("/proc/self/exe")
}

// TestLateArea: an OpenArea that gave up leaves no descriptor and does not confuse the next, which waits for the
// answer to the last; a peer that asks twice at once is broken.
func TestLateArea(t *testing.T) {
	a, b := pair(t, 4, fabric.QPConfig{})
	src := slowSource{make(chan struct{}), make(chan struct{})}
	b.dev.Serve(src)
	before := descriptors(t)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error)
	go func() {
		_, err := a.qp.OpenArea(ctx, 0)
		result <- err
	}()
	<-src.asked
	cancel()
	require.ErrorIs(t, <-result, context.Canceled)
	_, err := a.qp.OpenArea(ctx, 0)
	require.ErrorIs(t, err, context.Canceled)
	go func() {
		f, err := a.qp.OpenArea(context.Background(), 0)
		if err == nil {
			err = f.Close()
		}
		result <- err
	}()
	src.answer <- struct{}{}
	<-src.asked
	src.answer <- struct{}{}
	require.NoError(t, <-result)
	requireSettled(t, math.MaxInt, before, math.MaxInt) // the serving side closes its own after it sent it

	require.NoError(t, a.qp.conn.send(control{kind: msgArea, id: 100, value: 0}.append(nil)))
	<-src.asked
	require.NoError(t, a.qp.conn.send(control{kind: msgArea, id: 101, value: 0}.append(nil)))
	requireBroken(t, b.qp, fabric.ErrPeer)
	src.answer <- struct{}{}
}

// TestHostileArea: the file of an area is read with pread, which must come back: no pipe, no terminal, no socket.
func TestHostileArea(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	defer read.Close()
	defer write.Close()
	tty, err := os.Open("/dev/null")
	require.NoError(t, err)
	defer tty.Close()
	b := newEnd(t, openDevice(t, testConfig()), 4, fabric.QPConfig{})
	v := newVillain(t, b)
	v.connected()
	for _, file := range []*os.File{read, tty, v.ring} {
		result := make(chan error, 1)
		go func() {
			f, err := b.qp.OpenArea(context.Background(), 1)
			if err == nil {
				err = f.Close()
			}
			result <- err
		}()
		c, err := parseControl(v.receive().data)
		require.NoError(t, err)
		require.Equal(t, byte(msgArea), c.kind)
		require.NoError(t, v.conn.send(control{kind: msgAreaFile, id: c.id}.append(nil), file))
		if file == v.ring { // regular enough: its bytes are checked by who reads them
			require.NoError(t, <-result)
		} else {
			require.ErrorIs(t, <-result, fabric.ErrPeer)
		}
	}
}

func TestRendezvousReach(t *testing.T) {
	a, b := openDevice(t, testConfig()), device(t, testConfig())
	place := b.Rendezvous()
	require.NoError(t, a.Reachable(place))
	require.NoError(t, Reachable(place))
	for range 2 * maxHandshakes { // a visit costs nothing
		require.NoError(t, a.Reachable(place))
	}
	require.NoError(t, b.Close())
	require.ErrorIs(t, a.Reachable(place), fabric.ErrUnavailable)
	require.ErrorIs(t, a.Reachable(place[1:]), fabric.ErrPeer)

	cfg := testConfig()
	cfg.Folder = filepath.Join(t.TempDir(), "sockets")
	c, d := openDevice(t, cfg), device(t, cfg)
	require.NoError(t, c.Reachable(d.Rendezvous()))
	require.ErrorIs(t, a.Reachable(d.Rendezvous()), fabric.ErrUnavailable, "no folder is configured there")
	require.NoError(t, a.Reachable(a.Rendezvous()))
	st, err := os.Stat(cfg.Folder)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), st.Mode().Perm())

	// A killed process leaves its socket; the next one removes it, and no other file.
	left := d.listener
	left.SetUnlinkOnClose(false)
	require.NoError(t, d.Close())
	keep := filepath.Join(cfg.Folder, "keep")
	require.NoError(t, os.WriteFile(keep, nil, 0o600))
	require.Len(t, sockets(t, cfg.Folder), 2)
	e := device(t, cfg)
	require.Len(t, sockets(t, cfg.Folder), 2)
	require.FileExists(t, keep)
	require.NoError(t, c.Reachable(e.Rendezvous()))
	require.NoError(t, e.Close())
	require.Len(t, sockets(t, cfg.Folder), 1)

	require.NoError(t, os.Chmod(cfg.Folder, 0o755))
	_, err = Open(cfg, nil)
	require.ErrorIs(t, err, fabric.ErrUnavailable)
	cfg.Folder = keep
	_, err = Open(cfg, nil)
	require.ErrorIs(t, err, fabric.ErrUnavailable)
	cfg.Folder = filepath.Join("/tmp", strings.Repeat("long", 30))
	_, err = Open(cfg, nil)
	require.ErrorIs(t, err, fabric.ErrUnavailable)
	os.Remove(cfg.Folder)
}

func sockets(t *testing.T, folder string) []string {
	list, err := filepath.Glob(filepath.Join(folder, socketPrefix+"*"))
	require.NoError(t, err)
	return list
}
