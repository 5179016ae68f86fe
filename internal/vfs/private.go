package vfs

import (
	"fmt"
	"io"
	"os"
)

// ReadPrivateFile reads a file of the operating system that holds a secret, at most limit bytes. One that others than its owner may
// read is refused, with a sentence that says what to do.
func ReadPrivateFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if m := st.Mode().Perm(); m&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %04o and could be read by others: run chmod 600 on it", path, m)
	}
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, limit)
	}
	return b, nil
}
