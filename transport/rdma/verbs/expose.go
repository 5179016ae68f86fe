//go:build linux && cgo

package verbs

// #include "shim.h"
import "C"

import (
	"context"
	"errors"
	"fmt"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// exposure is memory that the peer may use: by a window, by a registration of its own, or by a window on that.
type exposure struct {
	of *region
	mw *C.struct_bv_mw
	mr *C.struct_bv_mr
}

// Expose binds a window to the part for this queue pair alone. Where windows do not keep to their part it registers the
// part again and binds the window to that; where there are none, the registration is all.
// It waits for the bind to be done, so that the peer can be told at once.
func (q *qp) Expose(r fabric.Region, offset, n int, access fabric.Access) (fabric.Remote, error) {
	of, ok := r.(*region)
	if !ok || of.dev != q.dev {
		return fabric.Remote{}, errors.New("verbs: a queue pair exposes regions of its device")
	}
	if n <= 0 || offset < 0 || offset > of.n-n {
		return fabric.Remote{}, fmt.Errorf("verbs: expose %d bytes at %d of a region of %d", n, offset, of.n)
	}
	if access == 0 || access&^(fabric.RemoteRead|fabric.RemoteWrite) != 0 {
		return fabric.Remote{}, fmt.Errorf("verbs: access %d is none", access)
	}
	if access&fabric.RemoteRead != 0 && !q.dev.caps.Reads {
		return fabric.Remote{}, errNoReads
	}
	q.control.Lock()
	defer q.control.Unlock()
	q.mu.Lock()
	ready := q.ready
	err := q.unready()
	q.mu.Unlock()
	if !ready || q.broken() {
		return fabric.Remote{}, err
	}
	if len(q.exposed) == fabric.MaxExposed {
		return fabric.Remote{}, fmt.Errorf("verbs: a queue pair exposes at most %d regions", fabric.MaxExposed)
	}
	if !of.hold(1) {
		return fabric.Remote{}, fmt.Errorf("verbs: the region: %w", fabric.ErrClosed)
	}
	e := exposure{of: of}
	var key uint32
	switch q.dev.windows {
	case windowsBounded:
		key, err = q.bind(&e, of.mr, offset, n, access)
	case windowsLoose:
		if err = q.reregister(&e, offset, n, C.BV_ACCESS_LOCAL_WRITE|C.BV_ACCESS_MW_BIND); err == nil {
			key, err = q.bind(&e, e.mr, offset, n, access)
		}
	default:
		if err = q.reregister(&e, offset, n, C.BV_ACCESS_LOCAL_WRITE|remoteAccess(access)); err == nil {
			key = uint32(e.mr.rkey)
		}
	}
	if err != nil {
		return fabric.Remote{}, errors.Join(err, e.end())
	}
	q.exposed = append(q.exposed, e)
	return fabric.Remote{Addr: of.addr(offset), Key: key, Len: uint32(n)}, nil
}

// hold counts the queue pairs that expose the region; false if it is closed.
func (r *region) hold(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	r.exposed += n
	return true
}

// remoteAccess is the verbs' word for access.
func remoteAccess(access fabric.Access) (flags C.int) {
	if access&fabric.RemoteWrite != 0 {
		flags |= C.BV_ACCESS_REMOTE_WRITE
	}
	if access&fabric.RemoteRead != 0 {
		flags |= C.BV_ACCESS_REMOTE_READ
	}
	return flags
}

func (q *qp) bind(e *exposure, to *C.struct_bv_mr, offset, n int, access fabric.Access) (uint32, error) {
	var code C.int
	if e.mw = C.bv_alloc_mw(q.dev.pd, &code); e.mw == nil {
		return 0, fmt.Errorf("verbs: make a memory window: %w", errno(code))
	}
	old := uint32(e.mw.rkey)
	key := old&^0xff | (old+1)&0xff // the low byte is the user's, and must change with every bind
	q.mu.Lock()
	position := q.reserve()
	failed := C.bv_bind(q.c, C.uint64_t(sendID(kindControl, q.index, q.generation, position)), e.mw, C.uint32_t(key),
		to, C.uint64_t(e.of.addr(offset)), C.uint64_t(n), C.uint32_t(remoteAccess(access)))
	if failed != 0 {
		q.unreserve(position)
	}
	q.mu.Unlock()
	if failed != 0 {
		return 0, fmt.Errorf("verbs: bind a memory window: %w", fullOr(failed))
	}
	ctx, cancel := context.WithTimeout(context.Background(), bindPatience)
	defer cancel()
	r, err := q.await(ctx, position, q.down)
	if errStopped(err) {
		q.fail()
		C.bv_break_qp(q.c)
		return 0, fmt.Errorf("verbs: bind a memory window: %w: not done after %v", fabric.ErrBroken, bindPatience)
	}
	if err != nil {
		return 0, err
	}
	if r.status != fabric.StatusOK {
		q.fail() // a request that failed took the queue pair with it
		return 0, failure(r.status, r.vendor)
	}
	return key, nil
}

// reregister registers the part for itself.
func (q *qp) reregister(e *exposure, offset, n int, access C.int) (err error) {
	e.mr, err = q.dev.register(e.of.mem[offset:offset+n], access)
	return err
}

// end takes the peer's right away.
func (e *exposure) end() error {
	if e.mw != nil {
		if n := C.bv_dealloc_mw(e.mw); n != 0 {
			return fmt.Errorf("verbs: free a memory window: %w", errno(n))
		}
		e.mw = nil
	}
	if e.mr != nil {
		if n := C.bv_dereg_mr(e.mr); n != 0 {
			return fmt.Errorf("verbs: unregister exposed memory: %w", errno(n))
		}
		e.mr = nil
	}
	e.of.hold(-1)
	return nil
}

// unexpose ends every exposure; the queue pair is in the error state. A region whose exposure cannot be ended cannot be
// closed.
func (q *qp) unexpose() error {
	var errs []error
	for i := range q.exposed {
		errs = append(errs, q.exposed[i].end())
	}
	q.exposed = nil
	return errors.Join(errs...)
}

// errStopped reports whether waiting ended for the caller's reason.
func errStopped(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}
