package blockstore

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// sharedPage makes memory that only this mapping can change, with a file to hand out: it is sealed against new writable
// mappings, writes and changes of its size, so that a peer on this host that gets a descriptor can only read.
func sharedPage(size int) (*os.File, []byte, error) {
	fd, err := unix.MemfdCreate("bornode-window", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("make the directory page: %w", err)
	}
	f := os.NewFile(uintptr(fd), "bornode-window")
	mem, err := mapPage(fd, size)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("make the directory page: %w", err), f.Close())
	}
	return f, mem, nil
}

func mapPage(fd, size int) ([]byte, error) {
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, err
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_FUTURE_WRITE | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return nil, errors.Join(err, unix.Munmap(mem))
	}
	return mem, nil
}

// reopen opens the same file anew, for reading only.
func reopen(f *os.File) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDONLY, 0)
}

func unmap(mem []byte) error { return unix.Munmap(mem) }
