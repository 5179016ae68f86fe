package vfs

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
)

// TemporarySuffix ends the name under which a file is written until it is whole. One that a crash left is written over
// by the next replacement of the same file, or removed with it.
const TemporarySuffix = ".new"

// ReplaceFile makes name a file with these contents, whatever was there: after a crash at any moment the old file is
// there whole or the new one, and when ReplaceFile returns nil the new one is durable. At most one goroutine may replace
// a file at a time.
func ReplaceFile(fs FS, name string, data []byte) error {
	return writeWhole(fs, name, data, fs.Rename)
}

// CreateFile is ReplaceFile where nothing may be there: os.ErrExist, and the file as it was, if something is.
func CreateFile(fs FS, name string, data []byte) error {
	return writeWhole(fs, name, data, func(temporary, name string) error {
		if err := fs.Link(temporary, name); err != nil {
			return err
		}
		return fs.Remove(temporary)
	})
}

// writeWhole writes a file under its temporary name, and has it published when it is durable.
func writeWhole(fs FS, name string, data []byte, publish func(temporary, name string) error) error {
	temporary := name + TemporarySuffix
	f, err := fs.Open(temporary, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
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
	return fs.SyncDir(path.Dir(name))
}

// ReplaceFileAt is ReplaceFile of the operating system's file with this path, of mode 0600.
func ReplaceFileAt(file string, data []byte) error {
	return ReplaceFile(OS(filepath.Dir(file), Private), filepath.Base(file), data)
}

// CreateFileAt is CreateFile of the operating system's file with this path, of mode 0600.
func CreateFileAt(file string, data []byte) error {
	return CreateFile(OS(filepath.Dir(file), Private), filepath.Base(file), data)
}
