//go:build linux && cgo

package verbs

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// region is fabric.Region.
type region struct {
	dev *device
	mem []byte // the mapping; size bytes of it are used
	n   int
	mr  *C.struct_bv_mr
	key uint32

	mu      sync.Mutex
	exposed int // by open queue pairs
	closed  bool
}

var _ fabric.Region = (*region)(nil)

// NewRegion maps and registers size bytes.
func (d *device) NewRegion(size int) (fabric.Region, error) {
	if size <= 0 || size > maxRegionBytes {
		return nil, fmt.Errorf("verbs: a region has 1 to %d bytes, not %d", maxRegionBytes, size)
	}
	if err := d.hold(&d.regions); err != nil {
		return nil, err
	}
	r, err := d.mapRegion(size)
	if err != nil {
		d.drop(&d.regions)
		return nil, err
	}
	return r, nil
}

// mapRegion tries huge pages first. Memory is registered before it is touched: registering takes the pages, so that a
// shortage of them is an error here and no signal later.
func (d *device) mapRegion(size int) (*region, error) {
	access := C.int(C.BV_ACCESS_LOCAL_WRITE)
	if d.cfg.Windows {
		access |= C.BV_ACCESS_MW_BIND
	}
	if d.cfg.HugePages && size >= hugePageBytes {
		whole := (size + hugePageBytes - 1) / hugePageBytes * hugePageBytes
		if r, err := d.mapWith(size, whole, unix.MAP_HUGETLB, access); err == nil {
			return r, nil
		}
	}
	return d.mapWith(size, size, 0, access)
}

func (d *device) mapWith(size, mapped, flags int, access C.int) (*region, error) {
	mem, err := unix.Mmap(-1, 0, mapped, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|flags)
	if err != nil {
		return nil, fmt.Errorf("verbs: map %d bytes: %w", mapped, err)
	}
	if d.cfg.HugePages && flags == 0 && size >= hugePageBytes {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // transparent ones: a favour, not a need
	}
	mr, err := d.register(mem, access)
	if err != nil {
		_ = unix.Munmap(mem)
		return nil, err
	}
	return &region{dev: d, mem: mem, n: size, mr: mr, key: uint32(mr.lkey)}, nil
}

// register registers memory that lies outside the Go heap.
func (d *device) register(mem []byte, access C.int) (*C.struct_bv_mr, error) {
	var code C.int
	mr := C.bv_reg_mr(d.pd, unsafe.Pointer(&mem[0]), C.size_t(len(mem)), access, &code)
	if mr == nil {
		return nil, fmt.Errorf("verbs: register %d bytes on %s: %w", len(mem), d.at.Device, explain(errno(code)))
	}
	return mr, nil
}

// explain adds to "out of memory" the limit that is nearly always meant.
func explain(err error) error {
	if !errors.Is(err, syscall.ENOMEM) && !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EAGAIN) {
		return err
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) != nil || limit.Cur == unix.RLIM_INFINITY {
		return err
	}
	return unavailable("%v: this process may lock only %d KiB of memory: raise the limit (LimitMEMLOCK=infinity in the "+
		"service, ulimit -l in a shell)", err, limit.Cur>>10)
}

func (r *region) Bytes() []byte    { return r.mem[:r.n:r.n] }
func (r *region) LocalKey() uint32 { return r.key }

// addr is the address of byte offset.
func (r *region) addr(offset int) uint64 { return address(r.mem[offset:]) }

// address is where memory outside the Go heap lies.
func address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// Close refuses while a queue pair exposes the region: unmapped memory that a peer may write to would be a disaster.
func (r *region) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	if r.exposed > 0 {
		return fmt.Errorf("verbs: a region of %d bytes is exposed by %d queue pairs", r.n, r.exposed)
	}
	if n := C.bv_dereg_mr(r.mr); n != 0 {
		return fmt.Errorf("verbs: unregister %d bytes: %w", r.n, errno(n))
	}
	r.closed = true
	err := unix.Munmap(r.mem)
	r.mem = nil
	r.dev.drop(&r.dev.regions)
	return err
}
