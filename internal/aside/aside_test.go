package aside

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func keepText(t *testing.T, name, text string, keep int, now time.Time) string {
	t.Helper()
	kept, err := KeepBytes(vfs.OS(filepath.Dir(name), vfs.Private), filepath.Base(name), bytes.NewReader([]byte(text)), int64(len(text)), keep, now)
	require.NoError(t, err)
	return filepath.Join(filepath.Dir(name), kept)
}

// Copies have dated names, the same bytes are kept once, and beyond the limit the oldest go.
func TestCopiesAreDatedAndBounded(t *testing.T) {
	name := filepath.Join(t.TempDir(), "votes.log")
	first := keepText(t, name, "one", 2, noon)
	require.Equal(t, name+".damaged-20260102T120000Z", first)
	require.Equal(t, first, keepText(t, name, "one", 2, noon.Add(time.Hour)), "the same bytes")
	second := keepText(t, name, "two", 2, noon)
	require.Equal(t, first+"-01", second)
	third := keepText(t, name, "one", 2, noon.Add(time.Hour))
	require.NoFileExists(t, first)
	for path, text := range map[string]string{second: "two", third: "one"} {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, text, string(b))
	}
	require.NotEqual(t, third, keepText(t, name, "on", 2, noon.Add(2*time.Hour)), "a part is not the same")
}

type failing struct{}

func (failing) ReadAt([]byte, int64) (int, error) { return 0, errors.New("disk") }

// A copy that fails leaves nothing, and takes no older one away.
func TestFailedCopyLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "votes.log")
	kept := keepText(t, name, "one", 1, noon)
	_, err := KeepBytes(vfs.OS(dir, vfs.Private), "votes.log", failing{}, 3, 1, noon.Add(time.Hour))
	require.ErrorContains(t, err, "votes.log")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.FileExists(t, kept)
}

func TestFolderIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "evidence")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "lost"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "lost", "1.ldb"), []byte("table"), 0o600))
	var paths []string
	for i := range 3 {
		path, err := KeepFolder(vfs.OS(filepath.Dir(dir), vfs.Private), "evidence", 2, noon.Add(time.Duration(i)*time.Hour))
		require.NoError(t, err)
		paths = append(paths, filepath.Join(filepath.Dir(dir), path))
	}
	require.NoDirExists(t, paths[0])
	for _, p := range paths[1:] {
		b, err := os.ReadFile(filepath.Join(p, "lost", "1.ldb"))
		require.NoError(t, err)
		require.Equal(t, "table", string(b))
	}
}

// disk is a disk with a file and a folder of two files.
func disk(t *testing.T) *faultfs.Disk {
	t.Helper()
	d := faultfs.New()
	require.NoError(t, d.Mkdir("folder"))
	for _, name := range []string{"file", "folder/1", "folder/2"} {
		require.NoError(t, vfs.ReplaceFile(d, name, []byte("contents of "+name)))
	}
	return d
}

// A power cut at any operation leaves no copy that is not whole, and none that was told is lost.
func TestPowerCutLeavesNoPartOfACopy(t *testing.T) {
	keepers := map[string]func(fs vfs.FS) (string, error){
		"bytes": func(fs vfs.FS) (string, error) {
			text := "contents of file"
			return KeepBytes(fs, "file", strings.NewReader(text), int64(len(text)), 1, noon)
		},
		"folder": func(fs vfs.FS) (string, error) { return KeepFolder(fs, "folder", 1, noon) },
		"link":   func(fs vfs.FS) (string, error) { return KeepLink(fs, "file", All, noon) },
		"moved":  func(fs vfs.FS) (string, error) { return KeepMoved(fs, "file", All, noon) },
	}
	for what, keep := range keepers {
		for at, ended := 1, false; !ended; at++ {
			for seed := range uint64(8) {
				d := disk(t)
				begin := d.Changes()
				d.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == begin+at} }, seed)
				kept, err := keep(d)
				left := d.Crashed()
				if left == nil {
					require.NoError(t, err)
					require.NotEmpty(t, kept)
					left, ended = d.Crash(seed), true
				}
				requireWholeCopies(t, left, what, ended)
			}
		}
	}
}

func requireWholeCopies(t *testing.T, left vfs.FS, what string, ended bool) {
	t.Helper()
	read := func(name string) string {
		b, err := vfs.ReadFile(left, name, 1<<10)
		require.NoError(t, err, "%s: %s", what, name)
		return string(b)
	}
	copies, err := List(left, "file")
	require.NoError(t, err)
	for _, c := range copies {
		require.Equal(t, "contents of file", read(c), what)
	}
	folders, err := List(left, "folder")
	require.NoError(t, err)
	for _, c := range folders {
		for _, name := range []string{"1", "2"} {
			require.Equal(t, "contents of folder/"+name, read(c+"/"+name), what)
		}
	}
	if ended {
		require.Len(t, append(copies, folders...), 1, what)
	}
	if names, err := left.List("."); what != "moved" || len(copies) == 0 {
		require.NoError(t, err)
		require.Contains(t, names, "file", what)
	}
}

// A copy that a crash left unfinished is no copy, and goes with the next one.
func TestUnfinishedCopyIsNone(t *testing.T) {
	d := disk(t)
	unfinished := "folder" + mark + noon.Format(layout) + vfs.TemporarySuffix
	require.NoError(t, d.Mkdir(unfinished))
	require.NoError(t, vfs.ReplaceFile(d, unfinished+"/1", []byte("cont")))
	copies, err := List(d, "folder")
	require.NoError(t, err)
	require.Empty(t, copies)
	kept, err := KeepFolder(d, "folder", 2, noon.Add(time.Hour))
	require.NoError(t, err)
	names, err := d.List(".")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"file", "folder", kept}, names)
}

// A second name is given once, and again to another file that has taken the name since.
func TestSecondNameIsGivenOnce(t *testing.T) {
	dir := t.TempDir()
	fs := vfs.OS(dir, vfs.Private)
	require.NoError(t, vfs.ReplaceFile(fs, "file", []byte("one")))
	first, err := KeepLink(fs, "file", All, noon)
	require.NoError(t, err)
	again, err := KeepLink(fs, "file", All, noon.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, first, again)
	moved, err := KeepMoved(fs, "file", All, noon)
	require.NoError(t, err)
	require.Equal(t, first+"-01", moved)
	require.NoFileExists(t, filepath.Join(dir, "file"))
	none, err := KeepLink(fs, "file", All, noon)
	require.NoError(t, err)
	require.Empty(t, none)
	require.NoError(t, vfs.ReplaceFile(fs, "file", []byte("other")))
	other, err := KeepLink(fs, "file", All, noon)
	require.NoError(t, err)
	require.Equal(t, first+"-02", other)
}

// A file that has taken the name since has a second name of its own, also if it is as long as the one before.
func TestSecondNameOfAnEquallyLongFile(t *testing.T) {
	dir := t.TempDir()
	fs := vfs.OS(dir, vfs.Private)
	name := filepath.Join(dir, "file")
	require.NoError(t, vfs.ReplaceFile(fs, "file", []byte("one")))
	require.NoError(t, os.Chtimes(name, noon, noon))
	first, err := KeepLink(fs, "file", All, noon)
	require.NoError(t, err)
	require.NoError(t, vfs.ReplaceFile(fs, "file", []byte("two")))
	require.NoError(t, os.Chtimes(name, noon, noon.Add(time.Second)))
	second, err := KeepLink(fs, "file", All, noon)
	require.NoError(t, err)
	require.NotEqual(t, first, second)
	require.NoError(t, os.Remove(name))
	for kept, text := range map[string]string{first: "one", second: "two"} {
		b, err := os.ReadFile(filepath.Join(dir, kept))
		require.NoError(t, err)
		require.Equal(t, text, string(b))
	}
}

// Second names and moved files are bounded too: the newest stay.
func TestSecondNamesAreBounded(t *testing.T) {
	for name, keep := range map[string]func(vfs.FS, string, int, time.Time) (string, error){"linked": KeepLink, "moved": KeepMoved} {
		fs := vfs.OS(t.TempDir(), vfs.Private)
		var all []string
		for i := range 5 {
			require.NoError(t, vfs.ReplaceFile(fs, "file", bytes.Repeat([]byte("x"), i+1)), name)
			kept, err := keep(fs, "file", 3, noon.Add(time.Duration(i)*time.Hour))
			require.NoError(t, err, name)
			all = append(all, kept)
		}
		copies, err := List(fs, "file")
		require.NoError(t, err, name)
		require.Equal(t, all[2:], copies, name)
	}
}

// endsEarly gives zeros up to a length, and an error behind them.
type endsEarly int64

func (e endsEarly) ReadAt(p []byte, off int64) (int, error) {
	n := max(0, min(int64(len(p)), int64(e)-off))
	clear(p[:n])
	if n < int64(len(p)) {
		return int(n), errors.New("disk")
	}
	return int(n), nil
}

// A source that cannot be read to its end is not taken for the copy that holds its beginning.
func TestPartOfASourceIsNoCopyOfIt(t *testing.T) {
	fs := vfs.OS(t.TempDir(), vfs.Private)
	_, err := KeepBytes(fs, "votes.log", endsEarly(compareBytes), compareBytes, 2, noon)
	require.NoError(t, err)
	_, err = KeepBytes(fs, "votes.log", endsEarly(compareBytes), 2*compareBytes, 2, noon)
	require.ErrorContains(t, err, "disk")
}

// A folder's copy has a durable name when its path is returned.
func TestNameOfAFoldersCopyIsDurable(t *testing.T) {
	d, last := disk(t), faultfs.Kind(0)
	d.SetPlan(func(c faultfs.Change) faultfs.Verdict {
		if c.Kind == faultfs.Rename || c.Kind == faultfs.SyncDir {
			last = c.Kind
		}
		return faultfs.Verdict{}
	}, 0)
	_, err := KeepFolder(d, "folder", 1, noon)
	require.NoError(t, err)
	require.Equal(t, faultfs.SyncDir, last, "what was renamed last is synced")
}
