package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// syncData makes contents and size durable, and leaves out times, which nobody reads.
func syncData(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
