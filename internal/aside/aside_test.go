package aside

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func keepText(t *testing.T, name, text string, keep int, now time.Time) string {
	t.Helper()
	path, err := KeepBytes(name, bytes.NewReader([]byte(text)), int64(len(text)), keep, now)
	require.NoError(t, err)
	return path
}

// Copies have dated names, the same bytes are kept once, and beyond the limit the oldest go.
func TestCopiesAreDatedAndBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "votes.log")
	first := keepText(t, name, "one", 2, noon)
	require.Equal(t, name+".damaged-20260102T120000Z", first)
	require.Equal(t, first, keepText(t, name, "one", 2, noon.Add(time.Hour)), "the same bytes")
	second := keepText(t, name, "two", 2, noon)
	require.Equal(t, first+"-01", second)
	third := keepText(t, name, "one", 2, noon.Add(time.Hour))
	require.NoFileExists(t, first)
	for path, text := range map[string]string{second: "two", third: "one"} {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
	}
	require.NotEqual(t, third, keepText(t, name, "on", 2, noon.Add(2*time.Hour)), "a part is not the same")
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, errors.New("disk") }

// A copy that fails leaves nothing, and takes no older one away.
func TestFailedCopyLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "votes.log")
	kept := keepText(t, name, "one", 1, noon)
	_, err := KeepBytes(name, failing{}, 3, 1, noon.Add(time.Hour))
	require.ErrorContains(t, err, name)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.FileExists(t, kept)
}

func TestFolderIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "evidence")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "lost"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lost", "1.ldb"), []byte("table"), 0o600))
	var paths []string
	for i := range 3 {
		path, err := KeepFolder(dir, 2, noon.Add(time.Duration(i)*time.Hour))
		require.NoError(t, err)
		paths = append(paths, path)
	}
	require.NoDirExists(t, paths[0])
	for _, p := range paths[1:] {
		b, err := os.ReadFile(filepath.Join(p, "lost", "1.ldb"))
		require.NoError(t, err)
		require.Equal(t, "table", string(b))
	}
}
