package vfs

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// What stands in the place of a file or folder and is none is told in one sentence with the remedy; what kind of error it is stays.
func TestWrongKindOfFileIsTold(t *testing.T) {
	root := t.TempDir()
	fs := OS(root, Private)
	require.NoError(t, os.Mkdir(filepath.Join(root, "folder"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "elsewhere"), []byte("x"), 0o600))
	require.NoError(t, os.Symlink("nowhere/at/all", filepath.Join(root, "link")))
	require.NoError(t, os.Symlink("elsewhere", filepath.Join(root, "good")))

	for _, flag := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE} {
		_, err := fs.Open("folder", flag)
		require.ErrorIs(t, err, syscall.EISDIR)
		require.ErrorContains(t, err, "move that folder away")
		_, err = fs.Open("link", flag)
		require.ErrorIs(t, err, os.ErrNotExist)
		require.ErrorContains(t, err, "symbolic link to something that is not there")
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := ReadFile(fs, "folder", 10)
	require.ErrorContains(t, err, "move that folder away")
	require.NotContains(t, err.Error(), "\n")
	require.ErrorContains(t, fs.Mkdir("file"), "move that file away")
	require.ErrorContains(t, fs.Mkdir("link"), "symbolic link to something that is not there")

	b, err := ReadFile(fs, "good", 10) // a link to another disk is as good as the file
	require.NoError(t, err)
	require.Equal(t, "x", string(b))
	_, err = fs.Open("absent", os.O_RDONLY)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.NotContains(t, err.Error(), "link")
}
