package aside

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bornode/bornode/internal/vfs"
)

const (
	mark   = ".damaged-" // between a name and the time of its copy
	layout = "20060102T150405Z"
)

// KeepBytes writes size bytes of r to a dated file beside name (NAME.damaged-TIME), durable when it returns, and removes
// the oldest copies beyond keep. If the newest copy holds the same bytes already (a start that failed behind the copy and
// is repeated) its path is returned and none is made. A copy that fails leaves nothing. Not for concurrent use on one name.
func KeepBytes(name string, r io.ReaderAt, size int64, keep int, now time.Time) (path string, err error) {
	copies, err := list(name)
	if err != nil {
		return "", keepError(name, err)
	}
	if n := len(copies); n > 0 && sameBytes(copies[n-1], io.NewSectionReader(r, 0, size)) {
		return copies[n-1], nil
	}
	if path, err = freeName(name, now); err != nil {
		return "", keepError(name, err)
	}
	if err := writeFile(path, io.NewSectionReader(r, 0, size)); err != nil {
		return "", keepError(name, errors.Join(err, os.Remove(path)))
	}
	return path, keepError(name, errors.Join(vfs.SyncDirAt(filepath.Dir(name)), removeOldest(append(copies, path), keep)))
}

// KeepFolder is as KeepBytes for a folder and all below it; it compares nothing.
func KeepFolder(dir string, keep int, now time.Time) (path string, err error) {
	copies, err := list(dir)
	if err != nil {
		return "", keepError(dir, err)
	}
	if path, err = freeName(dir, now); err != nil {
		return "", keepError(dir, err)
	}
	if err := copyFolder(dir, path); err != nil {
		return "", keepError(dir, errors.Join(err, os.RemoveAll(path)))
	}
	return path, keepError(dir, errors.Join(vfs.SyncDirAt(filepath.Dir(dir)), removeOldest(append(copies, path), keep)))
}

func keepError(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("keep a copy of %s aside: %w", name, err)
}

// list is the copies of a name, oldest first.
func list(name string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(name)+mark) {
			out = append(out, filepath.Join(filepath.Dir(name), e.Name()))
		}
	}
	slices.Sort(out) // times sort as text
	return out, nil
}

func freeName(name string, now time.Time) (string, error) {
	base := name + mark + now.UTC().Format(layout)
	for i := range maxSameSecond {
		path := base
		if i > 0 {
			path = fmt.Sprintf("%s-%02d", base, i)
		}
		if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
			return path, nil
		}
	}
	return "", fmt.Errorf("%d copies with the name %s are there: look at them and remove them", maxSameSecond, base)
}

func sameBytes(path string, r io.Reader) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	a, b := make([]byte, compareBytes), make([]byte, compareBytes)
	for {
		n, errA := io.ReadFull(f, a)
		m, errB := io.ReadFull(r, b)
		if !bytes.Equal(a[:n], b[:m]) {
			return false
		}
		if errA != nil || errB != nil {
			return errB == io.EOF || errB == io.ErrUnexpectedEOF
		}
	}
}

func writeFile(path string, r io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, r); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// copyFolder copies files and folders, each durable.
func copyFolder(from, to string) error {
	var made []string
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			made = append(made, target)
			return os.Mkdir(target, 0o700)
		case !d.Type().IsRegular():
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return writeFile(target, f)
	})
	for _, dir := range made {
		err = errors.Join(err, vfs.SyncDirAt(dir))
	}
	return err
}

// removeOldest leaves the newest copies.
func removeOldest(copies []string, keep int) (err error) {
	for _, path := range copies[:max(0, len(copies)-keep)] {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}
