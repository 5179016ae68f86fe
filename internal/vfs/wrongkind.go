package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// explainKind adds to an error about a path what an operator can do, if something of another kind than a file or folder of
// the node stands there.
func explainKind(path string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w where a file belongs: move that folder away", err)
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w where a folder belongs: move that file away", err)
	case !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrExist):
		return err
	}
	link, lerr := os.Lstat(path)
	if lerr != nil || link.Mode()&fs.ModeSymlink == 0 {
		return err
	}
	if _, serr := os.Stat(path); !errors.Is(serr, os.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w: %s is a symbolic link to something that is not there; bring that back (mount its disk), or move the link away", err, path)
}

// refuseFolder is an error if an open file is a folder: Linux opens one for reading.
func refuseFolder(path string, f *os.File) error {
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = explainKind(path, &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR})
	}
	return err
}
