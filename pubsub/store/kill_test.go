package store

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/failpoint"
)

const killDir = "BORNODE_TEST_KILL_DIR"

// killedScript appends to two partitions, drops what is old and says on standard output what was acknowledged.
func killedScript(t *testing.T, dir string) {
	cfg := testConfig()
	cfg.Dir = dir
	s := open(t, nil, cfg)
	p, q := create(t, s, 0), create(t, s, 1)
	for i := range 200 {
		add(t, p, 0, made(i, 1, 700, 1, 5, 0, int32(i)))
		a := add(t, q, 0, plain(i, 1, 30))
		if s.Durable(t.Context(), a.Mark) != nil {
			return
		}
		fmt.Printf("acked %d\n", i+1)
		if p.SetCommitted(int64(i)); i%10 == 9 {
			_ = p.DeleteBefore(int64(i - 5))
			s.Tick(time.Now())
		}
	}
}

// TestKilledProcess kills a process at fail points and checks that what it acknowledged is there, once.
func TestKilledProcess(t *testing.T) {
	if dir := os.Getenv(killDir); dir != "" {
		killedScript(t, dir)
		os.Exit(0) //nolint:revive // the child's end, had it not been killed
	}
	for _, point := range []string{"store.write.before:40", "store.sync.before:41", "store.sync.after:33", "store.create.before:4", "store.create.after:3",
		"store.seal.before:3", "store.seal.between:3", "store.seal.after:2", "store.remove.before:1", "store.remove.between:1", "store.remove.between:2"} {
		dir := t.TempDir()
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilledProcess$")
		cmd.Env = append(os.Environ(), failpoint.Variable+"="+point, killDir+"="+dir)
		out, err := cmd.Output()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, point)
		require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), point)
		acked := int64(0)
		for _, line := range strings.Split(string(out), "\n") {
			if n, err := strconv.ParseInt(strings.TrimPrefix(line, "acked "), 10, 64); err == nil {
				acked = n
			}
		}
		require.Positive(t, acked, point)
		cfg := testConfig()
		cfg.Dir = dir
		s := open(t, nil, cfg)
		p, q := s.Partition(id(0)), s.Partition(id(1))
		require.GreaterOrEqual(t, p.End(), acked, point)
		require.LessOrEqual(t, p.End(), acked+2, point)
		require.LessOrEqual(t, p.Start(), acked)
		require.Len(t, all(t, p), int(p.End()-p.Start()), point)
		for i, raw := range all(t, q) {
			want := plain(i, 1, 30)
			require.Equal(t, want[12:], raw[12:], "%s: record %d", point, i)
		}
		again := add(t, p, 0, made(int(p.End()-1), 1, 700, 1, 5, 0, int32(p.End()-1)))
		require.True(t, again.Duplicate, point)
		require.NoError(t, s.Close())
	}
}
