package testnet

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shellBlocks are the runnable blocks of a document.
func shellBlocks(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []string
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		out = append(out, m[1])
	}
	require.NotEmpty(t, out, path)
	return out
}

// The commands of the README and of HACKING do what they say, in this order, from the project's root. Only the folder
// and the ports of the network are this test's own; the test command itself is what runs this test.
func TestDocumentedCommands(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "network")
	for _, doc := range []string{"../README.md", "../docs/HACKING.md"} {
		t.Cleanup(func() {
			if n, err := Open(dir); err == nil {
				require.NoError(t, n.Down(context.Background()))
			}
		})
		for _, block := range shellBlocks(t, doc) {
			if strings.TrimSpace(block) == "make test-all" {
				continue
			}
			script := "set -e\n" + strings.ReplaceAll(block, "--dir .testnet", "--dir "+dir)
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			cmd := exec.CommandContext(ctx, "bash", "-c", script)
			cmd.Dir = ".."
			cmd.Env = append(os.Environ(), "BORNODE_TESTNET="+dir, "BORNODE_TESTNET_PORT=0")
			out, err := cmd.CombinedOutput()
			cancel()
			require.NoError(t, err, "%s:\n%s\n%s", doc, block, out)
			t.Logf("%s:\n%s", block, out)
		}
		require.NoFileExists(t, filepath.Join(dir, stateFile), "%s ends with the network down", doc)
	}
}
