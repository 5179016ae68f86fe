package vfs

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOpenFilesAreBounded(t *testing.T) {
	fs := OS(t.TempDir(), Public)
	files := NewOpenFiles(fs, 3)
	for n := range 10 {
		require.NoError(t, ReplaceFile(fs, string(rune('a'+n)), []byte{byte(n)}))
	}
	held, err := files.acquire("a")
	require.NoError(t, err)
	for n := range 10 {
		var b [1]byte
		_, err := files.ReadAt(string(rune('a'+n)), b[:], 0)
		require.NoError(t, err)
		require.Equal(t, byte(n), b[0])
		require.LessOrEqual(t, files.recent.Len(), 3)
	}
	require.NotContains(t, files.byName, "a")
	_, err = held.file.ReadAt(make([]byte, 1), 0)
	require.NoError(t, err, "an evicted file stays open for the reader that has it")
	files.release(held)
	_, err = held.file.ReadAt(make([]byte, 1), 0)
	require.Error(t, err, "and is closed by the last one")

	n, err := files.ReadAt("b", make([]byte, 2), 0)
	require.Equal(t, 1, n)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.NoError(t, ReplaceFile(fs, "b", []byte{7}))
	var b [1]byte
	files.Forget("b")
	_, err = files.ReadAt("b", b[:], 0)
	require.NoError(t, err)
	require.EqualValues(t, 7, b[0])

	files.Close()
	_, err = files.ReadAt("a", make([]byte, 1), 0)
	require.ErrorIs(t, err, os.ErrClosed)
}
