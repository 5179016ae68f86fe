package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every folder that is made is synced in its parent, the outermost first.
func TestMadeFolderIsDurable(t *testing.T) {
	base := t.TempDir()
	var synced []string
	note := func(dir string) error { synced = append(synced, dir); return SyncDirAt(dir) }
	dir := filepath.Join(base, "a", "b")
	require.NoError(t, makeFolder(dir, 0o700, note))
	require.DirExists(t, dir)
	require.Equal(t, []string{base, filepath.Join(base, "a")}, synced)
	synced = nil
	require.NoError(t, makeFolder(dir, 0o700, note))
	require.Equal(t, []string{filepath.Join(base, "a")}, synced, "the start before may have ended too early")
	broken := errors.New("no disk")
	require.ErrorIs(t, makeFolder(filepath.Join(base, "c"), 0o700, func(string) error { return broken }), broken)
	require.NoError(t, makeFolder(dir, 0o700, func(string) error { return os.ErrPermission }), "the folder above belongs to others")
	require.ErrorIs(t, makeFolder(filepath.Join(base, "d"), 0o700, func(string) error { return os.ErrPermission }), os.ErrPermission)
}

// Another process, or another part of this one, does not get a lock that is held.
func TestLockIsTakenOnce(t *testing.T) {
	fs := OS(t.TempDir(), Private)
	lock, err := fs.Lock("LOCK")
	require.NoError(t, err)
	_, err = fs.Lock("LOCK")
	require.ErrorIs(t, err, ErrLocked)
	require.NoError(t, lock.Close())
	lock, err = fs.Lock("LOCK")
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}
