package testnet

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Where documents name commands: in fenced blocks and between backticks.
var (
	fenced  = regexp.MustCompile("(?ms)^ *```[a-z]*\n(.*?)^ *```$")
	quoted  = regexp.MustCompile("`([^`\n]+)`")
	program = regexp.MustCompile(`^(?:build/bin/|\./)?(bornode|borcli|borwallet)$`)
	word    = regexp.MustCompile(`^[a-z][a-z-]*$`)
	between = regexp.MustCompile(`\$\(|[|;&(]|\b(?:if|then|until|do)\b`) // one command and the next
	setting = regexp.MustCompile(`^[A-Z_]+=`)
	option  = regexp.MustCompile(`^--[a-z][a-z0-9-]*`)
)

// documentedCommands checks that the commands and flags that documents name are there.
func documentedCommands(t *testing.T, clone string) {
	build := exec.Command("make", "build")
	build.Dir = clone
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	docs, err := filepath.Glob(filepath.Join(clone, "docs", "*.md"))
	require.NoError(t, err)
	h := helps{t: t, bin: filepath.Join(clone, "build", "bin"), known: make(map[string]string)}
	named := 0
	for _, doc := range append(docs, filepath.Join(clone, "README.md")) {
		text, err := os.ReadFile(doc)
		require.NoError(t, err)
		for _, line := range commandLines(string(text)) {
			h.check(filepath.Base(doc), line)
			named++
		}
	}
	require.Greater(t, named, 50, "commands in the documents")
	spokenCommands(t, &h)
}

// commandLines are the command lines that a document names, continued lines joined, each a list of words.
func commandLines(text string) [][]string {
	var lines []string
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		lines = append(lines, strings.Split(strings.ReplaceAll(m[1], "\\\n", " "), "\n")...)
	}
	for _, m := range quoted.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		lines = append(lines, m[1])
	}
	var out [][]string
	for _, l := range lines {
		for _, c := range between.Split(l, -1) {
			words := strings.Fields(c)
			for len(words) > 1 && setting.MatchString(words[0]) {
				words = words[1:]
			}
			if len(words) > 1 && program.MatchString(words[0]) {
				out = append(out, words)
			}
		}
	}
	return out
}

// helps asks programs what they understand.
type helps struct {
	t     *testing.T
	bin   string
	known map[string]string // by command
}

func (h *helps) of(command []string) string {
	h.t.Helper()
	key := strings.Join(command, " ")
	if s, ok := h.known[key]; ok {
		return s
	}
	out, err := exec.Command(filepath.Join(h.bin, command[0]), append(slices.Clone(command[1:]), "--help")...).CombinedOutput()
	require.NoError(h.t, err, "%s --help:\n%s", key, out)
	h.known[key] = string(out)
	return string(out)
}

// has reports whether a command gathers another one.
func (h *helps) has(command []string, below string) bool {
	h.t.Helper()
	_, list, _ := strings.Cut(h.of(command), "Available Commands:\n")
	return regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(below) + ` `).MatchString(list)
}

// check walks from the program to the command that a line names and looks for its flags there.
func (h *helps) check(doc string, line []string) {
	h.t.Helper()
	said := fmt.Sprintf("%s names %q", doc, strings.Join(line, " "))
	command := []string{program.FindStringSubmatch(line[0])[1]}
	rest := line[1:]
	for len(rest) > 0 && word.MatchString(rest[0]) {
		_, below, gathers := strings.Cut(h.of(command), "Available Commands:\n")
		if !gathers {
			break // what follows are arguments
		}
		if !regexp.MustCompile(`(?m)^  ` + regexp.QuoteMeta(rest[0]) + ` `).MatchString(below) {
			if len(command) == 1 && len(rest) == 1 && !slices.Contains([]string{"borcli", "borwallet"}, command[0]) {
				return // "bornode starts", a log line
			}
			require.Fail(h.t, "no such command", "%s; %s has none", said, strings.Join(command, " "))
		}
		command, rest = append(command, rest[0]), rest[1:]
	}
	help := h.of(command)
	for _, w := range rest {
		f := option.FindString(w)
		if f == "" || strings.HasPrefix(f, "--rpc.") || strings.Contains(w, ".") && command[0] == "bornode" {
			continue // settings of a node are flags of `bornode run` that its help does not list
		}
		require.Regexp(h.t, regexp.QuoteMeta(f)+`\b`, help, "%s; %s has no such flag", said, strings.Join(command, " "))
	}
}
