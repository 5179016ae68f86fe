package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
)

// TemporarySuffix ends the name under which ReplaceFile and CreateFile write a file until it is whole. One that a crash
// left is removed by the next of them for the same file.
const TemporarySuffix = ".new"

// ErrNotDurable means that a file has its new contents under its name, but a power cut may bring back what was there.
var ErrNotDurable = errors.New("the new file is in place, but its name may not be durable")

// ReplaceFile makes name a file with these contents, whatever was there: after a crash at any moment the old file is
// there whole or the new one, and when ReplaceFile returns nil the new one is durable. At most one goroutine of one
// process may write a file at a time.
func ReplaceFile(fs FS, name string, data []byte) error {
	return ReplaceFileBy(fs, name, writeBytes(data))
}

// ReplaceFileBy is ReplaceFile with the contents that write gives; an error of write leaves the old file.
func ReplaceFileBy(fs FS, name string, write func(io.Writer) error) error {
	return writeWhole(fs, name+TemporarySuffix, name, write, fs.Rename)
}

// CreateFile is ReplaceFile where nothing may be there: os.ErrExist, and the file as it was, if something is.
func CreateFile(fs FS, name string, data []byte) error {
	return CreateFileBy(fs, name, writeBytes(data))
}

// CreateFileBy is CreateFile with the contents that write gives; after an error of write there is no file.
func CreateFileBy(fs FS, name string, write func(io.Writer) error) error {
	return writeWhole(fs, name+TemporarySuffix, name, write, publishNew(fs))
}

func writeBytes(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// ReplaceFileAt is ReplaceFile of the operating system's file with this path, of mode 0600. Several goroutines and
// processes may write the file: one of them wins.
func ReplaceFileAt(file string, data []byte) error {
	fs := OS(filepath.Dir(file), Private)
	return writeWhole(fs, temporaryOf(file), filepath.Base(file), writeBytes(data), fs.Rename)
}

// CreateFileAt is CreateFile of the operating system's file with this path, of mode 0600. Several goroutines and
// processes may create the file: the first wins, the others get os.ErrExist.
func CreateFileAt(file string, data []byte) error {
	fs := OS(filepath.Dir(file), Private)
	return writeWhole(fs, temporaryOf(file), filepath.Base(file), writeBytes(data), publishNew(fs))
}

// appendingWriter writes a file from its beginning on; writing less than was given is an error.
type appendingWriter struct {
	f   File
	end int64
}

func (w *appendingWriter) Write(p []byte) (int, error) {
	if err := WriteAll(w.f, p, w.end); err != nil {
		return 0, err
	}
	w.end += int64(len(p))
	return len(p), nil
}

// temporaries numbers the temporary files of this process.
var temporaries atomic.Uint64

// temporaryOf is a name that nobody else uses now.
func temporaryOf(file string) string {
	return fmt.Sprintf(".tmp-%s-%d-%d", filepath.Base(file), os.Getpid(), temporaries.Add(1))
}

// publishNew gives a file its name if that is free.
func publishNew(fs FS) func(temporary, name string) error {
	return func(temporary, name string) error {
		if err := fs.Link(temporary, name); err != nil {
			return err
		}
		return fs.Remove(temporary)
	}
}

// writeWhole writes a file under its temporary name, and has it published when it is durable.
func writeWhole(fs FS, temporary, name string, write func(io.Writer) error, publish func(temporary, name string) error) error {
	// A crash may have left the temporary name, also as a second name of the published file: it is removed, never written.
	if err := fs.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("write %s: %w", name, err)
	}
	f, err := fs.Open(temporary, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	err = write(&appendingWriter{f: f})
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = publish(temporary, name)
	}
	if err != nil {
		if gone := fs.Remove(temporary); gone != nil && !errors.Is(gone, os.ErrNotExist) {
			err = errors.Join(err, gone)
		}
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := fs.SyncDir(path.Dir(name)); err != nil {
		return fmt.Errorf("write %s: %w: %w", name, ErrNotDurable, err)
	}
	return nil
}
