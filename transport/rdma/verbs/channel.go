//go:build linux && cgo

package verbs

import (
	"os"

	"golang.org/x/sys/unix"
)

// pollable makes the library's descriptor non-blocking and gives a duplicate that Go's poller watches. The library
// keeps its own, and reads it by its own functions: drivers count the events there.
func pollable(fd int) (*os.File, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(dup), "verbs"), nil
}
