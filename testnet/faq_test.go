package testnet

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The sentences that the FAQ explains are those that the programs say: the fixed words of each, between backticks in a
// row's first column, stand in the source of the project or of go-ethereum.
func TestFAQQuotesTheSource(t *testing.T) {
	text, err := os.ReadFile("../docs/faq.md")
	require.NoError(t, err)
	sources := sourceText(t)
	quoted := 0
	var unknown []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]*\x60[^|]*) \|`).FindAllStringSubmatch(string(text), -1) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			if strings.HasPrefix(m[1], "borcli ") {
				continue // a command; another test knows them
			}
			for part := range strings.SplitSeq(m[1], "...") {
				if !strings.Contains(sources, strings.TrimSpace(part)) {
					unknown = append(unknown, m[1])
				}
			}
			quoted++
		}
	}
	require.Empty(t, unknown, "docs/faq.md explains what no program says")
	require.Greater(t, quoted, 50, "sentences in the FAQ")
}

// sourceText is the Go and Solidity source of the project without tests, and of the packages of go-ethereum whose errors reach users.
func sourceText(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/ethereum/go-ethereum").Output()
	require.NoError(t, err)
	geth := strings.TrimSpace(string(out))
	var all strings.Builder
	read := func(root string) {
		require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && path != root && (d.Name() == "node_modules" || d.Name() == "build" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
				return filepath.SkipDir
			case d.IsDir() || strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".sol"):
				return nil
			}
			b, err := os.ReadFile(path)
			all.Write(b)
			return err
		}))
	}
	read("..")
	for _, dir := range []string{"core/txpool", "core/types", "core/vm", "rpc"} {
		read(filepath.Join(geth, dir))
	}
	for _, f := range []string{"core/error.go", "node/rpcstack.go"} {
		b, err := os.ReadFile(filepath.Join(geth, f))
		require.NoError(t, err)
		all.Write(b)
	}
	return all.String()
}
