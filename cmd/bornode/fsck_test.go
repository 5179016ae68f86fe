package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/exit"
)

// largestFile is the largest file that matches.
func largestFile(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	largest, size := "", int64(-1)
	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(t, err)
		if info.Size() > size {
			largest, size = f, info.Size()
		}
	}
	require.NotEmpty(t, largest, "no %s", pattern)
	return largest
}

// fsck tells of damage in every part of the folder with a sentence that names the file, changes nothing of it, ends with
// the code of damage, and says the same as JSON. A crash is no damage.
func TestFsckTellsOfEveryPart(t *testing.T) {
	origin, url, accounts := usedFolder(t)
	check := func(t *testing.T, dir string, args ...string) (out string, err error) {
		t.Helper()
		before := contentsOf(t, dir)
		out, err = runFor(t, append([]string{"fsck", "--dir", dir}, args...)...)
		after := contentsOf(t, dir)
		require.Equal(t, names(before), names(after))
		for name := range before {
			require.True(t, before[name] == after[name], "fsck has changed %s", name)
		}
		return out, err
	}
	out, err := check(t, origin, "--full")
	requireCode(t, exit.OK, out, err)
	require.Contains(t, out, "accounts")

	crashed := filepath.Join(t.TempDir(), "crashed")
	require.NoError(t, exec.Command("cp", "-a", origin, crashed).Run())
	p := startProgram(t, filepath.Join(t.TempDir(), "out"), "run", "--dir", crashed)
	require.True(t, p.until(t, func() bool { return askAll(t.Context(), url, accounts) > 0 }))
	out, err = runFor(t, "fsck", "--dir", crashed)
	requireCode(t, exit.Failure, out, err)
	require.Contains(t, lastLine(out), "is in use by another bornode: stop it first")
	p.end(t, syscall.SIGKILL)
	out, err = check(t, crashed, "--full")
	requireCode(t, exit.OK, out, err)

	flip := func(part float64) func(t *testing.T, file string) {
		return func(t *testing.T, file string) {
			info, err := os.Stat(file)
			require.NoError(t, err)
			flipByte(t, file, int(float64(info.Size())*part))
		}
	}
	remove := func(t *testing.T, file string) { require.NoError(t, os.Remove(file)) }
	for name, c := range map[string]struct {
		file   string
		damage func(t *testing.T, file string)
		part   string
		full   bool
	}{
		"block":           {"blocks/segments/00000001.seg", flip(0.5), "record at height", false},
		"state table":     {"state/kv/*.sst", flip(0.1), "state: ", true},
		"state manifest":  {"state/kv/MANIFEST-*", flip(0.5), "state: ", false},
		"vote log":        {"consensus/votes.log", flip(0.5), "votes: ", false},
		"vote log's head": {"consensus/votes.log", flip(0), "votes: ", false},
		"lost vote log":   {"consensus/votes.log", remove, "votes: ", false},
		"log index":       {"log_index", flip(0.2), "log index: ", false},
		"genesis":         {"genesis.json", flip(0.3), "genesis: ", false},
		"identity":        {"keys/identity.key", flip(0.5), "keys: ", false},
		"lost identity":   {"keys/identity.key", remove, "keys: ", false},
		"format": {"state/FORMAT", func(t *testing.T, file string) {
			require.NoError(t, os.Remove(file))
			require.NoError(t, os.Mkdir(file, 0o700))
		}, "format: ", false},
		"public key":       {"keys/producer.json", func(t *testing.T, file string) { require.NoError(t, os.Chmod(file, 0o644)) }, "keys: ", false},
		"waiting evidence": {"evidence.rlp", func(t *testing.T, file string) { require.NoError(t, os.WriteFile(file, []byte("no evidence"), 0o600)) }, "evidence: ", false},
		"pool": {"pool.journal", func(t *testing.T, file string) {
			require.NoError(t, os.WriteFile(file, []byte("no transactions"), 0o600))
		}, "pool: ", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "node")
			require.NoError(t, exec.Command("cp", "-a", origin, dir).Run())
			file := filepath.Join(dir, c.file)
			if strings.Contains(file, "*") {
				file = largestFile(t, file)
			} else if _, err := os.Stat(file); os.IsNotExist(err) && c.file == "genesis.json" {
				file = filepath.Join(filepath.Dir(origin), c.file)
				whole, err := os.ReadFile(file)
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, os.WriteFile(file, whole, 0o600)) })
			}
			c.damage(t, file)
			args := []string{"--transactions"}
			if c.full {
				args = append(args, "--full")
			}
			out, err := check(t, dir, args...)
			requireCode(t, exit.Damage, out, err)
			require.Contains(t, out, c.part)
			require.NotContains(t, out, "goroutine ")
			require.Contains(t, lastLine(out), "bornode: the folder is not in order ("+dir+")")
			if c.part != "record at height" {
				line := out[strings.Index(out, c.part):]
				line = line[:strings.IndexByte(line, '\n')]
				require.Contains(t, line, filepath.Dir(file), "the sentence names the file")
				require.Contains(t, line, "; ", "and a remedy")
				t.Log(line)
			}
			out, err = check(t, dir, append(args, "--json")...)
			requireCode(t, exit.Damage, out, err)
			var report struct {
				Sound    *bool
				Findings []exit.Finding
			}
			begin := strings.Index(out, "{\n")
			require.GreaterOrEqual(t, begin, 0, out)
			require.NoError(t, json.NewDecoder(strings.NewReader(out[begin:])).Decode(&report), out)
			require.NotNil(t, report.Sound)
			require.False(t, *report.Sound)
		})
	}
}

// A folder whose restore did not end is told as that, not as one that lacks its settings.
func TestUnfinishedRestoreIsTold(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bornode.toml.unfinished"), nil, 0o600))
	for _, command := range []string{"run", "fsck", "export"} {
		args := []string{command, "--dir", dir}
		if command == "export" {
			args = append(args, "--out", filepath.Join(t.TempDir(), "blocks"))
		}
		out, err := runFor(t, args...)
		requireCode(t, exit.Failure, out, err)
		require.Contains(t, lastLine(out), "remove the folder and restore again")
	}
}

// A database of derived data that is gone, and the receipts with it, is told without any flag.
func TestFsckTellsOfLostReceipts(t *testing.T) {
	origin, _, _ := usedFolder(t)
	dir := filepath.Join(t.TempDir(), "node")
	require.NoError(t, exec.Command("cp", "-a", origin, dir).Run())
	out, err := runFor(t, "fsck", "--dir", dir)
	requireCode(t, exit.OK, out, err)
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "blocks/derived")))
	out, err = runFor(t, "fsck", "--dir", dir)
	requireCode(t, exit.Damage, out, err)
	require.Contains(t, out, "the database derived of derived data is missing")
	require.Contains(t, out, "bornode rebuild state brings all back")
	require.NoDirExists(t, filepath.Join(dir, "blocks/derived"), "fsck changes nothing")
}
