package faultmount_test

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/vfs/faultfs"
	"github.com/bornode/bornode/internal/vfs/faultmount"
)

func mount(t *testing.T, disk *faultfs.Disk) (*faultmount.Mount, func(string) string) {
	t.Helper()
	dir := t.TempDir()
	m, err := faultmount.New(dir, disk)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Unmount()) })
	return m, func(name string) string { return filepath.Join(dir, name) }
}

// TestFilesOfTheMount does with the operating system's calls what programs do with files.
func TestFilesOfTheMount(t *testing.T) {
	_, at := mount(t, faultfs.New())
	require.NoError(t, os.MkdirAll(at("a/b"), 0o700))
	require.NoError(t, os.WriteFile(at("a/b/file"), []byte("0123456789"), 0o600))
	require.NoError(t, os.Link(at("a/b/file"), at("a/b/second")))
	require.NoError(t, os.Rename(at("a/b/file"), at("a/b/second")), "two names of one file")
	for _, name := range []string{"a/b/file", "a/b/second"} {
		data, err := os.ReadFile(at(name))
		require.NoError(t, err)
		require.Equal(t, "0123456789", string(data))
	}
	f, err := os.OpenFile(at("a/b/file"), os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = f.WriteString("ab")
	require.NoError(t, err)
	require.NoError(t, f.Truncate(11))
	require.NoError(t, f.Sync())
	require.NoError(t, os.Rename(at("a"), at("moved")))
	data, err := os.ReadFile(at("moved/b/second"))
	require.NoError(t, err)
	require.Equal(t, "0123456789a", string(data))
	require.NoError(t, os.Remove(at("moved/b/file")))
	_, err = f.WriteString("z")
	require.NoError(t, err, "a removed file that is open")
	info, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 12, info.Size())
	require.NoError(t, f.Close())
	entries, err := os.ReadDir(at("moved/b"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.ErrorIs(t, os.Remove(at("moved")), syscall.ENOTEMPTY)
	require.NoError(t, os.RemoveAll(at("moved")))
	l, err := net.Listen("unix", at("socket"))
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

// TestPowerCutOfTheMount: what a program synced is there after a power cut, what it did not is not.
func TestPowerCutOfTheMount(t *testing.T) {
	disk := faultfs.New()
	_, at := mount(t, disk)
	f, err := os.Create(at("log"))
	require.NoError(t, err)
	_, err = f.WriteString("synced")
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	_, err = f.WriteString(" and not")
	require.NoError(t, err)
	_, gone := mount(t, disk.Crash(0))
	_, err = os.Stat(gone("log"))
	require.ErrorIs(t, err, os.ErrNotExist, "its name was not synced")
	dir, err := os.Open(filepath.Dir(at("log")))
	require.NoError(t, err)
	require.NoError(t, dir.Sync())
	require.NoError(t, dir.Close())
	require.NoError(t, f.Close())
	_, left := mount(t, disk.Crash(0))
	data, err := os.ReadFile(left("log"))
	require.NoError(t, err)
	require.Equal(t, "synced", string(data))
}

// TestFaultsOfTheMount: damage to the medium and failing reads show in a file that is open.
func TestFaultsOfTheMount(t *testing.T) {
	disk := faultfs.New()
	m, at := mount(t, disk)
	require.NoError(t, os.WriteFile(at("file"), []byte("good"), 0o600))
	f, err := os.Open(at("file"))
	require.NoError(t, err)
	defer f.Close()
	read := func() (string, error) {
		b := make([]byte, 4)
		_, err := f.ReadAt(b, 0)
		return string(b), err
	}
	got, err := read()
	require.NoError(t, err)
	require.Equal(t, "good", got)
	require.NoError(t, disk.Corrupt("file", func(b []byte) []byte { b[0] = 'm'; return b }))
	got, err = read()
	require.NoError(t, err)
	require.Equal(t, "mood", got)
	m.FailReads(func(name string) error {
		require.Equal(t, "file", name)
		return syscall.EIO
	})
	_, err = read()
	require.ErrorIs(t, err, syscall.EIO)
	m.FailReads(nil)
	disk.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Err: syscall.ENOSPC} }, 0)
	require.ErrorIs(t, os.WriteFile(at("file"), []byte("more"), 0o600), syscall.ENOSPC)
}
