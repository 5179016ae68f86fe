package tidy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const maxLines = 700

var (
	leftOver = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	skipped  = regexp.MustCompile(`\bt\.Sk` + `ip(f|Now)?\(`)
	renaming = regexp.MustCompile(`\bos\.(Rename|CreateTemp|WriteFile)\(`)
	sleeping = regexp.MustCompile(`\btime\.Sle` + `ep\(`)
)

// files calls fn for every Go file of the tree that a person wrote.
func files(t *testing.T, fn func(name string, text []byte)) {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	require.NoError(t, err)
	root := strings.TrimSpace(string(out))
	n := 0
	require.NoError(t, filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "build" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_gen.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		fn(rel, text)
		n++
		return nil
	}))
	require.NotZero(t, n)
}

func TestFilesAreShort(t *testing.T) {
	files(t, func(name string, text []byte) {
		if n := bytes.Count(text, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, %d are allowed: split it where the subject changes", name, n, maxLines)
		}
	})
}

func TestNothingIsLeftOver(t *testing.T) {
	files(t, func(name string, text []byte) {
		if m := leftOver.Find(text); m != nil {
			t.Errorf("%s holds the mark %q: finish it or say it in an issue", name, m)
		}
	})
}

func TestTestsNeitherSkipNorSleep(t *testing.T) {
	virtual := make(map[string]bool) // folders whose tests run in synctest bubbles: time is virtual there, and sleeping exact
	files(t, func(name string, text []byte) {
		if strings.HasSuffix(name, "_test.go") && bytes.Contains(text, []byte(`"testing/synctest"`)) {
			virtual[filepath.Dir(name)] = true
		}
	})
	files(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, "_test.go") {
			return
		}
		if m := skipped.Find(text); m != nil {
			t.Errorf("%s skips (%s): a test runs or does not exist", name, m)
		}
		if sleeping.Match(text) && !virtual[filepath.Dir(name)] {
			t.Errorf("%s sleeps: wait for an event instead", name)
		}
	})
}

// renamers are the files that put files into place by themselves, and why: everything else uses vfs.ReplaceFile or
// vfs.CreateFile, which sync what they publish.
var renamers = map[string]string{
	"internal/vfs/fs.go":      "the file system itself",
	"internal/aside/aside.go": "files that are taken away",
	"internal/aside/move.go":  "files that are taken away",
	"node/backup.go":          "segments are too large to be written from memory; they are synced before they have their name",
	"node/restore.go":         "the settings file gets its name when the restored folder is whole",
	"cmd/bornode/ending.go":   "the last words of a process that crashed",
	"wallet/files.go":         "reads back what it wrote before it has its name",
	"wallet/ops.go":           "moves whole folders of keys",
	"genesis/genesis.go":      "a new file for the user",
}

func TestFilesArePutIntoPlaceByTheFileSystem(t *testing.T) {
	files(t, func(name string, text []byte) {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "testnet/") || strings.HasPrefix(name, "bench/") || strings.HasPrefix(name, "scripts/") {
			return
		}
		if _, ok := renamers[name]; !ok && renaming.Match(text) {
			t.Errorf("%s writes or renames a file by itself: use internal/vfs, or say in renamers why not", name)
		}
	})
}
