package aside

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bornode/bornode/internal/vfs"
)

// All keeps every copy: of what others may have nowhere else, and of what an operator moves away.
const All = math.MaxInt

const (
	mark   = ".damaged-" // between a name and the time at which it was kept
	layout = "20060102T150405Z"
)

// KeepBytes writes size bytes of r to a dated file beside name (NAME.damaged-TIME), durable when it returns, and removes
// the oldest copies beyond keep. If the newest copy holds the same bytes already (a start that failed behind the copy and
// is repeated) its name is returned and none is made. A copy that fails leaves nothing, and one that a crash ends never has
// its name. Not for concurrent use on one name.
func KeepBytes(fs vfs.FS, name string, r io.ReaderAt, size int64, keep int, now time.Time) (kept string, err error) {
	copies, err := List(fs, name)
	if err != nil {
		return "", keepError(name, err)
	}
	if n := len(copies); n > 0 && sameBytes(fs, copies[n-1], io.NewSectionReader(r, 0, size)) {
		return copies[n-1], nil
	}
	if kept, err = freeName(fs, name, now); err == nil {
		err = copyTo(fs, kept, io.NewSectionReader(r, 0, size))
	}
	if err != nil {
		return "", keepError(name, err)
	}
	return kept, keepError(name, removeOldest(fs, name, append(copies, kept), keep))
}

// KeepFolder is as KeepBytes for a folder and all below it; it compares nothing.
func KeepFolder(fs vfs.FS, dir string, keep int, now time.Time) (kept string, err error) {
	copies, err := List(fs, dir)
	if err != nil {
		return "", keepError(dir, err)
	}
	if kept, err = freeName(fs, dir, now); err != nil {
		return "", keepError(dir, err)
	}
	unfinished := kept + vfs.TemporarySuffix // of the same second; others are removed with the oldest copies
	if err := copyFolder(fs, dir, unfinished); err != nil {
		return "", keepError(dir, errors.Join(err, removeAll(fs, unfinished)))
	}
	if err := errors.Join(fs.Rename(unfinished, kept), fs.SyncDir(path.Dir(dir))); err != nil {
		return "", keepError(dir, err)
	}
	return kept, keepError(dir, removeOldest(fs, dir, append(copies, kept), keep))
}

// KeepLink gives a file a second, dated name, durable when it returns: nothing of the file is lost when its own name is
// removed, and it takes no room until then. It removes the oldest names beyond keep. A file that has such a name already
// keeps it; empty: there is no such file.
func KeepLink(fs vfs.FS, name string, keep int, now time.Time) (kept string, err error) {
	copies, err := List(fs, name)
	if err != nil {
		return "", keepError(name, err)
	}
	if names, err := fs.List(path.Dir(name)); err != nil || !slices.Contains(names, path.Base(name)) {
		return "", keepError(name, err)
	}
	for _, c := range copies {
		if looksLinked(fs, name, c) {
			return c, nil
		}
	}
	if kept, err = freeName(fs, name, now); err == nil {
		err = errors.Join(fs.Link(name, kept), fs.SyncDir(path.Dir(name)))
	}
	if err != nil {
		return "", keepError(name, err)
	}
	return kept, keepError(name, removeOldest(fs, name, append(copies, kept), keep))
}

// KeepMoved renames a file or a folder to a dated name, durable when it returns, and removes the oldest beyond keep.
func KeepMoved(fs vfs.FS, name string, keep int, now time.Time) (kept string, err error) {
	copies, err := List(fs, name)
	if err != nil {
		return "", keepError(name, err)
	}
	if kept, err = freeName(fs, name, now); err == nil {
		err = errors.Join(fs.Rename(name, kept), fs.SyncDir(path.Dir(name)))
	}
	if err != nil {
		return "", keepError(name, err)
	}
	return kept, keepError(name, removeOldest(fs, name, append(copies, kept), keep))
}

func keepError(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("keep %s aside: %w", name, err)
}

// List is the names that were kept of a name, oldest first.
func List(fs vfs.FS, name string) ([]string, error) {
	names, err := fs.List(path.Dir(name))
	if err != nil {
		return nil, err
	}
	var kept []string
	for _, n := range names {
		if strings.HasPrefix(n, path.Base(name)+mark) && !strings.HasSuffix(n, vfs.TemporarySuffix) {
			kept = append(kept, path.Join(path.Dir(name), n))
		}
	}
	slices.Sort(kept) // times sort as text
	return kept, nil
}

// freeName is a dated name that nothing has.
func freeName(fs vfs.FS, name string, now time.Time) (string, error) {
	taken, err := fs.List(path.Dir(name))
	if err != nil {
		return "", err
	}
	base := name + mark + now.UTC().Format(layout)
	for i := range maxSameSecond {
		free := base
		if i > 0 {
			free = fmt.Sprintf("%s-%02d", base, i)
		}
		if !slices.Contains(taken, path.Base(free)) {
			return free, nil
		}
	}
	return "", fmt.Errorf("%d files with the name %s are there: look at them and remove them", maxSameSecond, base)
}

// looksLinked reports that two names may well be of one file. A name that was kept of an earlier file of the same name is
// of another one.
func looksLinked(fs vfs.FS, a, b string) bool {
	var sizes [2]int64
	var times [2]time.Time
	for i, name := range []string{a, b} {
		f, err := fs.Open(name, os.O_RDONLY)
		if err != nil {
			return false
		}
		size, err := f.Size()
		if err = errors.Join(err, f.Close()); err != nil {
			return false
		}
		if times[i], err = fs.Modified(name); err != nil {
			return false
		}
		sizes[i] = size
	}
	return sizes[0] == sizes[1] && times[0].Equal(times[1])
}

func sameBytes(fs vfs.FS, name string, r io.Reader) bool {
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false
	}
	kept := io.NewSectionReader(f, 0, size)
	a, b := make([]byte, compareBytes), make([]byte, compareBytes)
	for {
		n, errA := io.ReadFull(kept, a)
		m, errB := io.ReadFull(r, b)
		if !bytes.Equal(a[:n], b[:m]) {
			return false
		}
		if errA != nil || errB != nil {
			return errB == io.EOF || errB == io.ErrUnexpectedEOF
		}
	}
}

func copyTo(fs vfs.FS, name string, r io.Reader) error {
	return vfs.CreateFileBy(fs, name, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
}

// copyFolder copies files and folders, all durable.
func copyFolder(fs vfs.FS, from, to string) error {
	if err := removeAll(fs, to); err != nil {
		return err
	}
	names, err := fs.List(from)
	if err == nil {
		err = fs.Mkdir(to)
	}
	for _, name := range names {
		if err != nil {
			return err
		}
		below := path.Join(from, name)
		if inner, listErr := fs.List(below); listErr == nil && len(inner) > 0 {
			err = copyFolder(fs, below, path.Join(to, name))
		} else {
			err = copyFile(fs, below, path.Join(to, name))
		}
	}
	return err
}

func copyFile(fs vfs.FS, from, to string) error {
	f, err := fs.Open(from, os.O_RDONLY)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil {
		err = copyTo(fs, to, io.NewSectionReader(f, 0, size))
	}
	if errors.Is(err, syscall.EISDIR) { // a folder without files
		err = fs.Mkdir(to)
	}
	return errors.Join(err, f.Close())
}

// removeAll removes a file, or a folder with all below it; it need not be there.
func removeAll(fs vfs.FS, name string) error {
	err := fs.Remove(name)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	names, listErr := fs.List(name)
	if listErr != nil || len(names) == 0 {
		return errors.Join(err, listErr)
	}
	for _, n := range names {
		if err := removeAll(fs, path.Join(name, n)); err != nil {
			return err
		}
	}
	return fs.Remove(name)
}

// removeOldest leaves the newest copies of a name, and none that a crash left unfinished.
func removeOldest(fs vfs.FS, name string, copies []string, keep int) error {
	names, err := fs.List(path.Dir(name))
	for _, n := range names {
		if strings.HasPrefix(n, path.Base(name)+mark) && strings.HasSuffix(n, vfs.TemporarySuffix) {
			err = errors.Join(err, removeAll(fs, path.Join(path.Dir(name), n)))
		}
	}
	for _, c := range copies[:max(0, len(copies)-keep)] {
		err = errors.Join(err, removeAll(fs, c))
	}
	return err
}
