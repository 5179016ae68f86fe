package store

import (
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/bornode/bornode/internal/vfs"
)

// patient is a file system that reads again what could not be read: a passing trouble must not be taken for damage.
type patient struct{ vfs.FS }

type patientFile struct{ vfs.File }

// passing tells whether an error may not come again.
func passing(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission)
}

// saysNothing tells whether an error says nothing of what is on the disk: the process may not read it, or lacks file
// descriptors or memory. A start ends with such an error, and the next one finds everything; so does the next read of a
// store that is open.
func saysNothing(err error) bool {
	return errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

func again[T any](f func() (T, error)) (v T, err error) {
	for range readTries {
		if v, err = f(); !passing(err) {
			break
		}
	}
	return v, err
}

// Open implements FS.
func (p patient) Open(name string, flag int) (vfs.File, error) {
	f, err := again(func() (vfs.File, error) { return p.FS.Open(name, flag) })
	if err != nil || flag != os.O_RDONLY && flag != os.O_RDWR {
		return f, err
	}
	return patientFile{f}, nil
}

// ReadAt implements File.
func (f patientFile) ReadAt(b []byte, off int64) (int, error) {
	return again(func() (int, error) { return f.File.ReadAt(b, off) })
}

// Size implements File.
func (f patientFile) Size() (int64, error) { return again(f.File.Size) }
