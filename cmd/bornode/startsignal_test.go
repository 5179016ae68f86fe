package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/exit"
)

// linesSignalled are the lines of a start's log behind which it is told to end: opening, executing blocks again, first sync.
const (
	linesSignalled      = 24
	shortLinesSignalled = 12
)

// A node that is told to end at any moment of its start ends in order, with code 0, and leaves nothing to repair. The
// folder is one of a killed node: each start has blocks to execute again.
func TestSignalDuringStartIsAnOrderlyEnd(t *testing.T) {
	origin, _, _ := usedFolder(t)
	require.NoError(t, os.RemoveAll(filepath.Join(origin, "state"))) // all blocks are executed again
	dir := filepath.Join(t.TempDir(), "node")
	points := linesSignalled
	if testing.Short() {
		points = shortLinesSignalled
	}
	ends := make(map[string]int)
	for n := 1; n <= points; n++ {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, exec.Command("cp", "-a", origin, dir).Run()) // with the modes of the keys
		out := filepath.Join(t.TempDir(), "out")
		p := startProgram(t, out, "run", "--dir", dir, "--log.level", "debug")
		require.True(t, p.until(t, func() bool {
			said, err := os.ReadFile(out)
			return err == nil && bytes.Count(said, []byte{'\n'}) >= n
		}), "line %d", n)
		code, said := p.end(t, []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}[n%2])
		require.Equal(t, exit.OK, code, "behind line %d: %s", n, said)
		require.Contains(t, lastLine(said), "bornode ends", "line %d", n)
		require.NotContains(t, said, "ERROR", "line %d", n)
		require.NoFileExists(t, filepath.Join(dir, crashFile))
		ends[lastLine(said)[len("2006-01-02 15:04:05.000"):]]++
		said2, err := runFor(t, "fsck", "--dir", dir)
		require.NoError(t, err, "behind line %d: %s", n, said2)
	}
	t.Log(fmt.Sprint(ends))
}
