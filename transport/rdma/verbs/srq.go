//go:build linux && cgo

package verbs

// #cgo noescape bv_post_srq
// #cgo nocallback bv_post_srq
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// srq is fabric.SRQ. Its lock guards all but what is fixed; nothing slow is done under it.
type srq struct {
	dev   *device
	index int

	mu      sync.Mutex
	c       *C.struct_bv_srq // nil after Close
	ids     []uint64         // the callers' IDs by place; a free place holds the next free one
	free    uint32           // first free place; len(ids): none
	entries []C.struct_bv_entry
	qps     int // open queue pairs that use it
}

var _ fabric.SRQ = (*srq)(nil)

// NewSRQ makes the receive queue.
func (d *device) NewSRQ(depth int) (fabric.SRQ, error) {
	if depth < 1 || depth > d.caps.MaxRecv {
		return nil, fmt.Errorf("verbs: a receive queue of %s has 1 to %d entries, not %d", d.at.Device, d.caps.MaxRecv, depth)
	}
	if err := d.hold(&d.openSRQs); err != nil {
		return nil, err
	}
	var code C.int
	c := C.bv_create_srq(d.pd, C.int(depth), &code)
	if c == nil {
		d.drop(&d.openSRQs)
		return nil, fmt.Errorf("verbs: make a receive queue of %d entries: %w", depth, explain(errno(code)))
	}
	s := &srq{dev: d, c: c, ids: make([]uint64, depth)}
	for i := range s.ids {
		s.ids[i] = uint64(i + 1)
	}
	s.entries = unsafe.Slice((*C.struct_bv_entry)(C.calloc(C.BV_BATCH, C.sizeof_struct_bv_entry)), C.BV_BATCH)
	for ; s.index < maxSRQs; s.index++ {
		if d.srqs[s.index].CompareAndSwap(nil, s) {
			return s, nil
		}
	}
	s.index = 0
	return nil, errors.Join(fmt.Errorf("verbs: %d receive queues are open", maxSRQs), s.Close())
}

// Post takes entries while there are places.
func (s *srq) Post(wrs []fabric.RecvWR) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		return 0, fabric.ErrClosed
	}
	for posted := 0; posted < len(wrs); {
		n := 0
		for n < len(s.entries) && posted+n < len(wrs) && int(s.free) < len(s.ids) {
			wr := &wrs[posted+n]
			place := s.free
			s.free = uint32(s.ids[place])
			s.ids[place] = wr.ID
			s.entries[n] = C.struct_bv_entry{
				id: C.uint64_t(recvID(s.index, place)), local: C.uint64_t(address(wr.Local)),
				bytes: C.uint32_t(len(wr.Local)), lkey: C.uint32_t(wr.Key),
			}
			n++
		}
		if n == 0 {
			return posted, fabric.ErrFull
		}
		var taken C.int
		result := C.bv_post_srq(s.c, &s.entries[0], C.int(n), &taken)
		for i := int(taken); i < n; i++ {
			s.release(uint32(s.entries[i].id))
		}
		posted += int(taken)
		if result != 0 {
			return posted, fullOr(result)
		}
	}
	return len(wrs), nil
}

// release frees a place; the caller holds the lock.
func (s *srq) release(place uint32) {
	s.ids[place] = uint64(s.free)
	s.free = place
}

// take gives back the caller's ID of a completed entry and frees its place.
func (s *srq) take(place uint32) (id uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if int(place) >= len(s.ids) {
		return 0, false
	}
	id = s.ids[place]
	s.release(place)
	return id, true
}

// ArmLimit asks for the event.
func (s *srq) ArmLimit(n int) error {
	s.mu.Lock()
	c := s.c
	s.mu.Unlock()
	if c == nil {
		return fabric.ErrClosed
	}
	if result := C.bv_limit_srq(c, C.int(n)); result != 0 {
		return fmt.Errorf("verbs: limit of a receive queue: %w", errno(result))
	}
	return nil
}

// Close refuses while a queue pair uses the receive queue.
func (s *srq) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		return nil
	}
	if s.qps > 0 {
		return fmt.Errorf("verbs: %d queue pairs use the receive queue", s.qps)
	}
	if n := C.bv_destroy_srq(s.c); n != 0 {
		return fmt.Errorf("verbs: free a receive queue: %w", errno(n))
	}
	s.c = nil
	s.dev.srqs[s.index].CompareAndSwap(s, nil)
	s.dev.drop(&s.dev.openSRQs)
	C.free(unsafe.Pointer(&s.entries[0]))
	s.entries = nil
	return nil
}
