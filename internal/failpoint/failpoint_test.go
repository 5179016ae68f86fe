package failpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func none(string) string { return "" }

func TestHitRunsTheActionAtTheCountedHitOnce(t *testing.T) {
	var r registry
	hits, runs := 0, 0
	r.arm("a", 3, func() { runs++; require.Equal(t, 3, hits) })
	for hits = 1; hits <= 10; hits++ {
		r.hit("a", none, nil)
		r.hit("b", none, nil)
	}
	require.Equal(t, 1, runs)
	require.Equal(t, idle, r.state.Load(), "with nothing armed a hit must be cheap again")
}

func TestDisarm(t *testing.T) {
	var r registry
	r.hit("x", none, nil)
	require.Equal(t, idle, r.state.Load())
	old := r.arm("a", 1, func() { t.Fatal("replaced, must not run") })
	runs := 0
	disarm := r.arm("a", 1, func() { runs++ })
	old() // belongs to the replaced one: no effect
	require.Equal(t, armed, r.state.Load())
	disarm()
	r.hit("a", none, nil)
	require.Zero(t, runs)
	require.Equal(t, idle, r.state.Load())
}

func TestParse(t *testing.T) {
	for value, want := range map[string]map[string]int{
		"":          {},
		"a.b:1":     {"a.b": 1},
		"a:2, b:10": {"a": 2, "b": 10},
		"a":         nil,
		"a:0":       nil,
		"a:x":       nil,
		":1":        nil,
		"a:1,":      nil,
		"a:1,a:2":   nil,
	} {
		got, err := Parse(value)
		if want == nil {
			require.Error(t, err, value)
		} else {
			require.NoError(t, err, value)
			require.Equal(t, want, got, value)
		}
	}
}

// TestEnvironmentKills runs this test binary again with the variable set: the child must die by SIGKILL at its second
// hit, before it can report that it went on.
func TestEnvironmentKills(t *testing.T) {
	if os.Getenv(Variable) == "child:2" {
		Hit("child")
		_, _ = os.Stdout.WriteString("one\n")
		Hit("child")
		_, _ = os.Stdout.WriteString("two\n")
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestEnvironmentKills$", "-test.v=false")
	cmd.Env = append(os.Environ(), Variable+"=child:2")
	out, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal())
	require.Equal(t, "one\n", string(out))
}

func BenchmarkHitIdle(b *testing.B) {
	for b.Loop() {
		Hit("nothing")
	}
}

// A held place waits until the pipe's other end is opened, and holds once.
func TestHoldWaitsForThePipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	value := func(name string) string {
		if name == HoldVariable {
			return "a:2:" + pipe
		}
		return ""
	}
	var r registry
	r.hit("a", value, nil)
	passed := make(chan struct{})
	go func() {
		r.hit("a", value, nil)
		close(passed)
	}()
	f, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the place is reached
	require.NoError(t, err)
	<-passed
	require.NoError(t, f.Close())
	r.hit("a", value, nil)
	for _, bad := range []string{"a", "a:1", "a:0:p", "a:x:p", ":1:p", "a:1:"} {
		_, _, err := parseHold(bad)
		require.ErrorContains(t, err, HoldVariable, bad)
	}
}
