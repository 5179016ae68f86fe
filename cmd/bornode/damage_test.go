package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/bench/forge"
	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/config"
)

// asCommand makes the test binary the program, so that a test sees how the process ends.
const asCommand = "TEST_AS_BORNODE"

func TestMain(m *testing.M) {
	switch as := os.Getenv(asCommand); {
	case as == asCrit:
		endByCrit(os.Args[1])
	case as != "":
		_ = os.Unsetenv(asCommand)
		main()
		return
	}
	os.Exit(m.Run())
}

// places is how many bits are flipped, one after another, each in a copy of the folder.
const places = 66

// patience bounds one command; no verdict depends on it.
const patience = 2 * time.Minute

// runFor runs the program. A node is told to end when it has started.
func runFor(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w
	require.NoError(t, cmd.Start())
	require.NoError(t, w.Close())
	var text strings.Builder
	for in := bufio.NewScanner(r); in.Scan(); {
		text.WriteString(in.Text() + "\n")
		if strings.Contains(in.Text(), "bornode starts") {
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		}
	}
	err = cmd.Wait()
	require.NoError(t, ctx.Err(), "%v does not end:\n%s", args, text.String())
	return text.String(), err
}

// requireSpoken checks that a process which failed said so in a sentence, and did not panic.
func requireSpoken(t *testing.T, note, out string, err error) {
	t.Helper()
	if i := strings.Index(out, "panic: "); i >= 0 {
		t.Errorf("%s: %.300s", note, out[i:])
	}
	if err != nil {
		require.Contains(t, out, "bornode: ", "%s: an end without a sentence: %v", note, err)
		t.Logf("%s: %s", note, strings.TrimSpace(out[strings.LastIndex(out, "bornode: "):]))
	}
}

// contentsOf reads a folder.
func contentsOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type()&fs.ModeSocket != 0 {
			return err
		}
		data, err := os.ReadFile(path)
		files[strings.TrimPrefix(path, dir+"/")] = string(data)
		return err
	}))
	return files
}

// recordsOf gives the bytes of every whole record in the segment files of a folder.
func recordsOf(t *testing.T, files map[string]string) map[string]bool {
	t.Helper()
	records := make(map[string]bool)
	for name, data := range files {
		if !strings.HasSuffix(name, ".seg") {
			continue
		}
		for off := block.SegmentHeaderBytes; off+block.RecordHeaderBytes < len(data); {
			end := off + block.RecordHeaderBytes + int(binary.BigEndian.Uint32([]byte(data[off:])))
			if end > len(data) {
				break
			}
			if _, _, err := block.DecodeRecord([]byte(data[off:end])); err == nil {
				records[data[off:end]] = true
			}
			off = end // a damaged length hides the rest, which is then not asked for
		}
	}
	return records
}

// soundFolder is the folder of a node with sealed segments and tables in all databases.
func soundFolder(t *testing.T) (dir string) {
	t.Helper()
	h, err := forge.Keep(t.Context(), t.TempDir(), "small", forge.Plan{Kind: forge.Transfers, Blocks: 60, Txs: 8, Segment: 16 << 10}, func(string) {})
	require.NoError(t, err)
	dir = h.ServerDir()
	c := config.Default()
	c.Genesis = h.Genesis()
	c.RPC.HTTPAddr, c.RPC.IPCPath = "", ""
	c.P2P.TCP.Listen = []string{"/ip4/127.0.0.1/tcp/0"}
	c.Store.SegmentBytes = 16 << 10
	require.NoError(t, config.Write(filepath.Join(dir, config.FileName), c, true))
	for range 3 { // every start writes journals to tables
		out, err := runFor(t, "run", "--dir", dir)
		require.NoError(t, err, out)
	}
	files := contentsOf(t, dir)
	for _, kind := range []string{"blocks/meta/*.ldb", "blocks/segments/00000003.seg", "state/kv/*.sst"} {
		require.True(t, slices.ContainsFunc(names(files), func(name string) bool { ok, _ := filepath.Match(kind, name); return ok }), "no %s in %v", kind, names(files))
	}
	return dir
}

func names(files map[string]string) []string {
	var out []string
	for name := range files {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// TestFlippedBits flips one bit in each of many places of a node's folder: in the primary database, the segments and the
// state. To check the folder changes nothing; neither that, nor a start, nor a repair takes a whole record or the state
// away, and each ends well or with a sentence.
func TestFlippedBits(t *testing.T) {
	whole := soundFolder(t)
	sound := contentsOf(t, whole)
	var groups [3][]string
	for i, prefix := range []string{"blocks/meta/", "blocks/segments/", "state/"} {
		for _, name := range names(sound) {
			if strings.HasPrefix(name, prefix) && len(sound[name]) > 0 {
				groups[i] = append(groups[i], name)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "blocks")
	out, err := runFor(t, "export", "--dir", whole, "--from", "0", "--out", file)
	require.NoError(t, err, out)
	var started atomic.Int64
	t.Run("places", func(t *testing.T) {
		for seed := range uint64(places) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(seed, 12))
				group := groups[seed%3]
				name := group[rng.IntN(len(group))]
				at, bit := rng.IntN(len(sound[name])), byte(1)<<rng.IntN(8)
				note := fmt.Sprintf("%s at %d, bit %#x", name, at, bit)
				dir := filepath.Join(t.TempDir(), "node")
				for name, data := range sound {
					require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
					require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
				}
				damaged := []byte(sound[name])
				damaged[at] ^= bit
				require.NoError(t, os.WriteFile(filepath.Join(dir, name), damaged, 0o600))
				if flippedFolder(t, dir, note) {
					started.Add(1)
				} else if strings.HasPrefix(name, "blocks/segments/") {
					requireRestored(t, dir, file, note)
				}
			})
		}
	})
	t.Logf("%d of %d folders start", started.Load(), places)
	require.Greater(t, started.Load(), int64(places/4), "damage to the primary database does not keep a node from starting")
}

// flippedFolder goes through one damaged folder and reports whether a node starts in it.
func flippedFolder(t *testing.T, dir, note string) (started bool) {
	t.Helper()
	before := contentsOf(t, dir)
	out, err := runFor(t, "fsck", "--dir", dir)
	requireSpoken(t, note+": fsck", out, err)
	after := contentsOf(t, dir)
	require.Equal(t, names(before), names(after), note)
	for name := range before {
		require.True(t, before[name] == after[name], "%s: fsck has changed %s", note, name)
	}
	kept := recordsOf(t, before)
	for _, args := range [][]string{{"run"}, {"fsck", "--repair"}, {"run"}} {
		out, err := runFor(t, append(args, "--dir", dir)...)
		if !strings.HasPrefix(note, "state/") { // how go-ethereum's databases end a process is for the tests of chain
			requireSpoken(t, fmt.Sprintf("%s: %v", note, args), out, err)
		}
		started = err == nil && args[0] == "run"
		now := contentsOf(t, dir)
		var all [][]byte
		for name, data := range now {
			if strings.HasSuffix(name, ".seg") {
				all = append(all, []byte(data))
			}
		}
		for rec := range kept {
			require.True(t, slices.ContainsFunc(all, func(data []byte) bool { return bytes.Contains(data, []byte(rec)) }),
				"%s: %v has taken away the record of block %d", note, args, binary.BigEndian.Uint64([]byte(rec[8:])))
		}
		require.True(t, slices.ContainsFunc(names(now), func(name string) bool { return strings.HasPrefix(name, "state/kv/") }), "%s: %v has removed the state", note, args)
		if strings.Contains(out, "made again from genesis") {
			require.True(t, slices.ContainsFunc(names(now), func(name string) bool { return strings.HasPrefix(name, "state/aside/") }), "%s: %v has removed the state", note, args)
		}
	}
	return started
}

// requireRestored does what the error says: it restores damaged blocks from the export of a sound node.
func requireRestored(t *testing.T, dir, file, note string) {
	t.Helper()
	out, err := runFor(t, "fsck", "--dir", dir, "--repair", "--blocks", file)
	require.NoError(t, err, "%s: %s", note, out)
	out, err = runFor(t, "run", "--dir", dir)
	require.NoError(t, err, "%s: %s", note, out)
}
