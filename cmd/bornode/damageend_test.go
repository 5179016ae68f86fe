package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/exit"
)

// flipByte changes one bit of a file; at counts from the end if it is negative.
func flipByte(t *testing.T, path string, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	if at < 0 {
		at += len(data)
	}
	data[at] ^= 8
	require.NoError(t, os.WriteFile(path, data, 0o600))
}

func requireCode(t *testing.T, code int, out string, err error) {
	t.Helper()
	if code == exit.OK {
		require.NoError(t, err, out)
		return
	}
	var ended *exec.ExitError
	require.True(t, errors.As(err, &ended), out)
	require.Equal(t, code, ended.ExitCode(), out)
}

// TestDamageEndsInARemedy follows the sentences of run and fsck for damage that a start cannot pass over: each names the
// next step, the step helps, and none sends the operator back to where he came from.
func TestDamageEndsInARemedy(t *testing.T) {
	whole := soundFolder(t)
	file := filepath.Join(t.TempDir(), "blocks")
	out, err := runFor(t, "export", "--dir", whole, "--out", file) // without block 0, as by default
	require.NoError(t, err, out)
	copied := func(t *testing.T) (dir string, segments []string) {
		t.Helper()
		dir = filepath.Join(t.TempDir(), "node")
		require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
		require.NoError(t, os.Chmod(filepath.Join(dir, "keys/identity.key"), 0o600))
		segments, err := filepath.Glob(filepath.Join(dir, "blocks/segments/*.seg"))
		require.NoError(t, err)
		slices.Sort(segments)
		return dir, segments
	}

	t.Run("last block", func(t *testing.T) {
		dir, segments := copied(t)
		flipByte(t, segments[len(segments)-1], -5)
		looked := filepath.Join(t.TempDir(), "node")
		require.NoError(t, os.CopyFS(looked, os.DirFS(dir)))
		require.NoError(t, os.Chmod(filepath.Join(looked, "keys/identity.key"), 0o600))
		out, err := runFor(t, "fsck", "--dir", looked)
		requireCode(t, exit.Damage, out, err)
		require.Contains(t, out, "restored from the copy")
		requireRestored(t, looked, file, "last block")
		out, err = runFor(t, "run", "--dir", dir)
		require.NoError(t, err, out)
		require.Contains(t, out, "restored from the copy")
		out, err = runFor(t, "fsck", "--dir", dir)
		require.NoError(t, err, out)
	})
	t.Run("block 0", func(t *testing.T) {
		dir, segments := copied(t)
		flipByte(t, segments[0], block.SegmentHeaderBytes+block.RecordHeaderBytes+20)
		out, err := runFor(t, "run", "--dir", dir)
		require.NoError(t, err, out)
		require.Contains(t, out, "block 0 was damaged and is restored from the genesis file")
		out, err = runFor(t, "fsck", "--dir", dir)
		require.NoError(t, err, out)
	})
	t.Run("block 0, repaired", func(t *testing.T) {
		dir, segments := copied(t)
		require.NoError(t, os.Remove(segments[0]))
		requireRestored(t, dir, file, "block 0")
	})
	t.Run("header of a segment", func(t *testing.T) {
		dir, segments := copied(t)
		flipByte(t, segments[1], 3)
		out, err := runFor(t, "fsck", "--dir", dir)
		requireCode(t, exit.Damage, out, err)
		require.Contains(t, out, "bornode fsck --repair mends")
		for _, args := range [][]string{{"fsck", "--repair"}, {"fsck"}} {
			out, err = runFor(t, append(args, "--dir", dir)...)
			require.NoError(t, err, out)
		}
	})
	t.Run("database of the last block", func(t *testing.T) {
		dir, _ := copied(t)
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "blocks/meta")))
		bare := filepath.Join(t.TempDir(), "node")
		require.NoError(t, os.CopyFS(bare, os.DirFS(dir)))
		require.NoError(t, os.Chmod(filepath.Join(bare, "keys/identity.key"), 0o600))
		out, err := runFor(t, "run", "--dir", dir)
		require.NoError(t, err, out)
		require.Contains(t, out, "from the superblock")
		out, err = runFor(t, "fsck", "--dir", dir)
		require.NoError(t, err, out)

		dir = bare
		for _, name := range []string{"SUPER.0", "SUPER.1"} {
			require.NoError(t, os.Remove(filepath.Join(dir, "blocks", name)))
		}
		out, err = runFor(t, "run", "--dir", dir)
		requireCode(t, exit.Damage, out, err)
		require.Contains(t, out, "move the folder "+filepath.Join(dir, "blocks")+" away")
	})
}
