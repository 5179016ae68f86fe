//go:build linux && cgo && (amd64 || arm64) && !rdmalab

package verbs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// layout compiles testdata/layout.c and gives what it prints.
func layout(t *testing.T, flags ...string) string {
	t.Helper()
	compiler, err := exec.Command("go", "env", "CC").Output()
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "layout")
	out, err := exec.Command(strings.TrimSpace(string(compiler)), append(flags, "-Wall", "-Werror", "-o", program, "testdata/layout.c")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command(program).Output()
	require.NoError(t, err)
	return string(out)
}

// TestLayout: our declarations are those of libibverbs: as its header was when testdata/layout.txt was written, and as
// it is now where it is installed (libibverbs-dev; -DREAL_HEADER writes layout.txt again).
func TestLayout(t *testing.T) {
	want, err := os.ReadFile("testdata/layout.txt")
	require.NoError(t, err)
	require.Greater(t, strings.Count(string(want), "\n"), 300)
	ours := layout(t)
	require.Equal(t, string(want), ours)
	if _, err := os.Stat("/usr/include/infiniband/verbs.h"); err == nil {
		require.Equal(t, layout(t, "-DREAL_HEADER"), ours)
	}
}
