package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// WriteAll writes data at off; writing less is an error.
func WriteAll(f File, data []byte, off int64) error {
	n, err := f.WriteAt(data, off)
	if err == nil && n != len(data) {
		err = fmt.Errorf("wrote %d of %d bytes: %w", n, len(data), io.ErrShortWrite)
	}
	return err
}

// ReadFile reads a whole file of at most limit bytes.
func ReadFile(fs FS, name string, limit int64) ([]byte, error) {
	f, err := fs.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, at most %d are read", name, size, limit)
	}
	b := make([]byte, size)
	if n, err := f.ReadAt(b, 0); n < len(b) {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return b, nil
}
