//go:build linux && cgo

package verbs

// #cgo noescape bv_poll
// #cgo nocallback bv_poll
// #cgo noescape bv_arm
// #cgo nocallback bv_arm
// #cgo noescape bv_take_events
// #cgo nocallback bv_take_events
// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/bornode/bornode/transport/rdma/fabric"
)

// cq is fabric.CQ with an event channel of its own.
type cq struct {
	dev     *device
	channel *C.struct_bv_comp_channel
	file    *os.File // duplicate of the channel's descriptor, in Go's poller
	raw     syscall.RawConn
	closed  atomic.Bool

	waiting sync.Mutex         // held by Wait
	take    func(uintptr) bool // takes the channel's events into events; made once
	events  C.int
	arming  sync.Mutex // held by Arm, which is a system call on software RoCE

	mu    sync.Mutex
	c     *C.struct_bv_cq // nil after Close, which sets it under all three locks
	out   []C.struct_bv_done
	stash []fabric.Completion // polled by a control operation, not yet given out
	qps   int                 // open queue pairs that use it
}

var _ fabric.CQ = (*cq)(nil)

// NewCQ makes the queue with room for the completions of control operations beside the caller's.
func (d *device) NewCQ(depth int) (_ fabric.CQ, err error) {
	if depth < 1 || depth > d.caps.MaxCQ {
		return nil, fmt.Errorf("verbs: a completion queue of %s has 1 to %d entries, not %d", d.at.Device, d.caps.MaxCQ, depth)
	}
	if err := d.hold(&d.openCQs); err != nil {
		return nil, err
	}
	q := &cq{dev: d}
	q.take = func(uintptr) bool {
		q.events = C.bv_take_events(q.channel, q.c)
		return q.events != 0 || q.closed.Load()
	}
	defer func() {
		if err != nil {
			_ = q.release()
		}
	}()
	var code C.int
	if q.channel = C.bv_create_channel(d.ctx.c, &code); q.channel == nil {
		return nil, fmt.Errorf("verbs: make an event channel: %w", errno(code))
	}
	if q.file, err = pollable(int(q.channel.fd)); err != nil {
		return nil, fmt.Errorf("verbs: wait for completions: %w", err)
	}
	if q.raw, err = q.file.SyscallConn(); err != nil {
		return nil, fmt.Errorf("verbs: wait for completions: %w", err)
	}
	if q.c = C.bv_create_cq(d.ctx.c, C.int(depth+reservedCompletions), q.channel, &code); q.c == nil {
		return nil, fmt.Errorf("verbs: make a completion queue of %d entries: %w", depth, explain(errno(code)))
	}
	q.out = unsafe.Slice((*C.struct_bv_done)(C.calloc(C.BV_BATCH, C.sizeof_struct_bv_done)), C.BV_BATCH)
	return q, nil
}

// Poll gives what control operations left first.
func (q *cq) Poll(out []fabric.Completion) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	if len(q.stash) > 0 {
		n = copy(out, q.stash)
		if q.stash = q.stash[n:]; len(q.stash) == 0 {
			q.stash = nil
		}
	}
	for n < len(out) {
		ask := min(len(out)-n, len(q.out))
		if q.c == nil {
			return n, fabric.ErrClosed
		}
		got, err := q.poll(ask)
		if err != nil {
			return n, err
		}
		for i := range got {
			if q.translate(&q.out[i], &out[n]) {
				n++
			}
		}
		if got < ask {
			break
		}
	}
	return n, nil
}

// poll fetches up to n completions into q.out; the caller holds the lock.
func (q *cq) poll(n int) (int, error) {
	got := C.bv_poll(q.c, &q.out[0], C.int(n))
	if got < 0 {
		return 0, fmt.Errorf("verbs: poll: %w", errno(got))
	}
	return int(got), nil
}

// sweep polls everything for a control operation that waits: its own completion is delivered, others are left for
// Poll. It consumes no event: an armed queue tells its poller of every completion, swept or not.
func (q *cq) sweep() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.c != nil {
		got, err := q.poll(len(q.out))
		if err != nil {
			return
		}
		for i := range got {
			var c fabric.Completion
			if q.translate(&q.out[i], &c) {
				q.stash = append(q.stash, c)
			}
		}
		if got < len(q.out) {
			return
		}
	}
}

// translate makes the caller's completion; false when it is none of the caller's.
func (q *cq) translate(in *C.struct_bv_done, out *fabric.Completion) bool {
	kind, index, generation, low := splitID(uint64(in.id))
	status := statusOf(in.status)
	*out = fabric.Completion{QP: uint32(in.qp), Status: status}
	if kind == kindRecv {
		s := q.dev.srqs[index&(maxSRQs-1)].Load()
		if s == nil {
			return false
		}
		id, ok := s.take(low)
		if !ok {
			return false
		}
		out.ID, out.Op = id, fabric.OpRecv
		if in.opcode == C.BV_WC_RECV_RDMA_WITH_IMM {
			out.Op, out.Imm = fabric.OpRecvImm, uint32(in.imm)
		}
		if status == fabric.StatusOK {
			out.Bytes = uint32(in.bytes)
		} else if p := q.dev.numbered(uint32(in.qp)); p != nil {
			p.fail()
		}
		return true
	}
	p := q.dev.qps[index].Load()
	if p == nil || p.generation != generation {
		return false // of a queue pair that is closed
	}
	out.ID, out.Op = p.completed(low)
	if kind == kindControl {
		p.deliver(result{position: low, status: status, vendor: uint32(in.vendor)})
		return false
	}
	if status != fabric.StatusOK {
		p.fail()
	}
	return true
}

func statusOf(s C.int32_t) fabric.Status {
	switch s {
	case C.BV_WC_SUCCESS:
		return fabric.StatusOK
	case C.BV_WC_WR_FLUSH_ERR:
		return fabric.StatusFlushed
	case C.BV_WC_RETRY_EXC_ERR, C.BV_WC_RESP_TIMEOUT_ERR:
		return fabric.StatusRetryExceeded
	case C.BV_WC_RNR_RETRY_EXC_ERR:
		return fabric.StatusRNR
	case C.BV_WC_REM_ACCESS_ERR, C.BV_WC_REM_INV_REQ_ERR:
		return fabric.StatusRemoteAccess
	case C.BV_WC_LOC_LEN_ERR, C.BV_WC_LOC_QP_OP_ERR, C.BV_WC_LOC_PROT_ERR, C.BV_WC_MW_BIND_ERR, C.BV_WC_LOC_ACCESS_ERR:
		return fabric.StatusLocal
	}
	return fabric.StatusOther
}

// Arm is one call into the driver.
func (q *cq) Arm() error {
	q.arming.Lock()
	defer q.arming.Unlock()
	if q.c == nil {
		return fabric.ErrClosed
	}
	if n := C.bv_arm(q.c); n != 0 {
		return fmt.Errorf("verbs: arm: %w", errno(n))
	}
	return nil
}

// Wait sleeps in Go's poller; one call takes and acknowledges all events.
func (q *cq) Wait() error {
	q.waiting.Lock()
	defer q.waiting.Unlock()
	if q.closed.Load() {
		return fabric.ErrClosed
	}
	err := q.raw.Read(q.take)
	if q.closed.Load() {
		return fabric.ErrClosed
	}
	if err != nil {
		return fmt.Errorf("verbs: wait: %w", err)
	}
	if q.events < 0 {
		return fmt.Errorf("verbs: wait: %w", errno(q.events))
	}
	return nil
}

// Close wakes Wait. It refuses while a queue pair uses the queue.
func (q *cq) Close() error {
	q.mu.Lock()
	if q.qps > 0 {
		defer q.mu.Unlock()
		return fmt.Errorf("verbs: %d queue pairs use the completion queue", q.qps)
	}
	if q.closed.Swap(true) {
		q.mu.Unlock()
		return nil
	}
	q.mu.Unlock()
	err := q.file.Close() // wakes Wait
	q.file = nil
	q.waiting.Lock()
	defer q.waiting.Unlock()
	q.arming.Lock()
	defer q.arming.Unlock()
	q.mu.Lock()
	defer q.mu.Unlock()
	C.bv_take_events(q.channel, q.c) // an event that is taken but not acknowledged blocks destroy for ever
	if e := q.release(); e != nil {
		return e
	}
	return err
}

// release frees whatever was made.
func (q *cq) release() error {
	if q.file != nil {
		_ = q.file.Close()
	}
	if q.c != nil {
		if n := C.bv_destroy_cq(q.c); n != 0 {
			return fmt.Errorf("verbs: free a completion queue: %w", errno(n))
		}
		q.c = nil
		C.free(unsafe.Pointer(&q.out[0]))
		q.out = nil
	}
	if q.channel != nil {
		if n := C.bv_destroy_channel(q.channel); n != 0 {
			return fmt.Errorf("verbs: free an event channel: %w", errno(n))
		}
		q.channel = nil
	}
	q.dev.drop(&q.dev.openCQs)
	return nil
}
