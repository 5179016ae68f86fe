//go:build unix

package consensus

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// lockFile takes an exclusive lock that ends with the process: of two copies on one data directory the later stops.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock of the vote log: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		err = errors.Join(err, f.Close())
		return nil, fmt.Errorf("%w: %s: stop the other copy first (%w)", ErrLocked, path, err)
	}
	return f, nil
}
