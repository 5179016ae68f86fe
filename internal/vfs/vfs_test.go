package vfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

func contentsOf(t *testing.T, fs vfs.FS, name string) string {
	t.Helper()
	b, err := vfs.ReadFile(fs, name, 1<<20)
	if errors.Is(err, os.ErrNotExist) {
		return "absent"
	}
	require.NoError(t, err)
	return string(b)
}

// wholeWrites are the ways to write a whole file, and what may be there before.
var wholeWrites = map[string]struct {
	before string
	write  func(fs vfs.FS, name string, data []byte) error
}{
	"replace":        {"old contents", vfs.ReplaceFile},
	"replace absent": {"absent", vfs.ReplaceFile},
	"create":         {"absent", vfs.CreateFile},
}

func diskWith(t *testing.T, contents string) *faultfs.Disk {
	d := faultfs.New()
	if contents != "absent" {
		require.NoError(t, vfs.ReplaceFile(d, "file", []byte(contents)))
	}
	return d
}

// A crash at any change leaves the old file or the new one, and the new one once the call has returned.
func TestWrittenFileIsWholeAfterACrash(t *testing.T) {
	const after = "new contents, and longer"
	for name, w := range wholeWrites {
		for seed := range uint64(40) {
			for at := 1; ; at++ {
				d := diskWith(t, w.before)
				first := d.Changes()
				d.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == first+at} }, seed)
				err := w.write(d, "file", []byte(after))
				if err == nil {
					require.Equal(t, after, contentsOf(t, d.Crash(seed), "file"), "%s: it is durable", name)
					require.Greater(t, at, 4, "%s: it was cut everywhere", name)
					break
				}
				require.ErrorIs(t, err, faultfs.ErrCrashed)
				left := d.Crashed()
				require.Contains(t, []string{w.before, after}, contentsOf(t, left, "file"), "%s, seed %d, change %d", name, seed, at)
				found := contentsOf(t, left, "file")
				for again := 1; ; again++ { // what the crash left stands in nobody's way, at another crash neither
					d, first := left.Copy(), 0
					d.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == first+again} }, seed)
					if vfs.ReplaceFile(d, "file", []byte("next")) == nil {
						require.Equal(t, "next", contentsOf(t, d.Crash(seed), "file"))
						break
					}
					require.Contains(t, []string{found, "next"}, contentsOf(t, d.Crashed(), "file"), "%s, seed %d, changes %d and %d", name, seed, at, again)
				}
			}
		}
	}
}

// A write that fails leaves the old file, and no other one behind.
func TestFailedWriteLeavesTheOldFile(t *testing.T) {
	full := errors.New("no space left on device")
	for name, w := range wholeWrites {
		for _, kind := range []faultfs.Kind{faultfs.Create, faultfs.Write, faultfs.Sync, faultfs.Rename} {
			if w.before == "absent" && kind == faultfs.Create {
				continue // CreateFile's link is counted as one too
			}
			d := diskWith(t, w.before)
			hit := false
			d.SetPlan(func(c faultfs.Change) faultfs.Verdict {
				if c.Kind != kind {
					return faultfs.Verdict{}
				}
				hit = true
				return faultfs.Verdict{Err: full, Short: 3}
			}, 0)
			err := w.write(d, "file", []byte("new"))
			if !hit {
				continue
			}
			require.ErrorIs(t, err, full, "%s, %s", name, kind)
			require.Equal(t, w.before, contentsOf(t, d, "file"))
			names, err := d.List(".")
			require.NoError(t, err)
			require.LessOrEqual(t, len(names), 1, "%s, %s: %v", name, kind, names)
		}
	}
}

func TestCreatedFileReplacesNothing(t *testing.T) {
	dir := t.TempDir()
	for name, fs := range map[string]vfs.FS{"disk": faultfs.New(), "os": vfs.OS(dir, vfs.Private)} {
		require.NoError(t, vfs.CreateFile(fs, "file", []byte("first")), name)
		require.ErrorIs(t, vfs.CreateFile(fs, "file", []byte("second")), os.ErrExist, name)
		require.Equal(t, "first", contentsOf(t, fs, "file"))
		names, err := fs.List(".")
		require.NoError(t, err)
		require.Equal(t, []string{"file"}, names)
	}
	st, err := os.Stat(filepath.Join(dir, "file"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
}

// Many who create the same file at once agree on one that is whole.
func TestManyCreateOneFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	var made atomic.Int64
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			err := vfs.CreateFileAt(file, bytes.Repeat([]byte{byte(n)}, 5000))
			if err == nil {
				made.Add(1)
			} else {
				assert.ErrorIs(t, err, os.ErrExist)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, made.Load())
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, bytes.Repeat(b[:1], 5000), b)
	names, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, names, 1)
}

// kindOf is an error as far as callers tell them apart.
func kindOf(err error) string {
	switch {
	case err == nil:
		return "none"
	case errors.Is(err, os.ErrNotExist):
		return "absent"
	case errors.Is(err, os.ErrExist):
		return "exists"
	}
	return err.Error()
}

// doRandomly does one operation and tells all that can be seen of it.
func doRandomly(fs vfs.FS, r *rand.Rand) string {
	names := []string{"a", "b", "c", "d/a", "d/b"}
	name := names[r.IntN(len(names))]
	other := names[r.IntN(3)]
	if name[0] == 'd' {
		other = names[3+r.IntN(2)]
	}
	switch r.IntN(8) {
	case 0:
		return "remove " + name + " " + kindOf(fs.Remove(name))
	case 1:
		return "rename " + name + " " + other + " " + kindOf(fs.Rename(name, other))
	case 2:
		if name == other {
			other += "2"
		}
		return "link " + name + " " + other + " " + kindOf(fs.Link(name, other))
	case 3:
		list, err := fs.List([]string{".", "d", "e"}[r.IntN(3)])
		slices.Sort(list)
		return fmt.Sprint("list ", list, kindOf(err))
	}
	flag := []int{os.O_RDONLY, os.O_RDWR, os.O_RDWR | os.O_CREATE, os.O_RDWR | os.O_CREATE | os.O_TRUNC, os.O_RDWR | os.O_CREATE | os.O_EXCL}[r.IntN(5)]
	at, size, fill := r.Int64N(9000), r.IntN(5000), byte(r.IntN(256))
	f, err := fs.Open(name, flag)
	if err != nil {
		return fmt.Sprint("open ", name, flag, kindOf(err))
	}
	defer f.Close()
	b := make([]byte, size)
	n, err := f.ReadAt(b, at)
	said := fmt.Sprint("read ", name, n, err, b[:n])
	if flag != os.O_RDONLY {
		for i := range b {
			b[i] = fill
		}
		err = vfs.WriteAll(f, b, at)
		if r.IntN(3) == 0 {
			err = errors.Join(err, f.Truncate(at/2))
		}
		said += fmt.Sprint(" write ", err)
	}
	total, err := f.Size()
	return said + fmt.Sprint(" size ", total, err)
}

// The disk of tests and the overlay do what the operating system does.
func TestFileSystemsAgree(t *testing.T) {
	for seed := range uint64(60) {
		below := vfs.OS(t.TempDir(), vfs.Public)
		systems := map[string]vfs.FS{"os": vfs.OS(t.TempDir(), vfs.Public), "disk": faultfs.New(), "overlay": vfs.NewOverlay(below)}
		require.NoError(t, below.Mkdir("d"))
		for name, fs := range systems {
			if name != "overlay" {
				require.NoError(t, fs.Mkdir("d"))
			}
			for _, file := range []string{"a", "d/a"} {
				if name == "overlay" {
					fs = below
				}
				require.NoError(t, vfs.ReplaceFile(fs, file, []byte("contents of "+file)))
			}
		}
		runs := make(map[string]*rand.Rand)
		for name := range systems {
			runs[name] = rand.New(rand.NewPCG(seed, 7))
		}
		for step := range 80 {
			want := doRandomly(systems["os"], runs["os"])
			for _, name := range []string{"disk", "overlay"} {
				require.Equal(t, want, doRandomly(systems[name], runs[name]), "%s, seed %d, step %d", name, seed, step)
			}
		}
		require.Equal(t, "contents of a", contentsOf(t, below, "a"), "looking changes nothing")
		require.Equal(t, "contents of d/a", contentsOf(t, below, "d/a"))
	}
}

// A file of exactly the limit is read, one byte more is refused before memory is taken for it.
func TestReadFileKeepsItsLimit(t *testing.T) {
	for name, fs := range map[string]vfs.FS{"disk": faultfs.New(), "os": vfs.OS(t.TempDir(), vfs.Private)} {
		require.NoError(t, vfs.ReplaceFile(fs, "file", make([]byte, 100)), name)
		b, err := vfs.ReadFile(fs, "file", 100)
		require.NoError(t, err, name)
		require.Len(t, b, 100, name)
		_, err = vfs.ReadFile(fs, "file", 99)
		require.ErrorContains(t, err, "100 bytes", name)
	}
}

// shortFile takes one byte less than it is given, and says nothing.
type shortFile struct{ vfs.File }

func (shortFile) WriteAt(p []byte, _ int64) (int, error) { return len(p) - 1, nil }

// A write that took less than it was given is an error, also where the disk gives none.
func TestAShortWriteIsAnError(t *testing.T) {
	require.ErrorIs(t, vfs.WriteAll(shortFile{}, []byte("record"), 0), io.ErrShortWrite)
}
