package blockstore_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/internal/failpoint"
	"github.com/bornode/bornode/internal/vfs"
)

const killDir = "BORNODE_TEST_KILL_DIR"

// TestKilledProcess runs the script on real files in a process of its own that kills itself at a fail point, and
// checks what it left.
func TestKilledProcess(t *testing.T) {
	r := newRunner(t)
	if dir := os.Getenv(killDir); dir != "" {
		_ = r.run(vfs.OS(dir, vfs.Public), false)
		os.Exit(0) //nolint:revive // the child's end, had it not been killed
	}
	for _, point := range []string{"blockstore.segment.write.after:4", "blockstore.meta.commit.before:5", "blockstore.meta.commit.after:6", "blockstore.prune.commit.after:1"} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), failpoint.Variable+"="+point, killDir+"="+dir)
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Run(), &exit, point)
		require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), point)

		s, err := blockstore.Open(crashConfig(vfs.OS(dir, vfs.Public), false), nil, nil)
		require.NoError(t, err, point)
		got, err := viewOf(s)
		require.NoError(t, err)
		at := -1
		for n := range r.steps {
			if got == r.stateAfter(n+1) {
				at = n + 1
			}
		}
		require.Positive(t, at, "%s: the state is that after none of the steps: %+v", point, got)
		report, err := s.Fsck(t.Context(), blockstore.FsckOptions{}, nil)
		require.NoError(t, err)
		require.True(t, report.Sound(), "%s: %+v", point, report)
		require.NoError(t, s.Close())
		r.acked = at
		require.NoError(t, r.run(vfs.OS(dir, vfs.Public), false), point)
	}
}
