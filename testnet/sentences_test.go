package testnet

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// spokenCommand is a command that a sentence tells somebody to run: ": borcli wallet unlock NAME".
var spokenCommand = regexp.MustCompile(`\b(?:borcli|borwallet|bornode) [a-z][a-z-]*(?: [a-z][a-z-]*)?(?: --[a-z][a-z-]*)*`)

// spokenCommands checks that the commands which errors and log lines tell people to run are there.
func spokenCommands(t *testing.T, h *helps) {
	files := token.NewFileSet()
	found := 0
	for _, dir := range []string{"cmd/borcli", "cmd/borwallet", "cmd/bornode", "wallet", "node", "chain", "rpc"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					return true
				}
				text, err := strconv.Unquote(lit.Value)
				require.NoError(t, err)
				for _, c := range spokenCommand.FindAllString(text, -1) {
					if h.spoken(path, strings.Fields(c)) {
						found++
					}
				}
				return true
			})
			return nil
		}))
	}
	require.Greater(t, found, 40, "commands in sentences")
}

// spoken checks a command in a sentence. Its second word may be one of the sentence ("borcli finality tells"), and the
// first too where the program is only spoken of ("borcli talks to a node"): then it must not look like a command.
func (h *helps) spoken(where string, words []string) bool {
	h.t.Helper()
	verbs := regexp.MustCompile(`^(?:[a-z]+s|has|is|and|or|in|with|then|at|on|of|to|that|cannot|again|by|listening|under|process|itself)$`)
	if !h.has(words[:1], words[1]) {
		require.Regexp(h.t, verbs, words[1], "%s says %q, and there is no such command", where, strings.Join(words, " "))
		return false
	}
	command := words[:2]
	rest := words[2:]
	if strings.Contains(h.of(command), "Available Commands:\n") && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		require.True(h.t, h.has(command, rest[0]), "%s says %q, and there is no such command", where, strings.Join(words, " "))
		command, rest = words[:3], rest[1:]
	}
	for _, w := range rest {
		if strings.HasPrefix(w, "--") {
			require.Regexp(h.t, regexp.QuoteMeta(w)+`\b`, h.of(command), "%s says %q, and there is no such flag", where, strings.Join(words, " "))
		}
	}
	return true
}
