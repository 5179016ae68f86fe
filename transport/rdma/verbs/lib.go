//go:build linux && cgo

package verbs

// #cgo LDFLAGS: -ldl
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// load loads libibverbs once; the error is what the loader said.
var load = sync.OnceValue(func() error { return loadFrom("libibverbs.so.1") })

func loadFrom(library string) error {
	name := C.CString(library)
	defer C.free(unsafe.Pointer(name))
	if why := C.bv_load(name); why != nil {
		return errors.New(C.GoString(why))
	}
	return nil
}

// errno is the error of a shim's negative result or *error.
func errno(n C.int) error {
	if n < 0 {
		n = -n
	}
	return syscall.Errno(n)
}

// drivable lists the devices that libibverbs can drive.
func drivable() ([]string, error) {
	if err := load(); err != nil {
		return nil, unavailable("libibverbs cannot be loaded (%v): install libibverbs1 and ibverbs-providers (rdma-core)", err)
	}
	var buffer [C.BV_MAX_NAMES * C.BV_NAME]byte
	n := C.bv_devices((*C.char)(unsafe.Pointer(&buffer[0])))
	if n < 0 {
		if errors.Is(errno(n), syscall.ENOSYS) {
			return nil, unavailable("the kernel offers no RDMA devices to programs: load its module ib_uverbs")
		}
		return nil, unavailable("libibverbs cannot list the devices: %v", errno(n))
	}
	var names []string
	for i := range int(n) {
		names = append(names, unix.ByteSliceToString(buffer[i*C.BV_NAME:(i+1)*C.BV_NAME]))
	}
	return names, nil
}

// Find lists the ports that can be used with cfg, each with one address, best first: hardware before software. The error wraps
// fabric.ErrUnavailable and says in one sentence what is missing and what to do.
func Find(cfg Config) ([]Endpoint, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	candidates, err := thisMachine().scan(cfg)
	if err != nil {
		return nil, err
	}
	names, err := drivable()
	if err != nil {
		return nil, err
	}
	var found []Endpoint
	var reasons []string
	opened := make(map[string]verbsContext)
	defer func() {
		for _, ctx := range opened {
			ctx.close()
		}
	}()
	for _, e := range candidates {
		if !slices.Contains(names, e.Device) {
			reasons = append(reasons, "libibverbs has no driver for "+e.Device+": install ibverbs-providers and load ib_uverbs")
			continue
		}
		ctx, ok := opened[e.Device]
		if !ok {
			if ctx, err = openContext(e.Device); err != nil {
				reasons = append(reasons, err.Error())
				continue
			}
			opened[e.Device] = ctx
		}
		if _, why := ctx.query(&e, cfg); why != "" {
			reasons = append(reasons, why)
			continue
		}
		found = append(found, e)
	}
	if len(found) == 0 {
		return nil, unavailable("%s", strings.Join(slices.Compact(reasons), "; "))
	}
	return found, nil
}

// verbsContext is an opened device without anything made from it.
type verbsContext struct {
	c *C.struct_bv_context
}

func openContext(name string) (verbsContext, error) {
	cname := C.CString(name)
	defer C.free(unsafe.Pointer(cname))
	var code C.int
	c := C.bv_open(cname, &code)
	if c != nil {
		return verbsContext{c}, nil
	}
	switch err := errno(code); {
	case errors.Is(err, os.ErrPermission):
		return verbsContext{}, errors.New("this user may not open " + name + ": give it read and write access to /dev/infiniband/uverbs*")
	case errors.Is(err, os.ErrNotExist):
		return verbsContext{}, errors.New("the device file of " + name + " is missing: make /dev/infiniband visible to this process")
	default:
		return verbsContext{}, errors.New(name + " cannot be opened: " + err.Error())
	}
}

func (v verbsContext) close() { C.bv_close(v.c) }

// limits is what a device says of itself.
type limits struct {
	device C.struct_bv_device_attr
	routed bool // the port wants GIDs in every packet
}

// query asks the device itself about the endpoint and fills in the MTU; why it cannot be used is not "".
func (v verbsContext) query(e *Endpoint, cfg Config) (l limits, why string) {
	if n := C.bv_query_device(v.c, &l.device); n != 0 {
		return l, e.Device + " does not tell its limits: " + errno(n).Error()
	}
	var port C.struct_bv_port_attr
	if n := C.bv_query_port(v.c, C.int(e.Port), &port); n != 0 {
		return l, e.Device + " does not tell the state of its port: " + errno(n).Error()
	}
	if port.state != C.BV_PORT_ACTIVE {
		return l, "the port of " + e.Device + " is not active: connect the cable and set its network interface up"
	}
	var gid [16]byte
	if n := C.bv_query_gid(v.c, C.int(e.Port), C.int(e.GIDIndex), (*C.uint8_t)(&gid[0])); n != 0 || gid != e.GID {
		return l, "the GID table of " + e.Device + " changes just now: try again"
	}
	e.MTU = min(mtuBytes(uint8(port.active_mtu)), cfg.MTU)
	l.routed = e.Link == LinkEthernet || port.flags&C.BV_QPF_GRH_REQUIRED != 0
	if e.Link == LinkInfiniBand {
		e.LID = uint16(port.lid)
	}
	if l.device.max_srq == 0 {
		return l, e.Device + " has no shared receive queues"
	}
	return l, ""
}
