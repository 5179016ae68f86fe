package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/format"
)

// Whatever the command, a folder of a later format is refused, and nothing of it changes.
func TestCommandsRefuseALaterFormat(t *testing.T) {
	dir := soundFolder(t)
	out := filepath.Join(t.TempDir(), "blocks")
	for _, part := range []string{".", "blocks", "state"} {
		file := filepath.Join(dir, part, format.FileName)
		sound, err := os.ReadFile(file)
		require.NoError(t, err)
		later := regexp.MustCompile(`bornode (\S+) \d \S+\n`).ReplaceAllStringFunc(string(sound), func(line string) string {
			return format.Line(format.Kind(strings.Fields(line)[1]), "7")
		})
		require.NotEqual(t, string(sound), later)
		require.NoError(t, os.WriteFile(file, []byte(later), 0o600))
		before := contentsOf(t, dir)
		for _, command := range [][]string{{"run"}, {"fsck"}, {"fsck", "--repair"}, {"export", "--out", out}, {"import", "--in", file}, {"init"}} {
			if command[0] == "init" && part != "." {
				continue
			}
			said, err := runFor(t, append(command, "--dir", dir)...)
			require.Error(t, err, "%v", command)
			require.Contains(t, said, "of format 7, and this program knows format ", "%v", command)
			require.Contains(t, said, ": use the program that wrote it", "%v", command)
			require.Contains(t, said, filepath.Join(dir, part))
			require.Equal(t, before, contentsOf(t, dir), "%v", command)
			require.NoFileExists(t, out)
		}
		require.NoError(t, os.WriteFile(file, sound, 0o600))
	}
	_, err := runFor(t, "fsck", "--dir", dir)
	require.NoError(t, err)
}
