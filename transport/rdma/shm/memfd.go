//go:build linux

package shm

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

const (
	sealed      = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	hugePage    = 2 << 20
	memfdName   = "bornode-shm"
	memfdFlags  = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	memfdNoExec = unix.MFD_NOEXEC_SEAL
)

// mapping is shared memory in this process. The address range may be larger than data, for alignment.
type mapping struct {
	data []byte
	base unsafe.Pointer
	span uintptr
}

// newMemfd makes a memory file of size bytes that nobody can resize. The caller closes it.
func newMemfd(size int) (*os.File, error) {
	f, err := openMemfd(size)
	if err != nil {
		return nil, err
	}
	if err := addSeals(f, sealed); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func openMemfd(size int) (*os.File, error) {
	fd, err := unix.MemfdCreate(memfdName, memfdFlags|memfdNoExec)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate(memfdName, memfdFlags)
	}
	if err != nil {
		return nil, fmt.Errorf("memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), memfdName)
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		f.Close()
		return nil, fmt.Errorf("size shared memory: %w", err)
	}
	return f, nil
}

func addSeals(f *os.File, seals int) error {
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return fmt.Errorf("seal shared memory: %w", err)
	}
	return nil
}

// checkMemfd verifies that a peer's descriptor is memory that can be mapped and touched without ever faulting: a
// memfd of small pages, of exactly size bytes, that nobody can resize. Memory of hugetlbfs is refused: after a hole was
// punched a touch needs a new huge page and may find none. An ordinary file may be truncated, and cannot be sealed.
func checkMemfd(fd int, size int64) error {
	seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("%w: descriptor is no memory file: %v", fabric.ErrPeer, err)
	}
	if seals&sealed != sealed {
		return fmt.Errorf("%w: memory file is not sealed against resizing (seals %#x)", fabric.ErrPeer, seals)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("%w: memory file: %v", fabric.ErrPeer, err)
	}
	if int64(fs.Type) != unix.TMPFS_MAGIC {
		return fmt.Errorf("%w: memory file of kind %#x", fabric.ErrPeer, fs.Type)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("%w: memory file: %v", fabric.ErrPeer, err)
	}
	if st.Size != size {
		return fmt.Errorf("%w: memory file of %d bytes instead of %d", fabric.ErrPeer, st.Size, size)
	}
	return nil
}

// mapFile maps size bytes of a sealed memory file. With huge, mappings of 2 MiB and more begin at a multiple of 2 MiB
// and the kernel is asked for huge pages there; whether it grants them is its choice.
func mapFile(f *os.File, size int, write, huge bool) (*mapping, error) {
	prot := unix.PROT_READ
	if write {
		prot |= unix.PROT_WRITE
	}
	fd := int(f.Fd())
	if !huge || size < hugePage {
		p, err := unix.MmapPtr(fd, 0, nil, uintptr(size), prot, unix.MAP_SHARED)
		if err != nil {
			return nil, fmt.Errorf("map shared memory: %w", err)
		}
		return &mapping{data: unsafe.Slice((*byte)(p), size), base: p, span: uintptr(size)}, nil
	}
	span := uintptr(size) + hugePage
	base, err := unix.MmapPtr(-1, 0, nil, span, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve addresses: %w", err)
	}
	at := unsafe.Add(base, (hugePage-uintptr(base)%hugePage)%hugePage)
	if _, err := unix.MmapPtr(fd, 0, at, uintptr(size), prot, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		return nil, errors.Join(fmt.Errorf("map shared memory: %w", err), unix.MunmapPtr(base, span))
	}
	m := &mapping{data: unsafe.Slice((*byte)(at), size), base: base, span: span}
	_ = unix.Madvise(m.data, unix.MADV_HUGEPAGE) // a kernel without huge pages says EINVAL
	return m, nil
}

// collapse has the kernel put the mapping into huge pages now, as far as it can; it works even where new shared memory
// gets none by default.
func (m *mapping) collapse() bool {
	whole := len(m.data) / hugePage * hugePage
	if whole == 0 {
		return false
	}
	if err := unix.Madvise(m.data[:whole], unix.MADV_POPULATE_WRITE); err != nil {
		return false
	}
	return unix.Madvise(m.data[:whole], unix.MADV_COLLAPSE) == nil
}

func (m *mapping) close() error {
	if m == nil || m.base == nil {
		return nil
	}
	err := unix.MunmapPtr(m.base, m.span)
	m.base, m.data = nil, nil
	return err
}

func pageRound(n int) int {
	page := os.Getpagesize()
	return (n + page - 1) / page * page
}

// mapPeer checks a peer's memory file and maps it. It closes the descriptor.
func mapPeer(fd, size int, write, huge bool) (*mapping, error) {
	f := os.NewFile(uintptr(fd), memfdName)
	defer f.Close()
	if err := checkMemfd(fd, int64(size)); err != nil {
		return nil, err
	}
	m, err := mapFile(f, size, write, huge)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", fabric.ErrPeer, err)
	}
	return m, nil
}
